"""What a client's corpus says of its datasets: what they cover of it, questions to look at, how hard they are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from statistics import median_low
from typing import TYPE_CHECKING, Any, Literal, get_args

from rageval_dagster.corpus.evidence import Resolution, resolve
from rageval_dagster.errors import EmbeddingError, TextsDeletedError
from rageval_dagster.identity import digest
from rageval_dagster.records import NOT_RETURNED, Candidate, Item
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage import corpus as corpus_storage
from rageval_dagster.storage.benchmark import Coverage, Dataset
from rageval_dagster.storage.database import Database
from rageval_dagster.text import normalise_whitespace

if TYPE_CHECKING:
    import numpy as np

    from rageval_dagster.corpus.store import ChromaStore
    from rageval_dagster.embedding.models import Embedder

Lack = Literal["no_such_document", "ambiguous_document", "quote_not_found"]
"""Why an item's evidence stands for nothing: several documents may be meant where a file named one otherwise."""

LACKS: frozenset[str] = frozenset(get_args(Lack))

TOPIC_CHUNKS = 4_000
"""So many chunks at most are clustered; of more, always the same ones."""
MOST_TOPICS = 50
_ROUNDS = 50

DIFFICULTY_DEPTH = 50


def note_corpus(db: Database, store: "ChromaStore", client_id: str, datasets: Iterable[Dataset]) -> None:
    """Notes of each dataset how much of the corpus it touches and which of its items hang together, and flags those
    whose evidence the corpus does not hold.

    Items whose evidence is back lose that flag. Done only where the corpus, its vectors or the dataset changed since
    it was last done; else nothing is read.

    Raises:
        StoreError: the store does not answer or does not know the client.
    """
    client = client_storage.get_client(db, client_id)
    seen = [client.corpus_version, client.index_version]
    if client.corpus_version is None:
        return
    centres: np.ndarray | None = None
    for dataset in datasets:
        if dataset.stats.get("seen") == seen:
            continue
        try:
            items = benchmark_storage.dataset_items(db, dataset.id)
        except TextsDeletedError:
            continue
        resolutions = resolve(items, db, store, client_id)
        centres = _topics(db, store, client_id) if centres is None else centres
        documents = {document for each in resolutions.values() for document in each.documents or ()}
        coverage = Coverage(
            documents=client.document_count,
            documents_touched=len(documents),
            topics=len(centres),
            topics_touched=_touched(store, client_id, items, resolutions, centres),
        )
        by_rules = dataset.flagged if dataset.kind == "imported" else {}
        flagged = _flagged(db, client_id, by_rules, resolutions)
        benchmark_storage.note_clusters(db, dataset.id, _clusters(db, client_id, items, resolutions))
        benchmark_storage.save_stats(db, dataset.id, {**dataset.stats, "flagged": flagged, "seen": seen}, coverage)


def _clusters(
    db: Database, client_id: str, items: Sequence[Item], resolutions: Mapping[str, Resolution]
) -> dict[str, str]:
    """What each item hangs together with, by the place in its document where its first evidence begins."""
    first = {
        item.item_id: [digest(each) for each in resolutions[item.item_id].of_each.get(item.evidence[0], ())]
        for item in items
        if item.evidence
    }
    found = corpus_storage.manifest_lookup(db, client_id, {key for keys in first.values() for key in keys})
    positions = {key: entry.position for key, entry in found.items() if entry.position is not None}
    return {
        item.item_id: item.cluster(
            min((positions[key] for key in first.get(item.item_id, ()) if key in positions), default=None)
        )
        for item in items
    }


def _topics(db: Database, store: "ChromaStore", client_id: str) -> "np.ndarray":
    """The centres of the corpus's topics, float32 [topics, dimension]."""
    import numpy as np

    entries = corpus_storage.thinned_manifest(db, client_id, TOPIC_CHUNKS)
    vectors = list(store.vectors_of(client_id, [entry.chunk_id for entry in entries]).values())
    if not vectors:
        return np.empty((0, 0), dtype=np.float32)
    return cluster(np.stack(vectors), topic_count(len(vectors)))


def _touched(
    store: "ChromaStore",
    client_id: str,
    items: Sequence[Item],
    resolutions: Mapping[str, Resolution],
    centres: "np.ndarray",
) -> int | None:
    """How many topics the chunks that hold the items' quotes are about."""
    import numpy as np

    if not len(centres) or not any(evidence.quote for item in items for evidence in item.evidence):
        return None
    chunk_ids = sorted({chunk_id for each in resolutions.values() for chunk_id in each.chunks or ()})
    vectors = list(store.vectors_of(client_id, chunk_ids).values())
    return len(nearest_topics(np.stack(vectors), centres)) if vectors else 0


