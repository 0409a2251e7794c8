"""Experiments in the history: nothing of one is written once it was deleted."""

import pytest

from rageval_dagster.errors import RagevalError
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.experiments import (
    Experiment,
    QuestionResult,
    load_results,
    open_experiment,
    save_results,
    while_known,
)
from rageval_dagster.storage.forgetting import delete_rows


def an_experiment(db: Database) -> Experiment:
    return open_experiment(
        db,
        client_id="acme",
        content_key="0" * 64,
        opened_by="command",
        definition={"client": "acme"},
        objective="retrieval.mrr",
        higher_is_better=True,
        dataset_ids=[1],
        questions=["a"],
        clusters=["a"],
        corpus="0" * 64,
    )


def test_once_deleted_nothing_of_it_is_written(db: Database) -> None:
    ensure_client(db, "acme")
    experiment = an_experiment(db)
    result = QuestionResult("1" * 64, "a", 1.0, {}, None, False, None, None, None)
    with while_known(db, experiment):
        save_results(db, experiment, [result])
    assert list(load_results(db, experiment.number)) == [("1" * 64, "a")]
    delete_rows(db, "acme")
    with pytest.raises(RagevalError, match="was deleted"), while_known(db, experiment):
        save_results(db, experiment, [result])
    with pytest.raises(RagevalError, match="was deleted"), while_known(db, experiment):
        pass
    assert an_experiment(db).number != experiment.number
    assert load_results(db, experiment.number) == {}
