"""Triage: whether a question found its evidence, and whether it was answered right; which side is to be mended."""

from collections.abc import Mapping, Sequence
from typing import Literal

from rageval_dagster.evaluation.summary import RIGHTLY_ANSWERED
from rageval_dagster.records import Outcome
from rageval_dagster.storage.scores import Summary

Quadrant = Literal["found_right", "found_wrong", "missed_right", "missed_wrong"]

QUADRANTS: Mapping[Quadrant, tuple[str, str]] = {
    "found_right": ("Found, answered right", "As it should be"),
    "found_wrong": ("Found, answered wrong", "The answering side: model, prompt, how contexts are given"),
    "missed_wrong": ("Not found, answered wrong", "Retrieval: the passage with the answer did not come back"),
    "missed_right": ("Not found, answered right", "From memory, from another passage, or by chance"),
}
"""What each is called, and what it points to."""


RIGHTNESS = ("judge.correctness", "claims.answer_correctness", "lexical.answer_match")
"""The metrics that tell right answers from wrong ones, the best first. `lexical.answer_match` agrees with people on
.809 of NQ301's answers. A cosine to the reference does on .718 and calls whole sentences wrong: it does not count."""
RIGHT = 0.5
"""An answer is right from this value on."""


def rightness_of(summaries: Mapping[str, Summary]) -> str | None:
    """The best of those that scored anything; None where none did."""
    return next((name for name in RIGHTNESS if name in summaries and summaries[name].n_scored), None)


def quadrant(found: Outcome | None, right: bool | None) -> Quadrant | None:
    """Where a question belongs; None where its evidence, or its answer, is not known to be found, or right.

    `found` is its hit rate at the evaluation's cutoff.
    """
    if found is None or found.value is None or right is None:
        return None
    if found.value > 0:
        return "found_right" if right else "found_wrong"
    return "missed_right" if right else "missed_wrong"


def is_right(outcomes: Mapping[str, Outcome], rightness: str | None) -> bool | None:
    """Whether a question was answered right: neither declined nor wrong; None where that is not known.

    `outcomes` are the question's by metric id.
    """
    answered = outcomes.get(RIGHTLY_ANSWERED)
    if answered is not None and answered.value == 0:
        return False
    told = None if rightness is None else outcomes.get(rightness)
    return None if told is None or told.value is None else told.value >= RIGHT


def counted(quadrants: Sequence[Quadrant | None]) -> dict[Quadrant, int]:
    """How many questions are in each."""
    return {name: sum(each == name for each in quadrants) for name in QUADRANTS}
