"""Finding a model's quote in the passage that it should stand in, exactly as it stands there."""

import re

from rageval_dagster.benchmark.rules import longest_common_run, share_known
from rageval_dagster.benchmark.words import tokens
from rageval_dagster.languages import sentences

SHORTEST_QUOTE = 4
"""A quote of fewer words stands in too many chunks to prove anything."""

CONTAINED_SHARE = 0.7
"""The share of an answer's words that a sentence holds to count as the one it comes from."""

_LOOKALIKES = ('"“”„«»', "'‘’`´", "-‐‑‒–—−")


def locate_quote(text: str, quote: str, answer: str) -> str | None:
    """The words of the text that prove the answer, exactly as they stand there, or None.

    The model's quote, if it stands in the text (white space, case and typographic marks aside) and is no mere word
    or two; otherwise the sentence that holds the answer, or most of its words and all its numbers.
    """
    if len(tokens(quote)) >= SHORTEST_QUOTE:
        found = _find(text, quote)
        if found is not None:
            return found
    best = max(sentences(text), key=lambda sentence: _containment(sentence, answer), default="")
    return _find(text, best) if _containment(best, answer) >= CONTAINED_SHARE else None


def _find(text: str, quote: str) -> str | None:
    words = quote.split()
    if not words:
        return None
    match = re.search(r"\s+".join(re.escape(word) for word in words), text)
    if match is None:
        pattern = r"\s+".join("".join(_tolerant(character) for character in word) for word in words)
        match = re.search(pattern, text, re.IGNORECASE)
    return match.group() if match else None


def _tolerant(character: str) -> str:
    group = next((group for group in _LOOKALIKES if character in group), None)
    return f"[{re.escape(group)}]" if group else re.escape(character)


def _containment(sentence: str, answer: str) -> float:
    """2 for a sentence that holds the answer word for word, else the share of its words that it holds."""
    held, wanted = tokens(sentence), tokens(answer)
    if wanted and longest_common_run(wanted, held) == len(wanted):
        return 2.0
    return share_known(answer, set(held))
