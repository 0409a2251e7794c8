"""Progress where no bar can be drawn: a line now and then; and tables in the places that a terminal has."""

import os
import subprocess
import sys

import pytest

from rageval_dagster.cli import console
from rageval_dagster.records import Chunk
from tests.cli.running import stock
from tests.pipeline.small_project import Project


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


def test_what_a_terminal_shows_wide_takes_two_places(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"client": "灯台", "questions": 8}, {"client": "acme", "questions": 120}]
    console.print_table(rows, ["client", "questions"], "")
    assert capsys.readouterr().out.splitlines() == ["client  questions", "灯台            8", "acme          120"]
    assert console.fitting("灯台" * 30, 11) == "灯台灯台..."
    assert console.fitting("a line\nand another", 80) == "a line and another"


def test_a_table_fits_its_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"client": "a" * 40, "verdict": "passed", "since": "baseline", "questions": 120}]
    columns = ["client", "verdict", "since", "questions"]

    def printed(places: int) -> tuple[list[str], str]:
        monkeypatch.setenv("COLUMNS", str(places))
        console.print_table(rows, columns, "", less=("since", "questions"))
        out, err = capsys.readouterr()
        assert all(len(line) <= places for line in out.splitlines())
        return out.splitlines()[1].split(), err

    assert printed(80) == (["a" * 40, "passed", "baseline", "120"], "")
    assert printed(60)[0] == ["a" * 40, "passed", "120"]
    cut, said = printed(30)
    assert cut == ["a" * 18 + "...", "passed"]
    assert said == "too narrow for since, questions: a wider terminal or --json has them\n"


def test_a_terminal_that_lacks_a_character_is_shown_its_code(project: Project) -> None:
    stock(project.settings, "灯台", Chunk("c1", "It is open.", "d1"))
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, "-m", "rageval_dagster", "clients", "list"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "\\u706f\\u53f0" in ended.stdout


def test_a_command_whose_reader_has_left_does_not_end_as_a_failed_gate_does() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "rageval_dagster", "metrics", "list"]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_a_command_without_standard_output_ends_as_it_would() -> None:
    command = f"exec {sys.executable} -m rageval_dagster --help >&-"
    ended = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
