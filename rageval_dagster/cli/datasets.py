"""`rageval datasets`: generate, list, show, import, export and review benchmarks."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.benchmark.formats import FORMATS
from rageval_dagster.cli.console import (
    DONE_IN_PART,
    MAX_LISTED,
    cell,
    dataset_number,
    mapped_columns,
    print_json,
    print_table,
    say,
    say_new_client,
)
from rageval_dagster.errors import RagevalError, TextsDeletedError
from rageval_dagster.text import plural

if TYPE_CHECKING:
    from rageval_dagster.benchmark.importing import Unresolved
    from rageval_dagster.storage.benchmark import Dataset

MAX_SHOWN = 200

app = typer.Typer(help="Benchmarks: generated from documents, or imported.", no_args_is_help=True)

DatasetNumber = Annotated[int, typer.Argument(parser=dataset_number, metavar="NUMBER", help="The dataset's number.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("generate")
def generate(
    client: Annotated[str, typer.Option(help="The client whose documents to write questions about.")],
    name: Annotated[str, typer.Option(help="The dataset's name.")] = "synthetic",
    sample_size: Annotated[int | None, typer.Option(min=1, help="How many questions.")] = None,
    strategy: Annotated[str | None, typer.Option(help="random, diverse or recent.")] = None,
    styles: Annotated[
        list[str] | None,
        typer.Option(
            "--style",
            help="For questions that a model writes, who asks and how: search, chat, expert, plain, or a line of your "
            "own; repeat for several styles, which take turns.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Writes a new version of a generated dataset, without evaluating anything."""
    from rageval_dagster.app.datasets import generate_dataset
    from rageval_dagster.benchmark.renewal import shortage

    settings, db = open_all()
    dataset = generate_dataset(settings, db, client, name, sample_size or 0, strategy or "", styles or (), say)
    print_json(dataset_row(dataset)) if as_json else _print_datasets([dataset], {dataset.id})
    if lacking := shortage(db, dataset):
        say(lacking)


@app.command("list")
def list_all(
    client: Annotated[str | None, typer.Option(help="Only this client's datasets.")] = None, as_json: JsonOption = False
) -> None:
    """Lists the datasets: how many documents and topics of the corpus each covers, how many questions to look at."""
    from rageval_dagster.app.clients import require_client
    from rageval_dagster.storage.benchmark import list_datasets, newest_versions

    settings, db = open_all()
    if client is not None:
        require_client(settings, client, say)
    datasets = list_datasets(db, client)
    current = {dataset.id for dataset in newest_versions(datasets) if dataset.retired_at is None}
    if as_json:
        print_json([{**dataset_row(dataset), "current": dataset.id in current} for dataset in datasets])
    else:
        _print_datasets(datasets, current)


