"""Reading what models reply: the JSON object in a reply, whatever stands around it."""

import json
import re
from contextlib import suppress
from itertools import islice
from typing import Any

from rageval_dagster.llm.messages import UnusableReplyError

MOST_BRACES = 1_000
"""So many opening braces are tried: a model that repeats nothing else would keep everybody waiting."""

_BEGIN = re.compile(r"\s*<think(?:ing)?>", re.IGNORECASE)
_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_END_ON_A_LINE = re.compile(r"^[ \t]*</think(?:ing)?>", re.IGNORECASE | re.MULTILINE)


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
    """The first JSON object of a reply; Markdown fences and words around it do not matter.

    Raises:
        UnusableReplyError: there is none.
    """
    text = without_thoughts(text)
    decoder = json.JSONDecoder()
    for brace in islice(re.finditer("{", text), MOST_BRACES):
        with suppress(ValueError, RecursionError):
            return decoder.raw_decode(text, brace.start())[0]
    raise UnusableReplyError("the reply holds no JSON object")
