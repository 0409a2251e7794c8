"""The seeds' suites run commands in-process, as the tests of the command line do, in a folder without settings."""

import os
from pathlib import Path

import pytest

from tests.cli.conftest import run

__all__ = ["run"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a user stands: an empty folder, and no variable of the project set."""
    for variable in list(os.environ):
        if variable.startswith(("RAGEVAL_", "EVALUATION_", "RAG__", "OPENAI_", "DAGSTER_")):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    return tmp_path
