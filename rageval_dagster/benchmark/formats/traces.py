"""Traces of a system in use, as Langfuse and Phoenix export them: a row a trace, made of its spans."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rageval_dagster.benchmark.formats.rows import Row, RowError, Rows, identifier, json_rows, json_value
from rageval_dagster.benchmark.formats.table import holds_objects, read_table

FIELDS = {
    **{"id": "id", "question": "question", "history": "history", "answer": "response", "contexts": "contexts"},
    **{"error": "error", "origin": "origin"},
}
"""What the row of a trace has, beside `input.NAME` and `output.NAME` where these are objects."""

_MOST_PARTS = 20
"""Of a dotted name: the conventions have 7."""

_ENVELOPES = ("data", "resourceSpans", "scopeSpans", "spans")
_USER, _ASSISTANT = ("user", "human"), ("assistant", "ai")
_QUESTION = ("question", "query", "user_input", "input", "prompt", "text", "content")
_ANSWER = ("answer", "response", "output", "result", "text", "content")
_TEXT = ("text", "content", "page_content", "pageContent", "document")
_FAILED = "the trace says that the system failed"


class Span(NamedTuple):
    """A step of a trace, or (Langfuse) the trace as a whole, which has no id; `documents` are what it retrieved."""

    trace_id: Any
    id: str | None = None
    parent_id: str | None = None
    kind: str = ""
    input: Any = None
    output: Any = None
    documents: Any = None
    failed: bool = False
    started: Any = None


def langfuse_rows(path: Path) -> Rows:
    """A row a trace of JSON, JSON Lines or CSV, with traces or observations."""
    rows = json_rows(path, rows_of=_entries) if holds_objects(path) else read_table(path, {}, [], lambda _: True).rows
    return _traces(rows, _langfuse)


def phoenix_rows(path: Path) -> Rows:
    """A row a trace of JSON or JSON Lines with OpenInference spans."""
    return _traces(json_rows(path, rows_of=_entries), _openinference)


def _entries(value: Any) -> list[Any]:
    """The spans that stand in an entry: a page of an API, OTLP's envelope, a trace with its spans, or one span."""
    if not isinstance(value, dict):
        return [value]
    for name in _ENVELOPES:
        if isinstance(value.get(name), list):
            return [span for entry in value[name] for span in _entries(entry)]
    # A list of traces has the ids of their observations only.
    inside = [each for each in _listed(value.get("observations")) if isinstance(each, dict)]
    whole = value["trace"] if isinstance(value.get("trace"), dict) else value
    return [{name: entry for name, entry in whole.items() if name != "observations"}, *inside]


def _traces(rows: Rows, span_of: Callable[[Row], Span]) -> Rows:
    """The rows of the traces, each under the number of its first span."""
    traces: dict[str, tuple[int, list[Span]]] = {}
    for number, row in rows:
        if isinstance(row, RowError):
            yield number, row
            continue
        for entry in _entries(row):
            try:
                span = span_of(entry) if isinstance(entry, dict) else Span(None)
                traces.setdefault(_trace_id(span), (number, []))[1].append(span)
            except RowError as error:
                yield number, error
    for trace_id, (number, spans) in traces.items():
        try:
            yield number, _row(trace_id, sorted(spans, key=lambda span: (span.id is not None, str(span.started or ""))))
        except RowError as error:
            yield number, error


def _trace_id(span: Span) -> str:
    if span.trace_id is None:
        raise RowError("trace_id", "is missing")
    return identifier(span.trace_id, "trace_id")


