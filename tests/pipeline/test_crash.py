"""A run killed in the middle and started again gives the rows of an undisturbed one, none twice."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from rageval_dagster.storage.database import open_database
from rageval_dagster.storage.tables import metadata
from tests.pipeline.small_project import Project, documents

RUN = [sys.executable, "-m", "rageval_dagster", "evaluate", "--client", "acme"]

# Times, cost and Dagster's own ids differ between any two runs, and so does a command's invocation.
UNLIKE = {"dagster_run_id", "duration_s", "latency_s", "cost_usd", "trigger_key", "evaluation_id", "id", "lease_token"}
UNLIKE_TABLES = {"llm_calls", "schema_info"}


def contents(home: Path) -> dict[str, list[Any]]:
    """Every table's rows as sorted text, without what differs between any two runs."""
    db = open_database(f"sqlite:///{home / 'rageval.sqlite3'}")
    found = {}
    with db.connect() as connection:
        for table in metadata.sorted_tables:
            if table.name in UNLIKE_TABLES:
                continue
            columns = [c for c in table.c if c.name not in UNLIKE and not isinstance(c.type, sa.DateTime)]
            columns = [c for c in columns if not c.name.endswith(("_at", "_seen", "probe", "holder"))]
            found[table.name] = sorted(map(repr, connection.execute(sa.select(*columns)).all()))
    db.dispose()
    return found


def prepared(project: Project, name: str, monkeypatch: pytest.MonkeyPatch) -> Project:
    folder = project.folder / name
    folder.mkdir()
    other = Project(folder, {**project.environment, "RAGEVAL_HOME": str(folder / "home")})
    monkeypatch.setenv("RAGEVAL_HOME", other.environment["RAGEVAL_HOME"])
    other.ingest("acme", documents("lighthouse"))
    return other


def environment(project: Project) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    return {**variables, **project.environment}


def kill_when(project: Project, line: str) -> None:
    """Starts an evaluation and kills it with SIGKILL as soon as it prints the line."""
    process = subprocess.Popen(
        RUN, env=environment(project), cwd=project.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    for printed in process.stderr:
        if printed.strip() == line:
            break
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_and_run_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = prepared(project, "undisturbed", monkeypatch)
    subprocess.run(RUN, env=environment(undisturbed), cwd=undisturbed.folder, check=True, capture_output=True)
    expected = contents(undisturbed.folder / "home")
    for step in ("synthetic_qa", "retrieval_runs", "metric_scores"):
        killed = prepared(project, step, monkeypatch)
        kill_when(killed, step)
        subprocess.run(RUN, env=environment(killed), cwd=killed.folder, check=True, capture_output=True)
        assert contents(killed.folder / "home") == expected, step
