"""Seed 001: three metrics of recorded answers without a model, their means with confidence intervals and question by
question, a benchmark of questions with correct answers and documents, and several systems ranked by one metric.

The seed searches over chunk sizes, models and numbers of chunks for the best one. That search is not here yet: what is
tested is what it stands on.
"""

import json
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from rageval_dagster import score
from rageval_dagster.telling.advice import advised
from tests.cli.running import Run
from tests.seeds.conftest import History
from tests.storage.history_builder import summary

THREE = ("faithfulness", "answer_correctness", "context_correctness")


@dataclass
class EvaluationData:
    """The fields of the seed's class, which users of ai4rag have."""

    question: str
    answer: str
    contexts: list[str]
    context_ids: list[str] = field(default_factory=list)
    ground_truths: list[str] = field(default_factory=list)
    ground_truths_context_ids: list[str] = field(default_factory=list)
    question_id: str | None = None


def values(*rows: EvaluationData) -> dict[str, dict[str, float | None]]:
    found = score(rows, THREE)["question_scores"]
    return {name: found[f"overlap.{name}"] for name in THREE}


FRANCE = ["France is a country in Western Europe."]


def test_faithfulness_is_low_for_what_the_context_does_not_say() -> None:
    """Words count without articles: of "capital of france is paris" the context has "france" and "is"."""
    low = EvaluationData("What is the capital of France?", "The capital of France is Paris.", FRANCE, ["france.md"])
    high = EvaluationData("Where is France located?", "France is located in Western Europe.", FRANCE, ["france.md"])
    assert values(low, high)["faithfulness"] == {"q0": pytest.approx(2 / 5), "q1": pytest.approx(5 / 6)}


def test_answer_correctness_takes_the_best_of_several_correct_answers() -> None:
    answers = ["ChromaDB and Milvus via Llama Stack", "Milvus and ChromaDB"]
    full = EvaluationData("Which ones?", "ai4rag supports ChromaDB and Milvus.", [], [], answers)
    half = EvaluationData("Which ones?", "ChromaDB via Llama Stack", [], [], answers)
    # The second one has 4 of the first reference's 6 words, and 1 of the second's 3.
    assert values(full, half)["answer_correctness"] == {"q0": 1.0, "q1": pytest.approx(4 / 6)}


def test_context_correctness_is_the_share_of_the_correct_documents() -> None:
    row = EvaluationData(
        question="How do I configure hybrid search?",
        answer="As the guide says.",
        contexts=["One text.", "Another."],
        context_ids=["hybrid_search_guide.md", "installation.md"],
        ground_truths_context_ids=["hybrid_search_guide.md", "vector_stores.md"],
    )
    assert values(row)["context_correctness"] == {"q0": 1 / 2}


def test_unitxt_s_own_numbers_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    row = EvaluationData(
        "Where?", "Paris Seine London", ["Paris is big", "The Seine"], ["x.md", "a.md"], ["Paris"], ["a.md", "b.md"]
    )
    assert values(row)["faithfulness"] == {"q0": pytest.approx(2 / 3)}  # the contexts together
    monkeypatch.setenv("RAGEVAL_OVERLAP_COMPAT", "true")
    found = values(row)
    assert found["faithfulness"] == {"q0": pytest.approx(1 / 3)}  # the best single context
    assert found["context_correctness"] == {"q0": 1 / 2}  # the reciprocal rank of the first correct document


def recorded(*answers: str, question_ids: bool = True) -> list[dict[str, Any]]:
    """Evaluation data as a file has it: answers that are to be "one two three four"."""
    rows = [
        {"question": f"Question {number}?", "answer": answer, "contexts": ["one"], "context_ids": ["readme.md"]}
        | {"ground_truths": ["one two three four"], "ground_truths_context_ids": ["readme.md"]}
        for number, answer in enumerate(answers)
    ]
    return [row | {"question_id": f"id{n}"} for n, row in enumerate(rows)] if question_ids else rows


