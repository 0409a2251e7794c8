"""Fixtures of the pipeline tests: a small project, empty or with the documents of one client."""

import os
from pathlib import Path

import pytest

from rageval_dagster.automation.home import DAGSTER_YAML
from tests.pipeline.small_project import Project, documents


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """An empty project; the process's environment points to it, since Dagster's resources read it there."""
    return new_project(tmp_path, monkeypatch)


def new_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for variable in [
        name for name in os.environ if name.startswith(("RAGEVAL_", "EVALUATION_", "OPENAI_", "DAGSTER_"))
    ]:
        monkeypatch.delenv(variable)
    environment = {
        "RAGEVAL_HOME": str(tmp_path / "home"),
        "EVALUATION_DEFAULT_SAMPLE_SIZE": "8",
        "RAGEVAL_SETTLE_S": "0",
    }
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home" / "dagster"))
    (tmp_path / "home" / "dagster").mkdir(parents=True)
    (tmp_path / "home" / "dagster" / "dagster.yaml").write_text(DAGSTER_YAML, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, environment)


@pytest.fixture
def loaded(project: Project) -> Project:
    """A project with the documents of one client, `acme`."""
    project.ingest("acme", documents("lighthouse"))
    return project
