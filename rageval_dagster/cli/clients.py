"""`rageval clients`: whose documents the store has, and what is known of each client."""

from collections.abc import Collection
from typing import Annotated

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import print_json, print_table, say
from rageval_dagster.errors import StoreError
from rageval_dagster.text import plural

app = typer.Typer(help="Clients: list.", no_args_is_help=True)


@app.command("list")
def list_all(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Lists the clients in the store and in the history, and what in the store is not a client and why."""
    from rageval_dagster.corpus.inspection import check_there
    from rageval_dagster.corpus.store import open_store
    from rageval_dagster.storage.clients import list_clients
    from rageval_dagster.storage.forgetting import left_alone
    from rageval_dagster.storage.views import read_view

    settings, db = open_all()
    if settings.chroma_path is not None:
        try:
            check_there(settings)
        except StoreError as error:
            # What the history knows is listed all the same.
            say(str(error))
    store = open_store(settings)
    present = store.clients()
    forgotten = left_alone(db, present)
    known = {client.client_id: client for client in list_clients(db)}
    evaluated = {row["client_id"]: row["evaluated_at"] for row in read_view(db, "fleet_overview")}
    rows = []
    for client_id in sorted({*present, *known}):
        client = known.get(client_id)
        chunks = documents = None
        if client is not None and client.scanned_at is not None:
            chunks, documents = client.chunk_count, client.document_count
        elif store.has(client_id):
            chunks = store.count(client_id)
        rows.append(
            {
                "client": client_id,
                "state": _state(client_id, present, forgotten, known),
                "own table": client_id in settings.source.client_names,
                "chunks": chunks,
                "documents": documents,
                "evaluated": evaluated.get(client_id),
            }
        )
    left_out = [{"name": name, "reason": reason} for name, reason in store.left_out()]
    without_client = store.without_client()
    if as_json:
        print_json({"clients": rows, "left_out": left_out, "chunks_without_client": without_client})
        return
    shown = [{**row, "own table": "yes" if row["own table"] else "no"} for row in rows]
    print_table(shown, list(shown[0]) if shown else [], "no clients yet: rageval ingest PATH --client NAME")
    if left_out:
        print("\nNo clients, though the store has them:")
        print_table(left_out, ["name", "reason"], "")
    if without_client:
        print(f"\n{plural(without_client, 'chunk')} do not say whose they are: they are nobody's.")


def _state(client_id: str, present: list[str], forgotten: frozenset[str], known: Collection[str]) -> str:
    if client_id not in present:
        return "not in the store"
    if client_id in forgotten:
        return "forgotten, still in the store"
    return "new" if client_id not in known else "watched"
