"""A forgotten client is gone from the database, from Dagster and from every file, and is not taken up by itself."""

import json
import os
import pkgutil
import signal
import sys
from datetime import UTC, datetime

import dagster as dg
import pytest
from dagster._core.remote_origin import RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import (
    DynamicPartitionsRequestResult,
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._core.workspace.load_target import ModuleTarget

from rageval_dagster.app.clients import chosen_clients
from rageval_dagster.app.opening import untold
from rageval_dagster.assets.partitions import CLIENTS_PARTITIONS
from rageval_dagster.automation.alerts import report_freshness
from rageval_dagster.automation.forgetting import held_in_dagster
from rageval_dagster.benchmark.importing import import_dataset
from rageval_dagster.cli import main
from rageval_dagster.corpus.watching import Cursor
from rageval_dagster.definitions import defs
from rageval_dagster.gate.incidents import EndedRun, Freshness, note_run
from rageval_dagster.records import Item
from rageval_dagster.storage.forgetting import left_alone, rows_of, tombstone
from tests.lost_heartbeats import let_leases_expire
from tests.pipeline.looks import nightly_requests, tick
from tests.pipeline.small_project import CANARY, Project
from tests.pipeline.two_clients import FORGOTTEN, OTHER, WORD
from tests.processes import KILLED, exit_code_of


def forget(client: str) -> int:
    """Runs the command; gives its exit code."""
    sys.argv = ["rageval", "forget", "--client", client, "--yes"]
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def traces(project: Project) -> list[str]:
    """The files, apart from the document store, whose name or content has the canary or the client's name."""
    home = project.settings.home
    found = []
    for path in home.rglob("*"):
        if path.is_file() and not path.is_relative_to(home / "chroma"):
            content = path.read_bytes() + str(path.relative_to(home)).encode()
            found += [f"{path.relative_to(home)}: {word}" for word in (CANARY, WORD) if word.encode() in content]
    return found


def told_by_the_daemon() -> None:
    """What the daemon keeps of a look of the sensor that asked for a run of both clients, and one that failed."""
    [location] = ModuleTarget("rageval_dagster.definitions", None, None, "rageval_dagster").create_origins()
    origin = RemoteRepositoryOrigin(location, "__repository__").get_instigator_origin("rageval_document_store_sensor")
    cursor = Cursor({FORGOTTEN: ("probe", 1.0), OTHER: ("probe", 1.0)}).text()
    known = SensorInstigatorData(cursor=cursor, last_run_key=f"{FORGOTTEN}:1:1")
    state = InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, known)
    tick = TickData(
        state.instigator_origin_id,
        state.name,
        InstigatorType.SENSOR,
        TickStatus.SUCCESS,
        datetime.now(UTC).timestamp(),
        run_ids=["one", "two"],
        run_keys=[f"{FORGOTTEN}:1:1", f"{OTHER}:1:1"],
        cursor=cursor,
        selector_id=state.selector_id,
        dynamic_partitions_request_results=[DynamicPartitionsRequestResult(CLIENTS_PARTITIONS, [FORGOTTEN], None, [])],
    )
    with dg.DagsterInstance.get() as instance:
        report_freshness(instance, Freshness(FORGOTTEN, False, 36, None))
        instance.add_instigator_state(state)
        instance.create_tick(tick)


