"""Forgetting a client in Dagster: its partition, its runs, and what other records, ticks and files say of it."""

from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from rageval_dagster.assets.experiments import keys_of_client
from rageval_dagster.assets.partitions import CLIENTS_PARTITIONS, EXPERIMENTS_PARTITIONS
from rageval_dagster.automation.dagster_internals import (
    STORAGE_FILES,
    Owned,
    blank_ticks,
    delete_backfills,
    delete_records,
    delete_run,
    runs_of,
)
from rageval_dagster.automation.home import prepare_dagster_home
from rageval_dagster.automation.jobs import ASSET_KEYS
from rageval_dagster.corpus.names import partition_key
from rageval_dagster.corpus.watching import Cursor
from rageval_dagster.errors import DatabaseError
from rageval_dagster.resources import PREFIX
from rageval_dagster.settings import Settings
from rageval_dagster.storage.forgetting import scrub_file

OWNED = Owned(PREFIX, ASSET_KEYS)
"""Whatever else is in the instance stays: it may be another project's, too."""


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
        keys = [partition_key(client_id), *_experiments_of(instance, client_id)]
        return Held(
            runs=sum(len(runs_of(instance, key, OWNED)) for key in keys),
            shared_runs=len(runs_of(instance, None, OWNED)),
            partition=instance.has_dynamic_partition(CLIENTS_PARTITIONS, partition_key(client_id)),
        )


def _experiments_of(instance: dg.DagsterInstance, client_id: str) -> list[str]:
    """The partitions of a client's experiments."""
    return keys_of_client(instance.get_dynamic_partitions(EXPERIMENTS_PARTITIONS), client_id)


def forget_in_dagster(settings: Settings, client_id: str) -> list[str]:
    """Deletes all that names the client in Dagster's storage; to be called with the client's lease.

    Dagster's own deletion of a run leaves its checks, the assets' last events and the ticks that asked for it. Running
    it again finishes what a killed one began.

    Returns:
        What could not be deleted, a sentence each, with what to do.
    """
    prepare_dagster_home(settings)
    partition = partition_key(client_id)
    with dg.DagsterInstance.get() as instance:
        experiments = _experiments_of(instance, client_id)
        names = {client_id, partition, *experiments}
        shared = runs_of(instance, None, OWNED)
        own = [run_id for key in (partition, *experiments) for run_id in runs_of(instance, key, OWNED)]
        for run_id in [*own, *(run_id for run_id, ended in shared.items() if ended)]:
            delete_run(instance, run_id)
        going_on = [f"run {run_id}, which is of no single client," for run_id, ended in shared.items() if not ended]
        for key in (partition, *experiments):
            delete_records(instance, key, OWNED)
        going_on += [
            f"backfill {backfill_id} names the client and" for backfill_id in delete_backfills(instance, names, OWNED)
        ]
        kept = [f"{what} is still running; run forget again when it has ended" for what in going_on]
        blank_ticks(instance, names, OWNED, lambda cursor: Cursor.read(cursor).without(client_id).text())
        for key in experiments:
            instance.delete_dynamic_partition(EXPERIMENTS_PARTITIONS, key)
        instance.delete_dynamic_partition(CLIENTS_PARTITIONS, partition)
        root = Path(instance.root_directory)
    for path in (root / name for name in STORAGE_FILES):
        if path.exists():
            try:
                scrub_file(path)
            except DatabaseError as error:
                kept.append(str(error))
    return kept
