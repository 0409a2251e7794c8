"""Intervals of means, summaries of outcomes and comparisons of two runs. Importing it does not import numpy."""

from rageval_dagster.statistics.comparisons import Comparison, compare
from rageval_dagster.statistics.corrected import Corrected, corrected_difference, corrected_mean
from rageval_dagster.statistics.intervals import mean_interval
from rageval_dagster.statistics.summaries import Summary, breakdown, summarise

__all__ = [
    "Comparison",
    "Corrected",
    "Summary",
    "breakdown",
    "compare",
    "corrected_difference",
    "corrected_mean",
    "mean_interval",
    "summarise",
]
