"""Baselines, and what came of comparing evaluations with them: rows by metric, verdict, changes, failing questions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Literal

import sqlalchemy as sa

from rageval_dagster.records import Decision
from rageval_dagster.storage.database import Database, retried, upsert
from rageval_dagster.storage.evaluations import (
    Evaluation,
    client_of,
    evaluations_by_id,
    has_changed_silently,
    in_series,
    update_evaluation,
)
from rageval_dagster.storage.tables import baselines, evaluation_datasets, evaluation_runs, metric_comparisons
from rageval_dagster.storage.types import utc_now

Reason = Literal["first", "accepted", "better"]
Verdict = Literal["first", "passed", "regressed", "unclear", "failed"]
Trouble = Literal["regressed", "unclear", "failed", "leaked"]


@dataclass(frozen=True)
class Baseline:
    """The reference of a dataset's name and a system: which evaluation, since when, why, and who said so."""

    evaluation_id: int
    accepted_at: datetime
    reason: Reason
    accepted_by: str | None = None


@dataclass(frozen=True)
class MetricComparison:
    """A metric of an evaluation against its reference.

    `difference` is by how much the level changed since then, with its 95 % interval, over all questions that link the
    two; None where none do. `baseline_mean` is the reference's own mean, `mean` that with the difference added: what
    the reference's questions would score now. `n_shared` questions were scored both times. `lasting` is the mean
    difference of the last four nights. `smallest_drop` is the smallest change for the worse that would have been called
    a regression in 80 % of such comparisons, None where none would. `noise`, `drift` and `shift` are the variances that
    the verdict stands on. `better` is whether it surely rose; `suspected` whether it would be a regression as a single
    look. `remark` says what else to know.
    """

    metric_id: str
    metric_version: str
    higher_is_better: bool
    baseline_id: int
    gated: bool
    n_shared: int
    baseline_mean: float | None
    mean: float | None
    difference: float | None
    ci_low: float | None
    ci_high: float | None
    smallest_drop: float | None
    decision: Decision
    lasting: float | None = None
    noise: float | None = None
    drift: float | None = None
    shift: float | None = None
    better: bool = False
    suspected: bool = False
    remark: str | None = None

    @property
    def fall(self) -> float | None:
        """By how much the metric got worse; below 0 where it got better."""
        if self.difference is None:
            return None
        return -self.difference if self.higher_is_better else self.difference


@dataclass(frozen=True)
class Change:
    """One of corpus, index, dataset, system and judge that changed between two evaluations.

    `worse` is how many of the questions that got worse, or lost their evidence, are laid to it, `better` how many that
    got better, and `since` the earlier evaluation; None where that is not known. `documents` are the ids of the first
    documents that it is about, where it names any.
    """

    what: str
    detail: str
    worse: int | None = None
    since: int | None = None
    documents: tuple[str, ...] = ()
    better: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "documents", tuple(self.documents))  # JSON gives a list


@dataclass(frozen=True)
class Judgement:
    """What became of an evaluation at the gate.

    `newly_failing` are the ids of items that were right when they were first asked since the baseline, and are wrong
    now: each time that they were asked, unless `asked_again` is false. `newly_passing` are those that were wrong.
    """

    verdict: Verdict | None
    baseline_id: int | None
    changes: tuple[Change, ...]
    newly_failing: tuple[str, ...]
    asked_again: bool = True
    newly_passing: tuple[str, ...] = ()


_WORST_FIRST: tuple[Verdict, ...] = ("regressed", "unclear", "passed")


@dataclass(frozen=True)
class Reading:
    """A night's changes since the baseline: {metric id: (difference, low, high)} of the gate's metrics that have one.

    `accepted` is whether it is a baseline now; its `verdict` is then the worst of its metrics'. `released` is whether
    the system has another version than on the night before; not where it failed on questions and did not say which.
    `changed_silently` is whether it has the same one, and is another system.
    """

    evaluation_id: int
    started_at: datetime
    verdict: Verdict | None
    accepted: bool
    released: bool
    changed_silently: bool
    changes: Mapping[str, tuple[float, float, float]]


