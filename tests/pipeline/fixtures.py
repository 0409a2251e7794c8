"""Projects to test on: empty, with documents, evaluated once. `tests/conftest.py` gives them to all tests.

What is made once a session is made in one process: `tests/conftest.py` sends its tests to the same worker.
"""

import os
import shutil
from pathlib import Path

import pytest

from rageval_dagster.storage.clients import ensure_client
from tests.pipeline.small_project import CANARY, Project, documents, new_project
from tests.pipeline.two_clients import FORGOTTEN, OTHER


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """An empty project; the process's environment points to it, since Dagster's resources read it there."""
    return new_project(tmp_path, monkeypatch)


@pytest.fixture
def loaded(project: Project) -> Project:
    """A project with the documents of one client, `acme`; no copy, since documents belong to the path they are of."""
    project.ingest("acme", documents("lighthouse"))
    return project


@pytest.fixture(scope="session")
def evaluated_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluated")
    with pytest.MonkeyPatch.context() as monkeypatch:
        project = new_project(folder, monkeypatch)
        project.ingest("acme", documents("lighthouse"))
        assert project.evaluate("acme", "command:one").message is None
    return folder


@pytest.fixture
def evaluated(evaluated_once: Path, project: Project) -> Project:
    """A project with one client, `acme`, that was evaluated once, for the trigger `command:one`."""
    shutil.copytree(evaluated_once, project.folder, dirs_exist_ok=True)
    return project


@pytest.fixture(scope="session")
def two_clients_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two_clients")
    with pytest.MonkeyPatch.context() as monkeypatch:
        project = new_project(folder, monkeypatch)
        project.settings.dagster_home.joinpath("dagster.yaml").chmod(0o600)
        before = os.umask(0)  # whatever the user's, the files are for their owner only
        plain = [{**row, "text": row["text"].replace(CANARY, "known")} for row in documents("castle", count=3)]
        project.ingest(OTHER, plain)
        project.ingest(FORGOTTEN, documents("lighthouse", count=3))
        ensure_client(project.database(), FORGOTTEN)  # known while the other one is evaluated
        for client in (OTHER, FORGOTTEN):  # so that the last event of each asset is the one to be forgotten
            assert project.evaluate(client, "command:one").message is None
        os.umask(before)
    return folder


@pytest.fixture
def two_clients(two_clients_once: Path, project: Project) -> Project:
    """A project in which two clients were evaluated; made once a session and copied for each test."""
    shutil.copytree(two_clients_once, project.folder, dirs_exist_ok=True)
    return project
