"""Scanning a client's chunks: its versions, and what was added, changed, removed or re-embedded since the last scan."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import sqlalchemy as sa

from rageval_dagster.corpus.store import ChromaStore, Page
from rageval_dagster.corpus.versions import VersionSum, chunk_digest, vector_digest
from rageval_dagster.identity import digest
from rageval_dagster.records import Progress
from rageval_dagster.storage.clients import ensure_client, record_scan
from rageval_dagster.storage.corpus import (
    ManifestEntry,
    delete_manifest,
    iter_manifest,
    manifest_lookup,
    upsert_manifest,
)
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.tables import corpus_chunks


@dataclass(frozen=True)
class ScanReport:
    """A client's corpus as it is now, and how it differs from the manifest that the scan found.

    `changed` counts chunks with another text, document or page under the same id, `reembedded` those where only the
    vector differs, `without_text` those that are left out; `redacted` is how much was replaced in their texts. The
    previous versions are those of the last finished scan, None before the first.
    """

    corpus_version: str
    index_version: str
    chunk_count: int
    document_count: int
    added: int
    changed: int
    removed: int
    reembedded: int
    without_text: int
    redacted: int
    previous_corpus_version: str | None
    previous_index_version: str | None


def scan_corpus(db: Database, store: ChromaStore, client_id: str, progress: Progress | None = None) -> ScanReport:
    """Reads all of a client's chunks page by page, computes both versions and brings the manifest up to date.

    Memory holds one page. A scan that was killed is simply run again: the versions come from the chunks alone, and
    the manifest ends up the same (its counts of differences are those that the second scan still found).

    Raises:
        StoreError: the store does not answer or does not know the client.
    """
    total = store.count(client_id)
    before = ensure_client(db, client_id)
    corpus, index = VersionSum(), VersionSum()
    found: Counter[str] = Counter()
    # One moment for all: chunks that came together are of one age, whatever the page they stand on.
    now = datetime.now(UTC)
    for page in store.scan(client_id):
        found["without_text"] += page.without_text
        found["redacted"] += sum(page.redacted)
        found["chunks"] += len(page.chunks)
        entries = _entries(page, now)
        for chunk, vector in zip(page.chunks, _vector_bytes(page), strict=True):
            corpus.add(chunk_digest(chunk))
            index.add(vector_digest(chunk.id, vector))
        known = manifest_lookup(db, client_id, [entry.chunk_key for entry in entries])
        found.update(_kind(known.get(entry.chunk_key), entry) for entry in entries)
        upsert_manifest(db, client_id, [entry for entry in entries if not _is_same(known.get(entry.chunk_key), entry)])
        if progress is not None:
            progress(found["chunks"] + found["without_text"], total)
    if _count(db, client_id, corpus_chunks.c.chunk_key) != found["chunks"]:
        found["removed"] = _forget_removed(db, store, client_id)
    difference = {kind: found[kind] for kind in ("added", "changed", "removed", "reembedded")}
    document_count = _count(db, client_id, corpus_chunks.c.document_key.distinct())
    record_scan(db, client_id, corpus.hex(), index.hex(), found["chunks"], document_count, difference)
    return ScanReport(
        corpus_version=corpus.hex(),
        index_version=index.hex(),
        chunk_count=found["chunks"],
        document_count=document_count,
        without_text=found["without_text"],
        redacted=found["redacted"],
        previous_corpus_version=before.corpus_version,
        previous_index_version=before.index_version,
        **difference,
    )


def _entries(page: Page, now: datetime) -> list[ManifestEntry]:
    return [
        ManifestEntry(
            chunk_key=digest(chunk.id),
            chunk_id=chunk.id,
            document_id=chunk.document_id,
            page=chunk.page,
            position=chunk.position,
            text_hash=chunk.text_hash,
            words_hash=chunk.words_hash,
            vector_hash=digest(vector),
            added_at=chunk.added_at,
            first_seen=now,
        )
        for chunk, vector in zip(page.chunks, _vector_bytes(page), strict=True)
    ]


def _vector_bytes(page: Page) -> list[bytes]:
    """Each chunk's vector as float32, little-endian."""
    if page.vectors is None:
        raise ValueError("a scan for versions reads vectors")
    return [vector.tobytes() for vector in page.vectors.astype("<f4", copy=False)]


def _kind(known: ManifestEntry | None, entry: ManifestEntry) -> str:
    if known is None:
        return "added"
    if (known.text_hash, known.document_id, known.page) != (entry.text_hash, entry.document_id, entry.page):
        return "changed"
    return "reembedded" if known.vector_hash != entry.vector_hash else "same"


def _is_same(known: ManifestEntry | None, entry: ManifestEntry) -> bool:
    return known is not None and replace(entry, first_seen=known.first_seen) == known


def _forget_removed(db: Database, store: ChromaStore, client_id: str) -> int:
    """Deletes the manifest's entries of chunks that the store does not have (any more); returns how many."""
    removed = 0
    for entries in iter_manifest(db, client_id):
        present = {chunk.id for chunk in store.get(client_id, [entry.chunk_id for entry in entries])}
        gone = [entry.chunk_key for entry in entries if entry.chunk_id not in present]
        delete_manifest(db, client_id, gone)
        removed += len(gone)
    return removed


def _count(db: Database, client_id: str, column: sa.ColumnElement[str]) -> int:
    with db.connect() as connection:
        return connection.execute(
            sa.select(sa.func.count(column)).where(corpus_chunks.c.client_id == client_id)
        ).scalar_one()
