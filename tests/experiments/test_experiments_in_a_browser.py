"""An experiment on the demo's corpus from the launchpad to the next night, in a browser, killed three times."""

import json
import os
import re
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import dagster as dg
import httpx
import pytest
from playwright.sync_api import Browser, Page

from rageval_dagster.app.experiment import summary
from rageval_dagster.corpus.store import open_store
from rageval_dagster.report.experiment import is_finished
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.benchmark import current_datasets
from rageval_dagster.storage.database import open_database
from rageval_dagster.storage.evaluations import list_evaluations
from rageval_dagster.storage.experiments import get_experiment, list_experiments
from tests.cli.running import Run
from tests.experiments.small import alike
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import Received, ScriptedServer
from tests.loopback import free_port
from tests.lost_heartbeats import let_experiments_fall_silent
from tests.pipeline.services import running, wait_for, with_endpoint
from tests.pipeline.small_project import Project
from tests.pipeline.workers import process_of
from tests.report.axe import serious_violations

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

DEMO = Path(__file__).parents[2] / "demo"
CLIENT = "python-language"
TOKEN = "a-token-of-the-tests"
COPIES, TRIALS = "rageval_experiment_copies", "rageval_experiments"

SETTINGS = f"""
[clients.{CLIENT}]
k = 2
metrics = ["retrieval.*", "overlap.*"]
auto_generate_datasets = false
"""

DEFINITION = f"""
[experiment]
client = "{CLIENT}"
documents = "demo/{CLIENT}"
objective = "retrieval.mrr"
tolerance = 0.0  # else the faster one is preferred, which it is by chance
budget = {{ answers = 64 }}

[parameters]
chunk_size = [300, 600]
retriever = ["dense", "bm25"]
number_of_chunks = [4]
"""


class Gate:
    """Holds requests to an address, after so many, until it is opened."""

    def __init__(self) -> None:
        self.held = threading.Event()
        self._open = threading.Event()
        self._address: str | None = None
        self._passing = 0
        self._lock = threading.Lock()

    def hold(self, address: str, after: int = 0) -> None:
        with self._lock:
            self._address, self._passing = address, after
        self.held.clear()
        self._open.clear()

    def open(self) -> None:
        with self._lock:
            self._address = None
        self._open.set()

    def __call__(self, received: Received) -> None:
        with self._lock:
            if self._address is None or not received.path.endswith(self._address):
                return
            self._passing -= 1
            if self._passing >= 0:
                return
        self.held.set()
        self._open.wait()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def model(gate: Gate) -> Iterator[ScriptedServer]:
    with ScriptedServer(scripted_model, fault_for=gate) as server:
        yield server
        gate.open()


