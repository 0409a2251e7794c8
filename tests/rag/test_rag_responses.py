"""Reading responses: what each part may look like, and that nothing else ever becomes a result."""

import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rageval_dagster.network import parsed_json
from rageval_dagster.rag.responses import BrokenStreamError, ResponseReader, line_events, sse_events
from rageval_dagster.rag.system import Retrieval
from rageval_dagster.records import Answer, Hit
from rageval_dagster.settings import ResponseFields
from tests.fuzzing import fuzz

WRONG = re.compile(r"wrong_shape: [a-z_]+( \d+| of context \d+)? [a-z ,]+(\d+ )?[a-z ]*")


def reader(*decline_phrases: str, **fields: Any) -> ResponseReader:
    return ResponseReader(ResponseFields.model_validate(fields), decline_phrases)


def hits(contexts: Any, **context: str) -> Any:
    retrieval = reader(context=context).read({"answer": "", "contexts": contexts})
    return retrieval.error or retrieval.hits


def answer(body: dict[str, Any], *decline_phrases: str, **fields: str) -> Any:
    retrieval = reader(*decline_phrases, contexts="", **fields).read(body)
    return retrieval.error or (retrieval.answer and retrieval.answer.answer)


def test_the_order_returned_is_the_ranking_whatever_the_scores() -> None:
    found = hits([{"id": "a", "score": 0.1}, {"id": "b", "score": 0.9}, {"id": "a"}])
    assert found == (Hit("a", "", 1, 0.1), Hit("b", "", 2, 0.9), Hit("a", "", 3, 0.0))


@pytest.mark.parametrize("score", [None, float("nan"), float("inf"), 10**400])
def test_a_score_that_is_not_finite_is_none(score: Any) -> None:
    assert hits([{"id": "a", "score": score}]) == (Hit("a", "", 1, 0.0),)


@pytest.mark.parametrize(
    ("contexts", "mapped", "expected"),
    [
        ([], {}, ()),
        (["text"], {}, (Hit("", "", 1, 0.0, "text"),)),
        (["c1"], {"id": "@"}, (Hit("c1", "", 1, 0.0),)),
        ([17], {"id": "@"}, (Hit("17", "", 1, 0.0),)),
        (["d1"], {"document_id": "@", "id": ""}, (Hit("", "d1", 1, 0.0),)),
        ([["c1", "text"]], {"id": "[0]", "text": "[1]"}, (Hit("c1", "", 1, 0.0, "text"),)),
        ([{"text": ""}], {}, (Hit("", "", 1, 0.0),)),
        ([{"text": "t", "page": "iv"}], {}, (Hit("", "", 1, 0.0, "t"),)),
        ([{"node": {"text": "t", "meta": {"page": 3.0}}}], {"text": "node.text", "page": "node.meta.page"},
         (Hit("", "", 1, 0.0, "t", 3),)),
        ("a text", {}, "wrong_shape: contexts is a string, not a list"),
        ({"1": "a text"}, {}, "wrong_shape: contexts is an object, not a list"),
        (None, {}, "wrong_shape: contexts is missing"),
        ([{"title": "t"}], {}, "wrong_shape: context 1 has neither text nor id nor document id"),
        (["fine", None], {}, "wrong_shape: context 2 has neither text nor id nor document id"),
        ([{"text": 7}], {}, "wrong_shape: text of context 1 is a number, not a string"),
        ([{"text": False}], {}, "wrong_shape: text of context 1 is true or false, not a string"),
        ([{"id": 1.5}], {}, "wrong_shape: id of context 1 is a number, not a string or a whole number"),
        ([{"id": True}], {}, "wrong_shape: id of context 1 is true or false, not a string or a whole number"),
        ([{"text": "t", "document_id": ["d"]}], {},
         "wrong_shape: document_id of context 1 is a list, not a string or a whole number"),
        ([{"text": "t", "score": "0.5"}], {}, "wrong_shape: score of context 1 is a string, not a number"),
    ],
)  # fmt: skip
def test_contexts(contexts: Any, mapped: dict[str, str], expected: Any) -> None:
    assert hits(contexts, **mapped) == expected


