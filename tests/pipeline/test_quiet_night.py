"""A night on which nothing changed: what it loads, and what it leaves behind."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping

import pytest

from rageval_dagster.evaluation.summary import reports_of
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.cold_copy import found_by
from tests.pipeline.small_project import Project
from tests.pipeline.test_models import with_models
from tests.storage.history_builder import row_counts

HEAVY = ("torch", "sentence_transformers", "transformers", "great_expectations", "pandas", "openai")
OWN = {"run_requests", "evaluation_runs", "run_items", "metric_summaries", "metric_comparisons", "night_scores"}
"""The tables that a run adds rows to which is like the one before."""

NIGHT = """
import json, sys
from rageval_dagster.automation.launch import launch
from rageval_dagster.definitions import defs
from rageval_dagster.settings import load_settings
launched = launch(defs, load_settings(), "acme", sys.argv[1], {}, lambda _: None)
print(json.dumps({"failure": launched.failure, "modules": sorted(sys.modules)}))
"""


def night(project: Project, trigger: str) -> Mapping[str, list[str]]:
    """Evaluates in a process of its own, as a scheduled run does; what it told."""
    done = subprocess.run(
        [sys.executable, "-c", NIGHT, trigger],
        env={**os.environ, **project.environment},
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def assert_quiet(project: Project) -> None:
    """The first night does all the work; the second one next to none, and finds the same."""
    assert project.evaluate("acme", "schedule:2026-05-01T02:00").failure is None
    before = row_counts(project.database())
    told = night(project, "schedule:2026-05-02T02:00")
    assert told["failure"] is None
    assert [name for name in HEAVY if name in told["modules"]] == []
    after = row_counts(project.database())
    assert {name for name in after if after[name] != before[name]} <= OWN
    db = project.database()
    [one], [other] = (reports_of(db, "acme", f"schedule:2026-05-0{day}T02:00") for day in (1, 2))
    assert after["evaluation_runs"] == before["evaluation_runs"] + 1
    assert after["run_items"] == before["run_items"] + one.evaluation.item_count
    assert after["metric_summaries"] == before["metric_summaries"] + len(one.summaries)
    assert found_by(db, one.evaluation.id) == found_by(db, other.evaluation.id)


@pytest.mark.core
def test_without_models_it_loads_nothing_heavy_and_adds_the_runs_own_rows_only(loaded: Project) -> None:
    assert_quiet(loaded)


@pytest.mark.slow
def test_a_first_run_says_what_it_waits_for_and_each_thing_once(loaded: Project) -> None:
    command = [sys.executable, "-m", "rageval_dagster", "evaluate", "--client", "acme"]
    first, second = (
        subprocess.run(command, cwd=loaded.folder, capture_output=True, text=True, check=True).stderr for _ in range(2)
    )
    assert first.count("  loading the embedding model sentence-transformers/all-MiniLM-L6-v2 ...\n") == 1
    assert first.count("there is no dataset yet") == 1
    assert re.search(r"  dataset 1: (\d+) questions, \1 of them new\n", first)
    assert "loading" not in second


@pytest.mark.slow
def test_with_a_model_in_every_role_none_is_asked(loaded: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(scripted_model) as server:
        project = with_models(loaded, server.base_url, monkeypatch)
        assert_quiet(project)
        asked = len(server.requests)
        assert night(project, "schedule:2026-05-03T02:00")["failure"] is None
        assert len(server.requests) == asked
