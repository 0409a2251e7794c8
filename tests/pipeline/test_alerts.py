"""The alert sensor and the end of a command's run: what people are told, and what Dagster shows of freshness."""

import json
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import dagster as dg
import pytest

from rageval_dagster.assets.partitions import CLIENTS_PARTITIONS
from rageval_dagster.automation.jobs import EVALUATION_JOB
from rageval_dagster.automation.requests import run_tags
from rageval_dagster.automation.sensors import MAX_ATTEMPTS
from rageval_dagster.definitions import defs
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.incidents import open_incidents
from rageval_dagster.storage.types import utc_now
from tests.cli.running import Run
from tests.gate.planted_incidents import MRR, age, evaluate
from tests.gate.test_gate_incidents import everything
from tests.pipeline import looks
from tests.pipeline.services import wait_for
from tests.pipeline.small_project import CANARY, Project, holding
from tests.pipeline.test_canaries import fail_in_a_metric, log_file, planted
from tests.pipeline.test_daemon import services
from tests.telling.webhook_server import WebhookServer

__all__ = ["log_file", "planted", "services"]

FRESH = dg.AssetCheckKey(dg.AssetKey("evaluation_runs"), "fresh")


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebhookServer]:
    with WebhookServer() as server:
        monkeypatch.setenv("RAGEVAL_ALERT_WEBHOOK_URL", server.url)
        yield server


@pytest.fixture
def instance(project: Project, webhook: WebhookServer) -> Iterator[dg.DagsterInstance]:
    ensure_client(project.database(), "acme")
    with dg.DagsterInstance.get() as opened:
        opened.add_dynamic_partitions(CLIENTS_PARTITIONS, ["acme"])
        yield opened


look = partial(looks.look, "rageval_alert_sensor")


def ended(instance: dg.DagsterInstance, failed: bool, job: str = EVALUATION_JOB) -> str:
    run = instance.create_run_for_job(
        defs.resolve_job_def(job), tags=run_tags("acme", "schedule:one"), status=dg.DagsterRunStatus.STARTED
    )
    if failed:
        instance.report_run_failed(run)
    else:
        event = dg.DagsterEvent(dg.DagsterEventType.PIPELINE_SUCCESS.value, job_name=job)
        instance.report_dagster_event(event, run.run_id)
    return run.run_id


def test_failing_runs_of_the_daemon_are_told_once_until_one_succeeds(
    instance: dg.DagsterInstance, webhook: WebhookServer
) -> None:
    cursor = look(instance).cursor
    run_id = ended(instance, failed=True)
    cursor = look(instance, cursor).cursor
    ended(instance, failed=True)
    cursor = look(instance, cursor).cursor
    look(instance, cursor)
    [told] = webhook.texts
    assert told.splitlines()[:2] == [
        "*A run failed: `acme`*",
        f"• `acme`: The last run failed before its first step. Its log says why. Dagster run `{run_id}`",
    ]
    over = ended(instance, failed=False)
    # Whatever was seen before of it: what ended last counts.
    for seen in (cursor, look(instance, cursor).cursor, None):
        look(instance, seen)
    assert webhook.texts[1:] == [f"*Runs succeed again: `acme`*\n• `acme`: Dagster run `{over}`"]


def test_failing_runs_of_the_daemon_stand_on_the_page_of_all_clients_while_they_last(
    project: Project, instance: dg.DagsterInstance
) -> None:
    page = project.settings.report_dir / "fleet.html"
    cursor = look(instance).cursor
    assert not page.exists()  # nothing happened
    ended(instance, failed=True)
    cursor = look(instance, cursor).cursor
    assert "The last run failed before its first step. Its log says why." in page.read_text()
    made = page.stat().st_mtime_ns
    cursor = look(instance, cursor).cursor
    assert page.stat().st_mtime_ns == made
    ended(instance, failed=False)
    look(instance, cursor)
    assert "The last run" not in page.read_text()


def test_the_page_of_all_clients_is_made_anew_after_a_run_of_the_daemon(
    project: Project, instance: dg.DagsterInstance
) -> None:
    cursor = look(instance).cursor
    evaluate(project.database(), verdict="first")
    page = project.settings.report_dir / "fleet.html"
    assert not page.exists()
    ended(instance, failed=False)
    look(instance, cursor)
    assert "acme" in page.read_text()


def test_a_page_that_cannot_be_written_stops_no_alert(
    project: Project, instance: dg.DagsterInstance, webhook: WebhookServer
) -> None:
    cursor = look(instance).cursor
    project.settings.report_dir.parent.mkdir(parents=True, exist_ok=True)
    project.settings.report_dir.write_text("a file where the folder should be")
    ended(instance, failed=True)
    look(instance, cursor)
    assert webhook.headlines == ["*A run failed: `acme`*"]


