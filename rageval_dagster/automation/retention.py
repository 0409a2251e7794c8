"""The daily retention: every client's texts and scores that are older than its settings allow are deleted."""

from collections.abc import Iterator

import dagster as dg

from rageval_dagster.errors import RagevalError
from rageval_dagster.resources import HistoryDatabase
from rageval_dagster.resources.textless import without_texts
from rageval_dagster.settings import load_settings

RETENTION_CRON = "30 3 * * *"


@dg.op(out=dg.Out(dg.Nothing))
@without_texts
def rageval_retain(context: dg.OpExecutionContext, rageval_database: HistoryDatabase) -> Iterator[dg.Output]:
    """Deletes what is too old; a client that is being worked on is left for tomorrow."""
    from rageval_dagster.benchmark.review import EDITED, REJECTED
    from rageval_dagster.experiments.copies import delete_leftovers
    from rageval_dagster.report.files import renew_old_reports
    from rageval_dagster.storage.retention import retain_all
    from rageval_dagster.storage.types import utc_now

    db, settings = rageval_database.open(), load_settings()
    report = retain_all(db, settings, judged=(REJECTED, EDITED))
    report.failures += renew_old_reports(db, settings, utc_now())
    delete_leftovers(settings, db)
    yield dg.Output(None, metadata=report.metadata())
    if report.failures:
        raise RagevalError(f"not done for all clients: {'; '.join(report.failures)}")


@dg.job(
    name="rageval_retention",
    description="Deletes texts and scores that are older than each client's settings allow.",
    executor_def=dg.in_process_executor,
)
def retention_job() -> None:
    rageval_retain()


retention_schedule = dg.ScheduleDefinition(
    name="rageval_retention",
    job=retention_job,
    cron_schedule=RETENTION_CRON,
    execution_timezone="UTC",
    # Whatever EVALUATION_ENABLED says: what was stored before grows old, too.
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Applies every client's retention once a night.",
)
