"""What automation/dagster_internals.py relies on, held against the installed Dagster.

scripts/contracts.sh tries others. All runs are of a job of this file's own, so that it is quick.
"""

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.remote_origin import RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._core.workspace.load_target import ModuleTarget
from dagster_shared.error import SerializableErrorInfo

from rageval_dagster.automation import dagster_internals as internals
from rageval_dagster.storage.forgetting import scrub_file

FORGOTTEN, OTHER = 'forget "me"', "other"
IN_JSON = 'forget \\"me'
CLIENTS = dg.DynamicPartitionsDefinition(name="clients")
MODULE = "rageval_dagster.definitions"
OWNED = internals.Owned("our_", [dg.AssetKey("thing")])


@dg.asset(
    partitions_def=CLIENTS,
    check_specs=[dg.AssetCheckSpec("sound", asset="thing", blocking=True, partitions_def=CLIENTS)],
)
def thing(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    if context.partition_key == "stopped":
        raise KeyboardInterrupt
    if context.partition_key == "failing":
        raise RuntimeError("around it") from LookupError("the root")
    context.log.info("a line of ours")
    sound = dg.AssetCheckResult(passed=context.partition_key != "unsound", check_name="sound")
    return dg.MaterializeResult(check_results=[sound])


class Records(logging.Handler):
    """Keeps what Dagster lets a logger say."""

    def __init__(self) -> None:
        super().__init__()
        self.meta: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.meta.append(record.dagster_meta)  # pyright: ignore[reportAttributeAccessIssue]


RECORDS = Records()


@dg.logger
def recording(_: dg.InitLoggerContext) -> logging.Logger:
    made = logging.Logger("recording")
    made.addHandler(RECORDS)
    return made


@dg.asset(partitions_def=CLIENTS)
def their_thing() -> None:
    """Another project's, which has its own of each client."""


@dg.asset
def their_table() -> None:
    """Another project's, of no client."""


DEFS = dg.Definitions(
    assets=[thing, their_thing, their_table],
    jobs=[
        dg.define_asset_job("our_job", [thing]),
        dg.define_asset_job("their_job", [their_thing]),
        dg.define_asset_job("their_daily_job", [their_table]),
        dg.define_asset_job("their_job_with_ours", [thing]),
    ],
    loggers={"recording": recording},
    executor=dg.in_process_executor,
)
JOB = DEFS.resolve_job_def("our_job")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """On SQLite in a folder, as the project's own is."""
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides={"telemetry": {"enabled": False}}) as made:
        made.add_dynamic_partitions("clients", [FORGOTTEN, OTHER, "failing", "unsound", "stopped"])
        yield made


def run(instance: dg.DagsterInstance, partition: str, trigger: str = "change:1") -> tuple[str, list[dg.DagsterEvent]]:
    tags = {"dagster/partition": partition, "rageval/trigger": trigger}
    config = {"loggers": {"recording": {}}}
    run_id, events = internals.start_run(instance, JOB, config, tags, MODULE, "location")
    return run_id, list(events)


def failed_step(events: list[dg.DagsterEvent]) -> dg.DagsterEvent:
    return next(event for event in events if event.is_step_failure)


def traces(instance: dg.DagsterInstance) -> list[str]:
    """The files of Dagster's storage that have the forgotten name."""
    root = Path(instance.root_directory)
    for name in internals.STORAGE_FILES:
        scrub_file(root / name)
    return [
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and any(word.encode() in path.read_bytes() for word in (FORGOTTEN, IN_JSON))
    ]


def test_cron() -> None:
    assert [internals.is_cron(text) for text in ("0 2 * * *", "@daily", "61 2 * * *", "nightly")] == [
        True,
        True,
        False,
        False,
    ]


