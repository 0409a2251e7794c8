"""Change detection from cheap probes: a client's probe moves when something in its documents may have changed."""

from collections.abc import Mapping
from dataclasses import dataclass

from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.forgetting import left_alone

Pending = Mapping[str, tuple[str, float]]
"""Client id -> the probe that was seen last and the time (seconds) when it was first seen."""


@dataclass(frozen=True)
class Observation:
    """What a look at all the probes found.

    `outstanding` are the clients that nobody works on, with a change that no finished evaluation has seen, and its
    `change_seq`;
    `pending` those whose probe moved but has not stood still for the settle time yet.
    """

    outstanding: Mapping[str, int]
    pending: Pending


def watched(db: Database, probes: Mapping[str, str]) -> dict[str, str]:
    """The probes without those of forgotten clients, which nobody looks at until they are taken up by name."""
    forgotten = left_alone(db, probes)
    return {client_id: probe for client_id, probe in probes.items() if client_id not in forgotten}


def observe(db: Database, probes: Mapping[str, str], pending: Pending, settle_s: float, now: float) -> Observation:
    """Compares every client's probe with the last one and counts a change once it has stood still for `settle_s`.

    A bulk load is so one change, not fifty; while a run or an ingestion works on a client, its changes wait. Clients
    that vanished from the store are marked, and unmarked when they come back. A forgotten client is not looked at.
    """
    known = {client.client_id: client for client in client_storage.list_clients(db)}
    moving: dict[str, tuple[str, float]] = {}
    for client_id, probe in sorted(watched(db, probes).items()):
        client = known.get(client_id)
        if client is not None and client.vanished_at is not None:
            client_storage.mark_vanished(db, client_id, vanished=False)
        if client is not None and client.probe == probe:
            continue
        last_probe, since = pending.get(client_id, (None, now))
        if last_probe != probe:
            since = now
        if now - since < settle_s or (client is not None and client.is_busy):
            moving[client_id] = (probe, since)
            continue
        client_storage.ensure_client(db, client_id)
        client_storage.observe_probe(db, client_id, probe)
    for client_id, client in known.items():
        if client_id not in probes and client.vanished_at is None:
            client_storage.mark_vanished(db, client_id, vanished=True)
    outstanding = {
        client.client_id: client.change_seq
        for client in client_storage.list_clients(db)
        if client.change_seq > client.evaluated_seq
        and client.vanished_at is None
        and not client.is_busy
        and client.client_id not in moving
    }
    return Observation(outstanding, moving)
