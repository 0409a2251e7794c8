"""Telling people: the sensor that looks what is wrong or well again, and the same at the end of a command's run.

A run that failed or died cannot report itself. `note_runs` does for it: called by the command that launched the run, by
the sensor for runs of the daemon, and by the next command for those that nobody saw end.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import dagster as dg

from rageval_dagster.assets.checks import FRESH, what_blocked
from rageval_dagster.automation.dagster_internals import CHECK_FAILED, report_check, root_cause
from rageval_dagster.automation.home import prepare_dagster_home
from rageval_dagster.automation.jobs import BENCHMARK_JOB, EVALUATION_JOB
from rageval_dagster.corpus.names import partition_key
from rageval_dagster.errors import DatasetError, RagevalError
from rageval_dagster.gate.incidents import EndedRun, Freshness
from rageval_dagster.resources import HistoryDatabase
from rageval_dagster.resources.lease import BUSY_TAG, end_dead_run
from rageval_dagster.resources.textless import without_texts
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.incidents import Incident

INTERVAL_S = 60
OVERLAP = timedelta(seconds=60)
"""Runs that ended so long before the last look are looked at again: clocks and transactions are not exact."""

MOST_BUSY = 10
"""Runs of a client that ended last: so many may have found it busy before what the others came to is not seen."""
FAILED_TAG = "rageval/failed_at"
"""The step in which a run failed, at the head of its page in Dagster."""

_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE]


def alert_sensor() -> dg.SensorDefinition:
    """Looks at the clients whose runs ended, those with open incidents, and everybody's age; tells what is new."""

    @dg.sensor(
        name="rageval_alert_sensor",
        minimum_interval_seconds=INTERVAL_S,
        # Whatever EVALUATION_ENABLED says: runs can be started by hand, and incidents end.
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Opens and closes incidents, and reports them to the webhook.",
    )
    @without_texts
    def sensor(context: dg.SensorEvaluationContext, rageval_database: HistoryDatabase) -> dg.SensorResult:
        from rageval_dagster.gate.incidents import review, review_freshness
        from rageval_dagster.storage.incidents import open_incidents
        from rageval_dagster.storage.types import utc_now
        from rageval_dagster.telling.webhook import tell

        settings, db, now = load_settings(), rageval_database.open(), utc_now()
        since = datetime.fromisoformat(context.cursor) if context.cursor else now
        ended_at = _clients_of_ended_runs(context.instance, rageval_database, since)
        ended = set(ended_at)
        before = open_incidents(db)
        known = {incident.client_id for incident in before}
        review(db, settings, ended | known, now)
        note_runs(context.instance, db, ended)
        trouble = _renew_pages(db, settings, before, ran=any(at >= since.timestamp() for at in ended_at.values()))
        for found in review_freshness(db, settings, now):
            report_freshness(context.instance, found)
        if trouble:
            context.log.warning(trouble)
        delivery = tell(db, settings)
        if delivery.trouble:
            context.log.warning(delivery.trouble)
        return dg.SensorResult(
            skip_reason=f"{len(ended)} clients had runs, {len(known)} open incidents; {delivery.sent} messages sent",
            cursor=now.isoformat(),
        )

    return sensor


def after_run(instance: dg.DagsterInstance, db: Database, settings: Settings, client_id: str) -> str | None:
    """Opens, closes and tells what a run of the command line brought; gives a line on what could not be done."""
    return _reviewed(
        db, settings, client_id, lambda: note_runs(instance, db, {client_id} | _end_left_behind(instance, db))
    )


def after_acceptance(db: Database, settings: Settings, client_id: str) -> str | None:
    """Closes and tells what an acceptance ended; gives a line on what could not be done."""
    return _reviewed(db, settings, client_id, lambda: None)


def _reviewed(db: Database, settings: Settings, client_id: str, note: Callable[[], None]) -> str | None:
    from rageval_dagster.gate.incidents import review
    from rageval_dagster.storage.incidents import open_incidents
    from rageval_dagster.storage.types import utc_now
    from rageval_dagster.telling.webhook import tell

    try:
        before = open_incidents(db)
        review(db, settings, {client_id}, utc_now())
        note()
        unmade = _renew_pages(db, settings, before, ran=True)
        return "; ".join(filter(None, [unmade, tell(db, settings).trouble])) or None
    except RagevalError as error:
        return f"incidents could not be checked: {error}"


def note_left_behind(db: Database, settings: Settings) -> str | None:
    """For commands, since nobody else may look: notes the runs that ended unseen. Gives a line on what went wrong."""
    from rageval_dagster.storage.incidents import open_incidents

    before = open_incidents(db)
    prepare_dagster_home(settings)
    with dg.DagsterInstance.get() as instance:
        note_runs(instance, db, _end_left_behind(instance, db))
    return _renew_pages(db, settings, before)


def _end_left_behind(instance: dg.DagsterInstance, db: Database) -> set[str]:
    """The clients of the runs that ended unseen; Dagster is told of those whose process died."""
    from rageval_dagster.storage.standing import runs_left_behind

    left = runs_left_behind(db)
    for run_id in left.values():
        end_dead_run(instance, run_id)
    return set(left)


