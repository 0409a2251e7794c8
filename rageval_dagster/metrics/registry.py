"""The registry of metrics: which there are at a cutoff, which a client runs, and how results are scored by them."""

import difflib
import fnmatch
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rageval_dagster.errors import DatabaseError, SettingsError, class_and_place
from rageval_dagster.llm.endpoints import endpoint_of
from rageval_dagster.metrics import checks, citation, claims, embedding, judge, lexical, overlap, quality, retrieval
from rageval_dagster.metrics.interface import Metric, MetricOptions, Tools
from rageval_dagster.metrics.judge_model import judge_scores
from rageval_dagster.metrics.own import installed_metrics, is_own, named_metrics
from rageval_dagster.records import Outcome, Progress, Result
from rageval_dagster.settings import Settings

if TYPE_CHECKING:
    from rageval_dagster.embedding.models import Embedder

logger = logging.getLogger(__name__)


FAMILIES: tuple[Callable[[MetricOptions], list[Metric]], ...] = (
    retrieval.metrics,
    embedding.metrics,
    lexical.metrics,
    checks.metrics,
    overlap.metrics,
    citation.metrics,
    quality.metrics,
    judge.metrics,
    claims.metrics,
)
"""The built-in families, in the order in which their metrics are shown."""

BUILT_IN = frozenset(family.__module__.rpartition(".")[2] for family in FAMILIES)
"""The families that no metric of the user's may join."""


SHORT_NAMES = {name: f"overlap.{name}" for name in ("faithfulness", "answer_correctness", "context_correctness")}
"""The names that need no family, because seed 001 has given them one meaning."""


def all_metrics(options: MetricOptions, own: Iterable[Metric] = ()) -> list[Metric]:
    """Every metric declared, the user's own after the built-in ones, in the order in which they are shown.

    Raises:
        SettingsError: two metrics have one id.
    """
    metrics = [metric for family in FAMILIES for metric in family(options)] + list(own)
    for metric_id, count in Counter(metric.id for metric in metrics).items():
        if count > 1:
            raise SettingsError(f"there are {count} metrics {metric_id!r}: give yours another id")
    return metrics


def options_of(settings: Settings, k: int, embedder: "Embedder | None" = None) -> MetricOptions:
    """What a client's settings say; the embedder is asked for its version alone, so that its model is not loaded."""
    judge = endpoint_of(settings, "judge")
    return MetricOptions(
        k=k,
        embedder_version=None if embedder is None else embedder.version,
        sufficiency_threshold=settings.sufficiency_threshold,
        hallucination_threshold=settings.hallucination_threshold,
        citation_threshold=settings.citation_threshold,
        minimum_retrieval_score=settings.minimum_retrieval_score,
        citation_required=settings.citation_required,
        min_citation_coverage=settings.min_citation_coverage,
        overlap_compat=settings.overlap_compat,
        judge_version=None if judge is None else judge.version,
        judge_repeats=settings.judge_repeats,
        prompts_dir=settings.prompts_dir,
        judge_weights=settings.judge_weights,
    )


def metrics_of(settings: Settings, k: int, embedder: "Embedder | None" = None) -> list[Metric]:
    """The metrics that a client runs, as its setting `metrics` says.

    Its patterns choose among all metrics; with none of them all built-in and installed ones run. The user's own that it
    names always run. Without an embedder, or a judge model, those that need one are left out.

    Raises:
        SettingsError: a pattern chooses nothing, or a metric of the user's own cannot be used.
    """
    options = options_of(settings, k, embedder)
    chosen = chosen_metrics(settings, options)
    missing = ({"embedder"} if embedder is None else set()) | ({"judge"} if options.judge_version is None else set())
    return [metric for metric in chosen if not missing & metric.needs]


