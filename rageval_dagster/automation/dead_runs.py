"""The sensor that ends runs whose process died: after a kill, a reboot, or a stop that lost the client's lease."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import dagster as dg

from rageval_dagster.assets.partitions import CLIENTS_PARTITIONS
from rageval_dagster.automation.jobs import BENCHMARK_JOB, EVALUATION_JOB, evaluation_job
from rageval_dagster.automation.requests import CLIENT_TAG, TRIGGER_TAG
from rageval_dagster.automation.sensors import MAX_ATTEMPTS
from rageval_dagster.resources import HistoryDatabase
from rageval_dagster.resources.lease import end_dead_run
from rageval_dagster.resources.textless import without_texts
from rageval_dagster.storage.leases import WAIT_S

INTERVAL_S = 30
UNLEASED_S = WAIT_S + 30
"""How long a run may go on without the client's lease, for which it waits."""

_LOOK_BACK = timedelta(hours=1)
"""For runs that were failed before they began: longer than the daemon may be away."""

_JOBS = {EVALUATION_JOB, BENCHMARK_JOB}
_SCHEDULED = "schedule:"


def dead_run_sensor() -> dg.SensorDefinition:
    """Fails runs that nobody works on any more, so that the client's next one starts, and asks anew for a nightly one.

    Also for a nightly one that Dagster failed before it began: it waited too long at the broker, or never got there.

    A run is dead whose lease expired, and also one that two looks in a row saw without a lease, `UNLEASED_S` after its
    start: it was killed before it got it. A run that works renews its own, wherever that is.
    """

    @dg.sensor(
        name="rageval_dead_run_sensor",
        job=evaluation_job,
        minimum_interval_seconds=INTERVAL_S,
        # Whatever EVALUATION_ENABLED says: a run that was started by hand can die, too.
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Fails runs whose process died, so that the client's next one can start.",
    )
    @without_texts
    def sensor(context: dg.SensorEvaluationContext, rageval_database: HistoryDatabase) -> dg.SensorResult:
        from rageval_dagster.storage.leases import held_leases

        # The runs first: one that ends in between is then seen without a lease, and not again at the next look.
        started = context.instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        leases = {lease.run_id: lease for lease in held_leases(rageval_database.open())}
        since = time.time() - UNLEASED_S
        unleased = {
            record.dagster_run.run_id
            for record in started
            if record.dagster_run.job_name in _JOBS
            and record.dagster_run.run_id not in leases
            and record.start_time is not None
            and record.start_time < since
        }
        dead = {run_id for run_id, lease in leases.items() if run_id is not None and lease.is_dead}
        dead |= unleased.intersection(json.loads(context.cursor or "[]"))
        ended = [run for run_id in sorted(dead) if (run := end_dead_run(context.instance, run_id)) is not None]
        lost = {run.run_id: run for run in (*ended, *_failed_before_they_began(context.instance))}
        again = [request for run in lost.values() if (request := _again(context.instance, run)) is not None]
        return dg.SensorResult(
            run_requests=again,
            skip_reason=None if again else f"{len(started)} runs going on, {len(ended)} of them ended",
            cursor=json.dumps(sorted(unleased - dead)),
        )

    return sensor


def _failed_before_they_began(instance: dg.DagsterInstance) -> Iterator[dg.DagsterRun]:
    """Those of the last hour: one that was asked for again since is skipped for its run key."""
    filters = dg.RunsFilter(
        job_name=EVALUATION_JOB,
        statuses=[dg.DagsterRunStatus.FAILURE],
        updated_after=datetime.now(UTC) - _LOOK_BACK,
    )
    return (record.dagster_run for record in instance.get_run_records(filters) if record.start_time is None)


def _again(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.RunRequest | None:
    """The same run once more, which resumes what it left; only a schedule's, since nobody else would ask for it.

    None where another run of the same slot waits, goes on or was well, or the client's partition is gone.
    """
    trigger, key = run.tags.get(TRIGGER_TAG, ""), run.tags.get("dagster/partition")
    if run.job_name != EVALUATION_JOB or not trigger.startswith(_SCHEDULED) or key is None:
        return None
    tags = {"dagster/partition": key, TRIGGER_TAG: trigger}
    attempts = instance.get_runs(dg.RunsFilter(job_name=EVALUATION_JOB, tags=tags))
    if len(attempts) >= MAX_ATTEMPTS or any(each.status != dg.DagsterRunStatus.FAILURE for each in attempts):
        return None
    if not instance.has_dynamic_partition(CLIENTS_PARTITIONS, key):
        return None  # Dagster fails the whole look for a partition that it does not know
    return dg.RunRequest(
        run_key=f"{run.run_id}:again",
        partition_key=key,
        tags={CLIENT_TAG: key, TRIGGER_TAG: trigger},
        run_config=run.run_config,
        asset_selection=sorted(run.asset_selection) if run.asset_selection else None,
    )
