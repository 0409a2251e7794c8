"""What a document store holds: which collections look like clients, what their metadata says, how their texts are."""

from array import array
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from statistics import mode
from typing import TYPE_CHECKING, Any

from rageval_dagster.corpus.backends import Backend, open_backend
from rageval_dagster.corpus.chroma_internals import DATABASE_FILE, Collection, distance_space
from rageval_dagster.corpus.compatibility import MAX_STRANGE_SHARE, compare_vectors
from rageval_dagster.corpus.fields import DEFAULT_DOCUMENT_FIELD, FieldNames, read_chunk, read_name
from rageval_dagster.corpus.metadata_roles import FieldUse, MetadataColumns, words_of
from rageval_dagster.corpus.names import client_name, is_made_by_us, unfit_name
from rageval_dagster.corpus.noise import LOOKED_AT, RepeatedLines, noise_kinds
from rageval_dagster.embedding.models import EndpointEmbedder, TransformerEmbedder
from rageval_dagster.errors import EmbeddingError, StoreError
from rageval_dagster.identity import digest
from rageval_dagster.languages import language_shares
from rageval_dagster.records import Chunk, Progress
from rageval_dagster.settings import Settings

if TYPE_CHECKING:
    import chromadb

    from rageval_dagster.embedding.models import Embedder

CLOSER_LOOKS = 5
"""So many of the largest collections are looked at closely; the others' first chunks are enough to know them by."""

EXAMPLES = 5
_BRIEF = (3, 20)
_CLOSE = (40, 500)
"""Pages, evenly spread, and chunks a page: at most 20,000 chunks of a collection are read."""
_COSTLY_SAMPLE = 1_000
"""Chunks whose language is told and whose tokens are counted."""
_EMBEDDED_AGAIN = (4, 4)
_COMMON_DIMENSION_SHARE = 0.8

_NOT_A_CLIENT = frozenset(
    "test tests testing tmp temp temporary backup backups bak cache cached old copy scratch sandbox dummy trash".split()
)


@dataclass(frozen=True)
class Lengths:
    """Median, 95th percentile and maximum."""

    median: int
    p95: int
    longest: int


@dataclass(frozen=True)
class Finding:
    """What a share of the chunks have, with the ids of a few of them."""

    share: float
    examples: tuple[str, ...]


@dataclass(frozen=True)
class ClientField:
    """A field that tells several clients of one collection apart. `without` is the share of chunks that lack it."""

    name: str
    clients: int
    largest: str
    without: float
    types: Mapping[str, float]


@dataclass(frozen=True)
class Vectors:
    """The vectors of a collection: `made_by_model` is None where it was not tried, `problem` says why it is false."""

    dimension: int | None
    space: str | None
    made_by_model: bool | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Texts:
    """A close look at the texts of a collection's sampled chunks; shares are of the chunks that have text.

    `languages` are as `language_shares` gives them.
    `duplicates` are chunks whose words another chunk has too (the first of each not counted), `in_other_documents`
    those of them that stand in another document than the first. `tokens` and `too_long` (for the embedding model's
    window) are None where the model does not tell.
    """

    languages: Mapping[str, float]
    characters: Lengths
    tokens: Lengths | None
    window: int | None
    too_long: float | None
    duplicates: Finding
    in_other_documents: float
    boilerplate: Finding
    noise: Finding
    noise_kinds: Mapping[str, float]


@dataclass(frozen=True)
class CollectionReport:
    """What a collection holds, judged by the `read` of its `chunks`.

    `not_a_client` says why it does not look like one; `texts` is None where only a few chunks were looked at.
    `sample` is a hash of those: equal ones are copies of each other.
    """

    name: str
    client_id: str
    chunks: int
    read: int
    without_text: int
    vectors: Vectors
    document: FieldUse | None
    documents: int
    without_document: float
    time: FieldUse | None
    page: FieldUse | None
    shared_by: ClientField | None
    texts: Texts | None
    not_a_client: str | None = None
    sample: str = field(default="", repr=False)


