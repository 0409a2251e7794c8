"""What `status` shows of incidents, and what `doctor` says of the webhook."""

import json
import re

import pytest

from rageval_dagster.gate.incidents import EndedRun, note_run, review
from rageval_dagster.storage.comparisons import Change
from rageval_dagster.storage.types import utc_now
from tests.cli.running import Run
from tests.gate.planted_incidents import MRR, evaluate
from tests.pipeline.small_project import Project
from tests.telling.webhook_server import WebhookServer


def test_status_shows_what_is_open_and_nothing_of_what_is_over(project: Project, run: Run) -> None:
    db, settings = project.database(), project.settings
    fell = evaluate(db, verdict="regressed", regressed=[MRR])
    evaluate(db, client="globex")
    note_run(db, "globex", EndedRun("run-1", True, "retrieval_results", "SettingsError"), utc_now())
    review(db, settings, {"acme", "globex"}, utc_now())
    shown = run("status").out
    clients, failed, regression = shown.split("\n\n")
    _, acme, globex = clients.splitlines()
    assert re.split("  +", acme)[3:10] == ["regressed", "MRR", "0.701", "-0.111", "baseline", "3", "2"]
    assert re.split("  +", globex)[3] == "failed run"
    about, reason = regression.splitlines()
    assert about.startswith(f"acme: regression, synthetic/dense, run {fell.id}, open since ")
    assert about.endswith(", no alert sent")
    assert "0.812 → 0.701 (-0.111 over 200 shared questions" in reason
    about, reason = failed.splitlines()
    assert about.startswith("globex: failed run, open since ")
    assert reason == "  at step retrieval_results (SettingsError), Dagster run run-1"
    found = {row["client_id"]: row["incidents"] for row in json.loads(run("status", "--json").out)}
    assert [each["kind"] for each in found["acme"]] == ["regression"]
    assert found["acme"][0]["details"]["mean"] == 0.701
    assert [each["run_id"] for each in found["globex"]] == ["run-1"]
    assert found["globex"][0]["reason"] == "at step retrieval_results (SettingsError), Dagster run run-1"
    evaluate(db)
    note_run(db, "globex", EndedRun("run-2", False), utc_now())
    review(db, settings, {"acme", "globex"}, utc_now())
    assert "open since" not in run("status").out


def test_status_names_documents_that_are_gone_although_the_run_passed(project: Project, run: Run) -> None:
    said = "14 documents are gone; 3 of 42 questions lost their evidence"
    passed = evaluate(project.database(), changes=[Change("gone", said, worse=3, documents=("leave.md", "rent.md"))])
    _, gone = run("status").out.strip().split("\n\n")
    assert gone == f"acme: {said}, run {passed.id}, such as: leave.md, rent.md"
    assert [row["gone"] for row in json.loads(run("status", "--json").out)] == [said]
    evaluate(project.database())
    assert "gone" not in run("status").out


def webhook_row(run: Run, *options: str) -> tuple[str, str]:
    ended = run("doctor", "--json", *options)
    assert "s3cret-webhook" not in ended.out + ended.err
    [row] = [row for row in json.loads(ended.out) if row["check"] == "alert webhook"]
    return row["ok"], row["finding"]


def test_doctor_says_whether_a_webhook_is_set_and_tries_it_if_asked(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok, finding = webhook_row(run)
    assert ok == "yes"
    assert finding.startswith("not set: nobody is notified")
    with WebhookServer() as server:
        monkeypatch.setenv("RAGEVAL_ALERT_WEBHOOK_URL", server.url)
        assert webhook_row(run, "--test-webhook") == ("yes", "at 127.0.0.1; it accepted a test message")
        assert server.texts == ["rageval doctor: a test message; this webhook works"]
        server.status = 404
        ok, finding = webhook_row(run, "--test-webhook")
        assert ok == "no"
        assert "HTTP 404" in finding
    monkeypatch.setenv("RAGEVAL_ALERT_WEBHOOK_URL", "http://hooks.example.com/s3cret-webhook")
    ok, finding = webhook_row(run)
    assert ok == "no"
    assert "RAGEVAL_ALERT_WEBHOOK_URL takes https://" in finding
