"""The schedules: every client is evaluated nightly, or when its own settings say, whatever the sensor saw."""

from collections.abc import Iterator

import dagster as dg

from rageval_dagster.automation.dagster_internals import is_cron
from rageval_dagster.automation.jobs import evaluation_job
from rageval_dagster.automation.requests import ensure_partitions, run_request
from rageval_dagster.automation.selection import without_benchmark
from rageval_dagster.errors import SettingsError
from rageval_dagster.identity import digest
from rageval_dagster.resources import HistoryDatabase
from rageval_dagster.resources.textless import without_texts
from rageval_dagster.settings import Settings, load_settings


def checked_cron(settings: Settings) -> str:
    """The schedule's cron expression.

    Raises:
        SettingsError: if it does not parse.
    """
    if not is_cron(settings.schedule):
        raise SettingsError(
            f"EVALUATION_SCHEDULE_CRON takes a cron expression in UTC such as '0 2 * * *', not {settings.schedule!r}"
        )
    return settings.schedule


def evaluation_schedules() -> list[dg.ScheduleDefinition]:
    """The nightly schedule, and one more for each other time that a client's table in rageval.toml asks for."""
    settings = load_settings()
    nightly = checked_cron(settings)
    own = {time for name in settings.source.client_names if (time := time_of(settings, name)) and time != nightly}
    return [
        _schedule("rageval_nightly_evaluation", nightly),
        *(_schedule(f"rageval_evaluation_{digest(time)[:8]}", time) for time in sorted(own)),
    ]


def _schedule(name: str, cron: str) -> dg.ScheduleDefinition:
    """A run request per client whose settings name this time; a client that vanished from the store is left out.

    The benchmark's assets are asked for only where a dataset is due, such as one older than
    EVALUATION_DATASET_MAX_AGE_DAYS, or may be: where the documents changed.
    """
    enabled = load_settings().enabled

    @dg.schedule(
        name=name,
        job=evaluation_job,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING if enabled else dg.DefaultScheduleStatus.STOPPED,
        description="Evaluates every client once a night."
        if name == "rageval_nightly_evaluation"
        else f"Clients at {cron}.",
    )
    @without_texts
    def schedule(
        context: dg.ScheduleEvaluationContext, rageval_database: HistoryDatabase
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        from rageval_dagster.storage.clients import list_clients
        from rageval_dagster.storage.run_requests import freeze

        settings = load_settings()
        if not settings.enabled:
            yield dg.SkipReason("EVALUATION_ENABLED is false")
            return
        slot = context.scheduled_execution_time.strftime("%Y-%m-%dT%H:%M")
        db, trigger = rageval_database.open(), f"schedule:{slot}"
        present = [client.client_id for client in list_clients(db) if client.vanished_at is None]
        due = [client_id for client_id in present if time_of(settings, client_id) == cron]
        ensure_partitions(context.instance, due)  # the sensor may not have met them yet
        freeze(db, settings, dict.fromkeys(due, trigger), {})
        fresh = without_benchmark(db, settings, due)
        for client_id in due:
            yield run_request(client_id, trigger, f"{client_id}:{slot}", client_id in fresh)
        if not due:
            yield dg.SkipReason("no clients yet: ingest documents first")

    return schedule


def time_of(settings: Settings, client_id: str) -> str | None:
    """When a client is evaluated: a cron expression, None for never.

    One whose table in rageval.toml is wrong is evaluated nightly: its run fails, says why, and stops no other.
    """
    try:
        own = settings.for_client(client_id)
        return checked_cron(own) if own.enabled else None
    except SettingsError:
        return settings.schedule
