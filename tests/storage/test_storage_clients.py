"""Clients: counted changes, scans, and the lease that keeps two runs from one client."""

import multiprocessing
import threading
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from rageval_dagster.errors import LeaseHeldError, RagevalError
from rageval_dagster.storage import clients
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.tables import corpus_versions


def test_a_change_of_the_probe_is_counted_once(db: Database) -> None:
    assert clients.observe_probe(db, "acme", "10") == 1
    assert clients.observe_probe(db, "acme", "10") is None
    assert clients.observe_probe(db, "acme", "11") == 2
    assert clients.observe_probe(db, "acme", "10") == 3
    assert clients.get_client(db, "acme").change_seq == 3


def test_what_a_run_has_scanned_is_not_a_change(db: Database) -> None:
    clients.observe_probe(db, "acme", "10")
    clients.settle_probe(db, "acme", "12", change_seq=1)
    assert clients.get_client(db, "acme").scanned_seq == 1
    assert clients.observe_probe(db, "acme", "12") is None
    assert clients.observe_probe(db, "acme", "13") == 2


def test_a_change_counted_during_a_scan_is_neither_lost_nor_counted_again(db: Database) -> None:
    clients.observe_probe(db, "acme", "10")
    clients.observe_probe(db, "acme", "11")
    clients.settle_probe(db, "acme", "10", change_seq=1)
    client = clients.get_client(db, "acme")
    assert (client.change_seq, client.scanned_seq, client.probe) == (2, 1, "11")
    assert clients.observe_probe(db, "acme", "11") is None


def test_a_client_known_without_a_probe_counts_its_first_one(db: Database) -> None:
    clients.ensure_client(db, "acme")
    assert clients.observe_probe(db, "acme", "10") == 1


def test_making_a_client_again_changes_nothing(db: Database) -> None:
    clients.observe_probe(db, "acme", "10")
    before = clients.get_client(db, "acme")
    assert clients.ensure_client(db, "acme") == before


def test_an_unknown_client_is_one_clear_line(db: Database) -> None:
    with pytest.raises(RagevalError, match="'nobody' is not known"):
        clients.get_client(db, "nobody")
    with pytest.raises(RagevalError, match="'nobody' is not known"):
        clients.acquire_lease(db, "nobody", "me")


@pytest.mark.parametrize("name", ["", "x" * 201, "acme ", " acme", "a\x00b", "a\nb", "a\ud800"])
def test_a_name_that_a_database_could_confuse_is_refused(sqlite_db: Database, name: str) -> None:
    with pytest.raises(RagevalError, match="client name"):
        clients.ensure_client(sqlite_db, name)


def test_names_that_differ_in_case_or_accent_are_different_clients(db: Database) -> None:
    names = ["Acme", "acme", "acmé", "株式会社", "a" * 200, "🦜" * 200, "100%_'\"\\;--"]
    for name in names:
        clients.observe_probe(db, name, name[:3])
    assert [client.client_id for client in clients.list_clients(db)] == sorted(names)
    assert clients.get_client(db, "🦜" * 200).probe == "🦜🦜🦜"


def test_a_scan_is_kept_and_each_version_has_one_row(db: Database) -> None:
    counts = {"added": 3, "changed": 0, "removed": 0, "reembedded": 0}
    for corpus, index in [("c1", "i1"), ("c2", "i2"), ("c1", "i1"), ("c1", "i3")]:
        clients.record_scan(db, "acme", corpus, index, 3, 2, counts)
    client = clients.get_client(db, "acme")
    assert (client.corpus_version, client.index_version, client.chunk_count, client.document_count) == (
        "c1",
        "i3",
        3,
        2,
    )
    assert client.scanned_at is not None
    assert client.scanned_at.utcoffset() == datetime.now(UTC).utcoffset()
    with db.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(corpus_versions)).scalar() == 3


def test_what_was_evaluated_never_goes_back(db: Database) -> None:
    clients.ensure_client(db, "acme")
    clients.mark_evaluated(db, "acme", 5)
    clients.mark_evaluated(db, "acme", 3)
    assert clients.get_client(db, "acme").evaluated_seq == 5


def test_a_vanished_client_keeps_the_time_until_it_is_back(db: Database) -> None:
    clients.ensure_client(db, "acme")
    clients.mark_vanished(db, "acme", vanished=True)
    since = clients.get_client(db, "acme").vanished_at
    clients.mark_vanished(db, "acme", vanished=True)
    assert since is not None
    assert clients.get_client(db, "acme").vanished_at == since
    clients.mark_vanished(db, "acme", vanished=False)
    assert clients.get_client(db, "acme").vanished_at is None