def _row(trace_id: str, spans: Sequence[Span]) -> dict[str, Any]:
    """What a trace says as a whole: the first input and output of those of its spans that stand in no other."""
    by_id = {span.id: span for span in spans if span.id is not None}
    whole = [span for span in spans if span.parent_id not in by_id] or spans
    asked = _unwrapped(next((span.input for span in whole if span.input is not None), None))
    said = _unwrapped(next((span.output for span in whole if span.output is not None), None))
    answer = _text(said, _ANSWER)
    turns = _turns(asked)
    last = max((place for place, turn in enumerate(turns) if turn["role"] == "user"), default=None)
    row: dict[str, Any] = {
        "id": trace_id,
        "question": turns[last]["content"] if last is not None else _text(asked, _QUESTION) or asked,
        "history": turns[:last] if last else None,
        "answer": said if answer is None else answer,
        "error": _FAILED if any(span.failed for span in whole) else None,
        "origin": "logged",
    }
    retrieving = [
        [
            span
            for span in spans
            if span.kind == kind and (span.parent_id not in by_id or by_id[span.parent_id].kind != kind)
        ]
        for kind in ("RERANKER", "RETRIEVER")
    ]
    # What a reranker let through is what the answerer saw.
    found = next((documents for stage in retrieving if (documents := _found(stage)) is not None), None)
    if found is not None:
        row["contexts"] = _contexts(found)
    for name, value in (("input", asked), ("output", said)):
        if isinstance(value, dict):
            row |= {f"{name}.{part}": entry for part, entry in value.items()}
    return row


# --- spans -----------------------------------------------------------------------------------------------------------


def _langfuse(row: Row) -> Span:
    """A trace or an observation, by the names of the API and the interface, or by those of a blob storage's files."""
    trace_id = _first(row, "traceId", "trace_id")
    if trace_id is None:
        return Span(_first(row, "id"), input=_first(row, "input"), output=_first(row, "output"))
    kind = str(row.get("type") or "").upper()
    output = _first(row, "output")
    return Span(
        trace_id,
        id=str(row.get("id")),
        parent_id=str(_first(row, "parentObservationId", "parent_observation_id") or ""),
        kind=kind,
        input=_first(row, "input"),
        output=output,
        documents=output if kind == "RETRIEVER" else None,
        failed=row.get("level") == "ERROR",
        started=_first(row, "startTime", "start_time"),
    )


def _openinference(row: Row) -> Span:
    """A span of Phoenix's API or of a data frame, with attributes nested or by dotted names, or one of OTLP."""
    if isinstance(row.get("attributes"), list):
        pairs = [each for each in row["attributes"] if isinstance(each, dict)]
        row = {**row, "attributes": {str(each.get("key")): _otlp(each.get("value")) for each in pairs}}
    tree = _tree(row)
    attributes = tree.get("attributes")

    def attribute(path: str) -> Any:
        value = attributes
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    context = {**tree, **(tree["context"] if isinstance(tree.get("context"), dict) else {})}
    kind = str(attribute("openinference.span.kind") or tree.get("span_kind") or "").upper()
    status = tree.get("status")
    code = _first(status, "code", "status_code") if isinstance(status, dict) else tree.get("status_code")
    return Span(
        _first(context, "trace_id", "traceId"),
        id=str(_first(context, "span_id", "spanId")),
        parent_id=str(_first(tree, "parent_id", "parentSpanId", "parent_span_id") or ""),
        kind=kind,
        input=attribute("input.value"),
        output=attribute("output.value"),
        documents=attribute(
            {"RETRIEVER": "retrieval.documents", "RERANKER": "reranker.output_documents"}.get(kind, "")
        ),
        failed=code in ("ERROR", "STATUS_CODE_ERROR", 2),
        started=_first(tree, "start_time", "startTimeUnixNano", "start_time_unix_nano"),
    )


