"""The one door to what Dagster does not promise: its tables, its run loop, its ticks, its kinds of cron.

tests/pipeline/test_dagster_internals.py holds all of it against Dagster, scripts/contracts.sh against other versions.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as sa
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus  # noqa: F401  (for celery_launcher)
from dagster._serdes import ConfigurableClassData, unpack_value  # noqa: F401  (for dagster_storage, worker)

STORAGE_FILES = ("history/runs.db", "history/runs/index.db", "schedules/schedules.db")
"""Of Dagster's own storage on SQLite, under DAGSTER_HOME."""

CHECK_FAILED = "DagsterAssetCheckFailedError"
"""The class of the error of a step that a blocking check failed."""


@dataclass(frozen=True)
class Owned:
    """What is this project's in an instance that it may share with others.

    `prefix` begins the names of its jobs, sensors, schedules and partitions.
    """

    prefix: str
    assets: Collection[dg.AssetKey]

    @property
    def keys(self) -> list[str]:
        """The assets' keys as Dagster's tables have them."""
        return [key.to_string() for key in self.assets]


def is_cron(expression: str) -> bool:
    from dagster._utils.schedules import is_valid_cron_schedule

    return is_valid_cron_schedule(expression)


# Running.


def start_run(
    instance: dg.DagsterInstance,
    job: dg.JobDefinition,
    config: Mapping[str, Any],
    tags: Mapping[str, str],
    module: str,
    location: str,
) -> tuple[str, Iterator[dg.DagsterEvent]]:
    """The id of a new run in this process, and what happens in it, as it happens; nothing does before it is asked for.

    It belongs to the job that the UI loads from the `module` of that `location`.
    """
    from dagster._core.definitions.job_base import InMemoryJob
    from dagster._core.execution.api import execute_run_iterator
    from dagster._core.remote_origin import RemoteRepositoryOrigin
    from dagster._core.workspace.load_target import ModuleTarget

    [loaded] = ModuleTarget(
        module_name=module, attribute=None, working_directory=None, location_name=location
    ).create_origins()
    origin = RemoteRepositoryOrigin(loaded, "__repository__").get_job_origin(job.name)
    run = instance.create_run_for_job(
        job_def=job, run_config=config, tags=tags, remote_job_origin=origin, asset_selection=job.asset_selection
    )
    return run.run_id, execute_run_iterator(InMemoryJob(job), run, instance)


def is_interruption(event: dg.DagsterEvent) -> bool:
    """Whether the run failed because somebody stopped it."""
    from dagster._core.events import RunFailureReason

    return event.is_run_failure and event.job_failure_data.failure_reason == RunFailureReason.UNEXPECTED_TERMINATION


def root_cause(error: Any) -> Any:
    """The error at the root of a chain of `SerializableErrorInfo`, without Dagster's wrapping."""
    while error is not None and error.cause is not None:
        error = error.cause
    return error


def report_check(
    instance: dg.DagsterInstance,
    run: dg.DagsterRun,
    asset: dg.AssetKey,
    check: str,
    partition: str,
    passed: bool,
    description: str,
) -> None:
    """Stores a check's outcome under a run that has ended, about the partition's newest materialization."""
    from dagster._core.definitions.asset_checks.asset_check_evaluation import (
        AssetCheckEvaluationTargetMaterializationData,
    )

    # A check that does not name the newest materialization would be taken for outdated.
    made = instance.fetch_materializations(dg.AssetRecordsFilter(asset, asset_partitions=[partition]), limit=1)
    targets = [
        AssetCheckEvaluationTargetMaterializationData(
            storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
        )
        for record in made.records
    ]
    evaluation = dg.AssetCheckEvaluation(
        asset_key=asset,
        check_name=check,
        passed=passed,
        metadata={},
        description=description,
        target_materialization_data=targets[0] if targets else None,
        partition=partition,
    )
    kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION.value
    instance.report_dagster_event(dg.DagsterEvent(kind, run.job_name, event_specific_data=evaluation), run.run_id)


# Looking for runs.


