"""Scores: each metric's outcomes for results, take by take, and its summary over an evaluation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster import records
from rageval_dagster.records import Outcome
from rageval_dagster.storage import tables
from rageval_dagster.storage.database import Database, retried, rows_in, same, upsert
from rageval_dagster.storage.evaluations import Evaluation, client_of, in_dataset
from rageval_dagster.storage.tables import (
    dataset_items,
    evaluation_runs,
    metric_scores,
    metric_summaries,
    night_scores,
    repeated_scores,
)
from rageval_dagster.storage.types import storable, utc_now

_NAMED = ("result_id", "metric_id", "metric_version", "take")
_OUTCOME = ("status", "value", "reason", "detail")


@dataclass(frozen=True)
class Summary(records.Summary):
    """The summary of a metric over an evaluation, as the history keeps it.

    `ceiling` is the best mean that any ranking could reach; None where that is 1. `good_value` is what the metric
    declared when it was run; None where it declares none.
    """

    metric_id: str
    ceiling: float | None
    metric_version: str
    higher_is_better: bool = True
    good_value: float | None = None


def scored(
    db: Database,
    client_id: str,
    result_ids: Iterable[str],
    metric_versions: Mapping[str, str],
    oldest: Mapping[str, datetime] | None = None,
) -> dict[tuple[str, str], int | None]:
    """{(result id, metric id): take} of the newest outcome without an error under the metric's version.

    The take is None where it is the first one without an error, which counts where nothing else is said. `oldest` are
    times by metric id: an outcome from before is as good as none.
    """
    found: dict[tuple[str, str], int | None] = {}
    first: set[tuple[str, str]] = set()
    query = _takes(client_id, "created_at").where(metric_scores.c.status != "error")
    for row in db.rows_in(query, metric_scores.c.result_id, result_ids):
        if metric_versions.get(row.metric_id) != row.metric_version:
            continue
        key = (row.result_id, row.metric_id)
        limit = (oldest or {}).get(row.metric_id)
        if limit is None or row.created_at >= limit:
            found[key] = row.take if key in first else None
        first.add(key)
    return found


def _takes(client_id: str, *columns: str) -> sa.Select[Any]:
    """A client's scores by take: what names each, and these columns."""
    wanted = (metric_scores.c[name] for name in (*_NAMED, *columns))
    query = sa.select(*wanted).where(metric_scores.c.client_id == client_id)
    return query.order_by(metric_scores.c.take)


@retried
def save_scores(
    db: Database,
    evaluation_id: int,
    scores: Sequence[tuple[str, str, str, Outcome]],
    oldest: Mapping[str, datetime] | None = None,
) -> None:
    """Stores (result id, metric id, metric version, outcome) rows; saving the same again changes nothing.

    A key's outcome without an error is final, until it is from before its metric's time in `oldest`. After an error, or
    an outcome that is too old, another outcome is a new take, as old as the replies that it is made of; the evaluation
    remembers which take it used where that is not the first one without an error.
    """
    with db.begin() as connection:
        client_id = client_of(connection, evaluation_id)
        used = _insert_takes(connection, client_id, scores, oldest)
        _remember_takes(connection, client_id, evaluation_id, used)


@retried
def save_rescored(db: Database, client_id: str, scores: Sequence[tuple[str, str, str, Outcome]]) -> None:
    """Stores scores of results under metric versions that their own evaluation was not scored by: it keeps its own."""
    with db.begin() as connection:
        _insert_takes(connection, client_id, scores, None)


@retried
def use_takes(db: Database, evaluation_id: int, takes: Mapping[tuple[str, str], int | None]) -> None:
    """Lets an evaluation use the takes of scores that were made before it, by (result id, metric id)."""
    used: dict[str, dict[str, int | None]] = {}
    for (result_id, metric_id), take in takes.items():
        used.setdefault(result_id, {})[metric_id] = take
    with db.begin() as connection:
        _remember_takes(connection, client_of(connection, evaluation_id), evaluation_id, used)


