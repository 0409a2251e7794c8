"""`make ui`: the Dagster UI and the reports; and as a user and a supervisor end it, nothing of it stays."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.loopback import free_port
from tests.pipeline.services import wait_for
from tests.pipeline.small_project import Project

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def processes_with(variable: bytes) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and variable in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue  # another user's, or it has just ended
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "stop", "interrupts"),
    [
        (os.kill, signal.SIGTERM, signal.SIG_IGN),  # as a shell starts `make ui &`
        (os.killpg, signal.SIGINT, signal.SIG_DFL),
    ],
    ids=["kill", "Ctrl-C"],
)
def test_it_serves_both_and_leaves_no_process_behind(
    end: Callable[[int, int], None], stop: signal.Signals, interrupts: signal.Handlers, project: Project
) -> None:
    port, reports_port = free_port(), free_port()
    mark = f"RAGEVAL_TEST_UI={port}"
    environment = {**os.environ, **dict([mark.split("=")]), "RAGEVAL_SERVE_PORT": str(reports_port)}
    said = project.folder / "ui.log"
    (project.folder / "rageval.toml").write_text('[defaults]\nsystem = "bm25"\n', encoding="utf-8")
    with said.open("w") as log:
        # A terminal's keys reach all of a group, and `kill` one process.
        process = subprocess.Popen(
            ["make", "--old-file=setup", "ui", f"UI_PORT={port}"],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, interrupts),  # noqa: PLW1509  (there are no threads)
        )

    def answers(address: str) -> bool:
        try:
            return httpx.get(address).is_success
        except httpx.HTTPError:
            return False

    reports = f"http://127.0.0.1:{reports_port}"
    try:
        wait_for("the UI", lambda: answers(f"http://127.0.0.1:{port}/server_info"))
        wait_for("the reports", lambda: answers(f"{reports}/login"))
        # What the UI starts knows where the reports are.
        assert len(processes_with(f"RAGEVAL_REPORT_BASE_URL={reports}/reports".encode())) > 3
        # The settings beside RAGEVAL_HOME hold, wherever `make ui` is called.
        assert f"Settings: {project.folder / 'rageval.toml'}" in said.read_text(encoding="utf-8")
        token = project.settings.home / "serve_token"
        assert token.stat().st_mode & 0o777 == 0o600
        assert f"{reports} (log in with the token in {token})" in said.read_text(encoding="utf-8")
        assert token.read_text(encoding="utf-8").strip() not in said.read_text(encoding="utf-8")
        end(process.pid, stop)
        process.wait(timeout=120)
        wait_for("the end of all processes", lambda: not processes_with(mark.encode()))
    finally:
        for number in processes_with(mark.encode()):
            os.kill(number, signal.SIGKILL)
