"""Judging results with a language model: what it is asked and how its verdicts are read; all results at once."""

import asyncio
import logging
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from statistics import pstdev
from typing import TYPE_CHECKING, Any, TypeVar

from rageval_dagster.errors import LanguageModelError, class_and_place
from rageval_dagster.identity import digest, digest_json
from rageval_dagster.llm.client import (
    Asker,
    ChatRequest,
    Completion,
    Failure,
    ModelFailedError,
    UnusableReplyError,
    together,
)
from rageval_dagster.llm.contexts import estimated_tokens
from rageval_dagster.llm.messages import object_schema
from rageval_dagster.llm.prompts import Prompt, fenced
from rageval_dagster.llm.replies import read_list
from rageval_dagster.metrics.interface import REPEATS, Judge, Metric, MetricOptions, Tools
from rageval_dagster.records import Outcome, Progress, Result
from rageval_dagster.storage.types import storable

if TYPE_CHECKING:
    import numpy as np

logger = logging.getLogger(__name__)

T = TypeVar("T")

BLOCK = 40
"""Things that one request asks for verdicts on."""
ROUNDS = 3
"""How often verdicts are asked for: each time for those alone that have not come yet."""
LONGEST_REASON = 1_000
"""Characters of a reason that are kept."""


@dataclass(frozen=True)
class Verdict:
    """Whether something holds, and why, in the judge's words."""

    holds: bool
    reason: str = ""


def judged_version(options: MetricOptions, definition: str, *prompts: Prompt) -> str:
    """A judged metric's version: that of its definition, of the judge model and how often it is asked, and of the
    prompts."""
    judge = (options.judge_version or "none")[:16]
    repeats = f";{REPEATS}={options.judge_repeats}" if options.judge_repeats > 1 else ""
    return f"{definition};judge={judge};prompts={digest(*(prompt.version for prompt in prompts))[:8]}{repeats}"


def shown_question(result: Result) -> str:
    """A result's question as the judge is shown it: fenced, after the turns before it where there are any."""
    turns = [f"{turn.get('role', '')}: {turn.get('content', '')}" for turn in result.item.history]
    history = [fenced("history", "\n".join(turns))] if turns else []
    question = result.item.question
    return "\n\n".join([*history, fenced("question", question) if question.strip() else "The question is not known."])


def numbered_texts(texts: Iterable[str]) -> dict[int, str]:
    """The texts by their places from 1, without the blank ones."""
    return {number: text for number, text in enumerate(texts, start=1) if text.strip()}


def fences(tag: str, texts: Mapping[int, str]) -> str:
    """Numbered texts as fenced material."""
    return "\n\n".join(fenced(tag, text, number) for number, text in texts.items())


def judge_request(prompt: Prompt, schema: Mapping[str, Any], **material: str) -> ChatRequest:
    """The request that a prompt makes of fenced material; its reply is the object that `schema` describes."""
    # What JSON escapes of half a character say (claims come from replies) could not be sent.
    return ChatRequest(user=storable(prompt.fill("user", **material)), system=prompt.fill("system"), schema=schema)


def verdict_schema(name: str) -> Mapping[str, Any]:
    """The JSON schema of a reply with numbered verdicts, each under `name`."""
    row = object_schema("verdict", **{"number": "integer", "reason": "string", name: "boolean"})
    return object_schema("verdicts", verdicts={"type": "array", "items": row})


async def ask_verdicts(
    judge: Judge, numbers: Sequence[int], name: str, request: Callable[[Sequence[int]], ChatRequest]
) -> Mapping[int, Verdict]:
    """Exactly one verdict for each of the numbers, in their order.

    `request` asks for the verdicts on some of them, under the key `name`; `BLOCK` of them are asked for at once. Those
    that do not come, or contradict themselves, are asked for again.

    Raises:
        ModelFailedError: some are missing after `ROUNDS` rounds, or a request got no usable reply.
    """
    found: dict[int, Verdict] = {}
    for _ in range(ROUNDS):
        missing = [number for number in numbers if number not in found]
        blocks = [missing[start : start + BLOCK] for start in range(0, len(missing), BLOCK)]
        asked = [judge.ask(request(block), partial(read_verdicts, name=name, numbers=block)) for block in blocks]
        for verdicts in await together(*asked):
            found |= verdicts
        if len(found) == len(numbers):
            return {number: found[number] for number in numbers}
    missing_count = len(numbers) - len(found)
    raise ModelFailedError(Failure(f"{missing_count} of {len(numbers)} verdicts missing after {ROUNDS} rounds"))


def read_verdicts(text: str, name: str, numbers: Collection[int]) -> dict[int, Verdict]:
    """The verdicts of a reply on these numbers; those on others are left out, and those that contradict each other.

    Raises:
        UnusableReplyError: there is no verdict on any of them.
    """
    found: dict[int, set[bool]] = {}
    reasons: dict[int, str] = {}
    for row in read_list(text, "verdicts"):
        if not isinstance(row, dict):
            continue
        number, holds = _number(row.get("number")), read_truth(row.get(name), name)
        if number is not None and number in numbers and holds is not None:
            found.setdefault(number, set()).add(holds)
            reason = row.get("reason")
            reasons.setdefault(number, storable(reason[:LONGEST_REASON]) if isinstance(reason, str) else "")
    verdicts = {number: Verdict(True in said, reasons[number]) for number, said in found.items() if len(said) == 1}
    if not verdicts:
        raise UnusableReplyError("the reply holds none of the verdicts asked for")
    return verdicts