def _renew_pages(db: Database, settings: Settings, before: Sequence[Incident], ran: bool = False) -> str | None:
    """Makes the page of all clients anew where something `ran` or incidents changed, and the report of each client
    whose run or benchmark fails now, or failed before; gives a line if that fails.

    A run makes its client's report where it succeeds.
    """
    from rageval_dagster.report.files import write_client_report, write_fleet_report
    from rageval_dagster.storage.incidents import open_incidents

    was, now = ({(each.id, each.run_id): each for each in found} for found in (before, open_incidents(db)))
    changed = [each for key, each in {**was, **now}.items() if (key in was) != (key in now)]
    if not changed and not ran:
        return None
    try:
        for client_id in sorted({each.client_id for each in changed if each.kind in ("failed_run", "benchmark")}):
            write_client_report(db, settings, client_id)
        write_fleet_report(db, settings)
    except RagevalError as error:
        return f"the reports could not be updated: {error}"
    return None


def note_runs(instance: dg.DagsterInstance, db: Database, client_ids: set[str]) -> None:
    """Opens or closes the incident of each client's newest run; the page of one that failed in Dagster says so, too."""
    from rageval_dagster.gate.incidents import note_run
    from rageval_dagster.storage.types import utc_now
    from rageval_dagster.telling.alarms import client_alarms

    for client_id in sorted(client_ids):
        run = _newest_ended(instance, client_id)
        if run is None or not note_run(db, client_id, run, utc_now()):
            continue
        instance.add_run_tags(run.run_id, {FAILED_TAG: run.step or "before its first step"})
        for alarm in client_alarms(db, client_id)[:1]:
            told = f"{client_id}: {alarm.sentence} Run it again: {alarm.command}"
            instance.report_engine_event(told, instance.get_run_by_id(run.run_id))


def report_freshness(instance: dg.DagsterInstance, found: Freshness) -> None:
    """Stores what the check finds of a client now that no run comes, as the check of its newest run; where there was
    none, Dagster has nothing that could be shown.

    Dagster takes events without a run, too, but of a check's partition only one for ever, and keeps them in a file from
    which no client's can be deleted.
    """
    partition, asset = partition_key(found.client_id), dg.AssetKey("evaluation_runs")
    filters = dg.RunsFilter(job_name=EVALUATION_JOB, tags={"dagster/partition": partition})
    for run in instance.get_runs(filters, limit=1):
        report_check(instance, run, asset, FRESH, partition, found.fresh, found.said)


def _clients_of_ended_runs(
    instance: dg.DagsterInstance, database: HistoryDatabase, since: datetime
) -> dict[str, float]:
    """{client: when its last run ended, in seconds}, of runs that ended lately."""
    filters = dg.RunsFilter(statuses=_ENDED, updated_after=since.astimezone(UTC) - OVERLAP)
    ends: dict[str, float] = {}
    for record in instance.get_run_records(filters):
        run = record.dagster_run
        # The partitions of experiments are no clients.
        if run.job_name in (EVALUATION_JOB, BENCHMARK_JOB) and (key := run.tags.get("dagster/partition")):
            ends[key] = max(ends.get(key, 0.0), record.end_time or 0.0)
    found: dict[str, float] = {}
    for key, end in ends.items():
        try:
            found[database.client_of(key)] = end
        except RagevalError:
            continue  # it was forgotten meanwhile
    return found


def _newest_ended(instance: dg.DagsterInstance, client_id: str) -> EndedRun | None:
    """The run of a client's evaluation or benchmark that ended last; one that was canceled tells nothing."""
    tags = {"dagster/partition": partition_key(client_id)}
    records = [
        record
        for job in (EVALUATION_JOB, BENCHMARK_JOB)
        for record in instance.get_run_records(
            dg.RunsFilter(job_name=job, tags=tags, statuses=_ENDED), limit=MOST_BUSY, order_by="end_time"
        )
        if BUSY_TAG not in record.dagster_run.tags
    ]
    if not records:
        return None
    newest = max(records, key=lambda record: record.end_time or 0)
    if newest.dagster_run.status == dg.DagsterRunStatus.SUCCESS:
        return EndedRun(newest.dagster_run.run_id, failed=False)
    ended_at = None if newest.end_time is None else datetime.fromtimestamp(newest.end_time, UTC)
    return replace(_failed(instance, newest.dagster_run.run_id), ended_at=ended_at)


def _failed(instance: dg.DagsterInstance, run_id: str) -> EndedRun:
    """Where a run failed: the first step that did, with the class of the error at the root, never its message.

    Where none did, its process died in the step that it had begun.
    """
    step = error = check = at = None
    wanted = {
        dg.DagsterEventType.STEP_START,
        dg.DagsterEventType.STEP_SUCCESS,
        dg.DagsterEventType.STEP_FAILURE,
        dg.DagsterEventType.ASSET_CHECK_EVALUATION,
    }
    for entry in instance.all_logs(run_id, of_type=wanted):
        event = entry.get_dagster_event()
        if event.is_step_start:
            at = event.step_key
        elif event.is_step_success:
            at = None
        elif event.is_step_failure and step is None:
            step = event.step_key
            cause = root_cause(event.step_failure_data.error)
            error = None if cause is None else cause.cls_name
        elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            evaluation = event.asset_check_evaluation_data
            if evaluation.blocking and not evaluation.passed and evaluation.severity == dg.AssetCheckSeverity.ERROR:
                check = check or what_blocked(evaluation)
    if step is None and at is not None:
        return EndedRun(run_id, True, at, died=True)
    # The second one where the benchmark was made by a step of the evaluation, in a run that had left it out.
    return EndedRun(run_id, True, step, error, check if error in (CHECK_FAILED, DatasetError.__name__) else None)
