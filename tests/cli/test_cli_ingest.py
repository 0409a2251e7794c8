"""`rageval ingest` on hostile files: it goes on, names each file that it refuses, and leaves no process behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rageval_dagster.corpus.ingest import FILE_FIELD
from rageval_dagster.corpus.readers import is_readable
from rageval_dagster.corpus.store import open_store
from rageval_dagster.settings import Settings
from tests.cli.running import Run, refused
from tests.corpus import hostile_files
from tests.corpus.hostile_files import SLOW_ROW
from tests.pipeline.small_project import Project

RAGEVAL = [sys.executable, "-c", "from rageval_dagster.cli import main; main()"]

FEW = [
    *("deep-div.html", "textareas.html", "open-comments.html", "endless-number.html", "utf16.txt", "sparse.txt"),
    *("deep-lists.jsonl", "chroma-document.jsonl", "empty-field.jsonl", "dollar-field.jsonl", "many-fields.jsonl"),
    *("blank-id.jsonl", "no-rows.jsonl", "sparse.jsonl", "not-a-pdf.pdf", "pages-in-a-circle.pdf"),
    *("pipe.md", "pipe.jsonl", "socket.md", "to-itself.md", "to-nothing.md", "out-of-here.md", "outside"),
    *(os.fsdecode(b"not-utf8-\xff\xfe.md"), "new\nline.md", "d/" * 1_200 + "deep.md"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """For hostile files; emptied by a program that knows no depth."""
    yield tmp_path / "hostile"
    subprocess.run(["rm", "-rf", tmp_path / "hostile"], check=True)


def judged(settings: Settings, code: int, out: str, err: str, made: list[str]) -> dict[str, str]:
    """The reasons by file; every file that was made is loaded or refused by name, and the good ones are loaded."""
    assert code == 4, err
    assert "Traceback" not in err
    refused = {each["file"]: each["reason"] for each in json.loads(out)["refused"]}
    pages = open_store(settings).metadata("acme", FILE_FIELD, ["none"], others=True)
    loaded = {str(metadata[FILE_FIELD]) for page in pages for metadata in page.values()}
    assert set(made) <= loaded | refused.keys(), "nothing is dropped in silence"
    assert {"0-good.md", "zz-good.md"} <= loaded
    assert all(refused.values())
    return refused


def make(folder: Path, names: list[str] | None = None) -> list[str]:
    made = hostile_files.make(folder, names)
    for name in ("0-good.md", "zz-good.md"):
        (folder / name).write_text("A good file.")
    return made


def test_hostile_files_are_refused_by_name_and_the_others_load(project: Project, run: Run, folder: Path) -> None:
    made = make(folder, FEW)
    assert set(made) == set(FEW)
    ended = run("ingest", folder, "--client", "acme", "--chunk-size", 0, "--overlap", 0, "--json")
    refused = judged(project.settings, ended.code, ended.out, ended.err, made)
    for name, reason in {
        "pipe.md": "is a named pipe, not a file",
        "socket.md": "is a socket, not a file",
        "out-of-here.md": "is a link that leads out of the folder: to load its target, copy that here",
        "outside": "is a link that leads out of the folder: to load its target, copy that here",
        "to-itself.md": "cannot be read (Too many levels of symbolic links)",
        "deep-lists.jsonl": "row 2: is nested too deeply",
        "many-fields.jsonl": "row 2: field 'metadata' takes at most 1,000 names",
        "sparse.txt": "cannot be read (it takes more than 2 GiB of memory)",
        FEW[-3]: "has a name that is not UTF-8: rename it",
    }.items():
        assert refused[name] == reason, name
    assert "open-comments.html" not in refused
    assert refused["chroma-document.jsonl"].startswith("row 2: field 'metadata' takes names")


@pytest.mark.slow
def test_no_hostile_file_ends_the_command_or_is_dropped(project: Project, folder: Path) -> None:
    made = make(folder)
    assert len(made) > 60
    command = [*RAGEVAL, "ingest", str(folder), "--client", "acme", "--chunk-size", "0", "--overlap", "0", "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    judged(project.settings, ended.returncode, ended.stdout, ended.stderr, made)


_MEASURE = """
import sys, resource, time
from pathlib import Path
from rageval_dagster.corpus.reading import read_files
from rageval_dagster.corpus.splitting import ChunkSize
began = time.monotonic()
found = [each for _, each in read_files([Path(sys.argv[1])], ChunkSize(800, 120)) if each is not None]
print(len(found), time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.slow
def test_what_a_hostile_file_costs_is_bounded(folder: Path) -> None:
    """Prints time and memory of each, for `pytest -s`."""
    unit = 1 if sys.platform == "darwin" else 1024
    for name in make(folder):
        if not is_readable(folder / name):
            continue
        measured = subprocess.run([sys.executable, "-c", _MEASURE, folder / name], capture_output=True, check=True)
        found, seconds, peak = map(float, measured.stdout.split())
        print(f"{seconds:7.2f} s {peak * unit / 2**20:7.0f} MiB  {found:5.0f}  {name[:60]!r}")
        assert found, name
        assert peak * unit < 2.2 * 2**30, name


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_stays_when_the_command_is_ended(project: Project, folder: Path, end: signal.Signals) -> None:
    folder.mkdir()
    (folder / "slow.jsonl").write_text(SLOW_ROW)
    command = [*RAGEVAL, "ingest", str(folder), "--client", "acme"]
    # Closed, not empty: so do some schedulers start commands.
    process = subprocess.Popen(["sh", "-c", 'exec "$@" <&-', "sh", *command], stderr=subprocess.PIPE, text=True)
    workers = wait_until(lambda: children(process.pid))
    process.send_signal(end)
    _, err = process.communicate()
    assert "Traceback" not in err
    assert process.returncode != 0
    wait_until(lambda: not any(map(is_alive, workers)))


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid), "-f", "corpus.reading"], capture_output=True, check=False)
    return list(map(int, found.stdout.split()))


