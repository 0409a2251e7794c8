"""What people say of answers, and which answers they are asked about."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.storage.database import Database, retried, rows_in, same, upsert
from rageval_dagster.storage.evaluations import client_of
from rageval_dagster.storage.tables import (
    answer_labels,
    evaluation_runs,
    item_results,
    judge_checks,
    label_queue,
    metric_summaries,
    run_items,
)
from rageval_dagster.storage.types import utc_now

MOST_CHECKED = 60
"""Labelled answers that are judged anew by a metric in one evaluation, to see whether its judge has changed."""

_ANSWER = ("client_id", "result_id")


@dataclass(frozen=True)
class Label:
    """What a person says of an answer by one metric: a value in [0, 1], None where they cannot say; `note` is why."""

    result_id: str
    metric_id: str
    person: str
    value: float | None
    note: str | None = None
    labelled_at: datetime | None = None


@dataclass(frozen=True)
class Queued:
    """The stratum of a result, and its place in the queue; None where it was not drawn."""

    stratum: str
    place: int | None


@retried
def save_labels(db: Database, client_id: str, labels: Sequence[Label]) -> int:
    """Stores labels at once; a person's later label of the same answer takes the place of the earlier one.

    Returns how many were stored: none of an answer that the client does not have, or no longer.
    """
    now = utc_now()
    with db.begin() as connection:
        there = _held(connection, client_id, (each.result_id for each in labels))
        rows = [
            {
                "client_id": client_id,
                "result_id": each.result_id,
                "metric_id": each.metric_id,
                "person": each.person,
                "value": each.value,
                "note": each.note,
                "labelled_at": each.labelled_at or now,
            }
            for each in labels
            if each.result_id in there
        ]
        upsert(connection, answer_labels, rows, update=["value", "note", "labelled_at"])
    return len(rows)


def load_labels(db: Database, client_id: str, metric_id: str, result_ids: Iterable[str]) -> dict[str, list[Label]]:
    """{result id: its labels by person} of those that have any."""
    of = answer_labels.c
    columns = [of[name] for name in Label.__dataclass_fields__]
    query = sa.select(*columns).where(of.client_id == client_id, of.metric_id == metric_id)
    found: dict[str, list[Label]] = {}
    for row in db.rows_in(query, of.result_id, result_ids):
        found.setdefault(row.result_id, []).append(Label(**row._mapping))
    return {name: sorted(found[name], key=lambda each: each.person) for name in sorted(found)}


def load_queue(
    db: Database, client_id: str, metric_id: str, result_ids: Iterable[str] | None = None
) -> dict[str, Queued]:
    """{result id: its place} of those that have a stratum; of all of the client's where none are named."""
    of = label_queue.c
    query = sa.select(of.result_id, of.stratum, of.place).where(of.client_id == client_id, of.metric_id == metric_id)
    rows = db.rows(query) if result_ids is None else db.rows_in(query, of.result_id, result_ids)
    return {row.result_id: Queued(row.stratum, row.place) for row in rows}


@retried
def save_queue(db: Database, client_id: str, metric_id: str, queued: Mapping[str, Queued]) -> None:
    """Stores strata and places of answers that the client has. A stratum, and a place that was given, stay."""
    with db.begin(checked=False) as connection:
        there = _held(connection, client_id, queued)
        rows = [
            {
                "client_id": client_id,
                "metric_id": metric_id,
                "result_id": result_id,
                "stratum": each.stratum,
                "place": each.place,
            }
            for result_id, each in queued.items()
            if result_id in there
        ]
        kept = label_queue.c.place
        upsert(connection, label_queue, rows, update=lambda new: {"place": sa.func.coalesce(kept, new.place)})


def queued_metrics(db: Database) -> dict[str, list[str]]:
    """{client: the metrics by which people are asked about its answers} of the clients that have any."""
    of = label_queue.c
    query = sa.select(of.client_id, of.metric_id).where(of.place.is_not(None)).distinct()
    found: dict[str, list[str]] = {}
    for client_id, metric_id in sorted(tuple(row) for row in db.rows(query)):
        found.setdefault(client_id, []).append(metric_id)
    return found


def last_place(db: Database, client_id: str, metric_id: str) -> int:
    """The last place in the queue of a metric; 0 where it is empty."""
    of = label_queue.c
    query = sa.select(sa.func.max(of.place)).where(of.client_id == client_id, of.metric_id == metric_id)
    return db.scalars(query)[0] or 0


def labelled_counts(db: Database, client_id: str) -> dict[str, int]:
    """{metric id: how many of the client's answers people labelled by it}, without metrics that have none."""
    of = answer_labels.c
    count = sa.func.count(of.result_id.distinct()).label("answers")
    query = sa.select(of.metric_id, count).where(of.client_id == client_id).group_by(of.metric_id)
    return {row.metric_id: row.answers for row in db.rows(query.order_by(of.metric_id))}


def labelled_evaluations(db: Database, client_id: str) -> set[int]:
    """The client's complete evaluations in which any labelled answer stands."""
    runs = evaluation_runs.c
    query = (
        sa.select(runs.id)
        .join(run_items, run_items.c.evaluation_id == runs.id)
        .join(answer_labels, same(answer_labels, run_items, *_ANSWER))
        .where(runs.client_id == client_id, runs.status == "complete")
        .distinct()
    )
    return set(db.scalars(query))


