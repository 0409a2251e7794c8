"""Looks at a document store: which changes they count, when, and whom they take for gone, embedded and on a server."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rageval_dagster.corpus import backends
from rageval_dagster.corpus.backends import open_backend
from rageval_dagster.corpus.scanning import scan_corpus
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.corpus.watching import Cursor, Look, Stale, probe_clients
from rageval_dagster.errors import StoreError
from rageval_dagster.records import Chunk
from rageval_dagster.settings import Settings
from rageval_dagster.storage.clients import get_client, mark_evaluated, notify, observe_probe
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.leases import keep_lease
from tests.corpus.conftest import new_server_database, settings_of
from tests.processes import WRITES, sent_statements

TEXTS = ["red apples fall", "green pears hang", "blue plums roll", "old trees stand", "new seeds grow"]
HOUR = 3600.0


@dataclass
class Watcher:
    """Looks one after the other, each with the cursor of the one before; the clock is what the test says."""

    db: Database
    settings: Settings
    cursor: Cursor = field(default_factory=Cursor)

    def look(self, after_s: float = 0, budget_s: float = 60) -> Look:
        seen = probe_clients(
            self.db, open_store(self.settings), self.cursor, self.settings, time.time() + after_s, budget_s
        )
        self.cursor = Cursor.read(seen.cursor.text())
        return seen

    def settled(self) -> dict[str, int]:
        """What is outstanding once nothing has moved for the settle time (60 s)."""
        self.look()
        return dict(self.look(after_s=61).outstanding)

    def evaluated(self, client_id: str = "acme") -> None:
        """As a run does: scans, and says that all this is evaluated."""
        store = open_store(self.settings)
        observe_probe(self.db, client_id, store.probe(client_id))
        scan_corpus(self.db, store, client_id)
        mark_evaluated(self.db, client_id, get_client(self.db, client_id).scanned_seq)


@pytest.fixture
def watcher(sqlite_db: Database, settings: Settings) -> Watcher:
    return Watcher(sqlite_db, settings)


@pytest.fixture
def embedded(sqlite_db: Database, embedded_settings: Settings) -> Watcher:
    return Watcher(sqlite_db, embedded_settings)


def reembed(store: ChromaStore, chunks: list[Chunk], embedder) -> None:
    metadatas = [{"document_id": chunk.document_id, "position": chunk.position or 0} for chunk in chunks]
    store.upsert("acme", chunks, embedder.encode([chunk.text[::-1] for chunk in chunks]), metadatas)


def test_a_bulk_load_is_one_change_once_it_rests(watcher: Watcher, fill) -> None:
    store = open_store(watcher.settings)
    for number, text in enumerate(TEXTS):
        fill(store, "acme", [text], first=number)
        assert watcher.look(after_s=50 * number).outstanding == {}
    assert watcher.look(after_s=50 * 4 + 30).outstanding == {}
    assert watcher.look(after_s=50 * 4 + 61).outstanding == {"acme": 1}


def test_added_and_removed_chunks_are_seen_everywhere(watcher: Watcher, fill) -> None:
    store = open_store(watcher.settings)
    fill(store, "acme", TEXTS)
    assert watcher.settled() == {"acme": 1}
    watcher.evaluated()
    assert watcher.settled() == {}
    fill(store, "acme", ["one more"], first=5)
    assert watcher.settled() == {"acme": 2}
    watcher.evaluated()
    store.delete("acme", ["c0"])
    assert watcher.settled() == {"acme": 3}


@pytest.mark.parametrize("what", ["edited", "re-embedded"])
def test_what_is_done_in_place_is_seen_embedded_and_on_a_server_once_somebody_tells(
    watcher: Watcher, fill, embedder, what: str
) -> None:
    store = open_store(watcher.settings)
    chunks = fill(store, "acme", TEXTS)
    watcher.settled()
    watcher.evaluated()
    if what == "edited":
        fill(store, "acme", ["edited apples fall"])
    else:
        reembed(store, chunks[:2], embedder)
    assert watcher.settled() == ({} if watcher.settings.chroma_url else {"acme": 2})
    notify(watcher.db, "acme")
    assert "acme" in watcher.settled()
    watcher.evaluated()
    assert watcher.settled() == {}


def test_a_change_that_only_the_scan_sees_is_outstanding_until_it_is_evaluated(
    sqlite_db: Database, chroma_server: str, home: Path, fill
) -> None:
    watcher = Watcher(sqlite_db, server_settings(home, chroma_server))
    store = open_store(watcher.settings)
    fill(store, "acme", TEXTS)
    watcher.settled()
    watcher.evaluated()
    fill(store, "acme", ["edited apples fall"])
    assert watcher.settled() == {}
    scan_corpus(sqlite_db, open_store(watcher.settings), "acme")  # of a run that failed after it
    assert watcher.settled() == {"acme": 2}
    scan_corpus(sqlite_db, open_store(watcher.settings), "acme")
    assert watcher.settled() == {"acme": 2}


def server_settings(home: Path, url: str, **variables: str) -> Settings:
    return settings_of(home, RAGEVAL_CHROMA_URL=url, RAGEVAL_CHROMA_DATABASE=new_server_database(url), **variables)


@pytest.fixture
def quiet(embedded: Watcher, fill) -> Watcher:
    """Watches an embedded store whose client was evaluated, and did not change since."""
    fill(open_store(embedded.settings), "acme", TEXTS)
    embedded.settled()
    embedded.evaluated()
    return embedded


def test_being_told_fifty_times_is_one_change(quiet: Watcher) -> None:
    for _ in range(50):
        notify(quiet.db, "acme")
        assert quiet.look().outstanding == {}
    assert quiet.look(after_s=30).outstanding == {}
    assert quiet.look(after_s=61).outstanding == {"acme": 2}
    assert quiet.look(after_s=200).outstanding == {"acme": 2}


def test_being_told_while_somebody_works_on_the_client_waits_for_the_end(quiet: Watcher) -> None:
    with keep_lease(quiet.db, "acme", "run"):
        notify(quiet.db, "acme")
        assert quiet.look(after_s=100).outstanding == {}
    assert quiet.look(after_s=101).outstanding == {"acme": 2}


def test_what_a_scan_has_seen_needs_no_run_of_its_own(embedded: Watcher, fill) -> None:
    fill(open_store(embedded.settings), "acme", TEXTS)
    embedded.settled()
    notify(embedded.db, "acme")
    embedded.evaluated()
    assert embedded.settled() == {}


def test_a_change_during_a_run_leads_to_one_more_after_it(embedded: Watcher, fill) -> None:
    store = open_store(embedded.settings)
    fill(store, "acme", TEXTS)
    assert embedded.settled() == {"acme": 1}
    with keep_lease(embedded.db, "acme", "run"):
        embedded.evaluated()
        for number in (5, 6, 7):
            fill(store, "acme", ["one more"], first=number)
            assert embedded.look(after_s=100 * number).outstanding == {}
    assert embedded.look(after_s=1000).outstanding == {"acme": 2}


def test_a_client_that_vanished_is_marked_and_comes_back(watcher: Watcher, fill) -> None:
    store = open_store(watcher.settings)
    fill(store, "acme", TEXTS)
    fill(store, "beta", TEXTS)
    watcher.settled()
    open_backend(watcher.settings).client(write=True).delete_collection("acme")
    assert watcher.settled() == {"beta": 1}
    assert get_client(watcher.db, "acme").vanished_at is not None
    fill(open_store(watcher.settings), "acme", TEXTS)
    assert watcher.settled() == {"acme": 2, "beta": 1}
    assert get_client(watcher.db, "acme").vanished_at is None


def test_a_store_that_is_not_there_has_lost_no_client(embedded: Watcher, fill) -> None:
    assert embedded.look().present == 0  # none yet, and none before
    fill(open_store(embedded.settings), "acme", TEXTS)
    embedded.settled()
    folder = embedded.settings.embedded_chroma_path
    away = folder.rename(folder.with_name("away"))
    with pytest.raises(StoreError, match=r"there is no document store at .*, which had 1 clients"):
        embedded.look()
    assert get_client(embedded.db, "acme").vanished_at is None
    away.rename(folder)
    assert embedded.look(after_s=61).outstanding == {"acme": 1}


def test_a_server_that_does_not_answer_has_lost_no_client(embedded: Watcher, home: Path, fill) -> None:
    fill(open_store(embedded.settings), "acme", TEXTS)
    embedded.settled()
    down = Watcher(embedded.db, settings_of(home, RAGEVAL_CHROMA_URL="http://127.0.0.1:9"))
    with pytest.raises(StoreError, match="no Chroma server answers"):
        down.look()
    assert get_client(embedded.db, "acme").vanished_at is None


def test_a_look_that_runs_out_of_time_goes_on_where_it_stopped(embedded: Watcher, fill) -> None:
    store = open_store(embedded.settings)
    names = [f"client-{number}" for number in range(5)]
    for name in names:
        fill(store, name, TEXTS[:1])
    for count in range(1, 6):
        assert embedded.look(budget_s=0).probed == 1
        assert len(embedded.cursor.pending) == count
    assert not any(name in Cursor(after=embedded.cursor.after).text() for name in names)
    for count in range(1, 6):
        assert len(embedded.look(after_s=61, budget_s=0).outstanding) == count
    fill(store, names[2], ["one more"], first=1)
    for _ in range(5):
        embedded.look(after_s=200, budget_s=0)
    assert list(embedded.cursor.pending) == [names[2]]
    seen = embedded.look(after_s=300)
    assert (seen.outstanding[names[2]], seen.probed) == (2, 5)


def test_a_client_that_was_not_scanned_for_long_is_due_again(embedded: Watcher, fill, home: Path) -> None:
    embedded.settings = settings_of(home, "[clients.beta]\nrescan_hours = 1\n")
    store = open_store(embedded.settings)
    for client in ("acme", "beta"):
        fill(store, client, TEXTS)
    embedded.settled()
    assert embedded.look(after_s=30 * HOUR).stale == {}  # never scanned: that is for their first run
    for client in ("acme", "beta"):
        embedded.evaluated(client)
    scanned_at = get_client(embedded.db, "beta").scanned_at
    assert scanned_at is not None
    assert embedded.look(after_s=HOUR / 2).stale == {}
    assert embedded.look(after_s=3.5 * HOUR).stale == {"beta": Stale(scanned_at, 3)}
    assert list(embedded.look(after_s=25 * HOUR).stale) == ["acme", "beta"]  # the oldest first
    with keep_lease(embedded.db, "beta", "run"):
        assert list(embedded.look(after_s=25 * HOUR).stale) == ["acme"]


def test_clients_in_one_collection_of_a_server_are_read_a_part_at_a_time(
    home: Path, chroma_server: str, fill, monkeypatch
) -> None:
    monkeypatch.setattr(backends, "_VALUES_PAGE", 2)
    settings = server_settings(home, chroma_server)
    fill(open_store(settings), "all", TEXTS)
    shared = settings.model_copy(update={"client_field": "document_id"})
    for read in (2, 4):
        with pytest.raises(StoreError, match=f"still being read \\({read} of 5 in 'all'\\); the next look continues"):
            open_store(shared, patience_s=0).clients()
    assert open_store(shared, patience_s=0).clients() == ["d0", "d1", "d2"]
    probes = open_store(shared, patience_s=0).probes()
    fill(open_store(settings), "all", ["one more"], first=5)
    after = open_store(shared).probes()
    assert {client for client in after if after[client] != probes[client]} == {"d2"}


def test_an_unchanged_rescan_writes_no_chunk(quiet: Watcher) -> None:
    with sent_statements() as sent:
        scan_corpus(quiet.db, open_store(quiet.settings), "acme")
    assert [statement for statement in sent if statement.startswith(WRITES) and "corpus_chunks" in statement] == []


def test_a_cursor_of_another_version_lets_the_settle_time_begin_anew() -> None:
    assert Cursor.read(None) == Cursor.read('{"acme": ["probe", 1.0]}') == Cursor.read("[]") == Cursor()
    cursor = Cursor({"acme": ("probe", 1.0), "beta": ("other", 2.0)}, "ab")
    assert Cursor.read(cursor.text()) == cursor
    assert Cursor.read(cursor.without("acme").text()) == Cursor({"beta": ("other", 2.0)}, "ab")
