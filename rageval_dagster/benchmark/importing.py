"""Importing a benchmark from a file: read, judged by the rules, frozen as a dataset; no row goes unnoticed."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path

from rageval_dagster.benchmark.formats import Refusal, read_dataset
from rageval_dagster.benchmark.renewal import DEFAULT_NAME
from rageval_dagster.benchmark.validation import validate_items
from rageval_dagster.errors import DatasetError
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.database import Database


def import_dataset(
    db: Database, client_id: str, name: str, path: Path, format_name: str
) -> tuple[Dataset, list[Refusal]]:
    """Imports a file as a dataset of a client; importing the same rows again gives the same dataset.

    Raises:
        DatasetError: the file cannot be read, has no usable row, or the name is that of a generated dataset.
    """
    report = read_dataset(path, format_name)
    if not report.items:
        first = f"; the first: {report.refused[0]}" if report.refused else ""
        raise DatasetError(f"{path} has no row that can be imported{first}")
    generated = [
        dataset
        for dataset in benchmark_storage.list_datasets(db, client_id)
        if dataset.name == name and dataset.kind == "generated"
    ]
    if generated or name == DEFAULT_NAME:
        raise DatasetError(f"{name!r} is the name of client {client_id!r}'s generated dataset: choose another --name")
    client_storage.ensure_client(db, client_id)
    judged = validate_items(report.items)
    dataset = benchmark_storage.save_dataset(
        db,
        client_id,
        name,
        "imported",
        report.items,
        created_by=f"import {format_name}",
        corpus_version=None,
        valid=judged.valid,
        rule_failures=judged.rule_failures,
        stats={
            "categories": dict(sorted(Counter(item.category for item in report.items).items())),
            "flagged": {item_id: list(rules) for item_id, rules in judged.flagged.items()},
            "rules": [asdict(result) for result in judged.rule_results],
            "refused": len(report.refused),
        },
    )
    return dataset, report.refused