@dataclass(frozen=True)
class CorrectedFigures:
    """A metric's mean as labels correct it, with its 95 % interval, and how often judge and people agree.

    All but `labels` are None where these are too few.
    """

    corrected_mean: float | None
    corrected_low: float | None
    corrected_high: float | None
    labels: int
    agreement: float | None


@retried
def save_corrected(db: Database, evaluation_id: int, figures: Mapping[str, CorrectedFigures]) -> None:
    """Keeps what labels make of an evaluation's metrics, by metric id, in place of what was kept."""
    of = metric_summaries.c
    with db.begin() as connection:
        for metric_id, each in sorted(figures.items()):
            update = sa.update(metric_summaries).where(of.evaluation_id == evaluation_id, of.metric_id == metric_id)
            connection.execute(update.values(asdict(each)))


def load_corrected(db: Database, metric_id: str, evaluation_ids: Iterable[int]) -> dict[int, CorrectedFigures]:
    """{evaluation: what labels make of its metric}, of those where they suffice."""
    of = metric_summaries.c
    columns = [of[name] for name in CorrectedFigures.__dataclass_fields__]
    query = sa.select(of.evaluation_id, *columns).where(of.metric_id == metric_id, of.corrected_mean.is_not(None))
    return {id: CorrectedFigures(*figures) for id, *figures in db.rows_in(query, of.evaluation_id, evaluation_ids)}


def drawn_and_labelled(db: Database, client_id: str, metric_id: str, evaluation_ids: Sequence[int]) -> dict[str, int]:
    """{result id: the first of these evaluations that has it} of the answers that were drawn, and of which people said
    anything."""
    labels, queue, items = answer_labels.c, label_queue.c, run_items.c
    query = (
        sa.select(items.result_id, sa.func.min(items.evaluation_id).label("first"))
        .join(answer_labels, same(answer_labels, run_items, *_ANSWER))
        .join(label_queue, same(label_queue, answer_labels, *_ANSWER, "metric_id"))
        .where(
            items.evaluation_id.in_(evaluation_ids),
            labels.client_id == client_id,
            labels.metric_id == metric_id,
            labels.value.is_not(None),
            queue.place.is_not(None),
        )
        .group_by(items.result_id)
        .order_by(items.result_id)
    )
    return {row.result_id: row.first for row in db.rows(query)}


@dataclass(frozen=True)
class JudgeCheck:
    """Old answers that a judge was asked about again in an evaluation: {result id: (item id, score then, score now)}.

    Scores are in [0, 1]; now None: it was asked, and no score came of it.
    """

    evaluation_id: int
    metric_version: str
    scores: Mapping[str, tuple[str, float, float | None]]


@retried
def save_judge_check(db: Database, metric_id: str, check: JudgeCheck) -> None:
    """Keeps a check of a metric's judge, in place of the one that its evaluation has."""
    with db.begin() as connection:
        row = {
            "evaluation_id": check.evaluation_id,
            "client_id": client_of(connection, check.evaluation_id),
            "metric_id": metric_id,
            "metric_version": check.metric_version,
            "scores": {name: list(scores) for name, scores in check.scores.items()},
        }
        upsert(connection, judge_checks, [row], update=["metric_version", "scores"])


def newest_judge_checks(db: Database, evaluation_ids: Iterable[int], least: int = 0) -> dict[str, JudgeCheck]:
    """{metric id: the newest check of its judge that gave at least so many scores} in these evaluations."""
    of = judge_checks.c
    query = sa.select(of.metric_id, of.evaluation_id, of.metric_version, of.scores)
    rows = sorted(db.rows_in(query, of.evaluation_id, evaluation_ids), key=lambda row: row.evaluation_id)
    return {
        row.metric_id: JudgeCheck(
            row.evaluation_id, row.metric_version, {name: tuple(each) for name, each in row.scores.items()}
        )
        for row in rows
        if sum(now is not None for _, _, now in row.scores.values()) >= least
    }


def labelled_results(db: Database, client_id: str, metric_id: str) -> dict[str, int]:
    """{result id: the newest complete evaluation that has it} of the answers of which people said anything."""
    labels, runs, items = answer_labels.c, evaluation_runs.c, run_items.c
    query = (
        sa.select(items.result_id, sa.func.max(runs.id).label("newest"))
        .join(run_items, items.evaluation_id == runs.id)
        .join(answer_labels, same(answer_labels, run_items, *_ANSWER))
        .where(runs.client_id == client_id, runs.status == "complete")
        .where(labels.metric_id == metric_id, labels.value.is_not(None))
        .group_by(items.result_id)
        .order_by(items.result_id)
    )
    return {row.result_id: row.newest for row in db.rows(query)}


def _held(connection: Connection, client_id: str, result_ids: Iterable[str]) -> set[str]:
    """Those of the ids that are results of the client, and stay so until the transaction ends.

    Who forgets a client deletes its results, and what people say of them after that: so it gets no label any more.
    """
    of = item_results.c
    query = sa.select(of.result_id).where(of.client_id == client_id).with_for_update(read=True)
    return {row.result_id for row in rows_in(connection, query, of.result_id, result_ids)}
