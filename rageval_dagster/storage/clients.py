"""Clients: what was last seen of each one's documents, and the lease that lets one run work on a client at a time."""

import os
import socket
import threading
import time
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.errors import DatabaseError, LeaseHeldError, RagevalError
from rageval_dagster.storage.database import Database, retried, upsert
from rageval_dagster.storage.tables import CLIENT_ID_LENGTH, clients, corpus_versions
from rageval_dagster.storage.types import utc_now
from rageval_dagster.text import TURNS_DIRECTION

_NOT_IN_NAMES = {"Cc", "Cs", "Zl", "Zp"}

LEASE_POLL_S = 1.0
"""How often a lease that somebody else has is asked for again."""


@dataclass(frozen=True)
class Client:
    """A client as the database knows it.

    `change_seq` counts the observed changes of its documents, `scanned_seq` is the last one that a scan has seen,
    `evaluated_seq` the last one that was evaluated;
    `probe` is the store's cheap fingerprint up to which changes are counted.
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
    scanned_at: datetime | None
    vanished_at: datetime | None
    lease_holder: str | None
    lease_expires_at: datetime | None

    @property
    def is_busy(self) -> bool:
        """Whether somebody is working on the client just now: a run, or an ingestion."""
        return self.lease_holder is not None and self.dead_holder is None

    @property
    def dead_holder(self) -> str | None:
        """Who has the client's lease but died without giving it back, if anybody."""
        if self.lease_holder is None or self.lease_expires_at is None:
            return None
        return self.lease_holder if self.lease_expires_at <= utc_now() or _died(self.lease_holder) else None


@dataclass(frozen=True)
class Lease:
    """The right to work on a client until it expires; `token` grows with every acquisition (fencing)."""

    client_id: str
    holder: str
    token: int


_COLUMNS = [clients.c[name] for name in Client.__dataclass_fields__]


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
    with db.connect() as connection:
        rows = connection.execute(sa.select(*_COLUMNS)).all()
    return sorted((Client(**row._mapping) for row in rows), key=lambda client: client.client_id)


@retried
def observe_probe(db: Database, client_id: str, probe: str) -> int | None:
    """Stores the probe; where it differs from the stored one, counts a change and returns the new change_seq.

    A client not seen before counts as changed. Two observers of one change count it once.
    """
    with db.begin() as connection:
        _insert(connection, client_id)
        changed = connection.execute(
            sa.update(clients)
            .where(clients.c.client_id == client_id, sa.or_(clients.c.probe.is_(None), clients.c.probe != probe))
            .values(probe=probe, change_seq=clients.c.change_seq + 1)
        ).rowcount
        return _read(connection, client_id).change_seq if changed else None


@retried
def settle_probe(db: Database, client_id: str, probe: str, change_seq: int) -> None:
    """Says that a scan has seen the store up to this probe, and with it the changes up to `change_seq`.

    Both are as they were before the scan. Where a further change was counted meanwhile, its probe stays.
    """
    with db.begin() as connection:
        _insert(connection, client_id)
        here = clients.c.client_id == client_id
        connection.execute(sa.update(clients).where(here).values(scanned_seq=change_seq))
        connection.execute(sa.update(clients).where(here, clients.c.change_seq == change_seq).values(probe=probe))


@retried
def record_scan(
    db: Database,
    client_id: str,
    corpus_version: str,
    index_version: str,
    chunk_count: int,
    document_count: int,
    diff: Mapping[str, int],
) -> None:
    """Stores what a scan found; a new (corpus, index) version gets its one row with the counts of `diff`."""
    now = utc_now()
    found = {
        "corpus_version": corpus_version,
        "index_version": index_version,
        "chunk_count": chunk_count,
        "document_count": document_count,
    }
    with db.begin() as connection:
        _insert(connection, client_id)
        connection.execute(sa.update(clients).where(clients.c.client_id == client_id).values(**found, scanned_at=now))
        version = {"client_id": client_id, **found, "difference": dict(diff), "first_seen": now}
        upsert(connection, corpus_versions, [version])


@retried
def mark_evaluated(db: Database, client_id: str, change_seq: int) -> None:
    """Says that the changes up to `change_seq` are evaluated; a smaller number than the stored one changes nothing."""
    with db.begin() as connection:
        connection.execute(
            sa.update(clients)
            .where(clients.c.client_id == client_id, clients.c.evaluated_seq < change_seq)
            .values(evaluated_seq=change_seq)
        )


@retried
def mark_vanished(db: Database, client_id: str, vanished: bool) -> None:
    """Says whether the document store still has the client; the time of vanishing is kept."""
    with db.begin() as connection:
        update = sa.update(clients).where(clients.c.client_id == client_id)
        if vanished:
            connection.execute(update.where(clients.c.vanished_at.is_(None)).values(vanished_at=utc_now()))
        else:
            connection.execute(update.values(vanished_at=None))


