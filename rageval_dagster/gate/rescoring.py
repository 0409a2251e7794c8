"""Scoring an earlier evaluation's answers by metrics that changed since: a new judge is compared with itself."""

from collections.abc import Callable, Collection, Sequence

from rageval_dagster.errors import RagevalError
from rageval_dagster.gate.history import History
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.metrics.registry import compute_scores
from rageval_dagster.records import Progress
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation

BATCH = 128


def rescore(
    db: Database,
    history: History,
    metrics: Sequence[Metric],
    tools: Callable[[], Tools],
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
) -> None:
    """Scores the answers of the reference, and of what links it with now, by `metrics` whose version changed since.

    Only questions that more than one of them asks are scored, and only by metrics that both evaluations have; the
    earlier evaluation keeps its own scores. An answer that both have, or that was scored before, is not scored again;
    one whose texts were deleted cannot be. With `warn`, what cannot be scored is told, and the others go on.

    Raises:
        LanguageModelError: as `judge_scores`, without `warn`; what was computed before is stored.
    """
    for before in history.links[:-1]:
        try:
            _rescore(db, before, history.evaluations[-1], history.linked_items, metrics, tools, progress)
        except RagevalError as error:
            if warn is None:
                raise
            warn(f"the answers of evaluation {before.id} could not be scored by the current judge: {error}")


def _rescore(
    db: Database,
    before: Evaluation,
    now: Evaluation,
    asked: Collection[str],
    metrics: Sequence[Metric],
    tools: Callable[[], Tools],
    progress: Progress | None,
) -> None:
    had = {summary.metric_id: summary.metric_version for summary in score_storage.load_summaries(db, before.id)}
    has = {summary.metric_id: summary.metric_version for summary in score_storage.load_summaries(db, now.id)}
    changed = [
        metric for metric in metrics if metric.id in had and had[metric.id] != metric.version == has.get(metric.id)
    ]
    if not changed:
        return
    loaded = {
        result_id: result
        for item_id, (result_id, result) in result_storage.load_results(db, before.id).items()
        if item_id in asked and not result.texts_deleted
    }
    done = score_storage.scored(db, before.client_id, loaded, {metric.id: metric.version for metric in changed})
    lacking = [(result_id, metric) for result_id in loaded for metric in changed if (result_id, metric.id) not in done]
    computed, shared = 0, tools() if lacking else Tools()
    for group, result_ids in _alike(lacking):
        for start in range(0, len(result_ids), BATCH):
            batch = result_ids[start : start + BATCH]
            outcomes = compute_scores(group, [loaded[result_id] for result_id in batch], shared)
            rows = [
                (result_id, metric.id, metric.version, outcome)
                for metric in group
                for result_id, outcome in zip(batch, outcomes[metric.id], strict=True)
            ]
            score_storage.save_rescored(db, before.client_id, rows)
            computed += len(rows)
            if progress is not None:
                progress(computed, len(lacking))


def _alike(lacking: Collection[tuple[str, Metric]]) -> list[tuple[list[Metric], list[str]]]:
    """Metrics that lack the same results, with those results."""
    of_result: dict[str, list[Metric]] = {}
    for result_id, metric in lacking:
        of_result.setdefault(result_id, []).append(metric)
    groups: dict[tuple[str, ...], list[str]] = {}
    for result_id, metrics in of_result.items():
        groups.setdefault(tuple(metric.id for metric in metrics), []).append(result_id)
    return [(of_result[result_ids[0]], result_ids) for result_ids in groups.values()]
