"""The registry of metrics: which there are at a cutoff, and how a batch of results is scored by them."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rageval_dagster.metrics import embedding, lexical, quality, retrieval
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.records import Outcome, Progress, Result

if TYPE_CHECKING:
    from rageval_dagster.embedding.models import Embedder

__all__ = ["Metric", "Tools", "all_metrics", "compute_scores", "metrics_for"]

logger = logging.getLogger(__name__)


def all_metrics(
    k: int,
    embedder_version: str | None = None,
    sufficiency_threshold: float = embedding.SUFFICIENCY_THRESHOLD,
    hallucination_threshold: float = embedding.HALLUCINATION_THRESHOLD,
) -> list[Metric]:
    """Every metric declared, at cutoff k (at least 1), in the order in which they are shown.

    Raises:
        ValueError: k is less than 1, or two metrics have one id.
    """
    if k < 1:
        raise ValueError(f"the cutoff k is at least 1, not {k}")
    metrics = [
        *retrieval.metrics(k),
        *embedding.metrics(embedder_version, sufficiency_threshold, hallucination_threshold),
        *lexical.metrics(),
        *quality.metrics(),
    ]
    ids = [metric.id for metric in metrics]
    if len(set(ids)) < len(ids):
        raise ValueError("two metrics have one id")
    return metrics


def metrics_for(
    k: int,
    embedder: "Embedder | None" = None,
    sufficiency_threshold: float = embedding.SUFFICIENCY_THRESHOLD,
    hallucination_threshold: float = embedding.HALLUCINATION_THRESHOLD,
) -> list[Metric]:
    """The metrics that can be run at cutoff k: those that need an embedder only where there is one.

    The embedder is asked for its version alone, so that the default model is not loaded.
    """
    version = embedder.version if embedder is not None else None
    return [
        metric
        for metric in all_metrics(k, version, sufficiency_threshold, hallucination_threshold)
        if embedder is not None or "embedder" not in metric.needs
    ]


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
