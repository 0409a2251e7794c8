"""Whether a mean is surely below a limit, at any time of looking, by bets against it (Waudby-Smith and Ramdas 2024)."""

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from rageval_dagster.statistics.intervals import cluster_codes

if TYPE_CHECKING:
    import numpy as np

ALPHA = 0.05
STAKES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.55, 0.8)
"""Shares of the capital that are bet on each cluster; the capital of all of them together is the evidence."""


def surely_below(
    values: Sequence[float | None],
    clusters: Sequence[Hashable] | None,
    limit: float,
    alpha: float = ALPHA,
) -> bool:
    """Whether the mean of scores in [0, 1] is surely below a limit; None counts as 0.

    The values stand in the order they were asked in, which no score may have decided. The chance of ever being wrong is
    at most alpha, however often one looks while values come in. Where a value lies outside [0, 1], the largest distance
    from the limit so far stands for the range of the scores.
    """
    import numpy as np

    scores = np.array([0.0 if value is None else value for value in values], dtype=float)
    if not scores.size:
        return False
    return evidence(limit - scores, clusters) >= math.log(1.0 / alpha)


def evidence(gains: "np.ndarray", clusters: Sequence[Hashable] | None) -> float:
    """The logarithm of the highest capital, ever, of who bets that gains in [-1, 1] are positive in the mean.

    If they are not, it exceeds log(1 / alpha) with a chance of at most alpha.
    """
    import numpy as np

    if not gains.size:
        return 0.0
    codes = cluster_codes(clusters if clusters is not None else [None] * gains.size, gains.size)
    sums = np.bincount(codes, weights=gains) / (np.bincount(codes).max() * max(1.0, float(np.abs(gains).max())))
    capital = np.cumsum(np.log1p(np.outer(STAKES, sums)), axis=1)
    top = capital.max(axis=0)
    return float((top + np.log(np.exp(capital - top).mean(axis=0))).max())
