"""`rageval forget`: everything that is stored of a client is deleted, here and in Dagster."""

import shlex
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import DONE_IN_PART, cell, print_table, say
from rageval_dagster.errors import DatabaseError, RagevalError
from rageval_dagster.settings import Settings
from rageval_dagster.text import plural

if TYPE_CHECKING:
    from rageval_dagster.storage.database import Database


def forget(
    client: Annotated[str, typer.Option(help="The client to forget.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Deletes every row, text, cache, run and partition of a client; shows them first, and asks."""
    from rageval_dagster.automation.forgetting import forget_in_dagster
    from rageval_dagster.corpus.snapshots import remove_snapshots
    from rageval_dagster.report.files import delete_reports
    from rageval_dagster.storage.forgetting import bury, delete_rows, scrub, tombstone
    from rageval_dagster.storage.leases import keep_lease, lease_holder

    settings, db = open_all()
    rows = _show(settings, db, client)
    if not yes:
        _ask(client)
    lease = keep_lease(db, client, lease_holder("forget")) if "clients" in rows else nullcontext()
    with lease:
        kept = forget_in_dagster(settings, client)
        delete_rows(db, client)
    if rows or tombstone(db, client) is None:
        bury(db, client, rows)
    kept += delete_reports(db, settings, client)
    kept += [
        f"{path}: another process has it open; run forget again after that" for path in remove_snapshots(settings.home)
    ]
    try:
        scrub(db)
    except DatabaseError as error:
        kept.append(str(error))
    print(f"{cell(client)}: forgotten, {plural(sum(rows.values()), 'row')} deleted")
    print(
        "The document store is yours and was not touched. Backups of the database and of RAGEVAL_HOME are yours, too."
    )
    named = cell(shlex.quote(client))
    print(f"Nothing is done with this client any more until you name it: rageval evaluate --client {named}")
    for sentence in kept:
        say(f"not deleted: {sentence}")
    if kept:
        raise typer.Exit(DONE_IN_PART)


def _show(settings: Settings, db: "Database", client: str) -> dict[str, int]:
    """Says what there is of the client, and gives its rows by table.

    Raises:
        RagevalError: there is nothing, and never was.
    """
    from rageval_dagster.automation.forgetting import held_in_dagster
    from rageval_dagster.corpus.snapshots import list_snapshots
    from rageval_dagster.report.files import reports_of_client
    from rageval_dagster.storage.forgetting import rows_of, tombstone

    rows = rows_of(db, client)
    held = held_in_dagster(settings, client)
    stone = tombstone(db, client)
    reports = reports_of_client(settings, client)
    if not rows and not held.anything and not reports and stone is None:
        raise RagevalError(
            f"nothing is stored of a client {client!r}: `rageval status` shows those there are. Its documents, if the "
            "document store has any, are yours; `exclude` in rageval.toml keeps a collection from being evaluated"
        )
    if stone is not None:
        say(f"{cell(client)} was forgotten on {stone.forgotten_at:%Y-%m-%d %H:%M} UTC; what is stored of it now:")
    table = [{"what": f"rows of {name}", "count": count} for name, count in rows.items()]
    table += [
        {"what": "Dagster runs of this client", "count": held.runs},
        {"what": "Dagster runs of no single client, which may name it", "count": held.shared_runs},
        {"what": "Dagster partitions", "count": int(held.partition)},
        {"what": "reports", "count": len(reports)},
        {"what": "copies of the document store (made again when needed)", "count": len(list_snapshots(settings.home))},
    ]
    print_table([row for row in table if row["count"]], ["what", "count"], "nothing")
    return rows


def _ask(client: str) -> None:
    if not sys.stdin.isatty():
        raise RagevalError("there is no terminal to ask on: --yes deletes without asking")
    if not typer.confirm(
        f"Delete all of this? Of {cell(client)} nothing but the document store's own chunks will be left"
    ):
        raise RagevalError("nothing was deleted")
