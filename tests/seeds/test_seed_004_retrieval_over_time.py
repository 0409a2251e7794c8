"""Seed 004: datasets of questions generated from a client's documents, retrieval measured on them every night and over
REST, and metrics of retrieval, grounding and citations with good values, kept in SQL."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import httpx
import pytest

from rageval_dagster.automation.schedules import evaluation_schedules
from rageval_dagster.definitions import defs
from rageval_dagster.storage.database import open_database
from rageval_dagster.telling.advice import advised
from tests.cli.running import Run
from tests.llm.scripted_server import ScriptedServer
from tests.loopback import free_port
from tests.pipeline.looks import nightly_requests
from tests.pipeline.small_project import documents
from tests.seeds.conftest import History
from tests.storage.history_builder import finish, make_dataset, make_items, open_run, summary

# --- metrics ----------------------------------------------------------------------------------------------------------


def test_retrieval_metrics_by_hand(run: Run) -> None:
    """Three questions; k is 5. Precision divides by k, though fewer came back."""
    asked = [  # what came back, and what is relevant
        (["a", "x", "b", "y", "z"], ["a", "b"]),  # 2 of 5, 2 of 2, first at rank 1
        (["x", "a"], ["a", "b"]),  # 1 of 5, 1 of 2, first at rank 2
        (["x", "y"], ["a"]),  # nothing
    ]
    rows = [
        {
            "question": f"Question {number}?",
            "answer": "One.",
            "evidence": [{"document_id": each} for each in relevant],
            "contexts": [{"text": each, "document_id": each} for each in retrieved],
        }
        for number, (retrieved, relevant) in enumerate(asked)
    ]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    ended = run("score", "rows.jsonl", "--k", "5", "--metrics", "retrieval.document_*", "--json")
    means = {name: score["mean"] for name, score in json.loads(ended.out)["scores"].items()}
    assert means["retrieval.document_precision_at_5"] == pytest.approx((2 / 5 + 1 / 5 + 0) / 3)
    assert means["retrieval.document_recall_at_5"] == pytest.approx((2 / 2 + 1 / 2 + 0) / 3)
    assert means["retrieval.document_mrr"] == pytest.approx((1 / 1 + 1 / 2 + 0) / 3)
    assert means["retrieval.document_hit_rate_at_5"] == pytest.approx(2 / 3)


def test_an_evaluation_s_metrics_are_those_of_the_passages_that_came_back(run: Run, history: History) -> None:
    """Worked out again from the rankings that it writes."""
    assert run("runs", "export", "1", "--out", "trec").code == 0
    relevant, retrieved = _columns("trec/run1.chunk.qrels", 2), _columns("trec/run1.chunk.run", 2)
    ranks = [
        [rank for rank, chunk in enumerate(retrieved.get(query, []), start=1) if chunk in chunks]
        for query, chunks in relevant.items()
    ]
    count = len(relevant)
    means = {name: row["mean"] for name, row in json.loads(run("runs", "show", "1", "--json").out)["metrics"].items()}
    first_five = [sum(rank <= 5 for rank in found) for found in ranks]
    assert means["retrieval.precision_at_5"] == pytest.approx(sum(found / 5 for found in first_five) / count)
    recalls = [found / len(chunks) for found, chunks in zip(first_five, relevant.values(), strict=True)]
    assert means["retrieval.recall_at_5"] == pytest.approx(sum(recalls) / count)
    assert means["retrieval.hit_rate_at_5"] == pytest.approx(sum(found > 0 for found in first_five) / count)
    assert means["retrieval.mrr"] == pytest.approx(sum(1 / found[0] for found in ranks if found) / count)


def _columns(path: str, column: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        found.setdefault(line.split()[0], []).append(line.split()[column])
    return found


def test_citation_accuracy_and_coverage_by_hand(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three citations, of which one is right: the second context is about something else, a ninth there is not."""
    vectors = {"A is red.": (1, 0), "Red A.": (4, 3), "B is blue.": (1, 0), "Cheese.": (0, 1), "D is grey.": (1, 0)}
    answer = "A is red [1]. B is blue [2]. C is green. D is grey [9]."
    rows = [{"question": "Which colours?", "answer": answer, "contexts": ["Red A.", "Cheese."]}]
    Path("rows.json").write_text(json.dumps(rows), encoding="utf-8")
    with ScriptedServer(vectors=vectors) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        ended = run("score", "rows.json", "--model", "openai:known", "--metrics", "citation.*", "--json")
    means = {name: score["mean"] for name, score in json.loads(ended.out)["scores"].items()}
    assert means["citation.accuracy"] == pytest.approx(1 / 3)
    assert means["citation.coverage"] == 3 / 4  # of four claims, the third has no citation


