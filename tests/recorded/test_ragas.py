"""`evaluate` as users of ragas call it, over a scripted judge."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from rageval_dagster.errors import RagevalError, SettingsError
from rageval_dagster.ragas import DEFAULT_METRICS, evaluate
from tests.docs.pages import ROOT, blocks, table
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import Fault, Received, ScriptedServer

GOOD = {
    "user_input": "When was the harbour founded?",
    "response": "The harbour was founded in 1712.",
    "retrieved_contexts": ["The harbour was founded in 1712 by sailors."],
    "reference": "The harbour was founded in 1712.",
}
BAD = {**GOOD, "response": "Pirates destroyed everything in 1712."}


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    with ScriptedServer(scripted_model) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


def test_rows_get_the_scores_that_were_asked_for_by_ragas_names(judge: ScriptedServer) -> None:
    result = evaluate([GOOD, BAD], metrics=["faithfulness", SimpleNamespace(name="context_recall")], llm="scripted")
    assert result.scores == [
        {"faithfulness": 1.0, "context_recall": 1.0},
        {"faithfulness": 0.0, "context_recall": 1.0},
    ]
    assert result["faithfulness"] == [1.0, 0.0]
    assert repr(result) == "{'faithfulness': 0.5, 'context_recall': 1.0}"
    frame = result.to_pandas()
    assert set(frame.columns) == {*GOOD, "faithfulness", "context_recall"}
    assert frame["response"].tolist() == [GOOD["response"], BAD["response"]]
    assert {request.body["model"] for request in judge.requests} == {"scripted"}


def test_the_example_of_the_docs_works(judge: ScriptedServer) -> None:
    names: dict[str, Any] = {}
    exec(blocks("docs/in-your-tests-and-ci.md", "python")[1], names)
    assert None not in names["result"].scores[0].values()


def test_the_table_of_the_docs_names_every_metric() -> None:
    cells = [row[0] for row in table("docs/in-your-tests-and-ci.md", "## If you use ragas")]
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) >= {*DEFAULT_METRICS, "exact_match", "factual_correctness"}


def test_the_default_metrics_are_those_of_ragas(judge: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEVAL_JUDGE_MODEL", "scripted")
    [scores] = evaluate([GOOD]).scores
    assert tuple(scores) == DEFAULT_METRICS
    assert None not in scores.values()


OLD = {"question": GOOD["user_input"], "answer": "In 1712.", "contexts": ["In 1712."], "ground_truth": "in 1712."}


@pytest.mark.parametrize(
    "dataset",
    [
        [{"user_input": "When?", "response": "In 1712.", "reference": "in 1712."}],
        [SimpleNamespace(user_input="When?", response="In 1712.", reference="in 1712.", retrieved_contexts=None)],
        [OLD],
        pd.DataFrame([OLD, {**OLD, "contexts": None, "answer": float("nan")}])[:1],
    ],
    ids=["mappings", "objects", "old names", "data frame"],
)
def test_samples_come_in_the_shapes_that_users_of_ragas_have(dataset: Any) -> None:
    result = evaluate(dataset, metrics=["exact_match", "lexical.token_f1"])
    assert result.scores == [{"exact_match": 1.0, "lexical.token_f1": 1.0}]


def test_a_column_map_says_what_fields_are_called() -> None:
    rows = [{"Prompt": "When?", "Said": "1712", "Truth": "1713"}]
    names = {"user_input": "Prompt", "response": "Said", "reference": "Truth"}
    assert evaluate(rows, ["exact_match"], column_map=names)["exact_match"] == [0.0]


def test_what_has_no_score_says_why_and_is_nan_in_pandas(judge: ScriptedServer) -> None:
    result = evaluate([{**GOOD, "reference": None}], metrics=["exact_match"])
    assert result["exact_match"] == [None]
    assert result.reasons[0]["exact_match"].startswith("undefined: ")
    assert result.to_pandas()["exact_match"].isna().tolist() == [True]


def test_a_failing_judge_is_no_score_and_is_raised_where_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Received) -> Fault:
        return Fault("empty")

    monkeypatch.setenv("RAGEVAL_LLM_MAX_ATTEMPTS", "1")
    with ScriptedServer(scripted_model, fault_for=refuse) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert evaluate([GOOD], ["faithfulness"], llm="scripted")["faithfulness"] == [None]
        with pytest.raises(RagevalError, match=r"^sample 0: faithfulness: "):
            evaluate([GOOD], ["faithfulness"], llm="scripted", raise_exceptions=True)


def test_what_it_does_not_have_is_refused_in_a_sentence() -> None:
    with pytest.raises(SettingsError, match="'rouge_score' is none of faithfulness, "):
        evaluate([GOOD], metrics=["rouge_score"])
    with pytest.raises(SettingsError, match="needs a judge model, and RAGEVAL_JUDGE_MODEL is not set"):
        evaluate([GOOD], metrics=["faithfulness"])
    with pytest.raises(TypeError, match="llm takes a model's name, not object"):
        evaluate([GOOD], llm=object())  # pyright: ignore[reportArgumentType]
    with pytest.raises(RagevalError, match="a sample has none of the fields user_input"):
        evaluate([{"text": "x"}], ["exact_match"])


@pytest.mark.slow
def test_no_adversarial_case_gets_a_wrong_score() -> None:
    ended = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "adversarial.py"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"^wrong +(\d+) +0$", ended.stdout, flags=re.MULTILINE)
