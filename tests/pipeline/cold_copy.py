"""What an evaluation found, row by row; and a copy of a history in which nothing is there to be reused."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from rageval_dagster.storage.database import Database
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

UNLIKE = {"id", "evaluation_id", "take", "latency_s", "created_at", "made_at"}
"""What differs between any two evaluations of the same."""

Rows = Mapping[str, Mapping[Any, Mapping[str, Any]]]


def forget_all_work(db: Database) -> None:
    """Deletes every evaluation and everything that one may reuse."""
    with db.begin() as connection:
        for table in REUSED:
            connection.execute(sa.delete(table))


def rows_of(db: Database, evaluation_id: int) -> Rows:
    """{table: {key: row}} of retrievals, results, scores and summaries, without ids of evaluations, times and costs."""
    items = run_items.c
    mine = sa.select(items.item_id, items.retrieval_id, items.result_id, items.takes)
    with db.connect() as connection:
        asked = connection.execute(mine.where(items.evaluation_id == evaluation_id)).all()
        found: dict[str, dict[Any, dict[str, Any]]] = {"run_items": {}}
        for row in asked:
            found["run_items"][row.item_id] = {"retrieval_id": row.retrieval_id, "result_id": row.result_id}
        for table, key in ((retrievals, "retrieval_id"), (item_results, "result_id")):
            wanted = {getattr(row, key) for row in asked}
            rows = connection.execute(sa.select(table)).mappings()
            found[table.name] = {row["item_id"]: _alike(row) for row in rows if row[key] in wanted}
        versions = {
            row.metric_id: row.metric_version
            for row in connection.execute(
                sa.select(metric_summaries).where(metric_summaries.c.evaluation_id == evaluation_id)
            )
        }
        used = {row.result_id: row for row in asked}
        scores: dict[Any, dict[str, Any]] = {}
        for row in connection.execute(sa.select(metric_scores).order_by(metric_scores.c.take)).mappings():
            if row["result_id"] not in used or versions.get(row["metric_id"]) != row["metric_version"]:
                continue
            wanted_take = (used[row["result_id"]].takes or {}).get(row["metric_id"])
            if row["take"] == wanted_take or (wanted_take is None and row["status"] != "error"):
                scores.setdefault((used[row["result_id"]].item_id, row["metric_id"]), _alike(row))
        found["metric_scores"] = scores
        summaries = connection.execute(
            sa.select(metric_summaries).where(metric_summaries.c.evaluation_id == evaluation_id)
        ).mappings()
        found["metric_summaries"] = {row["metric_id"]: _alike(row) for row in summaries}
    return found


def _alike(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in UNLIKE}


def differences(one: Rows, other: Rows) -> list[str]:
    """`table key: columns` for every row that is not the same in both."""
    found = []
    for table in one:
        for key in sorted({*one[table], *other[table]}, key=str):
            left, right = one[table].get(key), other[table].get(key)
            if left is None or right is None:
                found.append(f"{table} {key}: only in {'the second' if left is None else 'the first'}")
            elif left != right:
                found.append(f"{table} {key}: {', '.join(name for name in left if left[name] != right[name])}")
    return found
