"""Scanning a client's chunks: its versions, and what was added, changed, removed or re-embedded since the last scan."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256

import sqlalchemy as sa

from rageval_dagster.corpus.manifest import Leaving, Manifest, fingerprint
from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.corpus.word_runs import RunHasher, words
from rageval_dagster.errors import RedactionError, SettingsError
from rageval_dagster.identity import digest
from rageval_dagster.records import Chunk, Progress
from rageval_dagster.storage.clients import ensure_client, list_clients, record_scan
from rageval_dagster.storage.corpus import (
    DIFFERENCES,
    ManifestEntry,
    Passages,
    delete_manifest,
    iter_hashes,
    iter_manifest,
    manifest_lookup,
    note_moved,
    upsert_manifest,
)
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.forgetting import left_alone
from rageval_dagster.storage.tables import corpus_chunks
from rageval_dagster.storage.word_hashes import (
    add_hashes,
    delete_hashes,
    forget_look,
    hash_key,
    holder_of,
    note_look,
    provisional,
)


@dataclass(frozen=True)
class ScanReport:
    """A client's corpus as it is now, and how it differs from the manifest that the scan found.

    `changed` counts chunks with another text, document or page under the same id, `reembedded` those where only the
    vector differs since the last finished scan, `without_text` those that are left out; `redacted` is how much was
    replaced in their texts.
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


def scan_corpus(db: Database, store: ChromaStore, client_id: str, progress: Progress | None = None) -> ScanReport:
    """Reads all of a client's chunks page by page, computes both versions and brings the manifest up to date.

    Memory holds two pages, and 17 bytes a chunk. A scan that was killed is simply run again: the versions come from
    the chunks alone, manifest and counted differences end up the same.

    Raises:
        StoreError: the store does not answer or does not know the client.
    """
    total = store.count(client_id)
    before = ensure_client(db, client_id)
    known = Manifest(db, client_id)
    key = hash_key(db)
    hasher = RunHasher(key)
    holder = holder_of(key, client_id)
    if holder in provisional(db):
        delete_hashes(db, holder)
        for hashes in iter_hashes(db, client_id):
            add_hashes(db, holder, hashes)
        forget_look(db, holder)
    corpus = index = 0
    found: Counter[str] = Counter()
    # One moment for all: chunks that came together are of one age, whatever the page they stand on.
    now = datetime.now(UTC)
    leaving = Leaving(db, client_id)
    for page in store.scan(client_id):
        found["without_text"] += page.without_text
        found["redacted"] += sum(page.redacted)
        found["chunks"] += len(page.chunks)
        if page.vectors is None:
            raise ValueError("a scan for versions reads vectors")
        vectors = [vector.tobytes() for vector in page.vectors.astype("<f4", copy=False)]
        corpus += sum(map(chunk_digest, page.chunks))
        index += sum(vector_digest(chunk.id, vector) for chunk, vector in zip(page.chunks, vectors, strict=True))
        is_first = before.corpus_version is None
        _bring_up_to_date(db, client_id, known, hasher, page.chunks, vectors, now, is_first, leaving)
        if progress is not None:
            progress(found["chunks"] + found["without_text"], total)
    if not known.all_seen:
        _forget_removed(db, store, client_id, known, now, leaving)
    note_moved(db, client_id, leaving.moved(), now)
    corpus_version, index_version = version_of(corpus), version_of(index)
    documents = before.document_count
    if before.corpus_version != corpus_version:
        distinct = sa.select(sa.func.count(corpus_chunks.c.document_key.distinct()))
        documents = db.rows(distinct.where(corpus_chunks.c.client_id == client_id))[0][0]
    difference = record_scan(
        db, client_id, corpus_version, index_version, found["chunks"], documents, before.change_seq, now
    )
    return ScanReport(
        corpus_version=corpus_version,
        index_version=index_version,
        chunk_count=found["chunks"],
        document_count=documents,
        without_text=found["without_text"],
        redacted=found["redacted"],
        **difference,
    )


def hash_unscanned(db: Database, store: ChromaStore) -> None:
    """Hashes the words of the clients in the store that no scan has seen yet, so that they are known as theirs.

    Once a client: its first scan takes over, and counts anew, so that a look that was interrupted may begin again. One
    whose settings are wrong is left out; who was forgotten is left alone.
    """
    key = hash_key(db)
    hasher = RunHasher(key)
    scanned = {client.client_id for client in list_clients(db) if client.corpus_version is not None}
    looks = provisional(db)
    unseen = {each for each in set(store.clients()) - scanned if not looks.get(holder_of(key, each))}
    for client_id in sorted(unseen - left_alone(db, unseen)):
        holder = holder_of(key, client_id)
        note_look(db, holder, complete=False)
        with suppress(SettingsError, RedactionError):
            for page in store.scan(client_id, with_vectors=False):
                found = (run.hash for chunk in page.chunks for run in hasher.runs(words(chunk.text)))
                add_hashes(db, holder, found)
            note_look(db, holder, complete=True)


def version_of(digests: int) -> str:
    """The version that a sum of digests stands for, 64 hex digits: equal for equal sets of chunks, in any order."""
    return f"{digests % 2**256:064x}"


