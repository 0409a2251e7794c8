"""How far an answer's words, numbers and names are found in its contexts, without a model."""

import re
import unicodedata
from collections.abc import Sequence

from rageval_dagster.text import word_spans

VERSION = "1"

_CITATION = re.compile(r"\[[^\[\]]{1,200}\]")


def support(answer: str, contexts: Sequence[str]) -> float | None:
    """The support of an answer in its contexts, in [0, 1]; None where the answer has no words, 0.0 without contexts."""
    words = _words(_CITATION.sub(" ", answer))
    if not words:
        return None
    known = {word for context in contexts for word in _words(context)}
    return sum(word in known for word in words) / len(words)


def _words(text: str) -> list[str]:
    return [match.group() for match in word_spans(unicodedata.normalize("NFKC", text).casefold())]