def test_a_run_that_ended_makes_its_client_be_looked_at(
    project: Project, instance: dg.DagsterInstance, webhook: WebhookServer
) -> None:
    db = project.database()
    evaluate(db, verdict="first")
    cursor = look(instance).cursor
    evaluate(db, verdict="regressed", regressed=[MRR])
    cursor = look(instance, cursor).cursor
    assert webhook.messages == []
    ended(instance, failed=False)
    cursor = look(instance, cursor).cursor
    assert webhook.headlines == ["*Regressed: `acme`*"]
    # What is open is looked at whether anything ran or not: somebody may have accepted it.
    evaluate(db)
    for _ in range(2):
        cursor = look(instance, cursor).cursor
    assert webhook.headlines[1:] == ["*Quality has recovered: `acme`*"]


def test_dagster_shows_which_client_is_stale_though_no_run_comes(
    project: Project, instance: dg.DagsterInstance, webhook: WebhookServer
) -> None:
    def status() -> str | None:
        known = instance.event_log_storage.get_asset_check_partition_info([FRESH])
        assert {info.partition_key for info in known} <= {"acme"}
        assert all(info.is_current for info in known)
        return known[0].latest_execution_status.value if known and known[0].latest_execution_status else None

    db, late = project.database(), timedelta(hours=40)
    age(db, "acme", late, utc_now())
    look(instance)
    assert webhook.headlines == ["*Not evaluated for too long: `acme`*"]
    assert status() is None  # Dagster knows nothing of the client yet
    evaluate(db)
    ended(instance, failed=False)
    instance.report_runless_asset_event(dg.AssetMaterialization("evaluation_runs", partition="acme"))
    for _ in range(2):
        look(instance)
        assert status() == "SUCCEEDED"
        age(db, "acme", late, utc_now())
        for _ in range(2):
            look(instance)
            assert status() == "FAILED"
        evaluate(db)
    assert webhook.headlines[1:] == ["*Evaluated again: `acme`*", "*Not evaluated for too long: `acme`*"] * 2
    assert instance.get_runs_count() == 1


def test_a_webhook_that_refuses_fails_no_sensor_and_is_no_secret_in_dagster(
    instance: dg.DagsterInstance, project: Project, webhook: WebhookServer, log_file: Path
) -> None:
    webhook.status = 500
    cursor = look(instance).cursor
    ended(instance, failed=True)
    cursor = look(instance, cursor).cursor
    assert webhook.messages == []
    assert holding("s3cret-webhook", project.settings.home, log_file) == []
    webhook.status = 200
    look(instance, cursor)
    assert webhook.headlines == ["*A run failed: `acme`*"]


@pytest.mark.slow
def test_the_end_of_a_command_is_told_whatever_the_webhook_says_and_without_texts(
    planted: Project, webhook: WebhookServer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGEVAL_MAX_ERROR_SHARE", "1")  # its system fails on a question, which would be told, too
    assert run("datasets", "import", "questions.jsonl", "--client", "acme", "--name", "own").code == 0
    with monkeypatch.context() as broken:
        fail_in_a_metric(broken)
        webhook.status = 500
        done = run("evaluate", "--client", "acme")
        assert done.code == 2
        assert "acme: alerts that could not be sent to a webhook (HTTP 500: 1); tried again for a day" in done.err
    webhook.status = 200
    assert run("evaluate", "--client", "acme").code == 4  # a question failed
    [found] = everything(planted.database())
    assert found.details["step"] == "metric_scores"
    assert found.details["error"] == "UnexpectedError"
    # It was over before anybody could be told.
    assert webhook.messages == []
    with monkeypatch.context() as broken:
        broken.setenv("EVALUATION_DEFAULT_K", "3")
        fail_in_a_metric(broken)
        assert run("evaluate", "--client", "acme").code == 2
    assert webhook.headlines == ["*A run failed: `acme`*"]
    with dg.DagsterInstance.get() as opened:
        assert [each.client_id for each in open_incidents(planted.database())] == ["acme"]
        look(opened)  # the daemon sees the same run
    assert len(webhook.messages) == 1
    assert CANARY not in json.dumps([webhook.messages, [each.details for each in everything(planted.database())]])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_daemon_tells_of_a_stale_client_and_of_its_failing_runs_once(
    loaded: Project, webhook: WebhookServer, request: pytest.FixtureRequest
) -> None:
    ensure_client(loaded.database(), "acme")
    age(loaded.database(), "acme", timedelta(hours=40), utc_now())
    loaded.environment["RAGEVAL_ALERT_WEBHOOK_URL"] = webhook.url
    loaded.environment["RAGEVAL_EMBEDDING_MODEL"] = str(loaded.folder / "no-such-model")
    request.getfixturevalue("services")
    wait_for("both messages", lambda: len(webhook.messages) >= 2)
    failed = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])
    with dg.DagsterInstance.get() as opened:
        wait_for("all attempts of the run", lambda: opened.get_runs_count(failed) == MAX_ATTEMPTS)
        [state] = [state for state in opened.all_instigator_state() if state.name == "rageval_alert_sensor"]

        def ticks() -> list[str]:
            return [tick.status.value for tick in opened.get_ticks(state.instigator_origin_id, state.selector_id)]

        seen = len(ticks())
        wait_for("another whole look", lambda: len(ticks()) >= seen + 2)
        assert set(ticks()) <= {"SKIPPED", "STARTED"}
    assert sorted(webhook.headlines) == ["*A run failed: `acme`*", "*Not evaluated for too long: `acme`*"]
