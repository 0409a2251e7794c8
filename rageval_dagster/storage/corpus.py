"""The manifest of chunks: what the last scan found in a client's documents, by chunk key."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa

from rageval_dagster.identity import digest
from rageval_dagster.storage.database import Database, in_batches, retried, upsert
from rageval_dagster.storage.tables import corpus_chunks


@dataclass(frozen=True)
class ManifestEntry:
    """One chunk now in the corpus, without its text. `chunk_key` is `identity.digest` of the chunk's id."""

    chunk_key: str
    chunk_id: str
    document_id: str
    page: int | None
    position: int | None
    text_hash: str
    words_hash: str
    vector_hash: str | None
    added_at: datetime | None
    first_seen: datetime

    @property
    def content_key(self) -> str:
        """The chunk's `content_key`, which candidates are known by."""
        return digest(None if self.document_id == self.chunk_id else self.document_id, self.text_hash)


_COLUMNS = [corpus_chunks.c[name] for name in ManifestEntry.__dataclass_fields__]
_MUTABLE = [
    "chunk_id",
    "document_id",
    "document_key",
    "page",
    "position",
    "text_hash",
    "words_hash",
    "vector_hash",
    "added_at",
]


def manifest_lookup(db: Database, client_id: str, chunk_keys: Iterable[str]) -> dict[str, ManifestEntry]:
    """The entries of those keys that the manifest has."""
    found: dict[str, ManifestEntry] = {}
    with db.connect() as connection:
        for batch in in_batches(chunk_keys):
            rows = connection.execute(
                sa.select(*_COLUMNS).where(corpus_chunks.c.client_id == client_id, corpus_chunks.c.chunk_key.in_(batch))
            )
            found.update((row.chunk_key, ManifestEntry(**row._mapping)) for row in rows)
    return found


@retried
def upsert_manifest(db: Database, client_id: str, entries: Sequence[ManifestEntry]) -> None:
    """Writes entries by chunk key; of one that is there, `first_seen` stays as it was."""
    rows = [{"client_id": client_id, **asdict(entry), "document_key": digest(entry.document_id)} for entry in entries]
    with db.begin() as connection:
        upsert(connection, corpus_chunks, rows, update=_MUTABLE)


@retried
def delete_manifest(db: Database, client_id: str, chunk_keys: Iterable[str]) -> None:
    """Forgets the chunks with these keys."""
    with db.begin() as connection:
        for batch in in_batches(chunk_keys):
            connection.execute(
                sa.delete(corpus_chunks).where(
                    corpus_chunks.c.client_id == client_id, corpus_chunks.c.chunk_key.in_(batch)
                )
            )


def iter_manifest(
    db: Database, client_id: str, page_size: int = 5000, without_document: bool = False
) -> Iterator[list[ManifestEntry]]:
    """The whole manifest in pages ordered by chunk key; memory holds one page at a time.

    `without_document` leaves only the chunks whose document the store does not name: each is one itself.
    """
    query = sa.select(*_COLUMNS).where(corpus_chunks.c.client_id == client_id)
    if without_document:
        query = query.where(corpus_chunks.c.document_id == corpus_chunks.c.chunk_id)
    last = ""
    while True:
        with db.connect() as connection:
            rows = connection.execute(
                query.where(corpus_chunks.c.chunk_key > last).order_by(corpus_chunks.c.chunk_key).limit(page_size)
            ).all()
        if rows:
            yield [ManifestEntry(**row._mapping) for row in rows]
        if len(rows) < page_size:
            return
        last = rows[-1].chunk_key


def document_chunks(db: Database, client_id: str, document_ids: Iterable[str]) -> dict[str, list[ManifestEntry]]:
    """The chunks of each document that the manifest has, by position, then chunk id."""
    names = {digest(document_id): document_id for document_id in document_ids}
    found: dict[str, list[ManifestEntry]] = {}
    with db.connect() as connection:
        for batch in in_batches(names):
            rows = connection.execute(
                sa.select(corpus_chunks.c.document_key, *_COLUMNS).where(
                    corpus_chunks.c.client_id == client_id, corpus_chunks.c.document_key.in_(batch)
                )
            ).mappings()
            for row in rows:
                values = dict(row)
                document_id = names[values.pop("document_key")]
                found.setdefault(document_id, []).append(ManifestEntry(**values))
    for entries in found.values():
        entries.sort(key=lambda entry: (entry.position is None, entry.position or 0, entry.chunk_id))
    return {document_id: found[document_id] for document_id in names.values() if document_id in found}


def chunks_by_words(db: Database, words_hashes: Iterable[str]) -> dict[str, list[tuple[str, ManifestEntry]]]:
    """{words hash: (client, chunk) pairs} over all clients, by client; what nobody has is left out."""
    return _across_clients(db, corpus_chunks.c.words_hash, words_hashes)


def chunks_by_key(db: Database, chunk_keys: Iterable[str]) -> dict[str, list[tuple[str, ManifestEntry]]]:
    """{chunk key: (client, chunk) pairs} over all clients, by client; what nobody has is left out."""
    return _across_clients(db, corpus_chunks.c.chunk_key, chunk_keys)


def _across_clients(
    db: Database, column: sa.Column[str], values: Iterable[str]
) -> dict[str, list[tuple[str, ManifestEntry]]]:
    found: dict[str, list[tuple[str, ManifestEntry]]] = {}
    with db.connect() as connection:
        for batch in in_batches(values):
            rows = connection.execute(
                sa.select(corpus_chunks.c.client_id, *_COLUMNS)
                .where(column.in_(batch))
                .order_by(corpus_chunks.c.client_id, corpus_chunks.c.chunk_key)
            ).mappings()
            for row in rows:
                row_values = dict(row)
                client_id = row_values.pop("client_id")
                found.setdefault(row_values[column.name], []).append((client_id, ManifestEntry(**row_values)))
    return found
