"""Keyed hashes of runs of words, over all clients: who holds a run of words, without a word of it."""

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.storage.database import Database, upsert
from rageval_dagster.storage.tables import schema_info, word_hashes

_KEY = "word_hashes"
_PROVISIONAL = -1
"""In place of a hash: the client's hashes come from a look at its documents, and its next scan counts them anew."""

_PARTS = 64
"""A client's hashes are deleted in so many transactions: no other writer waits for long."""

HASH_BITS = 48
"""Of a run: of a hundred million runs, one in three million is another's by chance."""


@dataclass(frozen=True)
class Holders:
    """How many other clients hold a run of words, which one if it is one, and whether the client itself does."""

    others: int
    own: bool
    other: int | None


def hash_key(db: Database) -> bytes:
    """The secret of this history by which runs are hashed; made when it is wanted first."""
    query = sa.select(schema_info.c.value).where(schema_info.c.name == _KEY)
    if not (found := db.scalars(query)):
        db.upsert(schema_info, [{"name": _KEY, "value": secrets.token_hex(32)}], checked=False)
        found = db.scalars(query)
    return bytes.fromhex(found[0])


def holder_of(key: bytes, client_id: str) -> int:
    """What stands for a client beside its hashes: no name."""
    named = hashlib.blake2b(client_id.encode("utf-8", "surrogatepass"), key=key, person=b"holder", digest_size=6)
    return int.from_bytes(named.digest())


def recount(connection: Connection, holder: int, before: Iterable[int], after: Iterable[int]) -> None:
    """Notes that texts with the hashes `before` have gone and that those with `after` have come."""
    change = Counter(after)
    change.subtract(Counter(before))
    more = [{"hash": each, "holder": holder, "texts": count} for each, count in change.items() if count > 0]
    fewer = [{"of_hash": each, "gone": -count} for each, count in sorted(change.items()) if count < 0]
    if more:
        upsert(connection, word_hashes, more, lambda new: {"texts": word_hashes.c.texts + new.texts})
    if fewer:
        here = sa.and_(word_hashes.c.hash == sa.bindparam("of_hash"), word_hashes.c.holder == holder)
        left = word_hashes.c.texts - sa.bindparam("gone")
        connection.execute(sa.update(word_hashes).where(here).values(texts=left), fewer)
        gone = sa.delete(word_hashes).where(here, word_hashes.c.texts <= 0)
        connection.execute(gone, [{"of_hash": row["of_hash"]} for row in fewer])


def holders_of(db: Database, holder: int, hashes: Iterable[int]) -> Mapping[int, Holders]:
    """Who holds runs with these hashes; those that nobody holds are left out."""
    own = sa.func.max(sa.case((word_hashes.c.holder == holder, 1), else_=0))
    other = sa.func.max(sa.case((word_hashes.c.holder != holder, word_hashes.c.holder)))
    query = sa.select(word_hashes.c.hash, sa.func.count(), own, other).group_by(word_hashes.c.hash)
    rows = db.rows_in(query, word_hashes.c.hash, hashes)
    return {
        each: Holders(count - is_own, bool(is_own), last if count - is_own == 1 else None)
        for each, count, is_own, last in rows
    }


def add_hashes(db: Database, holder: int, hashes: Iterable[int]) -> None:
    """Notes that texts with these hashes have come, in a transaction of their own."""
    with db.begin() as connection:
        recount(connection, holder, (), hashes)


def provisional(db: Database) -> dict[int, bool]:
    """{holder: whether a look at its documents came to the end} of those whose hashes come from no scan alone."""
    query = sa.select(word_hashes.c.holder, word_hashes.c.texts).where(word_hashes.c.hash == _PROVISIONAL)
    return {row.holder: bool(row.texts) for row in db.rows(query)}


def note_look(db: Database, holder: int, complete: bool) -> None:
    """What `provisional` says from now on: before the first hash of a look is added, and after the last."""
    db.upsert(word_hashes, [{"hash": _PROVISIONAL, "holder": holder, "texts": int(complete)}], update=["texts"])


def forget_look(db: Database, holder: int) -> None:
    """Notes that the hashes are the manifest's again."""
    db.execute(sa.delete(word_hashes).where(word_hashes.c.hash == _PROVISIONAL, word_hashes.c.holder == holder))


def count_hashes(connection: Connection, holder: int) -> int:
    """How many different hashes a client holds."""
    return connection.execute(sa.select(sa.func.count()).where(word_hashes.c.holder == holder)).scalar_one()


def delete_hashes(db: Database, holder: int) -> None:
    """Deletes what a client holds. The table is read once: it has no index by holder, which would double it."""
    step = 2**HASH_BITS // _PARTS
    for start in range(0, 2**HASH_BITS, step):
        part = sa.and_(word_hashes.c.hash >= start, word_hashes.c.hash < start + step)
        db.execute(sa.delete(word_hashes).where(part, word_hashes.c.holder == holder))
