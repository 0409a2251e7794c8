"""Numbered verdicts: how a judge model is asked for one on each of many things, and how its replies are read."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rageval_dagster.llm.client import ChatRequest, Failure, ModelFailedError, UnusableReplyError, together
from rageval_dagster.llm.messages import object_schema
from rageval_dagster.llm.prompts import Prompt
from rageval_dagster.llm.replies import read_list
from rageval_dagster.metrics.interface import Judge
from rageval_dagster.storage.types import storable

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
            reasons.setdefault(number, _reason(row.get("reason")))
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


def _reason(value: Any) -> str:
    return storable(value[:LONGEST_REASON]) if isinstance(value, str) else ""
