"""Regular expressions that users write: compiled strictly, and searched in bounded time."""

import warnings
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from regex import Pattern

T = TypeVar("T")

LONGEST = 1_000
"""Characters of a pattern: what prepares a search grows with their square, and no time limit holds for it."""

SECONDS = 2.0
"""How long a search may take: much longer than any takes that does not backtrack without end."""

TRIES = 3
"""Texts on which a pattern may run out of time; then it is tried on no further one."""


class PatternError(ValueError):
    """A pattern cannot be used; the message goes on after its name: `is not a regular expression`."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> "Pattern[str]":
    """The pattern, matching whatever the case.

    Raises:
        PatternError: it is too long, or no regular expression.
    """
    import re

    import regex

    if len(pattern) > LONGEST:
        raise PatternError(f"is longer than {LONGEST:,} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Python's own syntax is what users know; `regex`, which can be stopped, reads a little more as its own.
            re.compile(pattern)
            return regex.compile(pattern, regex.IGNORECASE)
    except (re.error, regex.error, OverflowError, RecursionError):
        raise PatternError("is not a regular expression") from None


class Patterns:
    """The searches of one batch: a pattern that runs out of time again and again cannot hold all of it up."""

    def __init__(self) -> None:
        self._timeouts: Counter[str] = Counter()

    def found(self, pattern: str, text: str) -> bool:
        """Whether the pattern finds anything in a text.

        Raises:
            PatternError: the pattern cannot be used, or takes too long.
        """
        return bool(self._run(pattern, lambda compiled: compiled.search(text, timeout=SECONDS)))

    def all(self, pattern: str, text: str) -> list[str]:
        """All that the pattern finds in a text, in order, without matches of nothing.

        Raises:
            PatternError: the pattern cannot be used, or takes too long.
        """
        return self._run(
            pattern,
            lambda compiled: [match.group() for match in compiled.finditer(text, timeout=SECONDS) if match.group()],
        )

    def _run(self, pattern: str, search: "Callable[[Pattern[str]], T]") -> T:
        compiled = compile_pattern(pattern)
        if self._timeouts[pattern] < TRIES:
            try:
                return search(compiled)
            except TimeoutError:
                self._timeouts[pattern] += 1
        raise PatternError("takes too long")
