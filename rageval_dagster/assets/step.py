"""The frame of a client's assets: what Dagster is told of them, and what their bodies are given.

A body takes a `Step` and the resources that it names. It loads by id, calls one domain function, and returns metadata.
"""

import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import dagster as dg

from rageval_dagster.assets.partitions import OWNERS, clients_partitions
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Pace, Progress
from rageval_dagster.resources import PREFIX, ClientLease, HistoryDatabase
from rageval_dagster.resources.textless import without_texts
from rageval_dagster.resources.tracing import stage_span
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.tables import metadata

SCHEMA = "dagster/column_schema"
SECONDS_BETWEEN_LINES = 5.0

Body = Callable[..., Any]
Metadata = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """What every step of a client's run has at hand."""

    context: Any
    database: HistoryDatabase

    @cached_property
    def client_id(self) -> str:
        return self.database.client_of(self.context.partition_key)

    @cached_property
    def db(self) -> Database:
        return self.database.open()

    @property
    def run_id(self) -> str:
        """Dagster's."""
        return self.context.run.run_id

    def materialized(self, asset: dg.AssetKey, result: dg.MaterializeResult) -> None:
        """Tells Dagster, in the midst of this step, that another asset of the client was made, and checked.

        Args:
            result: whose checks are blocking ones.

        Raises:
            DatasetError: a check did not pass.
        """
        partition = self.context.partition_key
        self.context.log_event(dg.AssetMaterialization(asset, partition=partition, metadata=result.metadata))
        for each in result.check_results or ():
            evaluation = dg.AssetCheckEvaluation(
                asset_key=asset,
                check_name=each.check_name or "",
                passed=each.passed,
                metadata=each.metadata or {},
                severity=each.severity,
                description=each.description,
                blocking=True,
                partition=partition,
            )
            self.context.log_event(evaluation)
            if not each.passed and each.severity == dg.AssetCheckSeverity.ERROR:
                raise DatasetError(f"{asset.to_user_string()}: {each.description}")

    def progress(self, what: str) -> Progress:
        """A callback that logs `what: done/total (rate; model calls, cost)` at most every five seconds, and when all is
        done."""
        from rageval_dagster.storage.caches import model_usage

        before = model_usage(self.db, self.client_id, self.run_id)
        started = time.monotonic()
        last_line, said = started, -1
        pace = Pace()

        def report(done: int, total: int) -> None:
            nonlocal last_line, said
            now = time.monotonic()
            if done == said or (done < total and now - last_line < SECONDS_BETWEEN_LINES):
                return
            last_line, said = now, done
            spent = (model_usage(self.db, self.client_id, self.run_id) - before).described()
            going = pace.describe(done, total, now - started)
            self.context.log.info(f"{what}: {done}/{total} ({going}{f'; {spent}' if spent else ''})")

        return report


def client_asset(
    group: str,
    table: str | None,
    deps: Iterable[dg.AssetsDefinition | dg.SourceAsset],
    kinds: Iterable[str] = ("python", "sql"),
    leased: bool = True,
    **options: Any,
) -> Callable[[Body], dg.AssetsDefinition]:
    """Decorates the body of an asset that writes a client's rows of a table, under its lease.

    The body returns its metadata, or a whole result, or yields that and goes on once Dagster has stored it; with
    `output_required` false it may return None, which ends the run there.
    """
    # The columns of the table, whatever database system it is on.
    columns = [] if table is None else metadata.tables[table].columns
    schema = dg.TableSchema([dg.TableColumn(each.name, str(each.type)) for each in columns])

    def decorate(body: Body) -> dg.AssetsDefinition:
        def run(*args: Any, **resources: Any) -> Iterator[dg.MaterializeResult]:
            step: Step = args[0]
            with stage_span(step.run_id, body.__name__) as told:
                made = body(*args, **resources)
                results: Iterable[Any] = made if inspect.isgenerator(made) else [] if made is None else [made]
                for each in results:
                    result: Any = dg.MaterializeResult(metadata=each) if isinstance(each, Mapping) else each
                    told(result.metadata)
                    yield result

        asset = dg.asset(
            group_name=group,
            kinds=set(kinds),
            owners=OWNERS,
            deps=deps,
            partitions_def=clients_partitions,
            metadata={SCHEMA: schema} if columns else None,
            **options,
        )
        return asset(_for_dagster(body, run, dg.AssetExecutionContext, {"lease": ClientLease} if leased else {}))

    return decorate


def _for_dagster(body: Body, run: Callable[..., Any], context_type: type, added: Mapping[str, type]) -> Body:
    """`body` as Dagster calls it: with a context and every resource it names, and those `added`, by name and type.

    Dagster knows the resources by their prefixed names.
    """
    own = list(inspect.signature(body).parameters.values())[1:]
    wanted = [parameter.name for parameter in own]
    resources = {"database": HistoryDatabase, **added, **{each.name: each.annotation for each in own}}

    def call(context: Any, **given: Any) -> Any:
        return run(Step(context, given[f"{PREFIX}database"]), **{name: given[f"{PREFIX}{name}"] for name in wanted})

    def generate(context: Any, **given: Any) -> Iterator[Any]:
        yield from call(context, **given)

    wrapped: Any = generate if inspect.isgeneratorfunction(run) else call
    wrapped.__name__, wrapped.__doc__, wrapped.__module__ = body.__name__, body.__doc__, body.__module__
    takes = {"context": context_type, **{f"{PREFIX}{name}": of for name, of in resources.items()}}
    wrapped.__annotations__ = takes
    wrapped.__signature__ = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=of) for name, of in takes.items()]
    )
    return without_texts(wrapped)


def view_schema(db: Database, name: str) -> dg.TableSchema:
    """The columns of a view as the database has them."""
    from rageval_dagster.storage.views import view_columns

    return dg.TableSchema([dg.TableColumn(column, kind) for column, kind in view_columns(db, name)])