def chunk_digest(chunk: Chunk) -> int:
    """What a chunk adds to the corpus version: SHA-256 over its length-prefixed id, text, document id and page.

    As `identity.digest` frames them, written out: a scan does this for every chunk, and calls cost as much as hashing.
    """
    chunk_id, text, document = _bytes(chunk.id), _bytes(chunk.text), _bytes(chunk.document_id)
    page = b"-1:" if chunk.page is None else b"%d:%d" % (len(str(chunk.page)), chunk.page)
    framed = b"%d:%b%d:%b%d:%b%b" % (len(chunk_id), chunk_id, len(text), text, len(document), document, page)
    return int.from_bytes(sha256(framed).digest())


def vector_digest(chunk_id: str, vector: bytes) -> int:
    """What a chunk adds to the index version: SHA-256 over its id and vector (float32, little-endian)."""
    named = _bytes(chunk_id)
    return int.from_bytes(sha256(b"%d:%b%d:%b" % (len(named), named, len(vector), vector)).digest())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _bring_up_to_date(
    db: Database,
    client_id: str,
    known: Manifest,
    hasher: RunHasher,
    chunks: Sequence[Chunk],
    vectors: Sequence[bytes],
    now: datetime,
    is_first: bool,
    leaving: Leaving,
) -> None:
    """Writes the manifest's entries of those chunks that are not as they were."""
    keys, hashes = [digest(chunk.id) for chunk in chunks], [digest(vector) for vector in vectors]
    prints = [
        fingerprint(
            key,
            chunk.document_id,
            chunk.page,
            chunk.position,
            chunk.text_hash,
            vector_hash,
            chunk.added_at,
            chunk.title,
        )
        for key, chunk, vector_hash in zip(keys, chunks, hashes, strict=True)
    ]
    changed, new = known.look(keys, prints)
    if not changed and not new:
        return
    stored = manifest_lookup(db, client_id, [keys[place] for place in changed])
    entries = [_entry(keys[place], chunks[place], hashes[place], now) for place in (*changed, *new)]
    of_others = ((stored.get(entry.chunk_key), entry) for entry in entries)
    leaving.add(was for was, entry in of_others if was is not None and was.document_id != entry.document_id)
    kinds = Counter(_kind(stored.get(entry.chunk_key), entry) for entry in entries)
    unlike = [entry for entry in entries if not _is_same(stored.get(entry.chunk_key), entry)]
    found = {kind: count for kind, count in kinds.items() if kind in DIFFERENCES}
    # Before its first scan a client had nothing that anything could be told from.
    documents = {} if is_first else _passages(stored, entries)
    texts = dict(zip(keys, (chunk.text for chunk in chunks), strict=True))
    hashes = {each.chunk_key: [run.hash for run in hasher.runs(words(texts[each.chunk_key]))] for each in unlike}
    upsert_manifest(db, client_id, unlike, found, documents, now, hashes)


def _passages(stored: Mapping[str, ManifestEntry], entries: Sequence[ManifestEntry]) -> dict[str, Passages]:
    """How many passages of each document are added, changed, or gone to another document."""
    documents: dict[str, Passages] = {}
    for entry in entries:
        known = stored.get(entry.chunk_key)
        if known is None:
            documents.setdefault(entry.document_id, Passages()).added += 1
        elif known.document_id != entry.document_id:
            documents.setdefault(entry.document_id, Passages()).added += 1
            documents.setdefault(known.document_id, Passages()).removed += 1
        elif _kind(known, entry) == "changed":
            documents.setdefault(entry.document_id, Passages()).changed += 1
    return documents


def _entry(chunk_key: str, chunk: Chunk, vector_hash: str, now: datetime) -> ManifestEntry:
    return ManifestEntry(
        chunk_key=chunk_key,
        chunk_id=chunk.id,
        document_id=chunk.document_id,
        page=chunk.page,
        position=chunk.position,
        text_hash=chunk.text_hash,
        words_hash=chunk.words_hash,
        vector_hash=vector_hash,
        added_at=chunk.added_at,
        first_seen=now,
        title=chunk.title,
    )


def _kind(known: ManifestEntry | None, entry: ManifestEntry) -> str:
    if known is None:
        return "added"
    if (known.text_hash, known.document_id, known.page) != (entry.text_hash, entry.document_id, entry.page):
        return "changed"
    return "reembedded" if known.vector_hash != entry.vector_hash else "same"


def _is_same(known: ManifestEntry | None, entry: ManifestEntry) -> bool:
    return known is not None and replace(entry, first_seen=known.first_seen) == known


def _forget_removed(
    db: Database, store: ChromaStore, client_id: str, known: Manifest, now: datetime, leaving: Leaving
) -> None:
    """Deletes the manifest's entries of chunks that the store does not have any more.

    What the scan did not see is asked for by its id: a chunk may have slipped from one page to one that was read.
    """
    for entries in iter_manifest(db, client_id):
        unseen = [entries[place] for place in known.unseen([entry.chunk_key for entry in entries])]
        present = {chunk.id for chunk in store.get(client_id, [entry.chunk_id for entry in unseen])}
        gone = [entry for entry in unseen if entry.chunk_id not in present]
        if gone:
            leaving.add(gone)
            delete_manifest(db, client_id, [entry.chunk_key for entry in gone], now)
