"""The document store: each client's chunks and vectors in Chroma, embedded or on a server."""

import difflib
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rageval_dagster.corpus.backends import Backend, open_backend
from rageval_dagster.corpus.chroma_internals import FieldValue, distance_space
from rageval_dagster.corpus.fields import FieldNames, read_chunk
from rageval_dagster.corpus.names import CLIENT_KEY, MADE_BY_US, SHARED_COLLECTION, collection_name, is_made_by_us
from rageval_dagster.corpus.places import Place, Survey, certain_place, left_out_by_pattern, survey
from rageval_dagster.errors import StoreError
from rageval_dagster.records import Chunk, Hit
from rageval_dagster.redaction import Redactor, load_redactor
from rageval_dagster.settings import Settings
from rageval_dagster.storage.database import in_batches

if TYPE_CHECKING:
    import chromadb
    import numpy as np

    from rageval_dagster.corpus.chroma_internals import ClientAPI

PAGE_SIZE = 2_000
"""Chunks read at a time: at 384 dimensions about 10 MB."""

# The index is searched deeply enough that its answers are nearly exact (of 20,000 random vectors in 64 dimensions .99
# of the ten nearest, .84 with Chroma's default of 100, for .3 ms more a query): its graph is built by several
# threads and differs from one build to the next, and the same corpus should get the same scores everywhere.
_NEW_COLLECTION: Any = {"hnsw": {"space": "cosine", "ef_search": 400}}

_QUERY_BATCH = 200

# A page of a scan: with each, Chroma skips what came before, so that larger ones are quicker.
_FIRST_PAGE = 500
_LARGEST_PAGE = 6_000
_PAGE_BYTES = 50_000_000
_READERS = 2

Metadata = Mapping[str, str | int | float | bool]


@dataclass(frozen=True)
class Page:
    """Some of a client's chunks, with their vectors (float32 [len(chunks), dimension]) where asked for.

    `without_text` counts the chunks that were left out because the store holds no text of them but white space, or
    because of an id that no database can keep (with U+0000). The chunks' texts are redacted; `redacted` says how many
    replacements there are in each.
    """

    chunks: list[Chunk]
    vectors: "np.ndarray | None"
    without_text: int
    redacted: list[int]


