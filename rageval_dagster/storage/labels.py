"""What people say of answers, and which answers they are asked about."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.storage.database import Database, retried, rows_in, upsert
from rageval_dagster.storage.tables import answer_labels, item_results, label_queue
from rageval_dagster.storage.types import utc_now


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


def load_queue(db: Database, client_id: str, metric_id: str, result_ids: Iterable[str]) -> dict[str, Queued]:
    """{result id: its place} of those that have a stratum."""
    of = label_queue.c
    query = sa.select(of.result_id, of.stratum, of.place).where(of.client_id == client_id, of.metric_id == metric_id)
    return {row.result_id: Queued(row.stratum, row.place) for row in db.rows_in(query, of.result_id, result_ids)}


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


def _held(connection: Connection, client_id: str, result_ids: Iterable[str]) -> set[str]:
    """Those of the ids that are results of the client, and stay so until the transaction ends.

    Who forgets a client deletes its results, and what people say of them after that: so it gets no label any more.
    """
    of = item_results.c
    query = sa.select(of.result_id).where(of.client_id == client_id).with_for_update(read=True)
    return {row.result_id for row in rows_in(connection, query, of.result_id, result_ids)}