def read_truth(value: Any, name: str) -> bool | None:
    """What a model says under the key `name`, as true or false; None for anything that is neither."""
    if isinstance(value, bool | int | float):
        return bool(value) if value in (0, 1) else None
    if not isinstance(value, str):
        return None
    said = value.strip().casefold()
    if said in {"true", "yes", "1", name}:
        return True
    return False if said in {"false", "no", "0", f"not {name}", f"not_{name}", f"un{name}"} else None


def _number(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,9}\s*", value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def judge_scores(
    metrics: Sequence[Metric], results: Sequence[Result], tools: Tools, progress: Progress | None = None
) -> Mapping[str, list[Outcome]]:
    """Each judged metric's outcomes by its id, one a result in order.

    Requests that several metrics share (an answer's claims) are sent once, and fail for all of them. A judge that gives
    no usable reply, or a metric that fails, gives an error outcome; the others go on. With the setting judge_repeats
    the judge is asked so many times, each time anew, and the mean counts (`repeated`). An answer that is longer than
    the setting judged_answer_tokens gives one unasked: it would not fit the model, or cost as much as all others, and a
    verdict on its beginning would be none on the answer.

    Raises:
        LanguageModelError: the judge's endpoint refuses, or does not answer any more (BudgetReachedError: its budget is
            spent); what it said until then is in its cache.
        LookupError: these tools have no judge.
    """
    if tools.judge is None:
        raise LookupError("these tools have no judge")
    most_tokens, repeats = tools.judge.settings.judged_answer_tokens, tools.judge.settings.judge_repeats
    scores = {metric.id: [unasked(metric, result, most_tokens) for result in results] for metric in metrics}
    # Result by result: what is judged first is whole results.
    pairs = [
        _Pair(metric, row, result, repeat)
        for row, result in enumerate(results)
        for metric in metrics
        if scores[metric.id][row] is None
        for repeat in range(repeats)
    ]
    embedding = _Embedding(tools)
    replies: dict[str, asyncio.Future[Completion]] = {}

    async def judge(asker: Asker, pair: _Pair) -> Outcome:
        assert pair.metric.judged is not None  # noqa: S101  (for the type checker)
        try:
            asked = _Judge(asker, embedding, replies, [], pair.repeat)
            found = await pair.metric.judged(pair.result, asked)
            return replace(found, made_at=min(asked.made, default=None))
        except (ModelFailedError, LanguageModelError):
            raise
        except Exception as error:  # noqa: BLE001  (the other metrics go on)
            logger.warning("metric %s failed: %s", pair.metric.id, class_and_place(error))
            return Outcome.error(class_and_place(error))

    told = progress and (lambda done, total: progress(done // repeats, total // repeats))
    times: dict[tuple[str, int], list[Outcome]] = {}
    for pair, outcome in zip(pairs, tools.judge.converse(pairs, judge, told), strict=True):
        found = Outcome.error(f"judge: {outcome.reason}") if isinstance(outcome, Failure) else outcome
        times.setdefault((pair.metric.id, pair.row), []).append(found)
    for (metric_id, row), outcomes in times.items():
        scores[metric_id][row] = repeated(outcomes)
    return scores  # pyright: ignore[reportReturnType]


def repeated(outcomes: Sequence[Outcome]) -> Outcome:
    """What a judge comes to that was asked several times: the mean of its scores, with all of them in the detail.

    The rest of the detail is that of the first score. An error is one of all; where no time gave a score, the first
    outcome stands.
    """
    scored = [each for each in outcomes if each.value is not None]
    failed = next((each for each in outcomes if each.status == "error"), None)
    if len(outcomes) == 1 or failed is not None or not scored:
        return failed or outcomes[0]
    values = [each.value for each in scored if each.value is not None]
    detail = {**(scored[0].detail or {}), REPEATS: {"values": values, "spread": pstdev(values)}}
    made = [each.made_at for each in scored if each.made_at is not None]
    return replace(Outcome.scored(math.fsum(values) / len(values), detail), made_at=min(made, default=None))


def unasked(metric: Metric, result: Result, most_tokens: int) -> Outcome | None:
    """The outcome of a result that the judge is not shown: it does not apply, or its answer is too long; else None."""
    if "answer" not in metric.needs or estimated_tokens(result.answer_text) <= most_tokens:
        return metric.inapplicable(result)
    return metric.inapplicable(result) or Outcome.error(
        f"answer_too_long: more than {most_tokens:,} tokens (RAGEVAL_JUDGED_ANSWER_TOKENS), not judged"
    )


@dataclass(frozen=True)
class _Pair:
    metric: Metric
    row: int
    result: Result
    repeat: int


@dataclass(frozen=True)
class _Judge:
    """The judge of one result. `replies` are those to each request of the batch, by its digest.

    Metrics that share a request share its reply or its failure: one has no error where another has a score. `made` are
    the times of the replies from the cache. It is asked the `repeat`-th time, from 0.
    """

    asker: Asker
    embedding: "_Embedding"
    replies: dict[str, asyncio.Future[Completion]]
    made: list[datetime]
    repeat: int

    async def ask(self, request: ChatRequest, read: Callable[[str], T]) -> T:
        request = replace(request, repeat=self.repeat)
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
