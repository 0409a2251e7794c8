"""Seed 002: a language model judges each answer on five weighted dimensions, by a command over files of test results
and by a Python class, and writes each verdict with its reasons, an overall score and a summary."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rageval_dagster import LLMClient, LLMEvaluator
from tests.cli.running import Run
from tests.llm.scripted_server import Fault, ScriptedServer

SCORES = {"faithfulness": 0.95, "answer_relevance": 1.0, "citation_quality": 0.9, "completeness": 0.85}
ALL_SCORES = {**SCORES, "correctness": 1.0}
LISTS = {
    "faithfulness": "unsupported_claims",
    "answer_relevance": "missing_aspects",
    "citation_quality": "issues",
    "completeness": "missing_info",
    "correctness": "differences",
}
WEIGHTS = {"faithfulness": 0.35, "answer_relevance": 0.25, "citation_quality": 0.2, "completeness": 0.2}
WITHOUT_TRUTH = 0.35 * 0.95 + 0.25 * 1.0 + 0.2 * 0.9 + 0.2 * 0.85  # .9325; the weights add up to 1
WITH_TRUTH = (WITHOUT_TRUTH + 0.3 * 1.0) / 1.3  # .948...

QUERY = "When did New York begin to look at eligibility again?"
ANSWER = "It began in April 2023. [notice.pdf:3]"
CHUNK = {"chunk_id": "notice.pdf::0033", "text": "NYS began in April 2023.", "doc_id": "notice.pdf", "page": 3}


def dimension(body: dict[str, Any]) -> str:
    return body["response_format"]["json_schema"]["name"]


def verdict(body: dict[str, Any]) -> str:
    name = dimension(body)
    return json.dumps({"reasoning": f"why {name}", LISTS[name]: ["one"], "score": ALL_SCORES[name]})


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A judge that gives the scores above, and the files of three tests."""
    tests, truth, queries = {}, {}, {}
    for number in (1, 2, 3):
        query_id = f"Test_query_{number}"
        chunks = [{**CHUNK, "score": 0.816}]
        tests[f"test_id_{number}"] = {"query_id": query_id, "top_k_chunks": chunks, "answers": f"{number}: {ANSWER}"}
        truth[query_id] = {"query_id": query_id, "answer": "In April 2023.", "document": {"notice.pdf": [3]}}
        queries[query_id] = QUERY
    for name, value in (("results.json", tests), ("truth.json", truth), ("queries.json", queries)):
        Path(name).write_text(json.dumps(value), encoding="utf-8")
    with ScriptedServer(verdict) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("RAGEVAL_JUDGE_MODEL", "gpt-5")
        yield server


def judged(run: Run, *more: str, code: int = 0) -> dict[str, Any]:
    ended = run("judge", "--test_results", "results.json", "--output", "out.json", "--queries", "queries.json", *more)
    assert ended.code == code, ended.err
    return json.loads(Path("out.json").read_text(encoding="utf-8"))


def test_the_command_without_ground_truth_judges_four_dimensions(run: Run, judge: ScriptedServer) -> None:
    found = judged(run)
    assert found["metadata"] == {"test_results_file": "results.json", "evaluator_model": "gpt-5", "total_tests": 3}
    assert list(found["results"]) == ["test_id_1", "test_id_2", "test_id_3"]
    result = found["results"]["test_id_1"]
    assert (result["query"], result["answer"]) == (QUERY, f"1: {ANSWER}")
    assert result["evaluations"] == {
        name: {"score": score, "reasoning": f"why {name}", LISTS[name]: ["one"]} for name, score in SCORES.items()
    }
    assert result["weights_used"] == WEIGHTS
    assert result["overall_score"] == pytest.approx(WITHOUT_TRUTH)
    assert len(judge.requests) == 3 * 4


