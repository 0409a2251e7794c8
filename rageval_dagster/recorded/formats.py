"""What RAG systems said, as files: each format's questions with answers, contexts and references, read row by row."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rageval_dagster.benchmark.formats import FORMATS, check_columns
from rageval_dagster.benchmark.formats.cells import is_column, item_from_cells, typed
from rageval_dagster.benchmark.formats.items import FIELDS, ID_FIELDS, Queries, item_of, native_item
from rageval_dagster.benchmark.formats.rows import (
    MAX_QUESTION_BYTES,
    ReadOptions,
    Refusal,
    Row,
    RowError,
    Rows,
    boolean_field,
    check_storable,
    each_of,
    identifier,
    json_rows,
    list_field,
    object_field,
    objects_field,
    only_fields,
    optional_text,
    page_field,
    read_rows,
    string,
    within,
)
from rageval_dagster.benchmark.formats.table import holds_objects, read_json_or_table, read_table
from rageval_dagster.errors import DatasetError
from rageval_dagster.languages import is_decline
from rageval_dagster.records import Answer, Hit, Item, Result, page_id
from rageval_dagster.text import json_kind

NOT_RECORDED = "not_recorded: there is no answer to the question"

_T = TypeVar("_T")


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


# --- the formats ------------------------------------------------------------------------------------------------------


class OutputFormat:
    """What a kind of file calls its fields (`names`: its name -> ours), and how it is told from others.

    A row can be of this format if it has all that it `needs` (and, of a strict format, no further fields), and is it
    rather than another if it has one of its `marks`, as it must where it needs nothing. `takes` are the further files
    that go with it.
    """

    def __init__(
        self, names: Mapping[str, str], marks: str, needs: str = "", strict: bool = False, takes: Sequence[str] = ()
    ) -> None:
        self.names, self.strict, self.takes = names, strict, takes
        self.needs, self.marks = frozenset(needs.split()), frozenset(marks.split())

    @property
    def fields(self) -> tuple[str, ...]:
        """Those that may have other names in the file."""
        return tuple(self.names)

    def fits(self, names: Collection[str]) -> bool:
        return self.needs <= set(names) and not (self.strict and set(names) - {*self.fields, *ID_FIELDS})


_BESIDES = {"declined": "declined", "citations": "citations"}
_SAID = {"answer": "response", "contexts": "contexts", **_BESIDES}

OUTPUT_FORMATS: dict[str, OutputFormat] = {
    "recorded": OutputFormat(FORMATS["recorded"].names, needs="question answer", marks="reference_answer"),
    "ai4rag": OutputFormat(
        {
            **{"question": "question", "answer": "response", "contexts": "texts", "context_ids": "context ids"},
            **{"ground_truths": "answers", "ground_truths_context_ids": "document ids", "question_id": "id"},
        },
        needs="question answer",
        marks="ground_truths ground_truths_context_ids context_ids",
    ),
    "ragas": OutputFormat(FORMATS["ragas"].names, needs="user_input response", marks="user_input"),
    "judged": OutputFormat(FORMATS["judged"].names, needs="question answer label", marks="label"),
    "test-results": OutputFormat(
        {"query_id": "query id", "query": "question", "top_k_chunks": "chunks", "answers": "response"},
        needs="answers",
        marks="top_k_chunks query_id",
        takes=("queries", "ground_truth"),
    ),
    "expected-outputs": OutputFormat(
        {**FORMATS["expected-outputs"].names, **_SAID},
        needs="expected_output",
        marks="expected_output",
        takes=("queries", "answers"),
    ),
    "native": OutputFormat(
        {**FORMATS["native"].names, **_SAID, "error": "error"},
        needs="question",
        marks="answers evidence answerable item_id checks declined citations",
        strict=True,
    ),
    "csv": OutputFormat(
        {**FORMATS["csv"].names, "response": "response", "contexts": "contexts", **_BESIDES, "id": "id"},
        needs="question response",
        marks="response",
    ),
    "langfuse": OutputFormat(
        FORMATS["langfuse"].names, marks="parentObservationId parent_observation_id observations bookmarked"
    ),
    "phoenix": OutputFormat(
        FORMATS["phoenix"].names, marks="span_kind context.trace_id resourceSpans spans spanId span_id"
    ),
}

EVALUATION_DATA = OUTPUT_FORMATS["ai4rag"].fields
"""The fields of `EvaluationData` (seed 001)."""

_BY_ROW = ("recorded", "ai4rag", "ragas", "judged", "native")
_TABLES = ("csv", "expected-outputs", "langfuse")
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
    check_columns(options.columns, format_name, format_.fields)
    for name, option in _FILES.items():
        if getattr(options, name) is not None and name not in format_.takes:
            takers = ", ".join(other for other, each in OUTPUT_FORMATS.items() if name in each.takes)
            raise DatasetError(f"{option} is for the formats {takers}, not for {format_name}")
    if format_name == "test-results":
        return _read_test_results(path, options)
    if format_name == "expected-outputs":
        return _read_expected_outputs(path, options)
    convert = partial(_output, format_name=format_name, options=options)
    if format_name != "csv":
        return _read(path, (FORMATS[format_name].rows or json_rows)(path), convert, options)
    read = {*format_.names, *ID_FIELDS, "item_id"}
    table = read_table(path, options.columns, ["question", "response"], lambda name: name in read or is_column(name))
    return _read(path, table.rows, convert, options, unused=table.unused)


def outputs_of(items: Iterable[Mapping[str, Any]], options: OutputOptions) -> OutputsReport:
    """The outputs of rows in memory, each of a format of JSON rows, told by its fields."""

    def output(row: Row) -> Output:
        for name, value in row.items():
            check_storable(name, name)
            check_storable(name, value)
        found = _formats_of(row, _BY_ROW)
        if not found:
            raise RowError(None, f"is of no known shape ({', '.join(_BY_ROW)})")
        if len(found) > 1:
            raise RowError(None, f"has the fields of several shapes ({', '.join(found)})")
        return _output(row, found[0], options)

    return _read(Path("items"), enumerate(items, start=1), output, options)


def detect_format(path: Path, columns: Mapping[str, str]) -> str:
    """The only format that the fields of the rows fit: of the first row that one of them marks, else of the first row.

    `columns` gives the file's own names of fields.

    Raises:
        DatasetError: several fit, or none; or the file cannot be read.
    """
    if holds_objects(path):
        possible: Collection[str] = [name for name in OUTPUT_FORMATS if name != "csv"]
        rows: Iterable[Collection[str]] = (row for _, row in json_rows(path, key="id") if not isinstance(row, RowError))
    else:
        possible, rows = _TABLES, [read_table(path, {}, [], lambda _: True).columns]
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
    plain = [name for name in possible if OUTPUT_FORMATS[name].needs and OUTPUT_FORMATS[name].fits(names)]
    return _marked(names, possible) or plain[:1]


def _marked(names: Collection[str], possible: Collection[str]) -> list[str]:
    """The formats that one of a row's fields marks.

    Where there is none, a strict one is, although the row has further fields: it names them, where a plainer one would
    pass over the references.
    """
    formats = {name: OUTPUT_FORMATS[name] for name in possible}
    fitting = [name for name, each in formats.items() if each.fits(names) and each.marks & set(names)]
    own = set(names) - {*ID_FIELDS, "item_id", *_SAID}  # what every format reads marks none
    return fitting or [
        name for name, each in formats.items() if each.strict and each.needs <= set(names) and each.marks & own
    ]


# --- rows -------------------------------------------------------------------------------------------------------------


class _Retrieved(NamedTuple):
    """What a row says was retrieved; `told` is whether it says so at all. Hits need ids of documents or chunks."""

    texts: tuple[str, ...] = ()
    hits: tuple[Hit, ...] = ()
    told: bool = True


def _read(
    path: Path,
    rows: Rows,
    convert: Callable[[Row], Output],
    options: OutputOptions,
    refused: Sequence[Refusal] = (),
    unused: Sequence[str] = (),
) -> OutputsReport:
    """The outputs of numbered rows. One without an id is `q0`, `q1`, ... by its place, refused rows counted."""
    numbered = list(rows)
    places = {number: f"q{place}" for place, (number, _) in enumerate(numbered)}
    found, bad = read_rows(path, numbered, convert, options)
    named = [(number, replace(output, id=output.id or places[number])) for number, output in found]
    kept = _by_id(path, [(number, output.id, output) for number, output in named], bad, "id")
    outputs = _by_page([output for _, output in kept.values()])
    return OutputsReport(outputs, [*sorted(bad, key=lambda refusal: refusal.row), *refused], unused)


def _by_id(
    path: Path, found: Iterable[tuple[int, str, _T]], refused: list[Refusal], name: str
) -> dict[str, tuple[int, _T]]:
    """Numbered values by id; a row with the id of an earlier one is refused."""
    values: dict[str, tuple[int, _T]] = {}
    for number, row_id, value in found:
        first, _ = values.setdefault(row_id, (number, value))
        if first != number:
            refused.append(Refusal(path.name, number, name, f"is the id of row {first} too"))
    return values


def _output(row: Row, format_name: str, options: OutputOptions) -> Output:
    """The output of a row that stands by itself; without an id of its own its id is empty."""
    format_ = OUTPUT_FORMATS[format_name]
    name_of = {ours: name for name, ours in format_.names.items()}
    others, own_id = (_other_labels(row), _own_id(row)) if "label" in name_of else ({}, None)
    if format_name == "native":
        only_fields(row, {*format_.names, *ID_FIELDS})
        if not any(name in row for name in ("answer", "contexts", "error")):
            raise RowError("answer", "is missing, and so are contexts")
        item = native_item({name: value for name, value in row.items() if name in FIELDS})
        row = {"answer": None, **row}
    elif format_name == "csv":
        cells, row = row, _with_lists({name: cell for name, cell in row.items() if cell or name == "response"})
        item = item_from_cells({name: cell for name, cell in cells.items() if is_column(name)})
    else:
        item = item_of(row, format_.names, _question)
    own_id = own_id or _own_id(row)
    answer = _answer(row, name_of["response"], options)
    retrieved = _texts_of_documents(row) if "context ids" in name_of else _contexts(row, name_of["contexts"])
    error = optional_text(row, "error") if "error" in name_of else None
    label = _label(row["label"], "label") if "label" in name_of else None
    return Output(own_id or "", _result(item, answer, retrieved, options, error), label, others)


def _result(
    item: Item, answer: Answer | None, retrieved: _Retrieved, options: OutputOptions, error: str | None = None
) -> Result:
    # Where no hit has an id, it is not known which documents came back.
    by_document = len(retrieved.hits) == len(retrieved.texts)
    return Result(
        item=item,
        relevant_chunks=None,
        relevant_documents=(item.document_ids or None) if by_document else None,
        hits=retrieved.hits,
        k=options.k,
        answer=answer,
        contexts=retrieved.texts,
        error=error,
        tells_contexts=retrieved.told,
    )


def _by_page(outputs: list[Output]) -> list[Output]:
    """The outputs with the pages that are wanted as a whole, where a file tells pages at all.

    A question is held to them unless a passage of the document does not say of which page it is.
    """
    if all(hit.page is None for output in outputs for hit in output.result.hits):
        return outputs
    found = []
    for output in outputs:
        result = output.result
        unknown = {hit.document_id for hit in result.hits if hit.page is None}
        known = (result.relevant_documents or frozenset()) - unknown
        wanted = [each for each in result.item.evidence if each.is_page and each.document_id in known]
        pages = frozenset(page_id(each.document_id, each.page) for each in wanted)
        found.append(replace(output, result=replace(result, relevant_chunks=pages or None)))
    return found


def _own_id(row: Row, names: Sequence[str] = (*ID_FIELDS, "item_id")) -> str | None:
    """The id that a row has, a text or a whole number; None where it has none."""
    name = next((name for name in names if row.get(name) is not None), None)
    return None if name is None else identifier(row[name], name)


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
    declined = boolean_field(row, "declined")
    citations = each_of(row, "citations", identifier)
    if text is None and not declined:
        return None
    if row.get("declined") is None:
        declined = is_decline(text or "", options.decline_phrases)
    return Answer(text or "", declined, citations)


def _other_labels(row: Row) -> dict[str, str]:
    """The verdicts that other judges gave on a labelled answer."""
    if "label" not in row:
        raise RowError("label", "is missing")
    given = object_field(row, "other_judges") or {}
    verdicts = {name: _label(verdict, f"other_judges.{name}") for name, verdict in given.items()}
    return {name: verdict for name, verdict in verdicts.items() if verdict is not None}


def _label(value: Any, name: str) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is not None and not isinstance(value, str | int | float):
        raise RowError(name, f"takes a string, a number, or true or false, not {json_kind(value)}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1.0 is the label 1
    return None if value is None else str(value)


# --- contexts ---------------------------------------------------------------------------------------------------------


def _contexts(row: Row, name: str) -> _Retrieved:
    """Contexts as texts, which may be blank, or as objects with a text, the ids of document and chunk, page and score.

    Without the field, or with null, it is not told what was retrieved.
    """
    if row.get(name) is None:
        return _Retrieved(told=False)
    if any(isinstance(value, dict) for value in list_field(row, name)):
        return _chunks(row, name, "document_id", ("text", "document_id", "chunk_id", "page", "score"))
    return _Retrieved(each_of(row, name, string))


def _texts_of_documents(row: Row) -> _Retrieved:
    """Texts and document ids in two lists of one length; where only the ids are told, the texts are not known."""
    told = row.get("contexts") is not None
    texts = each_of(row, "contexts", string)
    if row.get("context_ids") is None:
        return _Retrieved(texts, told=told)
    ids = each_of(row, "context_ids", identifier)
    texts = texts if told else ("",) * len(ids)
    if len(ids) != len(texts):
        raise RowError("context_ids", f"has {len(ids)} entries, and contexts has {len(texts)}")
    ranked = enumerate(zip(ids, texts, strict=True), start=1)
    return _Retrieved(texts, tuple(_hit(rank, text, document_id) for rank, (document_id, text) in ranked))


def _chunks(row: Row, name: str, document_field: str, known: Collection[str] | None = None) -> _Retrieved:
    """Contexts of objects; either all name a document or chunk, or none does. A chunk without document is one."""

    def chunk(entry: Row) -> tuple[str, str | None, str | None]:
        text = "" if entry.get("text") is None else string(entry["text"], "text")
        chunk_id = _optional_id(entry, "chunk_id")
        return text, chunk_id, _optional_id(entry, document_field) or chunk_id

    chunks = objects_field(row, name, chunk, known)
    texts, document_ids = tuple(text for text, _, _ in chunks), [document_id for _, _, document_id in chunks]
    if None in document_ids:
        if any(document_ids):
            nameless = document_ids.index(None)
            raise RowError(f"{name}[{nameless}].{document_field}", "is missing, and other contexts have one")
        if "" in texts:
            raise RowError(f"{name}[{texts.index('')}].text", "is missing")
        return _Retrieved(texts)
    hits: list[Hit] = []
    for rank, ((text, chunk_id, document_id), entry) in enumerate(zip(chunks, row[name], strict=True), start=1):
        with within(f"{name}[{rank - 1}]"):
            hits.append(_hit(rank, text, document_id or "", chunk_id, page_field(entry, "page"), _score(entry)))
    return _Retrieved(texts, tuple(hits))


def _hit(
    rank: int, text: str, document_id: str, chunk_id: str | None = None, page: int | None = None, score: float = 0.0
) -> Hit:
    # Chunks of one document without ids of their own are still several.
    return Hit(chunk_id or f"{document_id}::{rank}", document_id, rank, score, text, page)


def _optional_id(row: Row, name: str) -> str | None:
    return None if row.get(name) in (None, "") else identifier(row[name], name)


def _score(chunk: Row) -> float:
    value = chunk.get("score")
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RowError("score", f"takes a number, not {json_kind(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise RowError("score", "holds a number that is too large") from None
    if not math.isfinite(number):
        raise RowError("score", "is no finite number")
    return number


# --- test results and expected outputs: further files by id -----------------------------------------------------------


def _read_test_results(path: Path, options: OutputOptions) -> OutputsReport:
    """Reads `{id: {query_id, query?, top_k_chunks[]?, answers}}` (seed 002), with ground truth and queries by query id.

    The question is the row's, else that of the queries, else that of the ground truth; an id is never taken for one.
    """
    queries = Queries(options.queries)
    truths, refused = _ground_truth(options.ground_truth)

    def output(row: Row) -> Output:
        query_id = _own_id(row, ("query_id",))
        _, truth = truths.get(query_id or "", (0, Item("")))
        item = replace(truth, question=queries.known(row, "query", query_id) or truth.question)
        told = row.get("top_k_chunks") is not None
        retrieved = _chunks(row, "top_k_chunks", "doc_id") if told else _Retrieved(told=False)
        answer = _answer(row, "answers", options)
        result = _result(item, answer, retrieved, options)
        return Output(_own_id(row, ("id",)) or "", result, query_id=query_id)

    return _read(path, json_rows(path, key="id"), output, options, refused)


def _ground_truth(path: Path | None) -> tuple[dict[str, tuple[int, Item]], list[Refusal]]:
    if path is None:
        return {}, []

    def question(row: Row, name: str) -> str:
        return optional_text(row, name) or optional_text(row, "question") or ""

    def truth(row: Row) -> tuple[str, Item]:
        query_id = _own_id(row, ("query_id",))
        if query_id is None:
            raise RowError("query_id", "is missing")
        names = FORMATS["test-results"].names
        return query_id, item_of(
            row, names, lambda row, name: optional_text(row, name) or optional_text(row, "question") or ""
        )

    found, refused = read_rows(path, json_rows(path, key="query_id"), truth, ReadOptions())
    return _by_id(path, ((number, *each) for number, each in found), refused, "query_id"), refused


def _read_expected_outputs(path: Path, options: OutputOptions) -> OutputsReport:
    """Reads seed 003's questions with expected outputs and checks; the answers stand in the rows or in their own file.

    A question that the file of answers lacks is an error, never dropped; an answer to none of the questions is refused.
    """
    queries = Queries(options.queries)
    answers, refused = _recorded_answers(options.answers)
    answered: set[str] = set()

    def output(row: Row) -> Output:
        question_id = _own_id(row) or ""
        names = FORMATS["expected-outputs"].names
        item = item_of(row, names, lambda row, name: queries.known(row, name, question_id) or "")
        said = _with_lists(row)
        if options.answers is not None:
            if question_id not in answers:
                return Output(question_id, _result(item, None, _Retrieved(told=False), options, NOT_RECORDED))
            answered.add(question_id)
            _, said = answers[question_id]
        answer = _answer(said, "answer", options)
        return Output(question_id, _result(item, answer, _contexts(said, "contexts"), options))

    rows, unused = _json_or_table(path, options, ["expected_output"], FORMATS["expected-outputs"].names)
    report = _read(path, rows, output, options, refused, unused)
    for question_id, (number, _) in answers.items():
        if options.answers is not None and question_id not in answered:
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
        _contexts(row, "contexts")
        return question_id, row

    found, refused = read_rows(path, rows, said, ReadOptions())
    return _by_id(path, ((number, *each) for number, each in found), refused, "id"), refused


def _json_or_table(
    path: Path, options: ReadOptions, required: Sequence[str], more: Collection[str]
) -> tuple[Rows, Sequence[str]]:
    """The rows of JSON (also by id) or of a table; an empty cell is no field, but for that of an empty answer."""
    known = {*ID_FIELDS, "item_id", *_SAID, "checks", *more}
    rows, unused = read_json_or_table(path, "id", options.columns, required, known)
    if holds_objects(path):
        return rows, unused
    answer = options.columns.get("answer", "answer")
    told = (
        (number, row if isinstance(row, RowError) else {name: row[name] for name in row if row[name] or name == answer})
        for number, row in rows
    )
    return told, unused


def _with_lists(row: Row) -> Row:
    """A row whose lists, and whether it declined, may be written as texts."""
    return {**row, **typed({name: row[name] for name in ("contexts", "citations", "declined") if name in row})}
