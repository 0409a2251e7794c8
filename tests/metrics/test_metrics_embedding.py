"""The embedding family: against its plain definitions, at its edges, and with the real model."""

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_samples import DATA_DIR, TinyEmbedder, make_result

from rageval_dagster.metrics.registry import MetricOptions, Tools, all_metrics, compute_scores
from rageval_dagster.records import Hit


def scores(results, embedder=None, **thresholds):
    embedder = embedder or TinyEmbedder()
    metrics = [
        metric
        for metric in all_metrics(MetricOptions(5, embedder.version, **thresholds))
        if metric.family == "embedding"
    ]
    columns = compute_scores(metrics, results, Tools(embedder))
    return {metric_id.removeprefix("embedding."): column for metric_id, column in columns.items()}


def score(embedder=None, **kwargs) -> dict[str, Any]:
    return {name: column[0].value for name, column in scores([make_result(**kwargs)], embedder).items()}


COMMON_WORDS = ["red", "green", "blue", "town", "river", "king", "law"]
words = st.lists(st.sampled_from(COMMON_WORDS), min_size=1, max_size=6).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(words, words, st.lists(words, min_size=1, max_size=3), st.lists(words, min_size=1, max_size=5))
def test_equal_to_the_plain_definitions(question, answer, references, contexts):
    embedder = TinyEmbedder()

    def cosine(one, other):
        vectors = embedder.encode([one, other]).astype(float)
        return max(0.0, float(vectors[0] @ vectors[1]))

    found = score(question=question, answer=answer, references=references, contexts=contexts)
    to_contexts = [cosine(question, context) for context in contexts]
    assert found["context_relevance"] == pytest.approx(np.mean(to_contexts), abs=1e-5)
    if min(abs(value - 0.5) for value in to_contexts) > 1e-5:
        assert found["context_sufficiency"] == pytest.approx(np.mean([value >= 0.5 for value in to_contexts]))
    best_reference = max(cosine(answer, reference) for reference in references)
    assert found["answer_relevance"] == found["answer_correctness"] == pytest.approx(best_reference, abs=1e-5)
    assert found["question_alignment"] == pytest.approx(cosine(answer, question), abs=1e-5)
    best_context = max(cosine(answer, context) for context in contexts)
    if abs(best_context - 0.4) > 1e-5:
        assert found["answer_hallucination"] == float(best_context < 0.4)


def test_no_contexts():
    assert score(answer="red town", references=["red town"]) == {
        "context_relevance": 0.0,
        "context_sufficiency": 0.0,
        "answer_relevance": pytest.approx(1.0),
        "answer_correctness": pytest.approx(1.0),
        "question_alignment": pytest.approx(score(answer="red town")["question_alignment"]),
        "answer_hallucination": 1.0,
    }


def test_an_empty_answer():
    found = score(answer=" ", references=["red"], contexts=["red"], question="red")
    assert found["answer_hallucination"] is None
    assert found["answer_relevance"] == found["answer_correctness"] == found["question_alignment"] == 0.0
    assert found["context_relevance"] == pytest.approx(1.0)


def test_an_answer_of_marks_and_citations_has_no_sentences():
    for answer in ("[1]", "…", "[1] [2].", "👍"):
        assert score(answer=answer, contexts=["red"])["answer_hallucination"] is None


def test_no_reference_is_undefined():
    for references in ([], [" "]):
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


def test_thresholds_are_parameters():
    results = [make_result(question="red", answer="red", contexts=["red"])]
    assert scores(results, sufficiency_threshold=1.1)["context_sufficiency"][0].value == 0.0
    assert scores(results, hallucination_threshold=1.1)["answer_hallucination"][0].value == 1.0


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
    found = scores([make_result(answer="red", references=["red"], contexts=["red"])], embedder)
    [(status, reason)] = {(column[0].status, column[0].reason) for column in found.values()}
    assert status == "error"
    assert str(reason).startswith("ConnectionError at test_metrics_embedding.py:")
    assert "customer" not in str(reason)
    assert embedder.embedded == ["call"]


