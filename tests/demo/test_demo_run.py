"""The demo from its documents to its results, as `make demo` starts it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_demo_evaluates_both_clients_and_says_what_it_found(tmp_path: Path) -> None:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("RAGEVAL_", "EVALUATION_"))
    }
    done = subprocess.run(
        [sys.executable, ROOT / "demo" / "run.py"],
        cwd=tmp_path,
        env=environment | {"RAGEVAL_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    table = [line for line in done.stdout.splitlines() if "dense" in line]
    for client, dataset in (
        ("python-language", "human"),
        ("python-language", "synthetic"),
        ("package-readmes", "synth"),
    ):
        assert any(client in line and dataset in line for line in table), done.stdout
    assert "rageval runs show" in done.stdout