def chosen_metrics(settings: Settings, options: MetricOptions, patterns: Sequence[str] | None = None) -> list[Metric]:
    """The metrics that patterns choose, else those of the setting `metrics`, whether or not they can be run.

    Raises:
        SettingsError: a pattern chooses nothing, or a metric of the user's own cannot be used.
    """
    known, named = _declared(settings, options)
    chosen: set[str] = set()
    if patterns is None:
        patterns = [entry for entry in settings.metrics if not is_own(entry)] or ["*"]
        chosen = {metric.id for metric in named}
    chosen.update(name for pattern in patterns for name in _chosen(pattern, known, options.k))
    return [metric for metric in known if metric.id in chosen]


def declared_metrics(settings: Settings, options: MetricOptions) -> list[Metric]:
    """Every metric that a client could run: the built-in, the installed, and those that its settings name.

    Raises:
        SettingsError: a metric of the user's own cannot be used, or two metrics have one id.
    """
    return _declared(settings, options)[0]


def generic_id(metric_id: str, k: int) -> str:
    """The id with `k` in the place of the cutoff: `retrieval.precision_at_k`."""
    return f"{metric_id.removesuffix(f'_at_{k}')}_at_k" if metric_id.endswith(f"_at_{k}") else metric_id


def nearest_id(metric_id: str, metrics: Iterable[Metric], k: int) -> str:
    """`; retrieval.mrr is meant?` where an id that is none is like one, else where the ids are listed."""
    known = {name for metric in metrics for name in (metric.id, generic_id(metric.id, k))}
    near = difflib.get_close_matches(metric_id, sorted(known), n=1)
    return f"; did you mean {near[0]}?" if near else " (rageval metrics list shows them)"


def _declared(settings: Settings, options: MetricOptions) -> tuple[list[Metric], list[Metric]]:
    """All metrics, and those of them that the settings name."""
    named = named_metrics(settings, options, BUILT_IN)
    return all_metrics(options, [*installed_metrics(options, BUILT_IN), *named]), named


def matching_ids(pattern: str, metric_ids: Iterable[str], k: int) -> list[str]:
    """The ids that a pattern such as `retrieval.*` chooses; it may have `k` in the place of the cutoff."""
    return [
        metric_id
        for metric_id in metric_ids
        if fnmatch.fnmatchcase(metric_id, pattern) or fnmatch.fnmatchcase(generic_id(metric_id, k), pattern)
    ]


def _chosen(pattern: str, metrics: Sequence[Metric], k: int) -> list[str]:
    found = matching_ids(pattern, (metric.id for metric in metrics), k)
    if not found:
        raise SettingsError(f"metrics: {pattern!r} chooses no metric at k = {k}{nearest_id(pattern, metrics, k)}")
    return found


def compute_scores(
    metrics: Sequence[Metric], results: Sequence[Result], tools: Tools, progress: Progress | None = None
) -> Mapping[str, list[Outcome]]:
    """Each metric's outcomes by its id, one a result in order.

    A metric that fails gives an error outcome, with the class of what it raised and the line, for every result that it
    applies to; the other metrics go on.

    Raises:
        LanguageModelError: as `judge_scores`.
        DatabaseError: the database, which keeps the vectors, does not answer.
    """
    scores: dict[str, list[Outcome]] = {}
    judged = [metric for metric in metrics if metric.judged is not None]
    if judged:
        scores |= judge_scores(judged, results, tools)
    for done, metric in enumerate((metric for metric in metrics if metric.judged is None), start=1 + len(judged)):
        try:
            scores[metric.id] = metric.compute(results, tools)
        except DatabaseError:
            raise  # of vectors that are kept: it says nothing of the metric, and the step is tried again
        except (Exception, SystemExit) as error:  # noqa: BLE001  (the other metrics go on)
            failure = Outcome.error(class_and_place(error))
            logger.warning("metric %s failed on %d results: %s", metric.id, len(results), failure.reason)
            scores[metric.id] = [metric.inapplicable(result) or failure for result in results]
        if progress is not None:
            progress(done, len(metrics))
    return {metric.id: scores[metric.id] for metric in metrics}
