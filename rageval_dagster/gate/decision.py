"""The decision whether a metric fell: a level that holds over many looks at several metrics, and a tolerance."""

from dataclasses import dataclass
from functools import cached_property

from rageval_dagster.gate import nights
from rageval_dagster.gate.nights import LOOKS
from rageval_dagster.records import Decision
from rageval_dagster.statistics.comparisons import Comparison


@dataclass(frozen=True)
class Gate:
    """What counts as a regression: significant over all looks at all `metrics` together, and beyond the tolerance."""

    alpha: float = 0.05
    tolerance: float = 0.02
    metrics: int = 1

    @cached_property
    def level(self) -> float:
        """The one-sided level of one look at one metric."""
        return level_of_a_look(self.alpha, self.metrics)

    def corrected_p(self, comparison: Comparison) -> float | None:
        """The one-sided p value of the change in the direction that it has, on the scale of alpha."""
        if comparison.p_value is None:
            return None
        return min(1.0, comparison.p_value / 2.0 * self.alpha / self.level)

    def decision(self, comparison: Comparison) -> Decision:
        """What became of a metric of which more is better."""
        corrected, difference = self.corrected_p(comparison), comparison.difference
        if corrected is None or difference is None:
            return "not_comparable"
        return decided(corrected, difference, self.alpha, self.tolerance)


def decided(corrected_p: float, difference: float, alpha: float, tolerance: float) -> Decision:
    """The decision on a difference (more is better) with a corrected p value."""
    if corrected_p > alpha or abs(difference) <= tolerance:
        return "unchanged"
    return "regressed" if difference < 0 else "improved"


def level_of_a_look(alpha: float, metrics: int, looks: int = LOOKS) -> float:
    """The one-sided level of each of `looks` comparisons of `metrics` metrics with one baseline.

    While nothing changes, the chance that any of them is significant is at most alpha: over looks by Dunnett (1955),
    over metrics by Bonferroni.

    Raises ValueError for an alpha outside (0, 1) or numbers below 1.
    """
    if not 0.0 < alpha < 1.0 or metrics < 1 or looks < 1:
        raise ValueError("alpha lies in (0, 1), and there is at least one metric and one look")
    return nights.level_of_a_look(alpha / metrics, looks, 0.5)
