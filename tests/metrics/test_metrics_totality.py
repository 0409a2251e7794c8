"""Every metric gives a typed outcome in [0, 1] for every input, and none of them fails on it."""

import random
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_samples import TinyEmbedder, make_result, unjudged

from rageval_dagster.metrics.registry import MetricOptions, Tools, all_metrics, compute_scores
from rageval_dagster.records import Answer, Hit, Item, Outcome, Result

METRICS = unjudged(MetricOptions(5, TinyEmbedder.version))
OTHERWISE = unjudged(
    MetricOptions(5, TinyEmbedder.version, minimum_retrieval_score=0.5, citation_required=False, overlap_compat=True)
)
"""The same metrics with what can be set set otherwise."""

texts = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="aA1 .,-%$[]'\n\u00a0\u0301中한ก。٣👍\x00\x85\ud800", max_size=60),
    st.sampled_from(
        [
            "",
            " \n\t",
            "Paris.",
            "Rule C-1 costs $604.00, or -0.133%.",
            "six hundred and four, 604, 六百零四",
            "巴黎是法国的首都。人口很多！",
            "العاصمة هي باريس ٣٫١٤٪",
            "हिन्दी में उत्तर है। दो",
            "👩‍👩‍👧‍👦🇫🇷",
            "\x00\x01\x1b[31m\u200b\u202e\ufeff",
            "\ud800 alone",
            "[1] [2]",
            "Rule C-1 holds [1, 3-2]. So it does [a:2] (source: b) [99999999999999999999].",
            "* Rule C-1\n- **Rule C-2**\n1. rule c-10",
            "I cannot calculate it: 2 * 302 = 604.",
            "…?!",
        ]
    ),
)
ids = st.sampled_from(["a", "b", "c", "\x00", "é", "\ud800", "", "1"])
hits = st.lists(
    st.builds(
        Hit,
        chunk_id=ids,
        document_id=ids,
        rank=st.integers(1, 30),
        score=st.floats(),
        text=texts,
        page=st.none() | st.integers(1, 3),
        owner=st.sampled_from(["own", "foreign", "unknown"]),
    ),
    max_size=30,
).map(tuple)
id_sets = st.one_of(st.none(), st.frozensets(ids, max_size=4))
wanted = texts | st.integers() | st.floats()
checks = st.lists(
    st.fixed_dictionaries(
        {"name": texts, "kind": st.sampled_from(["list", "fact", "number", "calculation"])},
        optional={
            "expect": st.none() | wanted | st.lists(wanted, max_size=3),
            "any_of": st.lists(wanted, max_size=3),
            "pattern": st.sampled_from(
                [None, "a", r"Rule C-\d+", "(", "", ".*", "^$", "(?i:x)", r"(a)\1", "\ud800", "{e<=2}", "a" * 1_001]
            ),
            "forbid": st.none() | st.lists(texts, max_size=2),
            "intermediates": st.dictionaries(texts, wanted, max_size=2),
        },
    ),
    max_size=3,
).map(tuple)
contexts = st.lists(texts, max_size=6) | texts.map(lambda text: [text] * 7)
results = st.builds(
    Result,
    item=st.builds(
        Item,
        question=texts,
        answers=st.lists(texts, max_size=3).map(tuple),
        answerable=st.sampled_from([True, False]),
        checks=checks,
    ),
    relevant_chunks=id_sets,
    relevant_documents=id_sets,
    hits=hits,
    k=st.just(5),
    answer=st.one_of(
        st.none(),
        st.builds(
            Answer,
            text=texts,
            declined=st.booleans(),
            citations=st.lists(ids | st.sampled_from(["2", "-1", "1e9"]), max_size=3).map(tuple),
        ),
    ),
    contexts=contexts.map(tuple),
    error=st.sampled_from([None, None, None, "TimeoutError"]),
    tells_contexts=st.sampled_from([True, True, True, False]),
)
BAD_CHECKS = ("the pattern of the check ", "the check ")


def check_typed(results: list[Result], columns: dict[str, list[Outcome]]) -> None:
    for metric in METRICS:
        assert len(columns[metric.id]) == len(results)
        for result, outcome in zip(results, columns[metric.id], strict=True):
            is_bad = metric.family == "checks" and (outcome.reason or "").startswith(BAD_CHECKS)
            assert (outcome.status == "error") == (result.error is not None or is_bad), (metric.id, outcome)
            if outcome.status == "scored":
                assert outcome.value is not None
                assert 0.0 <= outcome.value <= 1.0
            else:
                assert outcome.reason


