"""The sensor and the schedule: which runs they ask for, and how often."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import dagster as dg
import pytest
import sqlalchemy as sa

from rageval_dagster.assets.partitions import CLIENTS_PARTITIONS
from rageval_dagster.automation.jobs import EVALUATION_JOB
from rageval_dagster.automation.requests import run_tags
from rageval_dagster.automation.sensors import REQUESTS, RESCANS
from rageval_dagster.corpus.store import open_store
from rageval_dagster.evaluation.summary import reports_of
from rageval_dagster.storage.clients import ensure_client, get_client, notify
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.leases import keep_lease
from rageval_dagster.storage.tables import clients
from rageval_dagster.storage.types import utc_now
from tests.corpus.conftest import new_server_database
from tests.corpus.their_store import their_chroma
from tests.pipeline.looks import look, nightly_requests, tick
from tests.pipeline.small_project import Project, documents


@pytest.fixture
def instance(loaded: Project) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.get() as opened:
        yield opened


@pytest.fixture
def instance_of_nobody(project: Project) -> Iterator[dg.DagsterInstance]:
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


def test_nothing_is_asked_for_where_nothing_changed(evaluated: Project, instance_of_nobody: dg.DagsterInstance) -> None:
    assert keys(tick(instance_of_nobody)) == []


@pytest.mark.slow
def test_an_evaluation_of_another_system_does_not_stand_for_the_one_that_is_watched(
    loaded: Project, instance: dg.DagsterInstance
) -> None:
    tick(instance)
    assert loaded.evaluate("acme", "command:one", systems=["bm25"]).message is None
    assert keys(tick(instance)) == ["acme:1:1"]
    assert loaded.evaluate("acme", "change:1", only_if_changed=True).message is None
    assert [report.evaluation.system for report in reports_of(loaded.database(), "acme", "change:1")] == ["dense"]
    assert keys(tick(instance)) == []


@pytest.mark.slow
def test_only_the_changed_client_is_evaluated_again(loaded: Project, instance: dg.DagsterInstance) -> None:
    loaded.ingest("globex", documents("castle", count=2))
    assert keys(tick(instance)) == ["acme:1:1", "globex:1:1"]
    for client in ("acme", "globex"):
        assert loaded.evaluate(client, "change:1").message is None
    rows = documents("castle", count=2)
    rows[0]["text"] += " A new wing was opened in 1999."
    loaded.ingest("globex", rows)
    assert keys(tick(instance)) == ["globex:2:1"]


@pytest.mark.slow
def test_a_failed_run_is_tried_again_under_a_new_key(
    loaded: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGEVAL_EMBEDDING_MODEL", str(loaded.folder / "no-such-model"))
    assert keys(tick(instance)) == ["acme:1:1"]
    for attempt in (2, 3):
        assert loaded.evaluate("acme", "change:1", only_if_changed=True).message is not None
        assert keys(tick(instance)) == [f"acme:1:{attempt}"]
    assert loaded.evaluate("acme", "change:1", only_if_changed=True).message is not None
    assert keys(tick(instance)) == []


def test_no_run_is_asked_for_that_would_wait_for_another(loaded: Project, instance: dg.DagsterInstance) -> None:
    assert keys(tick(instance)) == ["acme:1:1"]
    with keep_lease(loaded.database(), "acme", "command"):
        assert keys(tick(instance)) == []


def test_a_store_that_is_not_there_skips_the_tick_and_says_why(loaded: Project, instance: dg.DagsterInstance) -> None:
    tick(instance)
    folder = loaded.settings.embedded_chroma_path
    folder.rename(folder.with_name("unmounted"))
    skipped = look("rageval_document_store_sensor", instance)
    assert isinstance(skipped, dg.SkipReason)
    assert "there is no document store" in str(skipped.skip_message)
    assert get_client(loaded.database(), "acme").vanished_at is None


@pytest.mark.slow
def test_what_an_ingestion_tells_gets_one_run_which_ends_early_where_nothing_changed(
    loaded: Project, instance: dg.DagsterInstance
) -> None:
    tick(instance)
    assert loaded.evaluate("acme", "change:1", only_if_changed=True).message is None
    db = loaded.database()
    for _ in range(3):
        notify(db, "acme")
    assert keys(tick(instance)) == ["acme:2:1"]
    assert loaded.evaluate("acme", "change:2", only_if_changed=True).message is None
    assert reports_of(db, "acme", "change:2") == []
    assert keys(tick(instance)) == []


def scanned(db: Database, days_ago: float) -> str:
    """All clients are evaluated, and their last scan is so long ago; when that was, as triggers name it."""
    then = utc_now() - timedelta(days=days_ago)
    with db.begin() as connection:
        connection.execute(sa.update(clients).values(scanned_at=then, evaluated_seq=clients.c.change_seq))
    return f"{then:%Y-%m-%dT%H:%M:%S}"


def a_run(instance: dg.DagsterInstance, client: str, trigger: str, status: dg.DagsterRunStatus) -> str:
    return instance.add_run(dg.DagsterRun(EVALUATION_JOB, tags=run_tags(client, trigger), status=status)).run_id


def test_a_client_is_scanned_again_after_a_day_unless_a_run_is_on_its_way(
    loaded: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick(instance)
    since = scanned(loaded.database(), days_ago=1.5)
    [request] = tick(instance).run_requests or []
    assert request.run_key == f"acme:rescan:{since}:1:1"
    plan = {"trigger": f"rescan:{since}:1", "only_if_changed": True}
    assert request.run_config["resources"]["rageval_plan"]["config"] == plan
    on_its_way = a_run(instance, "acme", "schedule:night", dg.DagsterRunStatus.STARTED)
    assert keys(tick(instance)) == []
    instance.delete_run(on_its_way)
    monkeypatch.setenv("RAGEVAL_RESCAN_HOURS", "48")
    assert keys(tick(instance)) == []
    monkeypatch.delenv("RAGEVAL_RESCAN_HOURS")
    assert len(keys(tick(instance))) == 1
    scanned(loaded.database(), days_ago=0)
    assert keys(tick(instance)) == []


@pytest.mark.slow
def test_a_scan_that_keeps_failing_is_asked_for_three_times_and_then_once_a_day(
    loaded: Project, instance: dg.DagsterInstance
) -> None:
    tick(instance)
    since = scanned(loaded.database(), days_ago=1.5)
    for attempt in (1, 2, 3):
        assert keys(tick(instance)) == [f"acme:rescan:{since}:1:{attempt}"]
        a_run(instance, "acme", f"rescan:{since}:1", dg.DagsterRunStatus.FAILURE)
    assert keys(tick(instance)) == []
    since = scanned(loaded.database(), days_ago=3.5)
    assert keys(tick(instance)) == [f"acme:rescan:{since}:3:1"]
    a_run(instance, "acme", f"rescan:{since}:3", dg.DagsterRunStatus.FAILURE)
    assert keys(tick(instance)) == []


def make_clients(project: Project, count: int) -> list[str]:
    names = [f"client-{number}" for number in range(count)]
    with their_chroma(project.settings.embedded_chroma_path) as chroma:
        for name in names:
            chroma.create_collection(name, embedding_function=None)
    return sorted(names)


@pytest.mark.slow
def test_scans_that_are_due_at_once_are_spread(project: Project, instance_of_nobody: dg.DagsterInstance) -> None:
    instance, names = instance_of_nobody, make_clients(project, RESCANS + 5)
    tick(instance)
    since = scanned(project.database(), days_ago=2)
    first = keys(tick(instance))
    assert len(first) == RESCANS
    for name in names[:RESCANS]:
        a_run(instance, name, f"rescan:{since}:2", dg.DagsterRunStatus.STARTED)
    assert keys(tick(instance)) == [f"{name}:rescan:{since}:2:1" for name in names[RESCANS:]]


@pytest.mark.slow
def test_a_server_edited_in_place_is_evaluated_by_the_scan_that_finds_it(
    project: Project, chroma_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = new_server_database(chroma_server)
    project = project.given(monkeypatch, RAGEVAL_CHROMA_URL=chroma_server, RAGEVAL_CHROMA_DATABASE=database)
    rows = documents("castle", count=3)
    project.ingest("acme", rows, chunk_size=0)
    with dg.DagsterInstance.get() as instance:
        assert keys(tick(instance)) == ["acme:1:1"]
        assert project.evaluate("acme", "change:1", only_if_changed=True).message is None
        edited = open_store(project.settings)
        [page] = edited.scan("acme")
        chunk = replace(page.chunks[0], text=page.chunks[0].text.replace("crowns", "ducats"))
        assert page.vectors is not None
        edited.upsert("acme", [chunk], page.vectors[:1], [{"document_id": chunk.document_id}])
        assert keys(tick(instance)) == []
        db = project.database()
        since = scanned(db, days_ago=1.5)
        # Its run fails after the scan: what it found is asked for as any other change.
        with monkeypatch.context() as broken:
            broken.setenv("RAGEVAL_EMBEDDING_MODEL", str(project.folder / "no-such-model"))
            assert keys(tick(instance)) == [f"acme:rescan:{since}:1:1"]
            assert project.evaluate("acme", f"rescan:{since}:1", only_if_changed=True).message is not None
        assert keys(tick(instance)) == ["acme:2:1"]
        assert project.evaluate("acme", "change:2", only_if_changed=True).message is None
        assert len(reports_of(db, "acme", "change:2")) == 1
        assert keys(tick(instance)) == []


@pytest.mark.slow
def test_a_thousand_clients_are_asked_for_a_hundred_at_a_time_and_all_of_them_each_night(
    project: Project, instance_of_nobody: dg.DagsterInstance
) -> None:
    instance, names = instance_of_nobody, make_clients(project, 1000)
    first = tick(instance)
    assert len(first.run_requests or []) == REQUESTS
    [addition] = first.dynamic_partitions_requests or []
    assert sorted(addition.partition_keys) == names
    instance.add_dynamic_partitions(CLIENTS_PARTITIONS, list(addition.partition_keys))
    for request in first.run_requests or []:
        a_run(instance, str(request.partition_key), "change:1", dg.DagsterRunStatus.STARTED)
    second = tick(instance, first.cursor)
    assert len(second.run_requests or []) == REQUESTS
    assert not {*keys(first)} & {*keys(second)}
    nightly = nightly_requests(instance)
    assert sorted(str(request.partition_key) for request in nightly) == names
    assert len({request.run_key for request in nightly}) == 1000
    assert all(request.tags["dagster/partition"] == request.partition_key for request in nightly)


def test_the_schedule_reaches_clients_that_no_sensor_has_met(loaded: Project, instance: dg.DagsterInstance) -> None:
    ensure_client(loaded.database(), "acme")  # as `rageval ingest` does
    requests = nightly_requests(instance)
    assert [request.run_key for request in requests] == ["acme:2026-05-03T02:00"]


def test_evaluation_disabled_stops_the_sensor(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALUATION_ENABLED", "false")
    assert isinstance(look("rageval_document_store_sensor", instance), dg.SkipReason)
