"""The citation family: what a citation and a claim are, what is correct, and that any text has an outcome."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_samples import TinyEmbedder, columns_of, detail_of, make_result, outcomes_of, value_of

from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.metrics.citation_marks import WIDEST_RANGE, Retrieved, without_code
from rageval_dagster.metrics.cited_answers import read_answer
from rageval_dagster.rag.extractive import ExtractiveAnswerer
from rageval_dagster.records import Answer, Hit, Result
from rageval_dagster.settings import Settings

FEE, TAX, KING = "The fee is five dollars a year.", "Tax rates were lowered last autumn.", "Harald was crowned in Oslo."
HITS = (
    Hit("rules::7", "docs/Fee Rules.pdf", 1, 0.9, FEE, 3),
    Hit("tax-1", "tax.md", 2, 0.8, TAX),
    Hit("tax-2", "tax.md", 3, 0.7, KING, 9),
)


def result_of(answer: str, *citations: str, hits: tuple[Hit, ...] = HITS, **changes: Any) -> Result:
    result = replace(
        make_result(answer=answer), hits=hits, contexts=tuple(hit.text for hit in hits), answer=Answer(answer)
    )
    return replace(result, answer=Answer(answer, citations=citations), **changes)


def scores(answer: str, *citations: str, **changes: Any) -> tuple[float | None, float | None, float | None]:
    """Accuracy, coverage and recall."""
    found = outcomes_of("citation", result_of(answer, *citations, **changes))
    return found["accuracy"].value, found["coverage"].value, found["recall"].value


def named(text: str, hits: tuple[Hit, ...] = HITS) -> list[tuple[int, ...]]:
    """The contexts, from 1, that each citation in a text names; () for one that was never retrieved."""
    marks = Retrieved(len(hits), hits).marks(text)
    return [tuple(place + 1 for place in citation.contexts) for mark in marks for citation in mark.citations]


@pytest.mark.parametrize(
    ("text", "contexts"),
    [
        ("x [1]", [(1,)]),
        ("x[1]", [(1,)]),
        ("x [1, 2]", [(1,), (2,)]),
        ("x [1][2]", [(1,), (2,)]),
        ("x [1; 3]", [(1,), (3,)]),
        ("x [1-3]", [(1,), (2,), (3,)]),
        ("x [2–3]", [(2,), (3,)]),
        ("x【1】", [(1,)]),
        ("x［２］", [(2,)]),
        ("x [٢]", [(2,)]),
        ("x [Source 2]", [(2,)]),
        ("x [citation:2]", [(2,)]),
        ("x [1](https://example.com)", [(1,)]),
        ("x [0]", [()]),
        # Never retrieved: wrong, not skipped.
        ("x [4]", [()]),
        ("x [2023]", [()]),
        ("x [3-5]", [(3,), (), ()]),
        ("x [3-1]", [()]),
        (f"x [1-{WIDEST_RANGE + 1}]", [()]),
        ("x [99999999999999999999]", [()]),
        # Documents and pages.
        ("x [tax.md]", [(2, 3)]),
        ("x [TAX.md]", [(2, 3)]),
        ("x [tax]", [(2, 3)]),
        ("x [docs/Fee Rules.pdf]", [(1,)]),
        ("x [Fee Rules.pdf]", [(1,)]),
        ("x [Fee  rules]", [(1,)]),
        ("x [rules::7]", [(1,)]),
        ("x [Fee Rules.pdf:3]", [(1,)]),
        ("x [Fee Rules.pdf, page 3]", [(1,)]),
        ("x [Fee Rules.pdf, p. 3]", [(1,)]),
        ("x [Fee Rules.pdf:2-4]", [(1,)]),
        ("x [Fee Rules.pdf:3, 4]", [(1,), ()]),
        ("x [Fee Rules.pdf:4]", [()]),
        ("x [tax.md:9]", [(2, 3)]),
        ("x [tax.md:1]", [(2,)]),
        ("x [tax.md; Fee Rules.pdf:3]", [(2, 3), (1,)]),
        ("x [1, tax.md]", [(1,), (2, 3)]),
        ("x (source: tax.md)", [(2, 3)]),
        ("x (Source: Fee Rules.pdf, page 3)", [(1,)]),
        ("x (source: Fee Rules.pdf, page 4)", [()]),
        ("x (Quelle: tax.md)", [(2, 3)]),
        ("x（来源：tax.md）", [(2, 3)]),
        ("x (source: 2)", [(2,)]),
        ("x (sources: 1, 2)", [(1,), (2,)]),
        ("x (source: Annals (1998).pdf)", [()]),
        ("x [source: tax.md]", [(2, 3)]),
        ("x [other.pdf]", [()]),
        ("x [other.pdf:3]", [()]),
        ("x [other_doc:3]", [()]),
        ("x [https://example.com/a]", [()]),
        ("x (source: Some Other Book)", [()]),
        ("x [tax.md](https://example.com/tax.md)", [(2, 3)]),
        # No citations.
        ("see [the rules](https://example.com/rules.pdf)", []),
        ("see [rules.pdf](https://example.com/rules.pdf)", []),
        ("![tax.md](tax.png)", []),
        ("a note[^1]", []),
        ("it was [sic] so [...] and [the company] said", []),
        ("- [x] done\n- [ ] open", []),
        ("`rows[1]` and\n```python\nrows[1]\n```\nand ~~~", []),
        ("```\nrows[1]", []),
        ("[]", []),
        ("(see page 3) (source) [source]", []),
    ],
)
def test_what_is_a_citation_and_what_it_names(text, contexts):
    assert named(without_code(text)) == contexts


def test_a_number_beyond_the_contexts_may_be_the_id_of_a_document():
    assert named("x [12] [13] [1]", (Hit("a", "12", 1, 1.0, FEE), Hit("b", "1", 2, 1.0, TAX))) == [(1,), (), (1,)]


def test_contexts_without_hits_are_named_by_number_alone():
    result = result_of(f"{FEE} [1] {TAX} [2] {KING} [tax.md] {FEE} [tax]", hits=(), contexts=(FEE, KING))
    found = outcomes_of("citation", result)
    assert detail_of(found["accuracy"])["verdicts"] == [
        {"sentence": 1, "contexts": [1], "verdict": "correct"},
        {"sentence": 2, "contexts": [2], "verdict": "unsupported"},
        {"sentence": 3, "contexts": [], "verdict": "not_retrieved"},
    ]
    assert value_of(found["coverage"]) == 0.75


def sentences(text: str) -> list[str]:
    """Each sentence after `+` if it is a claim or `-` if it is none, and the number of its citations if it has any."""
    return [
        f"{'+' if sentence.is_claim else '-'}{len(sentence.citations) or ''} {sentence.text}"
        for sentence in read_answer(text, Retrieved(3, HITS))[0]
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is red. [1] It is blue.[2][3]", ["+1 It is red.", "+2 It is blue."]),
        ("It is red [1]. It is blue.", ["+1 It is red.", "+ It is blue."]),
        ("It is red [1]. [2] says it is blue.", ["+1 It is red.", "+1 says it is blue."]),
        ("[1] It is red.\n[2] It is blue.", ["+1 It is red.", "+1 It is blue."]),
        ("It is red.\n[1]\n\nIt is blue.\n\n[2]", ["+1 It is red.", "+1 It is blue."]),
        ("Paris [1]", ["+1 Paris"]),
        ("The rate is -0.133% (Rule C-1). Dr. Lee agrees.", ["+ The rate is -0.133% (Rule C-1).", "+ Dr. Lee agrees."]),
        ("Is it red? [1] It is.", ["-1 Is it red?", "+ It is."]),
        ("## Colours\n**Red**\nIt is red.", ["- ## Colours", "- Red", "+ It is red."]),
        ("Colours\n=======\nIt is red.", ["- Colours", "+ It is red."]),
        ("Here is what I found:\n- Red [1]\n* Blue", ["- Here is what I found:", "+1 Red", "+ Blue"]),
        ("1. Red. [1]\n2) Blue\n(c) Green", ["+1 Red.", "+ Blue", "+ Green"]),
        ("Sure! It is red. I hope this helps!", ["- Sure!", "+ It is red.", "- I hope this helps!"]),
        ("| Who | What |\n|---|---|\n| Fee | $5 [1] |\n| Tax | 3% |", ["- Who, What", "+1 Fee, $5", "+ Tax, 3%"]),
        ("> It is red. [1]", ["+1 It is red."]),
        ("It is red. [1]\n```\nprint(rows[1]). Done.\n```", ["+1 It is red."]),
        ("```markdown\nIt is red. [1]\n```", ["+1 It is red."]),
        (
            "All of the members have to pay five dollars\na year. [1]\r\nIt is red.",
            ["+1 All of the members have to pay five dollars a year.", "+ It is red."],
        ),
        ("It is red. [1]\n\nSources:\n[1] rules.pdf\n- tax.md", ["+1 It is red."]),
        ("It is red.\n**Sources:** [1], [2]", ["+ It is red."]),
        ("It is red.\n\n[1] handbook.pdf\n[2] https://example.com", ["+ It is red."]),
        ("巴黎是首都。[1]人口很多！【2】是吗？", ["+1 巴黎是首都。", "+1 人口很多！", "- 是吗？"]),
        ("هي باريس. [1] ما هي؟ نعم هي [2].", ["+1 هي باريس.", "- ما هي؟", "+1 نعم هي."]),
        ("यह लाल है। [1] यह नीला है [2]।", ["+1 यह लाल है।", "+1 यह नीला है।"]),
        (
            "Gern! Das gilt z. B. für Dr. Maier. [1] Alle anderen zahlen bzw. warten bis Ende Mai. [2]",
            ["- Gern!", "+1 Das gilt z. B. für Dr. Maier.", "+1 Alle anderen zahlen bzw. warten bis Ende Mai."],
        ),
        ("It is [sic] red. [^1]\n\n[emphasis added]", ["+ It is [sic] red."]),
        ("[1] [2]", []),
        (" \n", []),
    ],
)
def test_sentences_claims_and_whose_a_citation_is(text, expected):
    assert sentences(text) == expected


def test_sentences_stand_where_they_say():
    text = "- It is red [1]. It is blue. [2]\r\n\r\n  巴黎是首都。"
    sentences, _ = read_answer(text, Retrieved(3, HITS))
    assert [text[sentence.start : sentence.end] for sentence in sentences] == [
        "It is red [1].",
        "It is blue.",
        "巴黎是首都。",
    ]


def default_embedder() -> Any:
    settings = Settings()
    return load_embedder(settings.metric_embedding_model, settings)


def test_the_built_in_answer_is_cited_throughout():
    result = result_of("", item=replace(make_result().item, question="What is the fee a year?"))
    (outcome,) = ExtractiveAnswerer(default_embedder()).answer([result.item], [result.contexts])
    assert outcome.answer is not None
    assert not outcome.answer.declined
    found = outcomes_of("citation", replace(result, answer=outcome.answer), default_embedder())
    assert {value_of(outcome) for outcome in found.values()} == {1.0}


def test_the_three_metrics_by_hand():
    """Four claims: one rightly cited, one by another context, one by nothing retrieved, one not at all."""
    answer = f"{FEE} [1] {TAX} [1] {KING} [7] It rains."
    assert scores(answer) == (pytest.approx(1 / 3), 0.75, 0.25)
    assert scores(f"{FEE} [1][2]") == (0.5, 1.0, 1.0)
    assert scores(f"{KING} [tax.md] {TAX} [tax.md:9]") == (1.0, 1.0, 1.0)
    assert scores(f"{KING} [tax.md:1]") == (0.0, 1.0, 0.0)


def test_without_citations_or_claims_or_text():
    assert scores("It rains. It snows.") == (None, 0.0, 0.0)
    assert scores("Is it red? [9]") == (0.0, None, None)
    assert scores("[1]") == (0.0, None, None)
    assert scores(" ", "1") == (None, None, None)


def test_nothing_was_retrieved_or_nothing_but_blank():
    assert scores(f"{FEE} [1] [tax.md]", hits=()) == (0.0, 1.0, 0.0)
    assert scores(f"{FEE} [1]", hits=(Hit("a", "a", 1, 1.0, " "),)) == (0.0, 1.0, 0.0)


def test_a_system_that_does_not_tell_its_contexts_is_not_judged():
    found = outcomes_of("citation", result_of(f"{FEE} [1]", hits=(), tells_contexts=False))
    assert {outcome.status for outcome in found.values()} == {"undefined"}


def test_citations_given_apart_from_the_text():
    answer = f"{FEE} {TAX}"
    assert scores(answer, "1", "2") == (1.0, 1.0, 1.0)
    assert scores(answer, "rules::7") == (1.0, 1.0, 0.5)
    assert scores(answer, "tax.md") == (1.0, 1.0, 0.5)
    assert scores(answer, "3", "unknown id", "") == (0.0, 1.0, 0.0)
    assert scores(f"{answer}\n\nSources: [1], [2]") == (1.0, 1.0, 1.0)


def test_what_is_given_apart_and_in_the_text_counts_once():
    answer = f"{FEE} [1] {TAX} [8]"
    assert scores(answer, "1", "8") == scores(answer) == (0.5, 1.0, 0.5)
    assert scores(f"{FEE} [1] {TAX}", "1", "2") == (1.0, 0.5, 0.5)
    assert scores(f"{FEE} [1] {TAX}\n\nSources:\n[1] Fee Rules.pdf") == (1.0, 0.5, 0.5)


def test_a_number_of_any_length_given_apart_is_of_nothing_retrieved():
    assert scores(FEE, "9" * 5_000) == (0.0, 1.0, 0.0)
    assert scores(FEE, "1-" + "9" * 5_000) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize(
    "answer",
    [f"{FEE} Sources: [1]", f"{FEE} Source: [1].", f"{FEE}\nSources: [1]", f"{FEE} Source: [1] docs/Fee Rules.pdf"],
)
def test_sources_listed_behind_the_last_sentence_are_of_the_whole_answer(answer):
    assert scores(answer) == (1.0, 1.0, 1.0)
    assert scores("It is so. Source: [1] The fee is five dollars a year.")[1] == 0.5, "a sentence, no list"


def test_ids_come_before_numbers_where_they_are_given_apart():
    hits = (Hit("2", "d", 1, 1.0, FEE), Hit("1", "d", 2, 1.0, TAX))
    assert scores(FEE, "2", hits=hits) == (1.0, 1.0, 1.0)
    assert scores(f"{FEE} [1]", hits=hits) == (1.0, 1.0, 1.0)


def test_a_long_context_supports_by_its_best_window():
    context = " ".join(["town"] * 200) + " " + FEE
    assert len(TinyEmbedder().windows(context)) > 1
    assert scores(f"{FEE} [1]", hits=(Hit("a", "a", 1, 1.0, context),))[0] == 1.0


@pytest.mark.parametrize(("threshold", "accuracy"), [(0.9, 1.0), (1.1, 0.0)])
def test_the_threshold_is_a_parameter(threshold, accuracy):
    found = outcomes_of("citation", result_of(f"{FEE} [1]"), citation_threshold=threshold)
    assert value_of(found["accuracy"]) == accuracy


def test_the_detail_holds_numbers_and_no_words():
    found = outcomes_of("citation", result_of(f"{FEE} [rules::7] {TAX} [secret.pdf] {KING} [1]", "tax-2"))
    details = [detail_of(outcome) for outcome in found.values()]
    assert details[0]["citations"] == 4
    assert (details[0]["correct"], details[0]["unsupported"], details[0]["not_retrieved"]) == (2, 1, 1)
    assert details[0]["verdicts"][3] == {"sentence": None, "contexts": [3], "verdict": "correct"}
    assert details[1] == {"claims": 3, "cited": 3}
    assert details[2] == {"claims": 3, "correctly_cited": 1}
    kept = json.dumps(details)
    assert not any(word in kept for word in ("secret", "rules", "tax", "Harald"))


def test_only_what_is_cited_is_embedded():
    embedder = TinyEmbedder()
    columns_of("citation", [result_of(f"{FEE} [1] It rains. {TAX} [9]")] * 3, embedder)
    assert sorted(embedder.embedded) == sorted({FEE, TAX})


texts = st.one_of(
    st.text(max_size=80),
    st.text(alphabet="ab1 2.,:;-|#*>`~!?[](){}【】\n\r中。的।٣source\ud800", max_size=80),
    st.lists(
        st.sampled_from(
            [
                *("It is red. ", "[1]", "[2, 9]", "[tax.md:9]", "(source: tax.md)", "\n", "- ", "| a | b |\n", "```"),
                *("# x\n", "? ", "[x](y)", "1. ", "中文。", "---\n", "`a[1]`", "[1-3]", "\r\n", "Sure! ", "[", "]"),
                "Sources:",
            ]
        ),
        max_size=20,
    ).map("".join),
)


@settings(max_examples=300, deadline=None)
@given(texts, st.lists(st.sampled_from(["1", "2", "9", "tax.md", "tax-1", "", "x", "\ud800"]), max_size=3))
def test_any_answer_has_outcomes_that_agree(answer, given_apart):
    result = result_of(answer, *given_apart)
    found = outcomes_of("citation", result)
    for outcome in found.values():
        assert outcome.status in ("scored", "undefined")
    assert found["coverage"].status == found["recall"].status
    if found["coverage"].value is not None:
        assert value_of(found["recall"]) <= found["coverage"].value
    if found["accuracy"].value is None and found["coverage"].value is not None:
        assert found["coverage"].value == 0.0
    places = [(s.start, s.end) for s in read_answer(answer, Retrieved.of(result))[0]]
    assert places == sorted(places)
    assert all(first[1] <= second[0] for first, second in pairwise(places))


CLAIMS = [FEE, TAX, KING]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from(["", "[1]", "[2]", "[9]", "[tax.md]"])), min_size=1),
    st.data(),
    st.sampled_from([" ", "\n", "\n- "]),
)
def test_a_correct_citation_more_never_lowers_coverage_or_recall(claims, data, between):
    number = data.draw(st.integers(0, len(claims) - 1))
    claim, mark = claims[number]
    if mark:
        return

    def answer(cited):
        return between.join(f"{CLAIMS[which]} {marked}".strip() for which, marked in cited)

    more = [*claims[:number], (claim, f"[{claim + 1}]"), *claims[number + 1 :]]
    _, coverage, recall = scores(answer(claims))
    assert coverage is not None
    assert recall is not None
    _, more_coverage, more_recall = scores(answer(more))
    assert more_coverage == pytest.approx(coverage + 1 / len(claims))
    assert more_recall == pytest.approx(recall + 1 / len(claims))
