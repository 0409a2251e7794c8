"""`rageval forget`: everything that is stored of a client is deleted, here and in Dagster."""

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import DONE_IN_PART, cell, print_table, say
from rageval_dagster.errors import RagevalError
from rageval_dagster.text import plural

if TYPE_CHECKING:
    from rageval_dagster.app.forget import Held


def forget(
    client: Annotated[str, typer.Option(help="The client to forget.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Deletes every row, text, cache, run and partition of a client, but shows them first and asks."""
    from rageval_dagster.app import forget as app

    settings, db = open_all()
    held = app.held_of(settings, db, client)
    _show(held)
    if not yes and not sys.stdin.isatty():
        raise RagevalError("there is no terminal to ask on: --yes deletes without asking")
    if not yes and not typer.confirm(
        f"Delete all of this? Of {cell(client)} nothing but the document store's own chunks will be left"
    ):
        raise RagevalError("nothing was deleted")
    kept = app.forget(settings, db, held)
    print(f"{cell(client)}: forgotten, {plural(sum(held.rows.values()), 'row')} deleted")
    print(
        "The document store is yours and was not touched. So are backups of the database and of RAGEVAL_HOME, and logs "
        "of services, which may name the client."
    )
    named = cell(shlex.quote(client))
    print(f"Nothing is done with this client any more until you name it: rageval evaluate --client {named}")
    for sentence in kept:
        say(f"not deleted: {sentence}")
    if kept:
        raise typer.Exit(DONE_IN_PART)


def _show(held: "Held") -> None:
    if held.forgotten_at is not None:
        say(f"{cell(held.client)} was forgotten on {held.forgotten_at:%Y-%m-%d %H:%M} UTC; what is stored of it now:")
    counts = {
        **{f"rows of {name}": count for name, count in held.rows.items()},
        "Dagster runs of this client": held.in_dagster.runs,
        "Dagster runs of no single client, which may name it": held.in_dagster.shared_runs,
        "Dagster partitions": int(held.in_dagster.partition),
        "reports": held.reports,
        "files of experiments": held.experiments,
        "copies of the document store (made again when needed)": held.snapshots,
    }
    table = [{"what": what, "count": count} for what, count in counts.items() if count]
    print_table(table, ["what", "count"], "nothing")
