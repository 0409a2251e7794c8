"""Seed 000: five metrics of one answer by the cosines of sentence embeddings, a file of answers scored by a command,
and a check of an answer's quality that asks no model."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from rageval_dagster import assess_answer, evaluate_all, improve_answer
from tests.cli.running import Run
from tests.llm.scripted_server import ScriptedServer

QUESTION, ANSWER, REFERENCE = "Which way?", "To the east. It is far! Or is it?", "It is in the east."
CONTEXTS = ["East by north.", "North by east.", "North."]
VECTORS = {
    QUESTION: (1, 0, 0),
    "East by north.": (4, 3, 0),  # length 5: cosine with the question 4/5
    "North by east.": (3, 4, 0),  # 3/5
    "North.": (7, 24, 0),  # length 25: 7/25
    ANSWER: (24, 7, 0),  # length 25
    REFERENCE: (4, 3, 0),
    # The sentences of the answer, cut at each of . ! ?
    "To the east": (4, 3, 0),  # cosine 1 with the first context
    "It is far": (0, 0, 1),  # 0 with every context
    "Or is it": (0, 3, 4),  # length 5: at best (24 * 3) / (25 * 5) = .576, with the third context
}
WHOLE_SENTENCES = {
    text + mark: VECTORS[text] for text, mark in (("To the east", "."), ("It is far", "!"), ("Or is it", "?"))
}
"""As the command cuts them, by a segmenter."""

FIVE = ["context_relevance", "context_sufficiency", "answer_relevance", "answer_correctness", "answer_hallucination"]


@pytest.fixture
def embeddings(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    with ScriptedServer(vectors=VECTORS | WHOLE_SENTENCES) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


def write(value: object, name: str) -> Path:
    path = Path(name)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def test_evaluate_all_gives_the_five_metrics_at_the_default_thresholds(embeddings: ScriptedServer) -> None:
    found = evaluate_all(
        question=QUESTION, answer=ANSWER, reference=REFERENCE, contexts=CONTEXTS, model_name="openai:known"
    )
    assert list(found) == FIVE
    assert found == pytest.approx(
        {
            "context_relevance": (4 / 5 + 3 / 5 + 7 / 25) / 3,
            "context_sufficiency": 2 / 3,  # .8 and .6 reach .5
            "answer_relevance": (24 * 4 + 7 * 3) / (25 * 5),
            "answer_correctness": (24 * 4 + 7 * 3) / (25 * 5),
            "answer_hallucination": 1 / 3,  # of 1, 0 and .576 one is below .4
        }
    )


def test_both_thresholds_can_be_set(embeddings: ScriptedServer) -> None:
    found = evaluate_all(QUESTION, ANSWER, REFERENCE, CONTEXTS, "openai:known", thresholds=(0.7, 0.6))
    assert found["context_sufficiency"] == pytest.approx(1 / 3)  # .8 alone
    assert found["answer_hallucination"] == pytest.approx(2 / 3)  # 0 and .576


def test_a_value_on_its_threshold_counts_for_the_context_and_for_the_sentence(embeddings: ScriptedServer) -> None:
    """The cosine of "It is far" with everything else is 0."""
    on_it = evaluate_all(QUESTION, "It is far", REFERENCE, CONTEXTS, "openai:known", thresholds=(0.0, 0.0))
    assert on_it["answer_hallucination"] == 0
    on_it = evaluate_all(QUESTION, ANSWER, REFERENCE, ["It is far"], "openai:known", thresholds=(0.0, 0.0))
    assert on_it["context_sufficiency"] == 1


def test_texts_are_embedded_in_one_batch_each_once(embeddings: ScriptedServer) -> None:
    evaluate_all(QUESTION, ANSWER, REFERENCE, CONTEXTS * 2, "openai:known")
    [request] = embeddings.requests
    assert sorted(request.body["input"]) == sorted(VECTORS)


def test_empty_answers_and_contexts(embeddings: ScriptedServer) -> None:
    nothing_retrieved = evaluate_all(QUESTION, ANSWER, REFERENCE, [], "openai:known")
    assert [nothing_retrieved[name] for name in FIVE[:2]] == [0, 0]
    assert nothing_retrieved["answer_hallucination"] == 1
    nothing_said = evaluate_all(QUESTION, "", REFERENCE, CONTEXTS, "openai:known")
    assert (nothing_said["answer_correctness"], nothing_said["answer_hallucination"]) == (0, None)


def test_a_file_of_answers_is_scored_by_a_command_that_names_the_model(run: Run) -> None:
    rows = [
        {
            "question": "Paris is the capital of France.",
            "reference_answer": "It is Paris.",
            "answer": "It is Paris.",
            "contexts": ["Paris is the capital of France."],
        }
    ]
    file = write(rows, "sample_eval.json")
    ended = run("score", file, "--model", "all-MiniLM-L6-v2", "--metrics", "embedding.*", "--json")
    assert ended.code == 0, ended.err
    means = {name.removeprefix("embedding."): score["mean"] for name, score in json.loads(ended.out)["scores"].items()}
    # Equal texts have the cosine 1.
    assert [means[name] for name in FIVE[:4]] == pytest.approx([1, 1, 1, 1], abs=1e-5)
    assert means["answer_hallucination"] == 0


def test_the_thresholds_of_the_command_are_settings(
    run: Run, embeddings: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"question": QUESTION, "reference_answer": REFERENCE, "answer": ANSWER, "contexts": CONTEXTS}]
    monkeypatch.setenv("RAGEVAL_SUFFICIENCY_THRESHOLD", "0.7")
    monkeypatch.setenv("RAGEVAL_HALLUCINATION_THRESHOLD", "0.6")
    monkeypatch.setenv("RAGEVAL_METRIC_EMBEDDING_MODEL", "openai:known")
    scores = json.loads(run("score", write(rows, "f.json"), "--metrics", "embedding.*", "--json").out)["scores"]
    assert scores["embedding.context_sufficiency"]["mean"] == pytest.approx(1 / 3)  # .8 alone
    assert scores["embedding.answer_hallucination"]["mean"] == pytest.approx(2 / 3)  # 0 and .576


def test_good_values_say_how_to_read_a_mean(run: Run) -> None:
    rows = {row["metric"].removeprefix("embedding."): row for row in json.loads(run("metrics", "list", "--json").out)}
    assert {name: (rows[name]["good_value"], rows[name]["better"]) for name in FIVE} == {
        "context_relevance": (0.5, "higher"),
        "context_sufficiency": (0.5, "higher"),
        "answer_relevance": (0.6, "higher"),
        "answer_correctness": (0.6, "higher"),
        "answer_hallucination": (0.3, "lower"),
    }


def test_a_metric_of_one_s_own_runs_beside_them(run: Run) -> None:
    write(
        "from rageval_dagster.metrics.own import metric\n\n\n"
        '@metric("house.short", version="1", description="At most five words.", needs={"answer"})\n'
        "def short(results, tools):\n    return [len(result.answer.text.split()) <= 5 for result in results]\n",
        "house_metrics.py",
    )
    write('[clients.acme]\nmetrics = ["lexical.*", "house_metrics:short"]\n', "rageval.toml")
    rows = [{"question": "Which way?", "answer": text} for text in ("East.", "It is in the far east.")]
    ended = run("score", write(rows, "f.json"), "--client", "acme", "--json")
    assert json.loads(ended.out)["question_scores"]["house.short"] == {"q0": 1.0, "q1": 0.0}


CHECKS = ["answered", "has_context", "has_citation", "no_fallback_phrase", "retrieval_score_above_minimum"]


@pytest.mark.parametrize(
    ("question", "answer", "contexts", "scores", "failed"),
    [
        ("What is the fee?", "The fee is $5. [1]", ["The fee is $5."], [0.9], []),
        ("What is the fee?", "", ["The fee is $5."], [0.9], ["answered", "has_citation"]),
        ("What is the fee?", "The fee is $5. [1]", [], [], ["has_context"]),
        ("What is the fee?", "The fee is $5.", ["The fee is $5."], [0.9], ["has_citation"]),
        ("What is the fee?", "Unable to generate an answer. [1]", ["A text."], [0.9], ["no_fallback_phrase"]),
        ("What is the fee?", "The fee is $5. [1]", ["The fee is $5."], [0.1], ["retrieval_score_above_minimum"]),
        ("List all fees.", "The fees are on page nine. [1]", ["A text."], [0.9], ["list_formatted"]),
        ("List all fees.", "- Entry: $5 [1]\n- Exit: $2 [1]", ["A text."], [0.9], []),
    ],
)
def test_assess_answer_names_what_is_wrong_with_an_answer(
    monkeypatch: pytest.MonkeyPatch,
    question: str,
    answer: str,
    contexts: list[str],
    scores: list[float],
    failed: list[str],
) -> None:
    monkeypatch.setenv("RAGEVAL_MINIMUM_RETRIEVAL_SCORE", "0.5")
    assessment = assess_answer(
        question=question, answer=answer, contexts=contexts, retrieval_scores=scores, run_id="run-7"
    )
    assert assessment["run_id"] == "run-7"
    assert [name for name in (*CHECKS, "list_formatted") if assessment[name] is False] == failed
    assert assessment["passed"] is (not failed)
    assert len(assessment["issues"]) == len(failed)
    assert improve_answer(question, answer, contexts, assessment) == answer, "no model is set up"


def test_improve_answer_asks_a_model_where_one_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer("The fee is $5 [1].") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("RAGEVAL_ANSWER_MODEL", "small")
        contexts = ["The fee is $5."]
        assessment = assess_answer("What is the fee?", "It is $5.", contexts, [0.9], "run-7")
        assert improve_answer("What is the fee?", "It is $5.", contexts, assessment) == "The fee is $5 [1]."


def test_the_values_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="rageval_dagster")
    assess_answer("What is the fee?", "The fee is $5.", ["The fee is $5."], [0.9], "run-7")
    assert "run-7" in caplog.text
    assert "has_citation=False" in caplog.text
