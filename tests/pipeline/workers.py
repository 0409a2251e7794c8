"""A Redis of its own, and workers over a project, as real processes; runs are handed to them without a daemon."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.code_pointer import CodePointer
from dagster._core.launcher import LaunchRunContext
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster._core.remote_origin import RemoteRepositoryOrigin
from dagster._core.workspace.load_target import ModuleTarget

from rageval_dagster.assets.partitions import CLIENTS_PARTITIONS
from rageval_dagster.automation.jobs import EVALUATION_JOB
from rageval_dagster.automation.requests import run_config, run_tags
from rageval_dagster.definitions import defs
from tests.loopback import free_port
from tests.pipeline.services import wait_for

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
MODULE = "rageval_dagster.definitions"


@contextmanager
def process(command: list[str], folder: Path, environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen]:
    """A program while the block lasts; its output is added to the log."""
    with log.open("ab") as output:
        started = subprocess.Popen(
            command, cwd=folder, env=dict(environment), stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(timeout=30)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


@contextmanager
def redis_server(folder: Path, port: int | None = None) -> Iterator[str]:
    """The URL of a Redis of its own, which keeps what it has in the folder."""
    port = port or free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--appendonly", "yes", "--dir", str(folder)]
    with process(command, folder, os.environ, folder / "redis.log"):
        wait_for("Redis", lambda: listens(port), 60)
        yield f"redis://127.0.0.1:{port}/0"


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextmanager
def worker(folder: Path, environment: Mapping[str, str], *options: str) -> Iterator[subprocess.Popen]:
    """`rageval worker`, once it is ready."""
    log = folder / "worker.log"
    ready = log.read_text().count(" ready.") if log.exists() else 0
    command = [str(BIN / "python"), "-m", "rageval_dagster", "worker", *options]
    with process(command, folder, {**environment, "PYTHONPATH": str(ROOT)}, log) as started:

        def is_ready() -> bool:
            if started.poll() is not None:
                pytest.fail(f"the worker ended: {log.read_text()[-2000:]}")
            return log.read_text().count(" ready.") > ready

        wait_for("the worker", is_ready, 120)
        yield started


def hand_over(instance: dg.DagsterInstance, client: str, trigger: str, **plan: object) -> str:
    """The id of a run of the evaluation job, which the instance's launcher was given."""
    instance.add_dynamic_partitions(CLIENTS_PARTITIONS, [client])
    [loaded] = ModuleTarget(MODULE, None, None, "rageval_dagster").create_origins()
    repository = RepositoryPythonOrigin(sys.executable, CodePointer.from_module(MODULE, "defs", None), entry_point=None)
    run = instance.create_run_for_job(
        defs.resolve_job_def(EVALUATION_JOB),
        run_config=run_config(trigger, **plan),
        tags=run_tags(client, trigger),
        status=dg.DagsterRunStatus.NOT_STARTED,
        remote_job_origin=RemoteRepositoryOrigin(loaded, "__repository__").get_job_origin(EVALUATION_JOB),
        job_code_origin=JobPythonOrigin(EVALUATION_JOB, repository),
    )
    instance.run_launcher.launch_run(LaunchRunContext(run, workspace=None))
    return run.run_id


def ended(instance: dg.DagsterInstance, run_id: str, deadline_s: float = 300) -> dg.DagsterRunStatus:
    wait_for(f"the end of run {run_id}", lambda: instance.get_run_by_id(run_id).is_finished, deadline_s)  # pyright: ignore[reportOptionalMemberAccess]
    return instance.get_run_by_id(run_id).status  # pyright: ignore[reportOptionalMemberAccess]


def process_of(instance: dg.DagsterInstance, run_id: str) -> int:
    """The number of the process that worked on a run."""
    said = [entry.message for entry in instance.all_logs(run_id) if "Started process for run (pid: " in entry.message]
    return int(said[0].rpartition("pid: ")[2].rstrip(")."))


__all__ = ["ended", "hand_over", "listens", "process", "process_of", "redis_server", "worker"]
