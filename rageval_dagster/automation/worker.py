"""A worker of a fleet: a Celery worker with the broker of dagster.yaml, which keeps nothing of a run for the next."""

import gc
import os
import sys
import uuid
from collections.abc import Mapping
from contextlib import suppress
from inspect import signature
from typing import TYPE_CHECKING, Any

import dagster as dg

from rageval_dagster.automation.dagster_internals import unpack_value
from rageval_dagster.automation.home import prepare_dagster_home
from rageval_dagster.errors import RagevalError, SettingsError
from rageval_dagster.functions import forget_changed_modules
from rageval_dagster.settings import LAUNCHER_VARIABLE, Settings, load_settings
from rageval_dagster.storage.database import open_database
from rageval_dagster.storage.leases import expire_lease

if TYPE_CHECKING:
    from celery import Celery

_KEPT = {
    "rageval_dagster.resources.database._open",
    "rageval_dagster.automation.dagster_storage._engine",
    "rageval_dagster.gate.nights.level_of_a_look",
}
"""Caches that a run leaves as they are though they take arguments: of open connections, and of numbers."""


def celery_app(settings: Settings) -> "Celery":
    """The Celery application of the instance's launcher, without connecting to anything.

    Raises:
        SettingsError: dagster.yaml names another launcher, or a package is missing.
    """
    home = prepare_dagster_home(settings)
    with dg.DagsterInstance.get() as instance:
        app: Any = getattr(instance.run_launcher, "celery", None)
        if app is None:
            raise SettingsError(
                f"{home / 'dagster.yaml'} starts runs by {type(instance.run_launcher).__name__}, not by workers: set "
                f"{LAUNCHER_VARIABLE}=celery and delete the file, which is then written again, or change it"
            )
    return app


def work(settings: Settings, processes: int, max_runs: int, max_memory_mb: int) -> None:
    """Works on runs until it is stopped; each of the `processes` is replaced after `max_runs` runs, or after one that
    left it with more than `max_memory_mb`."""
    app = celery_app(settings)
    from celery.signals import task_failure, task_postrun, task_prerun
    from dagster_celery.tasks import create_execute_job_task

    create_execute_job_task(app)
    # What is loaded by now stays in every process: looking through it for garbage after each run would take longer than
    # all else that is done there.
    gc.collect()
    gc.freeze()
    task_prerun.connect(_before_run)
    task_postrun.connect(_after_run)
    task_failure.connect(_after_failure)
    app.worker_main(
        [
            *("worker", "--pool", "prefork", "--loglevel", "INFO", "--without-gossip", "--without-mingle"),
            *("--hostname", f"rageval-{uuid.uuid4().hex[:8]}@%h", "--queues", app.conf.task_default_queue),
            *("--concurrency", str(processes), "--max-tasks-per-child", str(max_runs)),
            *("--max-memory-per-child", str(max_memory_mb * 1024)),
        ]
    )


_environment: dict[str, str] = {}


def _before_run(**_: object) -> None:
    _environment.clear()
    _environment.update(os.environ)
    forget_changed_modules()


def _after_run(**_: object) -> None:
    """Takes out of this process what the run left: variables of a `.env`, which Dagster reads in, and texts."""
    os.environ.clear()
    os.environ.update(_environment)
    forget_texts()


def _after_failure(exception: object = None, kwargs: Mapping[str, Any] | None = None, **_: object) -> None:
    """In the worker's first process, which sees that another one died: its client need not wait for the lease."""
    from celery.exceptions import WorkerLostError

    if not isinstance(exception, WorkerLostError) or "execute_job_args_packed" not in (kwargs := kwargs or {}):
        return
    packed: Any = unpack_value(kwargs["execute_job_args_packed"])
    with suppress(RagevalError):  # the lease ends by itself
        # Closed at once: processes that are forked later would share the connection.
        db = open_database(load_settings().database_url)
        try:
            expire_lease(db, packed.run_id)
        finally:
            db.dispose()


def forget_texts() -> None:
    """Empties every cache of this package in which texts or settings of a client may stand; models stay loaded.

    What a function without parameters keeps is nobody's: a pattern, a template, a table of languages.
    """
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "rageval_dagster":
            continue
        for kept, value in list(vars(module).items()):
            clear = getattr(value, "cache_clear", None)
            if clear is not None and f"{name}.{kept}" not in _KEPT and signature(value).parameters:
                clear()
    if "rageval_dagster.embedding.models" in sys.modules:
        from rageval_dagster.embedding.models import forget_vectors

        forget_vectors()
    if "rageval_dagster.experiments.trial" in sys.modules:
        from rageval_dagster.experiments.trial import forget_laboratory

        forget_laboratory()
    gc.collect()
