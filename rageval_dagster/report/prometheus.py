"""What Prometheus scrapes: numbers of the fleet in its text format; clients' names only where they are asked for."""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from rageval_dagster.storage.database import Database
from rageval_dagster.storage.tables import clients, evaluation_runs, incidents, llm_calls
from rageval_dagster.storage.types import utc_now

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LATELY = timedelta(days=1)
_REMEMBERED = timedelta(days=30)
"""How far back a client's newest evaluation is looked for: by an index, however long the history is."""
_COMMITTED = timedelta(minutes=1)
"""Model calls that are younger are counted with the next look: a transaction may still be about to bring older ones."""

_Labels = tuple[tuple[str, str], ...]
_USAGE = ("calls", "prompt_tokens", "completion_tokens", "cost_usd")


class FleetMetrics:
    """The numbers as they are now; model calls are summed up once, and from then on only the new ones."""

    def __init__(self, db: Database, per_client: bool) -> None:
        self._db = db
        self._per_client = per_client
        self._lock = threading.Lock()
        self._last_call = 0
        self._usage: dict[_Labels, Counter[str]] = {}

    def text(self, waiting: Mapping[str, int] | None) -> str:
        """The page; `waiting` are Dagster's runs that have not ended, by status, None where its storage is away."""
        runs, now = evaluation_runs.c, utc_now()
        lately = runs.finished_at > now - _LATELY
        lines = [
            *_gauge(
                "rageval_clients",
                "Clients that rageval knows.",
                [((), self._one(sa.select(sa.func.count()).select_from(clients)))],
            ),
            *_gauge("rageval_dagster_storage_up", "Whether Dagster's storage answers.", [((), waiting is not None)]),
            *_gauge(
                "rageval_dagster_runs",
                "Dagster's runs that have not ended, by status.",
                [((("status", status),), count) for status, count in (waiting or {}).items()],
            ),
            *_gauge(
                "rageval_evaluations_1d",
                "Evaluations that ended in the last 24 hours, by status.",
                self._counted([runs.status], lately),
            ),
            *_gauge(
                "rageval_verdicts_1d",
                "Verdicts of the last 24 hours' evaluations.",
                self._counted([runs.verdict], lately, runs.verdict.is_not(None)),
            ),
            *_gauge(
                "rageval_open_incidents",
                "Incidents that are open, by kind.",
                self._counted([incidents.c.kind], incidents.c.closed_at.is_(None)),
            ),
        ]
        lines += self._ages(now)
        lines += self._model_usage(now)
        return "\n".join(lines) + "\n"

    def _ages(self, now: Any) -> list[str]:
        runs = evaluation_runs.c
        newest = sa.select(runs.client_id, sa.func.max(runs.finished_at).label("at"))
        newest = newest.where(runs.status == "complete", runs.finished_at > now - _REMEMBERED).group_by(runs.client_id)
        ages = {row.client_id: (now - row.at).total_seconds() for row in self._db.rows(newest)}
        lines = _gauge(
            "rageval_clients_evaluated_30d",
            "Clients with a complete evaluation of the last 30 days.",
            [((), len(ages))],
        )
        summed = [((("of", of),), chosen(ages.values())) for of, chosen in (("newest", min), ("stalest", max)) if ages]
        lines += _gauge(
            "rageval_newest_evaluation_age_seconds",
            "Age of the newest complete evaluation: of any client, and of the one for which it is oldest.",
            summed,
        )
        if self._per_client:
            own = [((("client", name),), age) for name, age in sorted(ages.items())]
            lines += _gauge(
                "rageval_client_newest_evaluation_age_seconds", "Age of a client's newest complete evaluation.", own
            )
        return lines

    def _model_usage(self, now: Any) -> list[str]:
        calls = llm_calls.c
        labels = [calls.role, calls.model, *([calls.client_id] if self._per_client else [])]
        with self._lock:
            before = now - _COMMITTED
            last = self._one(
                sa.select(sa.func.max(calls.id)).where(calls.id > self._last_call, calls.called_at < before)
            )
            if last is not None:
                sums = (calls.prompt_tokens, calls.completion_tokens, calls.cost_usd)
                query = sa.select(*labels, sa.func.count(), *map(sa.func.sum, sums))
                query = query.where(calls.id > self._last_call, calls.id <= last, calls.cache_hit.is_(False))
                for row in self._db.rows(query.group_by(*labels)):
                    key = tuple((_label(column.name), str(row[number])) for number, column in enumerate(labels))
                    found = zip(_USAGE, row[len(labels) :], strict=True)
                    self._usage.setdefault(key, Counter()).update({name: value or 0 for name, value in found})
                self._last_call = last
            if self._per_client:
                # Whoever was forgotten is named no more. Calls without a client are of files that were judged.
                gone = {dict(key)["client"] for key in self._usage} - set(
                    self._db.scalars(sa.select(clients.c.client_id))
                )
                there = self._db.rows_in(sa.select(calls.client_id).distinct(), calls.client_id, gone)
                gone -= {row.client_id for row in there}
                self._usage = {key: each for key, each in self._usage.items() if dict(key)["client"] not in gone}
            usage = {key: dict(values) for key, values in self._usage.items()}
        described = {
            "calls": ("rageval_model_calls_total", "Calls of language models."),
            "prompt_tokens": ("rageval_model_prompt_tokens_total", "Tokens sent to language models."),
            "completion_tokens": ("rageval_model_completion_tokens_total", "Tokens received from language models."),
            "cost_usd": (
                "rageval_model_cost_usd_total",
                "What language models cost, in US dollars, as far as prices are known.",
            ),
        }
        return [
            line
            for field, (name, told) in described.items()
            for line in _lines(name, told, "counter", [(key, values[field]) for key, values in sorted(usage.items())])
        ]

    def _counted(self, columns: list[Any], *where: Any) -> list[tuple[_Labels, int]]:
        wanted = [*columns, *([columns[0].table.c.client_id] if self._per_client else [])]
        query = sa.select(*wanted, sa.func.count()).where(*where).group_by(*wanted).order_by(*wanted)
        return [
            (tuple((_label(column.name), str(value)) for column, value in zip(wanted, row, strict=False)), row[-1])
            for row in self._db.rows(query)
        ]

    def _one(self, query: sa.Select[Any]) -> Any:
        return self._db.rows(query)[0][0]


def _label(column: str) -> str:
    return "client" if column == "client_id" else column


def _gauge(name: str, told: str, samples: Iterable[tuple[_Labels, float]]) -> list[str]:
    return _lines(name, told, "gauge", samples)


def _lines(name: str, told: str, kind: str, samples: Iterable[tuple[_Labels, float]]) -> list[str]:
    lines = [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        said = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        lines.append(f"{name}{'{' + said + '}' if said else ''} {float(value):.10g}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
