"""One client's account with models: replies that are known, replies to keep, and what every call took."""

import asyncio

from rageval_dagster.storage.caches import LlmCall, Reply, load_replies, save_replies
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.types import utc_now


class Ledger:
    """Reads and writes the cache and the record of calls while requests are on their way, in few transactions.

    Lookups that are asked for at the same time are one query; replies and calls that came while the last ones were
    being written are written together: a process that is killed loses at most those of some milliseconds. Without a
    database, replies are kept as long as the ledger lives, and calls nowhere.
    """

    def __init__(self, db: Database | None, client_id: str, max_age_days: float) -> None:
        self._db = db
        self._client_id = client_id
        self._max_age_days = max_age_days
        self._kept: dict[str, Reply] = {}  # what is not written yet; without a database, everything
        self._asked: dict[str, asyncio.Future[Reply | None]] = {}
        self._looked_up: dict[str, asyncio.Future[Reply | None]] = {}  # those of a query that is on its way
        self._replies: list[tuple[str, str, str]] = []
        self._calls: list[LlmCall] = []
        self._being_written: list[LlmCall] = []
        self._looking: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None

    async def known(self, key: str) -> Reply | None:
        """The reply that is kept for a request, None if there is none young enough.

        Raises:
            DatabaseError: the database does not answer, or no longer takes what it is given: another reply would be
                paid for and lost.
        """
        if self._writing is not None and self._writing.done():
            self._writing.result()
        if key in self._kept or self._db is None:
            return self._kept.get(key)
        if key not in self._asked:
            self._asked[key] = asyncio.get_running_loop().create_future()
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look(self._db))
        found = await asyncio.shield(self._asked[key])
        # It may have come since.
        return self._kept.get(key, found)

    def keep(self, key: str, model: str, reply: str) -> None:
        """Keeps a reply; it is written at once, or as soon as what is being written is done."""
        self._kept[key] = Reply(reply, utc_now())
        # An equal request may be looked up just now, by a query that was too early.
        for asked in (self._asked, self._looked_up):
            if key in asked and not asked[key].done():
                asked[key].set_result(self._kept[key])
        if self._db is not None:
            self._replies.append((key, model, reply))
            self._start_writing(self._db)

    def record(self, call: LlmCall) -> None:
        """Adds a call to the record."""
        if self._db is not None:
            self._calls.append(call)
            self._start_writing(self._db)

    @property
    def unwritten(self) -> list[LlmCall]:
        """The calls that may not stand in the database yet."""
        return [*self._being_written, *self._calls]

    async def settle(self) -> None:
        """Returns when everything is written, and nothing is looked up any more.

        Raises:
            DatabaseError: it cannot be written.
        """
        try:
            while self._writing is not None:
                task, self._writing = self._writing, None
                await task
        finally:
            if self._looking is not None:
                await self._looking

    def _start_writing(self, db: Database) -> None:
        if self._writing is None or (self._writing.done() and self._writing.exception() is None):
            self._writing = asyncio.create_task(self._write(db))

    async def _write(self, db: Database) -> None:
        await asyncio.sleep(0)
        while self._replies or self._calls:
            replies, self._replies = self._replies, []
            calls, self._calls = self._calls, []
            self._being_written = calls
            await asyncio.to_thread(save_replies, db, self._client_id, replies, calls)
            self._being_written = []
            for key, _, _ in replies:
                self._kept.pop(key, None)

    async def _look(self, db: Database) -> None:
        await asyncio.sleep(0)
        while self._asked:
            asked, self._asked = self._asked, {}
            self._looked_up = asked
            try:
                found = await asyncio.to_thread(load_replies, db, self._client_id, list(asked), self._max_age_days)
            except Exception as error:  # noqa: BLE001  (handed to those who wait)
                for turn in asked.values():
                    if not turn.done():
                        turn.set_exception(error)
                        turn.exception()  # seen, also where nobody waits any more
                continue
            for key, turn in asked.items():
                if not turn.done():
                    turn.set_result(found.get(key))
