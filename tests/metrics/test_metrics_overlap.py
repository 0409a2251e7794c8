"""The overlap family: seed 001's examples, plain definitions, and unitxt's own numbers with `overlap_compat`."""

import re
import string
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_samples import make_result, outcomes_of

from rageval_dagster.metrics.support import support


def outcomes(compat=False, k=5, **kwargs):
    return outcomes_of("overlap", make_result(k=k, **kwargs), overlap_compat=compat)


def score(compat=False, **kwargs) -> dict[str, Any]:
    return {name: outcome.value for name, outcome in outcomes(compat, **kwargs).items()}


def retrieved(documents, correct, compat=False, k=5):
    chunks = [f"c{number}" for number in range(len(documents))]
    return score(compat, chunks=chunks, documents=documents, relevant_documents=correct, k=k)


def test_a_document_that_comes_back_often_counts_once():
    found = retrieved(["a", "a", "a", "b"], ["b", "c"])
    assert found["context_correctness"] == 0.5
    assert found["context_mrr"] == 0.25, "unitxt ranks chunks"
    assert retrieved(["b", "a"], ["b", "c"])["context_mrr"] == 1.0


def test_only_the_first_k_chunks_are_contexts():
    found = retrieved(["a", "b", "c"], ["c"], k=2)
    assert found["context_correctness"] == found["context_mrr"] == 0.0


def test_faithfulness_takes_the_contexts_together_and_unitxt_the_best_one():
    contexts = ["Paris is big", "The Seine flows there"]
    assert score(answer="Paris Seine London", contexts=contexts)["faithfulness"] == pytest.approx(2 / 3)
    assert score(True, answer="Paris Seine London", contexts=contexts)["faithfulness"] == pytest.approx(1 / 3)


def test_repeating_a_word_of_the_contexts_earns_nothing():
    assert score(answer="Paris Paris Paris", contexts=["Paris"])["faithfulness"] == pytest.approx(1 / 3)
    assert score(answer="Paris Paris", contexts=["Paris", "in Paris"])["faithfulness"] == 1.0


def test_support_is_that_of_its_module():
    answer, contexts = "Paris has 3 rivers.", ["Paris has one river.", "It is big."]
    assert score(answer=answer, contexts=contexts)["support"] == support(answer, contexts)


@pytest.mark.parametrize("answer", ["", " ", "the", "..."])
def test_an_answer_without_words(answer):
    found = score(answer=answer, contexts=["Paris"], references=["Paris"])
    assert (found["faithfulness"], found["answer_correctness"]) == (None, 0.0)


def test_a_reference_without_words_says_nothing():
    assert score(answer="Paris", references=["the"])["answer_correctness"] is None
    assert score(answer="Paris", references=["the", "Paris France"])["answer_correctness"] == 0.5
    assert outcomes(answer="Paris")["answer_correctness"].reason == "no reference answer"


@pytest.mark.parametrize("correct", [None, []])
def test_without_a_known_document_context_correctness_is_undefined(correct):
    for compat in (False, True):
        found = retrieved(["a"], correct, compat)
        assert found["context_correctness"] is found["context_mrr"] is None


def test_a_script_without_spaces_has_words_of_its_own_and_for_unitxt_one():
    contexts = ["法国的首都是巴黎。"]
    assert score(answer="巴黎", contexts=contexts)["faithfulness"] == 1.0
    assert score(True, answer="巴黎", contexts=contexts)["faithfulness"] == 0.0


# Targets that unitxt publishes with its metrics (repository IBM/unitxt, Apache-2.0), rounded to two digits there.


@pytest.mark.parametrize(
    ("answer", "references", "recall"),
    [
        # prepare/metrics/rag.py at d46c28f0574f54262d1149e30a0079c4f7276f9a (metrics.token_overlap_with_context)
        ("apple", ["apple 2e"], 0.5),
        ("boy", ["boy"], 1.0),
        ("cat", ["dog"], 0.0),
        # prepare/metrics/rag_answer_correctness.py at 9172b1ff5eb6c8f589bd9ee1f228ed036e555902
        ("B", ["B C", "C"], 0.5),
        ("B C D", ["D E F"], 0.33),
    ],
)
def test_unitxt_s_targets_for_answers(answer, references, recall):
    assert score(True, answer=answer, references=references)["answer_correctness"] == pytest.approx(recall, abs=0.005)


@pytest.mark.parametrize(
    ("documents", "correct", "mrr"),
    [
        # prepare/metrics/rag_context_correctness.py at 85a8362224d860fe1cd1015159200e2600072bf5
        ("ABC", "AC", 1.0),
        ("AB", "B", 0.5),
        # prepare/metrics/mrr.py at 086fd20213f0911f090ffea44354679e7aa8744a, but for its case without a reference
        ("abcdef", "cd", 0.33),
        ("gru", "g", 1.0),
        ("", "a", 0.0),
        ("c", "b", 0.0),
    ],
)
def test_unitxt_s_targets_for_documents(documents, correct, mrr):
    found = retrieved(list(documents), list(correct), compat=True, k=10)
    assert found["context_correctness"] == found["context_mrr"] == pytest.approx(mrr, abs=0.005)


def unitxt_overlap(reference, prediction):
    """Precision and recall as unitxt 1.26.10 defines them (TokenOverlap in unitxt/metrics.py), in a plain reading."""

    def tokens(text):
        text = "".join(character for character in text.lower() if character not in set(string.punctuation))
        return re.sub(r"\b(a|an|the)\b", " ", text).split()

    ours, theirs = tokens(prediction), tokens(reference)
    common = sum((Counter(ours) & Counter(theirs)).values())
    return (common / len(ours), common / len(theirs)) if common else (0.0, 0.0)


texts = st.text(alphabet="abt he.,-'\"éß“”–5%中文。\u0301\n", max_size=30)


@settings(max_examples=200, deadline=None)
@given(texts, st.lists(texts, min_size=1, max_size=4))
def test_compat_equals_unitxt_s_definition(answer, others):
    found = score(True, answer=answer, contexts=others, references=others)
    pairs = [unitxt_overlap(other, answer) for other in others]
    assert found["faithfulness"] == pytest.approx(max(precision for precision, _ in pairs))
    assert found["answer_correctness"] == pytest.approx(max(recall for _, recall in pairs))


def test_where_unitxt_fails_compat_is_undefined():
    found = outcomes(True, answer="Paris")
    assert (found["faithfulness"].status, found["answer_correctness"].status) == ("undefined", "undefined")


@settings(max_examples=100, deadline=None)
@given(texts, st.lists(texts, max_size=4))
def test_a_further_context_never_lowers_faithfulness(answer, contexts):
    fewer = score(answer=answer, contexts=contexts[1:])["faithfulness"]
    more = score(answer=answer, contexts=contexts)["faithfulness"]
    assert (fewer is None) == (more is None)
    assert more is None or more >= fewer
