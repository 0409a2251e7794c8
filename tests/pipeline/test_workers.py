"""A warm worker: what changed between two runs is seen, and nothing of one client is left for the next."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as sa

from rageval_dagster.automation.home import dagster_yaml
from rageval_dagster.evaluation.summary import reports_of
from rageval_dagster.functions import forget_changed_modules, load_function
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.leases import held_leases
from rageval_dagster.storage.results import load_results
from rageval_dagster.storage.tables import run_requests
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.services import HoldingModel, wait_for, with_endpoint
from tests.pipeline.small_project import CANARY, Project, documents, holding
from tests.pipeline.workers import ended, hand_over, process_of, redis_server, worker

SYSTEM = """
from their_words import WORDS

def answer(question, k, history, principal):
    if "castle" in question:
        raise ValueError(question)
    return {"answer": WORDS, "contexts": []}
"""
TOML = """
[defaults]
k = %d
system = "theirs"
[defaults.systems.theirs]
kind = "callable"
function = "their_system:answer"
"""


def write_system(folder: Path, words: str, k: int) -> None:
    (folder / "their_system.py").write_text(SYSTEM, encoding="utf-8")
    (folder / "their_words.py").write_text(f"WORDS = {words!r}\n", encoding="utf-8")
    (folder / "rageval.toml").write_text(TOML % k, encoding="utf-8")


@contextmanager
def fleet(project: Project, monkeypatch: pytest.MonkeyPatch, broker: str) -> Iterator[dg.DagsterInstance]:
    """The instance of a project whose runs go to workers."""
    project.given(monkeypatch, RAGEVAL_LAUNCHER="celery", RAGEVAL_BROKER_URL=broker)
    Path(os.environ["DAGSTER_HOME"], "dagster.yaml").write_text(dagster_yaml(load_settings()), encoding="utf-8")
    with dg.DagsterInstance.get() as instance:
        yield instance


@pytest.mark.slow
def test_one_process_evaluates_two_clients_with_the_settings_of_now(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project.folder
    write_system(folder, "said at first", 3)
    (folder / ".env").write_text("RAGEVAL_ALPHA=0.04\n", encoding="utf-8")
    with ScriptedServer(scripted_model) as server, redis_server(folder) as broker:
        project = with_endpoint(project, server, monkeypatch)
        project.ingest("acme", documents("lighthouse", count=3))
        plain = [{**row, "text": row["text"].replace(CANARY, "old")} for row in documents("castle", count=3)]
        project.ingest("globex", plain)
        with (
            fleet(project, monkeypatch, broker) as instance,
            worker(folder, os.environ, "--processes", "1"),
        ):
            first = hand_over(instance, "acme", "command:one")
            assert ended(instance, first) == dg.DagsterRunStatus.SUCCESS
            # What may change between two runs: a setting in each place, and code, also of a module that code takes.
            write_system(folder, "said later, at greater length", 4)
            (folder / ".env").write_text("RAGEVAL_REGRESSION_TOLERANCE=0.03\n", encoding="utf-8")
            second = hand_over(instance, "globex", "command:one")
            ended(instance, second)
            third = hand_over(instance, "acme", "command:two")
            assert ended(instance, third) == dg.DagsterRunStatus.SUCCESS
            assert len({process_of(instance, run) for run in (first, second, third)}) == 1, "they were in one process"
            log = "\n".join(map(repr, instance.all_logs(second)))
    db = project.database()
    said = {}
    for trigger in ("command:one", "command:two"):
        [report] = reports_of(db, "acme", trigger)
        said[trigger] = (
            report.evaluation.k,
            {result.answer.text for _, result in load_results(db, report.evaluation.id).values() if result.answer},
        )
    assert said == {
        "command:one": (3, {"said at first"}),
        "command:two": (4, {"said later, at greater length"}),
    }
    assert "lighthouse" not in log
    assert CANARY not in log
    # A variable that was deleted from .env is gone, too.
    asked = sa.select(run_requests.c.settings).where(run_requests.c.client_id == "acme")
    kept = [row.settings for row in db.rows(asked.order_by(run_requests.c.trigger_key))]
    assert [(each.get("alpha"), each.get("regression_tolerance")) for each in kept] == [(0.04, None), (None, 0.03)]
    # The broker keeps on disk what it was given.
    assert (folder / "appendonlydir").is_dir()
    for word in (CANARY, "lighthouse", "castle"):
        assert holding(word, folder / "worker.log", folder / "appendonlydir") == []


@pytest.mark.slow
def test_a_client_is_free_as_soon_as_the_process_of_its_run_dies(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = HoldingModel()
    with ScriptedServer(model) as server, redis_server(project.folder) as broker:
        project = with_endpoint(project, server, monkeypatch, RAGEVAL_LLM_TIMEOUT_S="900")
        project.ingest("acme", documents("lighthouse", count=3))
        with (
            fleet(project, monkeypatch, broker) as instance,
            worker(project.folder, os.environ, "--processes", "1"),
        ):
            run = hand_over(instance, "acme", "command:one")
            wait_for("the model to be asked", model.asked.is_set)
            db = project.database()
            [held] = held_leases(db)
            os.kill(process_of(instance, run), signal.SIGKILL)
            wait_for("the end of the lease", lambda: held_leases(db)[0].is_dead)
            model.let_go.set()
            assert held_leases(db)[0].run_id == run
            assert held_leases(db)[0].expires_at < held.expires_at


def test_a_module_that_changed_is_imported_anew_with_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "rules_of_ours.py").write_text("from words_of_ours import WORD\ndef say(): return WORD\n", "utf-8")
    (tmp_path / "words_of_ours.py").write_text("WORD = 'one'\n", "utf-8")
    say = load_function("rules_of_ours:say", tmp_path)
    forget_changed_modules()
    assert load_function("rules_of_ours:say", tmp_path) is say, "what did not change stays loaded"
    (tmp_path / "words_of_ours.py").write_text("WORD = 'another'\n", "utf-8")
    forget_changed_modules()
    assert load_function("rules_of_ours:say", tmp_path)() == "another"


def test_what_a_worker_imports_before_its_processes_has_no_model_and_no_great_expectations() -> None:
    code = """
import sys
from importlib import import_module
from rageval_dagster.app.fleet import OF_EVERY_RUN
for module in OF_EVERY_RUN:
    import_module(module)
print([name for name in ("torch", "great_expectations", "chromadb", "scipy.stats") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['chromadb', 'scipy.stats']"
