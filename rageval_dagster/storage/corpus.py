"""The manifest of chunks: what the last scan found in a client's documents, by chunk key; and how that changed."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.identity import digest
from rageval_dagster.storage.database import Database, in_batches, retried, rows_in, upsert
from rageval_dagster.storage.tables import corpus_changes, corpus_chunks, document_changes
from rageval_dagster.storage.types import utc_now
from rageval_dagster.storage.word_hashes import hash_key, holder_of, recount

DIFFERENCES = ("added", "changed", "removed", "reembedded")
"""The ways in which a chunk can differ from the scan before."""

_MOST_MOVES = 100

_UNDER_WAY = ""
"""In place of the versions of a change of the corpus, which only the end of the scan knows."""


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
    title: str | None = None

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
    "title",
    "word_hashes",
]


def manifest_lookup(db: Database, client_id: str, chunk_keys: Iterable[str]) -> dict[str, ManifestEntry]:
    """The entries of those keys that the manifest has."""
    query = sa.select(*_COLUMNS).where(corpus_chunks.c.client_id == client_id)
    rows = db.rows_in(query, corpus_chunks.c.chunk_key, chunk_keys)
    return {row.chunk_key: ManifestEntry(*row) for row in rows}


@dataclass(frozen=True)
class DocumentChange:
    """How many of a document's passages, `before` of them then and `all` now, are new, changed and removed.

    Changed are those with other text, or on another page, under the same id. Of `scans` that saw differences, each
    counts: a passage may have changed in several. `rewritten` is true where one of them saw nothing left as it was.
    """

    new: int
    changed: int
    removed: int
    before: int
    all: int
    scans: int
    rewritten: bool
    moved_to: str | None = None
    """The id of the document that has all its text, of one that is gone."""

    @property
    def what(self) -> str:
        """In a word: removed, renamed, new, rewritten, or changed."""
        if not self.all:
            return "renamed" if self.moved_to else "removed"
        if not self.before:
            return "new"
        return "rewritten" if self.rewritten else "changed"

    @property
    def said(self) -> str:
        """`what`; of a document that changed in part, how many passages; of a renamed one, its id now."""
        if self.what == "renamed":
            return f"renamed to {self.moved_to}"
        if self.what != "changed":
            return self.what
        counts = {"new": self.new, "changed": self.changed, "removed": self.removed}
        most = "up to " if self.scans > 1 else ""
        named = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return f"passages: {most}{named}, {self.all} in all"


@dataclass
class Passages:
    """How many passages of a document a scan found to be added to it, changed within it, or removed from it."""

    added: int = 0
    changed: int = 0
    removed: int = 0


@retried
def upsert_manifest(
    db: Database,
    client_id: str,
    entries: Sequence[ManifestEntry],
    found: Mapping[str, int] | None = None,
    documents: Mapping[str, Passages] | None = None,
    found_at: datetime | None = None,
    hashes: Mapping[str, Sequence[int]] | None = None,
) -> None:
    """Writes entries by chunk key; of one that is there, `first_seen` stays as it was.

    `hashes` are those of the runs of words of the chunks' texts, by chunk key, which the table `word_hashes` counts.

    `found` says how many of them differ and how, for the change that the scan under way will record, and `documents`
    which documents' passages are not what they were, by document id. Counted with the entries, both hold each
    difference once, also where the scan is killed and run again. `found_at` is the moment of that scan (now).
    """
    hashes = hashes or {}
    packed = {key: array("q", each).tobytes() for key, each in hashes.items()}
    rows = [
        {
            "client_id": client_id,
            **asdict(entry),
            "document_key": digest(entry.document_id),
            "word_hashes": packed.get(entry.chunk_key),
        }
        for entry in entries
    ]
    holder = holder_of(hash_key(db), client_id)
    with db.begin() as connection:
        before = _hashes_of(connection, client_id, (entry.chunk_key for entry in entries))
        recount(connection, holder, before, chain.from_iterable(hashes.values()))
        upsert(connection, corpus_chunks, rows, update=_MUTABLE)
        _add_found(connection, client_id, found or {})
        _note_documents(connection, client_id, documents or {}, found_at or utc_now())


def _hashes_of(connection: Connection, client_id: str, chunk_keys: Iterable[str]) -> Iterator[int]:
    """The hashes of all the chunks with these keys."""
    chunks = corpus_chunks.c
    query = sa.select(chunks.word_hashes).where(chunks.client_id == client_id, chunks.word_hashes.is_not(None))
    for row in rows_in(connection, query, chunks.chunk_key, chunk_keys):
        yield from array("q", row.word_hashes)


def iter_hashes(db: Database, client_id: str, page_size: int = 5000) -> Iterator[list[int]]:
    """The hashes of all of a client's chunks as the manifest has them, page by page."""
    chunks = corpus_chunks.c
    query = sa.select(chunks.chunk_key, chunks.word_hashes).where(chunks.client_id == client_id)
    for rows in _by_key(db, query.where(chunks.word_hashes.is_not(None)), page_size):
        yield [each for row in rows for each in array("q", row.word_hashes)]


