"""Forgetting a client: what is stored of it in the history, in Dagster and in files, and its deletion."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from rageval_dagster.corpus.snapshots import list_snapshots, remove_snapshots
from rageval_dagster.errors import DatabaseError, RagevalError
from rageval_dagster.experiments.copies import delete_files, files_of
from rageval_dagster.report.files import delete_reports, reports_of_client
from rageval_dagster.settings import Settings
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.forgetting import bury, delete_rows, rows_of, scrub, tombstone
from rageval_dagster.storage.leases import keep_lease, lease_holder

if TYPE_CHECKING:
    from rageval_dagster.automation import forgetting


@dataclass(frozen=True)
class Held:
    """What there is of a client: rows by table, what Dagster has, files; and when it was forgotten before, if it was.

    `experiments` counts the files of its experiments, `snapshots` copies of the document store, which hold all clients
    and are made again when needed.
    """

    client: str
    rows: Mapping[str, int]
    in_dagster: "forgetting.Held"
    reports: int
    experiments: int
    snapshots: int
    forgotten_at: datetime | None


def held_of(settings: Settings, db: Database, client: str) -> Held:
    """What `forget` would delete.

    Raises:
        RagevalError: there is nothing, and never was.
    """
    from rageval_dagster.automation.forgetting import held_in_dagster

    rows = rows_of(db, client)
    in_dagster = held_in_dagster(settings, client)
    stone = tombstone(db, client)
    reports = len(reports_of_client(settings, client))
    experiments = len(files_of(settings, client))
    if not rows and not in_dagster.anything and not reports and not experiments and stone is None:
        raise RagevalError(
            f"nothing is stored about a client {client!r}: `rageval status` lists the clients. Its documents, if the "
            "document store has any, are yours; `exclude` in rageval.toml keeps a collection from being evaluated"
        )
    snapshots = len(list_snapshots(settings.home))
    return Held(
        client, rows, in_dagster, reports, experiments, snapshots, None if stone is None else stone.forgotten_at
    )


def forget(settings: Settings, db: Database, held: Held) -> list[str]:
    """Deletes every row, text, cache, run and partition of a client; one that was killed is done again.

    Returns:
        What could not be deleted, a sentence each, with what to do.
    """
    from rageval_dagster.automation.forgetting import forget_in_dagster

    client = held.client
    with keep_lease(db, client, lease_holder("forget")) if "clients" in held.rows else nullcontext():
        kept = forget_in_dagster(settings, client)
        delete_rows(db, client)
        # Who still writes files of an experiment looks for its row at the end, see `writing_files`.
        delete_files(settings, client)
    if held.rows or held.forgotten_at is None:
        bury(db, client, held.rows)
    kept += delete_reports(db, settings, client)
    kept += [
        f"{path}: another process has it open; run forget again when it ends"
        for path in remove_snapshots(settings.home)
    ]
    try:
        scrub(db)
    except DatabaseError as error:
        kept.append(str(error))
    return kept