class ChromaStore:
    """A document store as it was when first read; open another one to see what was written since.

    With RAGEVAL_CLIENT_FIELD clients share a collection and are told apart by that field; without it each has a
    collection of its own. Which of them count is a matter of the settings, see `places.survey`. Texts leave it
    redacted, where the client's settings say so: nothing else ever sees them as they are.
    """

    def __init__(self, settings: Settings, patience_s: float = math.inf) -> None:
        self._settings = settings
        self._backend: Backend = open_backend(settings, patience_s)
        self._client_field = settings.client_field
        self._opened_by: ClientAPI | None = None
        self._opened: dict[str, chromadb.Collection] = {}
        self._surveyed: Survey | None = None
        self._certain: dict[str, Place | None] = {}
        self._redactors: dict[str, Redactor] = {}

    @property
    def location(self) -> str:
        """The folder or address, for messages."""
        return self._backend.location

    @property
    def is_foreign(self) -> bool:
        """Whether it is an embedded store that this project did not make, and therefore read from a copy."""
        return self._backend.is_foreign

    # Clients.

    def clients(self) -> list[str]:
        """The names of all clients, sorted; none where there is no store yet."""
        return sorted(self._survey.places)

    def has(self, client_id: str) -> bool:
        return client_id in self._survey.places

    def left_out(self) -> list[tuple[str, str]]:
        """(name, reason) of every collection, or value of the client field, that is no client, by name."""
        return list(self._survey.left_out)

    def refused(self) -> list[tuple[str, str]]:
        """(name, reason) of those that no setting leaves out, but that cannot be clients under their name."""
        return list(self._survey.refused)

    def without_client(self) -> int:
        """How many chunks of the shared collection do not say whose they are: they are nobody's."""
        shared = self._survey.shared
        return self._backend.count(shared) - self._survey.named_chunks if shared else 0

    def is_made_by_us(self, client_id: str) -> bool:
        """Whether `ensure_client` made the client's collection."""
        return is_made_by_us(self._place(client_id).collection.metadata)

    def fields(self, client_id: str) -> FieldNames:
        """The names of the metadata fields that the client's chunks have."""
        return FieldNames.from_settings(self._settings.for_client(client_id))

    def redactor(self, client_id: str) -> Redactor:
        """What redacts the client's texts.

        Raises:
            SettingsError: the settings name a redaction that there is not.
        """
        if client_id not in self._redactors:
            settings = self._settings.for_client(client_id)
            self._redactors[client_id] = load_redactor(settings.redact, settings.path("."))
        return self._redactors[client_id]

    def is_there(self) -> bool:
        """Whether there is a store: an embedded one whose folder is gone, or not mounted, has no clients either."""
        return self._backend.is_there()

    def probes(self) -> dict[str, str]:
        """Client -> its probe, of all clients."""
        return dict(self.iter_probes(self.clients()))

    def iter_probes(self, client_ids: Sequence[str]) -> Iterator[tuple[str, str]]:
        """(client, a text that differs when its chunks were written); cheap, and Chroma is not opened if embedded.

        On a server it is the number of chunks, so that an edit in place is not seen before the next scan, and takes a
        request a collection, made when it is asked for.
        """
        places = [self._place(client_id) for client_id in client_ids]
        written = self._backend.probes([place.collection for place in places if not place.values])
        for client_id, place in zip(client_ids, places, strict=True):
            last = "+".join(value.written for value in place.values) if place.values else next(written)
            # With the collection's own id: one that is deleted and made again with as many chunks is another.
            yield client_id, f"{place.collection.id[:8]}:{last}"

    def probe(self, client_id: str) -> str:
        """The probe of one client.

        Raises:
            StoreError: the store does not have the client.
        """
        return dict(self.iter_probes([client_id]))[client_id]

    # Reading.

    def count(self, client_id: str) -> int:
        """How many chunks the client has, those without text included."""
        place = self._place(client_id)
        with self._backend.translated():
            if not place.values:
                return self._collection(place).count()
            return len(self._collection(place).get(where=self._where(place), include=[])["ids"])

    def dimension(self, client_id: str) -> int | None:
        """The dimension of the client's vectors; None while it has none."""
        place = self._place(client_id)
        with self._backend.translated():
            found = self._collection(place).get(where=self._where(place), limit=1, include=["embeddings"])
        vectors = found["embeddings"]
        return len(vectors[0]) if vectors is not None and len(vectors) else None

    def scan(self, client_id: str, with_vectors: bool = True, page_size: int | None = None) -> Iterator[Page]:
        """All of the client's chunks in the order they were added, a page at a time.

        Without a `page_size` a page has as many chunks as take some 50 MB while Chroma hands them over.
        """

        def read(offset: int, size: int) -> Any:
            return size, self._read(client_id, with_vectors, limit=size, offset=offset)

        self._place(client_id)
        # Pages are read while an earlier one is worked on, two at once: most of the time that Chroma takes for one, it
        # leaves Python to others.
        with ThreadPoolExecutor(max_workers=_READERS, thread_name_prefix="scan") as readers:
            coming = deque([readers.submit(read, 0, page_size or _FIRST_PAGE)])
            offset, is_last = page_size or _FIRST_PAGE, False
            while not is_last:
                size, found = coming.popleft().result()
                is_last = len(found["ids"]) < size
                while not is_last and len(coming) < _READERS:
                    size = page_size or _rows_of_a_page(found)
                    coming.append(readers.submit(read, offset, size))
                    offset += size
                if found["ids"]:
                    yield self._page(client_id, found, with_vectors)
            for page in coming:
                page.cancel()

    def spread(self, client_id: str, places: int, per_place: int) -> Page:
        """`per_place` chunks with vectors from each of `places` evenly spaced places of the client's chunks."""
        import numpy as np

        step = max(self.count(client_id) // places, per_place)
        pages = [
            self._page(client_id, self._read(client_id, with_vectors=True, limit=per_place, offset=place * step), True)
            for place in range(places)
        ]
        pages = [page for page in pages if page.chunks]
        vectors = [page.vectors for page in pages if page.vectors is not None]
        return Page(
            [chunk for page in pages for chunk in page.chunks],
            np.concatenate(vectors) if vectors else None,
            sum(page.without_text for page in pages),
            [count for page in pages for count in page.redacted],
        )

    def get(self, client_id: str, chunk_ids: Sequence[str]) -> list[Chunk]:
        """The chunks with these ids, in their order; what the client does not have, or has no text, is left out."""
        found: dict[str, Chunk] = {}
        for batch in in_batches(chunk_ids, PAGE_SIZE):
            page = self._page(client_id, self._read(client_id, with_vectors=False, ids=batch), with_vectors=False)
            found.update((chunk.id, chunk) for chunk in page.chunks)
        return [found[chunk_id] for chunk_id in chunk_ids if chunk_id in found]

    def vectors(self, client_id: str, chunk_ids: Sequence[str]) -> "np.ndarray":
        """The vectors of these chunks, float32 [len(chunk_ids), dimension], in their order.

        Raises:
            StoreError: the client does not have one of them (any more).
        """
        import numpy as np

        found = self.vectors_of(client_id, chunk_ids)
        missing = [chunk_id for chunk_id in chunk_ids if chunk_id not in found]
        if missing:
            raise StoreError(
                f"client {client_id!r}: {len(missing)} of {len(chunk_ids)} chunks are no longer in the document store; "
                "run again to work on what it has now"
            )
        if not chunk_ids:
            return np.empty((0, self.dimension(client_id) or 0), dtype=np.float32)
        return np.stack([found[chunk_id] for chunk_id in chunk_ids])

    def vectors_of(self, client_id: str, chunk_ids: Sequence[str]) -> "dict[str, np.ndarray]":
        """Chunk id -> vector (float32 [dimension]), in their order; what the client does not have is left out."""
        found: dict[str, np.ndarray] = {}
        for batch in in_batches(chunk_ids, PAGE_SIZE):
            read = self._read(client_id, with_vectors=True, ids=batch)
            found.update(zip(read["ids"], _as_floats(read["embeddings"]), strict=True))
        return {chunk_id: found[chunk_id] for chunk_id in chunk_ids if chunk_id in found}

    def query(self, client_id: str, vectors: "np.ndarray", depth: int) -> list[list[Hit]]:
        """The `depth` nearest chunks of the client for each query vector (float [n, dimension]).

        The score is the cosine similarity, in [-1, 1]; the ranking is the store's own, equal distances by chunk id.
        """
        place = self._place(client_id)
        include: Any = ["documents", "metadatas", "distances"]
        with self._backend.translated():
            collection = self._collection(place)
            cosine_space = distance_space(collection) == "cosine"
            if not cosine_space:
                include.append("embeddings")
            results: list[list[Hit]] = []
            for start in range(0, len(vectors), _QUERY_BATCH):
                batch = vectors[start : start + _QUERY_BATCH]
                found: Any = collection.query(
                    query_embeddings=batch, n_results=depth, where=self._where(place), include=include
                )
                for row in range(len(batch)):
                    scores = (
                        [1.0 - distance for distance in found["distances"][row]]
                        if cosine_space
                        else _cosines(batch[row], found["embeddings"][row])
                    )
                    results.append(self._hits(client_id, {key: found[key][row] for key in ("ids", *include)}, scores))
        return results

    # Writing: `rageval ingest` and the demo only.

    def ensure_client(self, client_id: str) -> None:
        """Makes place for a client: a collection in cosine space, unless there is one. Opens the store for writing.

        Raises:
            StoreError: the client is one that the settings leave out, or its collection is another client's.
        """
        client = self._backend.client(write=True)
        if self.has(client_id):
            return
        name, shared = self._collection_to_make(client_id)
        if shared and self._survey.shared is not None:
            return
        if any(collection.name == name for collection in self._backend.collections()):
            raise StoreError(f"the collection {name!r} is not free for client {client_id!r}{self._said_of(name)}")
        with self._backend.translated():
            client.get_or_create_collection(
                name,
                metadata=MADE_BY_US if shared else MADE_BY_US | {CLIENT_KEY: client_id},
                configuration=_NEW_COLLECTION,
                embedding_function=None,
            )
        self._surveyed = None
        self._certain.clear()

    def upsert(
        self, client_id: str, chunks: Sequence[Chunk], vectors: "np.ndarray", metadatas: Sequence[Metadata]
    ) -> None:
        """Writes chunks with their vectors; `metadatas` is all that is kept beside id and text."""
        place = self._writable(client_id)
        size = self._batch_size()
        for start in range(0, len(chunks), size):
            part = slice(start, start + size)
            with self._backend.translated():
                self._collection(place).upsert(
                    ids=[chunk.id for chunk in chunks[part]],
                    documents=[chunk.text for chunk in chunks[part]],
                    embeddings=vectors[part],
                    metadatas=[self._tagged(place, metadata) for metadata in metadatas[part]],
                )

    def update_metadata(self, client_id: str, metadatas: Mapping[str, Metadata]) -> None:
        """Sets metadata fields of chunks that are there (chunk id -> fields); text and vector stay."""
        place = self._writable(client_id)
        for batch in in_batches(metadatas, self._batch_size()):
            with self._backend.translated():
                self._collection(place).update(ids=batch, metadatas=[dict(metadatas[each]) for each in batch])

    def delete(self, client_id: str, chunk_ids: Sequence[str]) -> None:
        """Deletes chunks; unknown ids do nothing."""
        place = self._writable(client_id)
        for batch in in_batches(chunk_ids, self._batch_size()):
            with self._backend.translated():
                self._collection(place).delete(ids=batch, where=self._where(place))

    def metadata(
        self, client_id: str, field: str, values: Sequence[str], page_size: int = PAGE_SIZE, others: bool = False
    ) -> Iterator[dict[str, dict[str, Any]]]:
        """Chunk id -> all its metadata, a page at a time, of the client's chunks whose field has one of `values`.

        With `others`, of those whose field has none of them, be it that they have no such field.
        """
        place = self._place(client_id)
        offset = 0
        while True:
            with self._backend.translated():
                found: Any = self._collection(place).get(
                    where=self._where(place, {field: {"$nin" if others else "$in": list(values)}}),
                    include=["metadatas"],
                    limit=page_size,
                    offset=offset,
                )
            if found["ids"]:
                yield {
                    chunk_id: dict(metadata or {})
                    for chunk_id, metadata in zip(found["ids"], found["metadatas"], strict=True)
                }
            if len(found["ids"]) < page_size:
                return
            offset += page_size

    # Within.

    @property
    def _survey(self) -> Survey:
        if self._surveyed is None:
            self._surveyed = survey(self._settings, self._backend)
        return self._surveyed

    def _place(self, client_id: str) -> Place:
        place = self._certain_place(client_id) if self._surveyed is None else self._surveyed.places.get(client_id)
        place = place or self._survey.places.get(client_id)
        if place is not None:
            return place
        own = self._own_collection(client_id)
        if own is not None:
            raise StoreError(
                f"the document store at {self.location} has no collection {own!r}, which rageval.toml names for client "
                f"{client_id!r}"
            )
        known = f"has no client {client_id!r} among its {len(self._survey.places)}"
        raise StoreError(
            f"the document store at {self.location} {known}{self._said_of(client_id)}; `rageval clients list` shows "
            "them, `rageval ingest PATH --client NAME` adds one"
        )

    def _certain_place(self, client_id: str) -> Place | None:
        """The collection that was made for the client under its name, without a look at all others; None where it has
        another place, or may have."""
        if client_id not in self._certain:
            self._certain[client_id] = certain_place(self._settings, self._backend, client_id)
        return self._certain[client_id]

    def _said_of(self, name: str) -> str:
        """Why a collection or value of that name is no client, whose collection it is, or who may be meant; in
        brackets."""
        places = self._survey.places.items()
        owner = next((each for each, place in places if not place.values and place.collection.name == name), None)
        said = f"it is client {owner!r}" if owner else dict(self._survey.left_out).get(name)
        if not said and (near := difflib.get_close_matches(name, sorted(self._survey.places), n=1)):
            said = f"did you mean {near[0]!r}?"
        return f" ({said})" if said else ""

    def _own_collection(self, client_id: str) -> str | None:
        """The collection that rageval.toml names for the client."""
        named = self._settings.source.collections().items()
        return next((collection for collection, client in named if client == client_id), None)

    def _collection_to_make(self, client_id: str) -> tuple[str, bool]:
        """The name of a new client's collection, and whether it is one that clients share."""
        own, shared = self._own_collection(client_id), self._survey.shared
        if own is not None and own not in (self._settings.collection, shared.name if shared else None):
            return own, False
        left_out = left_out_by_pattern(self._settings, client_id)
        if left_out is not None:
            raise StoreError(f"client {client_id!r} is left out by the settings ({left_out}): change them, or the name")
        if self._client_field is not None:
            return self._settings.collection or SHARED_COLLECTION, True
        return collection_name(client_id), False

    def _writable(self, client_id: str) -> Place:
        """The client's place for writing; in a shared collection a client is there once it has a chunk."""
        self._backend.client(write=True)
        if not self.has(client_id) and self._survey.shared is not None:
            shared = self._survey.shared
            self._surveyed = None
            return Place(shared, (FieldValue(client_id, 0, ""),))
        return self._place(client_id)

    def _collection(self, place: Place) -> "chromadb.Collection":
        client, name = self._backend.client(), place.collection.name
        if self._opened_by is not client:  # a snapshot was opened before, and now the store itself
            self._opened_by, self._opened = client, {}
        if name not in self._opened:
            self._opened[name] = client.get_collection(name, embedding_function=None)
        return self._opened[name]

    def _where(self, place: Place, condition: dict[str, Any] | None = None) -> dict[str, Any] | None:
        if not place.values or self._client_field is None:
            return condition
        # `$in` takes values of one type only.
        each: list[dict[str, Any]] = [{self._client_field: value.value} for value in place.values]
        own = each[0] if len(each) == 1 else {"$or": each}
        return {"$and": [own, condition]} if condition else own

    def _tagged(self, place: Place, metadata: Metadata) -> dict[str, Any]:
        if not place.values or self._client_field is None:
            return dict(metadata)
        return {**metadata, self._client_field: place.values[0].value}

    def _batch_size(self) -> int:
        return self._backend.client().get_max_batch_size()

    def _read(self, client_id: str, with_vectors: bool, **options: Any) -> Any:
        place = self._place(client_id)
        include: Any = ["documents", "metadatas", *(["embeddings"] if with_vectors else [])]
        with self._backend.translated():
            return self._collection(place).get(where=self._where(place), include=include, **options)

    def _page(self, client_id: str, found: Any, with_vectors: bool) -> Page:
        names, redactor = self.fields(client_id), self.redactor(client_id)
        chunks: list[Chunk] = []
        kept: list[int] = []
        redacted: list[int] = []
        rows = zip(found["ids"], found["documents"], found["metadatas"], strict=True)
        for row, (chunk_id, stored, metadata) in enumerate(rows):
            before = redactor.count
            text = redactor.redact(stored or "")
            if text.strip() and "\0" not in chunk_id:
                redacted.append(redactor.count - before)
                chunk = read_chunk(chunk_id, text, metadata, names)
                if chunk.title is not None or chunk.left_out:
                    title = None if chunk.title is None else redactor.redact(chunk.title)
                    chunk = replace(chunk, title=title, left_out=redactor.redact(chunk.left_out))
                chunks.append(chunk)
                kept.append(row)
        return Page(
            chunks=chunks,
            vectors=_as_floats(found["embeddings"])[kept] if with_vectors else None,
            without_text=len(found["ids"]) - len(kept),
            redacted=redacted,
        )

    def _hits(self, client_id: str, found: Mapping[str, Any], scores: Sequence[float]) -> list[Hit]:
        names, redactor = self.fields(client_id), self.redactor(client_id)
        order = sorted(range(len(scores)), key=lambda row: (found["distances"][row], found["ids"][row]))
        hits = []
        for rank, row in enumerate(order, start=1):
            # Empty text: the chunk was deleted since the index was written, or holds none.
            text = redactor.redact(found["documents"][row] or "")
            chunk = read_chunk(found["ids"][row], text, found["metadatas"][row], names)
            score = max(-1.0, min(1.0, float(scores[row])))
            hits.append(Hit(chunk.id, chunk.document_id, rank, score, chunk.text, chunk.page))
        return hits


def open_store(settings: Settings, patience_s: float = math.inf) -> ChromaStore:
    """The document store that the settings name, opened freshly at its first use.

    `patience_s` is how long finding out whose chunks a server has may take at a time, before that is an error.
    """
    return ChromaStore(settings, patience_s)


def _rows_of_a_page(found: Any) -> int:
    """How many chunks like these a page may have: a number of a vector takes 32 bytes until it is in an array."""
    vectors = found["embeddings"]
    numbers = 0 if vectors is None else len(vectors[0])
    characters = sum(len(text or "") for text in found["documents"]) / len(found["ids"])
    return int(max(_FIRST_PAGE, min(_LARGEST_PAGE, _PAGE_BYTES / (32 * numbers + 4 * characters + 1))))


def _as_floats(vectors: Any) -> "np.ndarray":
    """float32 [n, dimension], also for n = 0."""
    import numpy as np

    array = np.asarray(vectors, dtype=np.float32)
    return array if array.ndim == 2 else array.reshape(len(array), -1 if len(array) else 0)


def _cosines(query: "np.ndarray", vectors: Any) -> list[float]:
    import numpy as np

    rows = _as_floats(vectors)
    if not len(rows):
        return []
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
    return list(np.divide(rows @ query, lengths, out=np.zeros(len(rows), dtype=np.float32), where=lengths > 0))
