"""Incidents: what people are told of, opened once while it lasts, closed when it is over, each told once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from rageval_dagster.identity import digest
from rageval_dagster.storage.database import Database, retried, rows_in, upsert
from rageval_dagster.storage.tables import clients, incidents

Kind = Literal[
    "regression",
    "leak",
    "errors",
    "benchmark",
    "failed_run",
    "lost_evidence",
    "judge_drift",
    "changed_answers",
    "stale",
]
Phase = Literal["opening", "closing"]

OVER = "over"
"""Where the details of a closed incident say what ended it."""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a client now. `subject` tells apart what may be wrong several times over.

    `details` are ids, names and numbers, as JSON; no text of documents, questions or answers.
    """

    client_id: str
    kind: Kind
    subject: str = ""
    evaluation_id: int | None = None
    run_id: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """64 hex digits; of two incidents that have it only one can be open."""
        return digest(self.client_id, self.kind, self.subject)


@dataclass(frozen=True)
class Incident:
    """A stored incident; `closed_at` is None while it is open, the others where nobody was told (yet)."""

    id: int
    client_id: str
    kind: Kind
    subject: str
    open_key: str | None
    opened_at: datetime
    closed_at: datetime | None
    evaluation_id: int | None
    run_id: str | None
    details: dict[str, Any]
    opening_told_at: datetime | None
    closing_told_at: datetime | None
    claimed_until: datetime | None

    @property
    def phase(self) -> Phase:
        """What is the news of it: that it was opened, or that it was closed."""
        return "opening" if self.closed_at is None else "closing"


_COLUMNS = [incidents.c[name] for name in Incident.__dataclass_fields__]


def open_incidents(db: Database, client_ids: Iterable[str] | None = None) -> list[Incident]:
    """The incidents that are open, of these clients or (None) of all, oldest first."""
    query = sa.select(*_COLUMNS).where(incidents.c.open_key.is_not(None))
    rows = db.rows(query) if client_ids is None else db.rows_in(query, incidents.c.client_id, client_ids)
    return sorted((Incident(**row._mapping) for row in rows), key=lambda incident: incident.id)


@retried
def open_all(db: Database, findings: Sequence[Finding], now: datetime) -> None:
    """Opens an incident for each finding that has no open one; of clients that nobody knows (any more) none."""
    if not findings:
        return
    with db.begin() as connection:
        known, named = clients.c.client_id, (finding.client_id for finding in findings)
        present = {row.client_id for row in rows_in(connection, sa.select(known), known, named)}
        rows = [
            {
                "client_id": finding.client_id,
                "kind": finding.kind,
                "subject": finding.subject,
                "open_key": finding.key,
                "opened_at": now,
                "evaluation_id": finding.evaluation_id,
                "run_id": finding.run_id,
                "details": dict(finding.details),
            }
            for finding in findings
            if finding.client_id in present
        ]
        upsert(connection, incidents, rows, key=["open_key"])


def update_open(db: Database, incident: Incident, finding: Finding) -> None:
    """Lets an open incident be of another run, or evaluation, from now on; who was told of it is told nothing new."""
    update = sa.update(incidents).where(incidents.c.id == incident.id, incidents.c.open_key.is_not(None))
    of = {"evaluation_id": finding.evaluation_id, "run_id": finding.run_id, "details": dict(finding.details)}
    db.execute(update.values(**of))


def close_all(db: Database, ended: Sequence[tuple[Incident, Mapping[str, Any]]], now: datetime) -> None:
    """Closes incidents, each with what ended it; one that is closed already stays as it is."""
    if not ended:
        return
    update = (
        sa.update(incidents)
        .where(incidents.c.id == sa.bindparam("key"), incidents.c.open_key.is_not(None))
        .values(open_key=None, closed_at=now, details=sa.bindparam("all_details"))
    )
    rows = [
        {"key": incident.id, "all_details": {**incident.details, OVER: dict(over)}}
        for incident, over in sorted(ended, key=lambda entry: entry[0].id)
    ]
    db.execute(update, rows)


def untold(db: Database, since: datetime) -> list[Incident]:
    """The incidents of which there is news that nobody was told, not older than `since`; longest not tried first.

    What was over before anybody was told of it is no news.
    """
    query = sa.select(*_COLUMNS).where(
        sa.or_(
            sa.and_(_untold("opening"), incidents.c.opened_at >= since),
            sa.and_(_untold("closing"), incidents.c.closed_at >= since),
        )
    )
    found = [Incident(**row._mapping) for row in db.rows(query)]
    return sorted(found, key=lambda incident: (incident.claimed_until or incident.opened_at, incident.id))


@retried
def claim(db: Database, wanted: Sequence[Incident], now: datetime, until: datetime) -> list[Incident]:
    """Those of the incidents whose news the caller may tell until then: nobody has told it, or is about to."""
    with db.begin() as connection:
        return [
            incident
            for incident in sorted(wanted, key=lambda each: each.id)
            if connection.execute(
                sa.update(incidents)
                .where(
                    incidents.c.id == incident.id,
                    _untold(incident.phase),
                    sa.or_(incidents.c.claimed_until.is_(None), incidents.c.claimed_until <= now),
                )
                .values(claimed_until=until)
            ).rowcount
        ]


@retried
def mark_told(db: Database, told: Sequence[Incident], now: datetime) -> None:
    """Says that the news of these incidents was told."""
    with db.begin() as connection:
        for incident in told:
            connection.execute(
                sa.update(incidents)
                .where(incidents.c.id == incident.id)
                .values({f"{incident.phase}_told_at": now, "claimed_until": None})
            )


def give_back(db: Database, claimed: Sequence[Incident], now: datetime) -> None:
    """Lets others tell the news of these incidents; they are remembered as tried now."""
    ids = [incident.id for incident in claimed]
    db.execute(sa.update(incidents).where(incidents.c.id.in_(ids)).values(claimed_until=now))


def _untold(phase: Phase) -> sa.ColumnElement[bool]:
    if phase == "opening":
        return sa.and_(incidents.c.closed_at.is_(None), incidents.c.opening_told_at.is_(None))
    return sa.and_(
        incidents.c.closed_at.is_not(None),
        incidents.c.opening_told_at.is_not(None),
        incidents.c.closing_told_at.is_(None),
    )
