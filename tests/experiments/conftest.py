"""Prepared clients to experiment on, made once; and the command."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import run
from tests.experiments.small import prepared, with_own_system
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.small_project import Project, new_project

__all__ = ["run"]


@pytest.fixture(scope="module")
def prepared_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as monkeypatch:
        project = new_project(folder, monkeypatch)
        prepared(project)
        with_own_system(project)
    return folder


@pytest.fixture
def varied(prepared_once: Path, project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose client has documents, questions, and a system of its own with parameters."""
    shutil.copytree(prepared_once, project.folder, dirs_exist_ok=True)
    # The module of one test is not that of the next.
    monkeypatch.delitem(sys.modules, "own_rag", raising=False)
    return project


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(scripted_model) as started:
        yield started


@pytest.fixture
def answered(varied: Project, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The same where the built-in system's answers are a scripted model's."""
    return varied.given(
        monkeypatch,
        RAGEVAL_ANSWER_MODEL="scripted",
        OPENAI_BASE_URL=server.base_url,
        OPENAI_API_KEY="sk-x",
        RAG__VERIFICATION_ENABLED="false",
    )
