"""Reading what models reply: the JSON object in a reply, whatever stands around it."""

import json
import re
from typing import Any

from rageval_dagster.llm.messages import UnusableReplyError

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


def without_thoughts(text: str) -> str:
    """The reply without what a reasoning model thought aloud before it."""
    return _THOUGHTS.sub("", text).strip()


def read_object(text: str) -> dict[str, Any]:
    """The first JSON object of a reply; Markdown fences and words around it do not matter.

    Raises:
        UnusableReplyError: there is none.
    """
    text = without_thoughts(text)
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
        else:
            return value
    raise UnusableReplyError("the reply holds no JSON object")
