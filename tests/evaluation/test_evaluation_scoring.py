"""The score stage with a judge: what stands in the history where it fails, stops, or is resumed."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from rageval_dagster.errors import BudgetReachedError
from rageval_dagster.evaluation import scoring
from rageval_dagster.evaluation.scoring import run_scoring
from rageval_dagster.llm.client import ChatClient, ChatRequest, UnusableReplyError
from rageval_dagster.metrics.interface import Judge, Metric, Tools
from rageval_dagster.records import Outcome, Result
from rageval_dagster.settings import load_settings
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from tests.llm.scripted_server import ScriptedServer
from tests.storage.history_builder import make_dataset, make_items, make_older, open_run, work

TOKENS = 18
"""That the scripted server counts for each reply."""


def value_in(reply: str) -> float:
    try:
        return float(reply)
    except ValueError:
        raise UnusableReplyError("no number") from None


async def judged(result: Result, judge: Judge) -> Outcome:
    return Outcome.scored(await judge.ask(ChatRequest(result.item.question), value_in))


METRIC = Metric(
    id="judge.x",
    version="1",
    needs=frozenset({"judge"}),
    unanswerable="undefined",
    description="",
    edge_cases="",
    source="",
    judged=judged,
)


def evaluation(db: Database, trigger: str, count: int = 10) -> Evaluation:
    items = make_items(count)
    opened = open_run(db, make_dataset(db, "acme", items), trigger)
    work(db, opened, items)
    return opened


def tools(db: Database, server: ScriptedServer, run_id: str, **variables: str) -> Tools:
    given = {"RAGEVAL_JUDGE_MODEL": "small", "OPENAI_BASE_URL": server.base_url, "RAGEVAL_LLM_CONCURRENCY": "2"}
    return Tools(judge=ChatClient(load_settings(given | variables), "judge", db, "acme", run_id))


def values(db: Database, of: Evaluation) -> list[float | None]:
    found = score_storage.load_scores(db, of.id, {"judge.x": "1"})
    return [outcome.value for outcome in found.get("judge.x", {}).values()]


def failing(*numbers: int) -> Callable[[dict[str, Any]], str]:
    """0.5 for every question but those of these numbers."""
    return lambda body: "?" if body["messages"][-1]["content"] in [f"question {n}?" for n in numbers] else "0.5"


def test_an_evaluation_that_is_resumed_has_what_was_scored_meanwhile(sqlite_db: Database) -> None:
    first = evaluation(sqlite_db, "night 1")
    with ScriptedServer(failing(3, 4)) as server:
        report = run_scoring(sqlite_db, first, [METRIC], tools(sqlite_db, server, "1"), 30)
    assert (report.total, report.errors, report.coverage) == (10, 2, 0.8)
    assert values(sqlite_db, first).count(None) == 2
    with ScriptedServer("0.5") as server:
        run_scoring(sqlite_db, evaluation(sqlite_db, "night 2"), [METRIC], tools(sqlite_db, server, "2"), 30)
        report = run_scoring(sqlite_db, first, [METRIC], tools(sqlite_db, server, "3"), 30)
    assert len(server.requests) == 2
    assert (report.reused, report.coverage) == (10, 1.0)
    assert values(sqlite_db, first) == [0.5] * 10


def test_a_reply_from_the_cache_makes_no_verdict_younger(sqlite_db: Database) -> None:
    """Another answer, of which the judge is asked the same, is judged by a reply that is as old as it was."""
    asked: list[int] = []
    pair = [METRIC, replace(METRIC, id="judge.y")]  # one reply for both
    with ScriptedServer("0.5") as server:
        for night, (salt, older) in enumerate([("one", 0), ("two", 29), ("two", 2)], start=1):
            make_older(sqlite_db, timedelta(days=older))
            items = make_items(10)
            opened = open_run(sqlite_db, make_dataset(sqlite_db, "acme", items), f"night {night}", corpus=salt)
            work(sqlite_db, opened, items, salt=salt)
            run_scoring(sqlite_db, opened, pair, tools(sqlite_db, server, str(night)), 30)
            assert values(sqlite_db, opened) == [0.5] * 10
            asked.append(len(server.requests))
    assert asked == [10, 10, 20]


def test_a_spent_budget_says_what_is_missing_of_the_whole_evaluation(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "JUDGED_AT_ONCE", 4)
    opened = evaluation(sqlite_db, "night 1")
    limit = {"RAGEVAL_LLM_MAX_TOKENS": str(6 * TOKENS)}
    with ScriptedServer("0.5") as server:
        with pytest.raises(BudgetReachedError, match=r"6 of 10 outcomes of this evaluation are missing") as raised:
            run_scoring(sqlite_db, opened, [METRIC], tools(sqlite_db, server, "1", **limit), 30)
        assert "RAGEVAL_LLM_MAX_TOKENS" in str(raised.value)
        assert values(sqlite_db, opened) == [0.5] * 4
        run_scoring(sqlite_db, opened, [METRIC], tools(sqlite_db, server, "2", **limit), 30)
    assert values(sqlite_db, opened) == [0.5] * 10
    assert len(server.requests) == 10
