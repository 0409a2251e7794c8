"""The score stage: every metric that an evaluation's results do not have yet is computed and stored by content."""

from collections.abc import Mapping, Sequence

from rageval_dagster.errors import TextsDeletedError
from rageval_dagster.evaluation.stages import StageReport
from rageval_dagster.identity import digest_json
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.metrics.registry import compute_scores
from rageval_dagster.records import Progress, Result
from rageval_dagster.storage import evaluations as evaluation_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation


def judge_version(metrics: Sequence[Metric]) -> str:
    """One version for all the metrics of an evaluation: it changes when any of them does."""
    return digest_json({metric.id: metric.version for metric in metrics})


def run_scoring(
    db: Database, evaluation: Evaluation, metrics: Sequence[Metric], tools: Tools, progress: Progress | None = None
) -> StageReport:
    """Scores the results of one evaluation; a (result, metric, version) that was scored before is not touched.

    The embedder of `tools` is asked only when something is to be computed: an unchanged night loads no model.

    Raises:
        TextsDeletedError: a result that lacks a score has lost its texts.
    """
    versions = {metric.id: metric.version for metric in metrics}
    loaded = result_storage.load_results(db, evaluation.id)
    result_ids = [result_id for result_id, _ in loaded.values()]
    done = score_storage.scored(db, evaluation.client_id, result_ids, versions)
    computed = errors = finished = 0
    for item_ids, group in _missing(loaded, metrics, done):
        if any(loaded[item_id][1].texts_deleted for item_id in item_ids):
            raise TextsDeletedError(
                f"evaluation {evaluation.id} cannot be scored again: its answers were deleted, having not been used "
                "for longer than texts are kept (RAGEVAL_RETENTION_DAYS_TEXT); evaluate the client anew"
            )
        outcomes = compute_scores(group, [loaded[item_id][1] for item_id in item_ids], tools)
        rows = [
            (loaded[item_id][0], metric_id, versions[metric_id], outcome)
            for metric_id, column in outcomes.items()
            for item_id, outcome in zip(item_ids, column, strict=True)
        ]
        score_storage.save_scores(db, evaluation.id, rows)
        computed += len(rows)
        errors += sum(outcome.status == "error" for *_, outcome in rows)
        finished += len(group)
        if progress is not None:
            progress(finished, len(metrics))
    evaluation_storage.set_judge_version(db, evaluation.id, judge_version(metrics))
    total = len(loaded) * len(metrics)
    return StageReport(total=total, reused=total - computed, errors=errors)


def _missing(
    loaded: Mapping[str, tuple[str, Result]], metrics: Sequence[Metric], done: set[tuple[str, str]]
) -> list[tuple[list[str], list[Metric]]]:
    """Metrics of one family that lack the same items, with those items: a family is computed for a batch at once."""
    groups: dict[tuple[str, tuple[str, ...]], list[Metric]] = {}
    for metric in metrics:
        lacking = tuple(item_id for item_id, (result_id, _) in loaded.items() if (result_id, metric.id) not in done)
        if lacking:
            groups.setdefault((metric.family, lacking), []).append(metric)
    return [(list(item_ids), group) for (_, item_ids), group in groups.items()]
