"""Evaluations: the row of each, opened or resumed, listed, read and finished, with the versions it measured."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.errors import RagevalError
from rageval_dagster.identity import digest
from rageval_dagster.storage import tables
from rageval_dagster.storage.benchmark import get_dataset
from rageval_dagster.storage.clients import check_name
from rageval_dagster.storage.database import Database, retried, upsert
from rageval_dagster.storage.tables import NAME_LENGTH, dataset_items, evaluation_datasets, evaluation_runs
from rageval_dagster.storage.types import utc_now

EvaluationStatus = Literal["running", "complete", "failed"]


_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Versions:
    """The five versions that can explain why a score changed; None where there is none."""

    corpus: str | None
    index: str | None
    dataset: str | None
    system: str | None
    judge: str | None


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of a system on a dataset. `id` is its number, `evaluation_id` its content key.

    `system_declared` is the version that the system says it has; None: it says none, and may have changed unnoticed.
    `foreign_chunks` and `unknown_chunks` are how many chunks it returned that are another client's, and nobody's; None
    while that is not known.
    """

    id: int
    evaluation_id: str
    client_id: str
    dataset_id: int
    dataset_name: str
    system: str
    system_reference: bool
    system_declared: str | None
    trigger: str
    k: int
    depth: int
    versions: Versions
    status: EvaluationStatus
    dagster_run_id: str | None
    item_count: int
    error_count: int
    foreign_chunks: int | None
    unknown_chunks: int | None
    cost_usd: float | None
    duration_s: float | None
    started_at: datetime
    finished_at: datetime | None
    headline: dict[str, float | None]
    judged: bool = False
    """Whether it was at the gate, whatever came of it."""

    @property
    def unfinished(self) -> bool:
        """Whether there is something left to do: it is running, or interrupted before it was at the gate."""
        return self.status == "running" or (self.status == "complete" and not self.judged)

    @property
    def answered_nothing(self) -> bool:
        """Whether the system failed on every question: nothing is known of it, not even its version."""
        return 0 < self.item_count == self.error_count

    @property
    def of_recorded_answers(self) -> bool:
        """Whether its answers stand in a file, whose hash is their version, and tells nobody anything."""
        return self.system_declared is not None and _DIGEST.fullmatch(self.system_declared) is not None


def evaluation_key(client_id: str, system: str, dataset_id: int, trigger: str) -> str:
    """32 hex digits that name an evaluation: the same four always mean the same one."""
    return digest(client_id, system, str(dataset_id), trigger)[:32]


def silent_changes(version: str) -> tuple[str, int]:
    """A system's version as it told it, and how often it was found to have changed without telling another one."""
    told, _, count = version.partition("+")
    return told, int(count or 0)


def after_silent_changes(told: str, count: int) -> str:
    """The version of a system that told one, and changed so often without another one (`silent_changes`)."""
    return f"{told}+{count}" if count else told


def known_silent_changes(db: Database, client_id: str, system: str, told: str) -> int:
    """How often a client's system was found to have changed while it told this version."""
    runs = evaluation_runs.c
    query = sa.select(runs.system_version).distinct().where(runs.client_id == client_id, runs.system_name == system)
    known = map(silent_changes, filter(None, db.scalars(query)))
    return max((count for version, count in known if version == told), default=0)


def has_changed_silently(before: str | None, now: str | None) -> bool:
    """Whether a system told the same version both times, and was found to be another one in between."""
    return before != now and silent_changes(before or "")[0] == silent_changes(now or "")[0]


@retried
def open_evaluation(
    db: Database,
    client_id: str,
    dataset_id: int,
    system: str,
    trigger: str,
    k: int,
    depth: int,
    versions: Versions,
    dagster_run_id: str | None,
    item_ids: Sequence[str],
    system_reference: bool,
    system_declared: str | None,
) -> Evaluation:
    """Starts an evaluation, or resumes it: an unfinished one goes on under the versions and run given now.

    Where corpus, index, system, k or depth changed since, its items start anew. A complete one is returned as it is.

    Raises:
        DatasetError: there is no such dataset.
    """
    check_name("system name", system, NAME_LENGTH)
    check_name("trigger", trigger, NAME_LENGTH)
    get_dataset(db, dataset_id)
    key = evaluation_key(client_id, system, dataset_id, trigger)
    now = utc_now()
    measured = {
        "k": k,
        "depth": depth,
        "corpus_version": versions.corpus,
        "index_version": versions.index,
        "dataset_version": versions.dataset,
        "system_version": versions.system,
    }
    current = {
        **measured,
        "judge_version": versions.judge,
        "system_declared": system_declared,
        "status": "running",
        "dagster_run_id": dagster_run_id,
        "item_count": len(set(item_ids)),
        "finished_at": None,
    }
    with db.begin() as connection:
        known = connection.execute(
            sa.select(evaluation_runs).where(evaluation_runs.c.evaluation_id == key)
        ).one_or_none()
        if known is None:
            row = {
                "evaluation_id": key,
                "client_id": client_id,
                "dataset_id": dataset_id,
                "system_name": system,
                "system_reference": system_reference,
                "trigger_key": trigger,
                "error_count": 0,
                "started_at": now,
                "headline": {},
                **current,
            }
            upsert(connection, evaluation_runs, [row], key=["evaluation_id"])
        elif known.status != "complete":
            connection.execute(sa.update(evaluation_runs).where(evaluation_runs.c.id == known.id).values(**current))
            if any(known._mapping[name] != value for name, value in measured.items()):
                _unlink(connection, known.id)
        evaluation = _evaluation(connection.execute(_EVALUATIONS.where(evaluation_runs.c.evaluation_id == key)).one())
        if evaluation.status != "complete":
            rows = [
                {"evaluation_id": evaluation.id, "client_id": client_id, "item_id": item_id}
                for item_id in dict.fromkeys(item_ids)
            ]
            upsert(connection, tables.run_items, rows)
    return evaluation


