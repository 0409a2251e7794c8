"""Stores as their owners make them: with Chroma itself, and none of this project's code."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def their_chroma(path: Path) -> Iterator[Any]:
    """A Chroma client of the store in a folder, which is closed again."""
    import chromadb
    from chromadb.config import Settings

    client: Any = chromadb.PersistentClient(str(path), settings=Settings(anonymized_telemetry=False))
    try:
        yield client
    finally:
        client.close()


def server_chroma(url: str, database: str) -> Any:
    """A Chroma client of a database on a server."""
    import chromadb
    from chromadb.config import Settings

    host, port = url.removeprefix("http://").split(":")
    return chromadb.HttpClient(host, int(port), settings=Settings(anonymized_telemetry=False), database=database)


def replace_collection(
    client: Any, name: str, ids: Sequence[str], texts: Sequence[str], vectors: Any, metadatas: Sequence[Any]
) -> None:
    """Makes a collection hold these chunks and no others; metadata None: the chunk has none."""
    collection = client.get_or_create_collection(name, embedding_function=None)
    old = collection.get(include=[])["ids"]
    if old:
        collection.delete(ids=old)
    collection.add(ids=list(ids), documents=list(texts), embeddings=vectors, metadatas=list(metadatas))


def contents(path: Path) -> dict[str, tuple[str, int]]:
    """The hash and the time of change of every file in a folder."""
    return {
        file.relative_to(path).as_posix(): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in path.rglob("*")
        if file.is_file()
    }
