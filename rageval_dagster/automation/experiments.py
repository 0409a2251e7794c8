"""Experiments in Dagster: their batches as runs, launched by a command here, or by a sensor for the run queue."""

import re
import time
from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from rageval_dagster.assets.experiments import ALIVE_TAG, EXPERIMENT_TAG, experiment_key, experiment_trials, report_link
from rageval_dagster.assets.partitions import EXPERIMENTS_PARTITIONS
from rageval_dagster.automation.dagster_internals import partitions_at_work
from rageval_dagster.automation.home import prepare_dagster_home
from rageval_dagster.automation.jobs import (
    EXPERIMENT_COPIES_JOB,
    EXPERIMENT_JOB,
    experiment_copies_job,
    experiment_job,
)
from rageval_dagster.automation.launch import Launched, execute
from rageval_dagster.automation.progress import PROGRESS_LOGGER
from rageval_dagster.errors import InterruptedRunError, LeaseHeldError, RagevalError
from rageval_dagster.resources import HistoryDatabase
from rageval_dagster.resources.lease import end_dead_run
from rageval_dagster.resources.textless import textless_errors, without_texts
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.experiments import Experiment
from rageval_dagster.storage.leases import TTL_S

if TYPE_CHECKING:
    from rageval_dagster.experiments.planning import Batch

OPEN_JOB = "rageval_experiment_open"
SENSOR = "rageval_experiments"
INTERVAL_S = 10
REQUESTS = 20
"""Runs asked for in one tick."""
UNHELD_S = 120
"""How long after its creation a run may not have said that it works."""
ATTEMPTS = 3


def run_experiment(
    defs: dg.Definitions,
    settings: Settings,
    db: Database,
    number: int,
    on_round: Callable[[int, int], None],
    minutes: float | None,
) -> None:
    """Launches an experiment's rounds in this process, a run each, until its search is done or it ends.

    Args:
        on_round: called with the questions that were asked so far, and how many there can be.
        minutes: after which no further batch is begun, and the experiment ends; None: never.

    Raises:
        InterruptedRunError: somebody stopped it.
        LeaseHeldError: runs of it are at work.
        RagevalError: a run failed; what was asked is kept.
    """
    from rageval_dagster.experiments.standing import advance
    from rageval_dagster.storage.experiments import end_experiment, get_experiment

    prepare_dagster_home(settings)
    experiment = get_experiment(db, number)
    until = 0.0 if minutes is None else time.time() + 60 * minutes
    key = experiment_key(experiment.client_id, number)
    copies, trials = defs.resolve_job_def(EXPERIMENT_COPIES_JOB), defs.resolve_job_def(EXPERIMENT_JOB)
    with dg.DagsterInstance.get() as instance:
        end_dead_runs(instance, db, [number])
        _ensure_partition(instance, key)
        if _started(instance, [number]):
            raise LeaseHeldError(
                f"experiment {number} is running in Dagster; wait for its runs to end, then run again (a run that "
                f"was killed is noticed after {max(TTL_S, UNHELD_S):.0f} s)"
            )
        _execute(instance, copies, key, experiment, {})
        while (now := advance(db, settings, get_experiment(db, number))).batches:
            on_round(now.evaluations, now.most)
            if until and time.time() >= until:
                end_experiment(db, number, f"its {minutes:g} minutes are up")
            else:
                config = {"ops": {experiment_trials.op.name: {"config": {"until": until}}}} if until else {}
                _execute(instance, trials, key, experiment, config)
        on_round(now.evaluations, now.most)


def _execute(
    instance: dg.DagsterInstance, job: dg.JobDefinition, key: str, experiment: Experiment, config: dict[str, Any]
) -> None:
    config = {**config, "loggers": {PROGRESS_LOGGER: {}}}
    launched: Launched = execute(instance, job, config, _tags(experiment, key), lambda _: None)
    if launched.failure is not None:
        kind = InterruptedRunError if launched.interrupted else RagevalError
        raise kind(f"experiment {experiment.number}: {launched.failure}; the same command continues it")


