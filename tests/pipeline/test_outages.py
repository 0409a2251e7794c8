"""What a run needs goes away in its middle for a moment: it waits, or does the step again, and ends as it would."""

import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import pytest
import sqlalchemy as sa

from rageval_dagster.resources import textless
from rageval_dagster.storage import database
from rageval_dagster.storage.database import open_database
from rageval_dagster.storage.tables import clients
from rageval_dagster.storage.types import utc_now
from tests.conftest import new_database
from tests.corpus.conftest import new_server_database
from tests.cut_proxy import CutProxy
from tests.pipeline.small_project import Project, documents
from tests.pipeline.table_rows import rows_of

AWAY_S = 3.0
CUTS = 3

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> Callable[[Project, str], dict[str, list[str]]]:
    """Evaluates the client over a history database; all its rows."""

    def evaluate(project: Project, url: str) -> dict[str, list[str]]:
        assert project.given(monkeypatch, RAGEVAL_DATABASE_URL=url).evaluate("acme", "change:1").failure is None
        db = open_database(url)
        try:
            return rows_of(db)
        finally:
            db.dispose()

    return evaluate


class Cuts:
    """Cuts a proxy a few times, each after so many more pieces of what is said to the server; None: for good."""

    def __init__(self, after: list[int], away_s: float | None) -> None:
        self.proxy: CutProxy | None = None
        self.done = 0
        self._after = after
        self._away_s = away_s
        self._pieces = 0
        self._lock = threading.Lock()

    def __call__(self, _: bytes) -> None:
        with self._lock:
            self._pieces += 1
            if self.proxy is None or self.done == len(self._after) or self._pieces < self._after[self.done]:
                return
            self._pieces = 0
            self.done += 1
            self.proxy.cut()
            if self._away_s is not None:
                threading.Timer(self._away_s, self.proxy.restore).start()


@pytest.mark.parametrize("backend", ["postgresql", "mariadb"], indirect=True)
def test_the_history_database_goes_away_and_comes_back(
    served: Project, backend: str, evaluated: Callable[[Project, str], dict[str, list[str]]]
) -> None:
    expected = evaluated(served, f"sqlite:///{served.folder / 'undisturbed.sqlite3'}")
    moments = random.Random(6)
    cuts = Cuts([moments.randint(150, 250) for _ in range(CUTS)], AWAY_S)
    with new_database(backend, served.folder) as real:
        url = sa.make_url(real)
        port = {"postgresql": 5432, "mariadb": 3306}[backend]
        with CutProxy(url.host or "127.0.0.1", url.port or port, cuts) as proxy:
            cuts.proxy = proxy
            found = evaluated(served, url.set(port=proxy.port).render_as_string(hide_password=False))
    assert cuts.done == CUTS
    assert found == expected


def test_another_process_keeps_the_file_of_sqlite_for_longer_than_a_writer_waits(
    served: Project, evaluated: Callable[[Project, str], dict[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = evaluated(served, f"sqlite:///{served.folder / 'undisturbed.sqlite3'}")
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", int(AWAY_S * 1000 / 3))
    path = served.folder / "history.sqlite3"
    open_database(f"sqlite:///{path}").dispose()
    with kept_now_and_then(path, CUTS):
        assert evaluated(served, f"sqlite:///{path}") == expected


@contextmanager
def kept_now_and_then(path: object, times: int) -> Iterator[None]:
    """Another connection holds the file's write lock a few times for `AWAY_S`."""
    over = threading.Event()

    def keep() -> None:
        with closing(sqlite3.connect(str(path), timeout=60, isolation_level=None)) as other:
            for _ in range(times):
                other.execute("BEGIN EXCLUSIVE")
                over.wait(AWAY_S)
                other.execute("ROLLBACK")
                over.wait(AWAY_S / 3)

    keeper = threading.Thread(target=keep)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()


class ThroughAProxy(NamedTuple):
    """A project whose documents are on a Chroma server behind a proxy that can be cut."""

    project: Project
    proxy: CutProxy


@pytest.fixture
def cuts() -> Cuts:
    return Cuts([3, 6, 9], AWAY_S)


@pytest.fixture
def behind(served: Project, chroma_server: str, cuts: Cuts, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThroughAProxy]:
    host, port = chroma_server.removeprefix("http://").split(":")
    with CutProxy(host, int(port), cuts) as proxy:
        url, database = f"http://127.0.0.1:{proxy.port}", new_server_database(chroma_server)
        project = served.given(monkeypatch, RAGEVAL_CHROMA_URL=url, RAGEVAL_CHROMA_DATABASE=database)
        project.ingest("acme", documents("lighthouse", count=4))
        yield ThroughAProxy(project, proxy)


def test_chroma_goes_away_and_comes_back(
    behind: ThroughAProxy,
    cuts: Cuts,
    evaluated: Callable[[Project, str], dict[str, list[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(textless, "RETRY_AFTER_S", AWAY_S + 1)  # each time away costs one of the retries
    expected = evaluated(behind.project, f"sqlite:///{behind.project.folder / 'undisturbed.sqlite3'}")
    cuts.proxy = behind.proxy
    found = evaluated(behind.project, f"sqlite:///{behind.project.folder / 'history.sqlite3'}")
    assert cuts.done == CUTS
    assert found == expected


def test_chroma_that_stays_away_is_one_clear_line_and_the_next_run_completes(
    behind: ThroughAProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(textless, "RETRY_AFTER_S", 0)
    behind.proxy.cut()
    launched = behind.project.evaluate("acme", "change:1")
    assert launched.failed_step == "corpus_version"
    assert launched.message is not None
    assert launched.message.startswith("no Chroma server answers at http://127.0.0.1")
    behind.proxy.restore()
    assert behind.project.evaluate("acme", "change:1").failure is None


def test_a_history_database_that_stays_away_is_one_clear_line_and_the_next_run_completes(
    served: Project, evaluated: Callable[[Project, str], dict[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = evaluated(served, f"sqlite:///{served.folder / 'undisturbed.sqlite3'}")
    monkeypatch.setattr(database, "OUTAGE_S", AWAY_S)
    cuts = Cuts([300], None)
    with new_database("postgresql", served.folder) as real:
        url = sa.make_url(real)
        with CutProxy(url.host or "127.0.0.1", url.port or 5432, cuts) as proxy:
            cuts.proxy = proxy
            through = url.set(port=proxy.port).render_as_string(hide_password=False)
            launched = served.given(monkeypatch, RAGEVAL_DATABASE_URL=through).evaluate("acme", "change:1")
            assert launched.message is not None
            assert launched.message.endswith("check RAGEVAL_DATABASE_URL and that the database runs")
            proxy.restore()
            db = open_database(through)
            with db.begin() as connection:  # as when the process of the run that failed, which is this one, has ended
                connection.execute(sa.update(clients).values(lease_expires_at=utc_now()))
            db.dispose()
            assert evaluated(served, through) == expected
