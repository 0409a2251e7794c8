"""The score stage: every metric that an evaluation's results lack is computed, by the client's tools, and stored."""

from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from rageval_dagster.errors import BudgetReachedError, TextsDeletedError
from rageval_dagster.evaluation.stages import StageReport, offset_progress
from rageval_dagster.identity import digest_json
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.metrics.judge_model import judge_scores
from rageval_dagster.metrics.registry import compute_scores
from rageval_dagster.records import Progress, Result
from rageval_dagster.settings import Settings
from rageval_dagster.storage import evaluations as evaluation_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.database import Database, in_batches
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.types import utc_now

if TYPE_CHECKING:
    from rageval_dagster.embedding.cache import CachedEmbedder

JUDGED_AT_ONCE = 128
"""Results whose verdicts are stored together; what a kill loses of them is in the judge's cache."""


def judge_version(metrics: Sequence[Metric]) -> str:
    """One version for all the metrics of an evaluation: it changes when any of them does."""
    return digest_json({metric.id: metric.version for metric in metrics})


def run_scoring(
    db: Database,
    evaluation: Evaluation,
    metrics: Sequence[Metric],
    tools: Tools,
    verdicts_max_age_days: float,
    progress: Progress | None = None,
) -> StageReport:
    """Scores the results of one evaluation; a (result, metric, version) that was scored before is not touched.

    Verdicts of a judge model count for so many days, because hosted models drift. The embedder and the judge of `tools`
    are asked only when something is to be computed: an unchanged night loads no model. What needs no judge comes first,
    and judged results are stored as they come: where the judge fails for good, or its budget is spent, all that was
    done stays.

    Raises:
        TextsDeletedError: a result that lacks a score has lost its texts.
        LanguageModelError: as `judge_scores`.
    """
    versions = {metric.id: metric.version for metric in metrics}
    oldest = dict.fromkeys(
        (metric.id for metric in metrics if metric.judged), utc_now() - timedelta(days=verdicts_max_age_days)
    )
    loaded = result_storage.load_results(db, evaluation.id)
    result_ids = [result_id for result_id, _ in loaded.values()]
    done = score_storage.scored(db, evaluation.client_id, result_ids, versions, oldest)
    score_storage.use_takes(db, evaluation.id, done)
    work = list(_missing(loaded, metrics, done))
    missing = sum(len(item_ids) * len(group) for item_ids, group in work)
    computed = errors = 0
    for item_ids, group in work:
        if any(loaded[item_id][1].texts_deleted for item_id in item_ids):
            raise TextsDeletedError(
                f"evaluation {evaluation.id} cannot be scored again: its answers were deleted because they were unused "
                "for longer than texts are kept (RAGEVAL_RETENTION_DAYS_TEXT); evaluate the client again"
            )
        results = [loaded[item_id][1] for item_id in item_ids]
        if group[0].judged is not None:
            try:
                outcomes = judge_scores(group, results, tools, offset_progress(progress, computed, missing))
            except BudgetReachedError as error:
                left = f"{missing - computed} of {missing} outcomes of this evaluation are missing"
                raise BudgetReachedError(f"{error}; {left}") from None
        else:
            outcomes = compute_scores(group, results, tools)
        rows = [
            (loaded[item_id][0], metric_id, versions[metric_id], outcome)
            for metric_id, column in outcomes.items()
            for item_id, outcome in zip(item_ids, column, strict=True)
        ]
        score_storage.save_scores(db, evaluation.id, rows, oldest)
        computed += len(rows)
        errors += sum(outcome.status == "error" for *_, outcome in rows)
        if progress is not None:
            progress(computed, missing)
    evaluation_storage.update_evaluation(db, evaluation.id, judge_version=judge_version(metrics))
    total = len(loaded) * len(metrics)
    return StageReport(total=total, reused=total - computed, errors=errors)


def _missing(
    loaded: Mapping[str, tuple[str, Result]], metrics: Sequence[Metric], done: Container[tuple[str, str]]
) -> Iterator[tuple[list[str], list[Metric]]]:
    """Metrics that lack the same items, with those items.

    A family is computed for all of them at once; judged metrics, which come last, together and in batches of results.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[Metric]] = {}
    judged: dict[str, list[Metric]] = {}
    for metric in metrics:
        lacking = tuple(item_id for item_id, (result_id, _) in loaded.items() if (result_id, metric.id) not in done)
        if metric.judged is not None:
            for item_id in lacking:
                judged.setdefault(item_id, []).append(metric)
        elif lacking:
            groups.setdefault((metric.family, lacking), []).append(metric)
    for (_, item_ids), group in groups.items():
        yield list(item_ids), group
    alike: dict[tuple[str, ...], list[str]] = {}
    for item_id, group in judged.items():
        alike.setdefault(tuple(metric.id for metric in group), []).append(item_id)
    for item_ids in alike.values():
        for batch in in_batches(item_ids, JUDGED_AT_ONCE):
            yield list(batch), judged[batch[0]]


def metric_embedder(settings: Settings, db: Database, client_id: str) -> "CachedEmbedder":
    """The embedding model of a client's metrics, with its cache; the model is loaded at the first new text."""
    from rageval_dagster.embedding.cache import CachedEmbedder
    from rageval_dagster.embedding.models import load_embedder

    return CachedEmbedder(load_embedder(settings.metric_embedding_model, settings), db, client_id)


def tools_of(settings: Settings, db: Database, client_id: str, run_id: str) -> Tools:
    """The tools of one run; `settings` are the client's."""
    from rageval_dagster.llm.client import ChatClient

    judge = None if settings.judge_model is None else ChatClient(settings, "judge", db, client_id, run_id)
    return Tools(metric_embedder(settings, db, client_id), judge)
