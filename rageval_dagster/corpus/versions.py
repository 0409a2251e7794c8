"""Corpus and index versions: sums over chunks that do not depend on their order and are updated by difference."""

from dataclasses import dataclass
from hashlib import sha256

from rageval_dagster.identity import VERSION_MODULUS
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
    """What a chunk adds to the corpus version: SHA-256 over its length-prefixed id, text, document id and page.

    As `identity.digest` frames them, written out: a scan does this for every chunk, and calls cost as much as hashing.
    """
    chunk_id, text, document = _bytes(chunk.id), _bytes(chunk.text), _bytes(chunk.document_id)
    page = b"-1:" if chunk.page is None else b"%d:%d" % (len(str(chunk.page)), chunk.page)
    framed = b"%d:%b%d:%b%d:%b%b" % (len(chunk_id), chunk_id, len(text), text, len(document), document, page)
    return int.from_bytes(sha256(framed).digest())


def vector_digest(chunk_id: str, vector: bytes) -> int:
    """What a chunk adds to the index version: SHA-256 over its id and vector (float32, little-endian)."""
    named = _bytes(chunk_id)
    return int.from_bytes(sha256(b"%d:%b%d:%b" % (len(named), named, len(vector), vector)).digest())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
