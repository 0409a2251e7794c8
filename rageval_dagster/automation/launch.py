"""How the command line starts a run: the same job as the UI, in this process, in the same Dagster instance."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg

from rageval_dagster.automation.alerts import after_run
from rageval_dagster.automation.dagster_internals import CHECK_FAILED, is_interruption, root_cause, start_run
from rageval_dagster.automation.home import prepare_dagster_home
from rageval_dagster.automation.jobs import EVALUATION_JOB, UNDUE_KEYS
from rageval_dagster.automation.progress import PROGRESS_LOGGER
from rageval_dagster.automation.requests import ensure_partitions, run_config, run_tags
from rageval_dagster.automation.selection import without_benchmark
from rageval_dagster.resources import HistoryDatabase
from rageval_dagster.settings import Settings
from rageval_dagster.storage.clients import ensure_client

CODE_LOCATION = "rageval_dagster"


@dataclass(frozen=True)
class Launched:
    """A finished run: its id in Dagster, and where it failed, the step and the message.

    `untold` says why people could not be told what came of it. `interrupted`: somebody stopped it.
    """

    run_id: str
    failed_step: str | None = None
    message: str | None = None
    untold: str | None = None
    interrupted: bool = False

    @property
    def failure(self) -> str | None:
        """One line for people: the step, what went wrong, and the run's id; None if it succeeded."""
        if self.message is None:
            return None
        step = f"{self.failed_step}: " if self.failed_step else ""
        return f"{step}{self.message} (Dagster run {self.run_id})"


def launch(
    defs: dg.Definitions,
    settings: Settings,
    client_id: str,
    trigger: str,
    plan: Mapping[str, Any],
    on_step: Callable[[str], None],
    job_name: str = EVALUATION_JOB,
) -> Launched:
    """Runs a job for one client and waits for it; it shows up in the UI like any other run.

    It bypasses the daemon's queue; the client's lease in the history database keeps it apart from other runs.

    Args:
        plan: values of the EvaluationPlan resource that differ from the settings.
        on_step: called with the name of each asset as it begins to be made; what checks and shows them takes no time.
    """
    prepare_dagster_home(settings)
    db = HistoryDatabase().open()
    ensure_client(db, client_id)  # the run knows it by its partition only
    job = defs.resolve_job_def(job_name)
    with dg.DagsterInstance.get() as instance:
        ensure_partitions(instance, [client_id])
        left_out = job_name == EVALUATION_JOB and client_id in without_benchmark(db, settings, [client_id], plan)
        if left_out:
            job = job.get_subset(asset_selection=frozenset(UNDUE_KEYS))
        chosen = run_config(trigger, renewal_left_out=left_out, **plan)
        config = {**chosen, "loggers": {PROGRESS_LOGGER: {}}}
        assets = {spec.key.to_user_string() for spec in defs.resolve_all_asset_specs()}
        tags = run_tags(client_id, trigger)
        launched = execute(instance, job, config, tags, lambda step: on_step(step) if step in assets else None)
        return replace(launched, untold=after_run(instance, db, settings, client_id))


def execute(
    instance: dg.DagsterInstance,
    job: dg.JobDefinition,
    config: Mapping[str, Any],
    tags: Mapping[str, str],
    on_step: Callable[[str], None],
) -> Launched:
    """Runs a job in this process and waits for it; `on_step` is called with the name of each step as it begins."""
    run_id, events = start_run(instance, job, config, tags, "rageval_dagster.definitions", CODE_LOCATION)
    failed_step = message = None
    interrupted = False
    for event in events:
        if event.is_step_start and event.step_key:
            on_step(event.step_key)
        elif event.is_step_failure and message is None:
            failed_step, message = event.step_key, _innermost(event.step_failure_data.error)
        elif is_interruption(event):
            message, interrupted = "interrupted", True
        elif event.is_run_failure and message is None:
            message = _innermost(event.job_failure_data.error) or event.message
    return Launched(run_id, failed_step, message, interrupted=interrupted)


def _innermost(error: Any) -> str | None:
    """The message of the error at the root of a chain, on one line, without Dagster's wrapping."""
    error = root_cause(error)
    if error is None:
        return None
    text = " ".join(error.message.split())
    name, _, message = text.partition(": ")
    if name.endswith(CHECK_FAILED):
        return f"the benchmark breaks a rule it must follow ({message.rpartition(': ')[2]}); see rageval datasets list"
    return message if message and name.rpartition(".")[2].endswith("Error") else text
