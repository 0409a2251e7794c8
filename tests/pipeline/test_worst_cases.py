"""A leak, a system that is down, a run that fails and one that is killed: every page is there, and begins with it."""

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import dagster as dg
import pytest
from dagster import DagsterRunStatus as Status

from rageval_dagster.automation.alerts import FAILED_TAG
from rageval_dagster.storage.clients import ensure_client, get_client
from rageval_dagster.telling.links import FLEET_FILE, report_path
from tests.cli.running import Run, refused
from tests.llm.scripted_server import Fault, ScriptedServer
from tests.lost_heartbeats import let_leases_expire
from tests.pipeline.looks import look
from tests.pipeline.services import ROOT
from tests.pipeline.small_project import CANARY, Project, documents, holding
from tests.processes import KILLED

FOREIGN = "The board of Orinoco Shipping will vote on the merger with Parana Holdings in the second week of May."
SYSTEM = f"""
import os, signal

def answer(question, k):
    mode = os.environ.get("MODE")
    if mode == "down":
        raise ConnectionError(question)
    if mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    contexts = {[row["text"] for row in documents("lighthouse")]!r}[:k - 1]
    return {{"answer": contexts[0], "contexts": [*contexts, {FOREIGN!r}] if mode == "leak" else contexts}}
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def assistant(evaluated: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A client that was evaluated, of whose system the variable MODE says how it behaves."""
    evaluated.ingest("rival", [{"id": "board", "title": "Minutes", "text": f"{FOREIGN} The vote is secret."}])
    (evaluated.folder / "their_assistant.py").write_text(SYSTEM, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{evaluated.folder}{os.pathsep}{ROOT}")
    monkeypatch.syspath_prepend(str(evaluated.folder))
    Path("rageval.toml").write_text(
        '[clients.acme]\nsystem = "assistant"\n[clients.acme.systems.assistant]\nkind = "callable"\n'
        'function = "their_assistant:answer"\n',
        encoding="utf-8",
    )
    return evaluated


def told(path: Path) -> str:
    """What a page says after its title, without the marks of HTML."""
    body = re.sub(r"<[^>]+>", " ", path.read_text(encoding="utf-8").partition("<main>")[2])
    return " ".join(html.unescape(body).split())


def pages(project: Project) -> tuple[str, str]:
    """A client's report, and the page of all clients."""
    folder = project.settings.report_dir
    return told(report_path(folder, "acme")), told(folder / FLEET_FILE)


def newest(asset: str) -> dg.AssetMaterialization:
    with dg.DagsterInstance.get() as instance:
        [record] = instance.fetch_materializations(dg.AssetKey(asset), limit=1).records
        [run] = instance.get_runs(limit=1)
    assert record.run_id == run.run_id, "what the newest run made"
    assert record.asset_materialization is not None
    return record.asset_materialization


def run_page() -> str:
    newest("evaluation_report")
    shown = newest("evaluation_runs").metadata
    assert list(shown)[:2] == ["client", "alarm"]
    return str(shown["alarm"].value)


def end_of_run_page() -> list[str]:
    """The lines of the newest run's last step, at which its page in Dagster opens."""
    with dg.DagsterInstance.get() as instance:
        [run] = instance.get_runs(limit=1)
        lines = [entry.user_message or entry.message for entry in instance.all_logs(run.run_id)]
    started = max(number for number, line in enumerate(lines) if line.startswith("Started execution of step"))
    return lines[started:]


def test_a_leaking_run_has_all_pages_and_they_begin_with_the_leak(
    assistant: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODE", "leak")
    ended = run("evaluate", "--client", "acme", "--gate")
    assert ended.code == 1
    assert "LEAK: assistant returned 1 passage of another client" in ended.err
    assert " / assistant: leak, so not passed; by its scores alone: " in ended.err
    said = "System assistant returned 1 passage of another client for 8 questions of dataset "
    assert ended.out.splitlines()[1].startswith(said)
    report, fleet = pages(assistant)
    assert report.startswith(said)
    assert "rageval runs show 2" in report.partition(" First run: ")[0]
    assert fleet.startswith("1 of 1 client needs attention Returned passages of other clients acme ")
    assert " It returned 1 passage of another client. " in fleet
    assert run_page().startswith(said)
    assert any(line.startswith(f"acme: {said}") and "rageval runs show 2" in line for line in end_of_run_page())
    check = dg.AssetCheckKey(dg.AssetKey("evaluation_runs"), "no_foreign_chunks")
    with dg.DagsterInstance.get() as instance:
        [record] = instance.event_log_storage.get_asset_check_execution_history(check, limit=1)
        [newest_run] = instance.get_runs(limit=1)
    assert record.event is not None
    evaluation = record.event.get_dagster_event().asset_check_evaluation_data  # pyright: ignore
    assert (evaluation.passed, evaluation.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert str(evaluation.description).startswith(said)
    assert newest_run.status is Status.SUCCESS
    refused(run("runs", "accept", "2"), "1 passage of another client", "cannot be the baseline", "rageval runs show 2")
    assert [row["baseline"] for row in json.loads(run("runs", "list", "--json").out)] == [False, True]
    assert holding("Orinoco", assistant.settings.report_dir, assistant.settings.dagster_home) == []


def test_a_system_that_is_down_stands_first_everywhere(
    assistant: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("evaluate", "--client", "acme").code == 0
    monkeypatch.setenv("MODE", "down")
    assert run("evaluate", "--client", "acme", "--system", "bm25", "--system", "assistant").code == 4
    report, fleet = pages(assistant)
    assert report.startswith("System assistant failed on 8 of 8 questions of dataset ")
    assert fleet.startswith("1 of 1 client needs attention System failed acme ")
    assert run_page().startswith("System assistant failed on 8 of 8 questions of dataset ")
    said = "acme: System assistant failed on 8 of 8 questions of dataset "
    assert any(line.startswith(said) for line in end_of_run_page())
    assert run("evaluate", "--client", "acme").code == 2
    report, _ = pages(assistant)
    assert "What changed Not known" in report
    assert "this one cannot be accepted" in report
    assert "runs accept" not in report.partition("</script>")[0]
    for page, said in zip(pages(assistant), (" of 8 questions", "System failed acme "), strict=True):
        assert said in page[:160]


def test_a_failed_run_is_told_on_every_page_by_the_command_that_launched_it(
    assistant: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated_at = r"The last complete evaluation is from \d{4}-\d\d-\d\d \d\d:\d\d UTC: no number here is newer\."
    with ScriptedServer(fault_for=lambda _: Fault(status=401)) as server, monkeypatch.context() as judged:
        judged.setenv("RAGEVAL_JUDGE_MODEL", "judge")
        judged.setenv("OPENAI_BASE_URL", server.base_url)
        refused(run("evaluate", "--client", "acme"), "acme: metric_scores: ")
    report, fleet = pages(assistant)
    told = "The last run failed while scoring the answers: a language model refused, or gave no usable reply."
    assert re.match(rf"{re.escape(told)} {evaluated_at} rageval evaluate --client acme ", report), report
    assert fleet.startswith("1 of 1 client needs attention Last run failed acme ")
    assert told in fleet
    [row] = json.loads(run("status", "--json").out)
    [run_id] = [each["run_id"] for each in row["incidents"]]
    with dg.DagsterInstance.get() as instance:
        failed = instance.get_run_by_id(run_id)
        assert failed is not None
        assert (failed.status, failed.tags[FAILED_TAG]) == (Status.FAILURE, "metric_scores")
        events = [entry.message for entry in instance.all_logs(run_id)]
    assert re.match(rf"acme: {re.escape(told)} {evaluated_at} Run it again: rageval evaluate", events[-1])
    assert CANARY not in " ".join(events)
    assert run("evaluate", "--client", "acme").code == 0
    for page in pages(assistant):
        assert "failed" not in page[:120]


def test_the_gate_names_the_client_whose_run_failed(
    assistant: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer(fault_for=lambda _: Fault(status=401)) as server:
        monkeypatch.setenv("RAGEVAL_JUDGE_MODEL", "judge")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        ended = run("evaluate", "--all", "--gate", "--junit", "gate.xml")
    assert "\nacme: metric_scores: " in ended.err
    assert "gate: acme: not evaluated" in ended.err
    suites = ElementTree.parse("gate.xml").getroot()
    assert [suite.get("errors") for suite in suites if suite.get("name") == "acme"] == ["1"]
    assert "MRR" not in run("status").out, "a number of before is none of today"


def test_a_killed_run_is_told_by_the_next_command_or_by_the_sensors(
    assistant: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pages(assistant)
    for tell in (lambda: run("status"), lambda: run("report"), look_at_dead_runs):
        killed = subprocess.run(
            [sys.executable, "-m", "rageval_dagster", "evaluate", "--client", "acme"],
            env={**os.environ, "MODE": "killed"},
            capture_output=True,
            check=False,
        )
        assert killed.returncode == KILLED, killed.stderr
        assert pages(assistant) == before, "it could not say it itself"
        let_leases_expire(assistant.database())
        tell()
        report, fleet = pages(assistant)
        told = "The last run failed while retrieving passages: its process died. "
        assert report.startswith(told)
        assert fleet.startswith("1 of 1 client needs attention Last run failed acme ")
        assert told in fleet
        [row] = [row for row in json.loads(run("status", "--json").out) if row["client_id"] == "acme"]
        with dg.DagsterInstance.get() as instance:
            assert [each.run_id for each in instance.get_runs(limit=1)] == [each["run_id"] for each in row["incidents"]]
            assert [each.status for each in instance.get_runs(limit=1)] == [Status.FAILURE]
        assert run("evaluate", "--client", "acme").code == 0
        before = pages(assistant)
        assert "died" not in " ".join(before)


def look_at_dead_runs() -> None:
    with dg.DagsterInstance.get() as instance:
        cursor = look("rageval_alert_sensor", instance).cursor
        look("rageval_dead_run_sensor", instance)
        look("rageval_alert_sensor", instance, cursor)


def test_a_client_whose_settings_are_wrong_has_a_report_that_says_its_runs_fail(assistant: Project) -> None:
    Path("rageval.toml").write_text('[clients.acme]\nk = "many"\n', encoding="utf-8")
    ensure_client(assistant.database(), "acme")
    launched = assistant.evaluate("acme", "schedule:one")  # as the daemon does, which checks nothing before
    assert launched.failed_step == "corpus_version"
    report, fleet = pages(assistant)
    assert report.startswith("The last run failed while scanning the documents: a setting is wrong. ")
    assert fleet.startswith("1 of 1 client needs attention Last run failed acme ")
    assert not get_client(assistant.database(), "acme").is_busy
