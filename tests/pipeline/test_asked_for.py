"""What was asked for is what runs: a command's settings, its verdict, and how it goes on after an interruption.

The project's own metric waits in the middle of a run until the test lets it go on.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest

from rageval_dagster.benchmark.importing import import_dataset
from rageval_dagster.records import Evidence, Item
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.evaluations import list_evaluations
from rageval_dagster.storage.leases import held_leases, keep_lease, lease_holder
from tests.cli.running import Ended
from tests.lost_heartbeats import let_leases_expire
from tests.pipeline.looks import nightly_requests, tick
from tests.pipeline.other_rag import TOKEN, OtherRag, serving
from tests.pipeline.small_project import PLACES, Project, documents
from tests.pipeline.test_own_system import configure

QUESTIONS = len(PLACES)

METRIC = """
from pathlib import Path

from rageval_dagster.metrics.own import metric

@metric("held.waiting", needs={"answer"}, version="1", description="1, once the test lets the run go on.")
def waiting(results, tools):
    if Path("held").exists():
        Path("held").read_text()
    return [1.0] * len(results)
"""


@pytest.fixture
def system(loaded: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[OtherRag]:
    """The client's own RAG system, asked the questions of one imported dataset."""
    monkeypatch.setenv("ASSISTANT_TOKEN", TOKEN)
    monkeypatch.setenv("EVALUATION_AUTO_GENERATE_DATASETS", "false")
    Path("held_metric.py").write_text(METRIC, encoding="utf-8")
    ask(loaded)
    with serving(OtherRag(documents("lighthouse"))) as system:
        write_settings(loaded, system)
        yield system


def ask(project: Project, opening: str = "Who") -> None:
    items = [
        Item(
            f"{opening} founded the lighthouse of {place}?",
            evidence=(Evidence(f"lighthouse-{place.lower()}", quote=f"The lighthouse of {place} was founded in"),),
        )
        for place in PLACES
    ]
    path = project.folder / "questions.jsonl"
    path.write_text("\n".join(json.dumps(item.to_dict()) for item in items), encoding="utf-8")
    import_dataset(project.database(), "acme", "human", path, "native")


def write_settings(project: Project, system: OtherRag, metrics: str = '["retrieval.*", "held_metric:waiting"]') -> None:
    configure(project, system)
    path = Path("rageval.toml")
    path.write_text(path.read_text().replace("[defaults]\n", f"[defaults]\nmetrics = {metrics}\n"))


def edit_settings(project: Project, system: OtherRag) -> None:
    """Another cutoff and other metrics, and of the system its first context only."""
    write_settings(project, system, '["retrieval.mrr"]')
    path = Path("rageval.toml")
    edited = path.read_text().replace("[defaults]\n", "[defaults]\nk = 1\n")
    path.write_text(edited.replace('"result.passages"', '"result.passages[:1]"'))


def command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rageval_dagster", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate()
    return Ended(process.returncode, out, err)


def rageval(*arguments: str) -> Ended:
    return ended(command(*arguments))


