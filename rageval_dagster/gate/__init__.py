"""The gate: each evaluation against its reference, what it decides and why, and the incidents that come of it."""

from rageval_dagster.gate.nights import NightVerdict, Variances, verdicts

__all__ = ["NightVerdict", "Variances", "verdicts"]
