"""What RAG systems said, as files: each format's questions with answers, contexts and references, read row by row."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rageval_dagster.benchmark.formats import csv_format, native
from rageval_dagster.benchmark.formats.json_formats import (
    ID_FIELDS,
    JUDGED,
    RAGAS,
    RECORDED,
    Queries,
    documents,
    evidence_pages,
    expected_item,
    one_answer,
)
from rageval_dagster.benchmark.formats.rows import (
    MAX_QUESTION_BYTES,
    ReadOptions,
    Refusal,
    Row,
    RowError,
    Rows,
    boolean_field,
    check_storable,
    json_rows,
    json_value,
    list_field,
    object_value,
    only_fields,
    optional_text,
    read_bytes,
    read_rows,
    texts_field,
)
from rageval_dagster.benchmark.formats.table import read_table
from rageval_dagster.errors import DatasetError
from rageval_dagster.languages import is_decline
from rageval_dagster.records import Answer, Hit, Item, Result
from rageval_dagster.text import json_kind

NOT_RECORDED = "not_recorded: there is no answer to the question"


@dataclass(frozen=True)
class Output:
    """What a system said to one question, as metrics read it.

    `label` is the human label of a judged answer, `others` the verdicts of other judges by their names. `query_id` is
    the question's own id where the file tells it from the row's.
    """

    id: str
    result: Result
    label: str | None = None
    others: Mapping[str, str] = field(default_factory=dict)
    query_id: str | None = None


@dataclass(frozen=True)
class OutputOptions(ReadOptions):
    """What the user says about a file of outputs.

    `ground_truth` is the file with references by query id, `answers` the one with answers by question id; `k` is the
    cutoff of the metrics, and `decline_phrases` are the words that the system declines with beside the known ones.
    """

    ground_truth: Path | None = None
    answers: Path | None = None
    k: int = 5
    decline_phrases: Sequence[str] = ()


@dataclass(frozen=True)
class OutputsReport:
    """What came of reading a file of outputs, in its order; `unused` names the columns of a table that are not read."""

    rows: list[Output]
    refused: list[Refusal]
    unused: Sequence[str] = ()


@dataclass(frozen=True)
class OutputFormat:
    """How a kind of file is read and told from others.

    `fields` are those that may have other names in the file. A row can be of this format if it has all of `needs` (and,
    of a strict format, no further fields), and is it rather than another if it has one of `marks`. `takes` are the
    further files that go with it.
    """

    read: Callable[[Path, OutputOptions], OutputsReport]
    fields: Sequence[str]
    needs: frozenset[str]
    marks: frozenset[str]
    strict: bool = False
    takes: frozenset[str] = frozenset()

    def fits(self, names: Collection[str]) -> bool:
        return self.needs <= set(names) and not (self.strict and set(names) - {*self.fields, *ID_FIELDS})


@dataclass(frozen=True)
class _Contexts:
    """What a row says was retrieved; `told` is whether it says so at all. Hits need ids of documents or chunks."""

    texts: tuple[str, ...] = ()
    hits: tuple[Hit, ...] = ()
    told: bool = True


@dataclass(frozen=True)
class _Draft:
    """An output before it is sure that its id is its own."""

    own_id: str | None
    item: Item
    answer: Answer | None
    contexts: _Contexts
    label: str | None = None
    others: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    query_id: str | None = None

    def output(self, output_id: str, k: int) -> Output:
        # Where no hit has an id, it is not known which documents came back.
        by_document = len(self.contexts.hits) == len(self.contexts.texts)
        result = Result(
            item=self.item,
            relevant_chunks=None,
            relevant_documents=(self.item.document_ids or None) if by_document else None,
            hits=self.contexts.hits,
            k=k,
            answer=self.answer,
            contexts=self.contexts.texts,
            error=self.error,
            tells_contexts=self.contexts.told,
        )
        return Output(output_id, result, self.label, self.others, self.query_id)


_Convert = Callable[[Row], _Draft]


# --- the formats: what a row of each says -----------------------------------------------------------------------------


def _recorded(row: Row, options: OutputOptions) -> _Draft:
    """`{question, reference_answer?, answer, contexts[]?, id?}` (seed 000)."""
    item = RECORDED.item(row, _question)
    return _Draft(_own_id(row), item, _answer(row, "answer", options), _contexts(row))


def _ragas(row: Row, options: OutputOptions) -> _Draft:
    """`{user_input, response, retrieved_contexts[]?, reference?}`."""
    item = RAGAS.item(row, _question)
    return _Draft(_own_id(row), item, _answer(row, "response", options), _contexts(row, "retrieved_contexts"))


def _judged(row: Row, options: OutputOptions) -> _Draft:
    """`{id?, question, contexts[]?, answer, gold_answers[]?, label, other_judges{}?}`."""
    if "label" not in row:
        raise RowError("label", "is missing")
    others = {} if row.get("other_judges") is None else object_value(row["other_judges"], "other_judges")
    verdicts = {name: _label(verdict, f"other_judges.{name}") for name, verdict in others.items()}
    return _Draft(
        own_id=_own_id(row),
        item=JUDGED.item(row, _question),
        answer=_answer(row, "answer", options),
        contexts=_contexts(row),
        label=_label(row["label"], "label"),
        others={name: verdict for name, verdict in verdicts.items() if verdict is not None},
    )


def _ai4rag(row: Row, options: OutputOptions) -> _Draft:
    """The fields of `EvaluationData` (seed 001); its context ids are those of documents."""
    item = Item(
        question=_question(row, "question"),
        answers=texts_field(row, "ground_truths"),
        evidence=documents(_identifiers(row, "ground_truths_context_ids")),
    )
    return _Draft(_own_id(row), item, _answer(row, "answer", options), _contexts_of_documents(row))


def _native(row: Row, options: OutputOptions) -> _Draft:
    """An item's fields, `answer`, `contexts[]` (texts, or objects with ids), `declined?`, `citations[]?`, `error?`."""
    only_fields(row, frozenset((*native.FIELDS, *ID_FIELDS, *_SAID, "error")))
    if not any(name in row for name in ("answer", "contexts", "error")):
        raise RowError("answer", "is missing, and so are contexts")
    item = native.item_from_row({name: value for name, value in row.items() if name in native.FIELDS})
    answer = _answer({"answer": None, **row}, "answer", options)
    return _Draft(_own_id(row), item, answer, _contexts(row), error=optional_text(row, "error"))


