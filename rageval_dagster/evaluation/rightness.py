"""Which questions were answered right, by the best metric that tells, and which failed."""

from collections.abc import Mapping

from rageval_dagster.evaluation.summary import ANSWERED_WHEN_DUE, EvaluationReport
from rageval_dagster.records import Outcome
from rageval_dagster.storage.scores import Summary

RIGHTNESS = ("judge.correctness", "claims.answer_correctness", "lexical.answer_match")
"""The metrics that tell right answers from wrong ones, the best first. `lexical.answer_match` agrees with people on
.809 of NQ301's answers. A cosine to the reference does on .718 and calls whole sentences wrong: it does not count."""
RIGHT = 0.5
"""An answer is right from this value on."""


def rightness_of(summaries: Mapping[str, Summary]) -> str | None:
    """The best of those that scored anything; None where none did."""
    return next((name for name in RIGHTNESS if name in summaries and summaries[name].n_scored), None)


def is_right(outcomes: Mapping[str, Outcome], rightness: str | None) -> bool | None:
    """Whether a question was answered right: neither declined nor wrong; None where that is not known.

    `outcomes` are the question's by metric id.
    """
    answered = outcomes.get(ANSWERED_WHEN_DUE)
    if answered is not None and answered.value == 0:
        return False
    told = None if rightness is None else outcomes.get(rightness)
    return None if told is None or told.value is None else told.value >= RIGHT


def failed_questions(report: EvaluationReport, outcomes: Mapping[str, Mapping[str, Outcome]]) -> set[str]:
    """The ids of the questions whose evidence did not come back, or that were answered wrong.

    `outcomes` are those of `told_by` at least, by metric id, then item id.
    """
    rightness, found_by = rightness_of(report.summaries), outcomes.get(_hit_rate(report), {})
    by_item: dict[str, dict[str, Outcome]] = {}
    for name in told_by(report):
        for item_id, outcome in outcomes.get(name, {}).items():
            by_item.setdefault(item_id, {})[name] = outcome
    missed = {item_id for item_id, outcome in found_by.items() if outcome.value == 0.0}
    return missed | {item_id for item_id, each in by_item.items() if is_right(each, rightness) is False}


def told_by(report: EvaluationReport) -> list[str]:
    """The metrics of an evaluation that tell which questions failed."""
    wanted = (_hit_rate(report), ANSWERED_WHEN_DUE, rightness_of(report.summaries))
    return [name for name in wanted if name is not None and name in report.summaries]


def _hit_rate(report: EvaluationReport) -> str:
    return f"{report.prefix}hit_rate_at_{report.evaluation.k}"
