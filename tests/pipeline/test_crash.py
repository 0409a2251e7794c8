"""An evaluation that is killed at any moment and run again gives the rows of an undisturbed one, none twice."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from rageval_dagster.storage.database import open_database
from tests.conftest import new_database
from tests.pipeline.small_project import Project
from tests.pipeline.table_rows import count_of, rows_of
from tests.pipeline.warm_process import WarmProcess, warm_process

KILLS = 20
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

    def run(self, warm: WarmProcess, kill_after_s: float | None = None) -> tuple[int, float]:
        """Evaluates the client; the exit status, and how long it took."""
        began = time.monotonic()
        number = warm.start(self.folder, self.environment, "acme", TRIGGER)
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            with suppress(ProcessLookupError):  # it was faster than the undisturbed one
                os.kill(number, signal.SIGKILL)
        return warm.wait(), time.monotonic() - began

    def rows(self) -> dict[str, list[str]]:
        db = open_database(self.url)
        try:
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
@pytest.mark.parametrize("backend", ["sqlite", "postgresql"], indirect=True)
def test_killed_at_random_moments_and_run_again(
    warm: WarmProcess, copy_of: Callable[[str], AbstractContextManager[Copy]], backend: str
) -> None:
    durations = []
    for name in ("undisturbed", "undisturbed again"):
        with copy_of(name) as undisturbed:
            status, duration = undisturbed.run(warm)
            assert status == 0, (undisturbed.folder / "run.log").read_text()
            durations.append(duration)
            expected = undisturbed.rows()
    duration = min(durations)
    moments = random.Random(6)
    ended = 0
    for kill in range(KILLS):
        with copy_of(f"kill{kill}") as killed:
            moment = moments.uniform(0, duration)
            status, _ = killed.run(warm, kill_after_s=moment)
            assert status in (-signal.SIGKILL, 0)
            ended += status == 0
            status, _ = killed.run(warm)
            assert status == 0, (killed.folder / "run.log").read_text()
            assert killed.rows() == expected, f"kill {kill}, {moment:.2f} s of {duration:.2f} s"
    assert ended < KILLS / 4, "the moments are to be within the run"
    print(f"{backend}: {KILLS} kills within {duration:.1f} s, {count_of(expected)} rows each")
