"""`rageval ingest`: documents into Chroma."""

from pathlib import Path
from typing import Annotated

import typer

from rageval_dagster.cli.console import DONE_IN_PART, open_all, plural, print_json, progress_bar, say


def ingest(
    path: Annotated[Path, typer.Argument(help="A file, or a folder of .md .txt .html .pdf .jsonl files.")],
    client: Annotated[str, typer.Option(help="Whose documents these are.")],
    chunk_size: Annotated[int, typer.Option(min=0, help="Characters a chunk; 0 keeps each document whole.")] = 800,
    overlap: Annotated[int, typer.Option(min=0, help="Characters that neighbouring chunks share.")] = 120,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Loads documents into Chroma; a document that was loaded before is brought up to date."""
    from rageval_dagster.corpus.ingest import ingest as load
    from rageval_dagster.corpus.store import open_store
    from rageval_dagster.embedding.models import load_embedder
    from rageval_dagster.storage.clients import ensure_client, keep_lease, lease_holder

    settings, db = open_all()
    embedder = load_embedder(settings.embedding_model, settings)
    ensure_client(db, client)
    # The lease keeps the sensor from taking a half-loaded corpus for a change.
    with keep_lease(db, client, lease_holder("ingest")), progress_bar(f"ingesting for {client}") as progress:
        report = load(
            path,
            client,
            open_store(settings),
            embedder,
            chunk_size=chunk_size,
            overlap=overlap,
            progress=progress,
        )
    if report.foreign_store:
        say("this Chroma was not made by rageval; the documents were written into it as you asked")
    for refusal in report.refused:
        say(f"refused: {refusal.file}: {refusal.reason}")
    if as_json:
        print_json(report.to_dict())
    else:
        print(
            f"{client}: {plural(report.documents, 'document')}, {plural(report.added, 'chunk')} added, "
            f"{report.unchanged} unchanged, {report.removed} removed"
        )
    if report.refused:
        raise typer.Exit(DONE_IN_PART)
