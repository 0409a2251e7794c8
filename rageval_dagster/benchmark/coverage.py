"""What a client's corpus, as it was last scanned, has to do with its datasets: coverage, and questions to look at."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from rageval_dagster.benchmark.topics import cluster, nearest_topics, topic_count
from rageval_dagster.corpus.evidence import Resolution, resolve
from rageval_dagster.errors import TextsDeletedError
from rageval_dagster.records import Item
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage import corpus as corpus_storage
from rageval_dagster.storage.benchmark import Coverage, Dataset
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    import numpy as np

    from rageval_dagster.corpus.store import ChromaStore

Lack = Literal["no_such_document", "ambiguous_document", "quote_not_found"]
"""Why an item's evidence stands for nothing: several documents may be meant where a file named one otherwise."""

LACKS: frozenset[str] = frozenset(get_args(Lack))

TOPIC_CHUNKS = 4_000
"""So many chunks at most are clustered; of more, always the same ones."""


def note_corpus(db: Database, store: "ChromaStore", client_id: str, datasets: Iterable[Dataset]) -> None:
    """Notes of each dataset how much of the corpus it touches, and flags the items whose evidence it does not hold.

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
        benchmark_storage.save_stats(db, dataset.id, {**dataset.stats, "flagged": flagged, "seen": seen}, coverage)


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
    known = corpus_storage.document_chunks(db, client_id, sorted(lost)).keys()
    flagged: dict[str, list[str]] = {}
    for item_id, resolution in resolutions.items():
        earlier = before.get(item_id, ())
        absent: Lack = "ambiguous_document" if "ambiguous_document" in earlier else "no_such_document"
        lacks: list[Lack] = [
            "quote_not_found" if evidence.document_id in known else absent for evidence in resolution.unresolved
        ]
        reasons = [*(reason for reason in earlier if reason not in LACKS), *dict.fromkeys(lacks)]
        if reasons:
            flagged[item_id] = reasons
    return flagged