@settings(max_examples=150, deadline=None)
@given(st.lists(results, max_size=4), st.sampled_from([METRICS, OTHERWISE]))
def test_every_metric_is_total(batch, metrics):
    check_typed(batch, dict(compute_scores(metrics, batch, Tools(TinyEmbedder()))))


@settings(max_examples=50, deadline=None)
@given(results, st.integers(1, 40))
def test_every_cutoff_is_total(result, k):
    metrics = [metric for metric in all_metrics(MetricOptions(k)) if metric.family == "retrieval"]
    result = replace(result, k=k, error=None)
    for metric, (outcome,) in zip(metrics, compute_scores(metrics, [result], Tools()).values(), strict=True):
        assert outcome.status in ("scored", "undefined")
        if metric.ceiling is not None and outcome.value is not None:
            assert outcome.value <= metric.ceiling(result)


MEGABYTE = 1_000_000
CHECKS = (
    {"name": "list", "kind": "list", "pattern": r"Rule C-\d+"},
    {"name": "bullets", "kind": "list"},
    {"name": "fact", "kind": "fact", "expect": ["aaa", "word1", "x"], "any_of": ["here", 1], "pattern": r"\d+ here"},
    {"name": "number", "kind": "number", "expect": 12.5},
    {"name": "result", "kind": "calculation", "expect": 604, "intermediates": {"one": 1}},
)
ONE_SENTENCE = " ".join(random.Random(0).choices([f"word{number}" for number in range(5_000)], k=MEGABYTE // 9)) + "."


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ONE_SENTENCE, id="one sentence", marks=pytest.mark.slow),
        pytest.param(
            " ".join(f"Sentence {number} here." for number in range(MEGABYTE // 21)),
            id="many sentences",
            marks=pytest.mark.slow,
        ),
        pytest.param("1234567890" * (MEGABYTE // 10), id="one number", marks=pytest.mark.slow),
        pytest.param("1,11" * (MEGABYTE // 4), id="separators", marks=pytest.mark.slow),
        pytest.param("「あ。" * (MEGABYTE // 3), id="unclosed quotes", marks=pytest.mark.slow),
        pytest.param("[1" * (MEGABYTE // 2), id="unclosed citations", marks=pytest.mark.slow),
        pytest.param("`" * MEGABYTE, id="code marks", marks=pytest.mark.slow),
        pytest.param("> | " * (MEGABYTE // 4), id="quotes and tables", marks=pytest.mark.slow),
        pytest.param("[a](" * (MEGABYTE // 4), id="unclosed links", marks=pytest.mark.slow),
        pytest.param("(source:" * (MEGABYTE // 8), id="unclosed sources", marks=pytest.mark.slow),
        pytest.param("e" + "\u0301\u0323" * (MEGABYTE // 2), id="piled marks", marks=pytest.mark.slow),
        pytest.param("*a" * (MEGABYTE // 2), id="emphasis", marks=pytest.mark.slow),
        pytest.param("".join(f"* a{n}\n" for n in range(100_000)), id="distinct bullets", marks=pytest.mark.slow),
        pytest.param("👍🏽" * (MEGABYTE // 2), id="emoji", marks=pytest.mark.slow),
    ],
)
def test_a_megabyte_takes_bounded_time(answer):
    result = make_result(["a"], ["a"], answer=answer, references=[answer, "Paris"], contexts=["Paris.", answer[:5_000]])
    result = replace(result, item=replace(result.item, checks=CHECKS))
    started = time.process_time()
    columns = compute_scores(METRICS, [result], Tools(TinyEmbedder()))
    assert time.process_time() - started < 60
    check_typed([result], dict(columns))


def test_a_thousand_contexts_and_hits():
    chunks = [f"c{number}" for number in range(1_000)]
    contexts = [f"context {number} of the town" for number in range(500)] * 2
    answer = " ".join(f"Sentence {number} says so [{number}]." for number in range(1_000))
    result = make_result(chunks, chunks[500:], answer=answer, references=["a town"], contexts=contexts)
    check_typed([result], dict(compute_scores(METRICS, [result], Tools(TinyEmbedder()))))
