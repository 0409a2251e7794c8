"""Forgetting a client in Dagster: its partition, its runs, and what other records, ticks and files say of it."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as sa
from dagster._core.event_api import EventLogRecord
from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES
from dagster._core.scheduler.instigation import InstigatorTick, SensorInstigatorData, TickData, TickStatus
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    AssetKeyTable,
    SqlEventLogStorageTable,
)
from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage
from dagster._core.storage.runs.schema import BackfillTagsTable, BulkActionsTable, RunsTable
from dagster._core.storage.schedules.schema import JobTickTable
from dagster._serdes import deserialize_value
from dagster_shared.error import SerializableErrorInfo

from rageval_dagster.assets.partitions import CLIENTS_PARTITIONS
from rageval_dagster.automation.home import prepare_dagster_home
from rageval_dagster.corpus.names import partition_key
from rageval_dagster.corpus.watching import Cursor
from rageval_dagster.errors import DatabaseError
from rageval_dagster.settings import Settings
from rageval_dagster.storage.forgetting import scrub_file

_FILES = ("history/runs.db", "history/runs/index.db", "schedules/schedules.db")


@dataclass(frozen=True)
class Held:
    """What Dagster has of a client: its runs, and whether there is its partition.

    `shared_runs` are those of no single client (retention, views or observations started by hand): they may name any.
    """

    runs: int
    shared_runs: int
    partition: bool

    @property
    def anything(self) -> bool:
        return self.runs > 0 or self.partition


def held_in_dagster(settings: Settings, client_id: str) -> Held:
    """Counts what `forget_in_dagster` would delete."""
    prepare_dagster_home(settings)
    with dg.DagsterInstance.get() as instance:
        return Held(
            runs=len(_runs(instance, partition_key(client_id))),
            shared_runs=len(_runs(instance, None)),
            partition=instance.has_dynamic_partition(CLIENTS_PARTITIONS, partition_key(client_id)),
        )


def forget_in_dagster(settings: Settings, client_id: str) -> list[str]:
    """Deletes all that names the client in Dagster's storage; to be called with the client's lease.

    Dagster's own deletion of a run leaves its checks, the assets' last events and the ticks that asked for it. Running
    it again finishes what a killed one began.

    Returns:
        What could not be deleted, a sentence each, with what to do.
    """
    prepare_dagster_home(settings)
    with dg.DagsterInstance.get() as instance:
        kept = _delete_runs(instance, partition_key(client_id))
        _delete_records(instance, partition_key(client_id))
        kept += _delete_backfills(instance, client_id)
        _blank_ticks(instance, client_id)
        instance.delete_dynamic_partition(CLIENTS_PARTITIONS, partition_key(client_id))
        root = Path(instance.root_directory)
    for path in (root / name for name in _FILES):
        if path.exists():
            try:
                scrub_file(path)
            except DatabaseError as error:
                kept.append(str(error))
    return kept


def _runs(instance: dg.DagsterInstance, partition: str | None) -> dict[str, dg.DagsterRunStatus]:
    storage: Any = instance.run_storage
    query = sa.select(RunsTable.c.run_id, RunsTable.c.status).where(RunsTable.c.partition == partition)
    with storage.connect() as connection:
        rows = connection.execute(query).all()
    return {row.run_id: dg.DagsterRunStatus(row.status) for row in rows}


def _delete_runs(instance: dg.DagsterInstance, partition: str) -> list[str]:
    own, shared = _runs(instance, partition), _runs(instance, None)
    going_on = [run_id for run_id, status in shared.items() if status not in FINISHED_STATUSES]
    storage: Any = instance.event_log_storage
    for run_id in [*own, *(run_id for run_id in shared if run_id not in going_on)]:
        instance.compute_log_manager.delete_logs(prefix=[run_id])
        storage.delete_events(run_id)
        if isinstance(storage, SqliteEventLogStorage):
            for suffix in ("", "-wal", "-shm"):
                Path(storage.path_for_shard(run_id) + suffix).unlink(missing_ok=True)
        instance.run_storage.delete_run(run_id)  # last: a deletion that was killed finds it again
    return [f"run {run_id}, which is of no single client, goes on; run forget again after that" for run_id in going_on]


def _delete_records(instance: dg.DagsterInstance, partition: str) -> None:
    storage: Any = instance.event_log_storage
    with storage.index_connection() as connection:
        events = SqlEventLogStorageTable.c.partition == partition
        ids = sa.select(SqlEventLogStorageTable.c.id).where(events)
        connection.execute(sa.delete(AssetEventTagsTable).where(AssetEventTagsTable.c.event_id.in_(ids)))
        connection.execute(sa.delete(SqlEventLogStorageTable).where(events))
        checks = AssetCheckExecutionsTable.c.partition == partition
        connection.execute(sa.delete(AssetCheckExecutionsTable).where(checks))
        last = connection.execute(sa.select(AssetKeyTable.c.asset_key, AssetKeyTable.c.last_materialization)).all()
        for asset_key, body in last:
            record = deserialize_value(body) if body else None
            if isinstance(record, EventLogRecord) and not instance.has_run(record.event_log_entry.run_id):
                # Dagster then looks for the one before among the events.
                this = AssetKeyTable.c.asset_key == asset_key
                connection.execute(sa.update(AssetKeyTable).where(this).values(last_materialization=None))
    instance.wipe_asset_cached_status(list(instance.all_asset_keys()))  # made again when it is asked for


def _delete_backfills(instance: dg.DagsterInstance, client_id: str) -> list[str]:
    storage: Any = instance.run_storage
    kept = []
    finished = {status.value for status in BULK_ACTION_TERMINAL_STATUSES}
    with storage.connect() as connection:
        rows = connection.execute(
            sa.select(BulkActionsTable.c.key, BulkActionsTable.c.status, BulkActionsTable.c.body).where(
                _may_name(BulkActionsTable.c.body, client_id)
            )
        ).all()
        for key, status, body in rows:
            if not _names(client_id).search(body):
                continue
            if status not in finished:
                kept.append(f"backfill {key} names the client and goes on; run forget again after that")
                continue
            connection.execute(sa.delete(BackfillTagsTable).where(BackfillTagsTable.c.backfill_id == key))
            connection.execute(sa.delete(BulkActionsTable).where(BulkActionsTable.c.key == key))
    return kept


def _blank_ticks(instance: dg.DagsterInstance, client_id: str) -> None:
    """What ticks of the sensor and the schedules asked for is no longer told; that they were stays.

    Without its last tick a schedule would make up for the nights before.
    """
    storage: Any = instance.schedule_storage
    body = JobTickTable.c.tick_body
    with storage.connect() as connection:
        query = sa.select(JobTickTable.c.id, body).where(_may_name(body, client_id))
        rows = connection.execute(query).all()
    for tick_id, text in rows:
        tick = deserialize_value(text, TickData)
        if _names(client_id).search(text) and tick.status != TickStatus.STARTED:
            forgotten = SerializableErrorInfo("forgotten", [], None) if tick.error else None
            told = {"run_keys": [], "run_requests": [], "dynamic_partitions_request_results": [], "cursor": None}
            storage.update_tick(InstigatorTick(tick_id, tick._replace(**told, error=forgotten)))
    for state in instance.all_instigator_state():
        data = state.instigator_data
        if isinstance(data, SensorInstigatorData) and _names(client_id).search(
            json.dumps([data.cursor, data.last_run_key])
        ):
            known = data._replace(cursor=Cursor.read(data.cursor).without(client_id).text(), last_run_key=None)
            instance.update_instigator_state(state.with_data(known))


def _escaped(client_id: str) -> list[str]:
    """The client's name and its partition's as they stand in JSON."""
    return [json.dumps(name)[1:-1] for name in sorted({client_id, partition_key(client_id)})]


def _may_name(column: sa.Column[str], client_id: str) -> sa.ColumnElement[bool]:
    return sa.or_(*(column.contains(name, autoescape=True) for name in _escaped(client_id)))


def _names(client_id: str) -> re.Pattern[str]:
    """Finds the client as a value, quoted in a message, or at the beginning of a run key; also in JSON within JSON."""
    names = "|".join(re.escape(name).replace(r"\\", r"\\+") for name in _escaped(client_id))
    return re.compile(rf"""["'](?:{names})(?:\\*["']|:)""")
