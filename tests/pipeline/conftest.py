"""Fixtures of the pipeline tests: a small project, empty or with the documents of one client."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from rageval_dagster.automation.home import DAGSTER_YAML
from rageval_dagster.storage.clients import ensure_client
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.services import with_endpoint
from tests.pipeline.small_project import CANARY, Project, documents
from tests.pipeline.two_clients import FORGOTTEN, OTHER


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """An empty project; the process's environment points to it, since Dagster's resources read it there."""
    return new_project(tmp_path, monkeypatch)


def new_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for variable in [
        name for name in os.environ if name.startswith(("RAGEVAL_", "EVALUATION_", "OPENAI_", "DAGSTER_"))
    ]:
        if not variable.startswith("RAGEVAL_TEST_"):  # the servers of the tests
            monkeypatch.delenv(variable)
    environment = {
        "RAGEVAL_HOME": str(tmp_path / "home"),
        "EVALUATION_DEFAULT_SAMPLE_SIZE": "8",
        "RAGEVAL_SETTLE_S": "0",
    }
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    shutil.copytree(_new_dagster_home(tmp_path.parent, monkeypatch), tmp_path / "home" / "dagster")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home" / "dagster"))
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, environment)


def _new_dagster_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Dagster's home with its own tables, which take a second to make; made once in the folder."""
    home = folder / "new-dagster-home"
    if not home.exists():
        before = os.umask(0o077)  # as it is where the project makes it
        home.mkdir()
        (home / "dagster.yaml").write_text(DAGSTER_YAML, encoding="utf-8")
        with monkeypatch.context() as environment:
            environment.setenv("DAGSTER_HOME", str(home))
            dg.DagsterInstance.get().dispose()
        os.umask(before)
    return home


@pytest.fixture
def loaded(project: Project) -> Project:
    """A project with the documents of one client, `acme`; no copy, since documents belong to the path they are of."""
    project.ingest("acme", documents("lighthouse"))
    return project


@pytest.fixture(scope="session")
def _evaluated_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluated")
    with pytest.MonkeyPatch.context() as monkeypatch:
        project = new_project(folder, monkeypatch)
        project.ingest("acme", documents("lighthouse"))
        assert project.evaluate("acme", "command:one").message is None
    return folder


@pytest.fixture
def evaluated(_evaluated_once: Path, project: Project) -> Project:
    """A project with one client, `acme`, that was evaluated once, for the trigger `command:one`."""
    shutil.copytree(_evaluated_once, project.folder, dirs_exist_ok=True)
    return project


@pytest.fixture(scope="session")
def _two_clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def two_clients(_two_clients: Path, project: Project) -> Project:
    """A project in which two clients were evaluated; made once a session and copied for each test."""
    shutil.copytree(_two_clients, project.folder, dirs_exist_ok=True)
    return project


@pytest.fixture
def served(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project with one client, whose embeddings and answers come from an endpoint."""
    with ScriptedServer(scripted_model) as server:
        ready = with_endpoint(project, server, monkeypatch)
        ready.ingest("acme", documents("lighthouse", count=4))
        yield ready
