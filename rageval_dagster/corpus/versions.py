"""Corpus and index versions: sums over chunks that do not depend on their order and are updated by difference."""

from dataclasses import dataclass

from rageval_dagster.identity import VERSION_MODULUS, digest
from rageval_dagster.records import Chunk


@dataclass
class VersionSum:
    """A sum of digests modulo 2^256: equal for equal sets of chunks, in whatever order they were added or removed."""

    total: int = 0

    def add(self, chunk_digest: int) -> None:
        self.total = (self.total + chunk_digest) % VERSION_MODULUS

    def remove(self, chunk_digest: int) -> None:
        self.total = (self.total - chunk_digest) % VERSION_MODULUS

    def hex(self) -> str:
        """The version, 64 hex digits."""
        return f"{self.total:064x}"


def chunk_digest(chunk: Chunk) -> int:
    """What a chunk adds to the corpus version: SHA-256 over its length-prefixed id, text, document id and page."""
    page = None if chunk.page is None else str(chunk.page)
    return int(digest(chunk.id, chunk.text, chunk.document_id, page), 16)


def vector_digest(chunk_id: str, vector: bytes) -> int:
    """What a chunk adds to the index version: SHA-256 over its id and vector (float32, little-endian)."""
    return int(digest(chunk_id, vector), 16)