class TestRunning:
    def test_a_run_tells_its_steps_and_belongs_to_the_job_of_the_ui(self, instance: dg.DagsterInstance) -> None:
        run_id, events = run(instance, OTHER)
        assert [event.step_key for event in events if event.is_step_start] == ["thing"]
        stored = instance.get_run_by_id(run_id)
        assert stored is not None
        assert (stored.job_name, stored.status) == ("our_job", dg.DagsterRunStatus.SUCCESS)
        origin = stored.remote_job_origin
        assert origin is not None
        assert origin.repository_origin.repository_name == "__repository__"
        assert origin.repository_origin.code_location_origin.location_name == "location"

    def test_a_failure_has_its_cause_at_the_root(self, instance: dg.DagsterInstance) -> None:
        _, events = run(instance, "failing")
        assert not any(map(internals.is_interruption, events))
        cause = internals.root_cause(failed_step(events).step_failure_data.error)
        assert (cause.cls_name, cause.message.strip()) == ("LookupError", "LookupError: the root")
        assert internals.root_cause(None) is None

    def test_a_blocking_check_fails_the_step_by_its_class(self, instance: dg.DagsterInstance) -> None:
        _, events = run(instance, "unsound")
        cause = internals.root_cause(failed_step(events).step_failure_data.error)
        assert cause.cls_name == internals.CHECK_FAILED
        assert ": " in cause.message

    def test_one_that_was_stopped_is_told_from_one_that_failed(self, instance: dg.DagsterInstance) -> None:
        _, events = run(instance, "stopped")
        assert [event.event_type_value for event in events if internals.is_interruption(event)] == ["PIPELINE_FAILURE"]

    def test_a_logger_sees_whose_line_it_is(self, instance: dg.DagsterInstance) -> None:
        RECORDS.meta.clear()
        run(instance, OTHER)
        [ours] = [meta for meta in RECORDS.meta if meta["orig_message"] == "a line of ours"]
        assert (ours["step_key"], ours["dagster_event"]) == ("thing", None)
        assert any(meta["dagster_event"] is not None for meta in RECORDS.meta)

    def test_a_check_is_stored_about_the_newest_materialization(self, instance: dg.DagsterInstance) -> None:
        run_id, _ = run(instance, OTHER)
        stored = instance.get_run_by_id(run_id)
        assert stored is not None
        internals.report_check(instance, stored, dg.AssetKey("thing"), "fresh", OTHER, False, "36 hours old")
        kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
        found = [entry.get_dagster_event() for entry in instance.all_logs(run_id, of_type=kind)][-1]
        told = found.asset_check_evaluation_data
        assert (told.check_name, told.passed, told.partition) == ("fresh", False, OTHER)
        assert told.description == "36 hours old"
        assert told.target_materialization_data is not None
        assert told.target_materialization_data.run_id == run_id


class TestLooking:
    def test_runs_are_found_by_tag_and_partition(self, instance: dg.DagsterInstance) -> None:
        ended, _ = run(instance, OTHER)
        run(instance, "failing", "change:2")
        waiting = instance.create_run_for_job(JOB, tags={"dagster/partition": FORGOTTEN, "rageval/trigger": "change:1"})
        shared = instance.create_run_for_job(JOB)
        found = sorted(internals.statuses_by_tag(instance, "our_job", "rageval/trigger", ["change:1", "change:2"]))
        status = dg.DagsterRunStatus
        assert found == [
            ("failing", "change:2", status.FAILURE),
            (FORGOTTEN, "change:1", status.NOT_STARTED),
            (OTHER, "change:1", status.SUCCESS),
        ]
        assert list(internals.statuses_by_tag(instance, "another", "rageval/trigger", ["change:1"])) == []
        assert internals.partitions_at_work(instance, "our_job") == {FORGOTTEN, None}
        assert internals.runs_of(instance, OTHER, OWNED) == {ended: True}
        assert internals.runs_of(instance, FORGOTTEN, OWNED) == {waiting.run_id: False}
        assert internals.runs_of(instance, None, OWNED) == {shared.run_id: False}


def instigation(instance: dg.DagsterInstance, name: str) -> InstigatorState:
    """What the daemon keeps of a sensor that asked for runs of both."""
    [location] = ModuleTarget(MODULE, None, None, "location").create_origins()
    origin = RemoteRepositoryOrigin(location, "__repository__").get_instigator_origin(name)
    known = SensorInstigatorData(cursor=f'["{IN_JSON}"]', last_run_key=f"{FORGOTTEN}:1")
    state = InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, known)
    instance.add_instigator_state(state)
    said = SerializableErrorInfo(f"client {FORGOTTEN!r}: away", [], None)
    for status, error in ((TickStatus.SUCCESS, None), (TickStatus.FAILURE, said)):
        instance.create_tick(
            TickData(
                state.instigator_origin_id,
                state.name,
                InstigatorType.SENSOR,
                status,
                datetime.now(UTC).timestamp(),
                run_ids=["one"],
                run_keys=[f"{FORGOTTEN}:1"],
                cursor=f'["{IN_JSON}"]',
                selector_id=state.selector_id,
                error=error,
            )
        )
    return state


