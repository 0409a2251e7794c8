"""The sample of test cases that ships with the project, on the documents that it is about: the demo's."""

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest

from rageval_dagster.records import Chunk
from tests.cli.running import Run, stock
from tests.pipeline.small_project import Project

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data" / "evaluation" / "sample_test_cases.json"
CASES = json.loads(SAMPLE.read_text(encoding="utf-8"))["test_cases"]


def test_it_has_every_category_and_the_fields_of_the_seed() -> None:
    assert {case["category"] for case in CASES} == {"factual_lookup", "multi_hop", "entity_specific", "temporal"}
    assert all(set(case) == {"query", "expected_answer", "expected_sources", "category"} for case in CASES)


def test_it_is_imported_and_evaluated_on_the_demo_s_documents(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sys.path.insert(0, str(ROOT / "demo"))
    rows = import_module("documents").python_language()
    chunks = [
        Chunk(f"{row['id']}::{start}", row["text"][start : start + 800], row["id"])
        for row in rows
        for start in range(0, len(row["text"]), 800)
    ]
    stock(project.settings, "python", *chunks)
    Path("rageval.toml").write_text('[defaults]\nmetrics = "retrieval.*"\n', encoding="utf-8")
    monkeypatch.setenv("EVALUATION_AUTO_GENERATE_DATASETS", "false")
    ended = run("datasets", "import", SAMPLE, "--client", "python", "--format", "test-cases", "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["imported"], found["refused"], found["unresolved"]) == (0, len(CASES), [], [])
    ended = run("evaluate", "--client", "python", "--system", "bm25", "--json")
    assert ended.code == 0, ended.err
    [evaluation] = map(json.loads, ended.out.splitlines())
    metrics = json.loads(run("runs", "show", evaluation["run_id"], "--json").out)["metrics"]
    assert metrics["retrieval.document_hit_rate_at_5"]["mean"] >= 0.75
