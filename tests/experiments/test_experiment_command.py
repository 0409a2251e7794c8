"""`rageval experiment` from a definition to a decision, on real parts; the model that answers is scripted."""

import json
import os
import signal
import subprocess
import sys

import dagster as dg
import pytest

from rageval_dagster.corpus.store import open_store
from rageval_dagster.experiments.copies import files_of, run_alone
from rageval_dagster.experiments.definition import read_definition
from rageval_dagster.experiments.opening import checked, opened
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.experiments import list_experiments
from tests.cli.running import Run, refused
from tests.experiments.small import CHUNKINGS, CLIENT, alike, calls_of, definition, own, prepared
from tests.llm.scripted_server import ScriptedServer
from tests.lost_heartbeats import let_experiments_fall_silent
from tests.pipeline.small_project import Project


def test_chunkings_are_searched_in_copies_from_a_definition_to_a_decision(
    answered: Project, server: ScriptedServer, run: Run
) -> None:
    settings, documents = answered.settings, answered.folder / "acme.jsonl"
    file = definition(answered.folder, CHUNKINGS.format(documents=documents))
    before = open_store(settings).probe(CLIENT)

    planned = json.loads(run("experiment", "run", file, "--dry-run", "--json").out)
    assert (planned["configurations"], planned["questions"], planned["copies"]) == (6, 40, 3)
    assert planned["answers at most"] == planned["answer calls"] == 240
    assert planned["texts_to_embed"] == 0
    assert planned["chunks_in_all_copies_estimated"] > planned["copies"]
    assert "chunks" not in planned
    assert planned["disk_mb"] > 0
    assert list_experiments(answered.database()) == []
    assert server.requests == []

    done = run("experiment", "run", file, "--json")
    assert done.code == 0, done.err
    summary = json.loads(done.out)
    assert summary["status"] == "finished"
    assert {row["configuration"]["chunk_size"] for row in summary["configurations"]} == {120, 400}
    rows = summary["configurations"]
    assert all(row["questions"] <= 40 and row["failed"] == 0 for row in rows)
    assert all(0 < row["scores"]["retrieval.hit_rate_at_k"]["mean"] <= 1 for row in rows)
    assert summary["evaluations"] == sum(row["questions"] for row in rows)
    folder = settings.home / "experiments" / CLIENT / "1"
    assert not (folder / "copies").exists()
    assert open_store(settings).probe(CLIENT) == before
    assert open_store(settings).clients() == [CLIENT]
    best = next(row for row in summary["configurations"] if row["recommended"])
    pattern = json.loads((folder / "results" / f"configuration-{best['number']}.json").read_text(encoding="utf-8"))
    assert pattern["configuration"] == summary["recommended"]
    assert set(pattern["scores"]["answer_correctness"]) == {"mean", "ci_low", "ci_high"}
    assert len(pattern["question_scores"]["faithfulness"]) == best["questions"]

    asked = len(server.requests)
    again = run("experiment", "run", file)
    assert (again.code, len(server.requests)) == (0, asked)
    assert "finished before" in again.err
    size = summary["recommended"]["chunk_size"]
    applied = run("experiment", "apply", 1).out
    assert f"[clients.acme]\nk = {summary['recommended']['number_of_chunks']}" in applied
    assert f"# then: rageval ingest {documents} --client acme --chunk-size {size}" in applied
    assert "finished" in run("experiment", "list").out
    assert run("experiment", "apply", 1, "--write").code == 0
    own_settings = load_settings(answered.environment).for_client(CLIENT)
    assert own_settings.k == summary["recommended"]["number_of_chunks"]
    assert own_settings.system == ("bm25",)


def test_minutes_that_are_over_end_it_with_what_is_known(varied: Project, run: Run) -> None:
    done = run("experiment", "run", own(varied, "right", "vague", more="budget = { minutes = 0.0001 }"))
    assert done.code == 4
    assert "It ended early: its 0.0001 minutes are up." in done.out


def test_two_commands_do_not_run_one_experiment_at_once(varied: Project, run: Run) -> None:
    file, db, settings = own(varied, "right", "silent"), varied.database(), varied.settings
    experiment = opened(db, settings, checked(db, settings, read_definition(file), file.name), "command")
    with run_alone(settings, experiment):
        refused(run("experiment", "run", file), "experiment 1 is being run by another command; wait for it to end")
    assert calls_of(varied) == []
    assert run("experiment", "run", file).code == 0


