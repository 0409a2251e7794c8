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

from rageval_dagster.storage.database import open_database
from tests.conftest import new_database
from tests.lost_heartbeats import let_leases_expire
from tests.pipeline.small_project import Project
from tests.pipeline.table_rows import hashes_left_over, rows_of
from tests.pipeline.warm_process import WarmProcess, warm_process

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