def _tags(experiment: Experiment, key: str) -> dict[str, str]:
    return {"dagster/partition": key, EXPERIMENT_TAG: str(experiment.number)}


def _ensure_partition(instance: dg.DagsterInstance, *keys: str) -> None:
    missing = [key for key in keys if not instance.has_dynamic_partition(EXPERIMENTS_PARTITIONS, key)]
    if missing:
        instance.add_dynamic_partitions(EXPERIMENTS_PARTITIONS, missing)


def _started(instance: dg.DagsterInstance, numbers: Collection[int]) -> list[dg.RunRecord]:
    """The runs of experiments that count as running; one that was launched by hand may have no tag of its own yet."""
    found, wanted = [], {str(number) for number in numbers}
    for record in instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        run = record.dagster_run
        of = run.tags.get(EXPERIMENT_TAG)
        if of is None and run.job_name in (EXPERIMENT_JOB, EXPERIMENT_COPIES_JOB):
            of = re.split("[.:]", run.tags.get("dagster/partition", ""))[0]
        if of in wanted:
            found.append(record)
    return found


def end_dead_runs(instance: dg.DagsterInstance, db: Database, numbers: Collection[int]) -> None:
    """Tells Dagster that runs of these experiments failed whose process has not said for a while that it works."""
    from rageval_dagster.storage.leases import database_now
    from rageval_dagster.storage.types import utc_now

    silent_since = database_now(db) - timedelta(seconds=TTL_S)
    for record in _started(instance, numbers):
        run = record.dagster_run
        alive = run.tags.get(ALIVE_TAG)
        late = record.create_timestamp < utc_now() - timedelta(seconds=UNHELD_S)
        if datetime.fromisoformat(alive) < silent_since if alive is not None else late:
            end_dead_run(instance, run.run_id)


class Opening(dg.Config):
    """Where an experiment's definition stands: its values are nothing for Dagster's storage."""

    file: str = Field(
        default="experiment.toml", description="The definition's file; relative to the folder of rageval.toml."
    )


@dg.op(out=dg.Out(dg.Nothing))
@without_texts
def rageval_definition(
    context: dg.OpExecutionContext, config: Opening, rageval_database: HistoryDatabase
) -> Iterator[dg.Output]:
    """Checks a definition and opens the experiment; the sensor rageval_experiments then launches its runs."""
    from rageval_dagster.experiments.definition import read_definition
    from rageval_dagster.experiments.opening import checked, opened

    db, settings = rageval_database.open(), load_settings()
    path = settings.path(config.file)
    experiment = opened(db, settings, checked(db, settings, read_definition(path), path.name), "launchpad")
    key = experiment_key(experiment.client_id, experiment.number)
    _ensure_partition(context.instance, key)
    context.log.info(f"experiment {experiment.number} is open: the sensor {SENSOR} launches its runs, partition {key}")
    yield dg.Output(None, metadata={"experiment": experiment.number, **report_link(experiment.number)})


@dg.job(
    name=OPEN_JOB,
    description="Opens an experiment from its definition's file; the sensor rageval_experiments continues it.",
    executor_def=dg.in_process_executor,
)
def experiment_open_job() -> None:
    rageval_definition()


