"""Many writers at once, and writers that are killed: no lock errors, and the same rows in the end."""

import threading

import pytest
import sqlalchemy as sa
from history_builder import MRR, finish, make_dataset, make_items, open_run, retrieval_of, row_counts, work

from rageval_dagster.identity import digest
from rageval_dagster.storage import caches, clients, corpus
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage.corpus import ManifestEntry
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.tables import metadata
from rageval_dagster.storage.types import utc_now
from tests.processes import KILLED, die_at, exit_code_of


@pytest.mark.core
def test_four_writers_at_once_all_succeed_also_on_the_same_rows(db: Database) -> None:
    items = make_items(30)
    dataset = make_dataset(db, "acme", items)
    now = utc_now()
    entries = [
        ManifestEntry(digest(str(n)), str(n), "doc", None, n, digest("t"), digest("t"), None, None, now)
        for n in range(200)
    ]
    start = threading.Barrier(4)
    failures: list[BaseException] = []

    def write(number: int) -> None:
        own = open_database(db.engine.url.render_as_string(hide_password=False))
        try:
            start.wait()
            for turn in range(3):
                evaluation = open_run(own, dataset, f"turn {turn} of {number % 2}")
                work(own, evaluation, items[::-1] if number > 1 else items, batch=10)
                corpus.upsert_manifest(own, "acme", entries[::-1] if number > 1 else entries)
                caches.save_vectors(own, "acme", "model", {digest(str(n)): b"\x00" * 1536 for n in range(100)})
                caches.save_replies(own, "acme", [(digest("request"), "model", f"answer {number}")])
                clients.observe_probe(own, "acme", f"{turn}")
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failures.append(error)
        finally:
            own.dispose()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    expected = {
        "corpus_chunks": 200,
        "retrievals": 30,
        "item_results": 30,
        "metric_scores": 30,
        "embedding_cache": 100,
        "run_items": 6 * 30,
    }
    assert {name: count for name, count in row_counts(db).items() if name in expected} == expected


def evaluate(url: str, killed_at: int | None) -> None:
    """One evaluation; the process kills itself just before its `killed_at`th statement that writes."""
    db = open_database(url)
    if killed_at is not None:
        die_at(killed_at)
    items = make_items(12)
    evaluation = open_run(db, make_dataset(db, "acme", items), "night 1")
    work(db, evaluation, items, batch=5)
    finish(db, evaluation, {MRR: 0.75})
    db.dispose()


def contents(db: Database) -> dict[str, list[tuple]]:
    """All rows without times, numbers and costs."""
    found = {}
    with db.connect() as connection:
        for table in metadata.sorted_tables:
            columns = [
                column
                for column in table.columns
                if not column.name.endswith(("_at", "_seen"))
                and column.name not in {"id", "evaluation_id", "dataset_id"}
            ]
            found[table.name] = sorted(map(repr, connection.execute(sa.select(*columns)).all()))
    return found


@pytest.mark.core
def test_a_killed_evaluation_run_again_has_the_rows_of_an_undisturbed_one(
    db: Database, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = db.engine.url.render_as_string(hide_password=False)
    assert exit_code_of(evaluate, url, 9) == KILLED
    interrupted = contents(db)
    evaluate(url, None)
    undisturbed_url = f"sqlite:///{tmp_path_factory.mktemp('undisturbed') / 'history.sqlite3'}"
    evaluate(undisturbed_url, None)
    undisturbed = open_database(undisturbed_url)
    assert contents(db) == contents(undisturbed) != interrupted
    undisturbed.dispose()


def test_a_reader_sees_one_state_while_a_writer_writes(sqlite_db: Database) -> None:
    items = make_items(2)
    evaluation = open_run(sqlite_db, make_dataset(sqlite_db, "acme", items), "night 1")
    count = sa.text("SELECT COUNT(*) FROM retrievals")
    with sqlite_db.connect() as reader:
        assert reader.execute(count).scalar() == 0
        result_storage.save_retrievals(sqlite_db, evaluation.id, [(retrieval_of(items[0]), "key")])
        assert reader.execute(count).scalar() == 0
    with sqlite_db.connect() as reader:
        assert reader.execute(count).scalar() == 1
