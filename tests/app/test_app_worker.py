"""A use case in a process of its own: what it gives and raises comes back, and it never outlives its server."""

import multiprocessing
import os
import signal
import threading
from pathlib import Path

import pytest

from rageval_dagster.app.worker import WorkerDiedError, in_worker
from rageval_dagster.errors import LeaseHeldError, RagevalError
from rageval_dagster.settings import Settings
from rageval_dagster.storage.clients import ensure_client, list_clients
from rageval_dagster.storage.database import Database
from tests.pipeline.small_project import Project


def known(settings: Settings, db: Database, but: str) -> list[str]:
    return [client.client_id for client in list_clients(db) if client.client_id != but]


def refuse(settings: Settings, db: Database) -> None:
    raise LeaseHeldError("somebody else works on it")


def slip(settings: Settings, db: Database) -> None:
    raise ValueError("words of a document")


def die(settings: Settings, db: Database) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def work_for_ever(settings: Settings, db: Database, pipe: Path) -> None:
    with pipe.open("w") as told:
        print("begun", file=told, flush=True)
        threading.Event().wait()


def serve(pipe: Path) -> None:
    in_worker(work_for_ever, pipe)


def test_a_use_case_gives_and_raises_what_it_would_here(project: Project) -> None:
    for client in ("acme", "beta"):
        ensure_client(project.database(), client)
    assert in_worker(known, but="beta") == ["acme"]
    with pytest.raises(LeaseHeldError, match="somebody else works on it"):
        in_worker(refuse)
    with pytest.raises(RagevalError, match="unexpected ValueError at") as raised:
        in_worker(slip)
    assert "words of a document" not in str(raised.value)


def test_a_worker_that_dies_is_one_plain_sentence(project: Project) -> None:
    with pytest.raises(WorkerDiedError, match="died, perhaps for lack of memory"):
        in_worker(die)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_ends_with_its_server(project: Project, ending: signal.Signals) -> None:
    pipe = project.folder / "pipe"
    os.mkfifo(pipe)
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(pipe,))
    server.start()
    with pipe.open() as told:
        assert told.readline() == "begun\n"
        os.kill(server.pid or 0, ending)
        server.join()
        assert told.read() == "", "it is closed when the worker is gone"