def _csv(row: Row, options: OutputOptions) -> _Draft:
    """The columns of a dataset, `response`, and what is a list as JSON: `contexts`, `citations`."""
    cells = {name: cell for name, cell in row.items() if cell or name == "response"}
    said = _with_lists(cells)
    item = csv_format.item_from_cells({name: cell for name, cell in row.items() if csv_format.is_field(name)})
    return _Draft(_own_id(cells), item, _answer(said, "response", options), _contexts(said))


_SAID = ("answer", "contexts", "declined", "citations")
_CONTEXT_FIELDS = frozenset(["text", "document_id", "chunk_id", "page", "score"])
_JUDGED_FIELDS = ("question", "contexts", "answer", "gold_answers", "label", "other_judges")
EVALUATION_DATA = (
    *("question", "answer", "contexts", "context_ids", "ground_truths", "ground_truths_context_ids"),
    "question_id",
)


def _read_lines(convert: Callable[[Row, OutputOptions], _Draft], path: Path, options: OutputOptions) -> OutputsReport:
    return _read(path, json_rows(path), lambda row: convert(row, options), options)


def _read_csv(path: Path, options: OutputOptions) -> OutputsReport:
    known = {"response", "contexts", "declined", "citations", "item_id", *ID_FIELDS}
    table = read_table(
        path,
        options.columns,
        ["question", "response"],
        lambda name: name in known or csv_format.is_field(name),
    )
    return _read(path, table.rows, lambda row: _csv(row, options), options, unused=table.unused)