def statuses_by_tag(
    instance: dg.DagsterInstance, job: str, tag: str, values: Collection[str]
) -> Iterator[tuple[str | None, str, dg.DagsterRunStatus]]:
    """Partition, value and status of the job's runs with one of these values of a tag; their bodies are not read."""
    from dagster._core.storage.runs.schema import RunsTable, RunTagsTable  # imports alembic

    query = sa.select(RunsTable.c.partition, RunTagsTable.c.value, RunsTable.c.status).join(
        RunTagsTable, RunTagsTable.c.run_id == RunsTable.c.run_id
    )
    here = (RunsTable.c.pipeline_name == job, RunTagsTable.c.key == tag, RunTagsTable.c.value.in_(values))
    for partition, value, status in _rows(instance.run_storage, query.where(*here)):
        yield partition, value, dg.DagsterRunStatus(status)


def partitions_at_work(instance: dg.DagsterInstance, job: str) -> set[str]:
    """The partitions that a run of the job waits or goes on for."""
    from dagster._core.storage.dagster_run import FINISHED_STATUSES
    from dagster._core.storage.runs.schema import RunsTable

    unfinished = [status.value for status in dg.DagsterRunStatus if status not in FINISHED_STATUSES]
    here = (RunsTable.c.pipeline_name == job, RunsTable.c.status.in_(unfinished))
    return {row.partition for row in _rows(instance.run_storage, sa.select(RunsTable.c.partition).where(*here))}


def unfinished_runs(storage: Any) -> dict[str, int]:
    """How many runs have not ended, by their status in small letters; each status that there is.

    `storage` is an instance's storage of runs, or an engine on its database.
    """
    from dagster._core.storage.dagster_run import FINISHED_STATUSES
    from dagster._core.storage.runs.schema import RunsTable

    unfinished = [status.value for status in dg.DagsterRunStatus if status not in FINISHED_STATUSES]
    status = RunsTable.c.status
    query = sa.select(status, sa.func.count()).where(status.in_(unfinished)).group_by(status)
    counts = {row[0]: row[1] for row in _rows(storage, query)}
    return {each.lower(): counts.get(each, 0) for each in unfinished}


def runs_of(instance: dg.DagsterInstance, partition: str | None, owned: Owned) -> dict[str, bool]:
    """{run id: whether it has ended} of a partition, or (None) of no single one: runs of owned jobs and assets."""
    from dagster._core.storage.dagster_run import FINISHED_STATUSES
    from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
    from dagster._core.storage.runs.schema import RunsTable

    runs, events = RunsTable.c, SqlEventLogStorageTable.c
    storage: Any = instance.event_log_storage
    with storage.index_connection() as connection:
        about = sa.select(events.run_id).where(events.asset_key.in_(owned.keys)).distinct()
        touching = set(connection.execute(about).scalars())
    query = sa.select(runs.run_id, runs.status, runs.pipeline_name).where(runs.partition == partition)
    return {
        row.run_id: dg.DagsterRunStatus(row.status) in FINISHED_STATUSES
        for row in _rows(instance.run_storage, query)
        if row.pipeline_name.startswith(owned.prefix) or row.run_id in touching
    }


# Deleting.


def delete_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """Deletes a run with its events and logs; on SQLite with its file."""
    from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage

    storage: Any = instance.event_log_storage
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    storage.delete_events(run_id)
    if isinstance(storage, SqliteEventLogStorage):
        for suffix in ("", "-wal", "-shm"):
            Path(storage.path_for_shard(run_id) + suffix).unlink(missing_ok=True)
    instance.run_storage.delete_run(run_id)  # last: a deletion that was killed finds it again


def delete_records(instance: dg.DagsterInstance, partition: str, owned: Owned) -> None:
    """Deletes a partition's events and checks of the assets, and the assets' last events whose run is gone."""
    from dagster._core.storage.event_log.schema import (
        AssetCheckExecutionsTable,
        AssetEventTagsTable,
        AssetKeyTable,
        SqlEventLogStorageTable,
    )

    storage: Any = instance.event_log_storage
    with storage.index_connection() as connection:
        event = SqlEventLogStorageTable.c
        events = sa.and_(event.partition == partition, event.asset_key.in_(owned.keys))
        ids = sa.select(event.id).where(events)
        connection.execute(sa.delete(AssetEventTagsTable).where(AssetEventTagsTable.c.event_id.in_(ids)))
        connection.execute(sa.delete(SqlEventLogStorageTable).where(events))
        check = AssetCheckExecutionsTable.c
        checks = sa.and_(check.partition == partition, check.asset_key.in_(owned.keys))
        connection.execute(sa.delete(AssetCheckExecutionsTable).where(checks))
        asset = AssetKeyTable.c
        newest = sa.select(asset.asset_key, asset.last_materialization).where(asset.asset_key.in_(owned.keys))
        last = connection.execute(newest).all()
        for asset_key, body in last:
            record = dg.deserialize_value(body) if body else None
            if isinstance(record, dg.EventLogRecord) and not instance.has_run(record.event_log_entry.run_id):
                # Dagster then looks for the one before among the events.
                this = AssetKeyTable.c.asset_key == asset_key
                connection.execute(sa.update(AssetKeyTable).where(this).values(last_materialization=None))
    instance.wipe_asset_cached_status(list(owned.assets))  # made again when it is asked for


