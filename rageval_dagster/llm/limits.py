"""How many requests are in flight at once: as many as allowed, fewer while the endpoint says that it is too many."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

SHRINK = 0.75
"""What is left of the limit after an overload."""

OVERLOAD_SHARE = 0.4
"""The share of refused requests (429, 503) from which they tell of too many at once. Refusals that come whatever the
number in flight (a quota by the minute, a bad node) stay below it, and do not slow down what gets through."""

SHORTEST_ROUND = 10
"""Replies that are looked at together, at the least."""

PUT_OFF_A_PLACE = 4
"""Requests that were refused or failed and are to be sent again, for each place. With more of them nothing new is
begun: under a quota all would only use up each other's attempts, and an endpoint that is down would be stormed."""


class AdaptiveLimit:
    """Additive increase, multiplicative decrease (as TCP's congestion avoidance, Chiu and Jain 1989).

    Replies are looked at in rounds of about as many as are in flight. A round without overload raises the limit by one,
    up to `most`; one in which a share of OVERLOAD_SHARE or more was refused lowers it to SHRINK of itself. Whoever
    waits for a place gets it in the order of priority (lowest first), then of coming; those that are sent again come
    before those that are new.
    """

    def __init__(self, most: int, start: float | None = None) -> None:
        self.most = most
        self.value = min(float(most), start or most)
        self._in_flight = 0
        self._put_off = 0
        self._waiting: list[tuple[bool, int, int, asyncio.Future[None]]] = []
        self._came = 0
        self._replies = 0
        self._refused = 0

    @asynccontextmanager
    async def place(self, priority: int, is_new: bool = True) -> AsyncIterator[None]:
        """Waits for a place in flight and holds it; `is_new` is false for a request that is sent again."""
        if self._waiting or not self._has_room(is_new):
            await self._wait(priority, is_new)
        else:
            self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._admit()

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """To be held from a request's first failure until it is answered or given up."""
        self._put_off += 1
        try:
            yield
        finally:
            self._put_off -= 1
            self._admit()

    def replied(self, refused: bool) -> None:
        """To be told of every reply: whether the endpoint refused for now (429, 503)."""
        self._replies += 1
        self._refused += refused
        length = max(SHORTEST_ROUND, int(self.value))
        # Told as soon as no reply still missing in this round could change it.
        if self._refused >= OVERLOAD_SHARE * length:
            self.value = max(1.0, self.value * SHRINK)
        elif self._replies < length:
            return
        else:
            self.value = min(float(self.most), self.value + 1)
        self._replies = self._refused = 0
        self._admit()

    def _has_room(self, is_new: bool) -> bool:
        crowded = is_new and self._put_off >= PUT_OFF_A_PLACE * self.value
        return self._in_flight < int(self.value) and not crowded

    async def _wait(self, priority: int, is_new: bool) -> None:
        self._came += 1
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (is_new, priority, self._came, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The place was given just when its taker went away.
                self._in_flight -= 1
                self._admit()
            raise

    def _admit(self) -> None:
        while self._waiting and self._has_room(is_new=self._waiting[0][0]):
            *_, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)
