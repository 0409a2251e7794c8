"""An evaluation broken down by category or by document: where it is worst."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rageval_dagster.errors import RagevalError, TextsDeletedError
from rageval_dagster.evaluation.summary import ANSWERED_WHEN_DUE, EvaluationReport, outcomes_of
from rageval_dagster.metrics.registry import matching_ids
from rageval_dagster.records import Item, Result
from rageval_dagster.statistics.summaries import Summary, breakdown
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation

GROUPINGS: Mapping[str, Callable[[Item], Sequence[str]]] = {
    "category": lambda item: (item.category,),
    "document": lambda item: sorted(item.document_ids),
}
"""What an evaluation can be broken down by: the groups of an item; a question without evidence has no document."""


@dataclass(frozen=True)
class Breakdown:
    """The summaries of each group, {group: {metric id: summary}}, worst first by the first metric.

    `ungrouped` is how many questions are in no group.
    """

    by: str
    groups: Mapping[str, Mapping[str, Summary]]
    ungrouped: int


def breakdown_of(db: Database, report: EvaluationReport, by: str, metrics: Sequence[str] = ()) -> Breakdown:
    """Breaks an evaluation down by `category` or by `document`.

    A question with evidence in several documents counts in each of them. `metrics` are ids or patterns; without any
    it is the reciprocal rank at the evaluation's level and `quality.refusal_correct`, as far as they were scored.

    Raises:
        RagevalError: there is no such breakdown, or a pattern is none of the metrics that were computed.
        TextsDeletedError: the questions were deleted, since they were not used for longer than texts are kept.
    """
    groups_of = GROUPINGS.get(by)
    if groups_of is None:
        raise RagevalError(f"--by takes {' or '.join(GROUPINGS)}, not {by!r}")
    chosen = _chosen(report, metrics)
    items = {item_id: result.item for item_id, result in results_of(db, report.evaluation).items()}
    groups = {item_id: groups_of(item) for item_id, item in items.items()}
    clusters = benchmark_storage.clusters_of(db, [report.evaluation.dataset_id])
    columns = outcomes_of(db, report, chosen)
    found: dict[str, dict[str, Summary]] = {}
    for name in chosen:
        for group, summary in breakdown(columns.get(name, {}), groups, clusters).items():
            found.setdefault(group, {})[name] = summary

    def badness(group: str) -> tuple[int, float, str]:
        summary = found[group].get(chosen[0])
        if summary is None or not summary.n_scored + summary.n_error:
            return (2, 0.0, group)
        if summary.mean is None:  # nothing but errors
            return (0, 0.0, group)
        return (1, summary.mean if report.summaries[chosen[0]].higher_is_better else -summary.mean, group)

    return Breakdown(
        by, {group: found[group] for group in sorted(found, key=badness)}, sum(not each for each in groups.values())
    )


def _chosen(report: EvaluationReport, patterns: Sequence[str]) -> list[str]:
    """The ids of metrics, each once, in the order of the patterns."""
    if not patterns:
        usual = [summary for name, summary in report.headline().items() if name == "mrr"]
        usual += [report.summaries[ANSWERED_WHEN_DUE]] if ANSWERED_WHEN_DUE in report.summaries else []
        return [summary.metric_id for summary in usual if summary.n_scored] or list(report.summaries)
    k = report.evaluation.k
    chosen: dict[str, None] = {}
    for pattern in patterns:
        found = matching_ids(pattern, report.summaries, k)
        if not found:
            number = report.evaluation.id
            raise RagevalError(f"run {number} has no metric {pattern!r}: rageval runs show {number} lists those it has")
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def results_of(db: Database, evaluation: Evaluation) -> dict[str, Result]:
    """What happened to each question of an evaluation, by item id.

    Raises:
        TextsDeletedError: its questions were deleted.
    """
    results = result_storage.results_by_item(db, evaluation.id)
    if evaluation.status == "complete" and len(results) < evaluation.item_count:
        raise texts_deleted(evaluation.id, "questions")
    return results


def texts_deleted(run_id: int, what: str) -> TextsDeletedError:
    return TextsDeletedError(
        f"run {run_id} has lost its {what}: they were not used for longer than "
        "texts are kept (RAGEVAL_RETENTION_DAYS_TEXT); evaluate the client again"
    )