@pytest.mark.slow
def test_killed_three_times_it_comes_to_what_an_undisturbed_one_comes_to(varied: Project, run: Run) -> None:
    file = own(varied, "right", "vague", "broken")
    command = [sys.executable, "-m", "rageval_dagster", "experiment", "run", str(file)]
    environment = {**os.environ, **varied.environment}
    for dies_at in (3, 40, 90):
        killed = subprocess.run(command, env={**environment, "DIES_AT": str(dies_at)}, capture_output=True, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        with dg.DagsterInstance.get() as instance:
            let_experiments_fall_silent(instance)
    disturbed = json.loads(run("experiment", "run", file, "--json").out)
    asked = len(calls_of(varied))
    with dg.DagsterInstance.get() as instance:
        assert instance.get_runs_count(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])) == 0
    assert run("forget", "--client", CLIENT, "--yes").code == 0
    ensure_client(varied.database(), CLIENT)
    prepared(varied)
    undisturbed = json.loads(run("experiment", "run", file, "--json").out)
    assert undisturbed["configurations"] != []
    assert alike(disturbed) == alike(undisturbed)
    batch = 14
    assert asked <= len(calls_of(varied)) - asked + 3 * batch


def test_forgetting_a_client_takes_its_experiments_files_partitions_and_runs(varied: Project, run: Run) -> None:
    assert run("experiment", "run", own(varied, "right")).code == 0
    assert files_of(varied.settings, CLIENT)
    with dg.DagsterInstance.get() as instance:
        keys = instance.get_dynamic_partitions("rageval_experiments")
        assert keys == ["1:acme"]
    done = run("forget", "--client", CLIENT, "--yes")
    assert done.code == 0, done.err
    assert "files of experiments" in done.err + done.out
    assert files_of(varied.settings, CLIENT) == []
    assert list_experiments(varied.database()) == []
    with dg.DagsterInstance.get() as instance:
        assert instance.get_dynamic_partitions("rageval_experiments") == []
        assert instance.get_runs_count() == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('client = "acme"', 'client = "acne"'), ["acne", "acme"]),
        (('style = ["right"]', 'stile = ["right"]'), ["system 'mine' has no such parameter (did you mean style?)"]),
        (("words = [1, 4]", "words = 4"), ["words: takes a list of values, such as [3, 5], not 4"]),
        (("words = [1, 4]", "words = [1, 1]"), ["words: names a value twice"]),
        (("words = [1, 4]", "words = [1, nan]"), ["words: nan is not a number that can be compared"]),
        (("words = [1, 4]", "number_of_chunks = [1, -4]"), ["number_of_chunks: takes a whole number", "not -4"]),
        (("words = [1, 4]", 'number_of_chunks = ["all"]'), ["number_of_chunks: takes a whole number", "not 'all'"]),
        (('system = "mine"', 'system = "mine"\nseed = 2147483648'), ["seed", "less than 2147483648"]),
        (('system = "mine"', 'system = "mine"\ndocuments = ""'), ["documents", "at least 1 character"]),
        (('system = "mine"', 'system = "mine"\ndocuments = "~nobody-here/x"'), ["documents", "no file or folder"]),
        (('system = "mine"', 'system = "mine"\ndocuments = "a\\u0000b"'), ["documents", "no file or folder"]),
        (('system = "mine"', f'system = "mine"\ndocuments = "{"x" * 5000}"'), ["documents", "no file or folder"]),
        (
            (
                'system = "mine"\nobjective = "overlap.answer_correctness"\n\n[parameters]',
                '[parameters]\nprompt = ["nowhere"]',
            ),
            ["prompt", "no file or folder", "nowhere"],
        ),
        (("words = [1, 4]", "words = [1]"), ["only one configuration"]),
        (('system = "mine"', 'system = "main"'), ["no system 'main' (did you mean mine?)"]),
        (('system = "mine"', 'system = "bm25"'), ["'bm25' is built in", 'retriever = ["bm25"]']),
        (('system = "mine"\n', ""), ["the built-in system has no such parameter", 'system = "NAME"']),
        (('system = "mine"', 'system = "mine"\ndatasets = ["humans"]'), ["no dataset 'humans'", "human"]),
        (
            ("overlap.answer_correctness", "overlap.correctness"),
            ["objective", "did you mean overlap.answer_correctness?"],
        ),
        (("overlap.answer_correctness", "claims.faithfulness"), ["objective", "RAGEVAL_JUDGE_MODEL"]),
        (('system = "mine"', 'system = "mine"\nbudgets = 3'), ["'budgets' (did you mean budget?)"]),
        (('system = "mine"', 'system = "mine"\nbudget = { answer = 3 }'), ["'answer' (did you mean answers?)"]),
        (('system = "mine"', 'system = "mine"\nbudget = { answers = 0 }'), ["budget.answers", "greater than"]),
        (('system = "mine"', 'system = "mine"\nrequire = { "mrr" = 0.1 }'), ["require", "'mrr'"]),
        (("[parameters]", "[parameter]"), ["no table [parameter] (did you mean parameters?)"]),
        (("[experiment]", "[experiment"), ["experiment.toml is not valid TOML"]),
    ],
)
def test_a_definition_that_cannot_be_used_is_one_clear_error(
    varied: Project, run: Run, change: tuple[str, str], words: list[str]
) -> None:
    file = own(varied, "right")
    text = file.read_text(encoding="utf-8")
    assert change[0] in text
    file.write_text(text.replace(*change), encoding="utf-8")
    refused(run("experiment", "run", file, "--dry-run"), *words)
    assert list_experiments(varied.database()) == []