# --- test results and expected outputs: further files by id -----------------------------------------------------------


def _read_test_results(path: Path, options: OutputOptions) -> OutputsReport:
    """Reads `{id: {query_id, query?, top_k_chunks[]?, answers}}` (seed 002), with ground truth and queries by query id.

    The question is the row's, else that of the queries, else that of the ground truth; an id is never taken for one.
    """
    queries = Queries(options.queries)
    truths, refused = _ground_truth(options.ground_truth)

    def draft(row: Row) -> _Draft:
        query_id = _own_id(row, ("query_id",))
        truth = truths.get(query_id or "", Item(""))
        question = queries.known_text(row, "query", query_id) or truth.question
        item = Item(question, truth.answers, truth.evidence)
        contexts = _Contexts(told=False)
        if row.get("top_k_chunks") is not None:
            contexts = _chunks(list_field(row, "top_k_chunks"), "top_k_chunks", "doc_id")
        answer = _answer(row, "answers", options)
        return _Draft(_own_id(row, ("id",)), item, answer, contexts, query_id=query_id)

    return _read(path, json_rows(path, key="id"), draft, options, refused)


def _ground_truth(path: Path | None) -> tuple[dict[str, Item], list[Refusal]]:
    if path is None:
        return {}, []

    def truth(row: Row) -> tuple[str, Item]:
        query_id = _own_id(row, ("query_id",))
        if query_id is None:
            raise RowError("query_id", "is missing")
        question = optional_text(row, "query") or optional_text(row, "question") or ""
        return query_id, Item(question, one_answer(row, "answer"), tuple(evidence_pages(row)))

    found, refused = read_rows(path, json_rows(path, key="query_id"), truth, ReadOptions())
    return _by_id(path, found, refused, "query_id"), refused


def _read_expected_outputs(path: Path, options: OutputOptions) -> OutputsReport:
    """Reads seed 003's questions with expected outputs and checks; the answers stand in the rows or in their own file.

    A question that the file of answers lacks is an error, never dropped; an answer to none of the questions is refused.
    """
    queries = Queries(options.queries)
    answers, refused = _recorded_answers(options.answers)
    answered: set[str] = set()

    def draft(row: Row) -> _Draft:
        question_id = _own_id(row)
        item = expected_item(row, queries.known_text(row, "question", question_id))
        said = _with_lists(row)
        if options.answers is not None:
            if question_id not in answers:
                return _Draft(question_id, item, None, _Contexts(told=False), error=NOT_RECORDED)
            answered.add(question_id)
            said = answers[question_id][1]
        return _Draft(question_id, item, _answer(said, "answer", options), _contexts(said))

    rows, unused = _json_or_table(path, options, ["expected_output"], ("question", "expected_output", "category"))
    report = _read(path, rows, draft, options, refused, unused)
    if options.answers is not None:
        for question_id, (number, _) in answers.items():
            if question_id not in answered:
                report.refused.append(Refusal(options.answers.name, number, None, "answers none of the questions"))
    return report


def _recorded_answers(path: Path | None) -> tuple[dict[str, tuple[int, Row]], list[Refusal]]:
    """Numbered rows with `answer` and `contexts` by question id: `{id: answer}`, or rows as JSON, JSON Lines or CSV."""
    if path is None:
        return {}, []
    rows = list(_json_or_table(path, ReadOptions(), ["answer"], ())[0])
    only = rows[0][1] if len(rows) == 1 else None
    if isinstance(only, Mapping) and not any(name in only for name in (*ID_FIELDS, "item_id")):
        rows = [
            (number, {"id": name, **(said if isinstance(said, dict) else {"answer": said})})
            for number, (name, said) in enumerate(only.items(), start=1)
        ]

    def said(row: Row) -> tuple[str, Row]:
        question_id = _own_id(row)
        if question_id is None:
            raise RowError("id", "is missing")
        row = _with_lists(row)
        _text_or_none(row, "answer")
        _contexts(row)
        return question_id, row

    found, refused = read_rows(path, rows, said, ReadOptions())
    numbers = {question_id: number for number, (question_id, _) in reversed(found)}
    kept = _by_id(path, found, refused, "id")
    return {question_id: (numbers[question_id], row) for question_id, row in kept.items()}, refused