def delete_backfills(instance: dg.DagsterInstance, names: Collection[str], owned: Owned) -> list[str]:
    """Deletes owned backfills that have one of the names; gives the ids of those that go on, which stay."""
    from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES
    from dagster._core.storage.runs.schema import BackfillTagsTable, BulkActionsTable

    storage: Any = instance.run_storage
    kept = []
    finished = {status.value for status in BULK_ACTION_TERMINAL_STATUSES}
    bulk = BulkActionsTable.c
    with storage.connect() as connection:
        query = sa.select(bulk.key, bulk.status, bulk.body).where(_may_have(bulk.body, names))
        for key, status, body in connection.execute(query).all():
            if not _has(body, names) or not _is_of(body, owned):
                continue
            if status not in finished:
                kept.append(key)
                continue
            connection.execute(sa.delete(BackfillTagsTable).where(BackfillTagsTable.c.backfill_id == key))
            connection.execute(sa.delete(BulkActionsTable).where(bulk.key == key))
    return kept


def blank_ticks(
    instance: dg.DagsterInstance, names: Collection[str], owned: Owned, without: Callable[[str | None], str]
) -> None:
    """Blanks what ticks of owned sensors and schedules with one of the names asked for; that they were stays.

    Without its last tick a schedule would make up for the nights before. Of a sensor whose cursor or last run key has
    one, `without` gives the cursor anew.
    """
    from dagster._core.scheduler.instigation import InstigatorTick, SensorInstigatorData, TickData, TickStatus
    from dagster._core.storage.schedules.schema import JobTickTable
    from dagster_shared.error import SerializableErrorInfo

    storage: Any = instance.schedule_storage
    body = JobTickTable.c.tick_body
    for tick_id, text in _rows(storage, sa.select(JobTickTable.c.id, body).where(_may_have(body, names))):
        tick = dg.deserialize_value(text, TickData)
        if tick.instigator_name.startswith(owned.prefix) and _has(text, names) and tick.status != TickStatus.STARTED:
            forgotten = SerializableErrorInfo("forgotten", [], None) if tick.error else None
            told = {"run_keys": [], "run_requests": [], "dynamic_partitions_request_results": [], "cursor": None}
            storage.update_tick(InstigatorTick(tick_id, tick._replace(**told, error=forgotten)))
    for state in instance.all_instigator_state():
        data = state.instigator_data
        if not state.name.startswith(owned.prefix) or not isinstance(data, SensorInstigatorData):
            continue
        if _has(json.dumps([data.cursor, data.last_run_key]), names):
            known = data._replace(cursor=without(data.cursor), last_run_key=None)
            instance.update_instigator_state(state.with_data(known))


def _rows(storage: Any, query: Any) -> list[Any]:
    with storage.connect() as connection:
        return connection.execute(query).all()


def _may_have(column: sa.Column[Any], names: Collection[str]) -> sa.ColumnElement[bool]:
    return sa.or_(*(column.contains(json.dumps(name)[1:-1], autoescape=True) for name in names))


def _is_of(backfill: str, owned: Owned) -> bool:
    """Whether a stored backfill names an owned asset, or a job by the name of its partitions."""
    return f'"{owned.prefix}' in backfill or _has(backfill, {key.path[-1] for key in owned.assets})


def _has(text: str, names: Collection[str]) -> bool:
    """Whether stored JSON has a name as a value, quoted in a message, or before the colon of a run key.

    Also in JSON within JSON, where backslashes are doubled.
    """
    either = "|".join(re.escape(json.dumps(name)[1:-1]).replace(r"\\", r"\\+") for name in names)
    return re.search(rf"""["'](?:{either})(?:\\*["']|:)""", text) is not None
