"""The lease that keeps two runs from one client, and from writing where it was lost."""

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, tzinfo
from multiprocessing.connection import Connection

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from rageval_dagster.errors import LeaseHeldError
from rageval_dagster.storage import leases, types
from rageval_dagster.storage.clients import ensure_client, get_client, observe_probe
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.types import utc_now
from tests.lost_heartbeats import let_leases_expire
from tests.processes import exit_code_of


def test_a_second_holder_is_refused_until_the_first_lets_go(db: Database) -> None:
    ensure_client(db, "acme")
    ensure_client(db, "other")
    first = leases.acquire_lease(db, "acme", "run 1")
    with pytest.raises(LeaseHeldError, match="run 1"):
        leases.acquire_lease(db, "acme", "run 2")
    leases.acquire_lease(db, "other", "run 2")
    leases.release_lease(db, first)
    assert leases.acquire_lease(db, "acme", "run 2").token > first.token


def test_an_expired_lease_is_taken_over_and_its_old_holder_is_told(db: Database) -> None:
    ensure_client(db, "acme")
    old = leases.acquire_lease(db, "acme", "run 1", ttl_s=-1)
    new = leases.acquire_lease(db, "acme", "run 2")
    assert new.token > old.token
    with pytest.raises(LeaseHeldError, match="lost"):
        leases.renew_lease(db, old)
    leases.release_lease(db, old)
    leases.renew_lease(db, new)
    with pytest.raises(LeaseHeldError, match="run 2"):
        leases.acquire_lease(db, "acme", "run 3")


def test_a_renewed_lease_lives_on(db: Database) -> None:
    ensure_client(db, "acme")
    lease = leases.acquire_lease(db, "acme", "run 1", ttl_s=-1)
    leases.renew_lease(db, lease, ttl_s=60)
    with pytest.raises(LeaseHeldError):
        leases.acquire_lease(db, "acme", "run 2")


def take_lease(url: str) -> None:
    db = open_database(url)
    ensure_client(db, "acme")
    leases.acquire_lease(db, "acme", leases.lease_holder("evaluate"))


def test_the_lease_of_a_process_that_died_is_free_when_it_expires_and_who_asks_is_told_when(db: Database) -> None:
    url = db.engine.url.render_as_string(hide_password=False)
    assert exit_code_of(take_lease, url) == 0
    with pytest.raises(LeaseHeldError, match=r"evaluate; .*if it was killed, the client is free in [1-9][0-9]? s"):
        leases.acquire_lease(db, "acme", leases.lease_holder("ingest"))
    told: list[str] = []
    with (
        pytest.raises(LeaseHeldError),
        leases.keep_lease(db, "acme", leases.lease_holder("ingest"), wait_s=0.01, waiting=told.append),
    ):
        pass
    assert "evaluate" in told[0]
    assert "if it was killed, the client is free in" in told[0]
    [held] = leases.held_leases(db)
    assert not held.is_dead
    let_leases_expire(db)
    [held] = leases.held_leases(db)
    assert held.is_dead
    assert leases.acquire_lease(db, "acme", leases.lease_holder("ingest")).taken_from == held.holder


def test_of_eight_that_want_a_lease_at_once_one_gets_it(db: Database) -> None:
    ensure_client(db, "acme")
    start = threading.Barrier(8)

    def gets_it(number: int) -> bool:
        start.wait()
        try:
            leases.acquire_lease(db, "acme", f"run {number}")
        except LeaseHeldError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(gets_it, range(8))) == 1


def test_a_kept_lease_is_renewed_while_the_block_lasts_and_free_after_it(sqlite_db: Database) -> None:
    ensure_client(sqlite_db, "acme")
    renewed = threading.Event()

    @event.listens_for(sqlite_db.engine, "commit")
    def notice(_connection: sa.Connection) -> None:
        if threading.current_thread() is not threading.main_thread():
            renewed.set()

    with leases.keep_lease(sqlite_db, "acme", "run 1", ttl_s=0.4):
        assert renewed.wait(60)
    leases.acquire_lease(sqlite_db, "acme", "run 2")


