"""The command as a function, and a Chroma server."""

import sys

import pytest

from rageval_dagster.cli import main
from tests.cli.running import Ended, Run
from tests.corpus.conftest import chroma_server

__all__ = ["chroma_server"]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["rageval", *map(str, arguments)])
        capfd.readouterr()
        code = 0
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 1
        printed = capfd.readouterr()
        return Ended(code, printed.out, printed.err)

    return call
