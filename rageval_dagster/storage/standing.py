"""How clients stand: their newest evaluations with what their comparison found, their current datasets, and when."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.storage.comparisons import Change, MetricComparison, Verdict
from rageval_dagster.storage.database import Database, in_batches, rows_in
from rageval_dagster.storage.incidents import open_incidents
from rageval_dagster.storage.leases import held_leases
from rageval_dagster.storage.tables import (
    client_systems,
    evaluation_datasets,
    evaluation_runs,
    metric_comparisons,
    metric_summaries,
)

_TOGETHER = 250
"""Series whose last means are read by one query."""


@dataclass(frozen=True)
class Standing:
    """The newest complete evaluation of a client's dataset (by its name) by a system, as the gate found it.

    `gated` are the metrics that the gate looked at; `newly_failing` is how many questions are, and `asked_again`
    whether they were asked again; `erring` are, of the metrics with errors, how many they have and of how many
    questions, by metric id.
    """

    id: int
    client_id: str
    dataset_name: str
    system: str
    dagster_run_id: str | None
    verdict: Verdict | None
    baseline_id: int | None
    changes: tuple[Change, ...]
    newly_failing: int
    asked_again: bool
    item_count: int
    error_count: int
    foreign_chunks: int | None
    gated: tuple[MetricComparison, ...]
    erring: Mapping[str, tuple[int, int]]


def recent_means(
    db: Database, metrics: Mapping[str, str], count: int = 10
) -> dict[str, list[list[tuple[datetime, float | None]]]]:
    """The last means of one metric of each client ({client id: metric id}), with when their evaluations ended.

    By client a list for each of its datasets (by name) and systems, oldest evaluation first.
    """
    runs, datasets = evaluation_runs.c, evaluation_datasets.c
    newest, its_dataset = evaluation_runs.alias(), evaluation_datasets.alias()
    alike = (
        runs.client_id == newest.c.client_id,
        runs.system_name == newest.c.system_name,
        runs.status == "complete",
        datasets.name == its_dataset.c.name,
        datasets.retired_at.is_(None),
    )
    with_names = evaluation_runs.join(evaluation_datasets, datasets.id == runs.dataset_id)
    # From the newest one back: the index has a system's evaluations in their order.
    oldest = (
        sa.select(runs.id)
        .select_from(with_names)
        .where(*alike)
        .order_by(runs.id.desc())
        .limit(1)
        .offset(count - 1)
        .correlate(newest, its_dataset)
        .scalar_subquery()
    )
    since = (
        sa.select(newest.c.client_id, its_dataset.c.name, newest.c.system_name, oldest.label("oldest"))
        .join(its_dataset, its_dataset.c.id == newest.c.dataset_id)
        .where(newest.c.newest == sa.true(), its_dataset.c.retired_at.is_(None))
    )
    summaries = metric_summaries.c
    query = (
        sa.select(runs.id, runs.client_id, datasets.name, runs.system_name, runs.finished_at, summaries.mean)
        .select_from(with_names.join(metric_summaries, summaries.evaluation_id == runs.id))
        .where(runs.status == "complete", datasets.retired_at.is_(None))
        .order_by(runs.id)
    )
    first = {
        (row.client_id, row.name, row.system_name): row.oldest or 0
        for row in db.rows_in(since, newest.c.client_id, metrics)
    }
    found: dict[str, dict[tuple[str, str], list[tuple[datetime, float | None]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for metric_id in set(metrics.values()):
        # Those together that were evaluated at about the same time: what is read begins there.
        wanted = sorted((of for of in first if metrics[of[0]] == metric_id), key=lambda of: first[of])
        for series in in_batches(wanted, _TOGETHER):
            these = (
                summaries.metric_id == metric_id,
                runs.client_id.in_({client for client, _, _ in series}),
                runs.id >= first[series[0]],
            )
            for row in db.rows(query.where(*these)):
                of = (row.client_id, row.name, row.system_name)
                if of in series and row.id >= first[of]:
                    found[row.client_id][row.name, row.system_name].append((row.finished_at, row.mean))
    return {client: list(series.values()) for client, series in found.items()}


@dataclass(frozen=True)
class DatasetVerdict:
    """Whether a current dataset keeps the blocking rules, and how many items offend against each rule."""

    client_id: str
    dataset_id: int
    name: str
    valid: bool
    rule_failures: Mapping[str, int]


def standings(db: Database, client_ids: Iterable[str]) -> list[Standing]:
    """The newest complete evaluation of each dataset name and system of these clients, without retired datasets."""
    with db.connect() as connection:
        return [found for batch in in_batches(client_ids) for found in _standings(connection, batch)]


def _standings(connection: Connection, client_ids: Sequence[str]) -> list[Standing]:
    runs, name = evaluation_runs.c, evaluation_datasets.c.name
    with_names = evaluation_runs.join(evaluation_datasets, evaluation_datasets.c.id == runs.dataset_id)
    columns = ("id", "client_id", "dagster_run_id", "verdict", "baseline_id")
    counts = ("item_count", "error_count", "foreign_chunks")
    query = sa.select(
        *(runs[column] for column in (*columns, *counts)),
        name.label("dataset_name"),
        runs.system_name.label("system"),
        runs.changes,
        runs.newly_failing,
        runs.asked_again,
    ).select_from(with_names)
    newest = (runs.newest == sa.true(), runs.client_id.in_(client_ids), evaluation_datasets.c.retired_at.is_(None))
    rows = connection.execute(query.where(*newest).order_by(runs.id)).mappings().all()
    gated = _gated(connection, [row["id"] for row in rows])
    erring = _erring(connection, [row["id"] for row in rows])
    return [
        Standing(
            **{
                **row,
                "changes": tuple(Change(**change) for change in row["changes"] or ()),
                "newly_failing": len(row["newly_failing"] or ()),
                "asked_again": row["asked_again"] is not False,
                "gated": tuple(gated[row["id"]]),
                "erring": erring[row["id"]],
            }
        )
        for row in rows
    ]


def _gated(connection: Connection, evaluation_ids: Sequence[int]) -> Mapping[int, list[MetricComparison]]:
    found: dict[int, list[MetricComparison]] = defaultdict(list)
    compared = metric_comparisons.c
    values = [compared[name] for name in MetricComparison.__dataclass_fields__]
    query = sa.select(compared.evaluation_id, *values).where(compared.gated)
    query = query.order_by(compared.evaluation_id, compared.metric_id)
    for evaluation_id, *row in rows_in(connection, query, compared.evaluation_id, evaluation_ids):
        found[evaluation_id].append(MetricComparison(*row))
    return found


def _erring(connection: Connection, evaluation_ids: Sequence[int]) -> Mapping[int, dict[str, tuple[int, int]]]:
    found: dict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    of = metric_summaries.c
    query = sa.select(of.evaluation_id, of.metric_id, of.n_error, of.n).where(of.n_error > 0).order_by(of.metric_id)
    for row in rows_in(connection, query, of.evaluation_id, evaluation_ids):
        found[row.evaluation_id][row.metric_id] = row.n_error, row.n
    return found


def newest_changes(db: Database, client_id: str | None = None) -> list[tuple[str, int, str, tuple[Change, ...]]]:
    """(client, evaluation, system, what changed) of the newest complete evaluations of one client or (None) of all,
    without retired datasets and without those of which nothing is known to have changed."""
    runs = evaluation_runs.c
    with_names = evaluation_runs.join(evaluation_datasets, evaluation_datasets.c.id == runs.dataset_id)
    query = sa.select(runs.client_id, runs.id, runs.system_name, runs.changes).select_from(with_names)
    query = query.where(runs.newest == sa.true(), evaluation_datasets.c.retired_at.is_(None)).order_by(runs.id)
    if client_id is not None:
        query = query.where(runs.client_id == client_id)
    return [
        (client, id, system, tuple(Change(**change) for change in changes))
        for client, id, system, changes in map(tuple, db.rows(query))
        if changes
    ]


def lately_failing(db: Database, client_id: str | None = None) -> dict[str, int]:
    """{client: how many questions newly fail} in the newest complete evaluations of one client or (None) of all, and
    did not in the evaluation before; none where there are none. Retired datasets do not count, nor do systems that the
    client's settings no longer name."""
    runs, before, named = evaluation_runs.c, evaluation_runs.alias(), client_systems.c
    systems = sa.select(named.system_name).where(named.client_id == runs.client_id)
    joined = evaluation_runs.join(evaluation_datasets, evaluation_datasets.c.id == runs.dataset_id).outerjoin(
        before, before.c.id == runs.previous_id
    )
    query = sa.select(runs.client_id, runs.newly_failing, before.c.newly_failing.label("known")).select_from(joined)
    query = query.where(
        runs.newest == sa.true(),
        evaluation_datasets.c.retired_at.is_(None),
        sa.or_(runs.system_name.in_(systems), ~systems.exists()),
    )
    if client_id is not None:
        query = query.where(runs.client_id == client_id)
    found: Counter[str] = Counter()
    for row in db.rows(query):
        found[row.client_id] += len(set(row.newly_failing or ()) - set(row.known or ()))
    return {client: count for client, count in found.items() if count}


