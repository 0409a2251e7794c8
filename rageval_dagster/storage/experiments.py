"""Experiments and what their questions came to: names and numbers, no text of documents, questions or answers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.errors import RagevalError
from rageval_dagster.storage.database import Database, retried, upsert
from rageval_dagster.storage.tables import experiment_results, experiments, llm_calls
from rageval_dagster.storage.types import utc_now


@dataclass(frozen=True)
class Experiment:
    """A stored experiment. `corpus` is a hash of the documents as they were when it was opened.

    `ended_at` is None while it goes on; `ended_why` says what ended it before its end.
    """

    number: int
    client_id: str
    content_key: str
    opened_by: str
    definition: Mapping[str, Any]
    objective: str
    higher_is_better: bool
    dataset_ids: Sequence[int]
    questions: Sequence[str]
    clusters: Sequence[str]
    corpus: str
    opened_at: datetime
    ended_at: datetime | None
    ended_why: str | None

    @property
    def run_id(self) -> str:
        """What its judge's calls are recorded under; those that answer by `answers_run_id`."""
        return f"experiment:{self.number}"

    def answers_run_id(self, configuration_key: str) -> str:
        """What the calls of a configuration are recorded under: so its cost is known, whatever goes on beside it."""
        return f"{self.run_id}:{configuration_key[:16]}"

    @property
    def status(self) -> str:
        """`running`, `finished`, or `stopped` where something ended it first."""
        if self.ended_at is None:
            return "running"
        return "stopped" if self.ended_why else "finished"


@dataclass(frozen=True)
class QuestionResult:
    """What one question came to under one configuration. Latency is in seconds, cost in US dollars without a cache.

    `score` is the objective's value; None where the system failed (`error`) or there was nothing to score.
    """

    configuration_key: str
    item_id: str
    score: float | None
    scores: Mapping[str, float | None]
    error: str | None
    leaked: bool
    latency_s: float | None
    cost_usd: float | None
    tokens: int | None


_COLUMNS = [experiments.c[name] for name in Experiment.__dataclass_fields__]
_RESULT_COLUMNS = [experiment_results.c[name] for name in QuestionResult.__dataclass_fields__]


@retried
def open_experiment(
    db: Database,
    client_id: str,
    content_key: str,
    opened_by: str,
    definition: Mapping[str, Any],
    objective: str,
    higher_is_better: bool,
    dataset_ids: Sequence[int],
    questions: Sequence[str],
    clusters: Sequence[str],
    corpus: str,
) -> Experiment:
    """The client's newest experiment of that content, opened again unless it was finished by this definition.

    `content_key` does not cover what may be spent: with a larger budget an experiment goes on where it ended.
    """
    same = (experiments.c.client_id == client_id, experiments.c.content_key == content_key)
    newest = sa.select(*_COLUMNS).where(*same).order_by(experiments.c.number.desc()).limit(1)
    values: dict[str, Any] = {
        "opened_by": opened_by,
        "definition": dict(definition),
        "opened_at": utc_now(),
        "ended_at": None,
        "ended_why": None,
    }
    with db.begin() as connection:
        row = connection.execute(newest).first()
        if row is None:
            of_content = {
                "client_id": client_id,
                "content_key": content_key,
                "objective": objective,
                "higher_is_better": higher_is_better,
                "dataset_ids": list(dataset_ids),
                "questions": list(questions),
                "clusters": list(clusters),
                "corpus": corpus,
            }
            connection.execute(sa.insert(experiments).values({**of_content, **values}))
        elif row.ended_why or row.definition != values["definition"] or row.opened_by != opened_by:
            here = experiments.c.number == row.number
            connection.execute(sa.update(experiments).where(here).values(values))
        return Experiment(**connection.execute(newest).one()._mapping)


def get_experiment(db: Database, number: int) -> Experiment:
    """Raises RagevalError where there is none of that number."""
    rows = db.rows(sa.select(*_COLUMNS).where(experiments.c.number == number))
    if not rows:
        raise RagevalError(f"there is no experiment {number}: `rageval experiment list` shows those there are")
    return Experiment(**rows[0]._mapping)


@contextmanager
def while_known(db: Database, experiment: Experiment) -> Iterator[None]:
    """In the block nothing is written any more once the experiment was deleted, as with its client.

    Raises:
        RagevalError: it was deleted.
    """
    here = (experiments.c.number == experiment.number, experiments.c.client_id == experiment.client_id)
    known = sa.select(experiments.c.number).where(*here)
    deleted = f"experiment {experiment.number} was deleted"

    def check(connection: Connection) -> None:
        # Nobody deletes it before the transaction ends.
        if connection.execute(known.with_for_update(read=True)).first() is None:
            raise RagevalError(deleted)

    with db.checking(check):
        yield
    if not db.rows(known):
        raise RagevalError(deleted)


def list_experiments(
    db: Database, client_id: str | None = None, opened_by: str | None = None, ended_after: datetime | None = None
) -> list[Experiment]:
    """The experiments of a client or (None) of all, newest first.

    Args:
        opened_by: only those opened so.
        ended_after: only those that go on, or ended after this.
    """
    query = sa.select(*_COLUMNS).order_by(experiments.c.number.desc())
    if client_id is not None:
        query = query.where(experiments.c.client_id == client_id)
    if opened_by is not None:
        query = query.where(experiments.c.opened_by == opened_by)
    if ended_after is not None:
        query = query.where(sa.or_(experiments.c.ended_at.is_(None), experiments.c.ended_at > ended_after))
    return [Experiment(**row._mapping) for row in db.rows(query)]


def end_experiment(db: Database, number: int, why: str | None = None) -> None:
    """Marks an experiment as ended, unless it is; `why` is what ended it before its end."""
    still_open = (experiments.c.number == number, experiments.c.ended_at.is_(None))
    db.execute(sa.update(experiments).where(*still_open).values(ended_at=utc_now(), ended_why=why))


@retried
def save_results(db: Database, experiment: Experiment, results: Sequence[QuestionResult]) -> None:
    """Keeps results in one transaction; those that are there stay."""
    rows = [{"number": experiment.number, "client_id": experiment.client_id, **asdict(each)} for each in results]
    with db.begin() as connection:
        upsert(connection, experiment_results, rows)


def spent_usd(db: Database, experiment: Experiment) -> float:
    """What an experiment's model calls cost so far, in US dollars."""
    calls = llm_calls.c
    own = sa.or_(calls.run_id == experiment.run_id, calls.run_id.startswith(f"{experiment.run_id}:", autoescape=True))
    query = sa.select(sa.func.coalesce(sa.func.sum(calls.cost_usd), 0.0))
    return float(db.scalars(query.where(calls.client_id == experiment.client_id, own))[0])


def forget_failures(db: Database, number: int) -> None:
    """Deletes what failed, so that it is asked again."""
    here = (experiment_results.c.number == number, experiment_results.c.error.is_not(None))
    db.execute(sa.delete(experiment_results).where(*here))


def load_results(db: Database, number: int) -> dict[tuple[str, str], QuestionResult]:
    """{(configuration key, item id): what it came to}."""
    rows = db.rows(sa.select(*_RESULT_COLUMNS).where(experiment_results.c.number == number))
    return {(row.configuration_key, row.item_id): QuestionResult(**row._mapping) for row in rows}