def test_results_are_means_with_intervals_and_values_by_question(run: Run) -> None:
    rows = recorded("one", "one two", "one two three", "one two three four")
    Path("data.json").write_text(json.dumps(rows), encoding="utf-8")
    ended = run("score", "data.json", "--format", "ai4rag", "--metrics", "overlap.*", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["question_scores"]["overlap.answer_correctness"] == {"id0": 0.25, "id1": 0.5, "id2": 0.75, "id3": 1.0}
    mean = found["scores"]["overlap.answer_correctness"]
    assert mean["mean"] == (0.25 + 0.5 + 0.75 + 1) / 4
    assert 0 <= mean["ci_low"] < mean["mean"] < mean["ci_high"] <= 1
    assert {f"overlap.{name}" for name in THREE} <= set(found["scores"])


def test_an_interval_is_wider_the_more_the_questions_differ_and_the_fewer_they_are() -> None:
    def width(*answers: str) -> float:
        mean = score(recorded(*answers), ["answer_correctness"])["scores"]["overlap.answer_correctness"]
        return mean["ci_high"] - mean["ci_low"]

    alike, different = ["one two"] * 8, ["one two three four", "none"] * 4  # both with a mean of .5
    assert width(*alike) < width(*different)
    assert width(*different * 5) < width(*different)


BENCHMARK = [
    {
        "question": "What does a ticket for Avonlea cost?",
        "correct_answers": ["12 crowns", "Twelve crowns"],
        "correct_answer_document_ids": ["lighthouse-avonlea"],
    },
    {
        "question": "How do I visit both Caldera and Dunmore?",
        "correct_answers": ["From eight in the morning."],
        "correct_answer_document_ids": ["lighthouse-caldera", "dunmore-lighthouse.md"],
    },
]


def test_a_benchmark_is_imported_and_documents_that_there_are_not_are_named(run: Run, history: History) -> None:
    Path("benchmark_data.json").write_text(json.dumps(BENCHMARK), encoding="utf-8")
    command = ("datasets", "import", "benchmark_data.json", "--client", "acme", "--format", "ai4rag", "--json")
    found = json.loads(run(*command, "--name", "ai4rag").out)
    assert (found["imported"], found["refused"]) == (2, [])
    assert [row["document_id"] for row in found["unresolved"]] == ["dunmore-lighthouse.md"]
    first, second = json.loads(run("datasets", "show", str(found["dataset_id"]), "--json").out)["items"]
    assert first["answers"] == BENCHMARK[0]["correct_answers"]
    documents = [evidence["document_id"] for evidence in second["evidence"]]
    assert documents == BENCHMARK[1]["correct_answer_document_ids"]


def test_a_benchmark_row_of_a_wrong_shape_is_refused_by_its_field(run: Run, history: History) -> None:
    rows = [BENCHMARK[0], {**BENCHMARK[1], "correct_answers": "one text"}]
    Path("wrong.json").write_text(json.dumps(rows), encoding="utf-8")
    ended = run(
        *("datasets", "import", "wrong.json", "--client", "acme", "--format", "ai4rag", "--name", "wrong", "--json")
    )
    assert ended.code == 4
    assert [(row["row"], row["field"]) for row in json.loads(ended.out)["refused"]] == [(2, "correct_answers")]


def test_an_evaluation_is_written_with_all_three_metrics_and_its_contexts(run: Run, history: History) -> None:
    assert run("runs", "export", "2", "--format", "results", "--out", "results.json", "--force").code == 0
    results = json.loads(Path("results.json").read_text(encoding="utf-8"))
    for name in THREE:
        scored = [value for value in results["question_scores"][name].values() if value is not None]
        assert results["scores"][name]["mean"] == pytest.approx(fmean(scored))
        assert f"overlap.{name}" not in results["scores"]
    assert "retrieval.mrr" in results["scores"]
    assert run("runs", "export", "2", "--format", "ai4rag", "--out", "data.json", "--force").code == 0
    rows = json.loads(Path("data.json").read_text(encoding="utf-8"))
    fields = {"question", "answer", "contexts", "context_ids", "ground_truths", "ground_truths_context_ids"}
    assert all(set(row) >= fields for row in rows)
    assert all(len(row["contexts"]) == len(row["context_ids"]) > 0 for row in rows)


def test_systems_are_ranked_by_the_gate_s_metric_by_faithfulness_or_by_another(run: Run, history: History) -> None:
    def page(*objective: str) -> str:
        assert run("report", "--client", "acme", *objective).code == 0
        [path] = (history.project.folder / "home" / "reports").glob("acme-*.html")
        return path.read_text(encoding="utf-8")

    assert "Ranked by hit rate@" in page()
    assert "leads by faithfulness (overlap)" in page("--objective", "faithfulness")
    for name in ("context_correctness", "overlap.context_correctness"):
        assert "bm25 leads by context correctness (overlap) (1.00)" in page("--objective", name)
    with sqlite3.connect(history.project.folder / "home" / "rageval.sqlite3") as database:
        places = database.execute(
            "SELECT system_name, place FROM leaderboard WHERE metric_id = 'overlap.context_correctness' "
            "AND dataset_id = 1 ORDER BY place"
        ).fetchall()
    assert places == [("bm25", 1), ("dense", 2)]


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (["overlap.answer_correctness"], ["claims.faithfulness"]),
        (["judge.correctness", "judge.faithfulness"], ["overlap.context_correctness"]),
        (["retrieval.mrr", "claims.faithfulness", "citation.coverage"], []),  # all that have a good value
    ],
)
def test_what_low_scores_beside_high_ones_mean_is_said(low: list[str], high: list[str]) -> None:
    means = [*(summary(name, 0.2) for name in low), *(summary(name, 0.95) for name in high)]
    good = {"retrieval.mrr": 0.8, "claims.faithfulness": 0.9, "citation.coverage": 0.7}
    found = advised({each.metric_id: each for each in means}, 5, good)[0]
    assert (sorted(found.low), list(found.high)) == (sorted(low), high)
    assert found.advice.source == "001"
