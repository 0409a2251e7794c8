"""The `citation` family: whether citations point at what was retrieved and supports them (seeds 004, 002)."""

from rageval_dagster.metrics.interface import Metric, MetricOptions


def metrics(_options: MetricOptions) -> list[Metric]:
    return []
