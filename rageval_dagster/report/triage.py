"""Triage: whether a question found its evidence, and whether it was answered right; which side is to be mended."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

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


class Rightness(NamedTuple):
    """The metric that tells right answers from wrong ones, and from which value on an answer is right."""

    metric_id: str
    least: float


RIGHTNESS = (
    Rightness("judge.correctness", 0.5),
    Rightness("claims.answer_correctness", 0.5),
    Rightness("embedding.answer_correctness", 0.6),
    Rightness("overlap.answer_correctness", 0.5),
)
"""Those that can tell, the best first; embedding.answer_correctness from seed 000's value on."""


def rightness_of(summaries: Mapping[str, Summary]) -> Rightness | None:
    """The best of those that scored anything; None where none did."""
    return next(
        (each for each in RIGHTNESS if each.metric_id in summaries and summaries[each.metric_id].n_scored), None
    )


def quadrant(found: Outcome | None, right: bool | None) -> Quadrant | None:
    """Where a question belongs; None where its evidence, or its answer, is not known to be found, or right.

    `found` is its hit rate at the evaluation's cutoff.
    """
    if found is None or found.value is None or right is None:
        return None
    if found.value > 0:
        return "found_right" if right else "found_wrong"
    return "missed_right" if right else "missed_wrong"


def is_right(outcomes: Mapping[str, Outcome], rightness: Rightness | None) -> bool | None:
    """Whether a question was answered right: neither declined nor wrong; None where that is not known.

    `outcomes` are the question's by metric id.
    """
    answered = outcomes.get(RIGHTLY_ANSWERED)
    if answered is not None and answered.value == 0:
        return False
    told = None if rightness is None else outcomes.get(rightness.metric_id)
    if told is None or told.value is None or rightness is None:
        return None
    return told.value >= rightness.least


def counted(quadrants: Sequence[Quadrant | None]) -> dict[Quadrant, int]:
    """How many questions are in each."""
    return {name: sum(each == name for each in quadrants) for name in QUADRANTS}
