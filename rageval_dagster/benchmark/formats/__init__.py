"""Datasets as files: the formats by name, and reading and writing them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rageval_dagster.benchmark.formats import beir, csv_format, json_formats, native
from rageval_dagster.benchmark.formats.json_formats import AI4RAG, JUDGED, RAGAS, RECORDED, TEST_CASES
from rageval_dagster.benchmark.formats.rows import ReadOptions, ReadReport, Refusal
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Item

__all__ = ["FORMATS", "Format", "ReadOptions", "ReadReport", "Refusal", "read_dataset", "write_dataset"]


@dataclass(frozen=True)
class Format:
    """How a kind of file is read and, if it can be, written.

    `fields` are those that may have other names in the file, `with_queries` is whether it may name questions by id
    alone, `carries` what a written file holds of an item.
    """

    read: Callable[[Path, ReadOptions], ReadReport]
    write: Callable[[Sequence[Item], Path], None] | None = None
    fields: Sequence[str] = ()
    with_queries: bool = False
    carries: str = ""


_EVERYTHING = "everything"

FORMATS: dict[str, Format] = {
    "native": Format(native.read, native.write, native.FIELDS, carries=_EVERYTHING),
    "beir": Format(beir.read, beir.write, carries="question, answers, document ids, and whether it is answerable"),
    "csv": Format(csv_format.read, csv_format.write, csv_format.FIELDS, carries=_EVERYTHING),
    "ai4rag": Format(AI4RAG.read, AI4RAG.write, AI4RAG.names, carries="question, answers and document ids"),
    "test-cases": Format(
        TEST_CASES.read,
        TEST_CASES.write,
        TEST_CASES.names,
        carries="question, first answer, document ids and category",
    ),
    "qa-pairs": Format(
        json_formats.read_qa_pairs,
        json_formats.write_qa_pairs,
        ("question", "answer", "chunk_id", "document_id"),
        carries="question, first answer and first document id",
    ),
    "ragas": Format(RAGAS.read, RAGAS.write_lines, RAGAS.names, carries="question and first answer"),
    "recorded": Format(RECORDED.read, fields=RECORDED.names),
    "judged": Format(JUDGED.read, fields=JUDGED.names),
    "expected-outputs": Format(
        json_formats.read_expected_outputs,
        fields=("question_id", "question", "expected_output", "checks", "category"),
        with_queries=True,
    ),
    "test-results": Format(json_formats.read_test_results, with_queries=True),
}


def read_dataset(path: Path, format_name: str = "native", options: ReadOptions | None = None) -> ReadReport:
    """Reads a dataset: the items in the file's order, and every row that was refused with file, row and field.

    Of rows that are the same item (question, answers, evidence, history, principal) the first counts.

    Raises:
        DatasetError: an unknown format or field, a file that is absent, unreadable or empty, or lacks a named column.
    """
    options = options or ReadOptions()
    format_ = _format(format_name)
    if not path.exists():
        raise DatasetError(f"{path} does not exist")
    for name in options.columns:
        if name not in format_.fields and not (format_name == "csv" and csv_format.is_field(name)):
            known = f"takes {', '.join(format_.fields)}" if format_.fields else "is not for this format"
            raise DatasetError(f"--map {name}={options.columns[name]}: with the format {format_name} --map {known}")
    if options.queries is not None and not format_.with_queries:
        with_queries = ", ".join(name for name, each in FORMATS.items() if each.with_queries)
        raise DatasetError(f"--queries is for the formats {with_queries}, not for {format_name}")
    return format_.read(path, options)


def write_dataset(items: Sequence[Item], path: Path, format_name: str = "native") -> None:
    """Writes a dataset to a file (`beir`: into a folder).

    Raises:
        DatasetError: an unknown format, one that is only read, or a place that cannot be written.
    """
    write = _format(format_name).write
    if write is None:
        written = ", ".join(name for name, each in FORMATS.items() if each.write is not None)
        raise DatasetError(f"the format {format_name!r} is only read; those that can be written: {written}")
    try:
        write(items, path)
    except OSError as error:
        raise DatasetError(f"{error.filename or path} cannot be written ({error.strerror}); write elsewhere") from None


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise DatasetError(f"unknown format {name!r}; known: {', '.join(FORMATS)}")
    return FORMATS[name]
