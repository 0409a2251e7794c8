"""Progress where no bar can be drawn: a line now and then."""

import sys

import pytest

from rageval_dagster.cli import console


def test_without_a_terminal_progress_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(console.time, "monotonic", lambda: now)
    with console.progress_bar("ingesting for acme") as progress:
        for second in range(1, 26):
            now = 100.0 + second
            progress(second * 40, 6000)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "ingesting for acme: 400/6000 (40.0/s, 0:02:20 left)",
        "ingesting for acme: 800/6000 (40.0/s, 0:02:10 left)",
    ]


def test_what_ends_soon_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress_bar("scoring") as progress:
        progress(1, 1)
    assert not sys.stderr.isatty()
    assert capsys.readouterr().err == ""
