"""Assets that write tables of the history, and the columns of tables and views as Dagster shows them."""

from collections.abc import Callable, Iterable
from typing import Any

import dagster as dg

from rageval_dagster.assets.partitions import OWNERS, clients_partitions
from rageval_dagster.resources.textless import without_texts
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.tables import metadata

SCHEMA = "dagster/column_schema"


def client_asset(
    group: str,
    table: str,
    deps: Iterable[dg.AssetsDefinition | dg.SourceAsset],
    kinds: Iterable[str] = ("python", "sql"),
    **options: Any,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Decorates the body of an asset that writes a client's rows of a table; what it raises holds no text."""

    def decorate(body: Callable[..., Any]) -> dg.AssetsDefinition:
        asset = dg.asset(
            group_name=group,
            kinds=set(kinds),
            owners=OWNERS,
            deps=deps,
            partitions_def=clients_partitions,
            # The columns of the table, whatever database system it is on.
            metadata={
                SCHEMA: dg.TableSchema(
                    [dg.TableColumn(each.name, str(each.type)) for each in metadata.tables[table].columns]
                )
            },
            **options,
        )
        return asset(without_texts(body))

    return decorate


def view_schema(db: Database, name: str) -> dg.TableSchema:
    """The columns of a view as the database has them."""
    from rageval_dagster.storage.views import view_columns

    return dg.TableSchema([dg.TableColumn(column, kind) for column, kind in view_columns(db, name)])
