"""Many writers at once, and writers that are killed: no lock errors, and the same rows in the end."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from history_builder import MRR, finish, make_dataset, make_items, open_run, row_counts, work

from rageval_dagster.identity import digest
from rageval_dagster.storage import caches, clients, corpus
from rageval_dagster.storage.corpus import ManifestEntry
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.types import utc_now
from tests.pipeline.table_rows import rows_of
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
        finally:
            own.dispose()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))  # raises what one of them raised
    expected = {
        "corpus_chunks": 200,
        "retrievals": 30,
        "item_results": 30,
        "metric_scores": 30,
        "embedding_cache": 100,
        "run_items": 6 * 30,
    }
    assert row_counts(db).items() >= expected.items()


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


@pytest.mark.core
def test_a_killed_evaluation_run_again_has_the_rows_of_an_undisturbed_one(
    db: Database, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = db.engine.url.render_as_string(hide_password=False)
    assert exit_code_of(evaluate, url, 9) == KILLED
    interrupted = rows_of(db)
    evaluate(url, None)
    undisturbed_url = f"sqlite:///{tmp_path_factory.mktemp('undisturbed') / 'history.sqlite3'}"
    evaluate(undisturbed_url, None)
    undisturbed = open_database(undisturbed_url)
    assert rows_of(db) == rows_of(undisturbed) != interrupted
    undisturbed.dispose()
