"""Whether an embedder fits the vectors that a document store holds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.errors import EmbeddingError

if TYPE_CHECKING:
    import numpy as np

    from rageval_dagster.embedding.models import Embedder

_PLACES = 4
_CHUNKS_PER_PLACE = 4
MIN_COSINE = 0.8
MAX_STRANGE_SHARE = 0.25


def check_dimension(store: ChromaStore, client_id: str, embedder: "Embedder") -> None:
    """Raises EmbeddingError where the client's vectors have another dimension than the embedder's."""
    stored = store.dimension(client_id)
    if stored is not None and stored != embedder.dimension:
        raise EmbeddingError(
            f"client {client_id!r}: its vectors in the document store have {stored} dimensions, those of "
            f"{embedder.name} have {embedder.dimension}; set RAGEVAL_EMBEDDING_MODEL to the model that the store was "
            "filled with, or load the documents for another client"
        )


def check_embedder(store: ChromaStore, client_id: str, embedder: "Embedder") -> None:
    """Embeds a few stored chunks again and compares them with their stored vectors.

    Chunks with something redacted are passed over: their vectors may be of the texts as they were.

    Raises:
        EmbeddingError: the dimension differs, or more than a quarter of the chunks have a cosine below 0.8 with
            their own vector: another model of the same dimension would give low scores, not an error.
    """
    check_dimension(store, client_id, embedder)
    page = store.spread(client_id, _PLACES, _CHUNKS_PER_PLACE)
    rows = [row for row, replacements in enumerate(page.redacted) if not replacements]
    if page.vectors is None or not rows:
        return
    strange, cosine = compare_vectors([page.chunks[row].text for row in rows], page.vectors[rows], embedder)
    if strange > MAX_STRANGE_SHARE * len(rows):
        todo = "load the documents again with rageval ingest --embed-again"
        if strange < len(rows) / 2:  # a few also look alike to a kindred model
            todo = f"the others match, so these are damaged, or of another model: {todo}"
        else:
            model = "set RAGEVAL_EMBEDDING_MODEL to the model that the store was filled with"
            todo = f"{model}; if it is this one, and the vectors are damaged, {todo}"
        raise EmbeddingError(
            f"client {client_id!r}: the vectors in the document store are not from {embedder.name}: {strange} of "
            f"{len(rows)} chunks embedded again differ from their vector (their median cosine is {cosine:.2f}); {todo}"
        )


def compare_vectors(texts: Sequence[str], stored: "np.ndarray", embedder: "Embedder") -> tuple[int, float]:
    """Of how many texts the embedder's vector is not the stored one (float [n, dimension]), and their median cosine.

    Without any it is 1.
    """
    import numpy as np

    again = embedder.encode(texts)
    lengths = np.linalg.norm(stored, axis=1) * np.linalg.norm(again, axis=1)
    cosines = (stored * again).sum(axis=1) / np.maximum(lengths, np.finfo(np.float32).tiny)
    strange = cosines[cosines < MIN_COSINE]
    return len(strange), float(np.median(strange)) if len(strange) else 1.0
