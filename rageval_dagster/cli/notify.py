"""`rageval notify`: an ingestion pipeline says that it changed a client's documents."""

from typing import Annotated

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import print_json


def notify(
    client: Annotated[str, typer.Option(help="The client whose documents changed.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Says that a client's documents changed: rageval scans them, and evaluates them again if anything is different.

    For stores that do not show changes, such as a Chroma server whose chunks are edited in place. Any number of calls
    during a load counts as one change. The document store does not have to answer at the time of the call.
    """
    from rageval_dagster.app import documents

    settings, db = open_all()
    enabled, vanished = documents.notify(settings, db, client)
    if as_json:
        print_json({"client": client, "settle_s": settings.settle_s, "enabled": enabled})
    elif not enabled:
        print(
            f"{client}: noted, but its evaluation is disabled (EVALUATION_ENABLED): nothing happens until that changes"
        )
    elif vanished:
        print(
            f"{client}: noted. The document store did not have it when it was looked at last: it is scanned once it is "
            "back."
        )
    else:
        print(
            f"{client}: noted. Once nobody has said so again for {settings.settle_s:g} s (RAGEVAL_SETTLE_S), the "
            "sensor asks for one run at its next look, within half a minute; it scans the documents and ends early if "
            "nothing changed."
        )
