"""The checks of an evaluation: whether it is complete, how much failed, and which metrics miss their good value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rageval_dagster.evaluation.summary import EvaluationReport, is_by_model
from rageval_dagster.metrics.registry import BUILT_IN
from rageval_dagster.storage.scores import Summary
from rageval_dagster.text import named, plural

NOTHING_SCORED = "nothing could be scored"


@dataclass(frozen=True)
class Finding:
    """The result of a check: whether it passed, that in a sentence, and what is behind it by evaluation or metric."""

    passed: bool
    said: str
    metadata: Mapping[str, Any]


Thresholds = Mapping[str, float]
"""The user's own good values by metric id, in place of the metrics' own."""

NO_THRESHOLDS: Thresholds = {}


def good_value(summary: Summary, own: Thresholds = NO_THRESHOLDS) -> float | None:
    """What a metric's mean should reach: the client's threshold, else its own good value, times its ceiling."""
    good = own.get(summary.metric_id, summary.good_value)
    return good if good is None or summary.ceiling is None else good * summary.ceiling


def is_below(summary: Summary, good: float | None, mean: float | None = None) -> bool:
    """Whether a metric's mean (or this one in its place) is worse than its good value."""
    mean = summary.mean if mean is None else mean
    if good is None or mean is None:
        return False
    return mean < good if summary.higher_is_better else mean > good


@dataclass(frozen=True)
class AgainstGood:
    """A metric that is held to a good value; a headline metric has its short name."""

    name: str
    summary: Summary
    good: float

    def __str__(self) -> str:
        """`mrr 0.610 (good: 0.800)`."""
        return f"{self.name} {self.summary.mean:.3f} (good: {self.good:.3f})"

    @property
    def surely(self) -> Literal["below", "above", "unclear"]:
        """Where its interval lies; `unclear` where that reaches across the good value."""
        low, high = (is_below(self.summary, self.good, end) for end in (self.summary.ci_low, self.summary.ci_high))
        return "unclear" if low != high else "below" if low else "above"


def against_good_values(report: EvaluationReport, own: Thresholds = NO_THRESHOLDS) -> list[AgainstGood]:
    """The metrics that have a mean and are held to a good value: the headline metrics, those of a judge model, those
    that the client set a threshold for, and the user's own."""
    found = report.headline()
    shown = {summary.metric_id for summary in found.values()}
    for name, summary in report.summaries.items():
        if name not in shown and (name in own or is_users(name) or is_by_model(name)):
            found[name] = summary
    return [
        AgainstGood(name, summary, good)
        for name, summary in found.items()
        if (good := good_value(summary, own)) is not None and summary.mean is not None
    ]


def below_good_value(report: EvaluationReport, own: Thresholds = NO_THRESHOLDS) -> list[str]:
    """`mrr 0.610 (good: 0.800)` for each metric held to a good value whose mean is worse."""
    return [str(each) for each in against_good_values(report, own) if is_below(each.summary, each.good)]


def is_users(metric_id: str) -> bool:
    return metric_id.partition(".")[0] not in BUILT_IN


def thresholds(reports: Sequence[EvaluationReport], own: Thresholds = NO_THRESHOLDS) -> Finding:
    """Passes where every metric held to a good value, of every evaluation, reaches it; not where nothing was scored.

    `not_measured` are those with a threshold of the client's that have no mean.
    """
    missed: dict[str, list[str]] = {}
    silent: dict[str, list[str]] = {}
    for report in reports:
        if low := below_good_value(report, own) if is_scored(report) else [NOTHING_SCORED]:
            missed[_name(report)] = low
        measured = {name for name, summary in report.summaries.items() if summary.mean is not None}
        if unmeasured := sorted(set(own) - measured):
            silent[_name(report)] = unmeasured
    said = _joined(missed, "below the good value: ") or "Every metric that has a good value reaches it."
    if silent:
        said += f" Not measured: {_joined(silent)}"
    return Finding(not missed, said, {"below_good_value": missed, "not_measured": silent})


def is_scored(report: EvaluationReport) -> bool:
    """Whether there is any value."""
    # By all that was run where the client's settings choose none of the headline metrics.
    return any(summary.n_scored for summary in (report.headline() or report.summaries).values())


def completeness(reports: Sequence[EvaluationReport]) -> Finding:
    """Passes where every metric of every evaluation has an outcome for each of its questions."""
    missing = {
        f"{_name(report)}/{metric_id}": report.evaluation.item_count - summary.n
        for report in reports
        for metric_id, summary in report.summaries.items()
        if summary.n < report.evaluation.item_count
    }
    questions = sum(report.evaluation.item_count for report in reports)
    without = [_name(report) for report in reports if not report.summaries]
    passed = not missing and not without
    said = [f"{plural(count, 'question')} without an outcome of {name}" for name, count in missing.items()]
    said += [f"no metric was run on {name}" for name in without]
    return Finding(
        passed,
        f"All {plural(questions, 'question')} have an outcome of every metric." if passed else f"{named(said)}.",
        {"missing": missing, "unscored": without},
    )


def error_share(reports: Sequence[EvaluationReport], max_error_share: float) -> Finding:
    """Passes where no metric of any evaluation has a greater share of errors than allowed."""
    too_many = {
        f"{_name(report)}/{metric_id}": report.summaries[metric_id]
        for report in reports
        for metric_id in with_too_many_errors(report, max_error_share)
    }
    said = [f"{name} failed on {each.n_error} of {plural(each.n, 'question')}" for name, each in too_many.items()]
    return Finding(
        not too_many,
        f"{named(said)}; {max_error_share:.0%} may fail."
        if said
        else f"No metric failed on more than {max_error_share:.0%} of its questions.",
        {"metrics_with_too_many": {name: each.n_error for name, each in too_many.items()}},
    )


def with_too_many_errors(report: EvaluationReport, max_error_share: float) -> list[str]:
    """The metrics that have a greater share of errors than allowed."""
    return [
        name
        for name, summary in report.summaries.items()
        if too_many_errors(summary.n_error, summary.n, max_error_share)
    ]


def too_many_errors(errors: int, of: int, max_error_share: float) -> bool:
    """Whether a greater share failed than allowed."""
    return errors > max_error_share * of


def _joined(found: Mapping[str, Sequence[str]], what: str = "") -> str:
    """`human/dense: below the good value: mrr 0.610 (good: 0.800).`, a sentence for each evaluation."""
    return " ".join(f"{name}: {what}{named(each)}." for name, each in found.items())


def _name(report: EvaluationReport) -> str:
    return f"{report.evaluation.dataset_name}/{report.evaluation.system}"
