"""The manifest of chunks: written, looked up, streamed and deleted by key, whatever the ids look like."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import sqlalchemy as sa

from rageval_dagster.identity import digest
from rageval_dagster.storage import corpus
from rageval_dagster.storage.corpus import ManifestEntry
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.types import utc_now

FIRST_SEEN = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)


def entry(chunk_id: str, document_id: str = "doc", position: int | None = 0) -> ManifestEntry:
    return ManifestEntry(
        chunk_key=digest(chunk_id),
        chunk_id=chunk_id,
        document_id=document_id,
        page=None,
        position=position,
        text_hash=digest(f"text of {chunk_id}"),
        words_hash=digest(f"words of {chunk_id}"),
        vector_hash=digest(f"vector of {chunk_id}"),
        added_at=None,
        first_seen=FIRST_SEEN,
    )


def test_what_is_written_is_read_back(db: Database) -> None:
    written = replace(entry("c1"), page=7, added_at=datetime(2025, 12, 31, tzinfo=timezone(timedelta(hours=2))))
    corpus.upsert_manifest(db, "acme", [written])
    assert corpus.manifest_lookup(db, "acme", [written.chunk_key, digest("none")]) == {written.chunk_key: written}
    assert corpus.manifest_lookup(db, "other", [written.chunk_key]) == {}


def test_a_large_manifest_streams_in_key_order_and_shrinks_by_key(db: Database) -> None:
    entries = [entry(f"chunk {n}") for n in range(2500)]
    corpus.upsert_manifest(db, "acme", entries)
    corpus.upsert_manifest(db, "other", entries[:3])
    pages = list(corpus.iter_manifest(db, "acme", page_size=1000))
    assert [len(page) for page in pages] == [1000, 1000, 500]
    keys = [found.chunk_key for page in pages for found in page]
    assert keys == sorted(entry.chunk_key for entry in entries)
    assert len(corpus.manifest_lookup(db, "acme", keys)) == 2500
    corpus.delete_manifest(db, "acme", keys[:2400])
    assert sum(len(page) for page in corpus.iter_manifest(db, "acme")) == 100
    assert sum(len(page) for page in corpus.iter_manifest(db, "other")) == 3


def test_a_thinned_manifest_has_each_text_once_and_is_nearly_the_same_after_a_small_change(db: Database) -> None:
    entries = [entry(f"chunk {n}") for n in range(300)]
    same_text = replace(entry("copy"), text_hash=entries[0].text_hash)
    corpus.upsert_manifest(db, "acme", [*entries, same_text])
    corpus.upsert_manifest(db, "other", [entry(f"other {n}") for n in range(50)])
    everything = corpus.thinned_manifest(db, "acme", 1000)
    assert len(everything) == len({each.text_hash for each in everything}) == 300
    before = corpus.thinned_manifest(db, "acme", 100)
    assert before == everything[:100]
    corpus.delete_manifest(db, "acme", [each.chunk_key for each in entries[:15]])
    corpus.upsert_manifest(db, "acme", [entry(f"new {n}") for n in range(15)])
    after = corpus.thinned_manifest(db, "acme", 100)
    assert 80 <= len({each.text_hash for each in before} & {each.text_hash for each in after}) < 100
    assert corpus.thinned_manifest(db, "nobody", 100) == []


def test_the_chunks_of_documents_come_by_position_then_id(db: Database) -> None:
    entries = [entry("c", "d1", 1), entry("b", "d1", 0), entry("a", "d1", 1), entry("z", "d1", None), entry("q", "d2")]
    corpus.upsert_manifest(db, "acme", entries)
    found = corpus.document_chunks(db, "acme", ["d1", "d3", "d2"])
    assert list(found) == ["d1", "d2"]
    assert [chunk.chunk_id for chunk in found["d1"]] == ["b", "a", "c", "z"]


def test_ids_longer_than_an_index_key_and_of_hostile_characters_keep_apart(db: Database) -> None:
    ids = ["x" * 5000, "x" * 5000 + " ", "X" * 5000, "a\x00b", "a\ud800b", "'; DROP TABLE clients; --", "é", "e\u0301"]
    entries = [entry(chunk_id, document_id=chunk_id) for chunk_id in ids]
    corpus.upsert_manifest(db, "acme", entries)
    corpus.upsert_manifest(db, "acme", entries)
    assert len(corpus.manifest_lookup(db, "acme", [entry.chunk_key for entry in entries])) == len(ids)
    assert list(corpus.document_chunks(db, "acme", ids)) == ids
    with db.connect() as connection:
        assert connection.execute(sa.text("SELECT COUNT(*) FROM clients")).scalar() == 0


def scanned(db: Database, client: str, at: datetime, **documents: tuple[int, int, int]) -> None:
    """A scan that finds so many passages of each document added, changed and removed."""
    noted = {name: corpus.Passages(*counts) for name, counts in documents.items()}
    corpus.upsert_manifest(db, client, [], documents=noted, found_at=at)


def test_documents_are_told_by_what_became_of_them_in_the_time_between(db: Database) -> None:
    first, second, third, fourth = (utc_now() - timedelta(days=day) for day in (4, 3, 2, 1))
    sizes = {"same": 2, "cut": 1, "edited": 4, "moved": 2, "rewritten": 3, "often": 3, "added": 2, "late": 1, "new": 2}
    entries = [entry(f"{name} {n}", name, n) for name, size in sizes.items() for n in range(size)]
    corpus.upsert_manifest(db, "acme", entries)
    scanned(db, "other", second, same=(2, 0, 0))
    scanned(db, "acme", first, same=(2, 0, 0))
    scanned(db, "acme", second, cut=(0, 0, 1), edited=(0, 1, 0), often=(0, 1, 0), passed=(3, 0, 0), new=(1, 0, 0))
    scanned(db, "acme", second, edited=(1, 0, 0))  # another page of the same scan
    scanned(db, "acme", third, rewritten=(2, 1, 4), often=(1, 1, 0), gone=(0, 0, 2), passed=(0, 0, 3), new=(1, 1, 0))
    scanned(db, "acme", fourth, added=(2, 0, 0), late=(1, 0, 2), edited=(0, 0, 3), lost=(0, 0, 2))

    def told(after: datetime, until: datetime) -> dict[str, str]:
        return {name: change.said for name, change in corpus.documents_changed(db, "acme", after, until).items()}

    assert told(first, third) == {
        "cut": "passages: 1 removed, 1 in all",
        "edited": "passages: 1 new, 1 changed, 7 in all",  # as it was then, before three passages were removed
        "gone": "removed",
        "new": "new",  # though it changed once more
        "often": "passages: up to 1 new, 2 changed, 3 in all",
        "rewritten": "rewritten",
    }
    assert told(third, fourth) == {
        "added": "new",
        "edited": "passages: 3 removed, 4 in all",
        "late": "rewritten",
        "lost": "removed",
    }
    assert told(fourth, utc_now()) == {}
    assert told(first - timedelta(days=2), first - timedelta(days=1)) == {}


def test_documents_are_called_by_their_titles_and_by_their_ids_where_that_tells_none_apart(db: Database) -> None:
    titles = {"a1": "The ferry", "b2": "The castle", "c3": "The castle", "d4": None}
    now = utc_now()
    entries = [
        ManifestEntry(digest(name), f"{name}::0", name, None, 0, digest(name), digest(name), None, None, now, title)
        for name, title in titles.items()
    ]
    corpus.upsert_manifest(db, "acme", entries)
    assert corpus.document_names(db, "acme", [*titles, "e5"]) == {
        "a1": "The ferry",
        "b2": "The castle (b2)",
        "c3": "The castle (c3)",
        "d4": "d4",
        "e5": "e5",
    }
    assert corpus.document_names(db, "other", ["a1"]) == {"a1": "a1"}