@dataclass(frozen=True)
class StoreReport:
    """What a store holds.

    `is_foreign`: it is embedded and not this project's, and was read from a copy. `model_problem` says why the
    embedding model that is set cannot be used; vectors are not compared with those of an `endpoint_model`.
    """

    location: str
    is_foreign: bool
    collections: tuple[CollectionReport, ...]
    model: str
    model_problem: str | None
    endpoint_model: bool

    @property
    def clients(self) -> list[CollectionReport]:
        """The collections that look like clients, or hold them, the largest first."""
        found = [collection for collection in self.collections if collection.not_a_client is None]
        return sorted(found, key=_largest_first)

    @property
    def languages(self) -> dict[str, float]:
        """The share of the clients' texts in each language, by the chunks of those that were looked at closely."""
        counts: Counter[str] = Counter()
        for client in self.clients:
            for code, share in client.texts.languages.items() if client.texts else ():
                counts[code] += round(share * client.chunks)
        return {code: count / counts.total() for code, count in counts.most_common()}

    @property
    def shared(self) -> CollectionReport | None:
        """The collection that all clients seem to share, if one does."""
        clients = self.clients
        return clients[0] if len(clients) == 1 and clients[0].shared_by is not None else None


def check_there(settings: Settings) -> None:
    """Raises StoreError where an embedded store is named and there is none: opening it would make one."""
    if settings.chroma_url is None and not (settings.embedded_chroma_path / DATABASE_FILE).is_file():
        raise StoreError(
            f"there is no Chroma store at {settings.embedded_chroma_path} (no {DATABASE_FILE} in it): name "
            "your folder, or http://HOST:PORT of a server, with rageval init --chroma; or load documents with "
            "rageval ingest PATH --client NAME"
        )


def inspect_store(
    settings: Settings, embedder: "Embedder | None", model_problem: str | None = None, progress: Progress | None = None
) -> StoreReport:
    """Looks at every collection, and closely at the largest that look like clients; nothing is written to the store.

    Memory holds one page of chunks, and a few numbers for each chunk of one sample.

    Args:
        embedder: the model that is set, None where it cannot be loaded: `model_problem` then says why.

    Raises:
        StoreError: there is no store, it does not answer, or holds nothing.
    """
    check_there(settings)
    backend = open_backend(settings)
    collections = backend.collections()
    counts = {collection.id: backend.count(collection) for collection in collections}
    if not any(counts.values()):
        holds = "no chunk in any collection" if collections else "no collection"
        raise StoreError(
            f"the Chroma store at {backend.location} has {holds} in tenant {settings.chroma_tenant!r}, database "
            f"{settings.chroma_database!r}; RAGEVAL_CHROMA_TENANT and RAGEVAL_CHROMA_DATABASE name others"
        )
    inspector = _Inspector(backend, embedder, progress)
    brief = [inspector.look(collection, counts[collection.id]) for collection in collections]
    judged = _judged(brief, {collection.name for collection in collections if is_made_by_us(collection.metadata)})
    likely = sorted((report for report in judged if report.not_a_client is None), key=_largest_first)
    closely = {report.name: report for report in likely[:CLOSER_LOOKS]}
    for place, collection in enumerate(collections):
        if collection.name in closely:
            judged[place] = inspector.look(collection, counts[collection.id], closely[collection.name])
    return StoreReport(
        location=backend.location,
        is_foreign=backend.is_foreign,
        collections=tuple(judged),
        model=settings.embedding_model,
        model_problem=model_problem,
        endpoint_model=isinstance(embedder, EndpointEmbedder),
    )


def _largest_first(report: CollectionReport) -> tuple[int, str]:
    return -report.chunks, report.name