def test_a_second_holder_is_refused_until_the_first_lets_go(db: Database) -> None:
    clients.ensure_client(db, "acme")
    clients.ensure_client(db, "other")
    first = clients.acquire_lease(db, "acme", "run 1")
    with pytest.raises(LeaseHeldError, match="run 1"):
        clients.acquire_lease(db, "acme", "run 2")
    clients.acquire_lease(db, "other", "run 2")
    clients.release_lease(db, first)
    assert clients.acquire_lease(db, "acme", "run 2").token > first.token


def test_an_expired_lease_is_taken_over_and_its_old_holder_is_told(db: Database) -> None:
    clients.ensure_client(db, "acme")
    old = clients.acquire_lease(db, "acme", "run 1", ttl_s=-1)
    new = clients.acquire_lease(db, "acme", "run 2")
    assert new.token > old.token
    with pytest.raises(LeaseHeldError, match="lost"):
        clients.renew_lease(db, old)
    clients.release_lease(db, old)
    clients.renew_lease(db, new)
    with pytest.raises(LeaseHeldError, match="run 2"):
        clients.acquire_lease(db, "acme", "run 3")


def test_a_renewed_lease_lives_on(db: Database) -> None:
    clients.ensure_client(db, "acme")
    lease = clients.acquire_lease(db, "acme", "run 1", ttl_s=-1)
    clients.renew_lease(db, lease, ttl_s=60)
    with pytest.raises(LeaseHeldError):
        clients.acquire_lease(db, "acme", "run 2")


def take_lease(url: str) -> None:
    from rageval_dagster.storage.database import open_database

    db = open_database(url)
    clients.ensure_client(db, "acme")
    clients.acquire_lease(db, "acme", clients.lease_holder("evaluate"))


def test_the_lease_of_a_process_that_died_here_is_free_and_of_a_living_one_is_not(sqlite_db: Database) -> None:
    url = sqlite_db.engine.url.render_as_string(hide_password=False)
    process = multiprocessing.get_context("spawn").Process(target=take_lease, args=(url,))
    process.start()
    process.join()
    assert process.exitcode == 0
    clients.acquire_lease(sqlite_db, "acme", clients.lease_holder("evaluate"))
    with pytest.raises(LeaseHeldError, match="evaluate"):
        clients.acquire_lease(sqlite_db, "acme", clients.lease_holder("ingest"))


def test_of_eight_that_want_a_lease_at_once_one_gets_it(db: Database) -> None:
    clients.ensure_client(db, "acme")
    start = threading.Barrier(8)
    got: list[str] = []

    def want(name: str) -> None:
        start.wait()
        try:
            clients.acquire_lease(db, "acme", name)
        except LeaseHeldError:
            return
        got.append(name)

    threads = [threading.Thread(target=want, args=(f"run {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


def test_a_kept_lease_is_renewed_while_the_block_lasts_and_free_after_it(sqlite_db: Database) -> None:
    clients.ensure_client(sqlite_db, "acme")
    renewed = threading.Event()

    @event.listens_for(sqlite_db.engine, "commit")
    def notice(_connection: sa.Connection) -> None:
        if threading.current_thread() is not threading.main_thread():
            renewed.set()

    with clients.keep_lease(sqlite_db, "acme", "run 1", ttl_s=0.4):
        assert renewed.wait(10)
    clients.acquire_lease(sqlite_db, "acme", "run 2")


def test_a_lease_that_somebody_has_is_waited_for(sqlite_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "LEASE_POLL_S", 0.01)
    clients.ensure_client(sqlite_db, "acme")
    first = clients.acquire_lease(sqlite_db, "acme", "run 1")
    with pytest.raises(LeaseHeldError), clients.keep_lease(sqlite_db, "acme", "run 2", wait_s=0.05):
        pass
    release = threading.Timer(0.1, clients.release_lease, (sqlite_db, first))
    release.start()
    with clients.keep_lease(sqlite_db, "acme", "run 2", wait_s=30) as second:
        assert second.token == first.token + 1
    release.join()


def test_a_block_that_lost_its_lease_ends_with_an_error(sqlite_db: Database) -> None:
    clients.ensure_client(sqlite_db, "acme")

    def work() -> None:
        with clients.keep_lease(sqlite_db, "acme", "run 1", ttl_s=0.2) as lease:
            clients.release_lease(sqlite_db, lease)
            heartbeat = next(thread for thread in threading.enumerate() if thread.name == f"lease-{lease.token}")
            heartbeat.join(10)

    with pytest.raises(LeaseHeldError, match="lost"):
        work()
