"""Many clients at once under the real daemon, queue and code server; and one client that several want to work on."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as sa
from dagster import DagsterRunStatus as Status

from rageval_dagster.cli import main
from rageval_dagster.corpus.store import open_store
from rageval_dagster.storage import leases
from rageval_dagster.storage.clients import observe_probe
from rageval_dagster.storage.database import open_database
from rageval_dagster.storage.incidents import open_incidents
from rageval_dagster.storage.tables import clients
from rageval_dagster.storage.types import utc_now
from tests.conftest import new_database
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.services import (
    HoldingModel,
    most_at_once,
    running,
    said_of_locks,
    statuses,
    wait_for,
    with_endpoint,
)
from tests.pipeline.small_project import Project, documents
from tests.pipeline.table_rows import count_of, rows_of
from tests.pipeline.warm_process import FAILED, warm_process

TOPICS = ("lighthouse", "castle", "harbour", "abbey", "museum", "garden", "theatre", "library", "market", "mill")
EVALUATIONS = {"sqlite": 4, "postgresql": 12}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("backend", EVALUATIONS, indirect=True)
def test_clients_at_once_have_the_rows_of_each_by_itself(
    project: Project, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"client-{number:02}" for number in range(EVALUATIONS[backend])]
    with ScriptedServer(held := HoldingModel()) as server:
        held.holds = False
        at_once = with_endpoint(project, server, monkeypatch, RAGEVAL_LLM_TIMEOUT_S="900")
        for number, client in enumerate(names):
            at_once.ingest(client, documents(TOPICS[number % len(TOPICS)], count=3 + number % 4))
        alone = {client: rows_alone(at_once, client, monkeypatch) for client in names}
        held.holds = True

        config = Path(os.environ["DAGSTER_HOME"]) / "dagster.yaml"
        limit = re.sub(r"max_concurrent_runs: \d+", f"max_concurrent_runs: {len(names)}", config.read_text())
        config.write_text(limit)
        with new_database(backend, project.folder) as url:
            monkeypatch.setenv("RAGEVAL_DATABASE_URL", url)
            with dg.DagsterInstance.get() as instance, running(at_once) as services:
                wait_for("all to be in the middle", lambda: statuses(instance)[Status.STARTED] == names)
                held.let_go.set()
                wait_for("all evaluations", lambda: statuses(instance)[Status.SUCCESS] == names)
                assert instance.get_runs_count() == len(names)
                assert most_at_once(instance) == len(names)
                assert said_of_locks(at_once, services) == []
            db = open_database(url)
            for client in names:
                assert rows_of(db, client) == alone[client], client
            assert len(rows_of(db)["evaluation_runs"]) == len(names)
            db.dispose()
    print(f"{backend}: {len(names)} clients at once, {sum(map(count_of, alone.values()))} rows")


def rows_alone(project: Project, client: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What an evaluation of the client finds that has a history database to itself."""
    with monkeypatch.context() as own:
        url = f"sqlite:///{project.folder / f'{client}.sqlite3'}"
        own.setenv("RAGEVAL_DATABASE_URL", url)
        own.setenv("DAGSTER_HOME", str(project.folder / "alone"))
        (project.folder / "alone").mkdir(exist_ok=True)
        other = Project(project.folder, project.environment | {"RAGEVAL_DATABASE_URL": url})
        db = open_database(url)
        observe_probe(db, client, open_store(other.settings).probe(client))  # as the sensor does
        assert other.evaluate(client, "change:1", only_if_changed=True).failure is None
        try:
            return rows_of(db, client)
        finally:
            db.dispose()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_command_line_waits_for_the_daemons_run_and_never_works_beside_it(
    project: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    held = HoldingModel()
    command = ["rageval", "evaluate", "--client", "acme"]
    with ScriptedServer(held) as server:
        project = with_endpoint(project, server, monkeypatch)
        project.ingest("acme", documents("lighthouse", count=3))
        with dg.DagsterInstance.get() as instance, running(project):
            wait_for("the daemon's run to be in the middle", held.asked.is_set)
            [first] = instance.get_runs()
            with monkeypatch.context() as impatient:
                impatient.setattr(leases, "WAIT_S", 2.0)
                impatient.setattr(sys, "argv", command)
                with pytest.raises(SystemExit) as ended:
                    main()
            assert ended.value.code == 2
            *_, said = [line for line in capfd.readouterr().err.splitlines() if "is being worked on" in line]
            assert f"run {first.run_id}; wait for it to end" in said
            assert open_incidents(project.database()) == []  # to find a client busy is no failure of its runs

            patient = subprocess.Popen(
                [sys.executable, "-m", "rageval_dagster", *command[1:]], cwd=project.folder, env=dict(os.environ)
            )
            wait_for("the command's run", lambda: len(statuses(instance)[Status.STARTED]) == 2)
            held.let_go.set()
            assert patient.wait() == 0
            wait_for("both runs", lambda: len(statuses(instance)[Status.SUCCESS]) == 2)
            [second] = [
                run for run in instance.get_runs(dg.RunsFilter(statuses=[Status.SUCCESS])) if run.run_id != first.run_id
            ]
            assert steps(instance, first.run_id)[-1] <= steps(instance, second.run_id)[0]


def steps(instance: dg.DagsterInstance, run_id: str) -> list[float]:
    """When each of a run's steps began and ended."""
    kinds = {dg.DagsterEventType.STEP_START, dg.DagsterEventType.STEP_SUCCESS}
    return sorted(entry.timestamp for entry in instance.all_logs(run_id, of_type=kinds))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("backend", EVALUATIONS, indirect=True)
def test_a_run_that_stood_still_until_another_took_over_writes_no_more(
    project: Project, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HoldingModel()
    with ScriptedServer(held) as server, new_database(backend, project.folder) as url, warm_process() as warm:
        served = with_endpoint(project, server, monkeypatch, RAGEVAL_DATABASE_URL=url)
        served.ingest("acme", documents("lighthouse", count=3))
        number = warm.start(served.folder, dict(os.environ) | served.environment, "acme", "change:1")
        wait_for("the first run to be in the middle", held.asked.is_set)
        os.kill(number, signal.SIGSTOP)
        held.holds = False
        db = open_database(url)
        with db.begin() as connection:  # its time goes by
            connection.execute(sa.update(clients).values(lease_expires_at=utc_now()))
        assert served.evaluate("acme", "change:1").failure is None
        found = rows_of(db)

        os.kill(number, signal.SIGCONT)
        held.let_go.set()
        assert warm.wait() == FAILED
        last = (served.folder / "run.log").read_text().splitlines()[-1]
        assert "client 'acme': the lease of" in last
        assert "was lost to another run; run again (Dagster run" in last
        assert rows_of(db) == found
        db.dispose()
