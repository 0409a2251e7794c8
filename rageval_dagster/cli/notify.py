"""`rageval notify`: an ingestion pipeline says that it changed a client's documents."""

from typing import TYPE_CHECKING, Annotated

import typer

from rageval_dagster.cli.console import open_all, print_json
from rageval_dagster.errors import RagevalError
from rageval_dagster.settings import Settings

if TYPE_CHECKING:
    from rageval_dagster.storage.database import Database


def notify(
    client: Annotated[str, typer.Option(help="Whose documents changed.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Says that a client's documents changed: they are scanned, and evaluated again if anything is different.

    For stores that do not show it, such as a Chroma server whose chunks are edited in place. However often it is called
    during a load, that is one change; the document store need not answer just now.
    """
    from rageval_dagster.storage.clients import list_clients
    from rageval_dagster.storage.clients import notify as note

    settings, db = open_all()
    known = next((each for each in list_clients(db) if each.client_id == client), None)
    enabled = settings.enabled and settings.for_client(client).enabled
    if known is None:
        _refuse_unknown(settings, db, client)
    note(db, client)
    if as_json:
        print_json({"client": client, "settle_s": settings.settle_s, "enabled": enabled})
        return
    if not enabled:
        print(
            f"{client}: noted, but its evaluation is disabled (EVALUATION_ENABLED): nothing happens until that changes"
        )
        return
    gone = known is not None and known.vanished_at is not None
    print(f"{client}: noted. {_what_happens(settings, gone)}")


def _refuse_unknown(settings: Settings, db: "Database", client: str) -> None:
    """Lets a client pass that the store has, though nobody has looked at it yet.

    Raises:
        RagevalError: there is no such client, or it was forgotten.
        StoreError: the store does not answer.
    """
    from rageval_dagster.corpus.store import open_store
    from rageval_dagster.storage.forgetting import left_alone

    if left_alone(db, [client]):
        raise RagevalError(
            f"client {client!r} was forgotten and is left alone; rageval evaluate --client {client} takes it up again"
        )
    open_store(settings).probe(client)  # says so where the store does not know the client


def _what_happens(settings: Settings, gone: bool) -> str:
    if gone:
        return "The document store did not have it when it was looked at last: it is scanned once it is back."
    return (
        f"Once nobody has said so again for {settings.settle_s:g} s (RAGEVAL_SETTLE_S), the sensor asks for one run at "
        "its next look, within half a minute; it scans the documents and ends early if nothing changed."
    )
