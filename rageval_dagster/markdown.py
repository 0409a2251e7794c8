"""Markdown for Dagster's pages: names of others escaped, tables, and a line of bars for a trend."""

import re
from collections.abc import Iterable, Sequence

from rageval_dagster.text import showable

_BARS = "▁▂▃▄▅▆▇█"
_LONGEST = 200


def escaped(text: str, longest: int = _LONGEST) -> str:
    """Text of others on one line, cut: no mark of theirs makes a column, a link or an element of the page."""
    line = showable(text)
    if len(line) > longest:
        line = f"{line[: longest - 1]}…"
    return re.sub(r"[^\w\s.,/…-]", lambda mark: f"&#{ord(mark[0])};", line)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sparkline(values: Sequence[float | None]) -> str:
    """A bar for each value from 0 to 1, a dot where there is none: `▆▆·▂`."""
    return "".join("·" if value is None else _BARS[min(int(value * len(_BARS)), len(_BARS) - 1)] for value in values)
