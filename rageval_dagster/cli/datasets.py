"""`rageval datasets`: generate, list, show and import benchmarks."""

import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from rageval_dagster.cli.console import DONE_IN_PART, open_all, plural, print_json, print_table, say
from rageval_dagster.errors import RagevalError

app = typer.Typer(help="Benchmarks: generated from documents, or imported.", no_args_is_help=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("generate")
def generate(
    client: Annotated[str, typer.Option(help="Whose documents to write questions about.")],
    name: Annotated[str, typer.Option(help="The dataset's name.")] = "synthetic",
    sample_size: Annotated[int | None, typer.Option(min=1, help="How many questions.")] = None,
    strategy: Annotated[str | None, typer.Option(help="random, diverse or recent.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Writes a new version of a generated dataset, without evaluating anything."""
    from rageval_dagster.automation.jobs import BENCHMARK_JOB
    from rageval_dagster.automation.launch import launch
    from rageval_dagster.benchmark.renewal import BenchmarkSpec
    from rageval_dagster.corpus.store import open_store
    from rageval_dagster.definitions import defs
    from rageval_dagster.storage.benchmark import current_datasets

    settings, db = open_all()
    open_store(settings).probe(client)
    plan = {"dataset_name": name, "sample_size": sample_size or 0, "strategy": strategy or "", "renew": True}
    BenchmarkSpec.from_settings(settings, size=sample_size or 0, strategy=strategy or "")
    launched = launch(
        defs, settings, client, f"command:{uuid.uuid4()}", plan, lambda step: say(f"  {step}"), job_name=BENCHMARK_JOB
    )
    if launched.failure is not None:
        raise RagevalError(f"{client}: {launched.failure}")
    [dataset] = [dataset for dataset in current_datasets(db, client) if dataset.name == name]
    row = dataset_row(dataset)
    print_json(row) if as_json else print_table([row], list(row), "")


@app.command("list")
def list_all(
    client: Annotated[str | None, typer.Option(help="Only this client's.")] = None, as_json: JsonOption = False
) -> None:
    """Lists the datasets."""
    from rageval_dagster.storage.benchmark import list_datasets

    _, db = open_all()
    rows = [dataset_row(dataset) for dataset in list_datasets(db, client)]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, list(rows[0]) if rows else [], "no datasets yet: rageval datasets generate --client NAME")


@app.command("show")
def show(dataset_id: Annotated[int, typer.Argument(help="The dataset's id.")], as_json: JsonOption = False) -> None:
    """Shows a dataset: its questions, answers, evidence, and what the quality rules said."""
    from rageval_dagster.storage.benchmark import dataset_items, get_dataset

    _, db = open_all()
    dataset = get_dataset(db, dataset_id)
    items = dataset_items(db, dataset_id)
    if as_json:
        print_json(
            {
                **dataset_row(dataset),
                "categories": dataset.stats.get("categories", {}),
                "rules": dataset.rule_failures,
                "items": [item.to_dict() for item in items],
            }
        )
        return
    row = dataset_row(dataset)
    print_table([row], list(row), "")
    print("categories: " + ", ".join(f"{name}: {count}" for name, count in dataset.stats.get("categories", {}).items()))
    broken = ", ".join(f"{rule}: {count}" for rule, count in sorted(dataset.rule_failures.items()) if count)
    print(f"rules with offenders: {broken or 'none'}")
    for item in items:
        print(f"\n{item.item_id}  {item.category}{'' if item.answerable else '  unanswerable'}")
        print(f"  Q: {item.question}")
        for answer in item.answers:
            print(f"  A: {answer}")
        for evidence in item.evidence:
            page = f", page {evidence.page}" if evidence.page is not None else ""
            print(f"  from {evidence.document_id}{page}" + (f": {evidence.quote!r}" if evidence.quote else ""))


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(help="A file, or a folder for beir.")],
    client: Annotated[str, typer.Option(help="Whose questions these are.")],
    format_name: Annotated[str, typer.Option("--format", help="native or beir.")] = "native",
    name: Annotated[str | None, typer.Option(help="The dataset's name; default: the file's.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Imports a benchmark; a bad row is refused by file, row and field, and the rest goes on."""
    from rageval_dagster.benchmark.importing import import_dataset
    from rageval_dagster.corpus.store import open_store

    settings, db = open_all()
    dataset, refused = import_dataset(db, client, name or _name_of(file), file, format_name)
    rows: list[dict[str, Any]] = [refusal.to_dict() for refusal in refused]
    if as_json:
        print_json({"dataset_id": dataset.id, "imported": dataset.qa_count, "refused": rows})
    else:
        for refusal in refused:
            say(f"refused: {refusal}")
        if not open_store(settings).has(client):
            say(f"client {client!r} has no documents yet: rageval ingest PATH --client {client}")
        print(f"dataset {dataset.id} {dataset.name!r}: {plural(dataset.qa_count, 'question')} imported for {client}")
    if refused:
        raise typer.Exit(DONE_IN_PART)


def dataset_row(dataset: Any) -> dict[str, Any]:
    return {
        "id": dataset.id,
        "name": dataset.name,
        "client": dataset.client_id,
        "kind": dataset.kind,
        "questions": dataset.qa_count,
        "valid": dataset.valid,
        "created": dataset.created_at,
        "version": dataset.dataset_version[:12],
    }


def _name_of(file: Path) -> str:
    return file.resolve().name.split(".")[0] if file.is_file() else file.resolve().name
