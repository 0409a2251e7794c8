"""`rageval ingest`: documents into Chroma."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rageval_dagster.cli.console import (
    DONE_IN_PART,
    meant_instead,
    named,
    open_all,
    plural,
    print_json,
    progress_bar,
    say,
    say_new_client,
)
from rageval_dagster.settings import Settings

if TYPE_CHECKING:
    from rageval_dagster.corpus.ingest import IngestReport
    from rageval_dagster.storage.database import Database


def ingest(
    path: Annotated[Path, typer.Argument(help="A file, or a folder of .md .txt .html .pdf .jsonl files.")],
    client: Annotated[str, typer.Option(help="Whose documents these are.")],
    chunk_size: Annotated[int, typer.Option(min=0, help="Characters a chunk; 0 keeps each document whole.")] = 800,
    overlap: Annotated[int, typer.Option(min=0, help="Characters that neighbouring chunks share.")] = 120,
    embed_again: Annotated[
        bool, typer.Option("--embed-again", help="Give unchanged chunks new vectors, too: theirs are damaged.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Loads documents into Chroma; a document that was loaded before is brought up to date."""
    settings, db = open_all()
    meant = meant_instead(settings, db, client)
    report = load_documents(settings, db, path, client, chunk_size, overlap, embed_again)
    if report.added:
        say_new_client(client, meant, " (which leaves its collection in the document store)")
    if report.foreign_store:
        say("this Chroma was not made by rageval; the documents were written into it as you asked")
    for refusal in report.refused:
        say(f"refused: {refusal.file}: {refusal.reason}")
    if report.ignored:
        say(f"{plural(report.ignored, 'other file')} passed over: only .md .txt .html .pdf .jsonl are read")
    if as_json:
        print_json(report.to_dict())
    else:
        print(
            f"{client}: {plural(report.documents, 'document')}, {plural(report.added, 'chunk')} added, "
            f"{report.unchanged} unchanged, {report.removed} removed"
        )
        if report.removed_documents:
            print(f"{plural(len(report.removed_documents), 'document')} removed: {named(report.removed_documents)}")
        if report.elsewhere:
            stays = "stays" if report.elsewhere == 1 else "stay"
            print(
                f"{plural(report.elsewhere, 'document')} from other folders (or paths) {stays}: to be rid of one, load "
                "its own folder again without its file"
            )
    if report.refused:
        raise typer.Exit(DONE_IN_PART)


def load_documents(
    settings: Settings,
    db: "Database",
    path: Path,
    client: str,
    chunk_size: int = 800,
    overlap: int = 120,
    embed_again: bool = False,
) -> "IngestReport":
    """Loads documents with a progress bar, and counts what it changed, so that the sensor need not find out.

    The lease keeps the sensor from taking a half-loaded corpus for a change. A client gets its row in the history only
    once it has documents: a refused command leaves nothing behind.
    """
    from rageval_dagster.corpus.ingest import ingest as load
    from rageval_dagster.corpus.store import open_store
    from rageval_dagster.embedding.models import load_embedder
    from rageval_dagster.storage.clients import ensure_client, list_clients, observe_probe
    from rageval_dagster.storage.leases import keep_lease, lease_holder

    own = settings.for_client(client)
    embedder = load_embedder(own.embedding_model, own)
    known = client in {row.client_id for row in list_clients(db)}
    lease = keep_lease(db, client, lease_holder("ingest")) if known else nullcontext()
    with lease, progress_bar(f"ingesting for {client}") as progress:
        report = load(
            path,
            client,
            open_store(settings),
            embedder,
            chunk_size=chunk_size,
            overlap=overlap,
            progress=progress,
            embed_again=embed_again,
        )
    if report.added or report.removed:
        ensure_client(db, client)
        observe_probe(db, client, open_store(settings).probe(client))
    return report