@contextmanager
def held_in_the_middle(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command whose run has asked every question, for the first time; it goes on after the block, and no other is
    held."""
    os.mkfifo("held")
    process = command(*arguments)
    held = Path("held")
    with held.open("w"):  # opens once the metric reads
        held.unlink()
        yield process


def wait_for_line(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    assert any(words in line for line in process.stderr), f"{words!r} was not said"


def resumed_by(told: str) -> str:
    found = re.search(r"rageval evaluate --resume (\d+)", told)
    assert found is not None, told
    return found[1]


EVALUATE = ("evaluate", "--client", "acme", "--gate", "--json")


@pytest.mark.slow
def test_of_two_commands_at_once_each_verdict_is_about_the_release_that_it_was_asked_of(
    loaded: Project, system: OtherRag
) -> None:
    system.build = "good"
    with held_in_the_middle(*EVALUATE) as before:
        system.build, system.broken = "bad", True
        after = command(*EVALUATE)
        wait_for_line(after, "waiting for that to end")
    good, bad = (json.loads(ended(process).out) for process in (before, after))
    assert (good["system_version_declared"], bad["system_version_declared"]) == ("good", "bad")
    assert good["run_id"] != bad["run_id"]
    assert good["metrics"]["retrieval.mrr"]["mean"] > 0.9
    assert bad["metrics"]["retrieval.mrr"]["mean"] < 0.5
    assert after.returncode in (1, 3), "the bad release does not pass"


@pytest.mark.slow
def test_what_is_edited_while_a_run_waits_or_works_holds_for_the_next_one(loaded: Project, system: OtherRag) -> None:
    with held_in_the_middle(*EVALUATE) as working:
        edit_settings(loaded, system)
    worked = json.loads(ended(working).out)
    write_settings(loaded, system)
    with keep_lease(loaded.database(), "acme", lease_holder("a test")):
        waiting = command(*EVALUATE)
        wait_for_line(waiting, "waiting for that to end")
        edit_settings(loaded, system)
    waited = json.loads(ended(waiting).out)
    following = json.loads(rageval(*EVALUATE).out)
    assert waited["versions"]["system"] == worked["versions"]["system"] != following["versions"]["system"]
    assert set(waited["metrics"]) == set(worked["metrics"]) > {"held.waiting", "retrieval.hit_rate_at_5"}
    assert set(following["metrics"]) == {"retrieval.mrr"}


@pytest.mark.slow
def test_a_killed_run_is_resumed_by_its_number_with_what_it_was_asked_for(loaded: Project, system: OtherRag) -> None:
    with held_in_the_middle(*EVALUATE) as killed:
        killed.kill()
        killed.wait()
    asked = len(system.asked)
    let_leases_expire(loaded.database())
    [listed] = json.loads(rageval("runs", "list", "--json").out)
    assert (listed["run"], listed["status"]) == (1, "interrupted")
    edit_settings(loaded, system)
    found = json.loads(rageval("evaluate", "--resume", "1", "--json").out)
    assert found["run_id"] == 1
    assert {"held.waiting", "retrieval.hit_rate_at_5"} < set(found["metrics"])
    # One question tells the version, and all were asked before: but for the two times more of a first run.
    assert len(system.asked) - asked == 1 + 2 * QUESTIONS
    [stored] = list_evaluations(loaded.database())
    assert (stored.status, stored.k) == ("complete", 5)
    for run, words in (("1", "run 1 is complete"), ("7", "there is no evaluation 7")):
        refused = rageval("evaluate", "--resume", run)
        assert refused.code == 2
        assert [words in line for line in refused.err.splitlines()] == [True]


@pytest.mark.slow
@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 2), (signal.SIGTERM, 143)])
def test_an_interrupted_command_says_how_to_go_on(
    loaded: Project, system: OtherRag, stop: signal.Signals, code: int
) -> None:
    with held_in_the_middle(*EVALUATE) as interrupted:
        interrupted.send_signal(stop)
    told = ended(interrupted)
    assert (told.code, told.out) == (code, "")
    assert held_leases(loaded.database()) == []
    assert "Traceback" not in told.err
    assert "metric_scores: interrupted" in told.err
    number = resumed_by(told.err)
    ask(loaded, "Which engineer")
    refused = rageval("evaluate", "--resume", number)
    assert refused.code == 2
    assert f"the questions of run {number} have since been renewed" in refused.err


@pytest.mark.slow
@pytest.mark.parametrize(("build", "asked_again"), [("one", 5), (None, QUESTIONS)])
def test_the_same_command_again_starts_anew(
    loaded: Project, system: OtherRag, build: str | None, asked_again: int
) -> None:
    system.build = build
    with held_in_the_middle(*EVALUATE) as killed:
        killed.kill()
        killed.wait()
    asked = len(system.asked)
    let_leases_expire(loaded.database())
    assert json.loads(rageval(*EVALUATE).out)["run_id"] == 2
    # Five questions show whether it is still the same; a first run asks all two times more.
    assert len(system.asked) - asked == asked_again + 2 * QUESTIONS
    assert {each.id: each.status for each in list_evaluations(loaded.database())} == {1: "failed", 2: "complete"}
    refused = rageval("evaluate", "--resume", "1")
    assert refused.code == 2
    assert "run 1 was abandoned" in refused.err


@pytest.mark.slow
@pytest.mark.parametrize("asked_by", ["schedule", "sensor"])
def test_a_run_that_waits_in_the_queue_measures_what_held_when_it_was_asked_for(
    loaded: Project, system: OtherRag, asked_by: str
) -> None:
    ensure_client(loaded.database(), "acme")
    with dg.DagsterInstance.get() as instance:
        [request] = nightly_requests(instance) if asked_by == "schedule" else tick(instance).run_requests or []
    edit_settings(loaded, system)
    report = loaded.report("acme", request.tags["rageval/trigger"])
    assert report.evaluation.k == 5
    assert "held.waiting" in report.summaries
    assert report.summaries["retrieval.hit_rate_at_5"].n_scored == QUESTIONS
