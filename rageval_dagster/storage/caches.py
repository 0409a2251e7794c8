"""The caches of vectors and model responses, each client's own, and the record of model calls."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta

import sqlalchemy as sa

from rageval_dagster.identity import digest
from rageval_dagster.storage.database import Database, in_batches, retried, upsert
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
    dagster_run_id: str | None


def load_vectors(db: Database, client_id: str, model: str, text_hashes: Iterable[str]) -> dict[str, bytes]:
    """{text hash: vector as little-endian float32} for those texts that this model embedded for this client."""
    found: dict[str, bytes] = {}
    with db.connect() as connection:
        for batch in in_batches(text_hashes):
            rows = connection.execute(
                sa.select(embedding_cache.c.text_hash, embedding_cache.c.vector).where(
                    embedding_cache.c.client_id == client_id,
                    embedding_cache.c.model_key == digest(model),
                    embedding_cache.c.text_hash.in_(batch),
                )
            )
            found.update((row.text_hash, row.vector) for row in rows)
    return found


@retried
def save_vectors(db: Database, client_id: str, model: str, vectors: Mapping[str, bytes]) -> None:
    """Keeps {text hash: vector as little-endian float32}; one that is there stays."""
    now = utc_now()
    rows = [
        {"client_id": client_id, "model_key": digest(model), "text_hash": text_hash, "vector": vector, "made_at": now}
        for text_hash, vector in vectors.items()
    ]
    with db.begin() as connection:
        upsert(connection, embedding_cache, rows)


def llm_get(db: Database, client_id: str, request_hash: str, max_age_days: float) -> str | None:
    """The response to an equal request of this client, if it is at most so many days old."""
    with db.connect() as connection:
        return connection.execute(
            sa.select(llm_cache.c.response).where(
                llm_cache.c.client_id == client_id,
                llm_cache.c.request_hash == request_hash,
                llm_cache.c.made_at > utc_now() - timedelta(days=max_age_days),
            )
        ).scalar_one_or_none()


@retried
def llm_put(db: Database, client_id: str, request_hash: str, model: str, response: str) -> None:
    """Keeps a response, in place of an older one to the same request."""
    row = {
        "client_id": client_id,
        "request_hash": request_hash,
        "model": model,
        "response": response,
        "made_at": utc_now(),
    }
    with db.begin() as connection:
        upsert(connection, llm_cache, [row], update=["model", "response", "made_at"])


@retried
def record_calls(db: Database, calls: Sequence[LlmCall]) -> None:
    """Appends calls to the record."""
    if not calls:
        return
    now = utc_now()
    with db.begin() as connection:
        connection.execute(sa.insert(llm_calls), [{**asdict(call), "called_at": now} for call in calls])
