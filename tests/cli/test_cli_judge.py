"""`rageval judge`: seed 002's files in, seed 002's output out, and nothing paid for twice."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rageval_dagster.storage.database import open_database
from rageval_dagster.storage.forgetting import rows_of
from tests.cli.running import Ended, Run, refused
from tests.llm.scripted_server import Fault, ScriptedServer
from tests.pipeline.small_project import new_project

SCORES = {
    "faithfulness": 0.95,
    "answer_relevance": 1.0,
    "citation_quality": 0.9,
    "completeness": 0.85,
    "correctness": 1.0,
}
LISTS = {
    "faithfulness": "unsupported_claims",
    "answer_relevance": "missing_aspects",
    "citation_quality": "issues",
    "completeness": "missing_info",
    "correctness": "differences",
}

ANSWER = '- "The Consolidated Appropriations Act of 2023..." [mu_no02_feb25_pr.pdf:3]'
CHUNK = {
    "chunk_id": "mu_no02_feb25_pr.pdf::0033",
    "text": "New York State (NYS) began in April 2023.",
    "doc_id": "mu_no02_feb25_pr.pdf",
    "page": 3,
    "score": 0.816,
}
RESULTS, TRUTH, QUERIES = {}, {}, {}
for number in (1, 2, 3):
    name = f"Test_query_{number}"
    RESULTS[f"test_id_{number}"] = {"query_id": name, "top_k_chunks": [CHUNK], "answers": f"{ANSWER} {number}"}
    TRUTH[name] = {"query_id": name, "answer": "NYS began in April 2023.", "document": {CHUNK["doc_id"]: [3]}}
    QUERIES[name] = f"When did NYS begin, asked for the {number}. time?"


def dimension_of(body: dict[str, Any]) -> str:
    return body["response_format"]["json_schema"]["name"]


def verdict(body: dict[str, Any]) -> str:
    name = dimension_of(body)
    return json.dumps({"reasoning": f"why {name}", LISTS[name]: ["one"], "score": SCORES[name]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the seed's three files, and no project yet."""
    new_project(tmp_path, monkeypatch)
    monkeypatch.setenv("RAGEVAL_HOME", str(tmp_path / "judged"))
    for name, value in (("results.json", RESULTS), ("truth.json", TRUTH), ("queries.json", QUERIES)):
        (tmp_path / name).write_text(json.dumps(value), encoding="utf-8")
    return tmp_path


