"""The formats of other tools that are JSON: an object a question, with fields of other names and no place for quotes.

Further fields of a row are ignored: outputs of the system under test stand beside the question, for scoring.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rageval_dagster.benchmark.formats import native
from rageval_dagster.benchmark.formats.rows import (
    ReadOptions,
    ReadReport,
    Row,
    RowError,
    json_rows,
    json_value,
    list_field,
    nonblank,
    object_value,
    optional_text,
    question_field,
    read_bytes,
    read_items,
    texts_field,
    write_json,
    write_json_lines,
)
from rageval_dagster.benchmark.formats.table import read_table
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Evidence, Item

ID_FIELDS = ("query_id", "question_id", "id", "_id")
_TEXT_FIELDS = ("query", "question", "text")


@dataclass(frozen=True)
class Fields:
    """What a format calls an item's fields; all else that an item has is left out when it is written.

    The reference is one `answer`, or there is a list of `answers`. `documents` are the names that a list of document
    ids may have, of which the first is written. The rows may stand `inside` an object, under that name.
    """

    question: str
    answer: str | None = None
    answers: str | None = None
    documents: tuple[str, ...] = ()
    category: str | None = None
    inside: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        names = (self.question, self.answer, self.answers, *self.documents[:1], self.category)
        return tuple(name for name in names if name is not None)

    def read(self, path: Path, options: ReadOptions) -> ReadReport:
        return read_items(path, json_rows(path, self.inside), self.item, options)

    def item(self, row: Row, question: Callable[[Row, str], str] = question_field) -> Item:
        """The item of a row; `question` reads its question."""
        named = next((name for name in self.documents if row.get(name) is not None), None)
        return Item(
            question=question(row, self.question),
            answers=texts_field(row, self.answers) if self.answers else one_answer(row, self.answer or ""),
            evidence=documents(texts_field(row, named)) if named else (),
            category=(self.category and optional_text(row, self.category)) or Item.category,
        )

    def write(self, items: Iterable[Item], path: Path) -> None:
        rows = list(map(self.row, items))
        write_json(path, {self.inside: rows} if self.inside else rows)

    def write_lines(self, items: Iterable[Item], path: Path) -> None:
        write_json_lines(path, map(self.row, items))

    def row(self, item: Item) -> Row:
        values = (item.question, _first_answer(item), list(item.answers), _document_ids(item), item.category)
        names = (self.question, self.answer, self.answers, next(iter(self.documents), None), self.category)
        return {name: value for name, value in zip(names, values, strict=True) if name is not None}


AI4RAG = Fields(
    "question",
    answers="correct_answers",
    documents=("correct_answer_document_ids", "correct_answer_document_keys"),
)
TEST_CASES = Fields("query", "expected_answer", None, ("expected_sources",), "category", inside="test_cases")
RAGAS = Fields("user_input", "reference")
RECORDED = Fields("question", "reference_answer")
JUDGED = Fields("question", answers="gold_answers")


def read_qa_pairs(path: Path, options: ReadOptions) -> ReadReport:
    """Reads `[{question, answer, chunk_id, document_id}]`; the report says which chunk an item names."""
    chunk_ids: dict[str, str] = {}

    def item(row: Row) -> Item:
        chunk_id, document_id = optional_text(row, "chunk_id"), optional_text(row, "document_id")
        source = document_id or chunk_id
        found = Item(
            question=question_field(row, "question"),
            answers=one_answer(row, "answer"),
            evidence=documents([source] if source else []),
        )
        if chunk_id:
            chunk_ids.setdefault(found.item_id, chunk_id)
        return found

    return replace(read_items(path, json_rows(path), item, options), chunk_ids=chunk_ids)


def read_expected_outputs(path: Path, options: ReadOptions) -> ReadReport:
    """Reads `{question_id, question?, expected_output, checks[]?, category?}`: JSON, also by id, or CSV.

    A question that does not stand in its row is looked up by its id in the file of queries. In CSV, `checks` is JSON.
    """
    queries = Queries(options.queries)

    def item(row: Row) -> Item:
        return expected_item(row, queries.text_of(row, "question"))

    if read_bytes(path).lstrip().startswith((b"[", b"{")):
        return read_items(path, json_rows(path, key="question_id"), item, options)
    known = {*ID_FIELDS, "question", "expected_output", "checks", "category"}
    table = read_table(path, options.columns, ["expected_output"], known.__contains__)
    return replace(read_items(path, table.rows, item, options), unused=table.unused)


def expected_item(row: Row, question: str) -> Item:
    """The item of a row of `expected-outputs`; its `checks` may be JSON in a text."""
    declared = row.get("checks") or None
    if isinstance(declared, str):
        declared = json_value(declared, "checks")
    return Item(
        question=question,
        answers=one_answer(row, "expected_output"),
        category=optional_text(row, "category") or Item.category,
        checks=native.read_checks({"checks": declared}),
    )


def read_test_results(path: Path, options: ReadOptions) -> ReadReport:
    """Reads ground truth `{query_id: {answer, document: {document: [pages]}}}`.

    A question is its row's `query`, or stands in the file of queries under the row's `query_id`, or else its name.
    """
    queries = Queries(options.queries)

    def item(row: Row) -> Item:
        return Item(queries.text_of(row, "query"), one_answer(row, "answer"), tuple(evidence_pages(row)))

    return read_items(path, json_rows(path, key="query_id"), item, options)


def one_answer(row: Row, name: str) -> tuple[str, ...]:
    """The text of a field as the only answer; none where it is missing or blank."""
    answer = optional_text(row, name)
    return () if answer is None else (answer,)


def documents(document_ids: Iterable[str]) -> tuple[Evidence, ...]:
    return tuple(Evidence(document_id) for document_id in dict.fromkeys(document_ids))


def evidence_pages(row: Row) -> Iterator[Evidence]:
    field = "document"
    documents = {} if row.get(field) is None else object_value(row[field], field)
    for document_id in documents:
        pages = [native.page_number(page, field) for page in list_field(documents, document_id, field)]
        for page in dict.fromkeys(pages) or [None]:
            yield Evidence(nonblank(document_id, field), page)


class Queries:
    """The texts of questions by id, from the file that the user names, if any."""

    def __init__(self, path: Path | None) -> None:
        self._texts = None if path is None else read_queries(path)

    def text_of(self, row: Row, name: str) -> str:
        """The question in the row's field, else the one under the row's id; an id itself is no question."""
        if optional_text(row, name) is not None:
            return question_field(row, name)
        query_id = next((str(row[field]) for field in ID_FIELDS if row.get(field) is not None), None)
        if self._texts is None:
            raise RowError(name, "is missing; a file with the texts of questions by id can be named with --queries")
        if query_id not in self._texts:
            raise RowError(name, "is missing, and the file of queries has none for its id")
        return question_field({name: self._texts[query_id]}, name)

    def known_text(self, row: Row, name: str, query_id: str | None) -> str:
        """The question in the row's field, else the one under the id, else none (an empty text)."""
        if optional_text(row, name) is not None:
            return question_field(row, name)
        return (self._texts or {}).get(query_id or "", "")