class _Inspector:
    """Looks at one collection after the other."""

    def __init__(self, backend: Backend, embedder: "Embedder | None", progress: Progress | None) -> None:
        self._backend = backend
        self._embedder = embedder
        self._progress = progress
        self._done = self._expected = 0

    def look(self, collection: Collection, count: int, known: CollectionReport | None = None) -> CollectionReport:
        """Reads a few chunks, or where a first look is `known` as many as a closer one takes."""
        close = known is not None
        pages, size = _CLOSE if close else _BRIEF
        expected = min(count, pages * size)
        self._expected += expected
        field_name = known.document.name if known and known.document else DEFAULT_DOCUMENT_FIELD
        columns, texts, words = MetadataColumns(), _TextSample(expected), list[str]()
        without_text = 0
        with self._backend.translated():
            opened = self._backend.client().get_collection(collection.name, embedding_function=None)
            for chunk, metadata in self._read(opened, _places(count, pages, size), field_name):
                columns.add(metadata)
                if not chunk.text.strip():
                    without_text += 1
                    continue
                words.append(chunk.words_hash)
                if close:
                    texts.add(chunk)
            vectors = self._vectors(opened, count, close)
        document = columns.document_field()
        documents, without_document = columns.documents(document.name if document else DEFAULT_DOCUMENT_FIELD)
        return CollectionReport(
            name=collection.name,
            client_id=client_name(collection.name, collection.metadata),
            chunks=count,
            read=columns.count,
            without_text=without_text,
            vectors=vectors,
            document=document,
            documents=documents,
            without_document=without_document,
            time=columns.time_field(),
            page=columns.page_field(),
            shared_by=self._shared_by(collection, count, columns, document) if close else None,
            texts=texts.report(self._embedder) if close and words else None,
            sample=digest(str(count), *sorted(words)),
        )

    def _read(
        self, opened: "chromadb.Collection", places: Sequence[tuple[int, int]], document_field: str
    ) -> Iterator[tuple[Chunk, Mapping[str, Any] | None]]:
        names = FieldNames(document_field, "", "")
        for offset, size in places:
            found: Any = opened.get(include=["documents", "metadatas"], limit=size, offset=offset)
            for chunk_id, text, metadata in zip(found["ids"], found["documents"], found["metadatas"], strict=True):
                yield read_chunk(chunk_id, text or "", metadata, names), metadata
            self._done += len(found["ids"])
            if self._progress is not None:
                self._progress(self._done, self._expected)

    def _vectors(self, opened: "chromadb.Collection", count: int, close: bool) -> Vectors:
        """Dimension and space, and in a close look whether the model gives the same vectors for a few texts."""
        import numpy as np

        ids: list[str] = []
        texts: list[str] = []
        rows: list[Any] = []
        for offset, size in _places(count, *(_EMBEDDED_AGAIN if close else (1, 1))):
            found: Any = opened.get(include=["documents", "embeddings"], limit=size, offset=offset)
            ids += found["ids"]
            texts += found["documents"]
            rows += list(found["embeddings"]) if found["embeddings"] is not None else []
        dimension, space = len(rows[0]) if rows else None, distance_space(opened)
        kept = [row for row, text in enumerate(texts) if text and text.strip()]
        problem = None
        # What a model behind an endpoint would be sent leaves this machine: that is for an evaluation to do.
        if self._embedder is None or isinstance(self._embedder, EndpointEmbedder) or not rows:
            return Vectors(dimension, space)
        if dimension != self._embedder.dimension:
            problem = f"they have {dimension} dimensions, the model's have {self._embedder.dimension}"
        elif not close or not kept:
            return Vectors(dimension, space)
        else:
            stored = np.asarray([rows[row] for row in kept], dtype=np.float32)
            try:
                strange, cosine = compare_vectors([texts[row] for row in kept], stored, self._embedder)
                if strange > MAX_STRANGE_SHARE * len(kept):
                    again = f"{strange} of {len(kept)} chunks embedded again"
                    problem = f"{again} differ from their vector (their median cosine is {cosine:.2f})"
            except EmbeddingError as error:
                problem = str(error)
        return Vectors(dimension, space, made_by_model=problem is None, problem=problem)

    def _shared_by(
        self, collection: Collection, count: int, columns: MetadataColumns, document: FieldUse | None
    ) -> ClientField | None:
        """The field that tells clients apart, counted over the whole collection."""
        candidates = columns.client_fields(document)
        if not candidates:
            return None
        clients: Counter[str] = Counter()
        for value in self._backend.values(collection, candidates[0].name):
            client_id = read_name(value.value)
            if client_id is not None:
                clients[client_id] += value.chunks
        [(largest, _)] = clients.most_common(1)
        without = 1 - clients.total() / count
        return ClientField(candidates[0].name, len(clients), largest, without, candidates[0].types)