def _json_or_table(
    path: Path, options: ReadOptions, required: Sequence[str], more: Sequence[str]
) -> tuple[Rows, Sequence[str]]:
    """The rows of JSON (also by id) or of a table; an empty cell is no field, but for that of an empty answer."""
    if read_bytes(path).lstrip().startswith((b"[", b"{")):
        return json_rows(path, key="id"), ()
    known = {*ID_FIELDS, "item_id", *_SAID, "checks", *more}
    table = read_table(path, options.columns, required, known.__contains__)
    answer = options.columns.get("answer", "answer")
    rows = (
        (number, row if isinstance(row, RowError) else {name: row[name] for name in row if row[name] or name == answer})
        for number, row in table.rows
    )
    return rows, table.unused


def _with_lists(row: Row) -> Row:
    """A row whose lists, and whether it declined, may be written as texts."""
    texts = {name: row[name] for name in ("contexts", "citations", "declined") if isinstance(row.get(name), str)}
    lists = {name: json_value(text, name) for name, text in texts.items() if name != "declined"}
    declined = {"declined": csv_format.boolean(texts, "declined")} if "declined" in texts else {}
    return {**row, **lists, **declined}


def _by_id(
    path: Path, found: Sequence[tuple[int, tuple[str, Any]]], refused: list[Refusal], name: str
) -> dict[str, Any]:
    """Values by id; a row with the id of an earlier one is refused."""
    first: dict[str, int] = {}
    values: dict[str, Any] = {}
    for number, (row_id, value) in found:
        if first.setdefault(row_id, number) == number:
            values[row_id] = value
        else:
            refused.append(Refusal(path.name, number, name, f"is the id of row {first[row_id]} too"))
    return values


# --- rows -------------------------------------------------------------------------------------------------------------


def _read(
    path: Path,
    rows: Rows,
    convert: _Convert,
    options: OutputOptions,
    refused: Sequence[Refusal] = (),
    unused: Sequence[str] = (),
) -> OutputsReport:
    """The outputs of numbered rows. One without an id is `q0`, `q1`, ... by its place, refused rows counted."""
    places: dict[int, int] = {}

    def placed() -> Rows:
        for place, (number, row) in enumerate(rows):
            places[number] = place
            yield number, row

    found, bad = read_rows(path, placed(), convert, options)
    first: dict[str, int] = {}
    outputs: list[Output] = []
    for number, draft in found:
        output_id = draft.own_id if draft.own_id is not None else f"q{places[number]}"
        if first.setdefault(output_id, number) != number:
            bad.append(Refusal(path.name, number, "id", f"is the id of row {first[output_id]} too"))
        else:
            outputs.append(draft.output(output_id, options.k))
    return OutputsReport(outputs, [*sorted(bad, key=lambda refusal: refusal.row), *refused], unused)


def _own_id(row: Row, names: Sequence[str] = (*ID_FIELDS, "item_id")) -> str | None:
    """The id that a row has, a text or a whole number; None where it has none."""
    name = next((name for name in names if row.get(name) is not None), None)
    if name is None:
        return None
    return _identifier(row[name], name)


