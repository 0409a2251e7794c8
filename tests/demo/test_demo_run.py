"""The demo as `make demo` starts it on a terminal: three acts, and the same story when it is run again."""

import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_demo(home: Path) -> tuple[list[str], str]:
    """The lines it prints, and what it writes to the terminal meanwhile."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("RAGEVAL_", "EVALUATION_"))
    }
    written: list[bytes] = []
    terminal, theirs = pty.openpty()

    def read() -> None:
        try:
            while part := os.read(terminal, 4096):
                written.append(part)
        except OSError:  # nobody writes any more
            pass

    reader = threading.Thread(target=read)
    reader.start()
    done = subprocess.run(
        [sys.executable, ROOT / "demo" / "run.py"],
        cwd=home.parent,
        env=environment | {"RAGEVAL_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        check=False,
    )
    os.close(theirs)
    reader.join()
    os.close(terminal)
    said = b"".join(written).decode()
    assert done.returncode == 0, said
    return done.stdout.splitlines(), said


@pytest.mark.core
@pytest.mark.timeout(1200)
def test_it_tells_three_acts_and_tells_them_again(tmp_path: Path) -> None:
    lines, progress = run_demo(tmp_path / "home")
    assert len(lines) <= 40
    assert "questions answered" in progress
    assert "\n" not in progress, "each line of progress takes the place of the one before"
    first, second, third = re.split(r"^Act \d: .*\n", "\n".join(lines), flags=re.MULTILINE)[1:]
    assert len(re.findall(r"First run: hit rate@5 (?:1\.0|\.\d)\d, MRR (?:1\.0|\.\d)\d;", first)) == 2
    [(embedded, chunks, answered, questions)] = re.findall(
        r"(\d+) of (\d+) chunks embedded, (\d+) of (\d+) questions answered and scored", second
    )
    assert 0 < int(embedded) <= 5 < int(chunks)
    assert 0 < int(answered) <= 0.2 * int(questions)
    assert "Passed: as good as" in second
    assert "the documents changed (" in second
    told = " ".join(third.split())
    assert re.search(r"Regressed since .*: hit rate@5 \.\d\d to \.\d\d, .*; the index changed \(re-embedded \d+", told)
    assert re.search(r"questions newly fail: .*\? and \d+ more", told)
    [report] = [Path(line.strip()) for line in lines if line.endswith(".html")]
    assert "Regressed since" in report.read_text(encoding="utf-8")
    assert all(len(re.findall(r"This took \d+ s\.", act)) == 1 for act in (first, second, third))
    # As `make ui` will serve them.
    events = b"".join(path.read_bytes() for path in (tmp_path / "home" / "dagster").rglob("*.db*"))
    assert f"http://127.0.0.1:8000/reports/{report.name}#run=".encode() in events
    again, progress = run_demo(tmp_path / "home")
    assert again[0].startswith("Told again")
    assert again[2:] == lines
    assert progress == ""
