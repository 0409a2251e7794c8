"""The document store: each client's chunks and vectors in Chroma, embedded or on a server."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rageval_dagster.corpus.backends import Backend, open_backend, translated
from rageval_dagster.corpus.catalogue import ClientValue, Collection
from rageval_dagster.corpus.fields import FieldNames, read_chunk
from rageval_dagster.corpus.names import (
    CLIENT_KEY,
    MADE_BY_US,
    SHARED_COLLECTION,
    client_name,
    collection_name,
    is_made_by_us,
)
from rageval_dagster.errors import StoreError
from rageval_dagster.records import Chunk, Hit
from rageval_dagster.settings import Settings

if TYPE_CHECKING:
    import chromadb
    import numpy as np
    from chromadb.api import ClientAPI

PAGE_SIZE = 2_000
"""Chunks read at a time: at 384 dimensions about 10 MB."""

# The index is searched deeply enough that its answers are nearly exact (of 20,000 random vectors in 64 dimensions .99
# of the ten nearest, .84 with Chroma's default of 100, for .3 ms more a query): its graph is built by several
# threads and differs from one build to the next, and the same corpus should get the same scores everywhere.
_NEW_COLLECTION: Any = {"hnsw": {"space": "cosine", "ef_search": 400}}

_QUERY_BATCH = 200

Metadata = Mapping[str, str | int | float | bool]


@dataclass(frozen=True)
class Page:
    """Some of a client's chunks, with their vectors (float32 [len(chunks), dimension]) where asked for.

    `without_text` counts the chunks that were left out because the store holds no text of them.
    """

    chunks: list[Chunk]
    vectors: "np.ndarray | None"
    without_text: int


@dataclass(frozen=True)
class _Place:
    """Where a client's chunks are: a whole collection, or those of it whose client field has `value`."""

    collection: Collection
    value: ClientValue | None = None


