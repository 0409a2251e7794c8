"""What `evaluate --dry-run` says before anything is spent, and that it spends nothing."""

import json
from pathlib import Path

import pytest

from rageval_dagster.records import Chunk
from rageval_dagster.storage.caches import LlmCall, save_replies
from tests.cli.running import Run, stock
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.small_project import Project
from tests.storage.history_builder import make_dataset, make_items


@pytest.fixture
def asked(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with two clients in its store, one of them with ten questions; no dataset is generated."""
    for client in ("acme", "zebra"):
        stock(project.settings, client, Chunk("c1", "It is open.", "d1"))
        make_dataset(project.database(), client, make_items(10))
    monkeypatch.setenv("EVALUATION_AUTO_GENERATE_DATASETS", "false")
    return project


def test_calls_tokens_cost_and_time_are_said_for_each_client_and_nothing_is_sent(asked: Project, run: Run) -> None:
    with ScriptedServer() as server:
        Path("rageval.toml").write_text(
            f"""
[defaults]
openai_base_url = "{server.base_url}"
answer_model = "speaker"
judge_model = "assessor"
metrics = "judge.overall"
system = "bm25"
[clients.zebra]
llm = "forbidden"
metrics = "retrieval.*"
[prices]
speaker = {{in = 1.0, out = 2.0}}
""",
            encoding="utf-8",
        )
        shown = run("evaluate", "--all", "--dry-run")
        printed = run("evaluate", "--all", "--dry-run", "--json")
    assert server.requests == []
    assert (shown.code, printed.code) == (0, 0)
    assert "at most; nothing was scanned or asked" in shown.err
    acme, zebra = json.loads(printed.out)
    assert (acme["questions"], acme["retrievals"], acme["answer calls"], acme["judge calls"]) == (10, 10, 20, 50)
    assert (zebra["questions"], zebra["answer calls"], zebra["judge calls"], zebra["models"]) == (10, 0, 0, [])
    assert acme["cost_usd"] is None
    answer, judge = acme["models"]
    assert (answer["model"], answer["calls"], answer["calls_if_all_goes_well"]) == ("speaker", 20, 10)
    assert answer["cost_usd"] > 0
    assert judge["cost_usd"] is None
    assert judge["seconds"] == pytest.approx(50 * 2 / 16, abs=0.1)
    lines = [line.split() for line in shown.out.splitlines()]
    [of_answer] = [line for line in lines if line[:3] == ["acme", "answer", "speaker"]]
    assert of_answer[3:6] == ["20", "10", str(answer["tokens"])]
    assert f"{answer['cost_usd']:.4f}" in of_answer
    [of_judge] = [line for line in shown.out.splitlines() if line.startswith("acme    judge")]
    assert "no price" in of_judge
    assert "6 s" in of_judge
    assert "Upper bounds" in shown.out
    assert "A guess: 2 s a call" in shown.out


def test_numbers_of_earlier_calls_are_no_guess(asked: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGEVAL_ANSWER_MODEL", "speaker")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    call = LlmCall("acme", "answer", "speaker", 100, 10, None, 1.0, cache_hit=False, retries=0, error=None, run_id=None)
    save_replies(asked.database(), "acme", [], [call])
    shown = run("evaluate", "--client", "acme", "--dry-run").out
    assert "1 earlier calls" in shown
    assert "guess" not in shown


def test_a_table_of_nobody_is_said_where_it_may_be_meant(asked: Project, run: Run) -> None:
    Path("rageval.toml").write_text('[clients.acne]\nllm = "forbidden"\n[clients.other]\nk = 3\n', encoding="utf-8")
    said = [
        [line for line in run("evaluate", *chosen, "--dry-run").err.splitlines() if "has a table" in line]
        for chosen in (["--client", "acme"], ["--client", "zebra"], ["--all"])
    ]
    near = "rageval.toml has a table for acne, which the document store does not know; did you mean acme?"
    other = "rageval.toml has a table for other, which the document store does not know"
    assert said == [[near], [], [near, other]]


def test_without_models_no_cost_is_spoken_of(asked: Project, run: Run) -> None:
    shown = run("evaluate", "--client", "acme", "--dry-run")
    assert shown.code == 0
    assert "no language model would be asked" in shown.out
    assert "fewer questions" not in shown.out, "they are written already"
    assert "USD" not in shown.out


def test_questions_that_rules_will_write_are_told_as_a_limit(project: Project, run: Run) -> None:
    stock(project.settings, "acme", Chunk("c1", "It is open.", "d1"))
    shown = run("evaluate", "--client", "acme", "--dry-run")
    assert shown.code == 0
    assert "Without a model, the documents may give fewer questions." in shown.out


def test_several_clients_are_taken_each_once_and_an_unknown_one_is_refused(asked: Project, run: Run) -> None:
    clients = ("--client", "zebra", "--client", "acme", "--client", "zebra")
    shown = run("evaluate", *clients, "--dry-run", "--json")
    assert [row["client"] for row in json.loads(shown.out)] == ["zebra", "acme"]
    refused = run("evaluate", "--client", "acme", "--client", "nobody", "--dry-run")
    assert refused.code == 2
    assert "nobody" in refused.err