@retried
def start_anew(db: Database, id: int) -> None:
    """Takes retrievals and results from an evaluation's items: should it be resumed, it asks everything again."""
    with db.begin() as connection:
        _unlink(connection, id)


def list_evaluations(
    db: Database,
    client_id: str | None = None,
    dataset_id: int | None = None,
    trigger: str | None = None,
    status: EvaluationStatus | None = None,
    limit: int | None = 50,
    offset: int = 0,
) -> list[Evaluation]:
    """Evaluations, newest first; at most so many, or (None) all, after the first `offset` of them."""
    wanted = {
        evaluation_runs.c.client_id: client_id,
        evaluation_runs.c.dataset_id: dataset_id,
        evaluation_runs.c.trigger_key: trigger,
        evaluation_runs.c.status: status,
    }
    query = _EVALUATIONS.where(*(column == value for column, value in wanted.items() if value is not None))
    return [
        _evaluation(row) for row in db.rows(query.order_by(evaluation_runs.c.id.desc()).limit(limit).offset(offset))
    ]


def get_evaluation(db: Database, id: int) -> Evaluation:
    """Raises RagevalError for a number that no evaluation has."""
    with db.connect() as connection:
        return read_evaluation(connection, id)


def evaluations_by_id(db: Database, ids: Iterable[int]) -> dict[int, Evaluation]:
    """Those of the evaluations that there (still) are."""
    rows = db.rows(_EVALUATIONS.where(evaluation_runs.c.id.in_(sorted(set(ids)))))
    return {found.id: found for found in map(_evaluation, rows)}


def evaluations_between(db: Database, before: Evaluation, now: Evaluation) -> list[Evaluation]:
    """The complete ones of the same dataset's name and system after one and before the other, oldest first."""
    runs = evaluation_runs.c
    query = _EVALUATIONS.where(in_series(now), runs.status == "complete", runs.id > before.id, runs.id < now.id)
    return [_evaluation(row) for row in db.rows(query.order_by(runs.id))]


def in_series(evaluation: Evaluation) -> sa.ColumnElement[bool]:
    """Whether a run, joined with its dataset, is of the evaluation's client, dataset name and system."""
    return sa.and_(
        evaluation_runs.c.client_id == evaluation.client_id,
        evaluation_runs.c.system_name == evaluation.system,
        evaluation_datasets.c.name == evaluation.dataset_name,
    )


def evaluations_of_trigger(db: Database, client_id: str, trigger: str | None = None) -> list[Evaluation]:
    """What one trigger started, or (None) the client's newest, oldest first; those that failed are among them."""
    if trigger is None:
        newest = list_evaluations(db, client_id, limit=1)
        if not newest:
            return []
        trigger = newest[0].trigger
    found = list_evaluations(db, client_id, trigger=trigger, limit=1000)
    return sorted(found, key=lambda evaluation: evaluation.id)


