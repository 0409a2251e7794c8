"""Judging results with a language model: every judged metric of every result, many at once."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from rageval_dagster.errors import LanguageModelError, class_and_place
from rageval_dagster.identity import digest, digest_json
from rageval_dagster.llm.client import (
    Asker,
    ChatRequest,
    Completion,
    Failure,
    ModelFailedError,
    UnusableReplyError,
)
from rageval_dagster.llm.prompts import Prompt, fenced
from rageval_dagster.metrics.interface import Metric, MetricOptions, Tools
from rageval_dagster.records import Outcome, Progress, Result

if TYPE_CHECKING:
    import numpy as np

logger = logging.getLogger(__name__)

T = TypeVar("T")


def judged_version(options: MetricOptions, definition: str, *prompts: Prompt) -> str:
    """A judged metric's version: that of its definition, of the judge model, and of the prompts that it asks with."""
    judge = (options.judge_version or "none")[:16]
    return f"{definition};judge={judge};prompts={digest(*(prompt.version for prompt in prompts))[:8]}"


def shown_question(result: Result) -> str:
    """A result's question as the judge is shown it: fenced, after the turns before it where there are any."""
    turns = [f"{turn.get('role', '')}: {turn.get('content', '')}" for turn in result.item.history]
    history = [fenced("history", "\n".join(turns))] if turns else []
    question = result.item.question
    return "\n\n".join([*history, fenced("question", question) if question.strip() else "The question is not known."])


def judge_scores(
    metrics: Sequence[Metric], results: Sequence[Result], tools: Tools, progress: Progress | None = None
) -> Mapping[str, list[Outcome]]:
    """Each judged metric's outcomes by its id, one a result in order.

    Requests that several metrics share (an answer's claims) are sent once, and fail for all of them. A judge that
    gives no usable reply, or a metric that fails, gives an error outcome; the others go on.

    Raises:
        LanguageModelError: the judge's endpoint refuses, or does not answer any more (BudgetReachedError: its budget is
            spent); what it said until then is in its cache.
        LookupError: these tools have no judge.
    """
    if tools.judge is None:
        raise LookupError("these tools have no judge")
    scores = {metric.id: [metric.inapplicable(result) for result in results] for metric in metrics}
    # Result by result: what is judged first is whole results.
    pairs = [
        _Pair(metric, row, result)
        for row, result in enumerate(results)
        for metric in metrics
        if scores[metric.id][row] is None
    ]
    embedding = _Embedding(tools)
    replies: dict[str, asyncio.Future[Completion]] = {}

    async def judge(asker: Asker, pair: _Pair) -> Outcome:
        assert pair.metric.judged is not None  # noqa: S101  (for the type checker)
        try:
            asked = _Judge(asker, embedding, replies, [])
            found = await pair.metric.judged(pair.result, asked)
            return replace(found, made_at=min(asked.made, default=None))
        except (ModelFailedError, LanguageModelError):
            raise
        except Exception as error:  # noqa: BLE001  (the other metrics go on)
            logger.warning("metric %s failed: %s", pair.metric.id, class_and_place(error))
            return Outcome.error(class_and_place(error))

    for pair, outcome in zip(pairs, tools.judge.converse(pairs, judge, progress), strict=True):
        found = Outcome.error(f"judge: {outcome.reason}") if isinstance(outcome, Failure) else outcome
        scores[pair.metric.id][pair.row] = found
    return scores  # pyright: ignore[reportReturnType]


@dataclass(frozen=True)
class _Pair:
    metric: Metric
    row: int
    result: Result


@dataclass(frozen=True)
class _Judge:
    """The judge of one result. `replies` are those to each request of the batch, by its digest.

    Metrics that share a request share its reply or its failure: one has no error where another has a score. `made` are
    the times of the replies from the cache.
    """

    asker: Asker
    embedding: "_Embedding"
    replies: dict[str, asyncio.Future[Completion]]
    made: list[datetime]

    async def ask(self, request: ChatRequest, read: Callable[[str], T]) -> T:
        key = digest_json(request.identity)
        if key in self.replies:
            reply = await asyncio.shield(self.replies[key])
            with suppress(UnusableReplyError):  # to another reader
                return self._read(reply, read)
            return self._read(await self.asker.complete(request, read), read)
        turn: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self.replies[key] = turn
        try:
            reply = await self.asker.complete(request, read)
        except BaseException as error:
            turn.set_exception(error)
            turn.exception()  # seen, also where nobody else waits for it
            raise
        turn.set_result(reply)
        return self._read(reply, read)

    def _read(self, reply: Completion, read: Callable[[str], T]) -> T:
        value = read(reply.text)
        if reply.made_at is not None:
            self.made.append(reply.made_at)
        return value

    async def embed(self, texts: Iterable[str]) -> "Mapping[str, np.ndarray]":
        return await self.embedding.embed(texts)


class _Embedding:
    """Embeds what is asked for while the last batch was being embedded, as one batch beside the event loop."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._wanted: list[str] = []
        self._turn: asyncio.Task[Mapping[str, np.ndarray]] | None = None
        self._busy = asyncio.Lock()

    async def embed(self, texts: Iterable[str]) -> "Mapping[str, np.ndarray]":
        self._wanted += texts
        if self._turn is None:
            self._turn = asyncio.create_task(self._embed())
        return await asyncio.shield(self._turn)

    async def _embed(self) -> "Mapping[str, np.ndarray]":
        async with self._busy:
            await asyncio.sleep(0)
            wanted, self._wanted, self._turn = self._wanted, [], None
            return await asyncio.to_thread(self._tools.embed, wanted)
