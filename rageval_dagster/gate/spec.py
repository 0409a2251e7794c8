"""What a client's settings say of the gate: its metrics, how sure it must be, and what a drop must be to count."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rageval_dagster.evaluation.summary import ANSWERED_WHEN_DUE
from rageval_dagster.settings import Settings

DEFAULT_GATE = ("retrieval.hit_rate_at_k", "retrieval.mrr", "claims.faithfulness")
UNREAD = {
    "overlap.answer_correctness": "the answers' overlap with the expected ones",
    ANSWERED_WHEN_DUE: "answering and declining when it should",
}
"""{metric id: what drops}."""
UNREAD_DROP = 0.1
"""Of one of `UNREAD`, where no judge model reads the answers: no run passes with more. Answers in other words may be as
good, so it is no regression, but those of a system that is broken do not look like this."""


@dataclass(frozen=True)
class GateSpec:
    """What a client's settings say of the gate. `metrics` are ids, which may have `k` in the place of the cutoff."""

    metrics: tuple[str, ...]
    alpha: float
    tolerance: float
    effect: float
    severity: Literal["error", "warning"]
    max_error_share: float
    k: int
    accept_better: bool = False

    @classmethod
    def from_settings(cls, settings: Settings) -> "GateSpec":
        return cls(
            metrics=settings.gate or DEFAULT_GATE,
            alpha=settings.alpha,
            tolerance=settings.regression_tolerance,
            effect=settings.gate_effect,
            severity=settings.gate_severity,
            max_error_share=settings.max_error_share,
            k=settings.k,
            accept_better=settings.auto_accept == "better",
        )

    def gated(self, metric_ids: Iterable[str], k: int, level: str) -> list[str]:
        """Those of an evaluation's metrics that the gate looks at; of retrieval, at the level of its headlines."""
        from rageval_dagster.metrics.registry import matching_ids

        known = list(metric_ids)
        found = [
            name
            for pattern in self.metrics
            for name in matching_ids(at_level(pattern, level), known, k) or matching_ids(pattern, known, k)
        ]
        return list(dict.fromkeys(found))


def seen_from(drop: float, digits: int = 2) -> float:
    """A smallest drop that would have been seen as it is told: rounded up, since one below it is not promised."""
    return math.ceil(round(drop * 10**digits, 6)) / 10**digits


def at_level(pattern: str, level: str) -> str:
    """The id of a metric at the level (chunk or document) of an evaluation's headlines; only retrieval has levels."""
    name = pattern.removeprefix("retrieval.")
    if level == "chunk" or name == pattern or name.startswith("document_"):
        return pattern
    return f"retrieval.document_{name}"
