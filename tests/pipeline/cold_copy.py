"""What an evaluation found, to the last digit; and a copy of a history in which nothing is there to be reused."""

from typing import Any

import sqlalchemy as sa

from rageval_dagster.storage.database import Database
from rageval_dagster.storage.results import load_results
from rageval_dagster.storage.scores import load_scores, load_summaries
from rageval_dagster.storage.tables import (
    embedding_cache,
    evaluation_runs,
    item_results,
    llm_cache,
    llm_calls,
    metric_scores,
    metric_summaries,
    retrievals,
    reuse_keys,
    run_items,
    texts,
)

REUSED = (
    *(reuse_keys, llm_cache, embedding_cache, llm_calls, metric_scores, item_results, retrievals, texts),
    *(metric_summaries, run_items, evaluation_runs),
)
"""All that an evaluation can take from an earlier one; documents, questions and datasets are what is evaluated."""


def forget_all_work(db: Database) -> None:
    """Deletes every evaluation and everything that one may reuse."""
    with db.begin() as connection:
        for table in REUSED:
            connection.execute(sa.delete(table))


def found_by(db: Database, evaluation_id: int) -> dict[str, dict[Any, Any]]:
    """The evaluation's results, outcomes with their details, and summaries; without times and costs."""
    summaries = {each.metric_id: each for each in load_summaries(db, evaluation_id)}
    columns = load_scores(db, evaluation_id, {name: each.metric_version for name, each in summaries.items()})
    return {
        "results": load_results(db, evaluation_id),
        "outcomes": {
            (item_id, name): (outcome, outcome.detail)
            for name, column in columns.items()
            for item_id, outcome in column.items()
        },
        "summaries": summaries,
    }
