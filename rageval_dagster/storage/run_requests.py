"""Requests of runs: a client's settings as they were when a run was asked for, and what it was asked to do."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from rageval_dagster.errors import SettingsError
from rageval_dagster.settings import Settings
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.tables import run_requests
from rageval_dagster.storage.types import utc_now


def freeze(db: Database, settings: Settings, triggers: Mapping[str, str], plan: Mapping[str, Any]) -> None:
    """Keeps the settings of clients, by name the trigger of each, for their runs; one asked for before keeps its own.

    Nothing is kept of a client whose settings are wrong: its run says so.
    """
    now = utc_now()
    kept = {name: value for name, value in plan.items() if value}
    rows: list[dict[str, Any]] = []
    for client_id, trigger in triggers.items():
        try:
            own = settings.source.to_freeze(client_id)
        except SettingsError:
            continue
        rows.append(
            {"client_id": client_id, "trigger_key": trigger, "settings": own, "plan": kept, "requested_at": now}
        )
    db.upsert(run_requests, rows, checked=False)


def requested(
    db: Database, settings: Settings, client_id: str, trigger: str
) -> tuple[Settings, Mapping[str, Any]] | None:
    """The settings that a run was asked for with, and its plan; None where nobody asked for it (any more).

    Raises:
        SettingsError: a secret that they name is not set (any more), or what holds now beside them is wrong.
    """
    rows = db.rows(
        sa.select(run_requests.c.settings, run_requests.c.plan).where(
            run_requests.c.client_id == client_id, run_requests.c.trigger_key == trigger
        )
    )
    return (settings.source.frozen(client_id, rows[0].settings), rows[0].plan) if rows else None
