"""Datasets as files: a format is a map of what it calls an item's fields; one reader and one writer serve them all."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rageval_dagster.benchmark.formats import beir
from rageval_dagster.benchmark.formats.cells import COLUMNS, cells_of, is_column, item_from_cells
from rageval_dagster.benchmark.formats.items import FIELDS, ID_FIELDS, Queries, item_of, native_item
from rageval_dagster.benchmark.formats.rows import (
    ReadOptions,
    ReadReport,
    Refusal,
    Row,
    Rows,
    json_lines,
    json_rows,
    optional_text,
    question_field,
    read_items,
    write_json,
    write_json_lines,
)
from rageval_dagster.benchmark.formats.squad import FIELDS as SQUAD_FIELDS
from rageval_dagster.benchmark.formats.squad import questions_of, squad_item
from rageval_dagster.benchmark.formats.table import read_json_or_table, read_table, write_table
from rageval_dagster.benchmark.formats.traces import FIELDS as TRACE_FIELDS
from rageval_dagster.benchmark.formats.traces import langfuse_rows, phoenix_rows
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Item

__all__ = ["FORMATS", "Format", "ReadOptions", "ReadReport", "Refusal", "read_dataset", "row_of", "write_dataset"]

_SAID = frozenset({"id", "response", "contexts", "label", "others", "error"})
"""Fields that are not the question's: `recorded/` reads what a system said."""


@dataclass(frozen=True)
class Format:
    """How a kind of file is read and, if it can be, written.

    `names` are its names of fields (-> ours, as `items` knows them) in the order in which users are told them, also of
    what a system said. `is_mapped` is whether fields may have other names in the file, `with_queries` whether it may
    name questions by id alone. JSON rows may stand `inside` an object under that name, or be an object of rows, each
    under its `key`; `rows_of` gives those that an entry stands for. `carries` is what a written file holds of an item.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    write: Callable[[Sequence[Item], Path], None] | None = None
    carries: str = ""
    is_mapped: bool = True
    with_queries: bool = False
    inside: str | None = None
    key: str | None = None
    rows_of: Callable[[Any], list[Any]] = lambda entry: [entry]
    rows: Callable[[Path], Rows] | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """Those of an item that may have other names in the file."""
        return tuple(name for name, ours in self.names.items() if ours not in _SAID) if self.is_mapped else ()


def row_of(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A row of values by our names, under a format's names; a row's own `id` comes first."""
    ordered = sorted(names, key=lambda name: name != "id")
    return {name: values[names[name]] for name in ordered if names[name] in values}


def _write(
    names: Mapping[str, str], items: Iterable[Item], path: Path, inside: str | None = None, lines: bool = False
) -> None:
    rows: list[Row] = []
    for item in items:
        documents = list(dict.fromkeys(evidence.document_id for evidence in item.evidence))
        values = {
            "question": item.question,
            "reference": next(iter(item.answers), None),
            "some answers": list(item.answers),
            "documents": documents,
            "some documents": documents,
            "document or chunk": next(iter(documents), None),
            "chunk": None,
            "optional category": item.category,
        }
        rows.append(row_of(values, names))
    if lines:
        write_json_lines(path, rows)
    else:
        write_json(path, {inside: rows} if inside else rows)


_EVERYTHING = "everything"
_AI4RAG = {
    **{"question": "question", "correct_answers": "some answers", "correct_answer_document_ids": "some documents"},
}
_TEST_CASES = {
    **{"query": "question", "expected_answer": "reference", "expected_sources": "documents"},
    "category": "optional category",
}
_QA_PAIRS = {
    **{"question": "question", "answer": "reference", "chunk_id": "chunk", "document_id": "document or chunk"},
}
_RAGAS = {
    **{"user_input": "question", "response": "response", "retrieved_contexts": "contexts", "reference": "reference"},
    "id": "id",
}

