"""Traces as Langfuse and Phoenix export them: each documented shape gives the same questions, answers and contexts."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rageval_dagster.benchmark.formats import read_dataset
from rageval_dagster.recorded.formats import Output, OutputOptions, detect_format, read_outputs

QUESTION, ANSWER = "What is the notice period?", "It is 30 days."
PASSAGES = ("Either party may terminate with 30 days' notice.", "Notice is given in writing.")


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


# --- Langfuse ---------------------------------------------------------------------------------------------------------

CHUNKS = [
    {"page_content": text, "metadata": {"source": "terms.md"}, "type": "Document", "id": f"c{place}"}
    for place, text in enumerate(PASSAGES)
]
TRACE = {"id": "t1", "name": "ask", "input": {"question": QUESTION}, "output": {"answer": ANSWER}, "bookmarked": False}
OBSERVATIONS = [
    {"id": "o1", "traceId": "t1", "parentObservationId": None, "type": "SPAN", "startTime": "2026-11-01T08:00:00Z"},
    {
        "id": "o2",
        "traceId": "t1",
        "parentObservationId": "o1",
        "type": "RETRIEVER",
        "startTime": "2026-11-01T08:00:01Z",
    },
    {
        "id": "o3",
        "traceId": "t1",
        "parentObservationId": "o1",
        "type": "GENERATION",
        "startTime": "2026-11-01T08:00:02Z",
    },
]
OBSERVATIONS[0] |= {"input": {"args": [QUESTION], "kwargs": {}}, "output": ANSWER, "level": "DEFAULT"}
OBSERVATIONS[1] |= {"input": QUESTION, "output": CHUNKS, "level": "DEFAULT"}
OBSERVATIONS[2] |= {"input": [{"role": "user", "content": f"Context: ... {QUESTION}"}], "output": {"content": ANSWER}}
NAMES = {"traceId": "trace_id", "parentObservationId": "parent_observation_id", "startTime": "start_time"}
IN_STORAGE = [
    {
        NAMES.get(name, name): json.dumps(value) if isinstance(value, dict | list) else value
        for name, value in row.items()
    }
    for row in OBSERVATIONS
]


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    written = io.StringIO()
    table = csv.DictWriter(written, rows[0])
    table.writeheader()
    for row in rows:
        cells = {name: json.dumps(value) if isinstance(value, dict | list) else value for name, value in row.items()}
        table.writerow({**cells, "parentObservationId": row["parentObservationId"] or ""})
    return written.getvalue()


LANGFUSE = {
    "observations of the interface, newest first": lines(*reversed(OBSERVATIONS)),
    "observations as one list": json.dumps(OBSERVATIONS),
    "observations in CSV": as_csv([{"level": "", **row} for row in OBSERVATIONS]),
    "enriched observations of a blob storage": lines(*IN_STORAGE),
    "a trace of the interface": json.dumps({"trace": TRACE, "observations": OBSERVATIONS, "comments": []}),
    "a trace of the API": json.dumps({**TRACE, "observations": OBSERVATIONS}),
    "traces of the API, a line each": lines({**TRACE, "observations": OBSERVATIONS}),
}

# --- Phoenix ----------------------------------------------------------------------------------------------------------

RETRIEVED = {
    f"retrieval.documents.{place}.document.{name}": value
    for place, text in enumerate(PASSAGES)
    for name, value in {
        **{"id": f"c{place}", "content": text, "score": 0.9 - place / 10},
        "metadata": json.dumps({"source": "terms.md"}),
    }.items()
}
ASKED = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER}
SPANS = [("s1", None, "CHAIN", ASKED), ("s2", "s1", "RETRIEVER", {"input.value": QUESTION, **RETRIEVED})]
API = [
    {
        **{"id": f"U3Bhbjo{span_id}", "name": kind, "context": {"trace_id": "t1", "span_id": span_id}},
        **{"parent_id": parent, "span_kind": kind, "start_time": f"2026-11-01T08:00:0{place}Z", "status_code": "OK"},
        "attributes": attributes,
    }
    for place, (span_id, parent, kind, attributes) in enumerate(SPANS)
]
FRAME = [
    {
        **{"context.trace_id": "t1", "context.span_id": span["context"]["span_id"], "parent_id": span["parent_id"]},
        **{"span_kind": span["span_kind"], "start_time": 1793520000000 + place},
        "attributes.input.value": QUESTION,
        "attributes.output.value": ANSWER if place == 0 else None,
        "attributes.retrieval.documents": None
        if place == 0
        else [
            {"document.content": text, "document.id": f"c{n}", "document.metadata": {"source": "terms.md"}}
            for n, text in enumerate(PASSAGES)
        ],
    }
    for place, span in enumerate(API)
]
NESTED = [
    {**API[0], "attributes": {"input": {"value": QUESTION}, "output": {"value": ANSWER}}},
    {
        **API[1],
        "attributes": {
            "retrieval": {
                "documents": [{"document": {"content": text, "id": f"c{n}"}} for n, text in enumerate(PASSAGES)]
            }
        },
    },
]
OTLP = {
    "resourceSpans": [
        {
            "resource": {"attributes": []},
            "scopeSpans": [
                {
                    "spans": [
                        {
                            **{"traceId": "t1", "spanId": span_id, "parentSpanId": parent or "", "status": {"code": 1}},
                            "attributes": [
                                {
                                    "key": name,
                                    "value": {"doubleValue" if isinstance(value, float) else "stringValue": value},
                                }
                                for name, value in attributes.items() | {("openinference.span.kind", kind)}
                            ],
                        }
                        for span_id, parent, kind, attributes in SPANS
                    ]
                }
            ],
        }
    ]
}
PHOENIX = {
    "spans of the API and the interface": lines(*API),
    "spans with nested attributes": lines(*NESTED),
    "a data frame": lines(*reversed(FRAME)),
    "traces of the command line": json.dumps([{"traceId": "t1", "spans": API}]),
    "OTLP": json.dumps(OTLP),
}

# ----------------------------------------------------------------------------------------------------------------------

ALL = [("langfuse", *each) for each in LANGFUSE.items()] + [("phoenix", *each) for each in PHOENIX.items()]


def write(folder: Path, text: str) -> Path:
    path = folder / "traces.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


def read(folder: Path, text: str, format_name: str, **columns: str) -> Output:
    report = read_outputs(write(folder, text), format_name, OutputOptions(columns))
    assert report.refused == []
    [output] = report.rows
    return output


@pytest.mark.parametrize(("format_name", "shape", "text"), ALL, ids=[f"{name}-{shape}" for name, shape, _ in ALL])
def test_each_shape_gives_question_answer_and_contexts(format_name: str, shape: str, text: str, tmp_path: Path) -> None:
    output = read(tmp_path, text, format_name)
    assert detect_format(tmp_path / "traces.jsonl", {}) == format_name
    assert (output.id, output.result.item.question) == ("t1", QUESTION)
    assert output.result.answer is not None
    assert output.result.answer.text == ANSWER
    assert output.result.contexts == PASSAGES
    assert [hit.chunk_id for hit in output.result.hits] == ["c0", "c1"]
    documents = {hit.document_id for hit in output.result.hits}
    assert documents == ({"c0", "c1"} if "nested" in shape else {"terms.md"})
    assert (output.result.error, output.result.item.origin) == (None, "logged")


@pytest.mark.parametrize(("format_name", "shape", "text"), ALL, ids=[f"{name}-{shape}" for name, shape, _ in ALL])
def test_each_shape_gives_logged_questions(format_name: str, shape: str, text: str, tmp_path: Path) -> None:
    report = read_dataset(write(tmp_path, text), format_name)
    assert report.refused == []
    [item] = report.items
    assert (item.question, item.answers, item.evidence, item.origin) == (QUESTION, (), (), "logged")


def test_a_page_of_an_api_is_read_where_the_format_is_named(tmp_path: Path) -> None:
    assert read(tmp_path, json.dumps({"data": OBSERVATIONS, "meta": {}}), "langfuse").result.contexts == PASSAGES
    assert read(tmp_path, json.dumps({"data": API, "next_cursor": None}), "phoenix").result.contexts == PASSAGES


def test_ids_and_names_that_nobody_expects_are_refused_or_read(tmp_path: Path) -> None:
    rows = [
        {**OBSERVATIONS[0], "id": ["o"], "parentObservationId": {"o": 1}},
        {**OBSERVATIONS[1], "traceId": ["t"]},
        {**OBSERVATIONS[1], "traceId": "t2", "output": {"0": {"text": PASSAGES[0]}, "1": "a" * 10}},
    ]
    report = read_outputs(write(tmp_path, lines(*rows)), "langfuse")
    assert [output.id for output in report.rows] == ["t1"]
    assert [refusal.field for refusal in report.refused] == ["trace_id", "answer"]
    deep = {"retrieval.documents." + "a." * 5000: 1, **RETRIEVED}
    report = read_outputs(write(tmp_path, lines({**API[1], "attributes": deep})), "phoenix")
    assert len(report.rows) + len(report.refused) == 1


def test_traces_without_observations_do_not_tell_what_was_retrieved(tmp_path: Path) -> None:
    output = read(tmp_path, lines({**TRACE, "observations": ["o1", "o2"]}), "langfuse")
    assert (output.result.tells_contexts, output.result.item.question) == (False, QUESTION)


def test_the_last_question_of_a_conversation_is_asked_after_the_turns_before_it(tmp_path: Path) -> None:
    turns = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Tell me about the lease."},
        {"type": "ai", "content": "It runs for a year."},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
    ]
    trace = {**TRACE, "input": {"messages": turns}, "output": [{"role": "assistant", "content": ANSWER}]}
    output = read(tmp_path, lines(trace), "langfuse")
    assert (output.result.item.question, output.result.answer and output.result.answer.text) == (QUESTION, ANSWER)
    assert output.result.item.history == (
        {"role": "user", "content": "Tell me about the lease."},
        {"role": "assistant", "content": "It runs for a year."},
    )


def test_what_a_reranker_let_through_is_what_the_answerer_saw(tmp_path: Path) -> None:
    through = {"reranker.output_documents.0.document.content": PASSAGES[1]}
    reranker = {
        **API[1],
        "context": {"trace_id": "t1", "span_id": "s3"},
        "span_kind": "RERANKER",
        "attributes": through,
    }
    assert read(tmp_path, lines(*API, reranker), "phoenix").result.contexts == PASSAGES[1:]


def test_a_retriever_inside_a_retriever_and_a_passage_found_twice_count_once(tmp_path: Path) -> None:
    inner = {**OBSERVATIONS[1], "id": "o4", "parentObservationId": "o2", "output": ["a draft"]}
    again = {**OBSERVATIONS[1], "id": "o5"}
    assert read(tmp_path, lines(*OBSERVATIONS, inner, again), "langfuse").result.contexts == PASSAGES


@pytest.mark.parametrize(
    "output",
    [
        [{"lc": 1, "id": ["Document"], "kwargs": {"page_content": text, "metadata": {}}} for text in PASSAGES],
        {"documents": list(PASSAGES)},
        [{"node": {"id_": "n", "text": text}, "score": 0.5} for text in PASSAGES],
    ],
)
def test_documents_of_other_shapes_are_contexts(output: Any, tmp_path: Path) -> None:
    rows = [OBSERVATIONS[0], {**OBSERVATIONS[1], "output": output}]
    assert read(tmp_path, lines(*rows), "langfuse").result.contexts == PASSAGES


def test_a_failed_trace_is_an_error_and_not_a_bad_answer(tmp_path: Path) -> None:
    failed = {**OBSERVATIONS[0], "output": None, "level": "ERROR"}
    assert read(tmp_path, lines(failed), "langfuse").result.error == "the trace says that the system failed"
    assert read(tmp_path, lines({**API[0], "status_code": "ERROR"}), "phoenix").result.error is not None


def test_map_says_where_question_and_answer_stand(tmp_path: Path) -> None:
    trace = {**TRACE, "input": {"topic": QUESTION, "lang": "en"}, "output": {"said": ANSWER, "took": 3}}
    output = read(tmp_path, lines(trace), "langfuse", question="input.topic", answer="output.said")
    assert (output.result.item.question, output.result.answer and output.result.answer.text) == (QUESTION, ANSWER)


def test_what_cannot_be_used_is_refused_by_row_and_field_and_the_rest_goes_on(tmp_path: Path) -> None:
    rows = [
        {**TRACE, "input": {"topic": QUESTION}},
        {**TRACE, "id": "t2", "input": None},
        {**TRACE, "id": "t3", "output": {"took": 3}},
        {**TRACE, "id": None},
        {**OBSERVATIONS[0], "traceId": "t4"},
        {**OBSERVATIONS[1], "traceId": "t4", "output": [{"page_content": "a"}, {"title": "b"}]},
        TRACE | {"id": "t5"},
    ]
    report = read_outputs(write(tmp_path, lines(*rows)), "langfuse")
    assert [output.id for output in report.rows] == ["t5"]
    assert [str(refusal) for refusal in report.refused] == [
        "traces.jsonl, row 1, field question: takes a string or null, not an object",
        "traces.jsonl, row 2, field question: is missing",
        "traces.jsonl, row 3, field answer: takes a string or null, not an object",
        "traces.jsonl, row 4, field trace_id: is missing",
        "traces.jsonl, row 5, field contexts[1].text: is missing",
    ]