@retried
def delete_manifest(db: Database, client_id: str, chunk_keys: Iterable[str], found_at: datetime | None = None) -> None:
    """Forgets the chunks with these keys, and counts them as removed for the change that the scan will record.

    `found_at` is the moment of that scan (now).
    """
    documents: dict[str, Passages] = {}
    titles: dict[str, str] = {}
    chunks = corpus_chunks.c
    holder = holder_of(hash_key(db), client_id)
    with db.begin() as connection:
        for batch in in_batches(chunk_keys):
            recount(connection, holder, _hashes_of(connection, client_id, batch), ())
            here = sa.and_(chunks.client_id == client_id, chunks.chunk_key.in_(batch))
            for document_id, title in connection.execute(sa.select(chunks.document_id, chunks.title).where(here)):
                documents.setdefault(document_id, Passages()).removed += 1
                if title:
                    titles[document_id] = min(title, titles.get(document_id, title))
            connection.execute(sa.delete(corpus_chunks).where(here))
        _add_found(connection, client_id, {"removed": sum(passages.removed for passages in documents.values())})
        _note_documents(connection, client_id, documents, found_at or utc_now(), titles)


def iter_words_beside(db: Database, client_id: str, words_hashes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Of every document that has a passage with one of these hashes, the id and each passage's hash, in no order."""
    chunks = corpus_chunks.c
    here = chunks.client_id == client_id
    query = sa.select(chunks.document_key).where(here).distinct()
    keys = {row.document_key for row in db.rows_in(query, chunks.words_hash, words_hashes)}
    for batch in in_batches(keys):
        passages = sa.select(chunks.document_id, chunks.words_hash).where(here, chunks.document_key.in_(batch))
        yield from ((row.document_id, row.words_hash) for row in db.rows(passages))


@retried
def note_moved(db: Database, client_id: str, moved: Mapping[str, str], found_at: datetime) -> None:
    """Notes which document has the text of each that the scan of `found_at` found to be gone; old id -> new id."""
    noted = document_changes.c
    here = (noted.client_id == client_id, noted.found_at == found_at, noted.document_key == sa.bindparam("old"))
    change = sa.update(document_changes).where(*here).values(moved_to=sa.bindparam("new"))
    for batch in in_batches(moved):
        db.execute(change, [{"old": digest(old), "new": moved[old]} for old in batch])


def moved_documents(db: Database, client_id: str, document_ids: Iterable[str]) -> dict[str, str]:
    """Under which id the corpus has the text of each of these documents that it does not have itself; old id -> new id.

    A document may have moved several times. Left out is what is gone for good.
    """
    now_at = {document_id: document_id for document_id in document_ids}
    for _ in range(_MOST_MOVES):
        steps = _last_moves(db, client_id, absent_documents(db, client_id, now_at.values()))
        if not steps:
            break
        now_at = {old: steps.get(new, new) for old, new in now_at.items()}
    moved = {old: new for old, new in now_at.items() if new != old}
    gone = absent_documents(db, client_id, moved.values())
    return {old: new for old, new in moved.items() if new not in gone}


def absent_documents(db: Database, client_id: str, document_ids: Iterable[str]) -> set[str]:
    """Those of the documents that the corpus does not have."""
    keys = {digest(each): each for each in document_ids}
    chunks = corpus_chunks.c
    query = sa.select(chunks.document_key).where(chunks.client_id == client_id).distinct()
    present = {row.document_key for row in db.rows_in(query, chunks.document_key, keys)}
    return {each for key, each in keys.items() if key not in present}


def _last_changes(db: Database, client_id: str, document_ids: Iterable[str]) -> dict[str, sa.Row[Any]]:
    """The last change that was noted of each of the documents: its `title` and `moved_to`."""
    noted = document_changes.c
    keys = {digest(each): each for each in document_ids}
    latest = sa.select(sa.func.max(noted.id).label("id")).where(noted.client_id == client_id)
    ids = [row.id for row in db.rows_in(latest.group_by(noted.document_key), noted.document_key, keys)]
    query = sa.select(noted.document_key, noted.title, noted.moved_to)
    return {keys[row.document_key]: row for row in db.rows_in(query, noted.id, ids)}


def _last_moves(db: Database, client_id: str, document_ids: Iterable[str]) -> dict[str, str]:
    changes = _last_changes(db, client_id, document_ids)
    return {each: row.moved_to for each, row in changes.items() if row.moved_to}


def iter_manifest(
    db: Database, client_id: str, page_size: int = 5000, without_document: bool = False
) -> Iterator[list[ManifestEntry]]:
    """The whole manifest in pages ordered by chunk key; memory holds one page at a time.

    `without_document` leaves only the chunks whose document the store does not name: each is one itself.
    """
    query = sa.select(*_COLUMNS).where(corpus_chunks.c.client_id == client_id)
    if without_document:
        query = query.where(corpus_chunks.c.document_id == corpus_chunks.c.chunk_id)
    for rows in _by_key(db, query, page_size):
        yield [ManifestEntry(*row) for row in rows]


def document_count(db: Database, client_id: str) -> int:
    """How many documents a client has; a chunk whose document the store does not name is one itself."""
    chunks = corpus_chunks.c
    query = sa.select(sa.func.count(sa.distinct(chunks.document_key))).where(chunks.client_id == client_id)
    [count] = db.scalars(query)
    return int(count)


def unnamed_share(db: Database, client_id: str) -> float:
    """The share in [0, 1] of a client's chunks whose document the store does not name; 0 without chunks."""
    unnamed = sa.case((corpus_chunks.c.document_id == corpus_chunks.c.chunk_id, 1), else_=0)
    [row] = db.rows(
        sa.select(sa.func.count().label("all"), sa.func.sum(unnamed).label("unnamed")).where(
            corpus_chunks.c.client_id == client_id
        )
    )
    return int(row.unnamed) / int(row.all) if row.all else 0.0


def iter_contents(db: Database, client_id: str) -> Iterator[Sequence[sa.Row[Any]]]:
    """Of every chunk its key, document id, page, position, hashes of text and vector, time of adding, title; by key."""
    names = ("chunk_key", "document_id", "page", "position", "text_hash", "vector_hash", "added_at", "title")
    here = corpus_chunks.c.client_id == client_id
    yield from _by_key(db, sa.select(*(corpus_chunks.c[name] for name in names)).where(here), 5_000)


def _by_key(db: Database, query: sa.Select[*tuple[Any, ...]], page_size: int) -> Iterator[Sequence[sa.Row[Any]]]:
    last = ""
    while True:
        after = query.where(corpus_chunks.c.chunk_key > last)
        rows = db.rows(after.order_by(corpus_chunks.c.chunk_key).limit(page_size))
        if rows:
            yield rows
        if len(rows) < page_size:
            return
        last = rows[-1].chunk_key


def thinned_manifest(db: Database, client_id: str, size: int) -> list[ManifestEntry]:
    """A chunk of each of up to `size` distinct texts, in the order of their hashes.

    So it is by chance which ones, but of a corpus that changed a little, nearly the same ones.
    """
    chunks = corpus_chunks.c
    one_of_each = (
        sa.select(sa.func.min(chunks.chunk_key))
        .where(chunks.client_id == client_id)
        .group_by(chunks.text_hash)
        .order_by(chunks.text_hash)
        .limit(size)
    )
    keys = db.scalars(one_of_each)
    found = manifest_lookup(db, client_id, keys)
    return [found[key] for key in keys if key in found]


def document_names(db: Database, client_id: str, document_ids: Iterable[str]) -> dict[str, str]:
    """What people call documents, by id: the title, with the id where several of them have it; without one, the id.

    Of a document that is gone it is the title that it had.
    """
    ids = list(dict.fromkeys(document_ids))
    keys = {digest(document_id): document_id for document_id in ids}
    chunks = corpus_chunks.c
    # Chunks may disagree: any of their titles serves, but always the same one.
    query = (
        sa.select(chunks.document_key, sa.func.min(chunks.title).label("title"))
        .where(chunks.client_id == client_id, chunks.title.is_not(None))
        .group_by(chunks.document_key)
    )
    titles = {keys[row.document_key]: row.title for row in db.rows_in(query, chunks.document_key, keys)}
    gone = absent_documents(db, client_id, ids)
    titles |= {each: row.title for each, row in _last_changes(db, client_id, gone).items() if row.title}
    shared = Counter(titles.values())
    named = {each: title if shared[title] == 1 else f"{title} ({each})" for each, title in titles.items()}
    return {each: named.get(each, each) for each in ids}


def document_chunks(db: Database, client_id: str, document_ids: Iterable[str]) -> dict[str, list[ManifestEntry]]:
    """The chunks of each document that the manifest has, by position, then chunk id."""
    names = {digest(document_id): document_id for document_id in document_ids}
    found: dict[str, list[ManifestEntry]] = {}
    query = sa.select(corpus_chunks.c.document_key, *_COLUMNS).where(corpus_chunks.c.client_id == client_id)
    for document_key, *entry in db.rows_in(query, corpus_chunks.c.document_key, names):
        found.setdefault(names[document_key], []).append(ManifestEntry(*entry))
    for entries in found.values():
        entries.sort(key=lambda entry: (entry.position is None, entry.position or 0, entry.chunk_id))
    return {document_id: found[document_id] for document_id in names.values() if document_id in found}


def _add_found(connection: Connection, client_id: str, found: Mapping[str, int]) -> None:
    if not any(found.values()):
        return
    row = _found_so_far(connection, client_id)
    difference = {kind: found.get(kind, 0) + (row.difference[kind] if row else 0) for kind in DIFFERENCES}
    if row is None:
        change = {"client_id": client_id, "corpus_version": _UNDER_WAY, "index_version": _UNDER_WAY}
        connection.execute(sa.insert(corpus_changes), {**change, "difference": difference, "found_at": utc_now()})
    else:
        connection.execute(sa.update(corpus_changes).where(corpus_changes.c.id == row.id).values(difference=difference))


def _note_documents(
    connection: Connection,
    client_id: str,
    documents: Mapping[str, Passages],
    found_at: datetime,
    titles: Mapping[str, str] | None = None,
) -> None:
    titles = titles or {}
    rows = [
        {
            "client_id": client_id,
            "document_id": document_id,
            "document_key": digest(document_id),
            "found_at": found_at,
            "title": titles.get(document_id),
            **asdict(passages),
        }
        for document_id, passages in sorted(documents.items())
    ]
    if rows:
        connection.execute(sa.insert(document_changes), rows)


def _found_so_far(connection: Connection, client_id: str) -> sa.Row[int, Any] | None:
    query = sa.select(corpus_changes.c.id, corpus_changes.c.difference)
    here = corpus_changes.c.client_id == client_id
    return connection.execute(query.where(here, corpus_changes.c.corpus_version == _UNDER_WAY)).one_or_none()


def finish_change(
    connection: Connection, client_id: str, corpus_version: str, index_version: str, now: datetime
) -> dict[str, int]:
    """Gives what a scan found its versions and time, and returns the counts: all 0 where it found no difference."""
    row = _found_so_far(connection, client_id)
    if row is None:
        return dict.fromkeys(DIFFERENCES, 0)
    versions = {"corpus_version": corpus_version, "index_version": index_version}
    connection.execute(sa.update(corpus_changes).where(corpus_changes.c.id == row.id).values(**versions, found_at=now))
    return row.difference


def last_change(db: Database, client_id: str) -> datetime | None:
    """When a scan last found a difference; None where none has."""
    here = (corpus_changes.c.client_id == client_id, corpus_changes.c.corpus_version != _UNDER_WAY)
    return db.rows(sa.select(sa.func.max(corpus_changes.c.found_at)).where(*here))[0][0]


def changes_between(db: Database, client_id: str, after: datetime, until: datetime) -> dict[str, int]:
    """How many chunks scans found to be added, changed, removed or reembedded later than `after`, at most at `until`.

    A chunk that changed twice counts twice; `reembeddings` is how many scans found some reembedded. Empty where no scan
    found a difference.
    """
    found: Counter[str] = Counter()
    query = sa.select(corpus_changes.c.difference).where(
        corpus_changes.c.client_id == client_id,
        corpus_changes.c.corpus_version != _UNDER_WAY,
        corpus_changes.c.found_at > after,
        corpus_changes.c.found_at <= until,
    )
    for row in db.rows(query):
        found.update(row.difference)
        found["reembeddings"] += bool(row.difference.get("reembedded"))
    return dict(found)


def documents_changed(db: Database, client_id: str, after: datetime, until: datetime) -> dict[str, DocumentChange]:
    """How the documents changed that scans found to differ later than `after`, at most at `until`; by document id.

    Left out are those that came and went in between, and those that are another one renamed.
    """
    noted, chunks = document_changes.c, corpus_chunks.c
    here = (noted.client_id == client_id, noted.found_at > after)
    sums = [sa.func.sum(noted[each.name]).label(each.name) for each in fields(Passages)]
    per_scan = sa.select(noted.document_key, noted.found_at, *sums).group_by(noted.document_key, noted.found_at)
    names = (
        sa.select(noted.document_key, sa.func.min(noted.document_id).label("document_id"))
        .where(*here, noted.found_at <= until)
        .group_by(noted.document_key)
    )
    present = sa.select(chunks.document_key, sa.func.count().label("all")).group_by(chunks.document_key)
    found: dict[str, DocumentChange | None] = {}
    with db.connect() as connection:
        named = {row.document_key: row.document_id for row in connection.execute(names)}
        for batch in in_batches(named):
            now = present.where(chunks.client_id == client_id, chunks.document_key.in_(batch))
            counts = {row.document_key: int(row.all) for row in connection.execute(now)}
            scans: dict[str, list[tuple[datetime, Passages]]] = {}
            for row in connection.execute(per_scan.where(*here, noted.document_key.in_(batch))):
                passages = Passages(int(row.added), int(row.changed), int(row.removed))
                scans.setdefault(row.document_key, []).append((row.found_at, passages))
            found |= {named[key]: _became(scans[key], until, counts.get(key, 0)) for key in batch}
    moved = _last_moves(db, client_id, (name for name, change in found.items() if change and not change.all))
    renamed = {moved_to for moved_to in moved.values() if (to := found.get(moved_to)) and to.what == "new"}
    return {
        name: replace(change, moved_to=moved.get(name))
        for name, change in sorted(found.items())
        if change is not None and name not in renamed
    }


def _became(scans: Sequence[tuple[datetime, Passages]], until: datetime, now: int) -> DocumentChange | None:
    """What became of a document of `now` passages by those scans of its last ones that were at most at `until`."""
    after = now
    every, seen, rewritten = now, Passages(), False
    for found_at, passages in sorted(scans, key=lambda each: each[0], reverse=True):
        before = max(after - passages.added + passages.removed, 0)
        if found_at > until:
            every = before
        else:
            seen.added += passages.added
            seen.changed += passages.changed
            seen.removed += passages.removed
            rewritten |= passages.added + passages.changed >= after and passages.removed + passages.changed >= before
        after = before
    if not every and not after:
        return None
    return DocumentChange(
        new=min(seen.added, every),
        changed=min(seen.changed, every),
        removed=min(seen.removed, after),
        before=after,
        all=every,
        scans=sum(found_at <= until for found_at, _ in scans),
        rewritten=rewritten,
    )


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
    chunks = corpus_chunks.c
    query = sa.select(column, chunks.client_id, *_COLUMNS).order_by(chunks.client_id, chunks.chunk_key)
    for value, client_id, *entry in db.rows_in(query, column, values):
        found.setdefault(value, []).append((client_id, ManifestEntry(*entry)))
    return found