@pytest.mark.core
def test_nothing_of_a_forgotten_client_is_left_in_any_file(two_clients: Project) -> None:
    told_by_the_daemon()
    note_run(two_clients.database(), FORGOTTEN, EndedRun("run-1", failed=True), datetime.now(UTC))
    places = {trace.partition(":")[0].split("/")[-1] for trace in traces(two_clients)}
    assert {"runs.db", "index.db", "schedules.db"} <= places
    assert any(place.startswith("rageval.sqlite3") for place in places)
    assert forget(FORGOTTEN) == 0
    assert traces(two_clients) == []
    # The other client is as it was, for Dagster too.
    assert rows_of(two_clients.database(), OTHER)["evaluation_runs"] == 1
    with dg.DagsterInstance.get() as instance:
        assert [run.tags["dagster/partition"] for run in instance.get_runs()] == [OTHER]
        assert list(instance.get_dynamic_partitions(CLIENTS_PARTITIONS)) == [OTHER]
        event = instance.get_latest_materialization_event(dg.AssetKey("evaluation_runs"))
        assert event is not None
        assert event.asset_materialization is not None
        assert event.asset_materialization.partition == OTHER
        [state] = instance.all_instigator_state()
        assert isinstance(state.instigator_data, SensorInstigatorData)
        assert Cursor.read(state.instigator_data.cursor) == Cursor({OTHER: ("probe", 1.0)})
        [tick] = instance.get_ticks(state.instigator_origin_id, state.selector_id)
        assert tick.status == TickStatus.SUCCESS


@pytest.mark.slow
def test_runs_of_no_single_client_name_it_and_go_too(two_clients: Project) -> None:
    with dg.DagsterInstance.get() as instance:
        by_hand = defs.resolve_implicit_global_asset_job_def().get_subset(
            asset_selection={dg.AssetKey("fleet_overview")}
        )
        assert by_hand.execute_in_process(instance=instance).success
    assert held_in_dagster(two_clients.settings, FORGOTTEN).shared_runs == 1
    assert forget(FORGOTTEN) == 0
    assert traces(two_clients) == []


def forget_and_die(point: str) -> None:
    """Is killed where it comes to this function."""
    owner, _, name = point.rpartition(".")
    setattr(pkgutil.resolve_name(owner), name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    forget(FORGOTTEN)


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "dagster.DagsterInstance.delete_dynamic_partition",
        "rageval_dagster.automation.forgetting.scrub_file",
        "rageval_dagster.storage.forgetting.delete_batch",
        "rageval_dagster.storage.forgetting.bury",
        "rageval_dagster.storage.forgetting.scrub",
    ],
)
def test_a_forgetting_that_was_killed_is_run_again_and_ends(two_clients: Project, point: str) -> None:
    assert exit_code_of(forget_and_die, point) == KILLED
    assert traces(two_clients) != []
    let_leases_expire(two_clients.database())
    assert forget(FORGOTTEN) == 0
    assert traces(two_clients) == []
    assert tombstone(two_clients.database(), FORGOTTEN) is not None


def asked_for(project: Project) -> list[str]:
    """The clients for which the sensor and the schedule ask for runs, and those of `evaluate --all`."""
    with dg.DagsterInstance.get() as instance:
        seen = tick(instance)
        assert FORGOTTEN not in Cursor.read(seen.cursor).pending
        nightly = nightly_requests(instance)
    requests = [*(seen.run_requests or []), *nightly]
    everybody = chosen_clients(project.settings, project.database(), [], untold)
    return [*(str(request.partition_key) for request in requests), *everybody]


@pytest.mark.slow
def test_a_forgotten_client_is_left_alone_until_it_is_named(two_clients: Project) -> None:
    assert asked_for(two_clients).count(FORGOTTEN) == 2
    assert forget(FORGOTTEN) == 0
    assert asked_for(two_clients).count(FORGOTTEN) == 0
    assert OTHER in asked_for(two_clients)
    assert traces(two_clients) == []
    # To name it is the user's own decision.
    assert chosen_clients(two_clients.settings, two_clients.database(), [FORGOTTEN], untold) == [FORGOTTEN]
    path = two_clients.folder / "questions.jsonl"
    path.write_text(json.dumps(Item("Who keeps the lighthouse?").to_dict()), encoding="utf-8")
    import_dataset(two_clients.database(), FORGOTTEN, "logged", path, "native")
    assert left_alone(two_clients.database(), [FORGOTTEN]) == frozenset()
    assert asked_for(two_clients).count(FORGOTTEN) == 3


@pytest.mark.slow
def test_every_file_is_for_its_owner_only(two_clients: Project) -> None:
    home = two_clients.settings.home
    open_to_others = [path for path in (home, *home.rglob("*")) if path.stat().st_mode & 0o077]
    assert open_to_others == []
