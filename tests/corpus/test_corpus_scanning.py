"""Scanning: versions and the manifest follow the store, whatever happened to it and to the scan before."""

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rageval_dagster.corpus import scanning
from rageval_dagster.corpus.scanning import ScanReport, chunk_digest, scan_corpus, vector_digest, version_of
from rageval_dagster.corpus.store import ChromaStore, Page, open_store
from rageval_dagster.identity import digest
from rageval_dagster.records import Chunk
from rageval_dagster.storage.clients import get_client
from rageval_dagster.storage.corpus import ManifestEntry, document_names, documents_changed, iter_manifest
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.types import utc_now

TEXTS = ["red apples fall", "green pears hang", "blue plums roll", "old trees stand", "new seeds grow"]


def manifest(db: Database) -> dict[str, ManifestEntry]:
    return {entry.chunk_id: entry for page in iter_manifest(db, "acme") for entry in page}


def difference(report: ScanReport) -> tuple[int, int, int, int]:
    return report.added, report.changed, report.removed, report.reembedded


def test_the_first_scan_finds_everything(db: Database, store: ChromaStore, fill) -> None:
    chunks = fill(store, "acme", TEXTS)
    seen: list[tuple[int, int]] = []
    report = scan_corpus(db, store, "acme", lambda done, total: seen.append((done, total)))
    assert difference(report) == (5, 0, 0, 0)
    assert (report.chunk_count, report.document_count, report.without_text) == (5, 3, 0)
    assert seen == [(5, 5)]
    corpus = index = 0
    vectors = store.vectors("acme", [chunk.id for chunk in chunks])
    for chunk, vector in zip(reversed(chunks), reversed(vectors), strict=True):
        corpus += chunk_digest(chunk)
        index += vector_digest(chunk.id, vector.astype("<f4").tobytes())
    assert (report.corpus_version, report.index_version) == (version_of(corpus), version_of(index))
    entry = manifest(db)["c3"]
    assert (entry.chunk_key, entry.document_id, entry.position) == (digest("c3"), "d1", 1)
    assert entry.text_hash == chunks[3].text_hash
    client = get_client(db, "acme")
    assert (client.corpus_version, client.chunk_count, client.document_count) == (version_of(corpus), 5, 3)


def test_an_unchanged_store_gives_the_same_versions_and_no_difference(db: Database, store, settings, fill) -> None:
    fill(store, "acme", TEXTS)
    first = scan_corpus(db, store, "acme")
    before = manifest(db)
    second = scan_corpus(db, open_store(settings), "acme")
    assert difference(second) == (0, 0, 0, 0)
    assert (second.corpus_version, second.index_version) == (first.corpus_version, first.index_version)
    assert manifest(db) == before


def test_what_happened_to_each_chunk_is_told_apart(db: Database, store: ChromaStore, fill, embedder) -> None:
    chunks = fill(store, "acme", TEXTS)
    first = scan_corpus(db, store, "acme")
    seen_first = manifest(db)["c1"].first_seen
    store.delete("acme", ["c0"])
    store.upsert("acme", [Chunk("c1", "edited pears", "d0")], embedder.encode(["edited"]), [{"document_id": "d0"}])
    store.upsert("acme", [chunks[2]], embedder.encode(["elsewhere"]), [{"document_id": "d1", "position": 0}])
    store.upsert("acme", [Chunk("c9", "fresh", "d9")], embedder.encode(["fresh"]), [{"document_id": "d9"}])
    report = scan_corpus(db, store, "acme")
    assert difference(report) == (1, 1, 1, 1)
    assert report.corpus_version != first.corpus_version
    assert report.index_version != first.index_version
    now = manifest(db)
    assert set(now) == {"c1", "c2", "c3", "c4", "c9"}
    assert now["c1"].first_seen == seen_first
    assert now["c1"].text_hash == digest("edited pears")
    assert (report.chunk_count, report.document_count) == (5, 4)