def read_queries(path: Path) -> dict[str, str]:
    """Question texts by id: `{id: text}`, `{id: {query}}`, or objects with id and query in a list or a line each.

    Raises:
        DatasetError: the file cannot be read, or holds no question with an id.
    """
    texts: dict[str, str] = {}
    for _, row in json_rows(path, key="id"):
        if isinstance(row, RowError):
            continue
        query_id = next((row[field] for field in ID_FIELDS if row.get(field) is not None), None)
        text = next((row[field] for field in _TEXT_FIELDS if isinstance(row.get(field), str)), None)
        for name, value in (row if query_id is None else {str(query_id): text}).items():
            if isinstance(value, str):
                texts.setdefault(name, value)
    if not texts:
        raise DatasetError(f"{path} has no questions by id: it takes {{id: text}}, or objects with an id and a query")
    return texts


def write_qa_pairs(items: Iterable[Item], path: Path) -> None:
    """Writes questions, the first answer, and the first document id; an item belongs to no chunk."""
    rows = [
        {
            "question": item.question,
            "answer": _first_answer(item),
            "chunk_id": None,
            "document_id": next(iter(_document_ids(item)), None),
        }
        for item in items
    ]
    write_json(path, rows)


def _first_answer(item: Item) -> str | None:
    return next(iter(item.answers), None)


def _document_ids(item: Item) -> list[str]:
    return list(dict.fromkeys(evidence.document_id for evidence in item.evidence))
