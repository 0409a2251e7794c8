"""Seed 002's Python interface: its snippet as written, and what comes where something fails."""

import json
from pathlib import Path
from typing import Any

import pytest

from rageval_dagster import LLMClient, LLMEvaluator
from rageval_dagster.errors import DatasetError, LanguageModelError, SettingsError
from tests.llm.scripted_server import ScriptedServer

SCORES = {
    "faithfulness": 0.95,
    "answer_relevance": 1.0,
    "citation_quality": 0.9,
    "completeness": 0.85,
    "correctness": 1.0,
}

QUERY = "When did NYS begin redetermining Medicaid eligibility?"
ANSWER = "New York State began redetermining Medicaid eligibility in April 2023. [mu_no02_feb25_pr.pdf:3]"
CHUNKS = [
    {
        "text": "The Consolidated Appropriations Act of 2023 required states to begin the process of redetermining "
        "Medicaid eligibility for its members, which New York State (NYS) began in April 2023.",
        "doc_id": "mu_no02_feb25_pr.pdf",
        "page": 3,
    }
]


def verdict(body: dict[str, Any]) -> str:
    name = body["response_format"]["json_schema"]["name"]
    return json.dumps({"reasoning": f"why {name}", "score": SCORES[name], "issues": ["Minor inconsistency"]})


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with no settings, and a key in the environment that is meant for nobody here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")


def evaluator_of(server: ScriptedServer, **options: Any) -> LLMEvaluator:
    client = LLMClient(api_key="your-api-key", base_url=server.base_url, model="gpt-5", provider="openai")
    return LLMEvaluator(client, **options)


def test_the_seeds_snippet(tmp_path: Path) -> None:
    with ScriptedServer(verdict) as server:
        llm_client = LLMClient(api_key="your-api-key", base_url=server.base_url, model="gpt-5", provider="openai")
        evaluator = LLMEvaluator(llm_client)
        result = evaluator.evaluate_faithfulness(QUERY, ANSWER, CHUNKS)
        assert result == {"score": 0.95, "reasoning": "why faithfulness", "unsupported_claims": []}
        comprehensive = evaluator.evaluate_comprehensive(
            query=QUERY, answer=ANSWER, chunks=CHUNKS, ground_truth="NYS began in April 2023"
        )
        assert len(server.requests) == 5, "what was judged already is not asked again"
        assert comprehensive["overall_score"] == pytest.approx(0.948, abs=5e-4)
        assert comprehensive["evaluations"]["citation_quality"]["issues"] == ["Minor inconsistency"]
        assert {request.headers["authorization"] for request in server.requests} == {"Bearer your-api-key"}
        assert {request.body["model"] for request in server.requests} == {"gpt-5"}
    assert list(tmp_path.iterdir()) == [], "nothing is kept"


def test_a_chunk_may_be_a_text_and_what_does_not_apply_is_not_asked() -> None:
    with ScriptedServer(verdict) as server:
        evaluator = evaluator_of(server)
        assert evaluator.evaluate_completeness(QUERY, ANSWER, ["A text alone."])["score"] == 0.85
        assert evaluator.evaluate_correctness(QUERY, ANSWER, None)["undefined"] == "no reference answer"
        assert len(server.requests) == 1


def test_weights_that_cannot_be_are_refused() -> None:
    with ScriptedServer(verdict) as server:
        for weights in ({"faithfulness": -1.0}, dict.fromkeys(SCORES, 0.0)):
            with pytest.raises(SettingsError, match="weight"):
                evaluator_of(server, weights=weights)
        with pytest.raises(SettingsError, match=r"'fluency' \(known: faithfulness, answer_relevance, "):
            evaluator_of(server, weights={"fluency": 1.0})


def test_the_environment_s_key_goes_to_nobody_else() -> None:
    with ScriptedServer(verdict) as server:
        client = LLMClient(api_key=None, base_url=server.base_url, model="local", provider="ollama")
        LLMEvaluator(client).evaluate_answer_relevance(QUERY, ANSWER)
    assert "sk-of-the-environment" not in str([request.headers for request in server.requests])


@pytest.mark.parametrize(
    ("query", "answer", "chunks", "field"),
    [
        (QUERY, 7, CHUNKS, "answer"),
        (QUERY, ANSWER, "one text", "contexts: takes a list"),
        (QUERY, ANSWER, [{"doc_id": "d", "page": 0, "text": "x"}], "page"),
        (QUERY, ANSWER, [{"id": "x"}], "text"),
        (QUERY, "half of a pair: \ud800", CHUNKS, "answer"),
    ],
)
def test_what_cannot_be_judged_is_one_clear_error(query: Any, answer: Any, chunks: Any, field: str) -> None:
    with ScriptedServer(verdict) as server:
        with pytest.raises(DatasetError, match=field):
            evaluator_of(server).evaluate_faithfulness(query, answer, chunks)
        assert server.requests == []


def test_an_unknown_provider_and_forbidden_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="anthropic"):
        LLMClient(api_key="k", base_url="https://example.org", model="m", provider="anthropic")
    (tmp_path / "rageval.toml").write_text('[defaults]\nllm = "forbidden"\n', encoding="utf-8")
    with pytest.raises(LanguageModelError, match="forbidden"):
        LLMEvaluator(LLMClient(api_key="k", base_url="http://localhost:1/v1", model="m"))
