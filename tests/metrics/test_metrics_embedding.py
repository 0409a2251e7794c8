"""The embedding family: against its plain definitions, at its edges, and with the real model."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_samples import TinyEmbedder, make_result, outcomes_of

from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.metrics.registry import MetricOptions, Tools, all_metrics, compute_scores
from rageval_dagster.records import Hit
from rageval_dagster.settings import Settings


def score(embedder=None, **kwargs) -> dict[str, Any]:
    found = outcomes_of("embedding", make_result(**kwargs), embedder)
    return {name: outcome.value for name, outcome in found.items()}


COMMON_WORDS = ["red", "green", "blue", "town", "river", "king", "law"]
words = st.lists(st.sampled_from(COMMON_WORDS), min_size=1, max_size=6).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(words, words, st.lists(words, min_size=1, max_size=3), st.lists(words, max_size=5))
def test_equal_to_the_plain_definitions(question, answer, references, contexts):
    embedder = TinyEmbedder()

    def cosine(one, other):
        vectors = embedder.encode([one, other]).astype(float)
        return max(0.0, float(vectors[0] @ vectors[1]))

    found = score(question=question, answer=answer, references=references, contexts=contexts)
    to_contexts = [cosine(question, context) for context in contexts]
    count = max(len(contexts), 1)
    assert found["context_relevance"] == pytest.approx(sum(to_contexts) / count, abs=1e-5)
    if all(abs(value - 0.5) > 1e-5 for value in to_contexts):
        assert found["context_sufficiency"] == pytest.approx(sum(value >= 0.5 for value in to_contexts) / count)
    best_reference = max(cosine(answer, reference) for reference in references)
    assert found["answer_relevance"] == found["answer_correctness"] == pytest.approx(best_reference, abs=1e-5)
    assert found["question_alignment"] == pytest.approx(cosine(answer, question), abs=1e-5)
    best_context = max((cosine(answer, context) for context in contexts), default=0.0)
    if abs(best_context - 0.4) > 1e-5:
        assert found["answer_hallucination"] == float(best_context < 0.4)


def test_an_empty_answer():
    found = score(answer=" ", references=["red"], contexts=["red"], question="red")
    assert found["answer_hallucination"] is None
    assert found["answer_relevance"] == found["answer_correctness"] == found["question_alignment"] == 0.0
    assert found["context_relevance"] == pytest.approx(1.0)


@pytest.mark.parametrize("answer", ["[1]", "…", "[1] [2].", "👍"])
def test_an_answer_of_marks_and_citations_has_no_sentences(answer):
    assert score(answer=answer, contexts=["red"])["answer_hallucination"] is None


@pytest.mark.parametrize("references", [[], [" "]])
def test_no_reference_is_undefined(references):
    found = score(answer="red", references=references)
    assert found["answer_relevance"] is None
    assert found["question_alignment"] is not None


def test_an_empty_question_is_undefined():
    found = score(question=" ", answer="red", references=["red"], contexts=["red"])
    assert [name for name, value in found.items() if value is None] == [
        "context_relevance",
        "context_sufficiency",
        "question_alignment",
    ]


def test_a_blank_context_counts_as_one_that_resembles_nothing():
    found = score(question="red", contexts=["red", ""], answer="red")
    assert found["context_relevance"] == found["context_sufficiency"] == pytest.approx(0.5)
    assert found["answer_hallucination"] == 0.0


def test_hallucination_is_the_share_of_unsupported_sentences():
    answer = "Red green blue. The rate of 0.305% is unheard of! Red green blue? [1]"
    found = score(answer=answer, contexts=["red green blue", "red green blue. blue? [1]"])
    assert found["answer_hallucination"] == pytest.approx(1 / 3)


def test_a_long_context_counts_by_its_best_window():
    context = " ".join(["town"] * 200) + " red green blue"
    assert len(TinyEmbedder().windows(context)) > 1
    found = score(answer="red green blue", contexts=[context])
    assert found["answer_hallucination"] == 0.0


def test_each_distinct_text_is_embedded_once_for_all_metrics_and_items():
    embedder = TinyEmbedder()
    tools = Tools(embedder)
    metrics = [metric for metric in all_metrics(MetricOptions(5, embedder.version)) if metric.family == "embedding"]
    contexts = ["red. blue.", "red. blue.", "green"]
    results = [
        make_result(question=question, answer="red. blue.", contexts=contexts, references=["red"])
        for question in ("q0", "q1", "q2")
    ]
    compute_scores(metrics, results, tools)
    compute_scores(metrics, list(results), tools)
    assert sorted(embedder.embedded) == sorted({"q0", "q1", "q2", "red. blue.", "red.", "blue.", "green", "red"})


def test_a_model_that_fails_is_asked_once_and_gives_errors():
    class Failing(TinyEmbedder):
        def encode(self, texts):
            self.embedded.append("call")
            raise ConnectionError("the text of a customer")

    embedder = Failing()
    found = outcomes_of("embedding", make_result(answer="red", references=["red"], contexts=["red"]), embedder)
    [(status, reason)] = {(outcome.status, outcome.reason) for outcome in found.values()}
    assert status == "error"
    assert str(reason).startswith("ConnectionError at test_metrics_embedding.py:")
    assert "customer" not in str(reason)
    assert embedder.embedded == ["call"]


def test_the_real_model_tells_right_from_wrong():
    settings = Settings()
    embedder = load_embedder(settings.metric_embedding_model, settings)
    question = "What is the capital of France?"
    contexts = ["Paris is the capital of France.", "Volcanoes erupt when magma rises."]
    right, wrong = (
        score(embedder, question=question, answer=answer, references=["Paris"], contexts=contexts)
        for answer in ("It is Paris.", "Bananas are yellow.")
    )
    assert right["context_sufficiency"] == 0.5
    assert right["answer_correctness"] > wrong["answer_correctness"]
    assert right["question_alignment"] > wrong["question_alignment"]
    assert (right["answer_hallucination"], wrong["answer_hallucination"]) == (0.0, 1.0)


def test_contexts_whose_words_are_not_known_are_not_judged():
    """A system that names documents alone, or a hit whose words were not kept: they were another client's."""
    known, unknown = Hit("c1", "d1", 1, 1.0, "A text."), Hit("c2", "d2", 2, 0.5)
    result = replace(make_result(answer="A text."), hits=(known, unknown), contexts=("A text.", ""))
    found = outcomes_of("embedding", result)
    of_contexts = ("context_relevance", "context_sufficiency", "answer_hallucination")
    assert {found[name].status for name in of_contexts} == {"undefined"}
    assert found["question_alignment"].status == "scored"