def is_alive(pid: int) -> bool:
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(shown.strip()) and not shown.startswith("Z")


def wait_until(what):
    deadline = time.monotonic() + 120
    while not (found := what()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


_JOB = """
import dagster as dg
from pathlib import Path
from rageval_dagster.app.documents import ingest
from rageval_dagster.app.opening import open_all

@dg.op
def load():
    report, _ = ingest(*open_all(), "acme", Path({folder!r}))
    assert (report.documents, len(report.refused)) == (2, 1), report

@dg.job
def loading():
    load()
"""


@pytest.mark.slow
def test_files_are_read_in_a_process_of_a_dagster_run(project: Project, folder: Path, tmp_path: Path) -> None:
    make(folder, ["not-a-pdf.pdf"])
    (tmp_path / "job.py").write_text(_JOB.format(folder=str(folder)))
    command = [shutil.which("dagster", path=Path(sys.executable).parent) or "dagster", "job", "execute"]
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command, "-f", str(tmp_path / "job.py"), "-j", "loading"],
        env=os.environ | {"DAGSTER_HOME": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert open_store(project.settings).has("acme")  # Dagster may lose the last lines of what it captures


def test_rageval_s_own_files_are_no_documents(project: Project, run: Run) -> None:
    home = project.settings.home
    for path in (project.folder / "docs" / "tomato.md", home / "reports" / "globex.html", home / "notes" / "a.md"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"The tomato of {path.stem} is red.", encoding="utf-8")
    loaded = run("ingest", project.folder, "--client", "acme", "--json")
    assert loaded.code == 0, loaded.err
    assert "home passed over: rageval keeps its own files there" in loaded.err
    report = json.loads(loaded.out)
    assert (report["documents"], report["kept_out"]) == (1, ["home"])
    [chunk] = [chunk for page in open_store(project.settings).scan("acme") for chunk in page.chunks]
    assert chunk.document_id == "docs/tomato.md"
    refused(run("ingest", home, "--client", "acme"), str(home), "rageval keeps its own files", "name a folder")
