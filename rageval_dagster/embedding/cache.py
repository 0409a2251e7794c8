"""An embedder that keeps each client's vectors in the history database, so that no text is embedded twice."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rageval_dagster.embedding.models import Embedder
from rageval_dagster.errors import EmbeddingError
from rageval_dagster.identity import digest
from rageval_dagster.storage.caches import load_vectors, save_vectors
from rageval_dagster.storage.database import Database, in_batches

if TYPE_CHECKING:
    import numpy as np

SAVED_AT_ONCE = 1_024
"""Texts embedded between two writes: a kill loses at most these, some seconds of work."""


class CachedEmbedder:
    """The same vectors as the embedder's own, for one client; each distinct text of a client is embedded once.

    Vectors are kept by the model's version and the text's hash: another model, or other weights, never answer.
    """

    def __init__(self, embedder: Embedder, db: Database, client_id: str) -> None:
        self._embedder = embedder
        self._db = db
        self._client_id = client_id
        self.name = embedder.name
        self.windows = embedder.windows

    @property
    def version(self) -> str:
        return self._embedder.version

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def encode(self, texts: Sequence[str]) -> "np.ndarray":
        """float32 [len(texts), dimension], each row of length 1.

        Raises:
            EmbeddingError: the endpoint now gives vectors of another dimension than those that are kept.
        """
        import numpy as np

        if not texts:
            return self._embedder.encode([])
        by_hash = {digest(text): text for text in texts}
        kept = load_vectors(self._db, self._client_id, self.version, list(by_hash))
        # Sorted by length before it is cut into blocks, so that a block holds texts of like length: little padding.
        missing = sorted((key for key in by_hash if key not in kept), key=lambda key: (len(by_hash[key]), key))
        for block in in_batches(missing, SAVED_AT_ONCE):
            made = self._embedder.encode([by_hash[key] for key in block]).astype("<f4", copy=False)
            new = {key: vector.tobytes() for key, vector in zip(block, made, strict=True)}
            save_vectors(self._db, self._client_id, self.version, new)
            kept.update(new)
        lengths = {len(vector) for vector in kept.values()}
        if len(lengths) > 1:
            raise EmbeddingError(
                f"embedding model {self.name}: it gave vectors of {' and '.join(str(n // 4) for n in sorted(lengths))} "
                "dimensions; another model answers under the same name: give it another name or endpoint"
            )
        return np.stack([np.frombuffer(kept[digest(text)], dtype="<f4") for text in texts]).astype(np.float32)
