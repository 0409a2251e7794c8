"""The lease of a client: one run, ingestion or retention works on it at a time, and who lost it writes no more."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.errors import DatabaseError, LeaseHeldError, RagevalError
from rageval_dagster.storage.database import Database, retried
from rageval_dagster.storage.tables import clients
from rageval_dagster.storage.types import database_clock

TTL_S = 90.0
"""How long a lease lives without a heartbeat: longer than an outage of the database that is waited out."""

WAIT_S = TTL_S + 10
"""How long a run waits for a lease that somebody has: longer than that of a process that was killed lives."""

POLL_S = 1.0
"""How often a lease that somebody else has is asked for again."""


@dataclass(frozen=True)
class Lease:
    """The right to work on a client until it expires; `token` grows with every acquisition (fencing).

    `taken_from` is who had it before and let it expire, if anybody.
    """

    client_id: str
    holder: str
    token: int
    taken_from: str | None = None


@dataclass(frozen=True)
class HeldLease:
    """Who has a client's lease, and until when; `is_dead` is whether it expired by the database's clock."""

    client_id: str
    holder: str
    expires_at: datetime
    is_dead: bool

    @property
    def run_id(self) -> str | None:
        """The Dagster run that holds it; None where it is none."""
        return run_of(self.holder)


def lease_holder(purpose: str) -> str:
    """The name under which this process holds a lease: where it runs, its number, and what for. It tells people who it
    is; whether it lives, only its heartbeat tells."""
    return f"{socket.gethostname()}:{os.getpid()}:{purpose}"


def run_of(holder: str) -> str | None:
    """The Dagster run that holds a lease under this name; None where it is none."""
    return holder.rpartition(":run ")[2] if ":run " in holder else None


def held_leases(db: Database) -> list[HeldLease]:
    """Those that somebody took and did not give back, by client; those of the dead included."""
    expires_at = clients.c.lease_expires_at
    query = sa.select(
        clients.c.client_id,
        clients.c.lease_holder.label("holder"),
        expires_at.label("expires_at"),
        sa.case((expires_at <= database_clock(), True), else_=False).label("is_dead"),
    )
    rows = db.rows(query.where(clients.c.lease_expires_at.is_not(None)))
    return sorted((HeldLease(**row._mapping) for row in rows), key=lambda lease: lease.client_id)


@retried
def acquire_lease(db: Database, client_id: str, holder: str, ttl_s: float = TTL_S) -> Lease:
    """Takes the client's lease for `ttl_s` seconds, if nobody holds it or it has expired.

    Raises:
        LeaseHeldError: somebody, even a holder of the same name, has it; the message says who, and when it is free if
            that one was killed.
    """
    with db.begin(checked=False) as connection:
        columns = (clients.c.lease_holder, clients.c.lease_token, clients.c.lease_expires_at)
        query = sa.select(*columns, database_clock().label("now"))
        row = connection.execute(query.where(clients.c.client_id == client_id)).one_or_none()
        if row is None:
            raise unknown_client(client_id)
        free = row.lease_expires_at is None or row.lease_expires_at <= row.now
        # Of two that see it free, the one that first raises the token gets it.
        taken = (
            free
            and connection.execute(
                sa.update(clients)
                .where(clients.c.client_id == client_id, clients.c.lease_token == row.lease_token)
                .values(
                    lease_holder=holder,
                    lease_token=row.lease_token + 1,
                    lease_expires_at=row.now + timedelta(seconds=ttl_s),
                )
            ).rowcount
        )
    if not taken:
        # Of two that saw it free, the other one has it now: for as long as anybody.
        left = ttl_s if free else (row.lease_expires_at - row.now).total_seconds()
        holder = "another run" if free or not row.lease_holder else row.lease_holder
        raise LeaseHeldError(
            f"client {client_id!r} is being worked on by {holder}; wait for it to end, then run again "
            f"(if it was killed, the client is free in {ceil(left)} s)"
        )
    return Lease(client_id, holder, row.lease_token + 1, row.lease_holder)


@retried
def renew_lease(db: Database, lease: Lease, ttl_s: float = TTL_S) -> None:
    """Keeps the lease for `ttl_s` seconds from now.

    Raises:
        LeaseHeldError: it was lost: it expired and another run took it, or it was released.
    """
    with db.begin(checked=False) as connection:
        now = connection.execute(sa.select(database_clock())).scalar_one()
        expires = {"lease_expires_at": now + timedelta(seconds=ttl_s)}
        if not connection.execute(sa.update(clients).where(*_is_held(lease)).values(expires)).rowcount:
            raise _lost(lease)


def release_lease(db: Database, lease: Lease) -> None:
    """Gives the lease back; nothing happens if it was lost."""
    free = {"lease_holder": None, "lease_expires_at": None}
    db.execute(sa.update(clients).where(*_is_held(lease)).values(free), checked=False)


def expire_lease(db: Database, run_id: str) -> None:
    """Ends the lease that a Dagster run holds, now: its process is known to be dead."""
    held = (clients.c.lease_holder.endswith(f":run {run_id}"), clients.c.lease_expires_at > database_clock())
    db.execute(sa.update(clients).where(*held).values(lease_expires_at=database_now(db)), checked=False)


@contextmanager
def keep_lease(
    db: Database,
    client_id: str,
    holder: str,
    ttl_s: float = TTL_S,
    wait_s: float = 0,
    waiting: Callable[[str], None] = lambda _: None,
) -> Iterator[Lease]:
    """Holds the client's lease for the length of a block, renewing it every `ttl_s` / 4 from a thread.

    Where somebody has it, it is waited for, at most `wait_s` seconds; `waiting` is told so once. While it is held,
    every transaction of `db` that writes first makes sure that it still is: a process that was stopped for longer than
    `ttl_s`, and whose client another one has taken over, writes nothing any more.

    Raises:
        LeaseHeldError: at the start if somebody has it; in the block, or at its end, if it was lost on the way.
    """
    lease = _acquire_within(db, client_id, holder, ttl_s, wait_s, waiting)
    lost = threading.Event()

    def renew() -> bool:
        try:
            renew_lease(db, lease, ttl_s)
        except LeaseHeldError:
            lost.set()
        except DatabaseError:
            pass  # the database may answer again before the lease expires
        return not lost.is_set()

    try:
        with beating(f"lease-{lease.token}", renew, ttl_s), db.checking(_fence(lease)):
            yield lease
    finally:
        release_lease(db, lease)
    if lost.is_set():
        raise _lost(lease)


@contextmanager
def beating(name: str, beat: Callable[[], bool], ttl_s: float = TTL_S) -> Iterator[None]:
    """Calls `beat` every `ttl_s` / 4, from a thread of that name, for the length of a block or until it gives False."""
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(ttl_s / 4) and beat():
            pass

    heartbeat = threading.Thread(target=go_on, name=name, daemon=True)
    heartbeat.start()
    try:
        yield
    finally:
        ended.set()
        heartbeat.join()


def database_now(db: Database) -> datetime:
    """By the clock that leases go by."""
    return db.scalars(sa.select(database_clock()))[0]


def unknown_client(client_id: str) -> RagevalError:
    return RagevalError(f"client {client_id!r} is not known here; `rageval clients list` shows those that are")


def _fence(lease: Lease) -> Callable[[Connection], None]:
    """What raises LeaseHeldError where the lease was lost; else nobody takes it before the transaction ends."""
    held = sa.select(clients.c.lease_token).where(*_is_held(lease)).with_for_update(read=True)

    def check(connection: Connection) -> None:
        if connection.execute(held).first() is None:
            raise _lost(lease)

    return check


def _acquire_within(
    db: Database, client_id: str, holder: str, ttl_s: float, wait_s: float, waiting: Callable[[str], None]
) -> Lease:
    deadline: float | None = None
    while True:
        try:
            return acquire_lease(db, client_id, holder, ttl_s)
        except LeaseHeldError as error:
            if deadline is None and wait_s > 0:
                waiting(f"{error}: waiting for that to end, at most {wait_s:.0f} s")
                deadline = time.monotonic() + wait_s
            elif deadline is None or time.monotonic() >= deadline:
                raise
            time.sleep(POLL_S)


def _is_held(lease: Lease) -> list[sa.ColumnElement[bool]]:
    return [
        clients.c.client_id == lease.client_id,
        clients.c.lease_token == lease.token,
        clients.c.lease_expires_at.is_not(None),
    ]


def _lost(lease: Lease) -> LeaseHeldError:
    return LeaseHeldError(f"client {lease.client_id!r}: the lease of {lease.holder} was lost to another run; run again")