def load_scores(db: Database, evaluation_id: int, metric_versions: Mapping[str, str]) -> dict[str, dict[str, Outcome]]:
    """{metric id: {item id: outcome}} of the takes that this evaluation used; metrics without any are left out."""
    items = tables.run_items
    of = metric_scores.c
    query = (
        sa.select(items.c.item_id, items.c.takes, *(of[name] for name in (*_NAMED, *_OUTCOME)))
        .select_from(in_dataset().join(metric_scores, same(metric_scores, items, "client_id", "result_id")))
        .where(items.c.evaluation_id == evaluation_id, of.metric_id.in_(metric_versions))
        .order_by(dataset_items.c.position, items.c.item_id, of.metric_id, of.take)
    )
    found: dict[str, dict[str, Outcome]] = {metric_id: {} for metric_id in metric_versions}
    for row in db.rows(query):
        if metric_versions.get(row.metric_id) != row.metric_version:
            continue
        wanted = (row.takes or {}).get(row.metric_id)
        is_used = row.take == wanted if wanted is not None else row.status != "error"
        if is_used:
            found[row.metric_id].setdefault(row.item_id, Outcome(row.status, row.value, row.reason, row.detail))
    return {metric_id: outcomes for metric_id, outcomes in found.items() if outcomes}


_SUMMARY_COLUMNS = {
    name: {"min": "min_value", "max": "max_value"}.get(name, name) for name in Summary.__dataclass_fields__
}


@retried
def save_summaries(db: Database, evaluation_id: int, summaries: Sequence[Summary]) -> None:
    """Stores an evaluation's summaries, one a metric; of one that is there, the figures are renewed."""
    with db.begin() as connection:
        client_id = client_of(connection, evaluation_id)
        rows = [
            {
                "evaluation_id": evaluation_id,
                "client_id": client_id,
                **{column: getattr(summary, name) for name, column in _SUMMARY_COLUMNS.items()},
            }
            for summary in summaries
        ]
        changing = [column for column in _SUMMARY_COLUMNS.values() if column != "metric_id"]
        upsert(connection, metric_summaries, rows, update=changing)


def load_summaries(db: Database, evaluation_id: int) -> list[Summary]:
    """An evaluation's summaries by metric id."""
    query = (
        sa.select(*(metric_summaries.c[column].label(name) for name, column in _SUMMARY_COLUMNS.items()))
        .where(metric_summaries.c.evaluation_id == evaluation_id)
        .order_by(metric_summaries.c.metric_id)
    )
    return [Summary(**row._mapping) for row in db.rows(query)]


def metrics_of_client(db: Database, client_id: str) -> set[str]:
    """The ids of all metrics that any of the client's evaluations has."""
    of = metric_summaries.c
    return set(db.scalars(sa.select(of.metric_id).where(of.client_id == client_id).distinct()))


def means(db: Database, metric_id: str, evaluation_ids: Iterable[int]) -> dict[int, float]:
    """{evaluation: its mean of the metric}, of those that have one."""
    query = sa.select(metric_summaries.c.evaluation_id, metric_summaries.c.mean).where(
        metric_summaries.c.metric_id == metric_id, metric_summaries.c.mean.is_not(None)
    )
    return {row.evaluation_id: row.mean for row in db.rows_in(query, metric_summaries.c.evaluation_id, evaluation_ids)}


def load_rescored(
    db: Database, client_id: str, results: Mapping[str, str], metric_versions: Mapping[str, str]
) -> dict[str, dict[str, Outcome]]:
    """{metric id: {item id: outcome}} of results ({item id: result id}) by their newest takes under these versions.

    An outcome without an error goes before a newer error.
    """
    items: dict[str, list[str]] = {}
    for item_id, result_id in results.items():
        items.setdefault(result_id, []).append(item_id)
    found: dict[str, dict[str, Outcome]] = {metric_id: {} for metric_id in metric_versions}
    for row in db.rows_in(_takes(client_id, *_OUTCOME), metric_scores.c.result_id, items):
        if metric_versions.get(row.metric_id) != row.metric_version:
            continue
        column = found[row.metric_id]
        for item_id in items[row.result_id]:
            if row.status != "error" or item_id not in column:
                column[item_id] = Outcome(row.status, row.value, row.reason, row.detail)
    return {metric_id: outcomes for metric_id, outcomes in found.items() if outcomes}


