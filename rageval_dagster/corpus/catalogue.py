"""A look into an embedded Chroma's SQLite file, read-only and without Chroma, whose mere opening changes its files."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rageval_dagster.errors import StoreError
from rageval_dagster.identity import digest

DATABASE_FILE = "chroma.sqlite3"
MARKER_FILE = ".rageval-store"
"""Stands in the folder of an embedded store that this project made, and may therefore open where it is."""

_BUSY_TIMEOUT_S = 10

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
    """The collections of one tenant and database in an embedded store, and how far each was written."""

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
