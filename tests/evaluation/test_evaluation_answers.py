"""The answer stage with a model: what it says of answers that failed, and where a budget stops it."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.errors import BudgetReachedError
from rageval_dagster.evaluation.asking import run_answers
from rageval_dagster.evaluation.stages import BATCH
from rageval_dagster.llm.client import ChatClient
from rageval_dagster.metrics.assessment import assess_answer
from rageval_dagster.rag.prompted import PromptedAnswerer
from rageval_dagster.rag.systems import ReferenceSystem
from rageval_dagster.records import Hit
from rageval_dagster.settings import load_settings
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from tests.llm.scripted_server import Fault, Received, ScriptedServer
from tests.storage.history_builder import make_dataset, make_items, make_older, open_run, retrieval_of

TOKENS = 18
"""That the scripted server counts for each reply."""


class Nowhere:
    """A retriever that is never asked: everything was retrieved before."""

    parameters: Mapping[str, Any] = {}

    def search(self, questions: Sequence[str], depth: int) -> list[list[Hit]]:
        raise NotImplementedError


def system(db: Database, server: ScriptedServer, run_id: str, **variables: str) -> ReferenceSystem:
    given = {"RAGEVAL_ANSWER_MODEL": "small", "OPENAI_BASE_URL": server.base_url, "RAGEVAL_LLM_CONCURRENCY": "2"}
    settings = load_settings(given | {"RAG__VERIFICATION_ENABLED": "false"} | variables)
    chat = ChatClient(settings, "answer", db, "acme", run_id)
    return ReferenceSystem("dense", Nowhere(), PromptedAnswerer(chat, settings, assess_answer))


def retrieved(db: Database, count: int = 10) -> Evaluation:
    items = make_items(count)
    opened = open_run(db, make_dataset(db, "acme", items), "night 1")
    result_storage.save_retrievals(db, opened.id, [(retrieval_of(item), None) for item in items])
    return opened


def no_store() -> ChromaStore:
    raise AssertionError("only answers of systems of another make are compared with chunks")


def test_a_reply_from_the_cache_makes_no_answer_younger(sqlite_db: Database) -> None:
    """An answer to other hits with the same contexts is made of the reply to the earlier ones: it is as old as that."""
    items = make_items(10)
    dataset = make_dataset(sqlite_db, "acme", items)
    asked: list[int] = []
    with ScriptedServer("So it is [1].") as server:
        # Beyond the answerer's contexts another hit comes each night, and on the fourth none.
        for night, (count, older) in enumerate([(8, 0), (7, 20), (6, 9), (6, 2)], start=1):
            make_older(sqlite_db, timedelta(days=older))
            opened = open_run(sqlite_db, dataset, f"night {night}")
            retrievals = [(retrieval_of(item, count), None) for item in items]
            result_storage.save_retrievals(sqlite_db, opened.id, retrievals)
            run_answers(sqlite_db, no_store, system(sqlite_db, server, str(night)), opened, max_age_days=30)
            asked.append(len(server.requests))
    assert asked == [10, 10, 10, 20]


def test_a_spent_budget_says_how_many_questions_have_no_answer(sqlite_db: Database) -> None:
    opened = retrieved(sqlite_db, BATCH + 6)
    limit = {"RAGEVAL_LLM_MAX_TOKENS": str((BATCH + 2) * TOKENS)}
    with ScriptedServer("So it is [1].") as server:
        with pytest.raises(BudgetReachedError, match=f"6 of {BATCH + 6} questions of this evaluation have no answer"):
            run_answers(sqlite_db, no_store, system(sqlite_db, server, "1", **limit), opened)
        report = run_answers(sqlite_db, no_store, system(sqlite_db, server, "2", **limit), opened)
    assert (report.total, report.reused, report.errors) == (BATCH + 6, BATCH, 0)
    assert len(server.requests) == BATCH + 6


def test_answers_that_failed_count_as_errors_also_when_the_stage_is_resumed(sqlite_db: Database) -> None:
    opened = retrieved(sqlite_db)

    def refuse(received: Received) -> Fault | None:
        return Fault(status=400, code="content_filter") if "question 3?" in received.text else None

    seen: list[tuple[int, int]] = []
    with ScriptedServer("So it is [1].", fault_for=refuse) as server:
        reports = [
            run_answers(
                sqlite_db,
                no_store,
                system(sqlite_db, server, run),
                opened,
                progress=lambda done, of: seen.append((done, of)),
            )
            for run in ("1", "2")
        ]
    assert [report.coverage for report in reports] == [0.9, 0.9]
    assert seen[:10] == [(done, 10) for done in range(1, 11)]
    assert len(server.requests) == 10