@retried
def finish_evaluation(
    db: Database,
    id: int,
    status: EvaluationStatus,
    headline: Mapping[str, float | None],
    duration_s: float | None,
    error_count: int,
    judge_version: str | None = None,
    foreign_chunks: int | None = None,
    unknown_chunks: int | None = None,
) -> None:
    """Closes an evaluation as complete or failed; what has a default and is None stays as it was.

    Older ones of the dataset's name and the system that nobody went on with have failed once one is complete.
    """
    given = {
        "judge_version": judge_version,
        "foreign_chunks": foreign_chunks,
        "unknown_chunks": unknown_chunks,
    }
    runs, now = evaluation_runs.c, utc_now()
    values: dict[str, Any] = {
        "status": status,
        "headline": dict(headline),
        "duration_s": duration_s,
        "error_count": error_count,
        "finished_at": now,
        **{name: value for name, value in given.items() if value is not None},
    }
    with db.begin() as connection:
        connection.execute(sa.update(evaluation_runs).where(runs.id == id).values(**values))
        if status == "complete":
            own = read_evaluation(connection, id)
            versions = sa.select(evaluation_datasets.c.id).where(
                evaluation_datasets.c.client_id == own.client_id, evaluation_datasets.c.name == own.dataset_name
            )
            alike = (
                runs.client_id == own.client_id,
                runs.system_name == own.system,
                runs.dataset_id.in_(versions),
            )
            left = (runs.status == "running", runs.id < id, runs.trigger_key != own.trigger)
            connection.execute(sa.update(evaluation_runs).where(*alike, *left).values(status="failed", finished_at=now))
            complete = sa.select(runs.id).where(*alike, runs.status == "complete").order_by(runs.id.desc()).limit(1)
            newest = connection.execute(complete).scalar_one()
            update = sa.update(evaluation_runs)
            connection.execute(update.where(*alike, runs.newest.is_(True), runs.id != newest).values(newest=None))
            connection.execute(update.where(runs.id == newest).values(newest=True))
            # An older one may be resumed, and be complete after a newer one.
            of = (runs.dataset_id == own.dataset_id, runs.system_name == own.system, runs.status == "complete")
            before = connection.execute(sa.select(sa.func.max(runs.id)).where(*of, runs.id < id)).scalar()
            after = connection.execute(sa.select(sa.func.min(runs.id)).where(*of, runs.id > id)).scalar()
            connection.execute(update.where(runs.id == id).values(previous_id=before))
            if after is not None:
                connection.execute(update.where(runs.id == after).values(previous_id=id))


def add_cost(db: Database, id: int, cost_usd: float) -> None:
    """Adds to what an evaluation cost."""
    update_evaluation(db, id, cost_usd=sa.func.coalesce(evaluation_runs.c.cost_usd, 0.0) + cost_usd)


def update_evaluation(db: Database, id: int, **values: Any) -> None:
    """Sets columns of an evaluation's row."""
    db.execute(sa.update(evaluation_runs).where(evaluation_runs.c.id == id).values(**values))


def read_evaluation(connection: Connection, evaluation_id: int) -> Evaluation:
    """Raises RagevalError for a number that no evaluation has."""
    row = connection.execute(_EVALUATIONS.where(evaluation_runs.c.id == evaluation_id)).one_or_none()
    if row is None:
        raise _unknown(evaluation_id)
    return _evaluation(row)


def _unknown(evaluation_id: int) -> RagevalError:
    return RagevalError(f"there is no evaluation {evaluation_id}; `rageval runs list` shows those there are")


def client_of(connection: Connection, evaluation_id: int) -> str:
    """The client whose evaluation it is; raises RagevalError for a number that no evaluation has."""
    client_id = connection.execute(
        sa.select(evaluation_runs.c.client_id).where(evaluation_runs.c.id == evaluation_id)
    ).scalar_one_or_none()
    if client_id is None:
        raise _unknown(evaluation_id)
    return client_id


def in_dataset() -> sa.Join:
    """Run items with their place in the evaluation's dataset."""
    items = tables.run_items
    return items.join(evaluation_runs, evaluation_runs.c.id == items.c.evaluation_id).join(
        dataset_items,
        sa.and_(
            dataset_items.c.dataset_id == evaluation_runs.c.dataset_id,
            dataset_items.c.item_id == items.c.item_id,
        ),
    )


_STORED_AS = {"system": "system_name", "trigger": "trigger_key"}
_PLAIN = [name for name in Evaluation.__dataclass_fields__ if name not in ("dataset_name", "versions", "judged")]
_VERSIONS = {name: f"{name}_version" for name in Versions.__dataclass_fields__}
_EVALUATIONS = sa.select(
    *(evaluation_runs.c[_STORED_AS.get(name, name)].label(name) for name in _PLAIN),
    *(evaluation_runs.c[column] for column in _VERSIONS.values()),
    evaluation_runs.c.changes,
    evaluation_datasets.c.name.label("dataset_name"),
).join(evaluation_datasets, evaluation_datasets.c.id == evaluation_runs.c.dataset_id)


def _evaluation(row: sa.Row[Any]) -> Evaluation:
    values = dict(row._mapping)
    versions = Versions(**{name: values.pop(column) for name, column in _VERSIONS.items()})
    judged = values.pop("changes") is not None
    return Evaluation(**values, versions=versions, judged=judged)


def _unlink(connection: Connection, evaluation_id: int) -> None:
    items = tables.run_items
    links = ("retrieval_id", "retrieval_key", "result_id", "answer_key", "takes")
    connection.execute(
        sa.update(items).where(items.c.evaluation_id == evaluation_id).values(dict.fromkeys(links, sa.null()))
    )
