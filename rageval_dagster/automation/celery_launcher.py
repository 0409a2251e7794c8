"""Dagster's launcher of runs as Celery tasks, for runs of which a client's lease tells whether they go on."""

from dagster import DagsterRun
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG

from rageval_dagster.automation.dagster_internals import CheckRunHealthResult, WorkerStatus
from rageval_dagster.automation.jobs import BENCHMARK_JOB, EVALUATION_JOB


class LeasedRunLauncher(CeleryRunLauncher):
    """CeleryRunLauncher, but a broker that lost its word on a run, or is away, ends none.

    A client's run whose process died is ended by the sensor of dead runs, which also asks for it anew; Dagster's
    monitoring would only fail it. Of other jobs' runs it is told what the broker knows for sure.
    """

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        going_on = CheckRunHealthResult(WorkerStatus.RUNNING)
        # A run that a command started has no task.
        if run.job_name in (EVALUATION_JOB, BENCHMARK_JOB) or DAGSTER_CELERY_TASK_ID_TAG not in run.tags:
            return going_on
        found = super().check_run_worker_health(run)
        return going_on if found.status == WorkerStatus.UNKNOWN else found

    def terminate(self, run_id: str) -> bool:
        run = self._instance.get_run_by_id(run_id)
        return run is not None and DAGSTER_CELERY_TASK_ID_TAG in run.tags and super().terminate(run_id)
