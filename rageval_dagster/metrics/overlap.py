"""The `overlap` family: token overlap between answer, reference and contexts, without a model (seed 001)."""

from rageval_dagster.metrics.interface import Metric, MetricOptions


def metrics(_options: MetricOptions) -> list[Metric]:
    return []