@pytest.mark.parametrize(
    ("body", "fields", "expected"),
    [
        ({"answer": "so"}, {}, Answer("so")),
        ({"answer": ""}, {}, Answer("")),
        ({}, {}, "wrong_shape: answer is missing"),
        ({"answer": None}, {}, "wrong_shape: answer is missing"),
        ({"answer": 7}, {}, "wrong_shape: answer is a number, not a string"),
        ({"answer": ["so"]}, {}, "wrong_shape: answer is a list, not a string"),
        ({"a": [{"t": "so"}, {"t": "it is"}]}, {"answer": "join(' ', a[].t)"}, Answer("so it is")),
        ({"a": 1}, {"answer": "join(' ', a)"}, "wrong_shape: the expression for answer fails on the response"),
        ({"a": 1}, {"answer": "no_function(a)"}, "wrong_shape: the expression for answer fails on the response"),
        ({"a": float("inf")}, {"answer": "ceil(a)"}, "wrong_shape: the expression for answer fails on the response"),
        ({"x": 1}, {"answer": ""}, None),
        ({"answer": "so", "by": [1, "c2"]}, {"citations": "by"}, Answer("so", citations=("1", "c2"))),
        ({"answer": "so"}, {"citations": "by"}, Answer("so")),
        ({"answer": "so", "by": "c2"}, {"citations": "by"}, "wrong_shape: citations is a string, not a list"),
        ({"answer": "so", "by": {}}, {"citations": "by"}, "wrong_shape: citations is an object, not a list"),
        ({"answer": "so", "by": ["c", {}]}, {"citations": "by"},
         "wrong_shape: citation 2 is an object, not a string or a whole number"),
        ({"answer": "I don't know.", "no": False}, {"declined": "no"}, Answer("I don't know.")),
        ({"answer": "so", "no": True}, {"declined": "no"}, Answer("so", declined=True)),
        ({"answer": None, "no": True}, {"declined": "no"}, Answer("", declined=True)),
        ({"answer": "I don't know.", "no": None}, {"declined": "no"}, Answer("I don't know.", declined=True)),
        ({"answer": "so", "no": "false"}, {"declined": "no"}, "wrong_shape: declined is a string, not true or false"),
    ],
)  # fmt: skip
def test_answers(body: dict[str, Any], fields: dict[str, str], expected: Any) -> None:
    assert answer(body, **fields) == expected


def test_the_phrases_of_the_client_decline() -> None:
    assert answer({"answer": "Ask the front desk."}) == Answer("Ask the front desk.")
    assert answer({"answer": "Ask the front desk."}, "ask the front desk") == Answer("Ask the front desk.", True)


def test_a_system_that_tells_no_contexts_has_none_rather_than_nothing_found() -> None:
    assert reader(contexts="").read({"answer": "so", "contexts": ["c"]}).hits is None
    assert reader(answer="@").read("so").hits is None


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v1", "v1"), (" v1 ", "v1"), (3, "3"), (1.5, "1.5"), ("x" * 200, "x" * 200)]
    + [(unusable, None) for unusable in (None, "", "x" * 201, "a\nb", "a\x00", True, ["v1"], {"v": 1})],
)
def test_a_version_is_a_short_printable_text(version: Any, expected: str | None) -> None:
    retrieval = reader(contexts="", version="v").read({"answer": "so", "v": version})
    assert (retrieval.error, retrieval.version) == (None, expected)


def test_numbers_that_no_text_can_hold() -> None:
    body = {"answer": "so", "v": 10**5000, "contexts": [{"id": 10**5000}]}
    assert reader(contexts="", version="v").read(body).version is None
    assert reader().read(body).error == "wrong_shape: id of context 1 is too long a number"


LONG = "a" * 1_000_001


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"answer": "", "contexts": ["a"] * 1_001}, "1,001 contexts, more than 1,000"),
        ({"answer": "", "contexts": [], "by": ["a"] * 1_001}, "1,001 citations, more than 1,000"),
        ({"answer": "", "contexts": [LONG]}, "text of context 1 has 1,000,001 characters, more than 1,000,000"),
        ({"answer": LONG, "contexts": []}, "answer has 1,000,001 characters, more than 1,000,000"),
        ({"answer": "", "contexts": [{"id": "a" * 10_001}]}, "id of context 1 has 10,001 characters, more than 10,000"),
        ({"answer": "a", "contexts": [LONG[1:]] * 10}, "the texts have more than 10,000,000 characters together"),
        (LONG, "answer has 1,000,001 characters, more than 1,000,000"),
    ],
)  # fmt: skip
def test_what_is_over_a_limit_is_told_by_both(body: Any, said: str) -> None:
    ours = reader(answer="@" if isinstance(body, str) else "answer", citations="by")
    assert ours.read(body) == Retrieval(error=f"too_large: {said}")