class _TextSample:
    """What is counted of the texts of a sample while they pass by."""

    def __init__(self, expected: int) -> None:
        self._every = ceil(expected / _COSTLY_SAMPLE)
        self._lengths = array("q")
        self._costly: list[str] = []
        self._first: dict[str, str] = {}
        self._repeated: list[str] = []
        self._in_other_documents = 0
        self._lines = RepeatedLines()
        self._noisy: list[str] = []
        self._kinds: Counter[str] = Counter()

    def add(self, chunk: Chunk) -> None:
        if len(self._lengths) % self._every == 0:
            self._costly.append(chunk.text[:LOOKED_AT])
        self._lengths.append(len(chunk.text))
        if chunk.words_hash in self._first:
            self._repeated.append(chunk.id)
            self._in_other_documents += self._first[chunk.words_hash] != chunk.document_id
        else:
            self._first[chunk.words_hash] = chunk.document_id
            self._lines.add(chunk.id, chunk.text)
        kinds = noise_kinds(chunk.text)
        if kinds:
            self._noisy.append(chunk.id)
            self._kinds.update(kinds)

    def report(self, embedder: "Embedder | None") -> Texts:
        count = len(self._lengths)
        tokens, window = None, None
        if isinstance(embedder, TransformerEmbedder):
            tokens, window = embedder.token_counts(self._costly), embedder.window
        return Texts(
            languages=language_shares(self._costly),
            characters=_lengths(self._lengths),
            tokens=_lengths(tokens) if tokens else None,
            window=window,
            too_long=sum(number > window for number in tokens) / len(tokens) if tokens and window else None,
            duplicates=_finding(self._repeated, count),
            in_other_documents=self._in_other_documents / count,
            boilerplate=_finding(self._lines.mostly_repeated(), count),
            noise=_finding(self._noisy, count),
            noise_kinds={kind: number / count for kind, number in self._kinds.most_common()},
        )


def _judged(reports: Sequence[CollectionReport], ours: Container[str]) -> list[CollectionReport]:
    """The reports with the reasons why some do not look like clients.

    A name or a single chunk counts against a collection only where others are left.
    """
    reasons = {report.name: reason for report in reports if (reason := _unusable(report)) is not None}
    filled = [report for report in reports if report.name not in reasons]
    doubts = {report.name: doubt for report in filled if (doubt := _doubt(report, report.name in ours)) is not None}
    if len(doubts) < len(filled):
        reasons |= doubts
    originals: dict[str, str] = {}
    for report in sorted(filled, key=lambda report: (report.name in reasons, report.name not in ours, report.name)):
        original = originals.setdefault(report.sample, report.name)
        if original != report.name:
            reasons[report.name] = f"it has the same chunks as {original!r}"
    likely = [report for report in filled if report.name not in reasons]
    dimensions = [report.vectors.dimension for report in likely]
    if len(likely) > 2 and dimensions.count(mode(dimensions)) >= _COMMON_DIMENSION_SHARE * len(likely):
        for report in likely:
            if report.vectors.dimension != mode(dimensions):
                reasons[report.name] = (
                    f"its vectors have {report.vectors.dimension} dimensions, those of the others {mode(dimensions)}"
                )
    return [replace(report, not_a_client=reasons.get(report.name)) for report in reports]


def _unusable(report: CollectionReport) -> str | None:
    if report.chunks == 0:
        return "it is empty"
    if report.read == report.without_text:
        return "its chunks have no text"
    return unfit_name(report.client_id)


def _doubt(report: CollectionReport, is_ours: bool) -> str | None:
    if is_ours:
        return None
    telling = sorted(_NOT_A_CLIENT.intersection(words_of(report.name)))
    if telling:
        return f"its name says {telling[0]!r}"
    return "it has a single chunk" if report.chunks == 1 else None


def _places(count: int, pages: int, size: int) -> list[tuple[int, int]]:
    """(offset, size) of at most `pages` pages, evenly spread from the first chunk to the last."""
    if count <= pages * size:
        return [(offset, size) for offset in range(0, count, size)]
    step = (count - size) / max(pages - 1, 1)
    return [(round(place * step), size) for place in range(pages)]


def _finding(chunk_ids: Sequence[str], count: int) -> Finding:
    return Finding(len(chunk_ids) / count, tuple(chunk_ids[:EXAMPLES]))


def _lengths(values: Sequence[int]) -> Lengths:
    ordered = sorted(values)
    return Lengths(ordered[len(ordered) // 2], ordered[int(0.95 * (len(ordered) - 1))], ordered[-1])
