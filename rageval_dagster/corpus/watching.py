"""Change detection from cheap probes: a client's probe moves when something in its documents may have changed."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.errors import SettingsError, StoreError
from rageval_dagster.identity import digest
from rageval_dagster.settings import Settings
from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage.clients import Client
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.forgetting import left_alone

BUDGET_S = 20.0
"""How long one look may probe: Dagster gives a tick 60 s, and a server takes a request a collection."""

Pending = Mapping[str, tuple[str, float]]
"""Client id -> the probe that was seen last and the time (seconds) when it was first seen."""


@dataclass(frozen=True)
class Cursor:
    """What a look leaves to the next one.

    `pending` are the clients whose change has not stood still for the settle time yet; `after` is the digest of the
    client at which the look ran out of time, empty where it came round.
    """

    pending: Pending = field(default_factory=dict)
    after: str = ""

    @classmethod
    def read(cls, text: str | None) -> "Cursor":
        """From its text; what another version wrote only lets the settle time begin anew."""
        values = json.loads(text or "{}")
        if not isinstance(values, dict) or values.keys() != {"pending", "after"}:
            return cls()
        return cls({client: (probe, since) for client, (probe, since) in values["pending"].items()}, values["after"])

    def text(self) -> str:
        return json.dumps({"pending": self.pending, "after": self.after})

    def without(self, client_id: str) -> "Cursor":
        """It without what it says of a client."""
        return Cursor({name: seen for name, seen in self.pending.items() if name != client_id}, self.after)


@dataclass(frozen=True)
class Stale:
    """A last scan that is older than the client's settings allow; `round` is how many times that age it is."""

    since: datetime
    round: int


@dataclass(frozen=True)
class Look:
    """What a look at the probes found, of the clients that nobody works on.

    `outstanding` are those with a change that no finished evaluation has seen, and its `change_seq`; `stale` those that
    were not scanned for too long, the longest first. `probed` of the `present` clients were looked at.
    """

    outstanding: Mapping[str, int]
    stale: Mapping[str, Stale]
    cursor: Cursor
    present: int
    probed: int


def watched(db: Database, client_ids: Iterable[str]) -> list[str]:
    """The clients without those that were forgotten, which nobody looks at until they are taken up by name."""
    client_ids = list(client_ids)
    forgotten = left_alone(db, client_ids)
    return [client_id for client_id in client_ids if client_id not in forgotten]


def probe_clients(
    db: Database, store: ChromaStore, cursor: Cursor, settings: Settings, now: float, budget_s: float = BUDGET_S
) -> Look:
    """Compares the clients' probes with the last ones and counts a change once it has stood still for the settle time.

    So does what somebody told of a client. A bulk load is so one change, not fifty; while a run or an ingestion works
    on a client, its changes wait. Clients that vanished from the store are marked, and unmarked when they come back.
    Where the time is over, the next look goes on with the next client.

    Raises:
        StoreError: the store does not answer, or is not there at all though it had clients: none of them has vanished.
    """
    known = {client.client_id: client for client in client_storage.list_clients(db)}
    in_store = set(store.clients())
    _refuse_missing_store(store, known.values())
    present = set(watched(db, in_store))
    probes, after = _probes_within(store, present, cursor.after, budget_s)
    moving = {client: seen for client, seen in cursor.pending.items() if client in present and client not in probes}
    for client_id, probe in sorted(probes.items()):
        client = known.get(client_id)
        if client is not None and client.vanished_at is not None:
            client_storage.mark_vanished(db, client_id, vanished=False)
        since = _moved_at(client, probe, cursor.pending.get(client_id), now)
        if since is None:
            continue
        if now - since < settings.settle_s or (client is not None and client.is_busy):
            moving[client_id] = probe, since
            continue
        client_storage.observe_probe(db, client_id, probe, client.notified_at if client else None)
    for client_id, client in known.items():
        if client_id not in in_store and client.vanished_at is None:
            client_storage.mark_vanished(db, client_id, vanished=True)
    resting = [
        client
        for client in client_storage.list_clients(db)
        if client.vanished_at is None and not client.is_busy and client.client_id not in moving
    ]
    return Look(
        {client.client_id: client.change_seq for client in resting if client.change_seq > client.evaluated_seq},
        _stale(resting, settings, now),
        Cursor(moving, after),
        len(present),
        len(probes),
    )


def _refuse_missing_store(store: ChromaStore, known: Iterable[Client]) -> None:
    seen = sum(client.vanished_at is None and client.probe is not None for client in known)
    if seen and not store.is_there():
        raise StoreError(
            f"there is no document store at {store.location}, which had {seen} clients: see that its folder is "
            "mounted and readable; until then they are not evaluated, nor counted as vanished"
        )


def _probes_within(
    store: ChromaStore, present: Iterable[str], after: str, budget_s: float
) -> tuple[dict[str, str], str]:
    """The probes of the clients that come after the one where the last look ended, as many as time allows.

    Returns:
        {client: probe}, and after which client's digest the next look begins.
    """
    # By digest, so that the cursor names no client.
    ordered = sorted((digest(client_id), client_id) for client_id in present)
    first = next((place for place, (key, _) in enumerate(ordered) if key > after), 0)
    turn = [client_id for _, client_id in ordered[first:] + ordered[:first]]
    deadline = time.monotonic() + budget_s
    probes: dict[str, str] = {}
    for client_id, probe in store.iter_probes(turn):
        probes[client_id] = probe
        if time.monotonic() > deadline:
            return probes, digest(client_id)
    return probes, ""


def _moved_at(client: Client | None, probe: str, seen: tuple[str, float] | None, now: float) -> float | None:
    """When the client's documents moved last, in seconds, by their probe or by what somebody told; None: not at all."""
    times: list[float] = []
    if client is None or client.probe != probe:
        times.append(seen[1] if seen is not None and seen[0] == probe else now)
    if client is not None and client.notified_at is not None:
        times.append(client.notified_at.timestamp())
    return max(times, default=None)


def _stale(clients: Iterable[Client], settings: Settings, now: float) -> dict[str, Stale]:
    scanned = sorted((client.scanned_at, client.client_id) for client in clients if client.scanned_at is not None)
    found = {
        client_id: Stale(since, int((now - since.timestamp()) / (3600 * _rescan_hours(settings, client_id))))
        for since, client_id in scanned
    }
    return {client_id: stale for client_id, stale in found.items() if stale.round > 0}


def _rescan_hours(settings: Settings, client_id: str) -> float:
    """Of a client whose table in rageval.toml is wrong, what holds for all: its run fails and says why."""
    try:
        return settings.for_client(client_id).rescan_hours
    except SettingsError:
        return settings.rescan_hours