def backfill(
    instance: dg.DagsterInstance, number: str, status: BulkActionStatus, partition: str, asset: str = "thing"
) -> None:
    tags = {"rageval/client": partition}
    about = {"asset_selection": [dg.AssetKey(asset)], "partition_names": [partition]}
    instance.add_backfill(PartitionBackfill(number, status, False, tags, time.time(), **about))


class TestDeleting:
    def test_nothing_of_a_partition_is_left_and_all_of_the_others(self, instance: dg.DagsterInstance) -> None:
        kept, _ = run(instance, OTHER)
        gone, _ = run(instance, FORGOTTEN)
        stored = instance.get_run_by_id(gone)
        assert stored is not None
        internals.report_check(instance, stored, dg.AssetKey("thing"), "fresh", FORGOTTEN, True, "new")
        state = instigation(instance, "our_sensor")
        backfill(instance, "done", BulkActionStatus.COMPLETED_SUCCESS, FORGOTTEN)
        backfill(instance, "others", BulkActionStatus.COMPLETED_SUCCESS, OTHER)
        assert {name.split("/")[-1] for name in traces(instance)} >= {"runs.db", "index.db", "schedules.db"}

        internals.delete_run(instance, gone)
        internals.delete_records(instance, FORGOTTEN, OWNED)
        assert internals.delete_backfills(instance, {FORGOTTEN}, OWNED) == []
        internals.blank_ticks(instance, {FORGOTTEN}, OWNED, lambda cursor: f"{len(cursor or '')} characters")
        instance.delete_dynamic_partition("clients", FORGOTTEN)
        assert traces(instance) == []

        assert [each.run_id for each in instance.get_runs()] == [kept]
        assert [each.backfill_id for each in instance.get_backfills()] == ["others"]
        last = instance.get_latest_materialization_event(dg.AssetKey("thing"))
        assert last is not None
        assert last.asset_materialization is not None
        assert last.asset_materialization.partition == OTHER
        [state] = instance.all_instigator_state()
        assert isinstance(state.instigator_data, SensorInstigatorData)
        assert (state.instigator_data.cursor, state.instigator_data.last_run_key) == ("15 characters", None)
        ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id)
        assert {tick.status for tick in ticks} == {TickStatus.SUCCESS, TickStatus.FAILURE}

    def test_another_projects_records_stay_though_they_have_the_name(self, instance: dg.DagsterInstance) -> None:
        tags = {"dagster/partition": FORGOTTEN}
        theirs = DEFS.resolve_job_def("their_job").execute_in_process(
            instance=instance, tags=tags, partition_key=FORGOTTEN
        )
        daily = DEFS.resolve_job_def("their_daily_job").execute_in_process(instance=instance)
        with_ours = DEFS.resolve_job_def("their_job_with_ours").execute_in_process(
            instance=instance, partition_key=FORGOTTEN
        )
        state = instigation(instance, "their_sensor")
        backfill(instance, "theirs", BulkActionStatus.COMPLETED_SUCCESS, FORGOTTEN, asset="their_thing")
        assert internals.runs_of(instance, FORGOTTEN, OWNED) == {with_ours.run_id: True}
        assert internals.runs_of(instance, None, OWNED) == {}

        internals.delete_records(instance, FORGOTTEN, OWNED)
        internals.delete_backfills(instance, {FORGOTTEN}, OWNED)
        internals.blank_ticks(instance, {FORGOTTEN}, OWNED, lambda _: "blanked")
        key = dg.AssetKey("their_thing")
        assert instance.get_materialized_partitions(key) == {FORGOTTEN}
        assert {run.run_id for run in instance.get_runs()} >= {theirs.run_id, daily.run_id}
        assert [each.backfill_id for each in instance.get_backfills()] == ["theirs"]
        [found] = instance.all_instigator_state()
        assert found.instigator_data == state.instigator_data
        assert all(tick.run_keys for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id))

    def test_a_backfill_that_goes_on_stays_and_is_told(self, instance: dg.DagsterInstance) -> None:
        backfill(instance, "going-on", BulkActionStatus.REQUESTED, FORGOTTEN)
        assert internals.delete_backfills(instance, {FORGOTTEN, OTHER}, OWNED) == ["going-on"]
        assert [each.backfill_id for each in instance.get_backfills()] == ["going-on"]
