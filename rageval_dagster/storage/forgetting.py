"""Forgetting a client: its rows in every table, what is left of it, and which clients are left alone since then."""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from rageval_dagster.errors import DatabaseError, LeaseHeldError
from rageval_dagster.identity import digest
from rageval_dagster.storage.database import Database, delete_batch, retried, rows_in, upsert
from rageval_dagster.storage.tables import (
    answer_labels,
    clients,
    experiment_results,
    experiments,
    forgotten_clients,
    label_queue,
    metadata,
    word_hashes,
)
from rageval_dagster.storage.types import utc_now
from rageval_dagster.storage.word_hashes import count_hashes, delete_hashes, forget_look, hash_key, holder_of

_BUSY_TIMEOUT_S = 30

# What hangs on other rows goes before them; `clients`, whose row has the lease, goes last.
# Those of experiments go first: who works on one writes no more once it is gone. What people say of answers goes after
# these: who labels one writes no more once it is gone.
_FIRST, _LAST = (experiment_results, experiments), (answer_labels, label_queue)
_TABLES = [
    *_FIRST,
    *(
        table
        for table in reversed(metadata.sorted_tables)
        if "client_id" in table.c and table not in (clients, *_FIRST, *_LAST)
    ),
    *_LAST,
]


@dataclass(frozen=True)
class Tombstone:
    """What is left of a forgotten client: when that was, and how many rows of each table were deleted."""

    forgotten_at: datetime
    counts: Mapping[str, int]


def rows_of(db: Database, client_id: str) -> dict[str, int]:
    """{table: rows} of the client, without the tables that have none."""
    found: dict[str, int] = {}
    holder = holder_of(hash_key(db), client_id)
    with db.connect() as connection:
        for table in [*_TABLES, clients]:
            query = sa.select(sa.func.count()).select_from(table).where(_is_of(table, client_id))
            found[table.name] = connection.execute(query).scalar_one()
        found[word_hashes.name] = count_hashes(connection, holder)
    return {name: count for name, count in sorted(found.items()) if count}


def delete_rows(db: Database, client_id: str) -> None:
    """Deletes the client's rows in every table but `clients`, in short transactions; needs the client's lease."""
    holder = holder_of(hash_key(db), client_id)
    delete_hashes(db, holder)
    forget_look(db, holder)
    for table in _TABLES:
        while delete_batch(db, table, _is_of(table, client_id)):
            pass


@retried
def bury(db: Database, client_id: str, counts: Mapping[str, int]) -> None:
    """Deletes the client itself and leaves its tombstone; nobody knows it from then on.

    Raises:
        LeaseHeldError: somebody has begun to work on it.
    """
    here = clients.c.client_id == client_id
    with db.begin() as connection:
        connection.execute(sa.delete(clients).where(here, clients.c.lease_expires_at.is_(None)))
        if connection.execute(sa.select(clients.c.client_id).where(here)).first() is not None:
            raise LeaseHeldError(f"somebody has begun to work on client {client_id!r}; run forget again after that")
        row = {"client_hash": digest(client_id), "forgotten_at": utc_now(), "counts": dict(counts)}
        upsert(connection, forgotten_clients, [row], update=["forgotten_at", "counts"])


def tombstone(db: Database, client_id: str) -> Tombstone | None:
    """What is left of a client since it was forgotten last; None where it never was."""
    query = sa.select(forgotten_clients.c.forgotten_at, forgotten_clients.c.counts)
    rows = db.rows(query.where(forgotten_clients.c.client_hash == digest(client_id)))
    return Tombstone(**rows[0]._mapping) if rows else None


def left_alone(db: Database, client_ids: Iterable[str]) -> frozenset[str]:
    """Those of the clients that were forgotten and not taken up again since: they are worked on only by name."""
    hashes = {digest(client_id): client_id for client_id in client_ids}
    forgotten, known = forgotten_clients.c.client_hash, clients.c.client_id
    with db.connect() as connection:
        found = {hashes[row.client_hash] for row in rows_in(connection, sa.select(forgotten), forgotten, hashes)}
        taken_up = {row.client_id for row in rows_in(connection, sa.select(known), known, sorted(found))}
    return frozenset(found - taken_up)


def scrub(db: Database) -> None:
    """Overwrites what deleted rows left in the file of an SQLite database; a server looks after its files itself.

    Raises:
        DatabaseError: another process keeps the file busy.
    """
    if db.dialect == "sqlite":
        scrub_file(file_of(db))


def file_of(db: Database) -> Path:
    """The file of an SQLite database."""
    return Path(str(db.engine.url.database))


def scrub_file(path: Path) -> None:
    """Writes an SQLite file anew without its free space, and empties its write-ahead log.

    Raises:
        DatabaseError: another process keeps the file busy.
    """
    _run(path, "VACUUM")
    empty_log(path)


def empty_log(path: Path) -> None:
    """Empties the write-ahead log of an SQLite file, where what was deleted can still be read.

    Raises:
        DatabaseError: another process keeps the file busy.
    """
    if _run(path, "PRAGMA wal_checkpoint(TRUNCATE)")[0][0]:
        raise _still_there(path, "somebody reads it")


def _run(path: Path, statement: str) -> list[Any]:
    try:
        with closing(sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()
    except sqlite3.OperationalError as error:
        raise _still_there(path, str(error)) from None


def _still_there(path: Path, reason: str) -> DatabaseError:
    return DatabaseError(
        f"{path}: deleted rows can still be found in its free space or its log ({reason}); "
        "stop what has it open, such as Dagster's services, and run forget again"
    )


def _is_of(table: sa.Table, client_id: str) -> sa.ColumnElement[bool]:
    """Whether a row is the client's; by way of the row that it hangs on, for which there is an index."""
    owners = [
        key.parent.in_(sa.select(key.column).where(key.column.table.c.client_id == client_id))
        for key in table.foreign_keys
    ]
    return sa.and_(table.c.client_id == client_id, *owners)
