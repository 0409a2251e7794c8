"""The sensor and the schedule: which runs they ask for, and how often."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest

from rageval_dagster.assets.partitions import CLIENTS_PARTITIONS
from rageval_dagster.automation.requests import TRIGGER_TAG
from rageval_dagster.definitions import defs
from rageval_dagster.errors import SettingsError
from rageval_dagster.evaluation.summary import reports_of
from rageval_dagster.storage.clients import acquire_lease, ensure_client, get_client, keep_lease, lease_holder
from tests.pipeline.looks import RESOURCES, nightly_requests, tick
from tests.pipeline.small_project import Project, documents


@pytest.fixture
def instance(loaded: Project) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.get() as opened:
        yield opened


def keys(result: dg.SensorResult) -> list[str | None]:
    return [request.run_key for request in result.run_requests or []]


def test_a_new_client_gets_a_partition_and_one_run(instance: dg.DagsterInstance) -> None:
    first = tick(instance)
    assert keys(first) == ["acme:1:1"]
    [addition] = first.dynamic_partitions_requests or []
    assert (addition.partitions_def_name, list(addition.partition_keys)) == (CLIENTS_PARTITIONS, ["acme"])
    # The same key again: Dagster drops what it has seen, so that a request that was lost is made up for.
    assert keys(tick(instance, first.cursor)) == ["acme:1:1"]


def test_nothing_is_asked_for_where_nothing_changed(loaded: Project, instance: dg.DagsterInstance) -> None:
    tick(instance)
    assert loaded.evaluate("acme", "change:1", only_if_changed=True).message is None
    assert keys(tick(instance)) == []


def test_a_change_that_only_a_failed_run_has_scanned_is_not_lost(
    loaded: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setenv("RAGEVAL_EMBEDDING_MODEL", str(loaded.folder / "no-such-model"))
        assert loaded.evaluate("acme", "schedule:one").message is not None
    assert keys(tick(instance)) == ["acme:1:1"]


def test_an_evaluation_of_another_system_does_not_stand_for_the_one_that_is_watched(
    loaded: Project, instance: dg.DagsterInstance
) -> None:
    tick(instance)
    assert loaded.evaluate("acme", "command:one", systems=["bm25"]).message is None
    assert keys(tick(instance)) == ["acme:1:1"]
    assert loaded.evaluate("acme", "change:1", only_if_changed=True).message is None
    assert [report.evaluation.system for report in reports_of(loaded.database(), "acme", "change:1")] == ["dense"]
    assert keys(tick(instance)) == []


def test_only_the_changed_client_is_evaluated_again(loaded: Project, instance: dg.DagsterInstance) -> None:
    loaded.ingest("globex", documents("castle", count=2))
    assert keys(tick(instance)) == ["acme:1:1", "globex:1:1"]
    for client in ("acme", "globex"):
        assert loaded.evaluate(client, "change:1").message is None
    rows = documents("castle", count=2)
    rows[0]["text"] += " A new wing was opened in 1999."
    loaded.ingest("globex", rows)
    assert keys(tick(instance)) == ["globex:2:1"]


def test_a_failed_run_is_tried_again_under_a_new_key(
    loaded: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keys(tick(instance)) == ["acme:1:1"]
    monkeypatch.setenv("RAGEVAL_EMBEDDING_MODEL", str(loaded.folder / "no-such-model"))
    for attempt in (2, 3):
        assert loaded.evaluate("acme", "change:1", only_if_changed=True).message is not None
        assert keys(tick(instance)) == [f"acme:1:{attempt}"]
    assert loaded.evaluate("acme", "change:1", only_if_changed=True).message is not None
    assert keys(tick(instance)) == []


def test_a_bulk_load_is_one_change(
    loaded: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGEVAL_SETTLE_S", "3600")
    first = tick(instance)
    assert keys(first) == []
    loaded.ingest("acme", documents("lighthouse", count=5))
    assert keys(tick(instance, first.cursor)) == []
    monkeypatch.setenv("RAGEVAL_SETTLE_S", "0")
    assert keys(tick(instance, first.cursor)) == ["acme:1:1"]


def test_changes_wait_while_somebody_works_on_the_client(loaded: Project, instance: dg.DagsterInstance) -> None:
    tick(instance)
    assert loaded.evaluate("acme", "change:1").message is None
    db = loaded.database()
    with keep_lease(db, "acme", "ingest"):
        loaded.ingest("acme", documents("lighthouse", count=5))
        assert keys(tick(instance)) == []
    assert keys(tick(instance)) == ["acme:2:1"]


def test_no_run_is_asked_for_that_would_wait_for_another(loaded: Project, instance: dg.DagsterInstance) -> None:
    assert keys(tick(instance)) == ["acme:1:1"]
    with keep_lease(loaded.database(), "acme", "command"):
        assert keys(tick(instance)) == []


def test_a_run_whose_process_died_is_over_and_made_again(loaded: Project, instance: dg.DagsterInstance) -> None:
    assert keys(tick(instance)) == ["acme:1:1"]
    tags = {"dagster/partition": "acme", TRIGGER_TAG: "change:1"}
    run = instance.create_run_for_job(defs.resolve_job_def("evaluation"), tags=tags, status=dg.DagsterRunStatus.STARTED)
    died = subprocess.Popen([sys.executable, "-c", ""])
    died.wait()
    holder = lease_holder(f"run {run.run_id}").replace(f":{os.getpid()}:", f":{died.pid}:")
    acquire_lease(loaded.database(), "acme", holder)
    assert keys(tick(instance)) == ["acme:1:2"]
    over = instance.get_run_by_id(run.run_id)
    assert over is not None
    assert over.status == dg.DagsterRunStatus.FAILURE


def test_a_client_that_vanished_is_marked_and_comes_back(loaded: Project, instance: dg.DagsterInstance) -> None:
    tick(instance)
    db = loaded.database()
    path = str(loaded.settings.embedded_chroma_path)
    program = f"import chromadb; chromadb.PersistentClient({path!r}).delete_collection('acme')"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert keys(tick(instance)) == []
    assert get_client(db, "acme").vanished_at is not None
    loaded.ingest("acme", documents("lighthouse", count=4))
    assert keys(tick(instance)) == ["acme:2:1"]
    assert get_client(db, "acme").vanished_at is None


def test_the_schedule_asks_for_every_client_once_a_slot(loaded: Project, instance: dg.DagsterInstance) -> None:
    loaded.ingest("globex", documents("castle", count=2))
    tick(instance)
    schedule = defs.resolve_schedule_def("nightly_evaluation")
    context = dg.build_schedule_context(
        instance=instance,
        scheduled_execution_time=datetime(2026, 5, 3, 2, tzinfo=UTC),
        resources={"database": RESOURCES["database"]},
    )
    asked: Any = schedule(context)
    requests = [request for request in asked if isinstance(request, dg.RunRequest)]
    assert [request.run_key for request in requests] == ["acme:2026-05-03T02:00", "globex:2026-05-03T02:00"]
    assert [request.partition_key for request in requests] == ["acme", "globex"]


def test_the_schedule_reaches_clients_that_the_sensor_has_not_met(
    loaded: Project, instance: dg.DagsterInstance
) -> None:
    ensure_client(loaded.database(), "acme")  # as `rageval ingest` does
    requests = nightly_requests(instance)
    assert [request.run_key for request in requests] == ["acme:2026-05-03T02:00"]


def test_a_cron_that_does_not_parse_names_the_variable(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from rageval_dagster.automation.schedules import evaluation_schedules

    monkeypatch.setenv("EVALUATION_SCHEDULE_CRON", "every night")
    with pytest.raises(SettingsError, match="EVALUATION_SCHEDULE_CRON takes a cron expression"):
        evaluation_schedules()


def test_evaluation_disabled_stops_the_sensor(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALUATION_ENABLED", "false")
    sensor = defs.resolve_sensor_def("document_store_sensor")
    assert isinstance(sensor(dg.build_sensor_context(instance=instance, resources=RESOURCES)), dg.SkipReason)
