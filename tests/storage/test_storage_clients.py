"""Clients: counted changes, scans, and what was evaluated."""

from datetime import datetime, timedelta

import sqlalchemy as sa

from rageval_dagster.storage import clients
from rageval_dagster.storage.corpus import changes_between, upsert_manifest
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.tables import corpus_changes, corpus_versions
from rageval_dagster.storage.types import utc_now


def seen(db: Database) -> tuple[int, int]:
    client = clients.get_client(db, "acme")
    return client.change_seq, client.scanned_seq


def test_a_change_counted_during_a_scan_is_neither_lost_nor_counted_again(db: Database) -> None:
    clients.observe_probe(db, "acme", "10")
    clients.record_scan(db, "acme", "c1", "i1", 3, 2, 1, utc_now())
    clients.observe_probe(db, "acme", "11")
    clients.observe_probe(db, "acme", "12")
    clients.record_scan(db, "acme", "c2", "i1", 3, 2, 2, utc_now())
    assert seen(db) == (3, 2)
    assert clients.observe_probe(db, "acme", "12") is None
    clients.record_scan(db, "acme", "c3", "i1", 3, 2, 3, utc_now())
    assert seen(db) == (3, 3)


def test_names_that_differ_in_case_or_accent_are_different_clients(db: Database) -> None:
    names = ["Acme", "acme", "acmé", "株式会社", "a" * 200, "🦜" * 200, "100%_'\"\\;--"]
    for name in names:
        clients.observe_probe(db, name, name[:3])
    assert [client.client_id for client in clients.list_clients(db)] == sorted(names)
    assert clients.get_client(db, "🦜" * 200).probe == "🦜🦜🦜"


def test_a_scan_is_kept_and_each_version_has_one_row(db: Database) -> None:
    for corpus, index in [("c1", "i1"), ("c2", "i2"), ("c1", "i1"), ("c1", "i3")]:
        clients.record_scan(db, "acme", corpus, index, 3, 2, 0, utc_now())
    client = clients.get_client(db, "acme")
    assert (client.corpus_version, client.index_version) == ("c1", "i3")
    assert (client.chunk_count, client.document_count) == (3, 2)
    assert client.scanned_at is not None
    assert client.scanned_at.utcoffset() == timedelta(0)
    with db.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(corpus_versions)).scalar() == 3


def test_each_scan_that_found_a_difference_is_one_change_of_the_corpus(db: Database) -> None:
    def scan(corpus: str, **found: int) -> datetime:
        upsert_manifest(db, "acme", [], {"added": found.pop("added", 0)})
        upsert_manifest(db, "acme", [], found)  # of another page
        clients.record_scan(db, "acme", corpus, "i", 3, 2, 0, utc_now())
        scanned_at = clients.get_client(db, "acme").scanned_at
        assert scanned_at is not None
        return scanned_at

    first, second = scan("c1", added=3), scan("c2", added=1, reembedded=2)
    scan("c2")
    last = scan("c1", reembedded=4)  # a version that there was before
    upsert_manifest(db, "acme", [], {"changed": 9})  # of a scan that is not finished
    upsert_manifest(db, "other", [], {"added": 7})
    clients.record_scan(db, "other", "c1", "i", 3, 2, 0, utc_now())
    counts = {"added": 1, "changed": 0, "removed": 0, "reembedded": 6, "reembeddings": 2}
    assert changes_between(db, "acme", first, last) == counts
    assert changes_between(db, "acme", second, last)["reembedded"] == 4
    assert changes_between(db, "acme", last, last + timedelta(days=1)) == {}
    with db.connect() as connection:
        rows = connection.execute(sa.select(corpus_changes.c.corpus_version).order_by(corpus_changes.c.id)).scalars()
        assert list(rows) == ["c1", "c2", "c1", "", "c1"]


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
