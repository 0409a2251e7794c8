"""The `quality` family: heuristics on an answer that need no model."""

from collections.abc import Sequence

from rageval_dagster.metrics.interface import Columns, Metric, MetricOptions, Tools, gave_answer, scored
from rageval_dagster.records import Outcome, Result

VERSION = "2"


def metrics(_options: MetricOptions) -> list[Metric]:
    return [
        Metric(
            id="quality.refusal_correct",
            version=VERSION,
            score=_score_refusal,
            needs=frozenset({"answer"}),
            unanswerable="scored",
            description="1 if the system declined an unanswerable question or answered an answerable one, else 0.",
            edge_cases="An empty answer counts as declined. No answer was asked for: undefined. So is a question "
            "without answers and evidence, of which nobody said whether it can be answered.",
            source="own",
        )
    ]


def _score_refusal(results: Sequence[Result], _tools: Tools) -> Columns:
    return {"refusal_correct": [_refusal(result) for result in results]}


_NOBODY_KNOWS = Outcome.undefined("nobody said whether it can be answered")


def _refusal(result: Result) -> Outcome:
    item = result.item
    if item.answerable and not item.answers and not item.evidence:
        return _NOBODY_KNOWS
    return scored(float(gave_answer(result.answer) == result.item.answerable))
