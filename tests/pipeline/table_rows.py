"""All rows of a history database, without what differs between any two runs that find the same."""

from array import array
from collections import Counter
from typing import Any

import sqlalchemy as sa

from rageval_dagster.storage.database import Database
from rageval_dagster.storage.tables import corpus_chunks, metadata, word_hashes
from rageval_dagster.storage.word_hashes import hash_key, holder_of

# Times, costs and Dagster's own ids; `trigger_key` holds a command's invocation.
UNLIKE = {
    "word_hashes",
    "dagster_run_id",
    "duration_s",
    "latency_s",
    "cost_usd",
    "trigger_key",
    "evaluation_id",
    "lease_token",
}
# Every call of a model is a row, also one that was made again; what was told of runs that failed on the way; who asked.
# Words are hashed by a key that each history draws: see `hashes_left_over`.
UNLIKE_TABLES = {"llm_calls", "schema_info", "incidents", "run_requests", "word_hashes"}


def rows_of(db: Database, client_id: str | None = None) -> dict[str, list[str]]:
    """{table: its rows as sorted text}, of one client or of all."""
    found = {}
    with db.connect() as connection:
        for table in metadata.sorted_tables:
            if table.name in UNLIKE_TABLES:
                continue
            query = sa.select(*filter(_is_alike, table.c))
            if client_id is not None:
                query = (
                    query.where(table.c.client_id == client_id) if "client_id" in table.c else query.where(sa.false())
                )
            found[table.name] = sorted(map(repr, connection.execute(query).all()))
    return found


def hashes_left_over(db: Database) -> Counter[tuple[int, int]]:
    """(holder, hash) of the counted words that no chunk of the manifest has, or that were counted wrongly."""
    key = hash_key(db)
    found: Counter[tuple[int, int]] = Counter()
    for row in db.rows(sa.select(corpus_chunks.c.client_id, corpus_chunks.c.word_hashes)):
        found.update((holder_of(key, row.client_id), each) for each in array("q", row.word_hashes))
    counted = db.rows(sa.select(word_hashes.c.holder, word_hashes.c.hash, word_hashes.c.texts))
    found.subtract({(row.holder, row.hash): row.texts for row in counted})
    return Counter({each: count for each, count in found.items() if count})


def count_of(rows: dict[str, list[str]]) -> int:
    return sum(map(len, rows.values()))


def _is_alike(column: sa.Column[Any]) -> bool:
    """Whether two histories of the same have the same in it: no time, and no number that a database gave."""
    numbered = column.name == "id" or any(key.column.name == "id" for key in column.foreign_keys)
    named = column.name in UNLIKE or column.name.endswith(("_at", "_seen", "probe", "holder", "baseline_id"))
    return not (numbered or named or isinstance(column.type, sa.DateTime))