class ChromaStore:
    """A document store as it was when first read; open another one to see what was written since.

    With RAGEVAL_CLIENT_FIELD all clients share the store's only collection and are told apart by that field;
    without it each has a collection of its own.
    """

    def __init__(self, settings: Settings) -> None:
        self._backend: Backend = open_backend(settings)
        self._client_field = settings.client_field
        self._opened_by: ClientAPI | None = None
        self._opened: dict[str, chromadb.Collection] = {}
        self._known: dict[str, _Place] | None = None
        self.fields = FieldNames.from_settings(settings)

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
        return sorted(self._places())

    def has(self, client_id: str) -> bool:
        return client_id in self._places()

    def is_made_by_us(self, client_id: str) -> bool:
        """Whether `ensure_client` made the client's collection."""
        return is_made_by_us(self._place(client_id).collection.metadata)

    def probes(self) -> dict[str, str]:
        """Client -> a text that differs when its chunks were written; cheap, and Chroma is not opened if embedded.

        On a server it is the number of chunks, so that an edit in place is not seen before the next scan.
        """
        if self._client_field is not None:
            return {
                str(value): _probe(collection, written)
                for collection in self._shared_collection()
                for value, written in self._backend.values(collection, self._client_field).items()
            }
        places = self._places()
        written = self._backend.probes([place.collection for place in places.values()])
        return {
            client_id: _probe(place.collection, written[place.collection.id]) for client_id, place in places.items()
        }

    def probe(self, client_id: str) -> str:
        """The probe of one client.

        Raises:
            StoreError: the store does not have the client.
        """
        place = self._place(client_id)
        if place.value is not None:
            return self.probes()[client_id]
        return _probe(place.collection, self._backend.probes([place.collection])[place.collection.id])

    # Reading.

    def count(self, client_id: str) -> int:
        """How many chunks the client has, those without text included."""
        place = self._place(client_id)
        with translated(self.location):
            if place.value is None:
                return self._collection(place).count()
            return len(self._collection(place).get(where=self._where(place), include=[])["ids"])

    def dimension(self, client_id: str) -> int | None:
        """The dimension of the client's vectors; None while it has none."""
        place = self._place(client_id)
        with translated(self.location):
            found = self._collection(place).get(where=self._where(place), limit=1, include=["embeddings"])
        vectors = found["embeddings"]
        return len(vectors[0]) if vectors is not None and len(vectors) else None

    def scan(self, client_id: str, with_vectors: bool = True, page_size: int = PAGE_SIZE) -> Iterator[Page]:
        """All of the client's chunks in the order they were added, a page at a time."""
        offset = 0
        while True:
            found = self._read(client_id, with_vectors, limit=page_size, offset=offset)
            if found["ids"]:
                yield self._page(found, with_vectors)
            if len(found["ids"]) < page_size:
                return
            offset += page_size

    def spread(self, client_id: str, places: int, per_place: int) -> Page:
        """`per_place` chunks with vectors from each of `places` evenly spaced places of the client's chunks."""
        import numpy as np

        step = max(self.count(client_id) // places, per_place)
        pages = [
            self._page(self._read(client_id, with_vectors=True, limit=per_place, offset=place * step), True)
            for place in range(places)
        ]
        pages = [page for page in pages if page.chunks]
        vectors = [page.vectors for page in pages if page.vectors is not None]
        return Page(
            [chunk for page in pages for chunk in page.chunks],
            np.concatenate(vectors) if vectors else None,
            sum(page.without_text for page in pages),
        )

    def get(self, client_id: str, chunk_ids: Sequence[str]) -> list[Chunk]:
        """The chunks with these ids, in their order; what the client does not have, or has no text, is left out."""
        found: dict[str, Chunk] = {}
        for batch in _batches(chunk_ids, PAGE_SIZE):
            page = self._page(self._read(client_id, with_vectors=False, ids=batch), with_vectors=False)
            found.update((chunk.id, chunk) for chunk in page.chunks)
        return [found[chunk_id] for chunk_id in chunk_ids if chunk_id in found]

    def vectors(self, client_id: str, chunk_ids: Sequence[str]) -> "np.ndarray":
        """The vectors of these chunks, float32 [len(chunk_ids), dimension], in their order.

        Raises:
            StoreError: the client does not have one of them (any more).
        """
        import numpy as np

        found: dict[str, np.ndarray] = {}
        for batch in _batches(chunk_ids, PAGE_SIZE):
            read = self._read(client_id, with_vectors=True, ids=batch)
            found.update(zip(read["ids"], _as_floats(read["embeddings"]), strict=True))
        missing = [chunk_id for chunk_id in chunk_ids if chunk_id not in found]
        if missing:
            raise StoreError(
                f"client {client_id!r}: {len(missing)} of {len(chunk_ids)} chunks are no longer in the document store; "
                "run again to work on what it has now"
            )
        if not chunk_ids:
            return np.empty((0, self.dimension(client_id) or 0), dtype=np.float32)
        return np.stack([found[chunk_id] for chunk_id in chunk_ids])

    def query(self, client_id: str, vectors: "np.ndarray", depth: int) -> list[list[Hit]]:
        """The `depth` nearest chunks of the client for each query vector (float [n, dimension]).

        The score is the cosine similarity, in [-1, 1]; the ranking is the store's own, equal distances by chunk id.
        """
        place = self._place(client_id)
        include: Any = ["documents", "metadatas", "distances"]
        with translated(self.location):
            collection = self._collection(place)
            cosine_space = _space(collection) == "cosine"
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
                    results.append(self._hits({key: found[key][row] for key in ("ids", *include)}, scores))
        return results

    # Writing: `rageval ingest` and the demo only.

    def ensure_client(self, client_id: str) -> None:
        """Makes place for a client: a collection in cosine space, unless there is one. Opens the store for writing."""
        client = self._backend.client(write=True)
        shared = self._client_field is not None
        if self._shared_collection() if shared else self.has(client_id):
            return
        with translated(self.location):
            client.get_or_create_collection(
                SHARED_COLLECTION if shared else collection_name(client_id),
                metadata=MADE_BY_US if shared else MADE_BY_US | {CLIENT_KEY: client_id},
                configuration=_NEW_COLLECTION,
                embedding_function=None,
            )
        self._known = None

    def upsert(
        self, client_id: str, chunks: Sequence[Chunk], vectors: "np.ndarray", metadatas: Sequence[Metadata]
    ) -> None:
        """Writes chunks with their vectors; `metadatas` is all that is kept beside id and text."""
        place = self._writable(client_id)
        size = self._batch_size()
        for start in range(0, len(chunks), size):
            part = slice(start, start + size)
            with translated(self.location):
                self._collection(place).upsert(
                    ids=[chunk.id for chunk in chunks[part]],
                    documents=[chunk.text for chunk in chunks[part]],
                    embeddings=vectors[part],
                    metadatas=[self._tagged(place, metadata) for metadata in metadatas[part]],
                )

    def update_metadata(self, client_id: str, metadatas: Mapping[str, Metadata]) -> None:
        """Sets metadata fields of chunks that are there (chunk id -> fields); text and vector stay."""
        place = self._writable(client_id)
        for batch in _batches(list(metadatas), self._batch_size()):
            with translated(self.location):
                self._collection(place).update(ids=batch, metadatas=[dict(metadatas[each]) for each in batch])

    def delete(self, client_id: str, chunk_ids: Sequence[str]) -> None:
        """Deletes chunks; unknown ids do nothing."""
        place = self._writable(client_id)
        for batch in _batches(chunk_ids, self._batch_size()):
            with translated(self.location):
                self._collection(place).delete(ids=batch, where=self._where(place))

    def metadata(
        self, client_id: str, field: str, values: Sequence[str], page_size: int = PAGE_SIZE
    ) -> Iterator[dict[str, dict[str, Any]]]:
        """Chunk id -> all its metadata, a page at a time, of the client's chunks whose field has one of `values`."""
        place = self._place(client_id)
        offset = 0
        while True:
            with translated(self.location):
                found: Any = self._collection(place).get(
                    where=self._where(place, {field: {"$in": list(values)}}),
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

    def _places(self) -> dict[str, _Place]:
        if self._known is None:
            if self._client_field is not None:
                self._known = {
                    str(value): _Place(collection, value)
                    for collection in self._shared_collection()
                    for value in self._backend.values(collection, self._client_field)
                }
            else:
                self._known = {
                    client_name(collection.name, collection.metadata): _Place(collection)
                    for collection in self._backend.collections()
                }
        return self._known

    def _shared_collection(self) -> list[Collection]:
        """The store's only collection, or none.

        Raises:
            StoreError: it has several.
        """
        collections = self._backend.collections()
        if len(collections) > 1:
            raise StoreError(
                f"RAGEVAL_CLIENT_FIELD needs a store with one collection, and {self.location} has {len(collections)}: "
                "unset it for one client per collection, or name a tenant and database that hold one alone"
            )
        return collections

    def _place(self, client_id: str) -> _Place:
        place = self._places().get(client_id)
        if place is None:
            raise StoreError(
                f"the document store at {self.location} has no client {client_id!r} among its {len(self._places())}; "
                f"`rageval status` lists them, `rageval ingest PATH --client NAME` adds one"
            )
        return place

    def _writable(self, client_id: str) -> _Place:
        """The client's place for writing; in a shared collection a client is there once it has a chunk."""
        self._backend.client(write=True)
        if self._client_field is not None and not self.has(client_id):
            self._known = None
            return _Place(self._shared_collection()[0], client_id)
        return self._place(client_id)

    def _collection(self, place: _Place) -> "chromadb.Collection":
        client, name = self._backend.client(), place.collection.name
        if self._opened_by is not client:  # a snapshot was opened before, and now the store itself
            self._opened_by, self._opened = client, {}
        if name not in self._opened:
            self._opened[name] = client.get_collection(name, embedding_function=None)
        return self._opened[name]

    def _where(self, place: _Place, condition: dict[str, Any] | None = None) -> dict[str, Any] | None:
        if place.value is None or self._client_field is None:
            return condition
        own: dict[str, Any] = {self._client_field: place.value}
        return {"$and": [own, condition]} if condition else own

    def _tagged(self, place: _Place, metadata: Metadata) -> dict[str, Any]:
        if place.value is None or self._client_field is None:
            return dict(metadata)
        return {**metadata, self._client_field: place.value}

    def _batch_size(self) -> int:
        return self._backend.client().get_max_batch_size()

    def _read(self, client_id: str, with_vectors: bool, **options: Any) -> Any:
        place = self._place(client_id)
        include: Any = ["documents", "metadatas", *(["embeddings"] if with_vectors else [])]
        with translated(self.location):
            return self._collection(place).get(where=self._where(place), include=include, **options)

    def _page(self, found: Any, with_vectors: bool) -> Page:
        rows = zip(found["ids"], found["documents"], found["metadatas"], strict=True)
        chunks = [
            read_chunk(chunk_id, text, metadata, self.fields) if text else None for chunk_id, text, metadata in rows
        ]
        kept = [row for row, chunk in enumerate(chunks) if chunk is not None]
        return Page(
            chunks=[chunk for chunk in chunks if chunk is not None],
            vectors=_as_floats(found["embeddings"])[kept] if with_vectors else None,
            without_text=len(chunks) - len(kept),
        )

    def _hits(self, found: Mapping[str, Any], scores: Sequence[float]) -> list[Hit]:
        order = sorted(range(len(scores)), key=lambda row: (found["distances"][row], found["ids"][row]))
        hits = []
        for rank, row in enumerate(order, start=1):
            # Empty text: the chunk was deleted since the index was written, or holds none.
            chunk = read_chunk(found["ids"][row], found["documents"][row] or "", found["metadatas"][row], self.fields)
            score = max(-1.0, min(1.0, float(scores[row])))
            hits.append(Hit(chunk.id, chunk.document_id, rank, score, chunk.text, chunk.page))
        return hits


def open_store(settings: Settings) -> ChromaStore:
    """The document store that the settings name, opened freshly at its first use."""
    return ChromaStore(settings)


def _probe(collection: Collection, written: str) -> str:
    """With the collection's own id: one that is deleted and made again with as many chunks is another."""
    return f"{collection.id[:8]}:{written}"


def _batches(keys: Sequence[str], size: int) -> Iterator[list[str]]:
    distinct = list(dict.fromkeys(keys))
    for start in range(0, len(distinct), size):
        yield distinct[start : start + size]


def _as_floats(vectors: Any) -> "np.ndarray":
    """float32 [n, dimension], also for n = 0."""
    import numpy as np

    array = np.asarray(vectors, dtype=np.float32)
    return array if array.ndim == 2 else array.reshape(len(array), -1 if len(array) else 0)


def _space(collection: "chromadb.Collection") -> str | None:
    """How the collection measures distance: cosine, l2 or ip."""
    configuration: Any = collection.configuration_json
    for index in ("hnsw", "spann"):
        if configuration.get(index):
            return configuration[index].get("space")
    return None


def _cosines(query: "np.ndarray", vectors: Any) -> list[float]:
    import numpy as np

    rows = _as_floats(vectors)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
    return list(np.divide(rows @ query, lengths, out=np.zeros(len(rows), dtype=np.float32), where=lengths > 0))
