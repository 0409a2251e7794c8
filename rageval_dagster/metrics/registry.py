"""The registry of metrics: which there are at a cutoff, and how a batch of results is scored by them."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rageval_dagster.errors import SettingsError
from rageval_dagster.metrics import checks, citation, embedding, lexical, overlap, quality, retrieval
from rageval_dagster.metrics.interface import Metric, MetricOptions, Tools
from rageval_dagster.records import Outcome, Progress, Result
from rageval_dagster.settings import Settings

if TYPE_CHECKING:
    from rageval_dagster.embedding.models import Embedder

__all__ = ["FAMILIES", "Metric", "MetricOptions", "Tools", "all_metrics", "compute_scores", "metrics_for", "options_of"]

logger = logging.getLogger(__name__)


FAMILIES: tuple[Callable[[MetricOptions], list[Metric]], ...] = (
    retrieval.metrics,
    embedding.metrics,
    lexical.metrics,
    checks.metrics,
    overlap.metrics,
    citation.metrics,
    quality.metrics,
)
"""The built-in families, in the order in which their metrics are shown."""


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


def metrics_for(options: MetricOptions, own: Iterable[Metric] = ()) -> list[Metric]:
    """The metrics that can be run: those that need an embedder only where the options name its version."""
    with_embedder = options.embedder_version is not None
    return [metric for metric in all_metrics(options, own) if with_embedder or "embedder" not in metric.needs]


def options_of(settings: Settings, k: int, embedder: "Embedder | None" = None) -> MetricOptions:
    """What a client's settings say; the embedder is asked for its version alone, so that its model is not loaded."""
    return MetricOptions(
        k=k,
        embedder_version=None if embedder is None else embedder.version,
        sufficiency_threshold=settings.sufficiency_threshold,
        hallucination_threshold=settings.hallucination_threshold,
        citation_threshold=settings.citation_threshold,
        minimum_retrieval_score=settings.minimum_retrieval_score,
        citation_required=settings.citation_required,
        overlap_compat=settings.overlap_compat,
    )


def metrics_of(settings: Settings, k: int, embedder: "Embedder | None" = None) -> list[Metric]:
    """The metrics of a client, as its settings say."""
    return metrics_for(options_of(settings, k, embedder))


def compute_scores(
    metrics: Sequence[Metric], results: Sequence[Result], tools: Tools, progress: Progress | None = None
) -> Mapping[str, list[Outcome]]:
    """Each metric's outcomes by its id, one a result in order.

    A metric that fails gives an error outcome, with the class of what it raised, for every result that it applies to;
    the other metrics go on.
    """
    scores: dict[str, list[Outcome]] = {}
    for done, metric in enumerate(metrics, start=1):
        try:
            scores[metric.id] = metric.compute(results, tools)
        except Exception as error:  # noqa: BLE001  (the other metrics go on)
            # Only the class: the message may hold the user's texts.
            failure = Outcome.error(type(error).__name__)
            logger.warning("metric %s failed on %d results: %s", metric.id, len(results), type(error).__name__)
            scores[metric.id] = [metric.inapplicable(result) or failure for result in results]
        if progress is not None:
            progress(done, len(metrics))
    return scores