FORMATS: dict[str, Format] = {
    "native": Format(
        dict(zip(FIELDS, FIELDS, strict=True)),
        lambda items, path: write_json_lines(path, (item.to_dict() for item in items)),
        _EVERYTHING,
    ),
    "beir": Format(write=beir.write, carries="question, answers, document ids, and whether it is answerable"),
    "csv": Format(
        {name: name for name in (*COLUMNS[1:], "user", "principal.NAME")},
        lambda items, path: write_table(path, COLUMNS, map(cells_of, items)),
        _EVERYTHING,
    ),
    "ai4rag": Format(_AI4RAG, partial(_write, _AI4RAG), "question, answers and document ids"),
    "test-cases": Format(
        _TEST_CASES,
        partial(_write, _TEST_CASES, inside="test_cases"),
        "question, first answer, document ids and category",
        inside="test_cases",
    ),
    "qa-pairs": Format(_QA_PAIRS, partial(_write, _QA_PAIRS), "question, first answer and first document id"),
    "ragas": Format(_RAGAS, partial(_write, _RAGAS, lines=True), "question and first answer"),
    "recorded": Format(
        {
            **{"question": "question", "reference_answer": "reference", "answer": "response"},
            **{"contexts": "contexts", "id": "id"},
        }
    ),
    "judged": Format(
        {
            **{"question": "question", "contexts": "contexts", "answer": "response", "gold_answers": "answers"},
            **{"label": "label", "other_judges": "others", "id": "id"},
        }
    ),
    "expected-outputs": Format(
        {
            **{"question_id": "query id", "question": "question", "expected_output": "reference"},
            **{"checks": "checks or JSON", "category": "optional category"},
        },
        with_queries=True,
        key="question_id",
    ),
    "test-results": Format(
        {"query": "question", "answer": "reference", "document": "pages"},
        is_mapped=False,
        with_queries=True,
        key="query_id",
    ),
    "squad": Format(dict(zip(SQUAD_FIELDS, SQUAD_FIELDS, strict=True)), inside="data", rows_of=questions_of),
    "langfuse": Format(TRACE_FIELDS, rows=langfuse_rows),
    "phoenix": Format(TRACE_FIELDS, rows=phoenix_rows),
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
    check_columns(options.columns, format_name, format_.fields)
    if options.queries is not None and not format_.with_queries:
        with_queries = ", ".join(name for name, each in FORMATS.items() if each.with_queries)
        raise DatasetError(f"--queries is for the formats {with_queries}, not for {format_name}")
    if format_name == "beir":
        return beir.read(path)
    queries = Queries(options.queries)
    chunk_ids: dict[str, str] = {}

    def item(row: Row) -> Item:
        if format_name == "native":
            return native_item(row)
        if format_name == "csv":
            return item_from_cells(row)
        if format_name == "squad":
            return squad_item(row)
        chunk_id = None
        if format_name == "qa-pairs":
            chunk_id, _ = optional_text(row, "chunk_id"), optional_text(row, "document_id")
        found = item_of(row, format_.names, queries.required if format_.with_queries else question_field)
        if chunk_id:
            chunk_ids.setdefault(found.item_id, chunk_id)
        return found

    rows, unused = _rows(path, format_name, options.columns)
    report = read_items(path, rows, item, options, repeated="question" if format_name == "csv" else None)
    return replace(report, unused=unused, chunk_ids=chunk_ids)


def check_columns(columns: Mapping[str, str], format_name: str, fields: Sequence[str]) -> None:
    """
    Raises:
        DatasetError: --map names a field that the format does not have.
    """
    for name, column in columns.items():
        if name not in fields and not (format_name == "csv" and is_column(name)):
            known = f"takes {', '.join(fields)}" if fields else "is not for this format"
            raise DatasetError(f"--map {name}={column}: with the format {format_name} --map {known}")


def _rows(path: Path, format_name: str, columns: Mapping[str, str]) -> tuple[Rows, Sequence[str]]:
    """The rows of a file, and of a table the columns that are not read."""
    format_ = FORMATS[format_name]
    if format_name == "native":
        if path.is_dir():
            raise DatasetError(f"{path} is a folder; the native format is a file of JSON Lines")
        return json_lines(path), ()
    if format_name == "csv":
        table = read_table(path, columns, ["question"], is_column)
        return table.rows, table.unused
    if format_name == "expected-outputs":
        known: Collection[str] = {*ID_FIELDS, *format_.names}
        return read_json_or_table(path, "question_id", columns, ["expected_output"], known)
    if format_.rows is not None:
        return format_.rows(path), ()
    return json_rows(path, format_.inside, format_.key, format_.rows_of), ()


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