def values_by_version(
    db: Database, client_id: str, metric_id: str, result_ids: Iterable[str]
) -> dict[str, dict[str, float]]:
    """{metric version: {result id: its newest value}} of results by every version that ever scored them."""
    of = metric_scores.c
    found: dict[str, dict[str, float]] = {}
    query = _takes(client_id, "value").where(of.metric_id == metric_id, of.value.is_not(None))
    for row in db.rows_in(query, of.result_id, result_ids):
        found.setdefault(row.metric_version, {})[row.result_id] = row.value
    return found


def runs_by_version(db: Database, client_id: str, metric_id: str) -> dict[str, set[str]]:
    """{metric version: the Dagster runs of the evaluations that were measured by it}."""
    of, runs = metric_summaries.c, evaluation_runs.c
    query = (
        sa.select(of.metric_version, runs.dagster_run_id)
        .join(evaluation_runs, runs.id == of.evaluation_id)
        .where(runs.client_id == client_id, of.metric_id == metric_id, runs.dagster_run_id.is_not(None))
    )
    found: dict[str, set[str]] = {}
    for row in db.rows(query):
        found.setdefault(row.metric_version, set()).add(row.dagster_run_id)
    return found


def save_night_scores(
    db: Database, client_id: str, metric_version: str, scores: Mapping[tuple[int, str], Mapping[str, float]]
) -> None:
    """Keeps {(evaluation number, metric id): {item id: value}} for the verdicts of later nights."""
    rows = [
        {
            "evaluation_id": evaluation_id,
            "client_id": client_id,
            "metric_id": metric_id,
            "metric_version": metric_version,
            "scores": dict(values),
        }
        for (evaluation_id, metric_id), values in scores.items()
    ]
    db.upsert(night_scores, rows, update=["scores"])


def metric_versions(db: Database, evaluation_ids: Iterable[int], metric_id: str) -> dict[int, str]:
    """The version by which evaluations measured a metric; without those that did not."""
    of = metric_summaries.c
    query = sa.select(of.evaluation_id, of.metric_version).where(of.metric_id == metric_id)
    return {row.evaluation_id: row.metric_version for row in db.rows_in(query, of.evaluation_id, evaluation_ids)}


def load_night_scores(
    db: Database, evaluation_ids: Iterable[int], metric_id: str, metric_version: str
) -> dict[int, dict[str, float]]:
    """{evaluation number: {item id: value}} of those that were kept."""
    of = night_scores.c
    query = sa.select(of.evaluation_id, of.scores).where(of.metric_id == metric_id, of.metric_version == metric_version)
    return {row.evaluation_id: row.scores for row in db.rows_in(query, of.evaluation_id, evaluation_ids)}


TIMES = 3
"""How often a question is asked that joins or turned, with the evaluation's own time."""


@dataclass(frozen=True)
class Repeated:
    """What a question scored when it was asked three times: {metric id: three values}, the evaluation's own first.

    The metrics are of the versions by which an evaluation is measured.

    `result_id` is the result that the evaluation's own value is of, `system_version` that of its system; None where the
    system declared none. A value is None where there was nothing to score.
    """

    evaluation_id: int
    result_id: str
    scores: Mapping[str, Sequence[float | None]]
    system_version: str | None

    def is_of(self, evaluation: Evaluation, result_id: str | None) -> bool:
        """Whether it tells of this result of an evaluation: asked there, or reused there by the same version.

        Another version that says the same for once may not say it each time.
        """
        if self.evaluation_id == evaluation.id:
            return True
        known = evaluation.system_declared is not None and self.system_version == evaluation.versions.system
        return known and self.result_id == result_id


def save_repeated(db: Database, evaluation: Evaluation, questions: Mapping[str, Repeated]) -> None:
    """Keeps what questions scored when they were asked three times, by the questions' keys."""
    versions = _versions(db, evaluation)
    rows = [
        {
            "evaluation_id": evaluation.id,
            "client_id": evaluation.client_id,
            "question": key,
            "result_id": each.result_id,
            "scores": {name: {versions[name]: list(values)} for name, values in each.scores.items()},
        }
        for key, each in questions.items()
    ]
    db.upsert(repeated_scores, rows, update=["result_id", "scores"])