def dataset_verdicts(db: Database, client_ids: Iterable[str]) -> list[DatasetVerdict]:
    """Of each of these clients' datasets that are not retired the version that was checked last."""
    datasets = evaluation_datasets.c
    columns = (datasets.client_id, datasets.id, datasets.name, datasets.valid, datasets.rule_failures)
    newest: dict[tuple[str, str], DatasetVerdict] = {}
    query = sa.select(*columns).where(datasets.retired_at.is_(None)).order_by(datasets.checked_at, datasets.id)
    for row in db.rows_in(query, datasets.client_id, client_ids):
        newest[row.client_id, row.name] = DatasetVerdict(*row)
    return list(newest.values())


def runs_left_behind(db: Database) -> dict[str, str]:
    """The Dagster runs that ended unseen, by client: they hold a lease that is dead, or left the client's newest
    evaluation unfinished while nobody works on it. Those that an open incident names already are left out.
    """
    runs, leases, later = evaluation_runs.c, held_leases(db), evaluation_runs.alias()
    newer = sa.exists().where(later.c.client_id == runs.client_id, later.c.id > runs.id)
    # By the index of the time: those that go on are few.
    unfinished = (runs.finished_at.is_(None), runs.status == "running", runs.dagster_run_id.is_not(None))
    rows = db.rows(sa.select(runs.client_id, runs.dagster_run_id).where(*unfinished, ~newer))
    left = {row.client_id: row.dagster_run_id for row in rows}
    left |= {lease.client_id: lease.run_id for lease in leases if lease.run_id is not None}
    at_work = {lease.client_id for lease in leases if not lease.is_dead}
    noted = {each.run_id for each in open_incidents(db)}
    return {client_id: run for client_id, run in left.items() if client_id not in at_work and run not in noted}


def evaluated_since(db: Database, since: datetime) -> dict[str, datetime]:
    """When each client's newest complete evaluation ended, of those that ended since then."""
    runs = evaluation_runs.c
    # Grouped here: SQLite would group by reading all evaluations in the order of another index.
    query = sa.select(runs.client_id, runs.finished_at).where(runs.finished_at >= since, runs.status == "complete")
    return {row.client_id: row.finished_at for row in db.rows(query.order_by(runs.finished_at))}


def last_evaluated(db: Database, client_ids: Iterable[str]) -> dict[str, datetime]:
    """When these clients' newest complete evaluations ended, however long ago; without those that have none."""
    runs = evaluation_runs.c
    query = sa.select(runs.client_id, sa.func.max(runs.finished_at).label("at")).where(runs.status == "complete")
    rows = db.rows_in(query.group_by(runs.client_id), runs.client_id, client_ids)
    return {row.client_id: row.at for row in rows if row.at is not None}
