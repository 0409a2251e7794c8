"""Dagster's daemon and code server over a project, as real processes that a test can kill all at once."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster import DagsterRunStatus as Status

from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.small_project import Project

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent

LOCKED = (b"database is locked", b"deadlock", b"lock wait timeout", b"stayed locked")
"""What a database says of writers that are in each other's way."""


def with_endpoint(project: Project, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, **more: str) -> Project:
    """The project with embeddings and answers from an endpoint, so that a run's process imports no torch."""
    variables = {
        "OPENAI_BASE_URL": server.base_url,
        "OPENAI_API_KEY": "sk-none",
        "RAGEVAL_EMBEDDING_MODEL": "openai:scripted",
        "RAGEVAL_METRIC_EMBEDDING_MODEL": "openai:scripted",
        "RAGEVAL_ANSWER_MODEL": "scripted-answer",
        **more,
    }
    return project.given(monkeypatch, **variables)


class HoldingModel:
    """A scripted model that holds its answers back, while it `holds`, until they are let go."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.let_go = threading.Event()
        self.holds = True

    def __call__(self, body: dict[str, Any]) -> str:
        if self.holds:
            self.asked.set()
            self.let_go.wait()
        return scripted_model(body)


class Services:
    """`dagster-daemon run`, which starts a code server, which starts a process for each run; or another command."""

    def __init__(self, project: Project, *command: str | Path) -> None:
        self._command = command or (BIN / "dagster-daemon", "run", "--workspace", ROOT / "workspace.yaml")
        self._folder = project.folder
        self._environment = dict(os.environ) | project.environment | {"PYTHONPATH": str(ROOT)}
        self._daemon: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self._folder / "daemon.log"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._daemon = subprocess.Popen(
                self._command, env=self._environment, cwd=self._folder, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """`kill -9` of the daemon, the code server and the runs' processes, as when the machine goes down."""
        while processes := self._processes():
            for number in processes:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            if self._daemon is not None:
                self._daemon.wait()
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends the daemon as Ctrl-C does, and kills what is left."""
        if self._daemon is not None and self._daemon.poll() is None:
            self._daemon.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._daemon.wait(timeout=30)
        self.kill()

    def _processes(self) -> list[int]:
        """Those that were started over this project: its folder stands in their environment."""
        home = f"DAGSTER_HOME={self._environment['DAGSTER_HOME']}\0".encode()
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != os.getpid():
                with suppress(OSError):
                    if home in (folder / "environ").read_bytes():
                        found.append(int(folder.name))
        return found


@contextmanager
def running(project: Project, *command: str | Path) -> Iterator[Services]:
    services = Services(project, *command)
    services.start()
    try:
        yield services
    finally:
        services.stop()


def wait_for(what: str, condition: Callable[[], bool], deadline_s: float = 600) -> None:
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {deadline_s:.0f} s: {what}")
        time.sleep(0.2)


def statuses(instance: dg.DagsterInstance) -> Mapping[Status, list[str]]:
    """The clients of all runs by the run's status."""
    found: dict[Status, list[str]] = {status: [] for status in Status}
    for run in instance.get_runs():
        found[run.status].append(run.tags["dagster/partition"])
    return {status: sorted(clients) for status, clients in found.items()}


def most_at_once(instance: dg.DagsterInstance) -> int:
    """How many runs went on at the same time."""
    times = [(record.start_time or 0, record.end_time or 0) for record in instance.get_run_records()]
    return max(sum(start <= moment < end for start, end in times) for moment, _ in times)


def said_of_locks(project: Project, services: Services) -> list[str]:
    """Files of logs and of Dagster's own storage that tell of a database that was locked."""
    files = [services.log, *(path for path in (project.settings.home / "dagster").rglob("*") if path.is_file())]
    return [str(path) for path in files if any(word in _content(path) for word in LOCKED)]


def _content(path: Path) -> bytes:
    """In lower case; empty where the file is gone by now, as what SQLite writes ahead may be."""
    with suppress(FileNotFoundError):
        return path.read_bytes().lower()
    return b""