def test_the_command_with_ground_truth_judges_correctness_too(run: Run, judge: ScriptedServer) -> None:
    found = judged(run, "--ground_truth", "truth.json", "--limit", "1")
    [result] = found["results"].values()
    assert result["evaluations"]["correctness"] == {
        "score": 1.0,
        "reasoning": "why correctness",
        "differences": ["one"],
    }
    assert result["weights_used"] == {**WEIGHTS, "correctness": 0.3}
    assert result["overall_score"] == pytest.approx(WITH_TRUTH)
    assert found["metadata"]["total_tests"] == 1
    assert len(judge.requests) == 5


def test_the_summary_has_mean_min_max_and_count(run: Run, judge: ScriptedServer) -> None:
    def by_number(body: dict[str, Any]) -> str:
        """Faithfulness of the three answers: .9, .6 and .75."""
        said = body["messages"][-1]["content"]
        number = next(number for number in (1, 2, 3) if f"{number}: {ANSWER}" in said)
        score = {1: 0.9, 2: 0.6, 3: 0.75}[number] if dimension(body) == "faithfulness" else 1.0
        return json.dumps({"reasoning": "", LISTS[dimension(body)]: [], "score": score})

    with ScriptedServer(by_number) as server, pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        summary = judged(run)["summary"]
    assert list(summary) == [*SCORES, "overall"]
    three = {name: [row[name] for name in ("mean", "min", "max", "count")] for name, row in summary.items()}
    assert three["faithfulness"] == pytest.approx([(0.9 + 0.6 + 0.75) / 3, 0.6, 0.9, 3])
    assert three["completeness"] == [1.0, 1.0, 1.0, 3]
    # overall: 1 - .35 * (1 - faithfulness)
    assert three["overall"] == pytest.approx([1 - 0.35 * 0.25, 1 - 0.35 * 0.4, 1 - 0.35 * 0.1, 3])


