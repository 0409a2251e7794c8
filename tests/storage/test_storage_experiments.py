"""Experiments and their results, in each database."""

import pytest

from rageval_dagster.errors import RagevalError
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.experiments import (
    Experiment,
    QuestionResult,
    end_experiment,
    forget_failures,
    get_experiment,
    list_experiments,
    load_results,
    open_experiment,
    save_results,
)
from rageval_dagster.storage.forgetting import delete_rows, rows_of


def experiment(db: Database, budget: int = 10, client: str = "acme", key: str = "a" * 64) -> Experiment:
    ensure_client(db, client)
    definition = {"client": client, "parameters": {"k": [3, 5]}, "budget": {"answers": budget}}
    return open_experiment(
        db, client, key, "command", definition, "retrieval.mrr", True, [1], ["q1", "q2"], ["d1", "d2"], "c" * 64
    )


def result(item_id: str, score: float | None, error: str | None = None) -> QuestionResult:
    return QuestionResult("f" * 64, item_id, score, {"retrieval.mrr": score}, error, False, 0.5, 0.001, 70)


def test_one_of_the_same_content_goes_on_and_is_done_once_it_was_finished(any_db: Database) -> None:
    first = experiment(any_db)
    assert experiment(any_db) == first
    assert experiment(any_db, key="b" * 64).number != first.number
    end_experiment(any_db, first.number, "its budget is spent")
    assert get_experiment(any_db, first.number).status == "stopped"
    again = experiment(any_db)
    assert (again.number, again.status) == (first.number, "running")
    end_experiment(any_db, first.number)
    end_experiment(any_db, first.number, "too late")
    assert (done := experiment(any_db)).status == "finished"
    assert done.ended_why is None
    assert experiment(any_db, budget=20).status == "running"


def test_results_are_written_once_and_failures_can_be_asked_again(any_db: Database) -> None:
    here = experiment(any_db)
    failed = result("q2", None, "timeout: no whole response")
    save_results(any_db, here, [result("q1", 0.25), failed])
    save_results(any_db, here, [result("q1", 0.75)])
    assert load_results(any_db, here.number) == {("f" * 64, "q1"): result("q1", 0.25), ("f" * 64, "q2"): failed}
    forget_failures(any_db, here.number)
    assert set(load_results(any_db, here.number)) == {("f" * 64, "q1")}


def test_a_forgotten_clients_experiments_are_gone_and_nothing_can_be_written_to_them(any_db: Database) -> None:
    ours, theirs = experiment(any_db), experiment(any_db, client="beta")
    for each in (ours, theirs):
        save_results(any_db, each, [result("q1", 1.0)])
    assert rows_of(any_db, "acme") == {"clients": 1, "experiments": 1, "experiment_results": 1}
    delete_rows(any_db, "acme")
    assert rows_of(any_db, "acme") == {"clients": 1}
    assert list_experiments(any_db) == [theirs]
    assert list_experiments(any_db, "acme") == []
    assert load_results(any_db, theirs.number)
    with pytest.raises(RagevalError, match="was deleted"):
        save_results(any_db, ours, [result("q2", 1.0)])