@pytest.fixture
def judging(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A judge that gives the scores of the seed's example."""
    with ScriptedServer(verdict) as server:
        asked(monkeypatch, server)
        yield server


def asked(monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    monkeypatch.setenv("RAGEVAL_JUDGE_MODEL", "gpt-5")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)


def written(path: str = "out.json") -> dict[str, Any]:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def test_the_same_again_asks_nothing_and_replaces_the_output(run: Run, judging: ScriptedServer) -> None:
    output = "data/of_a_folder_that_is_made/out.json"
    command = ("judge", "results.json", "--output", output, "--queries", "queries.json")
    assert run(*command).code == 0
    first, count = written(output), len(judging.requests)
    assert count == 12, "four of each: without ground truth there is no correctness"
    assert "correctness" not in first["summary"]
    assert "correctness" not in first["results"]["test_id_1"]["evaluations"]
    assert first["results"]["test_id_1"]["overall_score"] == 0.9325
    ended = run(*command)
    assert (ended.code, len(judging.requests)) == (0, count)
    assert "0 model calls, 12 from the cache, 0 tokens" in ended.err
    assert written(output) == first


def test_a_dry_run_says_what_would_be_asked_and_asks_and_writes_nothing(
    run: Run, judging: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("rageval.toml").write_text("[prices]\ngpt-5 = {in = 1.0, out = 10.0}\n", encoding="utf-8")
    command = ("judge", "results.json", "--ground-truth", "truth.json", "--queries", "queries.json")
    ended = run(*command, "--dry-run", "--json")
    assert (ended.code, judging.requests) == (0, [])
    assert "nothing was scanned or asked" in ended.err
    [row] = json.loads(ended.out)
    assert (row["answers"], row["judge calls"]) == (3, 15)
    [model] = row["models"]
    assert (model["role"], model["model"], model["calls"]) == ("judge", "gpt-5", 15)
    assert row["cost_usd"] == model["cost_usd"] > 0
    shown = run(*command, "--dry-run", "--output", "out.json", "--limit", "1")
    assert [line.split()[1:5] for line in shown.out.splitlines() if "gpt-5" in line] == [["judge", "gpt-5", "5", "5"]]
    assert not Path("out.json").exists()
    assert run(*command, "--output", "out.json").code == 0
    assert len(judging.requests) == 15
    sent = sum(len(request.text) for request in judging.requests) / 4
    assert sent / 3 < model["tokens"] < 3 * sent + 15 * 250


@pytest.mark.parametrize(("options", "words"), [((), "--output OUT"), (("--output", "o.json", "--json"), "--dry-run")])
def test_what_a_result_needs_is_said(run: Run, judging: ScriptedServer, options: tuple[str, ...], words: str) -> None:
    refused(run("judge", "results.json", *options), words)
    assert judging.requests == []


def test_an_id_is_never_taken_for_the_question(run: Run, judging: ScriptedServer) -> None:
    ended = run("judge", "results.json", "--output", "out.json")
    assert ended.code == 0
    [first, *_] = written()["results"].values()
    assert first["query"] == "Test_query_1"
    assert first["evaluations"]["answer_relevance"] == {
        "score": None,
        "reasoning": "",
        "missing_aspects": [],
        "undefined": "the question is empty",
    }
    assert first["overall_score"] == pytest.approx((0.3325 + 0.18 + 0.17) / 0.75)
    assert set(first["weights_used"]) == {"faithfulness", "citation_quality", "completeness"}
    summary = written()["summary"]["answer_relevance"]
    assert summary == {"mean": None, "min": None, "max": None, "count": 0, "undefined": 3, "errors": 0}
    assert "judge.answer_relevance: 3 undefined, the question is empty" in ended.err
    assert all("Test_query" not in request.text for request in judging.requests)


def test_what_failed_is_null_with_its_reason_and_asked_for_again(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poorly(body: dict[str, Any]) -> str:
        return "0.0 I cannot say" if dimension_of(body) == "completeness" else verdict(body)

    command = ("judge", "results.json", "--output", "out.json", "--queries", "queries.json", "--limit", "1")
    with ScriptedServer(poorly) as server:
        asked(monkeypatch, server)
        ended = run(*command)
        assert ended.code == 4
        [result] = written()["results"].values()
        assert "no JSON object" in result["evaluations"]["completeness"]["error"]
        assert (result["overall_score"], written()["summary"]["overall"]["errors"]) == (None, 1)
        assert "judge.completeness: 1 error" in ended.err
        server._reply = verdict
        before = len(server.requests)
        assert run(*command).code == 0
        assert len(server.requests) == before + 1
        assert written()["summary"]["overall"]["mean"] == 0.9325


@pytest.mark.parametrize("budget", [False, True])
def test_an_endpoint_that_refuses_and_a_budget_that_is_spent_are_one_line(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, budget: bool
) -> None:
    """Nothing is written, what came is kept, and the same command goes on."""
    faults = [] if budget else [Fault(status=401, code="invalid_api_key", message="sk-secret")] * 3
    command = ("judge", "results.json", "--output", "out.json", "--queries", "queries.json")
    with ScriptedServer(verdict, faults) as server:
        asked(monkeypatch, server)
        monkeypatch.setenv("RAGEVAL_LLM_CONCURRENCY", "1")
        if budget:
            monkeypatch.setenv("RAGEVAL_LLM_MAX_TOKENS", "50")
        ended = run(*command)
        refused(ended, "gpt-5", "RAGEVAL_LLM_MAX_TOKENS" if budget else "HTTP 401")
        assert "sk-secret" not in ended.err
        assert not Path("out.json").exists()
        assert [path.name for path in folder.iterdir() if path.name.startswith(".rageval-")] == []
        assert not budget or len(server.requests) == 3
        monkeypatch.delenv("RAGEVAL_LLM_MAX_TOKENS", raising=False)
        server._faults.clear()
        assert run(*command).code == 0
        # One that was under way when the command gave up may be counted by the server a moment later.
        assert len(server.requests) == 12 if budget else 12 < len(server.requests) <= 12 + 2


def test_rows_that_cannot_be_read_are_named_and_the_rest_is_judged(run: Run, judging: ScriptedServer) -> None:
    rows = {**RESULTS, "test_id_2": {"query_id": "Test_query_2", "answers": 7}}
    Path("results.json").write_text(json.dumps(rows), encoding="utf-8")
    ended = run("judge", "results.json", "--output", "out.json", "--queries", "queries.json")
    assert ended.code == 4
    assert "refused: results.json, row 2, field answers" in ended.err
    assert list(written()["results"]) == ["test_id_1", "test_id_3"]


def test_other_formats_of_recorded_answers(run: Run, judging: ScriptedServer) -> None:
    rows = [
        {"question": "Where is it?", "reference_answer": "Rome", "answer": "In Rome.", "contexts": ["It is in Rome."]}
    ]
    Path("recorded.json").write_text(json.dumps(rows), encoding="utf-8")
    assert run("judge", "recorded.json", "--output", "out.json").code == 0
    [(row_id, result)] = written()["results"].items()
    assert (row_id, result["query"], set(result["weights_used"])) == ("q0", "Where is it?", set(SCORES))


@pytest.mark.slow
def test_each_client_has_its_own_verdicts_and_forgets_them(run: Run, judging: ScriptedServer, folder: Path) -> None:
    command = ("judge", "results.json", "--output", "out.json", "--limit", "1")
    for client in ([], ["--client", "acme"], ["--client", "globex"]):
        run(*command, *client)
    assert len(judging.requests) == 9, "nobody's text answers for another"
    db = open_database(f"sqlite:///{folder / 'judged' / 'rageval.sqlite3'}")
    for client in ("(files)", "acme", "globex"):
        assert rows_of(db, client) == {"llm_cache": 3, "llm_calls": 3}
    for client in ("(files)", "acme"):
        assert run("forget", "--client", client, "--yes").code == 0
        assert rows_of(db, client) == {}
    assert rows_of(db, "globex")
    db.dispose()


def test_what_is_redacted_is_neither_sent_nor_written(run: Run, judging: ScriptedServer) -> None:
    Path("rageval.toml").write_text('[defaults]\nredact = "pii"\n', encoding="utf-8")
    rows = {"t": {"query_id": "q", "top_k_chunks": [CHUNK], "answers": "Write to ann@example.org [1]."}}
    Path("mail.json").write_text(json.dumps(rows), encoding="utf-8")
    assert run("judge", "mail.json", "--output", "out.json").code == 0
    assert "example.org" not in Path("out.json").read_text(encoding="utf-8")
    assert all("example.org" not in request.text for request in judging.requests)


def test_what_cannot_be_done_is_one_line_and_asks_nothing(
    run: Run, judging: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(*arguments: object) -> Ended:
        return run("judge", *arguments)

    refused(judge("results.json", "--output", "truth.json"), "truth.json", "write elsewhere")
    refused(judge("results.json", "--output", "results.json"), "write elsewhere")
    Path("folder").mkdir()
    os.mkfifo("pipe")
    for taken in ("folder", "pipe"):
        refused(judge("results.json", "--output", taken), taken, "write elsewhere")
    refused(judge("results.json", "--test-results", "results.json", "--output", "out.json"), "twice")
    refused(judge("--output", "out.json"), "which file")
    refused(judge("absent.json", "--output", "out.json"), "absent.json")
    refused(judge("results.json", "--output", "truth.json/out.json"), "truth.json")
    monkeypatch.delenv("RAGEVAL_JUDGE_MODEL")
    refused(judge("results.json", "--output", "out.json"), "--model", "RAGEVAL_JUDGE_MODEL")
    Path("rageval.toml").write_text('[clients.acme]\nllm = "forbidden"\n', encoding="utf-8")
    refused(judge("results.json", "--output", "out.json", "--client", "acme", "--model", "gpt-4"), "forbidden")
    Path("rageval.toml").write_text("[defaults]\nbudget = {cost_usd = 1.0}\n", encoding="utf-8")
    refused(judge("results.json", "--output", "out.json", "--model", "gpt-4"), "gpt-4", "[prices]")
    assert judging.requests == []
    assert not Path("out.json").exists()


def test_means_and_what_they_cost_are_said_where_prices_are_known(run: Run, judging: ScriptedServer) -> None:
    Path("rageval.toml").write_text("[prices]\ngpt-5 = {in = 1000.0, out = 2000.0}\n", encoding="utf-8")
    ended = run("judge", "results.json", "--output", "out.json", "--limit", "1")
    assert "3 model calls, 54 tokens, 0.0750 USD" in ended.err
    assert "2 left for another time" in ended.err
    table = {line.split()[0]: line.split()[1:] for line in ended.out.splitlines()}
    assert (table["judge.overall"][0], table["judge.overall"][3:]) == ("0.910", ["1", "1", "0", "0"])
    assert Path("out.json").stat().st_mode & 0o077 == 0


# --- the same metrics by `rageval score` ------------------------------------------------------------------------------


def test_score_runs_judged_metrics_by_name(run: Run, judging: ScriptedServer, folder: Path) -> None:
    command = ("score", "results.json", "--queries", "queries.json", "--ground-truth", "truth.json", "--json")
    ended = run(*command, "--metrics", "judge.*")
    assert ended.code == 0, ended
    found = json.loads(ended.out)
    assert found["scores"]["judge.overall"]["mean"] == pytest.approx(1.2325 / 1.3)
    assert found["details"]["judge.faithfulness"]["test_id_1"]["reasoning"] == "why faithfulness"
    assert len(judging.requests) == 15
    run(*command, "--metrics", "lexical.*", "--metrics", "judge.*")
    assert len(judging.requests) == 15, "what was said is kept"


def test_score_asks_no_judge_unless_it_is_named(run: Run, judging: ScriptedServer, folder: Path) -> None:
    ended = run("score", "results.json", "--queries", "queries.json")
    assert ended.code == 0, ended
    assert "name what it should judge" in ended.err
    assert judging.requests == []
    assert not (folder / "judged").exists(), "scoring a file makes no project"


def test_score_says_where_a_judge_that_was_asked_for_may_not_be_asked(
    run: Run, judging: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("rageval.toml").write_text('[clients.acme]\nllm = "forbidden"\n', encoding="utf-8")
    refused(run("score", "results.json", "--client", "acme", "--metrics", "judge.*"), "llm is forbidden")
    monkeypatch.delenv("RAGEVAL_JUDGE_MODEL")
    refused(run("score", "results.json", "--metrics", "lexical.*,judge.*"), "judge.*", "RAGEVAL_JUDGE_MODEL")
    assert judging.requests == []