def experiment_sensor() -> dg.SensorDefinition:
    """Launches what comes next in each experiment that was opened in the UI: its copies, then its batches."""

    @dg.sensor(
        name=SENSOR,
        jobs=[experiment_copies_job, experiment_job],
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Launches the runs of experiments that were opened in the UI.",
    )
    @without_texts
    def sensor(context: dg.SensorEvaluationContext, rageval_database: HistoryDatabase) -> dg.SensorResult:
        from rageval_dagster.storage.experiments import experiments_with_work

        db = rageval_database.open()
        ours = experiments_with_work(db, "launchpad")
        if not ours:  # what follows imports much
            return dg.SensorResult(skip_reason="no experiment that was opened in the UI is running")
        from rageval_dagster.experiments.standing import advance
        from rageval_dagster.report.experiment import finish, is_finished

        settings = load_settings()
        running = [each for each in ours if each.ended_at is None]
        for experiment in ours:
            if experiment.ended_at is not None and not is_finished(settings, experiment):
                finish(db, settings, experiment.number)  # a run of it ended it, such as at a budget
        requests: list[dg.RunRequest] = []

        end_dead_runs(context.instance, db, [each.number for each in running])
        at_work = partitions_at_work(context.instance, EXPERIMENT_JOB)

        def go_on(experiment: Experiment) -> None:
            if experiment_key(experiment.client_id, experiment.number) in at_work:
                return  # somebody launched all of its round by hand
            copies = _copies_request(context.instance, experiment)
            if copies is not None:
                requests.extend(copies)
                return
            now = advance(db, settings, experiment)
            if not now.batches:
                finish(db, settings, now.experiment.number)
                return
            for batch in now.batches:
                key = experiment_key(experiment.client_id, experiment.number, batch.number)
                if key not in at_work and len(requests) < REQUESTS:
                    requests.append(_trial_request(context.instance, db, experiment, key, batch))

        for experiment in running:
            try:
                with textless_errors():
                    go_on(experiment)
            except RagevalError as error:  # the others go on
                context.log.warning(f"experiment {experiment.number} cannot continue: {error}")
        keys = [str(request.partition_key) for request in requests]
        known = set(context.instance.get_dynamic_partitions(EXPERIMENTS_PARTITIONS))
        to_add = [key for key in dict.fromkeys(keys) if key not in known]
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else f"{len(running)} experiments are running",
            dynamic_partitions_requests=[
                dg.DynamicPartitionsDefinition(name=EXPERIMENTS_PARTITIONS).build_add_request(to_add)
            ]
            if to_add
            else [],
        )

    return sensor


def _copies_request(instance: dg.DagsterInstance, experiment: Experiment) -> list[dg.RunRequest] | None:
    """The run that makes the copies, if it is to be asked for now; None where one of this opening has succeeded."""
    key = experiment_key(experiment.client_id, experiment.number)
    tags = {EXPERIMENT_TAG: str(experiment.number), "dagster/partition": key}
    filters = dg.RunsFilter(job_name=EXPERIMENT_COPIES_JOB, tags=tags, created_after=experiment.opened_at)
    statuses = [run.status for run in instance.get_runs(filters)]
    if dg.DagsterRunStatus.SUCCESS in statuses:
        return None
    failed = sum(status in _FAILED for status in statuses)
    if failed < len(statuses) or failed >= ATTEMPTS:
        return []
    return [
        dg.RunRequest(
            run_key=f"{key}:{experiment.opened_at:%Y%m%d%H%M%S}:copies:{failed}",
            job_name=EXPERIMENT_COPIES_JOB,
            partition_key=key,
            tags=_tags(experiment, key),
        )
    ]


_FAILED = {dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}


def _trial_request(
    instance: dg.DagsterInstance, db: Database, experiment: Experiment, key: str, batch: "Batch"
) -> dg.RunRequest:
    """A batch as a run; with a new key after each failed one, since Dagster skips a key for ever."""
    from rageval_dagster.identity import digest_json
    from rageval_dagster.storage.experiments import end_experiment

    work = digest_json([experiment.opened_at.isoformat(), list(batch.questions)])[:12]
    tags = {EXPERIMENT_TAG: str(experiment.number), "dagster/partition": key, "rageval/batch": work}
    failed = instance.get_runs_count(dg.RunsFilter(job_name=EXPERIMENT_JOB, tags=tags, statuses=list(_FAILED)))
    if failed >= ATTEMPTS:
        end_experiment(db, experiment.number, f"a run failed {failed} times; its page in Dagster says why")
    return dg.RunRequest(
        run_key=f"{key}:{work}:{failed}",
        job_name=EXPERIMENT_JOB,
        partition_key=key,
        tags=tags,
    )
