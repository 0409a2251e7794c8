"""A disk that is full, for real: commands say so, which path it is, and what to do."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rageval_dagster.records import Chunk
from tests.cli.running import Ended, stock
from tests.pipeline.small_project import Project, documents


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, check=False, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("this user may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def command(*arguments: object) -> Ended:
    words = [sys.executable, "-m", "rageval_dagster", *map(str, arguments)]
    ended = subprocess.run(words, check=False, capture_output=True, text=True)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def says_full(ended: Ended, path: Path) -> None:
    """One line, which names what could not be written."""
    assert ended.code == 2, ended
    told = [line for line in ended.err.splitlines() if line.startswith("rageval: ")]
    assert len(told) == 1, ended.err
    assert str(path) in told[0]
    assert told[0].endswith("the disk is full; make room there, then run again")
    assert "Traceback" not in ended.err
    assert "has the file open" not in ended.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kilobytes", "full"), [(8, "rageval.sqlite3"), (64, "rageval.sqlite3"), (300, "rageval.sqlite3"), (600, "chroma")]
)
def test_documents_that_find_no_room(
    kilobytes: int, full: str, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project.write("acme", documents("lighthouse"))
    with small_disk(tmp_path / "small", kilobytes) as disk:
        monkeypatch.setenv("RAGEVAL_HOME", str(disk / "home"))
        says_full(command("ingest", path, "--client", "acme"), disk / "home" / full)


@pytest.mark.slow
def test_a_run_that_dagster_finds_no_room_for(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project.write("acme", documents("lighthouse"))
    with small_disk(tmp_path / "small", 1_500) as disk:
        monkeypatch.setenv("RAGEVAL_HOME", str(disk / "home"))
        monkeypatch.delenv("DAGSTER_HOME")
        assert command("ingest", path, "--client", "acme").code == 0
        says_full(command("evaluate", "--client", "acme"), disk / "home")


def test_a_report_and_a_file_that_find_no_room(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock(project.settings, "acme", Chunk("c1", "The harbour opens at six.", "d1"))
    project.database()
    with small_disk(tmp_path / "small", 4) as disk:
        (disk / "taken").write_bytes(b"x" * 4096)
        monkeypatch.setenv("RAGEVAL_REPORT_DIR", str(disk / "reports"))
        says_full(command("report"), disk / "reports")
