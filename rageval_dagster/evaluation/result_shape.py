"""The result shape that evaluations are handed over in: each metric's score, its value per question, and what has none.

It is that of ai4rag's evaluation results, with the counts behind each score and the reasons behind each missing value.
"""

from collections.abc import Hashable, Mapping
from dataclasses import asdict
from typing import Any

from rageval_dagster.records import Outcome
from rageval_dagster.statistics.summaries import summarise


def result_shape(
    outcomes: Mapping[str, Mapping[str, Outcome]],
    clusters: Mapping[str, Hashable] | None = None,
    ceilings: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """What {metric: {question: outcome}} comes to, of dicts, strings, numbers in [0, 1], counts and None.

    - `scores`: {metric: {mean, ci_low, ci_high, n, n_scored, n_undefined, n_error, min, max, worst_low, worst_high}};
      mean, interval (95 %) and range are None where nothing was scored.
    - `question_scores`: {metric: {question: value}}; None where the question was not scored, never 0.
    - `outcomes`: {metric: {question: {status, reason}}} of just those, with status `undefined` or `error`; metrics that
      scored every question are left out.
    - `details`: {metric: {question: detail}} of what stands behind a value, such as each declared check's own result;
      metrics and questions without any are left out.

    `clusters` maps questions to clusters for the intervals, `ceilings` metrics to the best mean that their questions
    allow, both as in `summarise`.
    """
    ceilings = ceilings or {}
    unscored = {
        metric: {
            item: {"status": outcome.status, "reason": outcome.reason}
            for item, outcome in column.items()
            if outcome.value is None
        }
        for metric, column in outcomes.items()
    }
    details = {
        metric: {item: dict(outcome.detail) for item, outcome in column.items() if outcome.detail is not None}
        for metric, column in outcomes.items()
    }
    return {
        "scores": {
            metric: asdict(summarise(column, clusters, ceiling=ceilings.get(metric)))
            for metric, column in outcomes.items()
        },
        "question_scores": {
            metric: {item: outcome.value for item, outcome in column.items()} for metric, column in outcomes.items()
        },
        "outcomes": {metric: found for metric, found in unscored.items() if found},
        "details": {metric: found for metric, found in details.items() if found},
    }
