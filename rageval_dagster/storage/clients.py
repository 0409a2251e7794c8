"""Clients: what was last seen of each one's documents, and what of that was evaluated."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.errors import RagevalError
from rageval_dagster.storage.corpus import finish_change
from rageval_dagster.storage.database import Database, retried, upsert
from rageval_dagster.storage.leases import unknown_client
from rageval_dagster.storage.tables import (
    CLIENT_ID_LENGTH,
    client_systems,
    clients,
    corpus_versions,
    evaluation_runs,
)
from rageval_dagster.storage.types import database_clock, utc_now
from rageval_dagster.text import TURNS_DIRECTION

_NOT_IN_NAMES = {"Cc", "Cs", "Zl", "Zp"}


@dataclass(frozen=True)
class Client:
    """A client as the database knows it.

    `change_seq` counts the observed changes of its documents, `scanned_seq` is the last one that a scan has seen,
    `evaluated_seq` the last one that was evaluated;
    `probe` is the store's cheap fingerprint up to which changes are counted. `is_busy` is whether somebody works on the
    client just now: a run, or an ingestion.
    """

    client_id: str
    change_seq: int
    scanned_seq: int
    evaluated_seq: int
    probe: str | None
    corpus_version: str | None
    index_version: str | None
    chunk_count: int
    document_count: int
    created_at: datetime
    scanned_at: datetime | None
    vanished_at: datetime | None
    notified_at: datetime | None
    lease_holder: str | None
    is_busy: bool


_COLUMNS = [
    *(clients.c[name] for name in Client.__dataclass_fields__ if name != "is_busy"),
    sa.case((clients.c.lease_expires_at > database_clock(), True), else_=False).label("is_busy"),
]


@retried
def ensure_client(db: Database, client_id: str) -> Client:
    """The client, made if it was not known.

    Raises:
        RagevalError: the name is not one that every database keeps apart from others.
    """
    with db.begin() as connection:
        _insert(connection, client_id)
        return _read(connection, client_id)


def get_client(db: Database, client_id: str) -> Client:
    """Raises RagevalError for a client that the database does not know."""
    with db.connect() as connection:
        return _read(connection, client_id)


def list_clients(db: Database) -> list[Client]:
    """All clients by name, the vanished ones included."""
    return sorted(
        (Client(**row._mapping) for row in db.rows(sa.select(*_COLUMNS))), key=lambda client: client.client_id
    )


@retried
def observe_probe(db: Database, client_id: str, probe: str, notified_at: datetime | None = None) -> int | None:
    """Stores the probe; where it differs from the stored one, counts a change and returns the new change_seq.

    So does a notification of `notified_at` that is not counted yet, whatever the probe. A client not seen before counts
    as changed. Two observers of one change count it once.
    """
    changed = sa.or_(clients.c.probe.is_(None), clients.c.probe != probe)
    counted: dict[str, Any] = {"probe": probe, "change_seq": clients.c.change_seq + 1}
    if notified_at is not None:
        told = clients.c.notified_at == notified_at
        changed = sa.or_(changed, told)
        counted["notified_at"] = sa.case((told, None), else_=clients.c.notified_at)  # a later one stays
    with db.begin() as connection:
        _insert(connection, client_id)
        rows = connection.execute(
            sa.update(clients).where(clients.c.client_id == client_id, changed).values(counted)
        ).rowcount
        return _read(connection, client_id).change_seq if rows else None


@retried
def notify(db: Database, client_id: str) -> None:
    """Keeps that somebody says, now, that the client's documents changed; the client is made if it was not known."""
    with db.begin() as connection:
        _insert(connection, client_id)
        connection.execute(sa.update(clients).where(clients.c.client_id == client_id).values(notified_at=utc_now()))


