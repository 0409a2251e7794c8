"""Streamed answers: the events in a body of server-sent events or of JSON Lines."""

import json
import re
from typing import Any

_LINE_END = re.compile(r"\r\n|\n|\r")
_DONE = "[DONE]"
_DONE_LINE = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\][\r\n]")


class BrokenStreamError(Exception):
    """Why a stream is not a whole one; quotes nothing of it."""


def is_done(body: bytearray, new: int) -> bool:
    """Whether the last `new` bytes brought the line after which nothing counts, even if the connection stays open."""
    return _DONE_LINE.search(body, max(0, len(body) - new - len("\ndata: [DONE]"))) is not None


def sse_events(body: bytes) -> list[Any]:
    """The JSON values of server-sent events, up to `[DONE]` where that comes.

    Raises:
        BrokenStreamError: an event is no JSON, most likely cut off; the stream reports an error, or holds nothing.
    """
    events: list[Any] = []
    data: list[str] = []
    # A last event without the blank line that ends it still counts, if it is whole.
    for line in [*_LINE_END.split(_decoded(body)), ""]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event" and value == "error":
            raise BrokenStreamError("the stream reports an error")
        if name == "data":
            data.append(value)
        elif not line and data:
            if (text := "\n".join(data)) == _DONE:
                break
            events.append(_parsed(text))
            data = []
    return _some(events)


def line_events(body: bytes) -> list[Any]:
    """The JSON values of lines, as `sse_events`."""
    return _some([_parsed(line) for line in _decoded(body).split("\n") if line.strip()])


def _decoded(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BrokenStreamError("the stream is not UTF-8") from None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BrokenStreamError("an event is not whole JSON") from None


def _some(events: list[Any]) -> list[Any]:
    if not events:
        raise BrokenStreamError("the stream holds no event")
    return events
