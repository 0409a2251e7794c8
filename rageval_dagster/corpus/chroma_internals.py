"""The one door to what Chroma does not promise: its SQLite file, how it opens and caches a store, how it fails.

tests/corpus/test_chroma_internals.py holds all of it against Chroma, scripts/contracts.sh against other versions.
"""

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from rageval_dagster.errors import MAKE_ROOM, StoreAwayError, StoreError, Translating, is_disk_full
from rageval_dagster.identity import digest

if TYPE_CHECKING:
    import chromadb
    from chromadb.api import ClientAPI

DATABASE_FILE = "chroma.sqlite3"
MARKER_FILE = ".rageval-store"
"""Stands in the folder of an embedded store that this project made, and may therefore open where it is."""

HEARTBEAT = ("/api/v2/heartbeat", "nanosecond heartbeat")
"""Where a server says that it is one, and a word of its answer."""

AWAY = {502, 503, 504}
"""What stands before a server that is just being restarted answers."""

_BUSY_TIMEOUT_S = 10
_opening = threading.Lock()

ClientValue = str | int | float
"""What a metadata field that names the client may hold."""

_grouped: "dict[tuple[Path, str, str], tuple[int, list[FieldValue]]]" = {}
"""(store, collection, field) -> the values at a revision: a process that looks again and again groups them once."""


@dataclass(frozen=True)
class Collection:
    """A collection of the store, without its chunks."""

    id: str
    name: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class FieldValue:
    """A value of a metadata field in a collection: how many chunks have it, and a text that tells when they changed."""

    value: ClientValue
    chunks: int
    written: str


class Catalogue:
    """The collections of one tenant and database in an embedded store, and how far each was written.

    It reads the SQLite file without Chroma, whose mere opening changes its files.
    """

    def __init__(self, path: Path, tenant: str, database: str) -> None:
        self.path = path
        self.tenant = tenant
        self.database = database

    def exists(self) -> bool:
        return (self.path / DATABASE_FILE).is_file()

    @property
    def is_foreign(self) -> bool:
        """Whether there is a store that this project did not make."""
        return self.exists() and not (self.path / MARKER_FILE).exists()

    @contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        """A read-only connection.

        Raises:
            StoreError: the file cannot be read, or is not Chroma's.
        """
        try:
            with closing(self._opened("ro")) as connection:
                if self._must_be_rolled_back(connection):
                    self._roll_back()
                yield connection
        except sqlite3.Error as error:
            raise StoreError(
                f"the Chroma store at {self.path} cannot be read ({error}); see that it is one, and readable"
            ) from None

    def _opened(self, mode: str) -> sqlite3.Connection:
        uri = f"{(self.path / DATABASE_FILE).as_uri()}?mode={mode}"
        return sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT_S)

    def _must_be_rolled_back(self, connection: sqlite3.Connection) -> bool:
        """Whether a writer died in the middle of a write, which who only reads cannot undo."""
        try:
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
                raise
            return True
        return False

    def _roll_back(self) -> None:
        """Undoes the write that was not finished, as SQLite does whenever somebody opens the file who may write."""
        if self.is_foreign:
            raise StoreError(
                f"the Chroma store at {self.path} cannot be read: its last writer died in the middle of a write; open "
                "it once with Chroma (start the program that it belongs to), which undoes that"
            )
        with closing(self._opened("rw")) as connection:
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()

    def collections(self) -> list[Collection]:
        """The collections by name; none where there is no store yet."""
        if not self.exists():
            return []
        with self.connect() as connection:
            rows = connection.execute(
                "SELECT c.id, c.name FROM collections c JOIN databases d ON d.id = c.database_id"
                " WHERE d.tenant_id = ? AND d.name = ? ORDER BY c.name",
                (self.tenant, self.database),
            ).fetchall()
            metadata: dict[str, dict[str, Any]] = {}
            for collection_id, key, value in connection.execute(
                "SELECT collection_id, key, coalesce(str_value, int_value, float_value) FROM collection_metadata"
            ):
                metadata.setdefault(collection_id, {})[key] = value
        return [Collection(identity, name, metadata.get(identity, {})) for identity, name in rows]

    def revisions(self) -> dict[str, int]:
        """Collection id -> the number of the last write to it (edits, metadata changes and deletions included)."""
        with self.connect() as connection:
            rows = connection.execute(
                "SELECT s.collection, m.seq_id FROM segments s JOIN max_seq_id m ON m.segment_id = s.id"
                " WHERE s.scope = 'METADATA'"
            ).fetchall()
        return {collection_id: _sequence_number(revision) for collection_id, revision in rows}

    def values(self, collection_id: str, field: str) -> list[FieldValue]:
        """The values of a metadata field in a collection; equal ones of another type stand apart (7, 7.0 and "7").

        Grouping takes time with the number of chunks; it is done once a process while the collection is not written to.
        """
        key, revision = (self.path, collection_id, field), self.revisions().get(collection_id, 0)
        if key not in _grouped or _grouped[key][0] != revision:
            _grouped[key] = revision, self._group(collection_id, field)
        return _grouped[key][1]

    def _group(self, collection_id: str, field: str) -> list[FieldValue]:
        with self.connect() as connection:
            rows = connection.execute(
                "SELECT coalesce(m.string_value, m.int_value, m.float_value), count(*), max(e.seq_id)"
                " FROM segments s JOIN embeddings e ON e.segment_id = s.id JOIN embedding_metadata m ON m.id = e.id"
                " WHERE s.collection = ? AND s.scope = 'METADATA' AND m.key = ?"
                " AND coalesce(m.string_value, m.int_value, m.float_value) IS NOT NULL"
                " GROUP BY m.string_value, m.int_value, m.float_value",
                (collection_id, field),
            ).fetchall()
        return [FieldValue(value, count, f"{count}.{_sequence_number(revision)}") for value, count, revision in rows]

    def count(self, collection_id: str) -> int:
        """How many chunks a collection has."""
        with self.connect() as connection:
            return connection.execute(
                "SELECT count(*) FROM segments s JOIN embeddings e ON e.segment_id = s.id"
                " WHERE s.collection = ? AND s.scope = 'METADATA'",
                (collection_id,),
            ).fetchone()[0]

    def state(self) -> str:
        """A hash that changes with every write to the store's collections (all tenants)."""
        with self.connect() as connection:
            collections = connection.execute(
                "SELECT id, name, database_id, dimension FROM collections ORDER BY id"
            ).fetchall()
            metadata = connection.execute(
                "SELECT collection_id, key, str_value, int_value, float_value FROM collection_metadata ORDER BY 1, 2"
            ).fetchall()
        revisions = sorted(self.revisions().items())
        return digest(json.dumps([collections, metadata, revisions]))


