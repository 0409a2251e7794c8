"""Reading what models reply: the JSON in a reply, whatever stands around it."""

import json
import re
from contextlib import suppress
from typing import Any

from rageval_dagster.llm.messages import UnusableReplyError
from rageval_dagster.network import TooDeepError, is_deep

MOST_OBJECTS = 1_000
"""So many are looked at: a model that repeats nothing else would keep everybody waiting."""

_BEGIN = re.compile(r"\s*<think(?:ing)?>", re.IGNORECASE)
_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_END_ON_A_LINE = re.compile(r"^[ \t]*</think(?:ing)?>", re.IGNORECASE | re.MULTILINE)
_BRACE = re.compile("[{}]")
_LIST = re.compile(r"\s*(?:```\w*\s*)?(?=\[)")


def without_thoughts(text: str) -> str:
    """The reply without what a reasoning model thought aloud before it; empty where it never came to an end.

    The mark of the beginning may be missing: some endpoints count it to the prompt.
    """
    has_begun = _BEGIN.match(text)
    end = (_END if has_begun else _END_ON_A_LINE).search(text)
    if end is not None:
        return text[end.end() :].strip()
    return "" if has_begun else text.strip()


def read_object(text: str) -> dict[str, Any]:
    """The JSON object of a reply; Markdown fences and words around it do not matter, nor that it is said twice.

    Models quote objects from what they are shown. So none counts of several that differ, and none that stands within
    what is no JSON; a field that an object has twice, with different values, it does not have.

    Raises:
        UnusableReplyError: there is none, or there are several.
    """
    objects = read_objects(text)
    if not objects:
        raise UnusableReplyError("the reply holds no JSON object")
    if any(other != objects[0] for other in objects):
        raise UnusableReplyError("the reply holds several JSON objects")
    return objects[0]


def read_objects(text: str) -> list[dict[str, Any]]:
    """All JSON objects of a reply that stand in no other, in their order."""
    text = without_thoughts(text)
    found: list[dict[str, Any]] = []
    end = 0
    for _ in range(MOST_OBJECTS):
        start = text.find("{", end)
        if start < 0:
            break
        try:
            value, end = _decoded(text, start)
        except ValueError:
            end = _closed(text, start)
        else:
            found.append(value)
    return found


def read_list(text: str, name: str) -> list[Any]:
    """The list under `name` in a reply's JSON object; a reply that is but a list is that list.

    Raises:
        UnusableReplyError: there is none.
    """
    text = without_thoughts(text)
    rows = None
    with suppress(UnusableReplyError):
        rows = read_object(text).get(name)
    opening = _LIST.match(text)
    if rows is None and opening is not None:
        with suppress(ValueError):
            rows, _ = _decoded(text, opening.end())
    if not isinstance(rows, list):
        raise UnusableReplyError(f"the reply holds no list of {name}")
    return rows


def _without_contradictions(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    contradicted = {name for name, value in fields if found.setdefault(name, value) != value}
    return {name: value for name, value in found.items() if name not in contradicted}


_DECODER = json.JSONDecoder(object_pairs_hook=_without_contradictions)


def _decoded(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins there, and where it ends; as `parsed_json`."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise TooDeepError from None
    if is_deep(text[start:end]):
        raise TooDeepError
    return value, end


def _closed(text: str, start: int) -> int:
    """Where what a brace opens ends: after the brace that closes it, or else with the text."""
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace.group() == "{" else -1
        if not depth:
            return brace.end()
    return len(text)