def test_documents_are_named_by_what_became_of_them(db: Database, store: ChromaStore, fill, embedder) -> None:
    chunks = fill(store, "acme", TEXTS)
    scan_corpus(db, store, "acme")
    scanned_at = utc_now()
    store.delete("acme", [chunk.id for chunk in chunks if chunk.document_id == "d1"])
    moved, edited = Chunk("c0", chunks[0].text, "d9"), Chunk("c1", "edited pears", "d0")
    metadatas = [{"document_id": "d9"}, {"document_id": "d0"}]
    store.upsert("acme", [moved, edited], embedder.encode([moved.text, edited.text]), metadatas)
    scan_corpus(db, store, "acme")
    compared_at = utc_now()
    store.delete("acme", ["c0", "c1"])
    scan_corpus(db, store, "acme")
    found = documents_changed(db, "acme", scanned_at, compared_at)
    assert {name: change.said for name, change in found.items()} == {
        "d0": "rewritten",  # no passage is as it was
        "d1": "removed",
        "d9": "new",
    }
    later = documents_changed(db, "acme", compared_at, utc_now())
    assert {name: change.said for name, change in later.items()} == {"d0": "removed", "d9": "removed"}
    assert documents_changed(db, "acme", scanned_at.replace(year=2000), scanned_at) == {}, "of a first scan"


def test_a_document_under_another_id_is_renamed_and_a_lost_one_keeps_its_title(
    db: Database, store: ChromaStore, fill, embedder
) -> None:
    chunks = fill(store, "acme", TEXTS)
    store.update_metadata("acme", {chunk.id: {"title": f"On {chunk.document_id}"} for chunk in chunks})
    scan_corpus(db, store, "acme")
    scanned_at = utc_now()
    store.delete("acme", [chunk.id for chunk in chunks if chunk.document_id in ("d0", "d1")])
    texts = [chunk.text for chunk in chunks if chunk.document_id == "d1"]
    moved = [Chunk(f"n{number}", text, "e1") for number, text in enumerate(texts)]
    store.upsert("acme", moved, embedder.encode(texts), [{"document_id": "e1"} for _ in texts])
    scan_corpus(db, store, "acme")
    found = documents_changed(db, "acme", scanned_at, utc_now())
    assert {name: (change.said, change.moved_to) for name, change in found.items()} == {
        "d0": ("removed", None),
        "d1": ("renamed to e1", "e1"),
    }
    assert document_names(db, "acme", ["d0", "d2"]) == {"d0": "On d0", "d2": "On d2"}


def test_every_document_of_a_renamed_folder_is_found_though_all_share_a_passage(
    db: Database, store: ChromaStore, fill, embedder
) -> None:
    notice = "All rights reserved."
    chunks = fill(store, "acme", [text for number in range(60) for text in (notice, f"Of pump {number}")])
    scan_corpus(db, store, "acme")
    scanned_at = utc_now()
    store.delete("acme", [chunk.id for chunk in chunks])
    moved = [Chunk(f"new {chunk.id}", chunk.text, f"new {chunk.document_id}") for chunk in chunks]
    moved += [Chunk("a", notice, "another"), Chunk("b", "Of valves", "another")]
    vectors = embedder.encode([chunk.text for chunk in moved])
    store.upsert("acme", moved, vectors, [{"document_id": chunk.document_id} for chunk in moved])
    scan_corpus(db, store, "acme")
    found = documents_changed(db, "acme", scanned_at, utc_now())
    assert {name: change.moved_to for name, change in found.items() if change.moved_to} == {
        chunk.document_id: f"new {chunk.document_id}" for chunk in chunks
    }


def test_a_moved_chunk_is_neither_changed_nor_lost(db: Database, store: ChromaStore, fill) -> None:
    fill(store, "acme", TEXTS)
    first = scan_corpus(db, store, "acme")
    store.update_metadata("acme", {"c4": {"position": 7, "added_at": "2024-05-01"}})
    report = scan_corpus(db, store, "acme")
    assert difference(report) == (0, 0, 0, 0)
    assert (report.corpus_version, report.index_version) == (first.corpus_version, first.index_version)
    entry = manifest(db)["c4"]
    assert entry.position == 7
    assert entry.added_at is not None
    assert entry.added_at.year == 2024


class Killed(BaseException):
    pass


@pytest.mark.parametrize("page_to_die_at", [0, 1, 2])
def test_a_killed_scan_run_again_gives_the_same_state(
    db: Database, store: ChromaStore, fill, monkeypatch: pytest.MonkeyPatch, page_to_die_at: int
) -> None:
    fill(store, "acme", TEXTS)
    scan_corpus(db, store, "acme")
    fill(store, "acme", ["one", "two", "three", "four"], first=4)
    store.delete("acme", ["c1"])
    pages = store.scan

    def dying(client_id: str) -> Iterator[Page]:
        for number, page in enumerate(pages(client_id, page_size=3)):
            if number == page_to_die_at:
                raise Killed
            yield page

    monkeypatch.setattr(store, "scan", dying)
    with pytest.raises(Killed):
        scan_corpus(db, store, "acme")
    monkeypatch.undo()
    report = scan_corpus(db, store, "acme")
    scratch = scan_corpus(db, store, "acme")
    assert (report.corpus_version, report.index_version) == (scratch.corpus_version, scratch.index_version)
    assert difference(scratch) == (0, 0, 0, 0)
    assert difference(report) == (3, 1, 1, 0)  # also what the killed one had found
    assert report.chunk_count == 7
    stored = {chunk.id: chunk.text_hash for page in store.scan("acme") for chunk in page.chunks}
    assert {chunk_id: entry.text_hash for chunk_id, entry in manifest(db).items()} == stored


