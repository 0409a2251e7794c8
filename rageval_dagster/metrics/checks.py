"""The `checks` family: lists, facts and calculations that a question declares of its answer (seed 003)."""

from rageval_dagster.metrics.interface import Metric, MetricOptions


def metrics(_options: MetricOptions) -> list[Metric]:
    return []
