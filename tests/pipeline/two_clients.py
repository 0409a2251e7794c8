"""A project in which two clients were evaluated, made once a session and copied for each test."""

import os
import shutil
from pathlib import Path

import pytest

from rageval_dagster.storage.clients import ensure_client
from tests.pipeline.conftest import new_project
from tests.pipeline.small_project import CANARY, Project, documents

WORD = "Zyxware"
FORGOTTEN = f"{WORD} & Söhne"
"""The client whose documents hold the canary; its name is written otherwise in JSON, in HTML and as a collection."""

OTHER = "globex"


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
def two_clients(_two_clients: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = new_project(tmp_path, monkeypatch)
    shutil.copytree(_two_clients / "home", tmp_path / "home", dirs_exist_ok=True)
    return project
