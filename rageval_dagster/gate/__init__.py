"""The gate: each evaluation against its reference, what it decides and why, and the incidents that come of it."""

from rageval_dagster.gate.nights import NightVerdict, Variances, last_verdict, verdicts

__all__ = ["NightVerdict", "Variances", "last_verdict", "verdicts"]
