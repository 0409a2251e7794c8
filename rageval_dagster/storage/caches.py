"""The caches of vectors and model responses, each client's own, and the record of model calls."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from rageval_dagster.identity import digest
from rageval_dagster.storage.database import Database, retried, upsert
from rageval_dagster.storage.tables import embedding_cache, llm_cache, llm_calls
from rageval_dagster.storage.types import utc_now


@dataclass(frozen=True)
class LlmCall:
    """One call of a language model: what it took, and how it ended. `error` holds a kind of error, never a text."""

    client_id: str
    role: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    latency_s: float
    cache_hit: bool
    retries: int
    error: str | None
    run_id: str | None


@dataclass(frozen=True)
class Reply:
    """What a language model said, as the cache keeps it, and when."""

    response: str
    made_at: datetime


@dataclass(frozen=True)
class Usage:
    """What model calls took. `requests` are those that were asked for: `cache_hits` of them cost nothing.

    `retries` are attempts beside the last one of each; `unpriced` are requests whose model has no price, which
    `cost_usd` leaves out; `latency_s` is the time of successful attempts in all.
    """

    requests: int = 0
    cache_hits: int = 0
    errors: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    latency_s: float = 0.0

    @property
    def sent(self) -> int:
        """Requests that went to the endpoint."""
        return self.requests - self.cache_hits

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*(one + another for one, another in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, earlier: "Usage") -> "Usage":
        """What came since."""
        return Usage(*(now - then for now, then in zip(astuple(self), astuple(earlier), strict=True)))

    def described(self) -> str:
        """`12 model calls, 3 from the cache, 4,500 tokens, 0.0123 USD`; empty where no model was asked."""
        if not self.requests:
            return ""
        parts = [
            f"{self.sent:,} model calls",
            f"{self.cache_hits:,} from the cache" if self.cache_hits else "",
            f"{self.retries:,} tried again" if self.retries else "",
            f"{self.errors:,} failed" if self.errors else "",
            f"{self.tokens:,} tokens",
            f"{self.cost_usd:.4f} USD" if self.cost_usd and not self.unpriced else "",
        ]
        return ", ".join(filter(None, parts))

    def metadata(self) -> dict[str, int | float]:
        """Counts by name; the cost only where every call has a price."""
        counts: dict[str, int | float] = {
            "model_calls": self.sent,
            "cache_hits": self.cache_hits,
            "model_errors": self.errors,
            "retries": self.retries,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
        }
        return counts if self.unpriced else counts | {"cost_usd": self.cost_usd}


def load_vectors(db: Database, client_id: str, model: str, text_hashes: Iterable[str]) -> dict[str, bytes]:
    """{text hash: vector as little-endian float32} for those texts that this model embedded for this client."""
    kept = embedding_cache.c
    query = sa.select(kept.text_hash, kept.vector).where(kept.client_id == client_id, kept.model_key == digest(model))
    return {row.text_hash: row.vector for row in db.rows_in(query, kept.text_hash, text_hashes)}


def save_vectors(db: Database, client_id: str, model: str, vectors: Mapping[str, bytes]) -> None:
    """Keeps {text hash: vector as little-endian float32}; one that is there stays."""
    now = utc_now()
    rows = [
        {"client_id": client_id, "model_key": digest(model), "text_hash": text_hash, "vector": vector, "made_at": now}
        for text_hash, vector in vectors.items()
    ]
    db.upsert(embedding_cache, rows)


def load_replies(db: Database, client_id: str, request_hashes: Iterable[str], max_age_days: float) -> dict[str, Reply]:
    """{request hash: reply} for those requests of this client that have one of at most so many days."""
    kept, oldest = llm_cache.c, utc_now() - timedelta(days=max_age_days)
    query = sa.select(kept.request_hash, kept.response, kept.made_at).where(
        kept.client_id == client_id, kept.made_at > oldest
    )
    rows = db.rows_in(query, kept.request_hash, request_hashes)
    return {row.request_hash: Reply(row.response, row.made_at) for row in rows}


@retried
def save_replies(
    db: Database, client_id: str, replies: Sequence[tuple[str, str, str]], calls: Sequence[LlmCall] = ()
) -> None:
    """Keeps (request hash, model, response) in place of older ones, and appends calls to the record, at once."""
    now = utc_now()
    rows = [
        {"client_id": client_id, "request_hash": key, "model": model, "response": response, "made_at": now}
        for key, model, response in replies
    ]
    with db.begin() as connection:
        upsert(connection, llm_cache, rows, update=["model", "response", "made_at"])
        if calls:
            connection.execute(sa.insert(llm_calls), [{**asdict(call), "called_at": now} for call in calls])


def model_usage(
    db: Database,
    client_id: str | None = None,
    run_id: str | None = None,
    role: str | None = None,
    since: datetime | None = None,
) -> Usage:
    """What model calls took in all: of one client, run and role, and since a time, where these are given."""
    calls = llm_calls.c
    wanted = {calls.client_id: client_id, calls.run_id: run_id, calls.role: role}
    conditions = [column == value for column, value in wanted.items() if value is not None]
    if since is not None:
        conditions.append(calls.called_at >= since)
    paid = calls.prompt_tokens + calls.completion_tokens
    query = sa.select(
        sa.func.count().label("requests"),
        _count(calls.cache_hit.is_(True)).label("cache_hits"),
        _count(calls.error.is_not(None)).label("errors"),
        _count(sa.and_(calls.cost_usd.is_(None), paid > 0)).label("unpriced"),
        *(sa.func.coalesce(sa.func.sum(calls[name]), 0).label(name) for name in _SUMMED),
    ).where(*conditions)
    [row] = db.rows(query)
    numbers = {name: int(value) for name, value in row._mapping.items() if name not in {"cost_usd", "latency_s"}}
    return Usage(**numbers, cost_usd=float(row.cost_usd), latency_s=float(row.latency_s))


def models_asked(db: Database, client_id: str, run_id: str | None, role: str) -> list[str]:
    """The names of the models that a run asked in a role, in order; none where it took all from earlier runs."""
    calls = llm_calls.c
    asked = (calls.client_id == client_id, calls.run_id == run_id, calls.role == role)
    return [row.model for row in db.rows(sa.select(calls.model).distinct().where(*asked).order_by(calls.model))]


@dataclass(frozen=True)
class JudgeUse:
    """The judge models that scored by one version of a metric, and what a call of theirs costs; None: not known."""

    models: tuple[str, ...]
    cost_usd: float | None


def judges_used(db: Database, client_id: str, runs: Mapping[str, Collection[str]]) -> dict[str, JudgeUse]:
    """{name: which models judged} of names with the runs that they stand for, {name: ids of Dagster runs}."""
    calls = llm_calls.c
    paid = sa.func.coalesce(calls.prompt_tokens, 0) + sa.func.coalesce(calls.completion_tokens, 0) > 0
    query = sa.select(
        calls.run_id,
        calls.model,
        _count(paid).label("sent"),
        _count(sa.and_(paid, calls.cost_usd.is_(None))).label("unpriced"),
        sa.func.sum(calls.cost_usd).label("cost"),
    ).where(calls.client_id == client_id, calls.role == "judge")
    wanted = {run_id for ids in runs.values() for run_id in ids}
    rows = db.rows_in(query.group_by(calls.run_id, calls.model), calls.run_id, wanted)
    found: dict[str, JudgeUse] = {}
    for name, ids in runs.items():
        own = [row for row in rows if row.run_id in ids]
        sent, unpriced = (sum(int(getattr(row, count)) for row in own) for count in ("sent", "unpriced"))
        cost = sum(row.cost or 0.0 for row in own) / sent if sent and not unpriced else None
        found[name] = JudgeUse(tuple(sorted({row.model for row in own})), cost)
    return found


_SUMMED = ("retries", "prompt_tokens", "completion_tokens", "cost_usd", "latency_s")


def _count(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.coalesce(sa.func.sum(sa.case((condition, 1), else_=0)), 0)