def test_a_lease_that_somebody_has_is_waited_for(sqlite_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "POLL_S", 0.01)
    ensure_client(sqlite_db, "acme")
    first = leases.acquire_lease(sqlite_db, "acme", "run 1")
    with pytest.raises(LeaseHeldError), leases.keep_lease(sqlite_db, "acme", "run 2", wait_s=0.05):
        pass
    release = threading.Timer(0.1, leases.release_lease, (sqlite_db, first))
    release.start()
    with leases.keep_lease(sqlite_db, "acme", "run 2", wait_s=30) as second:
        assert second.token == first.token + 1
    release.join()


def test_a_block_that_lost_its_lease_ends_with_an_error(sqlite_db: Database) -> None:
    ensure_client(sqlite_db, "acme")

    def work() -> None:
        with leases.keep_lease(sqlite_db, "acme", "run 1", ttl_s=0.2) as lease:
            leases.release_lease(sqlite_db, lease)
            heartbeat = next(thread for thread in threading.enumerate() if thread.name == f"lease-{lease.token}")
            heartbeat.join(60)

    with pytest.raises(LeaseHeldError, match="lost"):
        work()


def stop_while_writing(url: str, said: Connection) -> None:
    """Works under a short lease, stops itself as a machine that is suspended does, and goes on when it wakes up."""
    db = open_database(url)
    renewed = threading.Event()

    @event.listens_for(db.engine, "checkin")
    def notice(*_: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            renewed.set()

    try:
        with leases.keep_lease(db, "acme", leases.lease_holder("run 1"), ttl_s=1):
            observe_probe(db, "acme", "first")
            renewed.clear()
            renewed.wait(60)  # the next heartbeat is far: none holds a lock while the process stands still
            said.send("stops")
            os.kill(os.getpid(), signal.SIGSTOP)
            observe_probe(db, "acme", "too late")
    except LeaseHeldError as error:
        said.send(str(error))


@pytest.mark.core
def test_who_stood_still_until_another_took_over_writes_no_more(db: Database) -> None:
    ensure_client(db, "acme")
    spawning = multiprocessing.get_context("spawn")
    told, said = spawning.Pipe(duplex=False)
    url = db.engine.url.render_as_string(hide_password=False)
    first = spawning.Process(target=stop_while_writing, args=(url, said))
    first.start()
    try:
        assert told.poll(60)
        assert told.recv() == "stops"
        with leases.keep_lease(db, "acme", "run 2", wait_s=60):
            assert observe_probe(db, "acme", "second") == 2
            assert first.pid is not None
            os.kill(first.pid, signal.SIGCONT)
            assert told.poll(60)
            assert "the lease of" in told.recv()
            first.join()
            assert first.exitcode == 0
    finally:
        first.kill()  # one that stands still would be waited for when the tests end
    assert get_client(db, "acme").probe == "second"
    assert get_client(db, "acme").lease_holder is None


def test_leases_go_by_the_clock_of_the_database_which_is_utc_on_all_of_them(db: Database) -> None:
    ensure_client(db, "acme")
    about = timedelta(seconds=1)  # SQLite's has milliseconds
    before = utc_now() - about
    assert before <= leases.database_now(db) <= utc_now() + about
    leases.acquire_lease(db, "acme", "run 1", ttl_s=600)
    [held] = leases.held_leases(db)
    assert before <= held.expires_at - timedelta(seconds=600) <= utc_now() + about
    assert get_client(db, "acme").is_busy
    let_leases_expire(db)
    assert not get_client(db, "acme").is_busy


class SlowMachine(datetime):
    """The clock of a machine that is a day behind."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) - timedelta(days=1)


def take_lease_by_a_wrong_clock(url: str) -> None:
    types.datetime = SlowMachine  # pyright: ignore[reportAttributeAccessIssue]
    take_lease(url)


def test_a_machine_whose_clock_is_wrong_holds_its_lease_as_long_as_others(db: Database) -> None:
    url = db.engine.url.render_as_string(hide_password=False)
    assert exit_code_of(take_lease_by_a_wrong_clock, url) == 0
    with pytest.raises(LeaseHeldError, match="evaluate"):
        leases.acquire_lease(db, "acme", "run 2")