def load_repeated(db: Database, evaluation: Evaluation) -> dict[str, list[Repeated]]:
    """Of each question that a system was asked three times, up to this evaluation of it: when, oldest first.

    Only what metrics of this evaluation's versions scored: what another judge confirmed is confirmed no more.
    """
    versions = _versions(db, evaluation)
    of, runs = repeated_scores.c, evaluation_runs.c
    version = sa.case((runs.system_declared.is_not(None), runs.system_version))
    query = (
        sa.select(of.question, of.evaluation_id, of.result_id, of.scores, version)
        .join(evaluation_runs, runs.id == of.evaluation_id)
        .where(
            runs.client_id == evaluation.client_id,
            runs.system_name == evaluation.system,
            of.evaluation_id <= evaluation.id,
        )
        .order_by(of.evaluation_id)
    )
    found: dict[str, list[Repeated]] = {}
    for question, evaluation_id, result_id, by_version, system in map(tuple, db.rows(query)):
        scores = {name: by_version[name][v] for name, v in versions.items() if v in by_version.get(name, {})}
        if scores:
            found.setdefault(question, []).append(Repeated(evaluation_id, result_id, scores, system))
    return found


def _versions(db: Database, evaluation: Evaluation) -> dict[str, str]:
    return {each.metric_id: each.metric_version for each in load_summaries(db, evaluation.id)}


@dataclass(frozen=True)
class _Take:
    number: int
    status: str
    reason: str | None
    created_at: datetime

    def holds(self, oldest: datetime | None) -> bool:
        return self.status != "error" and (oldest is None or self.created_at >= oldest)


def _insert_takes(
    connection: Connection,
    client_id: str,
    scores: Sequence[tuple[str, str, str, Outcome]],
    oldest: Mapping[str, datetime] | None,
) -> dict[str, dict[str, int | None]]:
    """Stores the scores that are new; returns {result id: {metric id: the take to use, None: the first good one}}."""
    now = utc_now()
    # Every stored outcome, oldest first.
    known: dict[tuple[str, str, str], list[_Take]] = {}
    query = _takes(client_id, "status", "reason", "created_at")
    results = sorted({score[0] for score in scores})
    for result_id, metric_id, version, *take in rows_in(connection, query, metric_scores.c.result_id, results):
        known.setdefault((result_id, metric_id, version), []).append(_Take(*take))
    new_rows: list[dict[str, Any]] = []
    used: dict[str, dict[str, int | None]] = {}
    for result_id, metric_id, metric_version, outcome in scores:
        takes = known.setdefault((result_id, metric_id, metric_version), [])
        limit = (oldest or {}).get(metric_id)
        if not any(take.holds(limit) for take in takes):
            reason = None if outcome.reason is None else storable(outcome.reason)
            last = takes[-1] if takes else None
            # The same error again is none worth a row.
            if last is None or last.status != "error" or (last.status, last.reason) != (outcome.status, reason):
                made_at = outcome.made_at or now
                takes.append(_Take(last.number + 1 if last else 0, outcome.status, reason, made_at))
                new_rows.append(
                    {
                        "client_id": client_id,
                        "result_id": result_id,
                        "metric_id": metric_id,
                        "metric_version": metric_version,
                        "take": takes[-1].number,
                        "status": outcome.status,
                        "value": outcome.value,
                        "reason": outcome.reason,
                        "detail": None if outcome.detail is None else dict(outcome.detail),
                        "created_at": made_at,
                    }
                )
        first = next((take for take in takes if take.status != "error"), None)
        used.setdefault(result_id, {})[metric_id] = None if takes[-1] is first else takes[-1].number
    upsert(connection, metric_scores, new_rows)
    return used


def _remember_takes(
    connection: Connection, client_id: str, evaluation_id: int, used: Mapping[str, Mapping[str, int | None]]
) -> None:
    items = tables.run_items
    query = sa.select(items.c.item_id, items.c.result_id, items.c.takes).where(items.c.evaluation_id == evaluation_id)
    of = {"evaluation_id": evaluation_id, "client_id": client_id}
    changed = []
    for row in connection.execute(query):
        before = row.takes or {}
        now = {**before, **used.get(row.result_id, {})}
        after = {metric_id: take for metric_id, take in now.items() if take is not None}
        if after != before:
            changed.append({**of, "item_id": row.item_id, "takes": after or None})
    upsert(connection, items, changed, update=["takes"])