def test_another_model_and_no_judge_by_itself(run: Run, judge: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(run, "--limit", "1", "--model", "gpt-4")["metadata"]["evaluator_model"] == "gpt-4"
    assert {request.body["model"] for request in judge.requests} == {"gpt-4"}
    monkeypatch.delenv("RAGEVAL_JUDGE_MODEL")
    assert run("judge", "results.json", "--output", "other.json").code == 2


def test_what_the_judge_is_shown(run: Run, judge: ScriptedServer) -> None:
    judged(run, "--limit", "1", "--ground_truth", "truth.json")
    shown = {dimension(request.body): request.text for request in judge.requests}
    for name in ("faithfulness", "citation_quality", "completeness"):
        assert CHUNK["text"] in shown[name]
    for bound in ("0.8", "0.9", "0.5", "0.7", "0.4"):  # the bands of most, some, and little
        assert all(bound in text for text in shown.values())
    assert QUERY in shown["answer_relevance"]
    assert "notice.pdf" in shown["citation_quality"]
    assert "In April 2023." in shown["correctness"]


def test_a_reply_that_is_no_json_is_no_score(run: Run, judge: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed makes it 0, which says of the answer what is true of the judge; here it is null, with its reason."""
    monkeypatch.setenv("RAGEVAL_LLM_MAX_ATTEMPTS", "1")
    with ScriptedServer(lambda body: "no JSON" if dimension(body) == "completeness" else verdict(body)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        found = judged(run, "--limit", "1", code=4)
    [result] = found["results"].values()
    assert (result["evaluations"]["completeness"]["score"], result["overall_score"]) == (None, None)
    assert result["evaluations"]["completeness"]["error"]
    assert found["summary"]["completeness"]["errors"] == 1
    assert result["evaluations"]["faithfulness"]["score"] == 0.95


def test_the_judge_its_endpoint_its_key_and_the_weights_stand_in_a_file(
    run: Run, judge: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAGEVAL_JUDGE_MODEL")
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv("PROVIDER_KEY", "your-api-key")
    Path("rageval.toml").write_text(
        f'[defaults]\njudge_model = "gpt-5"\njudge_base_url = "{judge.base_url}"\n'
        'judge_api_key_env = "PROVIDER_KEY"\n'
        "judge_weights = {faithfulness = 0.40, citation_quality = 0.15}\n",
        encoding="utf-8",
    )
    [result] = judged(run, "--limit", "1")["results"].values()
    expected = 0.4 * 0.95 + 0.25 * 1.0 + 0.15 * 0.9 + 0.2 * 0.85
    assert result["overall_score"] == pytest.approx(expected)
    assert {request.headers["authorization"] for request in judge.requests} == {"Bearer your-api-key"}


def test_requests_run_side_by_side(run: Run, judge: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEVAL_LLM_CONCURRENCY", "4")
    with ScriptedServer(verdict, gate_size=2) as server:  # each reply but the first waits for another request
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        judged(run, "--ground_truth", "truth.json")
        assert 2 <= server.most_at_once <= 4


def test_a_chunk_of_another_page_than_the_truth_names_is_not_found(run: Run, judge: ScriptedServer) -> None:
    tests = json.loads(Path("results.json").read_text(encoding="utf-8"))
    tests["test_id_2"]["top_k_chunks"][0]["page"] = 4
    Path("results.json").write_text(json.dumps(tests), encoding="utf-8")
    metrics = "retrieval.hit_rate_at_5,retrieval.document_hit_rate_at_5"
    ended = run("score", "results.json", "--ground-truth", "truth.json", "--metrics", metrics, "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)["question_scores"]
    assert found["retrieval.hit_rate_at_5"] == {"test_id_1": 1.0, "test_id_2": 0.0, "test_id_3": 1.0}
    assert set(found["retrieval.document_hit_rate_at_5"].values()) == {1.0}


def evaluator(server: ScriptedServer, **options: Any) -> LLMEvaluator:
    client = LLMClient(api_key="your-api-key", base_url=server.base_url, model="gpt-5", provider="openai")
    return LLMEvaluator(client, **options)


def test_the_class_has_a_method_a_dimension(judge: ScriptedServer) -> None:
    chunks = [{name: CHUNK[name] for name in ("text", "doc_id", "page")}]
    of = evaluator(judge)
    found = {
        "faithfulness": of.evaluate_faithfulness(QUERY, ANSWER, chunks),
        "answer_relevance": of.evaluate_answer_relevance(QUERY, ANSWER),
        "citation_quality": of.evaluate_citation_quality(QUERY, ANSWER, chunks),
        "completeness": of.evaluate_completeness(QUERY, ANSWER, chunks),
        "correctness": of.evaluate_correctness(QUERY, ANSWER, "In April 2023."),
    }
    assert found == {
        name: {"score": score, "reasoning": f"why {name}", LISTS[name]: ["one"]} for name, score in ALL_SCORES.items()
    }


def test_the_class_judges_all_of_them_at_once(judge: ScriptedServer) -> None:
    of = evaluator(judge)
    full = of.evaluate_comprehensive(query=QUERY, answer=ANSWER, chunks=[CHUNK], ground_truth="In April 2023.")
    assert list(full) == ["query", "answer", "evaluations", "overall_score", "weights_used"]
    assert full["overall_score"] == pytest.approx(WITH_TRUTH)
    assert full["weights_used"] == {**WEIGHTS, "correctness": 0.3}
    without = of.evaluate_comprehensive(query=QUERY, answer=ANSWER, chunks=[CHUNK])
    assert list(without["evaluations"]) == list(SCORES)
    assert without["overall_score"] == pytest.approx(WITHOUT_TRUTH)
    changed = evaluator(judge, weights={"faithfulness": 0.40, "citation_quality": 0.15})
    found = changed.evaluate_comprehensive(query=QUERY, answer=ANSWER, chunks=[CHUNK])
    assert found["overall_score"] == pytest.approx(0.4 * 0.95 + 0.25 * 1.0 + 0.15 * 0.9 + 0.2 * 0.85)


def test_the_class_survives_a_reply_that_is_no_json() -> None:
    with ScriptedServer(verdict, [Fault("empty")] * 10) as server:
        found = evaluator(server).evaluate_answer_relevance(QUERY, ANSWER)
    assert found["score"] is None
    assert found["error"]
