"""How a model is talked to: what a conversation is given, and several of its requests at once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from rageval_dagster.llm.messages import ChatRequest, Completion, ModelFailedError

T = TypeVar("T")
S = TypeVar("S")


class Asker(Protocol):
    """What a conversation is given: it asks the model, one question after the other or several at once."""

    async def ask(self, request: ChatRequest, read: Callable[[str], T]) -> T:
        """What `read` makes of the reply.

        `read` raises UnusableReplyError for a reply that it cannot use: the model is asked again, and only usable
        replies are kept.

        Raises:
            ModelFailedError: no usable reply came, however often it was asked.
        """
        ...

    async def complete(self, request: ChatRequest, read: Callable[[str], object]) -> Completion:
        """As `ask`, but the reply itself and what it took, once `read` can use it."""
        ...


Conversation = Callable[[Asker, S], Awaitable[T]]


async def together(*asked: Awaitable[T]) -> list[T]:
    """What several requests, sent at once, come to; a failure is raised once all have ended, so that none is lost."""
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    # What ends the whole run comes before what one request met.
    failures.sort(key=lambda failure: isinstance(failure, ModelFailedError))
    if failures:
        raise failures[0]
    return outcomes  # pyright: ignore[reportReturnType]
