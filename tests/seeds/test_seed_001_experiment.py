"""Seed 001's example program, with our imports and a scripted endpoint: the best pattern and its three metrics."""

import json
from pathlib import Path

import pytest

from rageval_dagster.errors import RagevalError
from rageval_dagster.experiments import Experiment, MetricType, Parameter, SearchSpace
from tests.experiments.small import questions
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.small_project import documents


class Model:
    """What the program names its models by."""

    def __init__(self, model_id: str) -> None:
        self.model_id = model_id


class Document:
    def __init__(self, page_content: str, metadata: dict[str, str]) -> None:
        self.page_content, self.metadata = page_content, metadata


def benchmark() -> list[dict[str, object]]:
    return [
        {
            "question": row["question"],
            "correct_answers": row["answers"],
            "correct_answer_document_ids": [row["evidence"][0]["document_id"]],  # pyright: ignore[reportIndexIssue]
        }
        for row in questions()
    ]


def test_the_example_program_runs_and_prints_its_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGEVAL_HOME", str(tmp_path / "untouched"))
    knowledge = [Document(row["text"], {"document_id": row["id"]}) for row in documents("lighthouse")]
    Path("benchmark_data.json").write_text(json.dumps(benchmark()), encoding="utf-8")
    with ScriptedServer(scripted_model) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
        monkeypatch.setenv("RAG__VERIFICATION_ENABLED", "false")
        search_space = SearchSpace(
            params=[
                Parameter(name="foundation_model", param_type="C", values=[Model("scripted")]),
                Parameter(name="retriever", param_type="C", values=["bm25"]),
                Parameter(name="chunk_size", param_type="C", values=[200, 400]),
                Parameter(name="number_of_chunks", param_type="C", values=[1, 3]),
            ]
        )
        experiment = Experiment(
            documents=knowledge,
            benchmark_data="benchmark_data.json",
            search_space=search_space,
            objective_metric=MetricType.FAITHFULNESS,
            max_evals=3,
            n_random_nodes=2,
            output_path="./results",
        )
        best_pattern = experiment.search()
    print(f"Best pattern achieved faithfulness: {best_pattern.scores['scores']['faithfulness']['mean']:.2f}")
    print(f"Answer correctness: {best_pattern.scores['scores']['answer_correctness']['mean']:.2f}")
    print(f"Context correctness: {best_pattern.scores['scores']['context_correctness']['mean']:.2f}")
    lines = capsys.readouterr().out.splitlines()
    assert [line.rsplit(" ", 1)[0] for line in lines] == [
        "Best pattern achieved faithfulness:",
        "Answer correctness:",
        "Context correctness:",
    ]
    assert all(0.0 < float(line.rsplit(" ", 1)[1]) <= 1.0 for line in lines)
    assert best_pattern.configuration["foundation_model"] == "scripted"
    saved = json.loads(next(Path("results").glob("configuration-*.json")).read_text(encoding="utf-8"))
    assert set(saved["scores"]["faithfulness"]) == {"mean", "ci_low", "ci_high"}
    assert not (tmp_path / "untouched").exists()


@pytest.mark.parametrize(
    ("parameter", "error"),
    [
        ({"name": "chunk_size", "param_type": "R", "values": [1]}, "only 'C'"),
        ({"name": "chunk_size", "values": []}, "no values"),
    ],
)
def test_parameters_that_cannot_be_used_are_named(parameter: dict, error: str) -> None:
    with pytest.raises(RagevalError, match=error):
        Parameter(**parameter)
