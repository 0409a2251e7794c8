"""Reading files in processes of their own: what becomes of a file whose reader dies, is too slow or takes too much."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rageval_dagster.corpus.readers import Document, ReadError
from rageval_dagster.corpus.reading import read_files
from rageval_dagster.corpus.splitting import ChunkSize
from tests.corpus.hostile_files import SLOW_ROW


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A good file, one that is good at first and then slow, and a good one."""
    for name in ("a.md", "c.md"):
        (tmp_path / name).write_text("A good file.")
    (tmp_path / "b.jsonl").write_text('{"id": "first", "text": "a good row"}\n' + SLOW_ROW)
    return [tmp_path / "a.md", tmp_path / "b.jsonl", tmp_path / "c.md"]


def read(files: list[Path], after_a_row: Callable[[], object]) -> dict[str, list[str]]:
    """What is found in each file; the function is called when the slow one has given its first row."""
    found: dict[str, list[str]] = {}
    for path, each in read_files(files, ChunkSize(800, 120)):
        if each is not None:
            said = str(each) if isinstance(each, ReadError) else each.sections[0].text
            found.setdefault(path.name, []).append(said)
            if said == "a good row":
                after_a_row()
    return found


def rest(reason: str) -> str:
    return f"the rest, after 1 of its documents, cannot be read ({reason})"


def test_a_reader_that_dies_costs_the_rest_of_its_file(files: list[Path]) -> None:
    died = rest("its reader ended with -9, perhaps for lack of memory")
    kill_the_newest = ["pkill", "-KILL", "-n", "-P", str(os.getpid()), "-f", "corpus.reading"]
    assert read(files, lambda: subprocess.run(kill_the_newest, check=True)) == {
        "a.md": ["A good file."],
        "b.jsonl": ["a good row", died],
        "c.md": ["A good file."],
    }


def test_a_file_that_takes_too_long_is_refused(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rageval_dagster.corpus.reading.TICK_S", 0.1)
    found = read(files[:2], lambda: monkeypatch.setattr("rageval_dagster.corpus.reading.FILE_S", 0.3))
    assert found["b.jsonl"] == ["a good row", rest("it took longer than 0.3 s")]


def test_memory_is_watched_from_outside_too(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rageval_dagster.corpus.reading.TICK_S", 0.1)
    found = read(files[:2], lambda: monkeypatch.setattr("rageval_dagster.corpus.reading.MEMORY_BYTES", 2**20))
    assert found["b.jsonl"] == ["a good row", rest("it takes more than 2 GiB of memory")]


def test_who_waits_for_a_file_is_told_while_it_lasts(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rageval_dagster.corpus.reading.TICK_S", 0.1)
    for path, each in read_files(files, ChunkSize(800, 120)):
        if each is None and path.name == "b.jsonl":
            break
    else:
        pytest.fail("nothing was told")


def test_no_process_stays_when_reading_stops_early(files: list[Path]) -> None:
    reading = read_files(files, ChunkSize(800, 120))
    assert isinstance(next(reading)[1], Document)
    reading.close()
    running = ["pgrep", "-P", str(os.getpid()), "-f", "corpus.reading"]
    assert subprocess.run(running, capture_output=True, check=False).stdout == b""


def test_a_reader_imports_nothing_heavy(tmp_path: Path, make_pdf) -> None:
    """Several of them are started, also for a file or two."""
    (tmp_path / "a.pdf").write_bytes(make_pdf(["Text"]))
    (tmp_path / "b.html").write_text("<p>Text")
    (tmp_path / "c.md").write_text("Text")
    program = (
        "import sys; from pathlib import Path; from rageval_dagster.corpus import reading\n"
        "for path in Path(sys.argv[1]).iterdir():\n"
        "    [found] = reading.read_documents(path)\n"
        "    assert reading.cut(found, reading.ChunkSize(800, 120))\n"
        "heavy = {'torch', 'numpy', 'chromadb', 'dagster', 'sqlalchemy', 'pydantic', 'openai'} & sys.modules.keys()\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
