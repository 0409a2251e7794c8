"""A client's account with models, while requests are on their way."""

import asyncio
import threading

import pytest

from rageval_dagster.errors import DatabaseError
from rageval_dagster.llm import ledger as ledger_module
from rageval_dagster.llm.ledger import Ledger
from rageval_dagster.storage.caches import Reply
from rageval_dagster.storage.database import Database


def test_a_reply_that_comes_while_it_is_looked_up_is_found(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, may_end = threading.Event(), threading.Event()
    load = ledger_module.load_replies

    def slow(*arguments: object) -> dict[str, Reply]:
        found = load(*arguments)  # pyright: ignore[reportArgumentType]
        looked.set()
        may_end.wait(60)
        return found

    monkeypatch.setattr(ledger_module, "load_replies", slow)

    async def both() -> Reply | None:
        ledger = Ledger(sqlite_db, "acme", 30.0)
        asked = asyncio.create_task(ledger.known("key"))
        await asyncio.to_thread(looked.wait, 10)
        # Another one, who asked the same before, has the reply.
        ledger.keep("key", "small", "reply")
        while not load(sqlite_db, "acme", ["key"], 30.0):
            await asyncio.sleep(0.001)
        may_end.set()
        return await asked

    found = asyncio.run(both())
    assert found is not None
    assert found.response == "reply"


def test_a_database_that_fails_leaves_nobody_waiting(sqlite_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    looking, may_end = threading.Event(), threading.Event()

    def fail(*_: object) -> dict[str, str]:
        looking.set()
        may_end.wait(60)
        raise DatabaseError("gone")

    monkeypatch.setattr(ledger_module, "load_replies", fail)

    async def both() -> tuple[Reply | BaseException | None, ...]:
        ledger = Ledger(sqlite_db, "acme", 30.0)
        first = asyncio.create_task(ledger.known("one"))
        await asyncio.to_thread(looking.wait, 60)
        second = asyncio.create_task(ledger.known("two"))
        await asyncio.sleep(0)
        may_end.set()
        async with asyncio.timeout(60):
            found = await asyncio.gather(first, second, return_exceptions=True)
            await ledger.settle()
        return found

    assert [type(found) for found in asyncio.run(both())] == [DatabaseError, DatabaseError]
