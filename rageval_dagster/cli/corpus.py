"""`rageval ingest`: documents into Chroma."""

from pathlib import Path
from typing import Annotated

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import DONE_IN_PART, print_json, progress_bar, say, say_new_client
from rageval_dagster.text import named, plural


def ingest(
    path: Annotated[Path, typer.Argument(help="A file, or a folder of .md .txt .html .pdf .jsonl files.")],
    client: Annotated[str, typer.Option(help="The client that owns the documents.")],
    chunk_size: Annotated[int, typer.Option(min=0, help="Characters per chunk; 0 keeps each document whole.")] = 800,
    overlap: Annotated[int, typer.Option(min=0, help="Characters that neighbouring chunks share.")] = 120,
    embed_again: Annotated[
        bool, typer.Option("--embed-again", help="Give unchanged chunks new vectors, too, because theirs are damaged.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Loads documents into Chroma. Updates a document that was loaded before."""
    from rageval_dagster.app import documents

    settings, db = open_all()
    with progress_bar(f"ingesting for {client}") as progress:
        report, meant = documents.ingest(settings, db, client, path, chunk_size, overlap, embed_again, progress, say)
    say_new_client(client, meant, " (which leaves its collection in the document store)")
    if report.foreign_store:
        say("this Chroma was not made by rageval; the documents were written into it as you asked")
    for folder in report.kept_out:
        say(f"{folder} passed over: rageval keeps its own files there")
    for refusal in report.refused:
        say(f"refused: {refusal.file}: {refusal.reason}")
    if report.ignored:
        say(f"{plural(report.ignored, 'other file')} passed over: only .md .txt .html .pdf .jsonl are read")
    if as_json:
        print_json(report.to_dict())
    else:
        print(
            f"{client}: {plural(report.documents, 'document')}, {plural(report.added, 'chunk')} "
            f"{'embedded' if embed_again else 'added'}, "
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
