"""The sensor that ends runs whose process died: it ends those, asks anew for a nightly one, and leaves the others."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa
from dagster import DagsterRunStatus as Status

from rageval_dagster.assets.partitions import CLIENTS_PARTITIONS
from rageval_dagster.automation.dead_runs import INTERVAL_S, UNLEASED_S
from rageval_dagster.automation.jobs import EVALUATION_JOB, UNDUE_KEYS
from rageval_dagster.automation.requests import run_config, run_tags
from rageval_dagster.automation.sensors import MAX_ATTEMPTS
from rageval_dagster.definitions import defs
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.leases import TTL_S, acquire_lease
from tests.pipeline import looks
from tests.pipeline.looks import tick
from tests.pipeline.small_project import Project

ACME = "acme"


@pytest.fixture
def instance(project: Project) -> Iterator[dg.DagsterInstance]:
    ensure_client(project.database(), ACME)
    with dg.DagsterInstance.get() as opened:
        yield opened


look = partial(looks.look, "rageval_dead_run_sensor")


def started(instance: dg.DagsterInstance, trigger: str, ago_s: float = 0, job: str = EVALUATION_JOB) -> dg.DagsterRun:
    """A run that began so long ago and goes on."""
    instance.add_dynamic_partitions(CLIENTS_PARTITIONS, [ACME])
    run = instance.create_run_for_job(
        defs.resolve_job_def(job),
        tags=run_tags(ACME, trigger) if job == EVALUATION_JOB else {},
        run_config=run_config(trigger) if job == EVALUATION_JOB else None,
        status=Status.STARTED,
    )
    storage: Any = instance.run_storage
    with storage.connect() as connection:
        began = (datetime.now(UTC) - timedelta(seconds=ago_s)).timestamp()
        statement = sa.text("UPDATE runs SET start_time = :began WHERE run_id = :run_id")
        connection.execute(statement, {"began": began, "run_id": run.run_id})
    return run


def queued(instance: dg.DagsterInstance, trigger: str) -> dg.DagsterRun:
    """A run that was given to a worker and did not begin yet."""
    instance.add_dynamic_partitions(CLIENTS_PARTITIONS, [ACME])
    return instance.create_run_for_job(
        defs.resolve_job_def(EVALUATION_JOB),
        tags=run_tags(ACME, trigger),
        run_config=run_config(trigger),
        status=Status.STARTING,
    )


def status(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Status:
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    return found.status


def take_lease(db: Database, run: dg.DagsterRun, ttl_s: float = TTL_S) -> None:
    """As a process of the run on some other machine does."""
    acquire_lease(db, ACME, f"elsewhere:7:run {run.run_id}", ttl_s)


def test_a_run_that_is_silent_is_over_and_its_change_is_evaluated_by_another(
    loaded: Project, instance: dg.DagsterInstance
) -> None:
    assert [request.run_key for request in tick(instance).run_requests or []] == ["acme:1:1"]
    run = started(instance, "change:1")
    take_lease(loaded.database(), run, ttl_s=-1)
    look(instance)
    assert status(instance, run) is Status.FAILURE
    assert [request.run_key for request in tick(instance).run_requests or []] == ["acme:1:2"]


def test_a_run_that_was_killed_is_found_within_about_two_minutes() -> None:
    assert TTL_S + INTERVAL_S <= 120


def test_a_run_that_renews_its_lease_may_take_long(project: Project, instance: dg.DagsterInstance) -> None:
    run = started(instance, "change:1", ago_s=7 * 24 * 3600)
    take_lease(project.database(), run)
    assert look(instance, look(instance).cursor).run_requests == []
    assert status(instance, run) is Status.STARTED


def test_a_run_killed_before_it_got_the_lease_is_over_at_the_second_look(instance: dg.DagsterInstance) -> None:
    old, young = started(instance, "change:1", UNLEASED_S + 5), started(instance, "change:2", UNLEASED_S - 60)
    retention = started(
        instance, "", UNLEASED_S + 5, job="rageval_retention"
    )  # works on many clients, and holds no lease
    first = look(instance)
    assert json.loads(first.cursor or "") == [old.run_id]
    assert status(instance, old) is Status.STARTED  # it may just have given its lease back, at its end
    look(instance, first.cursor)
    assert [status(instance, run) for run in (old, young, retention)] == [
        Status.FAILURE,
        Status.STARTED,
        Status.STARTED,
    ]


def test_a_nightly_run_that_died_is_asked_for_again_a_few_times(project: Project, instance: dg.DagsterInstance) -> None:
    requests = []
    for attempt in range(1, MAX_ATTEMPTS + 1):
        run = started(instance, "schedule:2026-05-03T02:00")
        take_lease(project.database(), run, ttl_s=-1)
        asked = look(instance).run_requests or []
        assert len(asked) == (attempt < MAX_ATTEMPTS)
        requests += asked
    assert {request.partition_key for request in requests} == {ACME}
    assert {request.run_config["resources"]["rageval_plan"]["config"]["trigger"] for request in requests} == {
        "schedule:2026-05-03T02:00"
    }
    assert len({request.run_key for request in requests}) == MAX_ATTEMPTS - 1
    assert look(instance).run_requests == []


def test_a_nightly_run_is_asked_for_again_with_the_assets_that_it_had(
    project: Project, instance: dg.DagsterInstance
) -> None:
    instance.add_dynamic_partitions(CLIENTS_PARTITIONS, [ACME])
    trigger = "schedule:2026-05-03T02:00"
    run = instance.create_run_for_job(
        defs.resolve_job_def(EVALUATION_JOB).get_subset(asset_selection=set(UNDUE_KEYS)),
        tags=run_tags(ACME, trigger),
        run_config=run_config(trigger, renewal_left_out=True),
        asset_selection=set(UNDUE_KEYS),
        status=Status.STARTED,
    )
    take_lease(project.database(), run, ttl_s=-1)
    [request] = look(instance).run_requests
    assert set(request.asset_selection or ()) == set(UNDUE_KEYS)


def test_a_nightly_run_that_was_failed_before_it_began_is_asked_for_again(instance: dg.DagsterInstance) -> None:
    """As Dagster does with a run that waited at the broker for too long."""
    waited = queued(instance, "schedule:2026-05-03T02:00")
    began = started(instance, "schedule:2026-05-02T02:00")
    changed = queued(instance, "change:1")  # its own sensor asks for it again
    for run in (waited, began, changed):
        instance.report_run_failed(run, "failed by the test")
    first = look(instance)
    [request] = first.run_requests
    assert request.tags["rageval/trigger"] == "schedule:2026-05-03T02:00"
    [same] = look(instance, first.cursor).run_requests  # which Dagster skips for its key
    assert same.run_key == request.run_key
    queued(instance, "schedule:2026-05-03T02:00")
    assert look(instance).run_requests == []


def test_it_is_on_also_where_evaluation_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALUATION_ENABLED", "false")
    from rageval_dagster.automation.dead_runs import dead_run_sensor

    assert dead_run_sensor().default_status is dg.DefaultSensorStatus.RUNNING


def test_a_forgotten_clients_run_is_not_asked_for_again_and_stops_no_look(instance: dg.DagsterInstance) -> None:
    run = queued(instance, "schedule:2026-05-03T02:00")
    instance.report_run_failed(run)
    instance.delete_dynamic_partition(CLIENTS_PARTITIONS, ACME)
    assert look(instance).run_requests == []