def _flagged(
    db: Database, client_id: str, before: Mapping[str, Sequence[str]], resolutions: Mapping[str, Resolution]
) -> dict[str, list[str]]:
    """The reasons to look at items, by item id: the rules that they broke before, and what is unresolved now."""
    lost = {evidence.document_id for each in resolutions.values() for evidence in each.unresolved}
    gone = corpus_storage.absent_documents(db, client_id, lost)
    flagged: dict[str, list[str]] = {}
    for item_id, resolution in resolutions.items():
        earlier = before.get(item_id, ())
        absent: Lack = "ambiguous_document" if "ambiguous_document" in earlier else "no_such_document"
        lacks: list[Lack] = [
            absent if evidence.document_id in gone else "quote_not_found" for evidence in resolution.unresolved
        ]
        reasons = [*(reason for reason in earlier if reason not in LACKS), *dict.fromkeys(lacks)]
        if reasons:
            flagged[item_id] = reasons
    return flagged


# --- topics: clusters of the chunks' vectors by their direction (spherical k-means) ----------------------------------


def topic_count(chunks: int) -> int:
    """How many topics so many chunks are taken to have: about sqrt(chunks / 2), as is usual, but no more than 50."""
    return min(max(round(sqrt(chunks / 2)), 1), MOST_TOPICS, chunks)


def cluster(vectors: "np.ndarray", count: int) -> "np.ndarray":
    """The centres of up to `count` clusters, float32 [clusters, d], each of length 1; every one is nearest to some row.

    The same rows give the same ones. The first are drawn far apart (k-means++, Arthur and Vassilvitskii 2007). Fewer
    clusters come of rows that have fewer directions.

    Args:
        vectors: float [n, d], at least one.
        count: of clusters, at least 1.
    """
    import numpy as np

    rows = directions(vectors)
    random = np.random.default_rng(0)
    chosen = [0]
    similarity = rows @ rows[0]
    while len(chosen) < count:
        distances = 1.0 - similarity.astype(np.float64)
        # Rounding leaves a little between equal rows.
        distances[distances < 1e-6] = 0.0
        if not distances.sum():
            break
        chosen.append(int(random.choice(len(rows), p=distances / distances.sum())))
        similarity = np.maximum(similarity, rows @ rows[chosen[-1]])
    centres = rows[chosen]
    nearest = np.argmax(rows @ centres.T, axis=1)
    for _ in range(_ROUNDS):
        # A centre that nothing is near to any more is dropped.
        centres = directions(np.stack([rows[nearest == number].sum(axis=0) for number in np.unique(nearest)]))
        before, nearest = nearest, np.argmax(rows @ centres.T, axis=1)
        if np.array_equal(before, nearest):
            break
    return centres[np.unique(nearest)]


def nearest_topics(vectors: "np.ndarray", centres: "np.ndarray") -> set[int]:
    """The numbers of the centres that some row is nearest to."""
    import numpy as np

    return {int(number) for number in np.argmax(directions(vectors) @ centres.T, axis=1)} if len(vectors) else set()


def directions(vectors: "np.ndarray") -> "np.ndarray":
    """Rows of length 1, float32 [n, d]."""
    import numpy as np

    rows = np.asarray(vectors, dtype=np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


# --- difficulty: at which rank the store gives back the chunk that a question was written about ----------------------


def with_difficulty(
    store: "ChromaStore", client_id: str, accepted: Sequence[Candidate], embedder: "Embedder"
) -> list[Candidate]:
    """Candidates with their round-trip rank, where the store's vectors are the embedder's; without it, where not.

    What was measured before stays so.
    """
    from rageval_dagster.corpus.compatibility import check_embedder

    new = [each for each in accepted if each.difficulty is None and each.item and each.item.evidence]
    if not new:
        return list(accepted)
    try:
        check_embedder(store, client_id, embedder)
    except EmbeddingError:
        return list(accepted)
    vectors = embedder.encode([candidate.item.question for candidate in new if candidate.item])
    ranks = {candidate.candidate_id: NOT_RETURNED for candidate in new}
    for candidate, hits in zip(new, store.query(client_id, vectors, DIFFICULTY_DEPTH), strict=True):
        quote = candidate.item and candidate.item.evidence[0].quote
        if quote:
            wanted = normalise_whitespace(quote)
            found = (hit.rank for hit in hits if hit.text and wanted in normalise_whitespace(hit.text))
            ranks[candidate.candidate_id] = next(found, NOT_RETURNED)
    return [
        replace(candidate, difficulty=ranks.get(candidate.candidate_id, candidate.difficulty)) for candidate in accepted
    ]


def difficulty_stats(candidates: Iterable[Candidate]) -> dict[str, Any]:
    """What a dataset's stats say of its difficulty: the best rank at which half of the questions measured or more get
    their own passage, None where fewer do; how many were measured, and how many ranks were looked at.
    """
    known = [each.difficulty for each in candidates if each.difficulty is not None]
    # Behind all ranks: left out, the hardest questions would make a dataset look easy.
    middle = median_low(rank if rank != NOT_RETURNED else DIFFICULTY_DEPTH + 1 for rank in known) if known else None
    return {
        "median_difficulty": middle if middle is not None and middle <= DIFFICULTY_DEPTH else None,
        "difficulty_measured": len(known),
        "difficulty_depth": DIFFICULTY_DEPTH,
    }