@pytest.fixture
def demo(project: Project, model: ScriptedServer, run: Run, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The demo's first client with what people ask about it; its models are the test's."""
    ready = with_endpoint(
        project,
        model,
        monkeypatch,
        RAG__VERIFICATION_ENABLED="false",
        EVALUATION_ENABLED="false",
        RAGEVAL_SERVE_PORT=str(free_port()),
        RAGEVAL_SERVE_TOKEN=TOKEN,
    )
    monkeypatch.syspath_prepend(DEMO)
    import_module("documents").write_demo(ready.folder / "demo")
    (ready.folder / "rageval.toml").write_text(SETTINGS, encoding="utf-8")
    (ready.folder / "experiment.toml").write_text(DEFINITION, encoding="utf-8")
    assert run("ingest", "demo/python-language", "--client", CLIENT).code == 0
    questions = "demo/python-language.human.jsonl"
    assert run("datasets", "import", questions, "--client", CLIENT, "--name", "human").code == 0
    return ready


def kill_a_run(instance: dg.DagsterInstance, gate: Gate, job: str) -> None:
    """`kill -9` of a run's process while the model holds its answers back; time goes by until it counts as dead."""
    wait_for("the model to be asked", gate.held.is_set)
    killed = instance.get_runs(dg.RunsFilter(job_name=job, statuses=[dg.DagsterRunStatus.STARTED]))[0].run_id
    os.kill(process_of(instance, killed), signal.SIGKILL)
    let_experiments_fall_silent(instance, [killed])
    gate.open()

    def status() -> dg.DagsterRunStatus | None:
        found = instance.get_run_by_id(killed)
        return found and found.status

    wait_for("the dead run to be noticed", lambda: status() == dg.DagsterRunStatus.FAILURE)


def launch_for_a_partition(page: Page, ui: str, job: str, partition: str) -> None:
    page.goto(f"{ui}/locations/rageval_dagster/jobs/{job}")
    page.get_by_role("button", name="Materialize").first.click()
    page.get_by_text("Select a partition or create one").click()
    page.get_by_role("menuitem").filter(has_text=re.compile(f"^{re.escape(partition)}")).click()
    page.get_by_text("Launch runs to materialize").click()  # closes the list
    page.get_by_role("button", name="Launch 1 run").click()


def answers(address: str) -> bool:
    try:
        return httpx.get(address).is_success
    except httpx.HTTPError:
        return False


@pytest.mark.timeout(1200)
def test_it_is_launched_killed_three_times_read_applied_and_evaluated(
    demo: Project, model: ScriptedServer, gate: Gate, browser: Browser, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, db, port = demo.settings, demo.database(), free_port()
    ui, reports = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{settings.serve_port}/reports"
    other_home = demo.folder / "undisturbed"
    shutil.copytree(settings.home, other_home)
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(600_000)
    page = context.new_page()
    asked_before = len(model.requests)
    with running(demo, sys.executable, "-m", "scripts.ui", str(port)), dg.DagsterInstance.get() as instance:
        wait_for("the UI", lambda: answers(f"{ui}/server_info"))
        gate.hold("/embeddings")
        page.goto(f"{ui}/locations/rageval_dagster/jobs/rageval_experiment_open/playground")
        page.get_by_text("experiment.toml").wait_for()  # the launchpad proposes it
        page.get_by_role("button", name="Launch Run").click()
        page.wait_for_url("**/runs/*")
        wait_for("the experiment to be opened", lambda: len(list_experiments(db)) == 1)
        launch_for_a_partition(page, ui, COPIES, f"1:{CLIENT}")
        kill_a_run(instance, gate, COPIES)
        gate.hold("/chat/completions", after=5)
        kill_a_run(instance, gate, TRIALS)

        def succeeded() -> int:
            return instance.get_runs_count(dg.RunsFilter(job_name=TRIALS, statuses=[dg.DagsterRunStatus.SUCCESS]))

        wait_for("the first round", lambda: succeeded() == 4)
        gate.hold("/chat/completions")
        kill_a_run(instance, gate, TRIALS)
        wait_for("the report", lambda: is_finished(settings, get_experiment(db, 1)))
        for run_ in instance.get_runs():
            assert "chunk_size" not in json.dumps(run_.run_config), "values are nothing for Dagster's storage"
        runs = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
        assert sorted(each.job_name for each in runs) == [COPIES, TRIALS, TRIALS]

        page.goto(f"{ui}/assets/experiment_trials?view=partitions&partition=1.0%3A{CLIENT}")
        link = page.get_by_role("link", name=f"{reports}/experiment-1.html")
        link.wait_for()
        page.goto(str(link.get_attribute("href")))
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("heading", name=f"{CLIENT}: experiment 1").wait_for()
        assert "rageval experiment apply 1" in page.inner_text("main")
        assert serious_violations(page) == []
        page.screenshot(path=demo.folder / "report.png", full_page=True)
        page.get_by_role("link", name="Experiments").click()
        page.get_by_role("link", name=f"1: {CLIENT}, finished").wait_for()
    context.close()

    disturbed, asked = summary(db, 1), {request.text for request in model.requests[asked_before:]}
    asked_before = len(model.requests)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("RAGEVAL_HOME", str(other_home))
        elsewhere.setenv("DAGSTER_HOME", str(other_home / "dagster"))
        assert run("experiment", "run", "experiment.toml").code == 0
        undisturbed = summary(open_database(load_settings().database_url), 1)
    assert disturbed["evaluations"] == 64
    assert alike(disturbed) == alike(undisturbed)
    best = disturbed["recommended"]
    assert best == undisturbed["recommended"]
    assert asked == {request.text for request in model.requests[asked_before:]}
    for name in [f"configuration-{number}.json" for number in range(4)]:
        here, there = (
            json.loads((home / "experiments" / CLIENT / "1" / "results" / name).read_text(encoding="utf-8"))
            for home in (settings.home, other_home)
        )
        assert here == there, name

    applied = run("experiment", "apply", "1", "--write")
    assert applied.code == 0
    command = shlex.split(applied.out.splitlines()[-1].removeprefix("# then: "))
    assert run(*command[1:]).code == 0
    assert run("evaluate", "--client", CLIENT).code == 0
    [dataset] = current_datasets(db, CLIENT)
    [evaluation] = list_evaluations(db, CLIENT, dataset.id, status="complete")
    assert (evaluation.system, evaluation.k) == (best["retriever"], best["number_of_chunks"])
    lengths = [len(chunk.text) for part in open_store(settings).scan(CLIENT) for chunk in part.chunks]
    assert best["chunk_size"] / 2 < max(lengths) <= best["chunk_size"]
