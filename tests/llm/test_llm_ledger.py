"""A client's account with models, while requests are on their way."""

import asyncio
import threading

import pytest

from rageval_dagster.llm import ledger as ledger_module
from rageval_dagster.llm.ledger import Ledger
from rageval_dagster.storage.database import Database


def test_a_reply_that_comes_while_it_is_looked_up_is_found(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, may_end = threading.Event(), threading.Event()
    load = ledger_module.load_replies

    def slow(*arguments: object) -> dict[str, str]:
        found = load(*arguments)  # pyright: ignore[reportArgumentType]
        looked.set()
        may_end.wait(10)
        return found

    monkeypatch.setattr(ledger_module, "load_replies", slow)

    async def both() -> str | None:
        ledger = Ledger(sqlite_db, "acme", 30.0)
        asked = asyncio.create_task(ledger.known("key"))
        await asyncio.to_thread(looked.wait, 10)
        # Another one, who asked the same before, has the reply.
        ledger.keep("key", "small", "reply")
        await ledger.settle()
        may_end.set()
        return await asked

    assert asyncio.run(both()) == "reply"