def readings(db: Database, evaluation: Evaluation, baseline_id: int) -> list[Reading]:
    """What the evaluations up to this one read against that baseline, oldest first."""
    runs, rows = evaluation_runs.c, metric_comparisons.c
    columns = (rows.metric_id, rows.difference, rows.ci_low, rows.ci_high, rows.decision)
    of_system = (runs.system_version, runs.system_declared, runs.error_count)
    query = (
        sa.select(runs.id, runs.started_at, runs.verdict, *of_system, *columns)
        .join(metric_comparisons, sa.and_(rows.evaluation_id == runs.id, rows.gated))
        .join(evaluation_datasets, evaluation_datasets.c.id == runs.dataset_id)
        .where(in_series(evaluation), rows.baseline_id == baseline_id, runs.id <= evaluation.id)
        .order_by(runs.id, rows.metric_id)
    )
    found: list[Reading] = []
    before = next(iter(db.rows(sa.select(*of_system).where(runs.id == baseline_id))), None)
    for id, rows_of_night in groupby(db.rows(query), key=lambda row: row.id):
        night = list(rows_of_night)
        now = night[0]
        changes = {
            row.metric_id: (row.difference, row.ci_low, row.ci_high) for row in night if row.difference is not None
        }
        is_silent = now.error_count and now.system_declared is None and before and before.system_declared is not None
        is_other = before is not None and not is_silent and now.system_version != before.system_version
        accepted = now.verdict == "first"  # what it was before stands in its metrics only
        decisions: set[str] = {row.decision for row in night}
        was: Verdict | None = next((each for each in _WORST_FIRST if each in decisions), None)
        verdict = was if accepted else now.verdict
        silently = is_other and before is not None and has_changed_silently(before.system_version, now.system_version)
        released = is_other and not silently
        found.append(Reading(id, now.started_at, verdict, accepted, released, silently, changes))
        before = before if is_silent else now
    return found


@retried
def save_baseline(db: Database, evaluation: Evaluation, reason: Reason, accepted_by: str | None = None) -> None:
    """Makes an evaluation the reference of its dataset's name and its system, unless it is."""
    with db.begin() as connection:
        newest = connection.execute(
            _newest(evaluation.client_id, evaluation.dataset_name, evaluation.system)
        ).one_or_none()
        if newest is not None and newest.evaluation_id == evaluation.id:
            return
        connection.execute(
            sa.insert(baselines).values(
                client_id=evaluation.client_id,
                dataset_name=evaluation.dataset_name,
                system_name=evaluation.system,
                evaluation_id=evaluation.id,
                accepted_at=utc_now(),
                reason=reason,
                accepted_by=accepted_by,
            )
        )


def find_baseline(db: Database, client_id: str, dataset_name: str, system: str) -> Baseline | None:
    """The reference of a dataset's name and a system; None before the first complete evaluation."""
    return next((Baseline(*row) for row in db.rows(_newest(client_id, dataset_name, system))), None)


def current_baselines(db: Database, client_id: str | None = None) -> set[int]:
    """The evaluations that others of their dataset's name and system are compared with now: all, or one client's."""
    groups = (baselines.c.client_id, baselines.c.dataset_name, baselines.c.system_name)
    newest = sa.select(sa.func.max(baselines.c.id)).group_by(*groups)
    query = sa.select(baselines.c.evaluation_id).where(baselines.c.id.in_(newest))
    if client_id is not None:
        query = query.where(baselines.c.client_id == client_id)
    return set(db.scalars(query))


@retried
def save_comparisons(db: Database, evaluation_id: int, rows: Sequence[MetricComparison]) -> None:
    """Stores an evaluation's comparisons in place of those that it had."""
    with db.begin() as connection:
        client_id = client_of(connection, evaluation_id)
        here = metric_comparisons.c.evaluation_id == evaluation_id
        connection.execute(sa.delete(metric_comparisons).where(here))
        found = [{"evaluation_id": evaluation_id, "client_id": client_id, **asdict(row)} for row in rows]
        upsert(connection, metric_comparisons, found)


def load_comparisons(db: Database, evaluation_id: int) -> list[MetricComparison]:
    """An evaluation's comparisons with its baseline, the gate's first, then by metric id."""
    rows = metric_comparisons.c
    query = sa.select(*(rows[name] for name in MetricComparison.__dataclass_fields__))
    query = query.where(rows.evaluation_id == evaluation_id).order_by(rows.gated.desc(), rows.metric_id)
    return [MetricComparison(*row) for row in db.rows(query)]


def save_judgement(db: Database, evaluation_id: int, judgement: Judgement) -> None:
    """Stores what became of an evaluation at the gate."""
    update_evaluation(
        db,
        evaluation_id,
        verdict=judgement.verdict,
        baseline_id=judgement.baseline_id,
        changes=[asdict(change) for change in judgement.changes],
        newly_failing=list(judgement.newly_failing),
        newly_passing=list(judgement.newly_passing),
        asked_again=judgement.asked_again,
    )


