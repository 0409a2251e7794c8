"""How metrics, numbers, dates, names of others and the five versions are written in sentences for people."""

import re
from datetime import UTC, datetime

from rageval_dagster.text import showable

VERSIONS = {
    "corpus": "the documents",
    "index": "the index",
    "dataset": "the questions",
    "system": "the system",
    "judge": "the judge",
}
"""The five that can explain why a score changed, in the order in which they are shown."""

LONGEST_NAME = 80

_KNOWN = {"mrr": "MRR", "map": "MAP", "ndcg": "nDCG"}
STAND_IN = "Answers are from the built-in extractive answerer: a stand-in for your system."

_OF_ITS_OWN = {"quality.refusal_correct": "answers or declines when it should"}
_PARTS = re.compile(r"\A(document_)?(.*?)(?:_at_(\d+))?\Z", re.DOTALL)


def capitalised(said: str) -> str:
    """With a capital first; the rest as it is."""
    return said[:1].upper() + said[1:]


def metric_name(metric_id: str) -> str:
    """`hit rate@5`, `MRR`, `document MRR`; of other families `faithfulness (claims)`, since four share that word."""
    if metric_id in _OF_ITS_OWN:
        return _OF_ITS_OWN[metric_id]
    family, _, name = metric_id.partition(".")
    [(document, plain, cutoff)] = _PARTS.findall(name)
    words = ("document " if document else "") + (_KNOWN.get(plain) or plain.replace("_", " "))
    words += f"@{cutoff}" if cutoff else ""
    return words if family == "retrieval" else f"{words} ({family})"


def number(value: float | None, digits: int = 2) -> str:
    """`.82`, `1.00`, `-.05`: a score or a difference of scores; `–` where there is none."""
    return "–" if value is None else re.sub(r"^(-?)0\.", r"\1.", f"{value:z.{digits}f}")


def signed(value: float) -> str:
    """`+.05`, `−.05`: a difference of scores, with a third digit where two would show none."""
    said = number(value, 3 if round(value, 3) and not round(value, 2) else 2)
    return said.replace("-", "−") if said.startswith("-") else f"+{said}"


def interval(low: float | None, high: float | None) -> str:
    """`.71 – .92`; empty where there is none."""
    return "" if low is None or high is None else f"{number(low)} – {number(high)}"


def date(moment: datetime, beside: datetime | None = None) -> str:
    """`3 May 2026`, in UTC; `3 May 2026, 14:05 UTC` where `beside` is of that day too, and the day tells nothing."""
    moment = moment.astimezone(UTC)
    day = f"{moment.day} {moment:%B %Y}"
    is_same_day = beside is not None and beside.astimezone(UTC).date() == moment.date()
    return f"{day}, {moment:%H:%M} UTC" if is_same_day else day


def minute(moment: datetime) -> str:
    """`2026-11-24 18:22`, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def one_line(text: str, longest: int = LONGEST_NAME) -> str:
    """Text of others on one line, and cut."""
    line = showable(text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