@pytest.fixture(scope="module")
def real_embedder():
    from rageval_dagster.embedding.models import load_embedder
    from rageval_dagster.settings import Settings

    settings = Settings()
    return load_embedder(settings.metric_embedding_model, settings)


def test_the_last_sentence_of_a_long_chunk_is_supported(real_embedder):
    topics = ["bread", "granite", "jazz", "whales", "taxes", "volcanoes", "chess", "bridges", "tulips", "comets"]
    filler = [f"Remark {number} is about {topic} and why {topic} matter." for number in range(3) for topic in topics]
    end = [f"In year {year} the lighthouse keeper of Sand Island wound the clock at six." for year in range(1880, 1890)]
    context = " ".join(filler + end)
    assert len(context.split()) > 350
    found = score(real_embedder, answer=end[-1], contexts=[context])
    assert found["answer_hallucination"] == 0.0

    cut_off = real_embedder.encode([end[-1], context])
    assert cut_off[0] @ cut_off[1] < 0.4, "what the model sees of the whole chunk does not hold the sentence"


def test_the_real_model_tells_right_from_wrong(real_embedder):
    question = "What is the capital of France?"
    contexts = ["Paris is the capital of France.", "Volcanoes erupt when magma rises."]
    right, wrong = (
        score(real_embedder, question=question, answer=answer, references=["Paris"], contexts=contexts)
        for answer in ("It is Paris.", "Bananas are yellow.")
    )
    assert right["context_sufficiency"] == 0.5
    assert right["answer_correctness"] > wrong["answer_correctness"]
    assert right["question_alignment"] > wrong["question_alignment"]
    assert (right["answer_hallucination"], wrong["answer_hallucination"]) == (0.0, 1.0)


@pytest.mark.skipif(not (DATA_DIR / "q2").is_dir(), reason=f"no q2 set in {DATA_DIR} (RAGEVAL_DATA_DIR)")
def test_seed_000_s_formulas_on_real_items(real_embedder):
    rows = [json.loads(line) for line in (DATA_DIR / "q2" / "judged.jsonl").read_text().splitlines()[:240:20]]
    results = [
        make_result(question=row["question"], answer=row["answer"], contexts=row["contexts"])
        for row in rows
        if row["question"] and row["contexts"]
    ]
    found = scores(results, real_embedder)

    def cosine(one, other):
        return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other) + 1e-10))

    compared = 0
    for number, result in enumerate(results):
        texts = [result.item.question, *result.contexts]
        if any(len(real_embedder.windows(text)) > 1 for text in texts):
            continue
        question, *contexts = real_embedder.encode(texts)
        cosines = [cosine(question, context) for context in contexts]
        if min(cosines) < 0:
            continue
        assert found["context_relevance"][number].value == pytest.approx(np.mean(cosines), abs=1e-5)
        assert found["context_sufficiency"][number].value == np.mean([value >= 0.5 for value in cosines])
        assert result.answer is not None
        answer = result.answer.text
        if len(re.findall(r"[.!?]", answer)) <= 1:
            (sentence,) = real_embedder.encode([answer.strip()])
            supported = max(cosine(sentence, context) for context in contexts) >= 0.4
            assert found["answer_hallucination"][number].value == float(not supported)
            compared += 1
    assert compared > 2


def test_contexts_whose_words_are_not_known_are_not_judged():
    """A system that names documents alone, or a hit whose words were not kept: they were another client's."""
    known, unknown = Hit("c1", "d1", 1, 1.0, "A text."), Hit("c2", "d2", 2, 0.5)
    result = replace(make_result(answer="A text."), hits=(known, unknown), contexts=("A text.", ""))
    found = scores([result])
    of_contexts = ("context_relevance", "context_sufficiency", "answer_hallucination")
    assert {found[name][0].status for name in of_contexts} == {"undefined"}
    assert found["question_alignment"][0].status == "scored"