def test_what_is_at_the_limits_is_read() -> None:
    found = reader().read({"answer": "a" * 1_000_000, "contexts": ["a"] * 999 + ["a" * 1_000_000]})
    assert (found.error, len(found.hits or ())) == (None, 1_000)


def test_of_events_the_last_that_has_a_part_holds() -> None:
    events = [
        {"delta": "It ", "contexts": ["a"], "refused": True, "v": "1"},
        {"delta": None},
        {"delta": "is", "contexts": ["b"], "v": "2", "answer": "not this"},
        {"refused": False},
        "no object",
    ]
    found = reader(delta="delta", declined="refused", version="v").read_events(events)
    assert found.hits == (Hit("", "", 1, 0.0, "b"),)
    assert found.answer is not None
    assert (found.answer.answer, found.version) == (Answer("It is"), "2")


def test_events_without_pieces_need_a_whole_answer() -> None:
    mapped = reader(delta="delta", contexts="")
    assert mapped.read_events([{"delta": 1}]).error == "wrong_shape: delta is a number, not a string"
    assert mapped.read_events([{"other": 1}]).error == "wrong_shape: answer is missing"
    whole = mapped.read_events([{"answer": "a"}, {"answer": "ab"}]).answer
    assert whole is not None
    assert whole.answer == Answer("ab")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["answer", "contexts", "text", "id", "score", "by", "no", "v", "x"]), inner)
    ),
    max_leaves=25,
)
FIELDS = {
    "answer": st.sampled_from(["answer", "@", "x.answer", "join('', x)", "x[0]", ""]),
    "contexts": st.sampled_from(["contexts", "x[]", "@", "keys(x)", ""]),
    "delta": st.sampled_from(["", "text", "@"]),
    "citations": st.sampled_from(["", "by", "@"]),
    "declined": st.sampled_from(["", "no"]),
    "version": st.sampled_from(["", "v"]),
    "context": st.fixed_dictionaries(
        {"id": st.sampled_from(["id", "@", ""]), "score": st.sampled_from(["score", "@"])}
    ),
}


def test_fuzz_whatever_comes_is_a_retrieval_or_a_typed_error() -> None:
    @given(body=JSON, fields=st.fixed_dictionaries(FIELDS), streamed=st.booleans())
    def is_read(body: Any, fields: dict[str, Any], streamed: bool) -> None:
        ours = reader(**fields)
        check(ours.read_events([body, body]) if streamed else ours.read(body))

    fuzz(is_read)


BYTES = st.one_of(
    st.binary(),
    JSON.map(lambda value: json.dumps(value).encode()),
    JSON.map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")),
    st.tuples(st.sampled_from([b"[", b'{"answer":', b'{"contexts":[']), st.integers(0, 3_000)).map(
        lambda nested: nested[0] * nested[1]
    ),
    st.sampled_from(
        [b"data: ", b"data:", b"event: error", b"\n", b"\n\n", b"\r", b": ", b"[DONE]", b'{"answer": "a"}']
    ),
)


def test_fuzz_whatever_bytes_come_are_values_or_typed_errors() -> None:
    @given(pieces=st.lists(BYTES, max_size=6), fields=st.fixed_dictionaries(FIELDS))
    def are_read(pieces: list[bytes], fields: dict[str, Any]) -> None:
        body = b"".join(pieces)
        with suppress(ValueError):
            check(reader(**fields).read(parsed_json(body)))
        for events in (sse_events, line_events):
            with suppress(BrokenStreamError):
                check(reader(**fields).read_events(events(body)))

    fuzz(are_read)


def check(found: Retrieval) -> None:
    if found.error is not None:
        assert WRONG.fullmatch(found.error)
        assert found == Retrieval(error=found.error)
        return
    assert found.answer is not None
    assert found.answer.answer is None or isinstance(found.answer.answer.text, str)
    assert [hit.rank for hit in found.hits or ()] == list(range(1, len(found.hits or ()) + 1))
    for hit in found.hits or ():
        assert isinstance(hit.text, str)
        assert abs(hit.score) < float("inf")
