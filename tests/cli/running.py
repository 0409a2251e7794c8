"""How the tests run the command, what they ask of a refusal, and documents without the cost of embedding them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.records import Chunk
from rageval_dagster.settings import Settings


@dataclass
class Ended:
    code: int
    out: str
    err: str


Run = Callable[..., Ended]


def refused(ended: Ended, *words: str) -> None:
    """One clear line with these words, no traceback, exit code 2."""
    assert ended.code == 2, ended
    lines = [line for line in ended.err.strip().splitlines() if line.startswith("rageval: ")]
    assert len(lines) == 1, ended.err
    assert "Traceback" not in ended.err
    for word in words:
        assert word in lines[0]


def stock(settings: Settings, client: str, *chunks: Chunk) -> ChromaStore:
    """The project's store, in which the client has these chunks, with vectors of 8 dimensions."""
    settings.ensure_home()
    store = open_store(settings)
    store.ensure_client(client)
    metadatas = [{"document_id": chunk.document_id} for chunk in chunks]
    store.upsert(client, list(chunks), np.eye(len(chunks), 8, dtype=np.float32), metadatas)
    return store
