"""The cache of vectors, each client's own."""

from collections.abc import Sequence

import numpy as np
import pytest

from rageval_dagster.embedding.cache import CachedEmbedder
from rageval_dagster.errors import EmbeddingError
from rageval_dagster.identity import digest
from rageval_dagster.storage.database import Database


class HashEmbedder:
    """Vectors from the texts' digests; notes what it was asked."""

    def __init__(self, version: str = "hash@1", dimension: int = 4) -> None:
        self.name = "hash"
        self.version = version
        self.dimension = dimension
        self.asked: list[str] = []

    def windows(self, text: str) -> list[str]:
        return [text]

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.asked += texts
        rows = [[int(digit, 16) + 1 for digit in digest(text)[: self.dimension]] for text in texts]
        vectors = np.array(rows, dtype=np.float32).reshape(len(texts), self.dimension)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_each_distinct_text_is_embedded_once(sqlite_db: Database) -> None:
    embedder = HashEmbedder()
    cached = CachedEmbedder(embedder, sqlite_db, "acme")
    first = cached.encode(["bb", "a", "bb", ""])
    again = CachedEmbedder(embedder, sqlite_db, "acme").encode(["a", "ccc", "bb"])
    assert sorted(embedder.asked) == ["", "a", "bb", "ccc"]
    assert (first == HashEmbedder().encode(["bb", "a", "bb", ""])).all()
    assert (again == HashEmbedder().encode(["a", "ccc", "bb"])).all()
    assert again.dtype == np.float32
    assert again.flags.writeable


def test_no_other_client_and_no_other_model_answers(sqlite_db: Database) -> None:
    for client_id, version in (("acme", "hash@1"), ("other", "hash@1"), ("acme", "hash@2")):
        embedder = HashEmbedder(version)
        CachedEmbedder(embedder, sqlite_db, client_id).encode(["a"])
        assert embedder.asked == ["a"]


def test_what_was_embedded_before_a_failure_is_kept(sqlite_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(HashEmbedder):
        def encode(self, texts: Sequence[str]) -> np.ndarray:
            if self.asked:
                raise EmbeddingError("gone")
            return super().encode(texts)

    monkeypatch.setattr("rageval_dagster.embedding.cache.SAVED_AT_ONCE", 3)
    texts = [f"text {number}" for number in range(5)]
    with pytest.raises(EmbeddingError):
        CachedEmbedder(Failing(), sqlite_db, "acme").encode(texts)
    after = HashEmbedder()
    CachedEmbedder(after, sqlite_db, "acme").encode(texts)
    assert len(after.asked) == 2


def test_another_model_under_the_same_version_is_an_error(sqlite_db: Database) -> None:
    CachedEmbedder(HashEmbedder(dimension=4), sqlite_db, "acme").encode(["a"])
    with pytest.raises(EmbeddingError, match="4 and 6"):
        CachedEmbedder(HashEmbedder(dimension=6), sqlite_db, "acme").encode(["a", "b"])