def test_a_model_judges_faithfulness_and_answer_relevance(run: Run, history: History) -> None:
    """The scripted answers are sentences of their contexts; the scripted judge says .75 of whatever it judges."""
    means = {name: row["mean"] for name, row in json.loads(run("runs", "show", "1", "--json").out)["metrics"].items()}
    assert means["claims.faithfulness"] == 1
    assert means["judge.answer_relevance"] == 0.75


def test_good_values(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def good() -> dict[str, float]:
        return {row["metric"]: row["good_value"] for row in json.loads(run("metrics", "list", "--json").out)}

    assert (
        good().items()
        >= {
            "retrieval.precision_at_5": 0.7,
            "retrieval.recall_at_5": 0.8,
            "retrieval.mrr": 0.8,
            "retrieval.hit_rate_at_5": 0.9,
            "claims.faithfulness": 0.9,
            "citation.accuracy": 0.95,
            "citation.coverage": 0.7,
            "judge.answer_relevance": 0.8,
        }.items()
    )
    monkeypatch.setenv("RAG__MIN_CITATION_COVERAGE", "0.6")
    assert good()["citation.coverage"] == 0.6


@pytest.mark.parametrize(
    ("low", "action"),
    [
        ("retrieval.precision_at_5", "BM25"),
        ("retrieval.recall_at_5", "raise k"),
        ("retrieval.mrr", "reranker"),
        ("claims.faithfulness", "require citations"),
        ("citation.accuracy", "keep their ids"),
        ("citation.coverage", "RAG__CITATION_REQUIRED"),
        ("judge.answer_relevance", "rewritten"),
    ],
)
def test_what_to_do_about_a_low_metric_is_said(low: str, action: str) -> None:
    [found] = advised({low: summary(low, 0.2)}, 5, {low: 0.8})
    assert found.low == [low]
    assert action in found.advice.action
    assert "004" in found.advice.source


# --- datasets ---------------------------------------------------------------------------------------------------------


def test_a_model_writes_each_pair_about_a_passage(run: Run, history: History) -> None:
    """The request holds the passage and asks for a specific answer and no yes-or-no question."""
    asked = [request for request in history.server.requests if "<passage-" in request.text]
    assert "yes or no" in asked[0].text
    assert "specific and factual" in asked[0].text
    texts = {document["id"]: document["text"] for document in documents("lighthouse")}
    items = [item for item in json.loads(run("datasets", "show", "1", "--json").out)["items"] if item["answerable"]]
    assert items
    for item in items:
        [evidence] = item["evidence"]
        assert evidence["quote"] in texts[evidence["document_id"]]
        assert item["answers"][0] in evidence["quote"]


def test_great_expectations_confirms_the_benchmark(run: Run, history: History) -> None:
    pairs, benchmark = history.validations[:2]
    assert pairs.success
    assert len(pairs.results) > 10
    assert all(result.success for result in pairs.results)
    broken = [result.expectation_config.meta["rule"] for result in benchmark.results if not result.success]
    shown = json.loads(run("datasets", "show", "1", "--json").out)
    assert list(shown["rules"]) == broken == ["categories_covered"]  # a warning: no question needs two passages
    assert shown["valid"]


def test_sample_test_cases_are_imported_with_their_categories(run: Run, history: History) -> None:
    cases = [
        ("What does a ticket for Avonlea cost?", "12 crowns", ["lighthouse-avonlea"], "factual_lookup"),
        ("Which is older, Avonlea or Caldera?", "Avonlea", ["lighthouse-avonlea", "lighthouse-caldera"], "multi_hop"),
        ("What did the engineer Aelnova found?", "A lighthouse", ["lighthouse-avonlea"], "entity_specific"),
        ("What happened in 1801?", "Avonlea was founded", ["lighthouse-avonlea"], "temporal"),
        ("Is Avonlea open?", "Yes", ["lighthouse-avonlea"], "opening hours"),
    ]
    fields = ("query", "expected_answer", "expected_sources", "category")
    rows = {"test_cases": [dict(zip(fields, case, strict=True)) for case in cases]}
    Path("cases.json").write_text(json.dumps(rows), encoding="utf-8")
    command = ("datasets", "import", "cases.json", "--client", "acme", "--format", "test-cases", "--json")
    found = json.loads(run(*command, "--name", "cases").out)
    assert (found["imported"], found["unresolved"]) == (5, [])
    shown = json.loads(run("datasets", "show", str(found["dataset_id"]), "--json").out)
    read = [
        (item["question"], item["answers"][0], [each["document_id"] for each in item["evidence"]], item["category"])
        for item in shown["items"]
    ]
    assert read == cases
    assert len(shown["offenders"]["question_not_yes_no"]) == 1


# --- over REST --------------------------------------------------------------------------------------------------------


@pytest.fixture
def api(history: History, tmp_path: Path) -> Iterator[httpx.Client]:
    """`rageval serve`, whose client is evaluated with bm25."""
    port = free_port()
    metrics = '["retrieval.*", "claims.faithfulness"]'
    (tmp_path / "bm25.toml").write_text(f'[defaults]\nsystem = "bm25"\nmetrics = {metrics}\n', encoding="utf-8")
    serving = {"RAGEVAL_SERVE_TOKEN": "a-token-of-tests", "RAGEVAL_CONFIG": str(tmp_path / "bm25.toml")}
    process = subprocess.Popen(
        [sys.executable, "-m", "rageval_dagster", "serve", "--port", str(port)], env=os.environ | serving
    )
    try:
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            try:
                httpx.get(f"http://127.0.0.1:{port}/openapi.json")
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        address = f"http://127.0.0.1:{port}/api/v1/evaluation"
        with httpx.Client(
            base_url=address, headers={"Authorization": "Bearer a-token-of-tests"}, timeout=240
        ) as client:
            yield client
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.core
def test_a_dataset_is_generated_and_evaluated_over_rest(api: httpx.Client, run: Run, history: History) -> None:
    for path in ("/datasets", "/runs"):
        assert api.get(path, headers={"Authorization": "Bearer another"}).status_code == 401

    body: dict[str, Any] = {"client_id": "acme", "name": "my-test-dataset", "sample_size": 3}
    answered = api.post("/generate", json={**body, "chunk_sample_strategy": "recent"})
    assert answered.status_code == 200, answered.text
    dataset = answered.json()
    assert list(dataset) == ["dataset_id", "name", "client_id", "qa_count", "created_at"]
    assert (dataset["name"], dataset["client_id"], dataset["qa_count"]) == ("my-test-dataset", "acme", 3)
    assert dataset in api.get("/datasets", params={"client_id": "acme"}).json()
    assert dataset in api.get("/datasets").json()

    run_of_it = api.post("/runs", json={"dataset_id": dataset["dataset_id"], "k": 4}).json()
    seeds = ["run_id", "dataset_id", "precision_at_k", "recall_at_k", "mrr", "faithfulness", "k", "created_at"]
    assert list(run_of_it)[: len(seeds)] == seeds
    assert (run_of_it["dataset_id"], run_of_it["k"]) == (dataset["dataset_id"], 4)
    # bm25 finds the one relevant passage of each question first.
    assert run_of_it["precision_at_k"] == 1 / 4
    assert (run_of_it["recall_at_k"], run_of_it["mrr"], run_of_it["faithfulness"]) == (1.0, 1.0, 1.0)

    assert api.get("/runs", params={"dataset_id": dataset["dataset_id"]}).json() == [run_of_it]
    assert [each["run_id"] for each in api.get("/runs").json()] == [run_of_it["run_id"], 2, 1]
    assert [each["run_id"] for each in api.get("/runs", params={"limit": 1}).json()] == [run_of_it["run_id"]]
    as_written = api.post("/generate", json={**body, "sample_size": 50}).json()  # with the strategy of the settings
    assert as_written["qa_count"] > 3
    assert api.post("/generate", json={**body, "chunk_sample_strategy": "best"}).status_code == 422
    assert api.post("/generate", json={**body, "client_id": "nobody"}).status_code == 404


# --- every night ------------------------------------------------------------------------------------------------------


def test_every_client_is_evaluated_at_two_in_the_morning(history: History) -> None:
    nightly = defs.resolve_schedule_def("rageval_nightly_evaluation")
    assert (nightly.cron_schedule, nightly.execution_timezone) == ("0 2 * * *", "UTC")
    assert nightly.default_status == dg.DefaultScheduleStatus.RUNNING
    with dg.DagsterInstance.get() as instance:
        assert [request.partition_key for request in nightly_requests(instance)] == ["acme"]


def test_the_schedule_can_be_moved_and_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALUATION_SCHEDULE_CRON", "30 4 * * 1")
    monkeypatch.setenv("EVALUATION_ENABLED", "false")
    [nightly] = evaluation_schedules()
    assert nightly.cron_schedule == "30 4 * * 1"
    assert nightly.default_status == dg.DefaultScheduleStatus.STOPPED


def test_a_dataset_of_less_than_a_week_is_kept(run: Run, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    def new_dataset() -> str:
        [row] = json.loads(run("evaluate", "--client", "acme", "--dry-run", "--json").out)
        return row["new dataset"]

    assert new_dataset() == "no"
    monkeypatch.setenv("EVALUATION_DATASET_MAX_AGE_DAYS", "0")
    assert "older than 0 days" in new_dataset()
    monkeypatch.setenv("EVALUATION_AUTO_GENERATE_DATASETS", "false")
    assert new_dataset() == "no"


@pytest.mark.parametrize(
    ("variable", "default", "other"),
    [
        ("EVALUATION_ENABLED", True, False),
        ("EVALUATION_SCHEDULE_CRON", "0 2 * * *", "0 3 * * *"),
        ("EVALUATION_DEFAULT_SAMPLE_SIZE", 50, 60),
        ("EVALUATION_DEFAULT_K", 5, 3),
        ("EVALUATION_AUTO_GENERATE_DATASETS", True, False),
        ("EVALUATION_DATASET_MAX_AGE_DAYS", 7, 14),
        ("RAG__VERIFICATION_ENABLED", True, False),
        ("RAG__CITATION_REQUIRED", True, False),
        ("RAG__MIN_CITATION_COVERAGE", 0.7, 0.6),
    ],
)
def test_each_setting_has_its_variable(
    run: Run, monkeypatch: pytest.MonkeyPatch, variable: str, default: object, other: object
) -> None:
    def shown() -> dict[str, Any]:
        return next(row for row in json.loads(run("config", "show", "--json").out) if row["variable"] == variable)

    assert shown()["value"] == default
    monkeypatch.setenv(variable, str(other).lower())
    assert (shown()["value"], shown()["from"]) == (other, "environment")


# --- kept and shown ---------------------------------------------------------------------------------------------------


def test_datasets_and_runs_are_rows_of_sql_tables_and_views(history: History) -> None:
    with sqlite3.connect(history.project.folder / "home" / "rageval.sqlite3") as database:
        database.row_factory = sqlite3.Row
        [dataset] = database.execute("SELECT * FROM evaluation_datasets WHERE id = 1").fetchall()
        assert (dataset["name"], dataset["client_id"], dataset["qa_count"]) == ("synthetic", "acme", 8)
        assert {"created_at", "created_by"} <= set(dataset.keys())
        [pairs] = database.execute("SELECT count(*) FROM dataset_items WHERE dataset_id = 1").fetchall()
        assert pairs[0] == 8
        of_time = database.execute("SELECT * FROM evaluation_history WHERE dataset_id = 1 ORDER BY run_id").fetchall()
        assert [row["system_name"] for row in of_time] == ["dense", "bm25"]
        columns = ("precision_at_k", "recall_at_k", "mrr", "faithfulness", "k", "created_at")
        assert all(row[name] is not None for row in of_time for name in columns)
        [trend] = database.execute(
            "SELECT * FROM metric_trend WHERE metric_id = 'retrieval.mrr' AND evaluation_id = 2"
        ).fetchall()
        assert trend["mean"] == 1
        [latest] = database.execute(
            "SELECT * FROM latest_per_client WHERE dataset_id = 1 AND system_name = 'bm25'"
        ).fetchall()
        assert (latest["client_id"], latest["mrr"]) == ("acme", 1)


def test_the_report_has_datasets_runs_and_what_to_do(run: Run, history: History) -> None:
    assert run("report", "--client", "acme").code == 0
    [page] = (history.project.folder / "home" / "reports").glob("acme-*.html")
    text = page.read_text(encoding="utf-8")
    for shown in ("synthetic", "dense", "bm25", "MRR", "Likely causes"):
        assert shown in text


def test_trends_are_drawn_and_clients_stand_side_by_side(run: Run, folder: Path) -> None:
    home = folder / ".rageval"
    home.mkdir()
    db = open_database(f"sqlite:///{home / 'rageval.sqlite3'}")
    for client, nights in {"acme": (0.8, 0.5), "beta": (0.2, 0.3)}.items():
        dataset = make_dataset(db, client, make_items(2))
        for number, mrr in enumerate(nights):
            finish(db, open_run(db, dataset, f"night {number}"), {"retrieval.mrr": mrr, "retrieval.recall_at_5": mrr})
    with db.begin() as connection:
        trend = connection.exec_driver_sql(
            "SELECT client_id, delta FROM metric_trend WHERE metric_id = 'retrieval.mrr' AND delta IS NOT NULL "
            "ORDER BY client_id"
        ).fetchall()
    assert [tuple(row) for row in trend] == [("acme", pytest.approx(0.5 - 0.8)), ("beta", pytest.approx(0.3 - 0.2))]
    db.dispose()
    assert run("report").code == 0
    pages = {page.name.partition("-")[0]: page.read_text(encoding="utf-8") for page in home.glob("reports/*.html")}
    assert all("<svg" in pages[client] for client in ("acme", "beta"))
    assert "acme" in pages["fleet.html"]
    assert "beta" in pages["fleet.html"]
