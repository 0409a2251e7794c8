"""An evaluation that is killed at any moment and run again gives the rows of an undisturbed one, none twice."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from rageval_dagster.evaluation.summary import reports_of
from rageval_dagster.storage.database import open_database
from tests.conftest import new_database
from tests.lost_heartbeats import let_leases_expire
from tests.pipeline.looks import look, tick
from tests.pipeline.small_project import Project, documents
from tests.pipeline.table_rows import hashes_left_over, rows_of
from tests.pipeline.warm_process import WarmProcess, warm_process
from tests.processes import KILLED, die_at, exit_code_of

TRIGGER = "change:1"


@pytest.fixture
def warm() -> Iterator[WarmProcess]:
    with warm_process() as started:
        yield started


@dataclass
class Copy:
    """A copy of a project whose client was never evaluated, with a history database of its own."""

    folder: Path
    environment: dict[str, str]
    url: str

    def run(self, warm: WarmProcess, die_at: int | None = None) -> int:
        """Evaluates the client; the exit status. `die_at`: as `WarmProcess.start` has it."""
        warm.start(self.folder, self.environment, "acme", TRIGGER, die_at)
        return warm.wait()

    def wait_out(self) -> None:
        """Time goes by until the lease of the killed run is free."""
        db = open_database(self.url)
        let_leases_expire(db)
        db.dispose()

    def rows(self) -> dict[str, list[str]]:
        db = open_database(self.url)
        try:
            assert not hashes_left_over(db)
            return rows_of(db)
        finally:
            db.dispose()


@pytest.fixture
def copy_of(served: Project, backend: str) -> Callable[[str], AbstractContextManager[Copy]]:
    with dg.DagsterInstance.get():  # makes Dagster's own tables
        pass
    variables = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}

    @contextmanager
    def make(name: str) -> Iterator[Copy]:
        folder = served.folder / name
        folder.mkdir()
        shutil.copytree(served.folder / "home", folder / "home")
        with new_database(backend, folder) as url:
            home = {"RAGEVAL_HOME": str(folder / "home"), "RAGEVAL_DATABASE_URL": url}
            yield Copy(folder, variables | served.environment | home, url)
        shutil.rmtree(folder)

    return make


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("backend", "kills"),
    [
        pytest.param("sqlite", 2, marks=pytest.mark.core),
        pytest.param("postgresql", 1, marks=pytest.mark.core),
        ("sqlite", 10),
        ("postgresql", 10),
    ],
    indirect=["backend"],
)
def test_killed_at_any_moment_and_run_again(
    warm: WarmProcess, copy_of: Callable[[str], AbstractContextManager[Copy]], kills: int
) -> None:
    """The moments are even steps of what a run writes, to the history and to Dagster's own tables."""
    with copy_of("undisturbed") as undisturbed:
        assert undisturbed.run(warm) == 0, (undisturbed.folder / "run.log").read_text()
        writes = int((undisturbed.folder / "writes").read_text())
        expected = undisturbed.rows()
    for kill in range(kills):
        moment = writes * (2 * kill + 1) // (2 * kills)
        with copy_of(f"kill{kill}") as killed:
            assert killed.run(warm, die_at=moment) == -signal.SIGKILL
            killed.wait_out()
            assert killed.run(warm) == 0, (killed.folder / "run.log").read_text()
            assert killed.rows() == expected, f"killed before write {moment} of {writes}"


def evaluate_until_a_check_is_stored(folder: Path, environment: dict[str, str]) -> None:
    """The first check that is stored is that of the benchmark, the second one is of the verdict."""
    die_at(2, ("UPDATE asset_check_executions",))
    Project(folder, environment).evaluate("acme", TRIGGER, only_if_changed=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_that_was_killed_between_its_verdict_and_its_checks_is_asked_for_again_and_makes_them(
    project: Project,
) -> None:
    project.ingest("acme", documents("lighthouse", count=3))
    with dg.DagsterInstance.get() as instance:
        asked = [request.run_key for request in tick(instance).run_requests or []]
        assert asked == ["acme:1:1"]
        assert exit_code_of(evaluate_until_a_check_is_stored, project.folder, project.environment) == KILLED
        db = project.database()
        [killed] = reports_of(db, "acme", TRIGGER)
        assert killed.evaluation.judged
        let_leases_expire(db)
        look("rageval_dead_run_sensor", instance)
        assert [request.run_key for request in tick(instance).run_requests or []] == ["acme:1:2"]
        assert project.evaluate("acme", TRIGGER, only_if_changed=True).failure is None
        [again] = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS]))
        kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
        names = {
            entry.get_dagster_event().asset_check_evaluation_data.check_name
            for entry in instance.all_logs(again.run_id, of_type=kind)
        }
        assert {"complete", "no_foreign_chunks", "no_newly_failing"} <= names
        assert tick(instance).run_requests == []
    assert [report.evaluation.id for report in reports_of(db, "acme", TRIGGER)] == [killed.evaluation.id]
