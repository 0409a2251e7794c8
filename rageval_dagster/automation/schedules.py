"""The nightly schedule: every client is evaluated once a slot, whatever the sensor saw."""

from collections.abc import Iterator

import dagster as dg
from dagster._utils.schedules import is_valid_cron_schedule

from rageval_dagster.automation.jobs import evaluation_job
from rageval_dagster.automation.requests import ensure_partition, run_request
from rageval_dagster.errors import SettingsError
from rageval_dagster.resources import HistoryDatabase
from rageval_dagster.resources.textless import without_texts
from rageval_dagster.settings import Settings, load_settings


def checked_cron(settings: Settings) -> str:
    """The schedule's cron expression.

    Raises:
        SettingsError: if it does not parse.
    """
    if not is_valid_cron_schedule(settings.schedule):
        raise SettingsError(
            f"EVALUATION_SCHEDULE_CRON takes a cron expression in UTC such as '0 2 * * *', not {settings.schedule!r}"
        )
    return settings.schedule


def nightly_schedule() -> dg.ScheduleDefinition:
    """A run request per client; a client that vanished from the store is left out.

    A new dataset is made only where the last is older than EVALUATION_DATASET_MAX_AGE_DAYS: the run decides that.
    """
    settings = load_settings()

    @dg.schedule(
        name="nightly_evaluation",
        job=evaluation_job,
        cron_schedule=checked_cron(settings),
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING if settings.enabled else dg.DefaultScheduleStatus.STOPPED,
        description="Evaluates every client once a night.",
    )
    @without_texts
    def nightly_evaluation(
        context: dg.ScheduleEvaluationContext, database: HistoryDatabase
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        from rageval_dagster.storage.clients import list_clients

        if not load_settings().enabled:
            yield dg.SkipReason("EVALUATION_ENABLED is false")
            return
        slot = context.scheduled_execution_time.strftime("%Y-%m-%dT%H:%M")
        present = [client for client in list_clients(database.open()) if client.vanished_at is None]
        for client in present:
            ensure_partition(context.instance, client.client_id)  # the sensor may not have met it yet
            yield run_request(client.client_id, f"schedule:{slot}", run_key=f"{client.client_id}:{slot}")
        if not present:
            yield dg.SkipReason("no clients yet: ingest documents first")

    return nightly_evaluation
