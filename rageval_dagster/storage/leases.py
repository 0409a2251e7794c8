"""The lease of a client: one run, ingestion or retention works on it at a time, and who lost it writes no more."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.errors import DatabaseError, LeaseHeldError, RagevalError
from rageval_dagster.storage.database import Database, retried
from rageval_dagster.storage.tables import clients
from rageval_dagster.storage.types import utc_now

TTL_S = 90.0
"""How long a lease lives without a heartbeat: longer than an outage of the database that is waited out."""

POLL_S = 1.0
"""How often a lease that somebody else has is asked for again."""


@dataclass(frozen=True)
class Lease:
    """The right to work on a client until it expires; `token` grows with every acquisition (fencing)."""

    client_id: str
    holder: str
    token: int


@dataclass(frozen=True)
class HeldLease:
    """Who has a client's lease, and until when."""

    client_id: str
    holder: str
    expires_at: datetime

    @property
    def is_dead(self) -> bool:
        """Whether nobody works under it any more: it expired, or its process is gone."""
        return self.expires_at <= utc_now() or died(self.holder)

    @property
    def run_id(self) -> str | None:
        """The Dagster run that holds it; None where it is none."""
        return run_of(self.holder)


def lease_holder(purpose: str) -> str:
    """The name under which this process holds a lease: where it runs, its number and start, and what for."""
    return f"{_place()}:{os.getpid()}.{_start_of(os.getpid()) or ''}:{purpose}"


def run_of(holder: str) -> str | None:
    """The Dagster run that holds a lease under this name; None where it is none."""
    return holder.rpartition(":run ")[2] if ":run " in holder else None


def held_leases(db: Database) -> list[HeldLease]:
    """Those that somebody took and did not give back, by client; those of the dead included."""
    query = sa.select(
        clients.c.client_id, clients.c.lease_holder.label("holder"), clients.c.lease_expires_at.label("expires_at")
    )
    rows = db.rows(query.where(clients.c.lease_expires_at.is_not(None)))
    return sorted((HeldLease(**row._mapping) for row in rows), key=lambda lease: lease.client_id)


@retried
def acquire_lease(db: Database, client_id: str, holder: str, ttl_s: float = TTL_S) -> Lease:
    """Takes the client's lease for `ttl_s` seconds, if nobody holds it or it has expired.

    A lease that `lease_holder` named is free, too, once the process on this machine that held it has died.

    Raises:
        LeaseHeldError: somebody, even a holder of the same name, has it; the message says who and until when.
    """
    now = utc_now()
    with db.begin(checked=False) as connection:
        query = sa.select(clients.c.lease_holder, clients.c.lease_token, clients.c.lease_expires_at)
        row = connection.execute(query.where(clients.c.client_id == client_id)).one_or_none()
        if row is None:
            raise unknown_client(client_id)
        free = row.lease_expires_at is None or row.lease_expires_at <= now or died(row.lease_holder)
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


def renew_lease(db: Database, lease: Lease, ttl_s: float = TTL_S) -> None:
    """Keeps the lease for `ttl_s` seconds from now.

    Raises:
        LeaseHeldError: it was lost: it expired and another run took it, or it was released.
    """
    expires = utc_now() + timedelta(seconds=ttl_s)
    if not db.execute(sa.update(clients).where(*_is_held(lease)).values(lease_expires_at=expires), checked=False):
        raise _lost(lease)


def release_lease(db: Database, lease: Lease) -> None:
    """Gives the lease back; nothing happens if it was lost."""
    free = {"lease_holder": None, "lease_expires_at": None}
    db.execute(sa.update(clients).where(*_is_held(lease)).values(free), checked=False)


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
        with db.checking(_fence(lease)):
            yield lease
    finally:
        ended.set()
        heartbeat.join()
        release_lease(db, lease)
    if lost.is_set():
        raise _lost(lease)


def died(holder: str) -> bool:
    """Whether the holder is a process of this machine, as `lease_holder` names it, that is no more."""
    place, _, rest = holder.partition(":")
    number, _, start = rest.partition(":")[0].partition(".")
    if place != _place() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # another user's
    started = _start_of(int(number))
    return bool(start) and started is not None and started != start


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
    deadline = time.monotonic() + wait_s
    told = False
    while True:
        try:
            return acquire_lease(db, client_id, holder, ttl_s)
        except LeaseHeldError:
            if time.monotonic() >= deadline:
                raise
            if not told:
                waiting(f"somebody works on client {client_id!r}: waiting for that to end, at most {wait_s:.0f} s")
                told = True
            time.sleep(POLL_S)


def _place() -> str:
    """This machine since it started, and of its containers this one: where a process number means the same process."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
        return f"{socket.gethostname()}/{boot}/{Path('/proc/self/ns/pid').readlink().name.strip('pid:[]')}"
    return socket.gethostname()


def _start_of(number: int) -> str | None:
    """When a process began, since its number is used again after it; empty once it ended, None where nothing tells."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return "" if fields[0] in "ZX" else fields[19]  # Z, X: ended, and its parent has not asked how


def _is_held(lease: Lease) -> list[sa.ColumnElement[bool]]:
    return [
        clients.c.client_id == lease.client_id,
        clients.c.lease_token == lease.token,
        clients.c.lease_expires_at.is_not(None),
    ]


def _lost(lease: Lease) -> LeaseHeldError:
    return LeaseHeldError(f"client {lease.client_id!r}: the lease of {lease.holder} was lost to another run; run again")
