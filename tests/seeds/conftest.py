"""The seeds' suites run commands in-process, as the tests of the command line do, in a folder without settings."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import run
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.services import with_endpoint
from tests.pipeline.small_project import Project, documents, new_project

__all__ = ["run"]


@dataclass
class History:
    """A project with one client, `acme`, whose benchmark a model wrote and two systems were evaluated on.

    Run 1 is of `dense`, run 2 of `bm25`; the endpoint still answers. `validations` are what Great Expectations said.
    """

    project: Project
    server: ScriptedServer
    validations: list[Any] = field(default_factory=list, repr=False)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a user stands: an empty folder, and no variable of the project set."""
    for variable in list(os.environ):
        if variable.startswith(("RAGEVAL_", "EVALUATION_", "RAG__", "OPENAI_", "DAGSTER_")):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asks_about_one_passage(body: dict[str, Any]) -> str:
    """The scripted model, but that it compares no two passages: each question has one that is relevant."""
    return "NONE" if "quote_1" in str(body.get("response_format")) else scripted_model(body)


@pytest.fixture(scope="session")
def history_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    with ScriptedServer(asks_about_one_passage) as server:
        with pytest.MonkeyPatch.context() as monkeypatch:
            models = {"RAGEVAL_GENERATOR_MODEL": "scripted-generator", "RAGEVAL_JUDGE_MODEL": "scripted-judge"}
            project = new_project(tmp_path_factory.mktemp("history"), monkeypatch)
            history = History(with_endpoint(project, server, monkeypatch, **models), server)

            monkeypatch.setenv("GX_ANALYTICS_ENABLED", "False")  # read when it is imported
            from great_expectations.datasource.fluent.interfaces import Batch

            validate = Batch.validate

            def recorded(*arguments: Any, **options: Any) -> Any:
                history.validations.append(validate(*arguments, **options))
                return history.validations[-1]

            monkeypatch.setattr(Batch, "validate", recorded)
            history.project.ingest("acme", documents("lighthouse"))
            assert history.project.evaluate("acme", "command:one", systems=["dense", "bm25"]).message is None
        yield history


@pytest.fixture
def history(history_once: History, folder: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """The project, whose folder and variables are the process's; shared, so tests only add to it."""
    for name, value in history_once.project.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DAGSTER_HOME", str(history_once.project.settings.dagster_home))
    monkeypatch.chdir(history_once.project.folder)
    return history_once