def mark_first(db: Database, evaluation_id: int) -> None:
    """Says of an evaluation that it is what others are held against, whatever its verdict was."""
    update_evaluation(db, evaluation_id, verdict="first")


def load_judgements(db: Database, evaluation_ids: Iterable[int]) -> Mapping[int, Judgement]:
    """What became of evaluations at the gate, by evaluation; those that were not there yet have no verdict."""
    columns = [evaluation_runs.c[name] for name in ("id", *Judgement.__dataclass_fields__)]
    return {
        row.id: Judgement(
            verdict=row.verdict,
            baseline_id=row.baseline_id,
            changes=tuple(Change(**change) for change in row.changes or ()),
            newly_failing=tuple(row.newly_failing or ()),
            newly_passing=tuple(row.newly_passing or ()),
            asked_again=row.asked_again is not False,
        )
        for row in db.rows_in(sa.select(*columns), evaluation_runs.c.id, evaluation_ids)
    }


def last_good(db: Database, evaluation: Evaluation) -> int | None:
    """The newest complete evaluation before this one, of its dataset's name and system, that was found to be good.

    One that returned another client's passages was not, whatever its scores.
    """
    runs = evaluation_runs.c
    clean = sa.func.coalesce(runs.foreign_chunks, 0) == 0
    return _newest_before(db, evaluation, runs.verdict.in_(["first", "passed"]) & clean)


def trouble_before(db: Database, evaluation: Evaluation) -> Trouble | None:
    """What was wrong with the complete evaluation right before this one, of its dataset's name and system; None where
    it passed."""
    before = _newest_before(db, evaluation, sa.true())
    if before is None:
        return None
    if evaluations_by_id(db, [before])[before].foreign_chunks:
        return "leaked"
    verdict = load_judgements(db, [before])[before].verdict
    return None if verdict in ("first", "passed", None) else verdict


def since_when(db: Database, evaluation: Evaluation, verdict: Verdict) -> datetime | None:
    """When the first evaluation with that verdict started since the last good one, this one among them; None: none has
    it."""
    runs = evaluation_runs.c
    query = sa.select(runs.started_at).join(evaluation_datasets, evaluation_datasets.c.id == runs.dataset_id)
    since = runs.id.between((last_good(db, evaluation) or 0) + 1, evaluation.id)
    query = query.where(in_series(evaluation), runs.verdict == verdict, since).order_by(runs.id).limit(1)
    return next(iter(db.scalars(query)), None)


def fleet_variances(db: Database, metric_id: str, until: datetime) -> tuple[float, float, float] | None:
    """The mean noise, drift and shift of a metric over all systems whose scores moved in the week up to then; None
    without any."""
    rows, runs = metric_comparisons.c, evaluation_runs.c
    columns = (rows.noise, rows.drift, rows.shift)
    newest = (
        sa.select(sa.func.max(runs.id))
        .join(metric_comparisons, rows.evaluation_id == runs.id)
        .where(rows.metric_id == metric_id, rows.gated, runs.finished_at.between(until - timedelta(days=7), until))
        .group_by(runs.client_id, runs.system_name)
    )
    query = sa.select(*(sa.func.avg(column) for column in columns)).where(
        rows.evaluation_id.in_(newest), rows.metric_id == metric_id, rows.noise > 0
    )
    [found] = map(tuple, db.rows(query))
    return None if None in found else found


def judged_before(db: Database, evaluation: Evaluation, baseline_id: int) -> int | None:
    """The newest complete evaluation before this one, of its dataset's name and system, held against that baseline."""
    return _newest_before(db, evaluation, evaluation_runs.c.baseline_id == baseline_id)


def _newest_before(db: Database, evaluation: Evaluation, condition: sa.ColumnElement[bool]) -> int | None:
    runs = evaluation_runs.c
    query = sa.select(sa.func.max(runs.id)).join(evaluation_datasets, evaluation_datasets.c.id == runs.dataset_id)
    query = query.where(in_series(evaluation), runs.status == "complete", runs.id < evaluation.id, condition)
    return db.scalars(query)[0]


def _newest(client_id: str, dataset_name: str, system: str) -> sa.Select[Any, Any, Any]:
    return (
        sa.select(*(baselines.c[name] for name in Baseline.__dataclass_fields__))
        .filter_by(client_id=client_id, dataset_name=dataset_name, system_name=system)
        .order_by(baselines.c.id.desc())
        .limit(1)
    )