def _identifier(value: Any, name: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RowError(name, f"takes a string or a whole number, not {json_kind(value)}")
    if not str(value).strip():
        raise RowError(name, "is empty")
    return str(value)


def _identifiers(row: Row, name: str) -> tuple[str, ...]:
    return tuple(_identifier(value, f"{name}[{index}]") for index, value in enumerate(list_field(row, name)))


def _optional_id(row: Row, name: str, where: str) -> str | None:
    value = row.get(name)
    return None if value is None or value == "" else _identifier(value, where)


def _question(row: Row, name: str) -> str:
    """The question's text, which may be blank where answers are judged without it."""
    question = _text_or_none(row, name)
    if question is None:
        raise RowError(name, "is missing")
    if len(question.encode()) > MAX_QUESTION_BYTES:
        raise RowError(name, "is longer than 1 MB")
    return question


def _text_or_none(row: Row, name: str) -> str | None:
    """A string, which may be empty, or null; the field itself has to be there."""
    if name not in row:
        raise RowError(name, "is missing")
    value = row[name]
    if value is not None and not isinstance(value, str):
        raise RowError(name, f"takes a string or null, not {json_kind(value)}")
    return value


def _answer(row: Row, name: str, options: OutputOptions) -> Answer | None:
    """The answer, an empty text being an empty answer and null none; whether it declines its row may say."""
    text = _text_or_none(row, name)
    declined = boolean_field(row, "declined", default=False)
    citations = _identifiers(row, "citations")
    if text is None and not declined:
        return None
    if row.get("declined") is None:
        declined = is_decline(text or "", options.decline_phrases)
    return Answer(text or "", declined, citations)


def _label(value: Any, name: str) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is not None and not isinstance(value, str | int | float):
        raise RowError(name, f"takes a string, a number, or true or false, not {json_kind(value)}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1.0 is the label 1
    return None if value is None else str(value)


# --- contexts ---------------------------------------------------------------------------------------------------------


def _plain_contexts(row: Row, name: str) -> _Contexts:
    """Contexts as texts, which may be blank; without the field, or with null, it is not told what was retrieved."""
    if row.get(name) is None:
        return _Contexts(told=False)
    return _Contexts(tuple(_context_text(value, f"{name}[{i}]") for i, value in enumerate(list_field(row, name))))


def _context_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise RowError(name, f"takes a string, not {json_kind(value)}")
    return value


def _contexts_of_documents(row: Row) -> _Contexts:
    """Texts and document ids in two lists of one length; where only the ids are told, the texts are not known."""
    contexts = _plain_contexts(row, "contexts")
    if row.get("context_ids") is None:
        return contexts
    ids = _identifiers(row, "context_ids")
    texts = contexts.texts if contexts.told else ("",) * len(ids)
    if len(ids) != len(texts):
        raise RowError("context_ids", f"has {len(ids)} entries, and contexts has {len(texts)}")
    ranked = enumerate(zip(ids, texts, strict=True), start=1)
    return _Contexts(texts, tuple(_hit(rank, text, document_id) for rank, (document_id, text) in ranked))


def _contexts(row: Row, name: str = "contexts") -> _Contexts:
    """Contexts as texts, or as objects with a text, the ids of document and chunk, page and score."""
    values = list_field(row, name)
    if not any(isinstance(value, dict) for value in values):
        return _plain_contexts(row, name)
    for index, value in enumerate(values):
        only_fields(object_value(value, f"{name}[{index}]"), _CONTEXT_FIELDS, f"{name}[{index}].")
    return _chunks(values, name, "document_id")


def _chunks(values: Sequence[Any], field: str, document_field: str) -> _Contexts:
    """Contexts of objects; either all name a document or chunk, or none does. A chunk without document is one."""
    chunks = [(f"{field}[{index}]", object_value(value, f"{field}[{index}]")) for index, value in enumerate(values)]
    texts = tuple(
        "" if chunk.get("text") is None else _context_text(chunk["text"], f"{at}.text") for at, chunk in chunks
    )
    chunk_ids = [_optional_id(chunk, "chunk_id", f"{at}.chunk_id") for at, chunk in chunks]
    document_ids = [
        _optional_id(chunk, document_field, f"{at}.{document_field}") or chunk_id
        for (at, chunk), chunk_id in zip(chunks, chunk_ids, strict=True)
    ]
    if None in document_ids:
        nameless = document_ids.index(None)
        if any(document_ids):
            raise RowError(f"{field}[{nameless}].{document_field}", "is missing, and other contexts have one")
        if "" in texts:
            raise RowError(f"{field}[{texts.index('')}].text", "is missing")
        return _Contexts(texts)
    hits = [
        _hit(rank, text, document_id or "", chunk_id, _page(chunk, f"{at}.page"), _score(chunk, f"{at}.score"))
        for rank, ((at, chunk), text, document_id, chunk_id) in enumerate(
            zip(chunks, texts, document_ids, chunk_ids, strict=True), start=1
        )
    ]
    return _Contexts(texts, tuple(hits))


def _hit(
    rank: int, text: str, document_id: str, chunk_id: str | None = None, page: int | None = None, score: float = 0.0
) -> Hit:
    # Chunks of one document without ids of their own are still several.
    return Hit(chunk_id or f"{document_id}::{rank}", document_id, rank, score, text, page)


def _page(chunk: Row, where: str) -> int | None:
    return None if chunk.get("page") is None else native.page_number(chunk["page"], where)


def _score(chunk: Row, where: str) -> float:
    value = chunk.get("score")
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RowError(where, f"takes a number, not {json_kind(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise RowError(where, "holds a number that is too large") from None
    if not math.isfinite(number):
        raise RowError(where, "is no finite number")
    return number


# --- the formats by name ----------------------------------------------------------------------------------------------

OUTPUT_FORMATS: dict[str, OutputFormat] = {
    "recorded": OutputFormat(
        partial(_read_lines, _recorded),
        fields=("question", "reference_answer", "answer", "contexts", "id"),
        needs=frozenset({"question", "answer"}),
        marks=frozenset({"reference_answer"}),
    ),
    "ai4rag": OutputFormat(
        partial(_read_lines, _ai4rag),
        fields=EVALUATION_DATA,
        needs=frozenset({"question", "answer"}),
        marks=frozenset({"ground_truths", "ground_truths_context_ids", "context_ids"}),
    ),
    "ragas": OutputFormat(
        partial(_read_lines, _ragas),
        fields=("user_input", "response", "retrieved_contexts", "reference", "id"),
        needs=frozenset({"user_input", "response"}),
        marks=frozenset({"user_input"}),
    ),
    "judged": OutputFormat(
        partial(_read_lines, _judged),
        fields=(*_JUDGED_FIELDS, "id"),
        needs=frozenset({"question", "answer", "label"}),
        marks=frozenset({"label"}),
    ),
    "test-results": OutputFormat(
        _read_test_results,
        fields=("query_id", "query", "top_k_chunks", "answers"),
        needs=frozenset({"answers"}),
        marks=frozenset({"top_k_chunks", "query_id"}),
        takes=frozenset({"queries", "ground_truth"}),
    ),
    "expected-outputs": OutputFormat(
        _read_expected_outputs,
        fields=("question_id", "question", "expected_output", "checks", "category", *_SAID),
        needs=frozenset({"expected_output"}),
        marks=frozenset({"expected_output"}),
        takes=frozenset({"queries", "answers"}),
    ),
    "native": OutputFormat(
        partial(_read_lines, _native),
        fields=(*native.FIELDS, *_SAID, "error"),
        needs=frozenset({"question"}),
        marks=frozenset({"answers", "evidence", "answerable", "item_id", "checks", "declined", "citations"}),
        strict=True,
    ),
    "csv": OutputFormat(
        _read_csv,
        fields=(*csv_format.FIELDS, "response", "contexts", "declined", "citations", "id"),
        needs=frozenset({"question", "response"}),
        marks=frozenset({"response"}),
    ),
}

_BY_ROW = {"recorded": _recorded, "ai4rag": _ai4rag, "ragas": _ragas, "judged": _judged, "native": _native}
_TABLES = ("csv", "expected-outputs")
_READ_OF_ALL = {*ID_FIELDS, "item_id", *_SAID}
"""What is read of the rows of each format."""
_FILES = {"queries": "--queries", "ground_truth": "--ground-truth", "answers": "--answers"}


def read_outputs(path: Path, format_name: str, options: OutputOptions | None = None) -> OutputsReport:
    """Reads what a system said: the outputs in the file's order, and every row that was refused, by row and field.

    An output's id is its row's own (`question_id`, `query_id`, `id`, `item_id`), else `q0`, `q1`, ... by its place.

    Raises:
        DatasetError: an unknown format or field, a file that is absent, unreadable or empty, or lacks a named column.
    """
    options = options or OutputOptions()
    if format_name not in OUTPUT_FORMATS:
        raise DatasetError(f"no outputs are read from the format {format_name!r}; known: {', '.join(OUTPUT_FORMATS)}")
    format_ = OUTPUT_FORMATS[format_name]
    for name in options.columns:
        if name not in format_.fields and not (format_name == "csv" and csv_format.is_field(name)):
            raise DatasetError(
                f"--map {name}={options.columns[name]}: with the format {format_name} --map takes "
                f"{', '.join(format_.fields)}"
            )
    for name, option in _FILES.items():
        if getattr(options, name) is not None and name not in format_.takes:
            takers = ", ".join(other for other, each in OUTPUT_FORMATS.items() if name in each.takes)
            raise DatasetError(f"{option} is for the formats {takers}, not for {format_name}")
    return format_.read(path, options)


def detect_format(path: Path, columns: Mapping[str, str]) -> str:
    """The only format that the fields of the rows fit: of the first row that one of them marks, else of the first row.

    `columns` gives the file's own names of fields.

    Raises:
        DatasetError: several fit, or none; or the file cannot be read.
    """
    is_table = not read_bytes(path).lstrip().startswith((b"[", b"{"))
    if is_table:
        rows: Iterable[Collection[str]] = [read_table(path, {}, [], lambda _: True).columns]
    else:
        rows = (row for _, row in json_rows(path, key="id") if not isinstance(row, RowError))
    possible = _TABLES if is_table else [name for name in OUTPUT_FORMATS if name != "csv"]
    found: list[str] | None = None
    for row in rows:
        names = set(row) | {name for name, column in columns.items() if column in row}
        marked = _marked(names, possible)
        if found is None or marked:
            found = marked or _formats_of(names, possible)
        if marked:
            break
    if found is None:
        raise DatasetError(f"{path} has no row that can be read; its format can be said with --format")
    if len(found) != 1:
        known = ", ".join(found or possible)
        why = "the fields of a row fit several formats" if found else "its first row fits no format of outputs"
        raise DatasetError(f"{path}: {why}; say which with --format: {known}")
    return found[0]


def _formats_of(names: Collection[str], possible: Collection[str]) -> list[str]:
    """The formats that rows with these fields may be of: those that one of the fields marks, else the plainest."""
    return _marked(names, possible) or [name for name in possible if OUTPUT_FORMATS[name].fits(names)][:1]


def _marked(names: Collection[str], possible: Collection[str]) -> list[str]:
    """The formats that one of a row's fields marks.

    Where there is none, a strict one is, although the row has further fields: it names them, where a plainer one would
    pass over the references.
    """
    formats = {name: OUTPUT_FORMATS[name] for name in possible}
    fitting = [name for name, each in formats.items() if each.fits(names) and each.marks & set(names)]
    own = set(names) - _READ_OF_ALL
    return fitting or [
        name for name, each in formats.items() if each.strict and each.needs <= set(names) and each.marks & own
    ]


def outputs_of(items: Iterable[Mapping[str, Any]], options: OutputOptions) -> OutputsReport:
    """The outputs of rows in memory, each of a format that `_BY_ROW` names, told by its fields."""

    def draft(row: Row) -> _Draft:
        for name, value in row.items():
            check_storable(name, name)
            check_storable(name, value)
        found = _formats_of(row, _BY_ROW)
        if not found:
            raise RowError(None, f"is of no known shape ({', '.join(_BY_ROW)})")
        if len(found) > 1:
            raise RowError(None, f"has the fields of several shapes ({', '.join(found)})")
        return _BY_ROW[found[0]](row, options)

    return _read(Path("items"), enumerate(items, start=1), draft, options)
