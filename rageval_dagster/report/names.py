"""How metrics, numbers, dates and the five versions are called in sentences for people."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

VERSIONS = {
    "corpus": "the documents",
    "index": "the index",
    "dataset": "the questions",
    "system": "the system",
    "judge": "the judge",
}
"""The five that can explain why a score changed, in the order in which they are shown."""

_KNOWN = {
    "mrr": "MRR",
    "map": "MAP",
    "hit_rate": "hit rate",
    "ndcg": "nDCG",
    "precision": "precision",
    "recall": "recall",
}
_OF_ITS_OWN = {"quality.refusal_correct": "answered or declined rightly"}
_CUTOFF = re.compile(r"_at_(\d+)$")


def metric_name(metric_id: str) -> str:
    """`hit rate@5`, `MRR`, `document MRR`; of other families `faithfulness (claims)`, since four share that word."""
    if metric_id in _OF_ITS_OWN:
        return _OF_ITS_OWN[metric_id]
    family, _, name = metric_id.partition(".")
    cutoff = _CUTOFF.search(name)
    plain = _CUTOFF.sub("", name)
    level = ""
    if family == "retrieval" and plain.startswith("document_"):
        level, plain = "document ", plain.removeprefix("document_")
    words = _KNOWN.get(plain, plain.replace("_", " "))
    at = f"@{cutoff[1]}" if cutoff else ""
    return f"{level}{words}{at}" if family == "retrieval" else f"{words}{at} ({family})"


def number(value: float, digits: int = 2) -> str:
    """`.82`, `1.00`, `-.05`: a score or a difference of scores."""
    said = f"{value:.{digits}f}"
    return re.sub(r"^(-?)0\.", r"\1.", said)


def interval(low: float | None, high: float | None) -> str:
    """`.71 – .92`; empty where there is none."""
    return "" if low is None or high is None else f"{number(low)} – {number(high)}"


def listed(names: Sequence[str], most: int) -> str:
    """`a, b and 3 more`: the first ones, and how many there are beyond them."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def movement(before: float, now: float) -> str:
    """`.91 to .82`, with a third digit where two would show no difference."""
    digits = 2 if f"{before:.2f}" != f"{now:.2f}" else 3
    return f"{number(before, digits)} to {number(now, digits)}"


def date(moment: datetime, beside: datetime | None = None) -> str:
    """`3 May 2026`, in UTC; `3 May 2026, 14:05 UTC` where `beside` is of that day too, and the day tells nothing."""
    moment = moment.astimezone(UTC)
    day = f"{moment.day} {moment:%B %Y}"
    is_same_day = beside is not None and beside.astimezone(UTC).date() == moment.date()
    return f"{day}, {moment:%H:%M} UTC" if is_same_day else day


def plural(count: int, noun: str) -> str:
    """`1 question`, `2 questions`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
