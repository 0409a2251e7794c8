"""Time goes by in which nobody says that a process that was killed still works."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import sqlalchemy as sa

from rageval_dagster.assets.experiments import ALIVE_TAG
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.tables import clients

LONG_AGO = datetime.now(UTC) - timedelta(days=1)


def let_leases_expire(db: Database) -> None:
    held = clients.c.lease_expires_at.is_not(None)
    db.execute(sa.update(clients).where(held).values(lease_expires_at=LONG_AGO), checked=False)


def let_experiments_fall_silent(instance: dg.DagsterInstance, run_ids: list[str] | None = None) -> None:
    """Those of the runs, or (None) all that are at work."""
    for run in instance.get_runs(dg.RunsFilter(run_ids=run_ids, statuses=[dg.DagsterRunStatus.STARTED])):
        instance.add_run_tags(run.run_id, {ALIVE_TAG: LONG_AGO.isoformat()})
