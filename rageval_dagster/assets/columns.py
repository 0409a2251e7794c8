"""The columns of tables and views as Dagster shows them."""

import dagster as dg

from rageval_dagster.storage.database import Database
from rageval_dagster.storage.tables import metadata

SCHEMA = "dagster/column_schema"


def table_schema(name: str) -> dg.TableSchema:
    """The columns of a table of the history database, whatever system it is on."""
    return dg.TableSchema([dg.TableColumn(each.name, str(each.type)) for each in metadata.tables[name].columns])


def view_schema(db: Database, name: str) -> dg.TableSchema:
    """The columns of a view as the database has them."""
    from rageval_dagster.storage.views import view_columns

    return dg.TableSchema([dg.TableColumn(column, kind) for column, kind in view_columns(db, name)])