def _tree(value: Any) -> Any:
    """The value with dotted names taken apart: {"a.b": 1} and {"a": {"b": 1}} are the same."""
    if isinstance(value, list):
        return [_tree(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    tree: dict[str, Any] = {}
    for name, entry in value.items():
        *path, last = name.split(".", _MOST_PARTS)
        node: Any = tree
        for part in path:
            node = node.setdefault(part, {}) if isinstance(node, dict) else None
        if isinstance(node, dict):
            inside, known = _tree(entry), node.get(last)
            node[last] = {**known, **inside} if isinstance(known, dict) and isinstance(inside, dict) else inside
    return tree


def _otlp(value: Any) -> Any:
    """The value of OTLP's {"stringValue": ...}, and so on."""
    inside = next(iter(value.values()), None) if isinstance(value, dict) else value
    if isinstance(inside, dict):
        return [_otlp(entry) for entry in _listed(inside.get("values"))]
    return inside


# --- what spans say --------------------------------------------------------------------------------------------------


def _unwrapped(value: Any) -> Any:
    """What was passed or returned: text that is JSON as its value, and a Python call's arguments as an object."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
        try:
            value = json_value(value, "")
        except RowError:
            return value
    if isinstance(value, dict) and value and value.keys() <= {"args", "kwargs"}:
        positional = _listed(value.get("args"))
        return value.get("kwargs") or (positional[0] if len(positional) == 1 else positional)
    return value


def _text(value: Any, names: Sequence[str]) -> str | None:
    """The text that a value is or, of an object, has under the first of the names; of messages, the last one's."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        named = [value[name] for name in ("messages", *names) if value.get(name) is not None]
        return next((text for entry in named if (text := _text(entry, names)) is not None), None)
    turns = _turns(value)
    if turns:
        return turns[-1]["content"]
    parts = [
        entry["text"] for entry in _listed(value) if isinstance(entry, dict) and isinstance(entry.get("text"), str)
    ]
    return "\n".join(parts) or None


def _turns(value: Any) -> list[dict[str, str]]:
    """The turns of user and assistant in a conversation, in OpenAI's or LangChain's shape."""
    turns = []
    for message in _listed(value.get("messages") if isinstance(value, dict) else value):
        role = (message.get("role") or message.get("type")) if isinstance(message, dict) else None
        text = _text(message.get("content"), ()) if role in (*_USER, *_ASSISTANT) else None
        if text and text.strip():
            turns.append({"role": "user" if role in _USER else "assistant", "content": text})
    return turns


def _found(spans: Sequence[Span]) -> list[Any] | None:
    """The documents of the spans, each once; None where no span tells any."""
    found: list[Any] = []
    told = False
    for span in spans:
        documents = _unwrapped(span.documents)
        if isinstance(documents, dict) and not all(name.isdigit() for name in documents):
            lists = [entry for entry in documents.values() if isinstance(entry, list)]
            documents = lists[0] if len(lists) == 1 else [documents]
        told = told or documents is not None
        for document in [documents] if isinstance(documents, str) else _listed(documents):
            if document not in found:
                found.append(document)
    return found if told else None


def _contexts(documents: Sequence[Any]) -> list[dict[str, Any]]:
    """Contexts as every format has them; ids where all documents have them."""
    contexts = [_context(document, f"contexts[{place}]") for place, document in enumerate(documents)]
    named = [name for name in ("document_id", "chunk_id") if all(name in context for context in contexts)]
    kept = {"text", "score", *named, *(["chunk_id"] if named else [])}
    return [{name: value for name, value in context.items() if name in kept} for context in contexts]


def _context(document: Any, field: str) -> dict[str, Any]:
    """A document as a text, or as an object of LangChain, LlamaIndex or OpenInference."""
    if isinstance(document, str):
        return {"text": document}
    parts: dict[str, Any] = dict(document) if isinstance(document, dict) else {}
    for name in ("document", "node", "kwargs"):
        if isinstance(parts.get(name), dict):
            parts |= parts.pop(name)
    text = next((parts[name] for name in _TEXT if isinstance(parts.get(name), str)), None)
    if text is None:
        raise RowError(f"{field}.text", "is missing")
    metadata = _unwrapped(parts.get("metadata"))
    about = {**(metadata if isinstance(metadata, dict) else {}), **parts}
    ids = {name: value for name, value in about.items() if isinstance(value, str | int)}
    score = parts.get("score")
    values = {
        "text": text,
        "document_id": _first(ids, "document_id", "doc_id", "source"),
        "chunk_id": _first(ids, "chunk_id", "id", "id_"),
        "score": score if isinstance(score, int | float) and not isinstance(score, bool) else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _listed(value: Any) -> list[Any]:
    """The entries of a list, or of an object whose names are their places."""
    if isinstance(value, dict) and all(name.isdigit() for name in value):
        return [value[name] for name in sorted(value, key=int)]
    return value if isinstance(value, list) else []


def _first(row: Mapping[str, Any], *names: str) -> Any:
    """The first of the fields that has a value; an empty text is none."""
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)