def _sequence_number(value: int | bytes) -> int:
    """Older versions of Chroma wrote the number as eight bytes."""
    return int.from_bytes(value, "big") if isinstance(value, bytes) else value


def open_client(tenant: str, database: str, options: Callable[[], dict[str, Any]]) -> "ClientAPI":
    """A client that sees what other processes wrote up to now. `options` gives those that `embedded` or `server` name.

    Chroma keeps one system per path in each process, and its index is as old as its first query: without forgetting
    that, chunks which another process added are never found.

    Raises:
        StoreError: the store has no such tenant or database.
    """
    import chromadb
    from chromadb.api.shared_system_client import SharedSystemClient
    from chromadb.config import Settings

    logging.getLogger("chromadb.telemetry").setLevel(logging.CRITICAL)
    # Chroma would also read `.env` of the working directory, which is ours.
    fixed = {"_env_file": None, "anonymized_telemetry": False}
    with _opening:
        SharedSystemClient.clear_system_cache()
        try:
            # The options hold secrets: they stand in no variable that a traceback could show.
            return chromadb.Client(Settings(**fixed | options()), tenant, database)
        except ValueError:
            raise StoreError(
                f"Chroma cannot be opened with tenant {tenant!r} and database {database!r}: see that it has them"
            ) from None


def embedded(path: Path) -> dict[str, Any]:
    """The options of a client of the store in a folder."""
    return {
        "chroma_api_impl": "chromadb.api.rust.RustBindingsAPI",
        "is_persistent": True,
        "persist_directory": str(path),
    }


def server(host: str, port: int, tls: bool, headers: Mapping[str, SecretStr]) -> dict[str, Any]:
    """The options of a client of a server."""
    return {
        "chroma_api_impl": "chromadb.api.fastapi.FastAPI",
        "chroma_server_host": host,
        "chroma_server_http_port": port,
        "chroma_server_ssl_enabled": tls,
        "chroma_server_headers": {name: value.get_secret_value() for name, value in headers.items()},
    }


def translated(location: str, secrets: Sequence[SecretStr] = ()) -> Translating:
    """Turns what Chroma raises into one line.

    Raises:
        StoreError: naming the store and what Chroma says, which never holds a chunk's text.
    """
    import httpx
    from chromadb.errors import ChromaError

    def translate(error: BaseException) -> StoreError | None:
        if is_disk_full(error):
            return StoreError(f"the Chroma store at {location} cannot be written: {MAKE_ROOM}")
        if isinstance(error, ChromaError):
            said = " ".join(str(error).split())
            for secret in secrets:
                said = said.replace(secret.get_secret_value(), "***")
            return StoreError(f"the Chroma store at {location} refused: {said[:300] or type(error).__name__}")
        # An answer of nobody that Chroma knows is a plain Exception.
        cause = error.__context__ if type(error) is Exception else error
        away = isinstance(cause, httpx.HTTPStatusError) and cause.response.status_code in AWAY
        if away or isinstance(error, httpx.HTTPError):
            return StoreAwayError(
                f"the Chroma server at {location} stopped answering ({type(cause).__name__}); see that it runs"
            )
        return None

    return Translating(translate)


def collection_named(client: "ClientAPI", name: str) -> "chromadb.Collection | None":
    """A collection by its name; None where there is none."""
    from chromadb.errors import NotFoundError

    try:
        return client.get_collection(name, embedding_function=None)
    except NotFoundError:
        return None


def distance_space(collection: "chromadb.Collection") -> str | None:
    """How the collection measures distance: cosine, l2 or ip."""
    configuration: Any = collection.configuration_json
    for index in ("hnsw", "spann"):
        if configuration.get(index):
            return configuration[index].get("space")
    return None