@app.command("show")
def show(dataset_id: DatasetNumber, as_json: JsonOption = False) -> None:
    """Shows a dataset: its questions, answers, evidence, and which questions break a rule or lost their evidence."""
    from rageval_dagster.benchmark.renewal import shortage
    from rageval_dagster.benchmark.rules import RULES
    from rageval_dagster.storage.benchmark import current_datasets, dataset_items, get_dataset
    from rageval_dagster.storage.corpus import document_names

    _, db = open_all()
    dataset = get_dataset(db, dataset_id)
    deleted = None
    try:
        items = dataset_items(db, dataset_id)
    except TextsDeletedError as error:
        items, deleted = [], str(error)
    offenders = {rule["rule_id"]: list(rule["failed_ids"]) for rule in dataset.stats.get("rules", ())}
    if as_json:
        print_json(
            {
                **dataset_row(dataset),
                "categories": dataset.stats.get("categories", {}),
                "rules": dataset.rule_failures,
                "offenders": {rule: ids for rule, ids in offenders.items() if ids},
                "flagged": dataset.flagged,
                "items": [item.to_dict() for item in items],
                "texts_deleted": deleted is not None,
            }
        )
        return
    _print_datasets([dataset], {each.id for each in current_datasets(db, dataset.client_id)})
    print(
        "categories: "
        + ", ".join(f"{cell(name)}: {count}" for name, count in dataset.stats.get("categories", {}).items())
    )
    if lacking := shortage(db, dataset):
        print(lacking)
    if dataset.rule_failures:
        print("rules with offenders:")
    else:
        print("No question breaks a rule. Rules do not tell whether a question is a good one: read some.")
    blocking = {rule.id for rule in RULES if rule.blocks(dataset.kind)}
    for rule, count in sorted(dataset.rule_failures.items()):
        who = ", ".join(offenders.get(rule, ())) or "of the dataset as a whole"
        print(f"  {rule}{' (blocking)' if rule in blocking else ''}: {count} ({who})")
    if dataset.rule_failures and dataset.valid:
        print("It is valid all the same: these rules only warn. A blocking one would keep it from being evaluated.")
    elif dataset.rule_failures:
        print("It is not valid: while it breaks a blocking rule, it is not evaluated. Other rules only warn.")
    if deleted is not None:
        print(deleted)
    names = document_names(db, dataset.client_id, (name for item in items for name in item.document_ids))
    for item in items:
        marks = ["" if item.answerable else "unanswerable", "human-verified" if item.human_verified else ""]
        marks += dataset.flagged.get(item.item_id, [])
        print(f"\n{item.item_id}  " + "  ".join(filter(None, [cell(item.category), *marks])))
        for turn in item.history:
            print(f"  {cell(turn['role'])}: {cell(turn['content'])}")
        print(f"  Q: {cell(item.question)}")
        for answer in item.answers:
            print(f"  A: {cell(answer)}")
        for evidence in item.evidence:
            page = f", page {evidence.page}" if evidence.page is not None else ""
            quote = f": {evidence.quote!r}" if evidence.quote else ""
            print(f"  from {cell(names[evidence.document_id])}{page}{quote}")


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(help="A file, or a folder for beir.")],
    client: Annotated[str, typer.Option(help="The client whose questions these are.")],
    format_name: Annotated[str, typer.Option("--format", help=f"{', '.join(FORMATS)}.")] = "native",
    name: Annotated[str | None, typer.Option(help="The dataset's name; default: the file's name.")] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN",
            help="The file's name for a field, such as question=Prompt or principal.team=Team; repeat for several.",
        ),
    ] = None,
    document_pattern: Annotated[
        str | None,
        typer.Option(
            "--map-document",
            metavar="REGEX",
            help="What a document's ids in the file and in the corpus have in common: the first group, or the match.",
        ),
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help="The file with the questions' texts by id (test-results, expected-outputs).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Imports questions. A bad row is refused, with its file, row and field; the rest is imported.

    Documents are looked up in the client's corpus, also by the ids of their chunks. Missing documents are listed.
    """
    from rageval_dagster.app.datasets import import_questions
    from rageval_dagster.benchmark.formats import ReadOptions

    settings, db = open_all()
    options = ReadOptions(mapped_columns(columns or []), queries)
    report, replaced, meant = import_questions(
        settings, db, client, file, format_name, name or None, options, document_pattern
    )
    say_new_client(client, meant)
    dataset = report.dataset
    if as_json:
        print_json(
            {
                "dataset_id": dataset.id,
                "replaces": None if replaced is None else replaced.id,
                "imported": dataset.qa_count,
                "refused": [refusal.to_dict() for refusal in report.refused],
                "evidence_checked": report.checked,
                "unresolved": [each.to_dict() for each in report.unresolved],
                "unused_columns": report.unused,
            }
        )
    else:
        for refusal in report.refused:
            say(f"refused: {cell(refusal)}")
        if report.unused:
            say(f"columns not read: {', '.join(map(repr, report.unused))}; --map FIELD=COLUMN says what one is")
        if not report.checked:
            say(f"client {client!r} has no documents yet, so evidence could not be checked: rageval ingest PATH")
        _say_unresolved(report.unresolved)
        print(
            f"dataset {dataset.id} {dataset.name!r}: {plural(dataset.qa_count, 'question')} imported for {cell(client)}"
        )
        if replaced is not None:
            print(
                f"it replaces dataset {replaced.id} of that name, with {plural(replaced.qa_count, 'question')}: --name "
                "imports beside it"
            )
    if report.refused:
        raise typer.Exit(DONE_IN_PART)


@app.command("retire")
def retire(
    name: Annotated[str, typer.Argument(help="The dataset's name.")],
    client: Annotated[str, typer.Option(help="The client that owns the dataset.")],
    undo: Annotated[bool, typer.Option("--undo", help="Evaluate the dataset again.")] = False,
) -> None:
    """Stops evaluating a dataset, in every version. What was measured with it stays."""
    from rageval_dagster.app import datasets

    settings, db = open_all()
    datasets.retire(settings, db, client, name, undo)
    said = "is evaluated again" if undo else "is not evaluated any more; --undo takes that back"
    print(f"{cell(client)} / {cell(name)} {said}")


@app.command("export")
def export(
    dataset_id: DatasetNumber,
    out: Annotated[Path, typer.Option(help="The file to write; for beir, a folder.")],
    format_name: Annotated[
        str, typer.Option("--format", help=f"{', '.join(name for name, each in FORMATS.items() if each.write)}.")
    ] = "native",
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Writes a dataset to a file. The file holds people's questions: only you can read it."""
    from rageval_dagster.benchmark.exporting import export_dataset

    _, db = open_all()
    dataset = export_dataset(db, dataset_id, format_name, out, force)
    print(f"{plural(dataset.qa_count, 'question')} written to {out} (of each: {FORMATS[format_name].carries})")


@app.command("review")
def review(
    client: Annotated[str, typer.Option(help="The client whose generated dataset to review.")],
    dataset: Annotated[
        int | None,
        typer.Option(parser=dataset_number, metavar="NUMBER", help="The dataset's number, if the client has several."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the questions to this CSV file.")] = None,
    read: Annotated[Path | None, typer.Option(help="Apply the decisions in this CSV file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="With --out: replace the file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Reviews generated questions in a spreadsheet: --out writes the questions, --read applies your decisions.

    In the column `decision`, accept keeps a question, edit keeps what was written in its place, and reject drops the
    question for good. A question without a decision stays as it is. Accepted and edited questions survive every
    renewal.
    """
    from rageval_dagster.app.datasets import take_review_over
    from rageval_dagster.benchmark.review import write_review
    from rageval_dagster.storage.clients import get_client

    if (out is None) == (read is None):
        raise RagevalError(
            "say either --out FILE.csv, to write the questions, or --read FILE.csv, to take decisions over"
        )
    settings, db = open_all()
    if out is not None:
        get_client(db, client)
        rows = write_review(db, client, out, dataset, force)
        say("decide in the column `decision`: accept, edit, reject, or nothing; then --read the file")
        say("rows whose status is rejected were kept out, `reasons` says why; accept lets one in")
        print_json({"rows": rows}) if as_json else print(f"{plural(rows, 'question')} written to {out}")
        return
    if read is not None:
        report = take_review_over(settings, db, client, read, dataset)
        if as_json:
            print_json(
                {
                    "dataset_id": report.dataset.id,
                    "questions": report.dataset.qa_count,
                    "decided": report.decided,
                    "unreviewed": report.unreviewed,
                    "refused": [refusal.to_dict() for refusal in report.refused],
                }
            )
        else:
            for refusal in report.refused:
                say(f"refused: {cell(refusal)}")
            decided = ", ".join(f"{decision}: {count}" for decision, count in report.decided.items())
            print(
                f"dataset {report.dataset.id} {report.dataset.name!r}: {plural(report.dataset.qa_count, 'question')} "
                f"({decided}, unreviewed: {report.unreviewed})"
            )
        if report.refused:
            raise typer.Exit(DONE_IN_PART)


def dataset_row(dataset: "Dataset") -> dict[str, Any]:
    return {
        "id": dataset.id,
        "name": dataset.name,
        "client": dataset.client_id,
        "kind": dataset.kind,
        "questions": dataset.qa_count,
        "valid": dataset.valid,
        **asdict(dataset.coverage),
        "flagged": len(dataset.flagged),
        "created": dataset.created_at,
        "version": dataset.dataset_version[:12],
        "retired": dataset.retired_at,
    }


def _print_datasets(datasets: "Sequence[Dataset]", current: Collection[int]) -> None:
    """A line a version of a dataset; `current` are the ids of those that are evaluated."""
    rows = [
        {
            **dataset_row(dataset),
            "documents": _touched(dataset.documents_touched, dataset.documents),
            "topics": _touched(dataset.topics_touched, dataset.topics),
            "state": "retired" if dataset.retired_at else "current" if dataset.id in current else None,
        }
        for dataset in datasets
    ]
    columns = "id name client kind questions valid documents topics flagged created version state"
    print_table(rows, columns.split(), "no datasets yet: rageval datasets generate --client NAME")


def _touched(touched: int | None, number: int | None) -> str | None:
    return None if touched is None or number is None else f"{touched}/{number}"


def _say_unresolved(unresolved: "list[Unresolved]") -> None:
    """A line for each document or quote that the corpus does not have, the most used first."""
    alike: dict[tuple[str, str, tuple[str, ...] | None], list[str]] = {}
    for each in unresolved:
        key = (each.reason, each.document_id, None if each.nearest is None else tuple(each.nearest))
        alike.setdefault(key, []).append(each.question)
    commonest = sorted(alike.items(), key=lambda entry: -len(entry[1]))
    for (reason, document_id, nearest), questions in commonest[:MAX_LISTED]:
        what = {
            "no_such_document": "the corpus has no document",
            "ambiguous_document": "--map-document finds several documents for",
            "quote_not_found": "the quote is not in the document",
        }[reason]
        hint = f"; nearest: {', '.join(map(repr, nearest))}" if nearest else ""
        if nearest and reason == "quote_not_found":  # ids of passages, which tell a person nothing
            hint = "; --json has the ids of the passages most like it"
        shown = document_id if len(document_id) <= MAX_SHOWN else f"{document_id[:MAX_SHOWN]}..."
        first = cell(questions[0][:MAX_SHOWN])
        asked = f"question: {first}" if len(questions) == 1 else f"{len(questions)} questions, one is: {first}"
        say(f"{what} {shown!r} ({asked}){hint}")
    if len(alike) > MAX_LISTED:
        say(f"and {len(alike) - MAX_LISTED} more like these: --json lists them all")
    if unresolved:
        items = len({each.item_id for each in unresolved})
        say(f"{plural(items, 'question')} imported anyway, with evidence that the corpus does not have")
