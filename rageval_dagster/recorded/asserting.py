"""`assert_evaluation`: answers held to limits in a test, with a line for each question that fails."""

from collections.abc import Iterable, Mapping
from typing import Any

from rageval_dagster.errors import SettingsError
from rageval_dagster.metrics.interface import Metric
from rageval_dagster.metrics.registry import SHORT_NAMES
from rageval_dagster.recorded.scoring import scored
from rageval_dagster.records import Outcome
from rageval_dagster.text import plural, showable

LONGEST_QUESTION = 80

Limits = Mapping[str, float]
"""By a metric's id the least value that is good enough; the greatest, of a metric of which less is better."""


def assert_evaluation(
    answers: Iterable[Any],
    each: Limits | None = None,
    mean: Limits | None = None,
    *,
    k: int = 5,
    model: str | None = None,
) -> None:
    """Fails a test where answers are not good enough.

        assert_evaluation(rows, each={"overlap.faithfulness": 0.5}, mean={"lexical.answer_match": 0.8})

    A question on which a metric has nothing to say (undefined) passes; one on which it fails (error) does not, and
    neither does a metric that no question has a value of.

    Args:
        answers: rows as `score` takes them, or what the fixture `recorded_answers` read.
        each: what every question has to reach.
        mean: what the mean of the scored questions has to reach.
        k: the cutoff of the retrieval metrics, at least 1.
        model: the metrics' embedding model, else that of the settings.

    Raises:
        AssertionError: a limit is not reached: a line for each question that fails, then one for each such mean.
        TypeError: no limit is given.
        DatasetError, SettingsError, EmbeddingError, LanguageModelError: as `score`.
    """
    __tracebackhide__ = True
    each, mean = _by_id(each), _by_id(mean)
    if not each and not mean:
        raise TypeError("assert_evaluation takes limits: each={metric: value} or mean={metric: value}")
    outputs, metrics, outcomes = scored(answers, [*{**each, **mean}], k=k, model=model)
    by_id = {metric.id: metric for metric in metrics}
    if unknown := [name for name in (*each, *mean) if name not in by_id]:
        raise SettingsError(f"{unknown[0]!r} is a pattern: a limit is for the id of one metric")
    lines = []
    for output in outputs:
        faults = [_fault(by_id[name], outcomes[name][output.id], limit) for name, limit in each.items()]
        if said := "; ".join(filter(None, faults)):
            question = showable(output.result.item.question)
            cut = question if len(question) <= LONGEST_QUESTION else f"{question[: LONGEST_QUESTION - 1]}…"
            lines.append(f"  {output.id}  {said}  {cut}")
    if lines:
        lines.insert(0, f"{len(lines)} of {plural(len(outputs), 'question')} not good enough:")
    for name, metric in by_id.items():
        values = [outcome.value for outcome in outcomes[name].values() if outcome.value is not None]
        if not values:
            lines.append(f"{name} has no value on any question: {next(iter(outcomes[name].values())).reason}")
        elif name in mean and (said := _fault(metric, Outcome.scored(sum(values) / len(values)), mean[name])):
            lines.append(f"mean of {plural(len(values), 'question')}: {said}")
    if lines:
        raise AssertionError("\n".join(lines))


def _by_id(limits: Limits | None) -> dict[str, float]:
    return {SHORT_NAMES.get(name, name): limit for name, limit in (limits or {}).items()}


def _fault(metric: Metric, outcome: Outcome, limit: float) -> str | None:
    if outcome.status == "error":
        return f"{metric.id}: error, {outcome.reason}"
    if outcome.value is None or (outcome.value >= limit if metric.higher_is_better else outcome.value <= limit):
        return None
    return f"{metric.id} {outcome.value:.3f}, {'at least' if metric.higher_is_better else 'at most'} {limit:g}"