@retried
def record_scan(
    db: Database,
    client_id: str,
    corpus_version: str,
    index_version: str,
    chunk_count: int,
    document_count: int,
    seen_seq: int,
    began_at: datetime,
) -> dict[str, int]:
    """Stores what a scan found, and that it has seen the changes up to `seen_seq`, the client's `change_seq` before it.

    What somebody told before `began_at` it has seen, too. Where the versions moved and every counted change had been
    scanned before, the store's probe did not tell of this one: it is counted here. A difference has its row among the
    changes of the corpus, also where it is one back to versions that there were before; new versions have a row, too.

    Returns:
        How many chunks differ from the last finished scan, by `DIFFERENCES`.
    """
    now = utc_now()
    versions = {"corpus_version": corpus_version, "index_version": index_version}
    found = {**versions, "chunk_count": chunk_count, "document_count": document_count}
    here = clients.c.client_id == client_id
    moved = sa.or_(clients.c.corpus_version != corpus_version, clients.c.index_version != index_version)
    with db.begin() as connection:
        _insert(connection, client_id)
        # Versions that are NULL, before the first scan, count as not moved.
        connection.execute(
            sa.update(clients)
            .where(here, moved, clients.c.change_seq == seen_seq, clients.c.scanned_seq == seen_seq)
            .values(change_seq=seen_seq + 1, scanned_seq=seen_seq + 1)
        )
        connection.execute(
            sa.update(clients).where(here, clients.c.scanned_seq < seen_seq).values(scanned_seq=seen_seq)
        )
        connection.execute(sa.update(clients).where(here, clients.c.notified_at <= began_at).values(notified_at=None))
        connection.execute(sa.update(clients).where(here).values(**found, scanned_at=now))
        difference = finish_change(connection, client_id, corpus_version, index_version, now)
        version = {"client_id": client_id, **found, "difference": difference, "first_seen": now}
        upsert(connection, corpus_versions, [version])
    return difference


def mark_evaluated(db: Database, client_id: str, change_seq: int) -> None:
    """Says that the changes up to `change_seq` are evaluated; a smaller number than the stored one changes nothing."""
    older = sa.and_(clients.c.client_id == client_id, clients.c.evaluated_seq < change_seq)
    db.execute(sa.update(clients).where(older).values(evaluated_seq=change_seq))


@retried
def set_systems(db: Database, client_id: str, names: Iterable[str]) -> None:
    """Says which systems the client's settings evaluate; the overview leaves others out.

    Of them those count that have a complete evaluation: until one has, the systems evaluated so far all count.
    """
    runs, kept = evaluation_runs.c, client_systems.c
    measured = sa.select(runs.system_name).where(runs.client_id == client_id, runs.status == "complete")
    with db.begin() as connection:
        now = set(connection.execute(measured.where(runs.system_name.in_(list(names))).distinct()).scalars())
        here = kept.client_id == client_id
        before = set(connection.execute(sa.select(kept.system_name).where(here)).scalars())
        if gone := before - now:
            connection.execute(sa.delete(client_systems).where(here, kept.system_name.in_(sorted(gone))))
        new = [{"client_id": client_id, "system_name": name} for name in sorted(now - before)]
        if new:
            upsert(connection, client_systems, new)


def evaluated_systems(db: Database, client_id: str) -> list[str]:
    """The systems that `set_systems` was last told of, of those that were evaluated, by name."""
    kept = client_systems.c
    query = sa.select(kept.system_name).where(kept.client_id == client_id).order_by(kept.system_name)
    return [row.system_name for row in db.rows(query)]


def mark_vanished(db: Database, client_id: str, vanished: bool) -> None:
    """Says whether the document store still has the client; the time of vanishing is kept."""
    update = sa.update(clients).where(clients.c.client_id == client_id)
    first = update.where(clients.c.vanished_at.is_(None)).values(vanished_at=utc_now())
    db.execute(first if vanished else update.values(vanished_at=None))


def _insert(connection: Connection, client_id: str) -> None:
    check_name("client name", client_id, CLIENT_ID_LENGTH)
    row = {
        "client_id": client_id,
        "change_seq": 0,
        "scanned_seq": 0,
        "evaluated_seq": 0,
        "chunk_count": 0,
        "document_count": 0,
        "created_at": utc_now(),
        "lease_token": 0,
    }
    upsert(connection, clients, [row])


def _read(connection: Connection, client_id: str) -> Client:
    row = connection.execute(sa.select(*_COLUMNS).where(clients.c.client_id == client_id)).one_or_none()
    if row is None:
        raise unknown_client(client_id)
    return Client(**row._mapping)


def check_name(what: str, name: str, length: int) -> None:
    """Refuses a name that some database would cut, change, or take for another one, or that is shown as another.

    Raises:
        RagevalError: it is empty or too long, starts or ends with a space, or has a character that controls, or that
            turns the direction of writing.
    """
    if not 1 <= len(name) <= length:
        raise RagevalError(f"a {what} takes 1 to {length} characters, not {len(name)}")
    # MariaDB compares without regard to spaces at the end; Cc and Cs cannot be stored or shown.
    if name != name.strip() or any(unicodedata.category(character) in _NOT_IN_NAMES for character in name):
        raise RagevalError(f"the {what} {name!r} has a space at an end or a control character; rename it")
    if TURNS_DIRECTION.search(name):
        raise RagevalError(
            f"the {what} {name!r} has a character that turns the direction of writing, so that it could be shown as "
            "another; rename it (letters that are written from right to left are fine)"
        )
