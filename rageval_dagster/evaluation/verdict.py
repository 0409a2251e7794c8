"""What an evaluation says in words: metadata for the run's page, completeness, and metrics below their good value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rageval_dagster.evaluation.summary import EvaluationReport, is_by_model
from rageval_dagster.metrics.registry import BUILT_IN

NOTHING_SCORED = "nothing could be scored"


@dataclass(frozen=True)
class Finding:
    """The result of a check: whether it passed, and the numbers behind it."""

    passed: bool
    metadata: Mapping[str, Any]


Thresholds = Mapping[str, float]
"""The user's own good values by metric id, in place of the metrics' own."""

NO_THRESHOLDS: Thresholds = {}


def run_metadata(reports: Sequence[EvaluationReport], own: Thresholds = NO_THRESHOLDS) -> dict[str, Any]:
    """Numbers that Dagster plots over time, named `dataset/metric` (with the system where there are several)."""
    several = len({report.evaluation.system for report in reports}) > 1
    metadata: dict[str, Any] = {}
    for report in reports:
        name = report.evaluation.dataset_name + (f"/{report.evaluation.system}" if several else "")
        metadata[f"{name}/verdict"] = verdict(report, own)
        users = {metric: summary for metric, summary in report.summaries.items() if _is_users(metric)}
        for metric, summary in {**report.headline(), **report.by_model(), **users}.items():
            if summary.mean is not None:
                metadata[f"{name}/{metric}"] = summary.mean
        metadata[f"{name}/worst_questions"] = list(report.worst_item_ids)
        metadata[f"{name}/read_them"] = f"rageval runs show {report.evaluation.id}"
    return metadata


def verdict(report: EvaluationReport, own: Thresholds = NO_THRESHOLDS) -> str:
    """One sentence: which metrics reach their good values and which do not, and whose numbers these are.

    Where the interval reaches across the good value, the sample is too small to tell, and that is what it says.
    """
    name = report.evaluation.system
    versioned = report.evaluation.system_declared is not None or report.evaluation.answered_nothing
    note = "" if versioned else " (unversioned, may have changed unnoticed)"
    prefix = f"{name}, a built-in reference system: " if report.evaluation.system_reference else f"{name}{note}: "
    if not _is_scored(report):
        return prefix + NOTHING_SCORED
    findings = _against_good_values(report, own)
    below = [text for _, surely, text in findings if surely == "below"]
    unclear = [metric for metric, surely, _ in findings if surely == "unclear"]
    said = ["below the good value: " + ", ".join(below)] if below else []
    said += ["too few questions to tell: " + ", ".join(unclear)] if unclear else []
    reached = "every headline metric reaches its good value" if findings else "no metric with a good value was run"
    return prefix + ("; ".join(said) or reached)


def below_good_value(report: EvaluationReport, own: Thresholds = NO_THRESHOLDS) -> list[str]:
    """`mrr 0.610 (good: 0.800)` for each metric held to a good value whose mean is below it."""
    return [text for _, _, text in _against_good_values(report, own) if text]


def _against_good_values(report: EvaluationReport, own: Thresholds) -> list[tuple[str, str, str]]:
    """For each metric that is held to a good value: name, place of its interval, what to say.

    These are the headline metrics, those of a judge model, those that the client set a threshold for, and the user's
    own. What is said is of a bad mean, else empty. The interval is `below`, `above`, or `unclear`. Precision is held to
    its ceiling times the good value.
    """
    headline = report.headline()
    shown = {summary.metric_id for summary in headline.values()}
    others = {
        name: summary
        for name, summary in report.summaries.items()
        if name not in shown and (name in own or _is_users(name) or is_by_model(name))
    }
    found = []
    for name, summary in [*headline.items(), *others.items()]:
        good = own.get(summary.metric_id, summary.good_value)
        if good is None or summary.mean is None:
            continue
        if summary.ceiling is not None:
            good *= summary.ceiling
        low = summary.mean if summary.ci_low is None else summary.ci_low
        high = summary.mean if summary.ci_high is None else summary.ci_high
        # Where lower is better, all of it is turned around.
        worse, better = (low, high) if summary.higher_is_better else (-high, -low)
        mean, aim = (summary.mean, good) if summary.higher_is_better else (-summary.mean, -good)
        side = "below" if better < aim else "above" if worse >= aim else "unclear"
        found.append((name, side, f"{name} {summary.mean:.3f} (good: {good:.3f})" if mean < aim else ""))
    return found


def _is_users(metric_id: str) -> bool:
    return metric_id.partition(".")[0] not in BUILT_IN


def thresholds(reports: Sequence[EvaluationReport], own: Thresholds = NO_THRESHOLDS) -> Finding:
    """Passes where every metric held to a good value, of every evaluation, reaches it; not where nothing was scored.

    `not_measured` are those with a threshold of the client's that have no mean.
    """
    missed: dict[str, list[str]] = {}
    silent: dict[str, list[str]] = {}
    for report in reports:
        if low := below_good_value(report, own) if _is_scored(report) else [NOTHING_SCORED]:
            missed[_name(report)] = low
        measured = {name for name, summary in report.summaries.items() if summary.mean is not None}
        if unmeasured := sorted(set(own) - measured):
            silent[_name(report)] = unmeasured
    return Finding(not missed, {"evaluations": len(reports), "below_good_value": missed, "not_measured": silent})


def _is_scored(report: EvaluationReport) -> bool:
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
    return Finding(not missing and not without, {"questions": questions, "missing": missing, "unscored": without})


def error_share(reports: Sequence[EvaluationReport], max_error_share: float) -> Finding:
    """Passes where no metric of any evaluation has a greater share of errors than allowed."""
    too_many = {
        f"{_name(report)}/{metric_id}": report.summaries[metric_id].n_error
        for report in reports
        for metric_id in with_too_many_errors(report, max_error_share)
    }
    errors = sum(summary.n_error for report in reports for summary in report.summaries.values())
    return Finding(not too_many, {"errors": errors, "metrics_with_too_many": too_many})


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


def _name(report: EvaluationReport) -> str:
    return f"{report.evaluation.dataset_name}/{report.evaluation.system}"