class ListedStore:
    """A store that is only a dictionary: for many random histories in little time."""

    def __init__(self) -> None:
        self.chunks: dict[str, tuple[Chunk, float]] = {}

    def count(self, client_id: str) -> int:
        return len(self.chunks)

    def has(self, client_id: str) -> bool:
        return True

    def scan(self, client_id: str) -> Iterator[Page]:
        rows = list(self.chunks.values())
        for start in range(0, len(rows), 2):
            part = rows[start : start + 2]
            vectors = np.array([[weight] for _, weight in part], dtype=np.float32)
            yield Page([chunk for chunk, _ in part], vectors, 0, [0] * len(part))

    def get(self, client_id: str, chunk_ids: list[str]) -> list[Chunk]:
        return [self.chunks[chunk_id][0] for chunk_id in chunk_ids if chunk_id in self.chunks]


HISTORY = st.lists(
    st.dictionaries(
        st.sampled_from("abcde"),
        st.tuples(st.sampled_from(["x", "y"]), st.sampled_from(["d", "e"]), st.sampled_from([0.0, 1.0])),
        max_size=5,
    ),
    min_size=1,
    max_size=4,
)


@given(HISTORY)
@hypothesis_settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_history_ends_in_the_versions_of_its_last_state(db: Database, history: list[dict]) -> None:
    store = ListedStore()
    for state in history:
        store.chunks = {name: (Chunk(name, text, document), weight) for name, (text, document, weight) in state.items()}
        before = manifest(db)
        report = scan_corpus(db, store, "acme")  # pyright: ignore[reportArgumentType]
        corpus = index = 0
        for chunk, weight in store.chunks.values():
            corpus += chunk_digest(chunk)
            index += vector_digest(chunk.id, np.float32(weight).tobytes())
        assert (report.corpus_version, report.index_version) == (version_of(corpus), version_of(index))
        assert set(manifest(db)) == set(state)
        found = {entry.first_seen for name, entry in manifest(db).items() if name not in before}
        assert len(found) <= 1, "what one scan finds is of one age"
        assert report.added == len(state.keys() - before.keys())
        assert report.removed == len(before.keys() - state.keys())
        assert report.document_count == len({document for _, document, _ in state.values()})


def test_memory_does_not_grow_with_the_corpus(db: Database) -> None:
    def peak(count: int) -> int:
        class Endless(ListedStore):
            def count(self, client_id: str) -> int:
                return count

            def scan(self, client_id: str) -> Iterator[Page]:
                for start in range(0, count, 100):
                    chunks = [Chunk(f"{count}-{start + n}", "word " * 500, f"d{start + n}") for n in range(100)]
                    yield Page(chunks, np.zeros((100, 64), np.float32), 0, [0] * len(chunks))

        tracemalloc.start()
        scanning.scan_corpus(db, Endless(), f"client-{count}")  # pyright: ignore[reportArgumentType]
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(100)  # caches of the first use
    text_of_the_difference = 500 * 2500
    # The smaller of two: a table of the interpreter itself may grow during one of them.
    assert min(peak(700), peak(800)) - peak(200) < text_of_the_difference / 4


def test_a_title_is_found_also_where_nothing_else_changed_and_changes_no_version(
    db: Database, store: ChromaStore, fill
) -> None:
    fill(store, "acme", TEXTS)
    first = scan_corpus(db, store, "acme")
    store.update_metadata("acme", {"c3": {"title": "  The   plums "}})
    second = scan_corpus(db, store, "acme")
    assert (difference(second), second.corpus_version) == ((0, 0, 0, 0), first.corpus_version)
    assert manifest(db)["c3"].title == "The plums"
    assert document_names(db, "acme", ["d1", "d0"]) == {"d1": "The plums", "d0": "d0"}
