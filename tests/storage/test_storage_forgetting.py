"""Forgetting a client leaves no row and no text of it on any database system, and all of the others'."""

import sqlite3
import threading
from pathlib import Path

import pytest

from rageval_dagster.errors import DatabaseError, LeaseHeldError
from rageval_dagster.storage import database
from rageval_dagster.storage.clients import ensure_client, list_clients
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.forgetting import bury, delete_rows, left_alone, rows_of, scrub, tombstone
from rageval_dagster.storage.labels import Label, Queued, save_labels, save_queue
from rageval_dagster.storage.leases import acquire_lease
from rageval_dagster.storage.results import load_results
from rageval_dagster.storage.tables import metadata
from tests.storage.history_builder import MRR
from tests.storage.planted import CANARY, fill, found, plant

FORGOTTEN, OTHER = "Zyx & Söhne", "globex"


def test_no_text_of_a_forgotten_client_is_left(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "IN_LIST", 2)  # several transactions a table
    plant(db, FORGOTTEN)
    assert set(rows_of(db, FORGOTTEN)) == {table.name for table in metadata.sorted_tables if "client_id" in table.c}
    assert {"texts.text", "item_results.answer", "llm_cache.response"} <= set(found(db, CANARY))
    counts = rows_of(db, FORGOTTEN)
    delete_rows(db, FORGOTTEN)
    bury(db, FORGOTTEN, counts)
    assert found(db, CANARY, FORGOTTEN) == []
    stone = tombstone(db, FORGOTTEN)
    assert stone is not None
    assert stone.counts == counts


def test_who_labels_meanwhile_leaves_no_label(db: Database) -> None:
    evaluation = fill(db, FORGOTTEN, count=20)
    result_ids = [result_id for result_id, _ in load_results(db, evaluation.id).values()]
    has_begun, is_over = threading.Event(), threading.Event()

    def label() -> None:
        while not is_over.is_set():
            save_labels(db, FORGOTTEN, [Label(each, MRR, "ann", 1.0, CANARY) for each in result_ids])
            save_queue(db, FORGOTTEN, MRR, {each: Queued("1 high", 1) for each in result_ids})
            has_begun.set()

    labelling = threading.Thread(target=label)
    labelling.start()
    has_begun.wait()
    delete_rows(db, FORGOTTEN)
    bury(db, FORGOTTEN, {})
    is_over.set()
    labelling.join()
    assert rows_of(db, FORGOTTEN) == {}


def test_other_clients_lose_nothing(db: Database) -> None:
    plant(db, OTHER)
    before = rows_of(db, OTHER)
    plant(db, FORGOTTEN)
    delete_rows(db, FORGOTTEN)
    bury(db, FORGOTTEN, {})
    assert rows_of(db, OTHER) == before
    assert [client.client_id for client in list_clients(db)] == [OTHER]


def test_who_is_worked_on_again_is_not_buried(db: Database) -> None:
    ensure_client(db, FORGOTTEN)
    lease = acquire_lease(db, FORGOTTEN, "a run that began meanwhile")
    with pytest.raises(LeaseHeldError, match="run forget again"):
        bury(db, FORGOTTEN, {})
    assert [client.client_id for client in list_clients(db)] == [lease.client_id]
    assert tombstone(db, FORGOTTEN) is None


def test_a_forgotten_client_is_left_alone_until_it_is_known_again(db: Database) -> None:
    for client in (FORGOTTEN, OTHER):
        ensure_client(db, client)
    assert left_alone(db, [FORGOTTEN, OTHER, "unknown"]) == frozenset()
    bury(db, FORGOTTEN, {"texts": 1})
    assert left_alone(db, [FORGOTTEN, OTHER, "unknown"]) == {FORGOTTEN}
    ensure_client(db, FORGOTTEN)
    assert left_alone(db, [FORGOTTEN, OTHER, "unknown"]) == frozenset()
    bury(db, FORGOTTEN, {"texts": 2})
    stone = tombstone(db, FORGOTTEN)
    assert stone is not None
    assert stone.counts == {"texts": 2}


def test_the_files_of_sqlite_hold_no_word_of_what_was_deleted(sqlite_db: Database, tmp_path: Path) -> None:
    plant(sqlite_db, FORGOTTEN, count=200)
    delete_rows(sqlite_db, FORGOTTEN)
    bury(sqlite_db, FORGOTTEN, {})
    assert any(CANARY.encode() in file.read_bytes() for file in tmp_path.iterdir())
    scrub(sqlite_db)
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert CANARY.encode() not in content
    assert FORGOTTEN.encode() not in content


def test_who_keeps_the_file_busy_is_to_be_stopped(sqlite_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rageval_dagster.storage.forgetting._BUSY_TIMEOUT_S", 0.01)
    ensure_client(sqlite_db, FORGOTTEN)
    reader = sqlite3.connect(str(sqlite_db.engine.url.database), isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM clients").fetchall()
    with pytest.raises(DatabaseError, match="stop what has it open"):
        scrub(sqlite_db)
    reader.close()
    scrub(sqlite_db)