def lease_holder(purpose: str) -> str:
    """The name under which this process holds a lease: where it runs, its number, and what for."""
    return f"{_place()}:{os.getpid()}:{purpose}"


@retried
def acquire_lease(db: Database, client_id: str, holder: str, ttl_s: float = 120) -> Lease:
    """Takes the client's lease for `ttl_s` seconds, if nobody holds it or it has expired.

    A lease that `lease_holder` named is free, too, once the process on this machine that held it has died.

    Raises:
        LeaseHeldError: somebody, even a holder of the same name, has it; the message says who and until when.
    """
    now = utc_now()
    with db.begin() as connection:
        query = sa.select(clients.c.lease_holder, clients.c.lease_token, clients.c.lease_expires_at)
        row = connection.execute(query.where(clients.c.client_id == client_id)).one_or_none()
        if row is None:
            raise _unknown(client_id)
        free = row.lease_expires_at is None or row.lease_expires_at <= now or _died(row.lease_holder)
        # Of two that see it free, the one that first raises the token gets it.
        taken = (
            free
            and connection.execute(
                sa.update(clients)
                .where(clients.c.client_id == client_id, clients.c.lease_token == row.lease_token)
                .values(
                    lease_holder=holder,
                    lease_token=row.lease_token + 1,
                    lease_expires_at=now + timedelta(seconds=ttl_s),
                )
            ).rowcount
        )
    if not taken:
        raise LeaseHeldError(
            f"client {client_id!r} is being worked on by {row.lease_holder or 'another run'}; "
            "wait for it to end, then run again"
        )
    return Lease(client_id, holder, row.lease_token + 1)


@retried
def renew_lease(db: Database, lease: Lease, ttl_s: float = 120) -> None:
    """Keeps the lease for `ttl_s` seconds from now.

    Raises:
        LeaseHeldError: it was lost: it expired and another run took it, or it was released.
    """
    with db.begin() as connection:
        kept = connection.execute(
            sa.update(clients).where(*_is_held(lease)).values(lease_expires_at=utc_now() + timedelta(seconds=ttl_s))
        ).rowcount
    if not kept:
        raise _lost(lease)


@retried
def release_lease(db: Database, lease: Lease) -> None:
    """Gives the lease back; nothing happens if it was lost."""
    with db.begin() as connection:
        connection.execute(sa.update(clients).where(*_is_held(lease)).values(lease_holder=None, lease_expires_at=None))


@contextmanager
def keep_lease(db: Database, client_id: str, holder: str, ttl_s: float = 120, wait_s: float = 0) -> Iterator[Lease]:
    """Holds the client's lease for the length of a block, renewing it every `ttl_s` / 4 from a thread.

    Where somebody has it, it is waited for, at most `wait_s` seconds.

    Raises:
        LeaseHeldError: at the start if somebody has it; at the end if it was lost on the way.
    """
    lease = _acquire_within(db, client_id, holder, ttl_s, wait_s)
    ended, lost = threading.Event(), threading.Event()

    def renew() -> None:
        while not ended.wait(ttl_s / 4):
            try:
                renew_lease(db, lease, ttl_s)
            except LeaseHeldError:
                lost.set()
                return
            except DatabaseError:
                continue  # the database may answer again before the lease expires

    heartbeat = threading.Thread(target=renew, name=f"lease-{lease.token}", daemon=True)
    heartbeat.start()
    try:
        yield lease
    finally:
        ended.set()
        heartbeat.join()
        release_lease(db, lease)
    if lost.is_set():
        raise _lost(lease)


def _acquire_within(db: Database, client_id: str, holder: str, ttl_s: float, wait_s: float) -> Lease:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return acquire_lease(db, client_id, holder, ttl_s)
        except LeaseHeldError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(LEASE_POLL_S)


def _place() -> str:
    """This machine, and of its containers this one: where a process number means the same process."""
    with suppress(OSError):
        return f"{socket.gethostname()}/{Path('/proc/self/ns/pid').readlink().name.strip('pid:[]')}"
    return socket.gethostname()


def _died(holder: str) -> bool:
    """Whether the holder is a process of this place that is no more."""
    place, _, rest = holder.partition(":")
    number = rest.partition(":")[0]
    if place != _place() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _is_held(lease: Lease) -> list[sa.ColumnElement[bool]]:
    return [
        clients.c.client_id == lease.client_id,
        clients.c.lease_token == lease.token,
        clients.c.lease_expires_at.is_not(None),
    ]


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
        raise _unknown(client_id)
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


def _unknown(client_id: str) -> RagevalError:
    return RagevalError(f"client {client_id!r} is not known here; `rageval clients list` shows those that are")


def _lost(lease: Lease) -> LeaseHeldError:
    return LeaseHeldError(f"client {lease.client_id!r}: the lease of {lease.holder} was lost to another run; run again")
