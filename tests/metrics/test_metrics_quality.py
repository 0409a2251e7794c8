"""quality.refusal_correct: declined exactly when it should."""

import pytest
from metric_samples import make_result, value_of

from rageval_dagster.metrics.registry import MetricOptions, Tools, all_metrics, compute_scores


@pytest.mark.parametrize(
    ("answerable", "answer", "declined", "expected"),
    [
        (True, "Paris", False, 1.0),
        (True, "I cannot say.", True, 0.0),
        (True, " ", False, 0.0),
        (False, "Paris", False, 0.0),
        (False, "I cannot say.", True, 1.0),
        (False, "", False, 1.0),
    ],
)
def test_refusal_correct(answerable, answer, declined, expected):
    metrics = [metric for metric in all_metrics(MetricOptions(5)) if metric.family == "quality"]
    result = make_result(answer=answer, declined=declined, answerable=answerable, references=["Paris"])
    (outcome,) = compute_scores(metrics, [result], Tools())["quality.refusal_correct"]
    assert value_of(outcome) == expected


def test_a_logged_question_of_which_nobody_said_whether_it_can_be_answered_is_not_judged():
    metrics = [metric for metric in all_metrics(MetricOptions(5)) if metric.family == "quality"]
    result = make_result(answer="I cannot say.", declined=True)
    (outcome,) = compute_scores(metrics, [result], Tools())["quality.refusal_correct"]
    assert outcome.status == "undefined"
