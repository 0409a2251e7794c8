"""Comparison of two runs on the questions they share: difference, permutation test, smallest visible effect."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from rageval_dagster.statistics.intervals import cluster_codes, design_effect, mean_interval

if TYPE_CHECKING:
    import numpy as np

POWER = 0.8
# Ranks up to 10, and shares of up to 10, are whole multiples of 1 / 2520 (the least common multiple of 1 to 10).
LATTICE = 2520
LARGEST_LATTICE = 400_000
# Other differences are rounded to this many steps in all, and at least this many a cluster.
STEPS, STEPS_PER_CLUSTER = 20_000, 20
# With more clusters the sum of random signs is normal to within 1 % of p at p = 1e-4.
LARGEST_EXACT = 2_000


@dataclass(frozen=True)
class Comparison:
    """Two runs on their shared items; `difference` is current minus baseline, in [-1, 1].

    `minimum_detectable_effect` is the smallest change of the mean that the test would have found in 80 % of runs like
    these, None where it could not have found any. Every number is None where no item is shared.
    """

    n_shared: int
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    minimum_detectable_effect: float | None


def compare(
    baseline: Mapping[str, float | None],
    current: Mapping[str, float | None],
    clusters: Mapping[str, Hashable] | None = None,
    confidence: float = 0.95,
    alpha: float | None = None,
) -> Comparison:
    """Compares two runs, each {item: score in [0, 1], None where not scored}, on the items that both have scored.

    The two-sided p value is that of the permutation test which flips the signs of whole clusters' differences
    (Fisher 1935), computed exactly. `clusters` maps items to clusters; an item it does not name, or names None, stands
    alone, and where all shared items are of one cluster each stands alone. The interval is `mean_interval` of the
    differences: it allows for changes that no shared item shows, so it may hold 0 where p is significant (p decides).
    The minimum detectable effect is that of a two-sided test at level `alpha`, or 1 - confidence.

    Raises ValueError for a score outside [0, 1].
    """
    import numpy as np

    before, after = _scored(baseline), _scored(current)
    shared = sorted(before.keys() & after.keys())
    if not shared:
        return Comparison(0, None, None, None, None, None)
    n = len(shared)
    differences = np.array([after[item] - before[item] for item in shared])
    labels = [None if clusters is None else clusters.get(item) for item in shared]
    if None not in labels and len(set(labels)) == 1:
        labels = [None] * n
    codes = cluster_codes(labels, n)
    # Half the difference plus a half is a score in [0, 1] again; the clip takes off what rounding adds.
    interval = mean_interval(np.clip((differences + 1.0) / 2.0, 0.0, 1.0), labels, confidence)
    difference = math.fsum(differences) / n
    return Comparison(
        n_shared=n,
        difference=difference,
        low=min(2.0 * interval.low - 1.0, difference),
        high=max(2.0 * interval.high - 1.0, difference),
        p_value=sign_flip_p_value(np.bincount(codes, weights=differences)),
        minimum_detectable_effect=_minimum_detectable_effect(
            differences,
            np.array([before[item] for item in shared]),
            codes,
            1.0 - confidence if alpha is None else alpha,
        ),
    )


def sign_flip_p_value(sums: "np.ndarray") -> float:
    """The two-sided p value of a sum of differences when each cluster's sum could as well have the other sign.

    Exact, by the distribution of the sum over all sign patterns on a grid: that of the scores themselves where they are
    fractions up to tenths, else one of at least 20,000 steps (an exact test of the rounded sums). No random numbers, so
    p values of 1e-6 are as good as those of .05. Above 2,000 clusters the distribution is taken as normal.
    """
    import numpy as np

    sums = sums[np.abs(sums) > 1e-12]
    if sums.size == 0:
        return 1.0
    if sums.size > LARGEST_EXACT:
        return 2.0 * NormalDist().cdf(-abs(float(sums.sum())) / math.sqrt(float(sums @ sums)))
    steps = _on_grid(sums)
    sizes = np.abs(steps)
    total = int(sizes.sum())
    # chances[x]: that the clusters with a positive sign sum to x; the signed sum then is 2 x - total.
    chances = np.zeros(total + 1)
    chances[0] = 1.0
    reached = 0
    for size in sorted(int(size) for size in sizes):
        shifted = chances[: reached + 1].copy()
        chances[size : size + reached + 1] += shifted
        reached += size
        chances[: reached + 1] *= 0.5
    outlying = np.abs(2 * np.arange(total + 1) - total) >= abs(int(steps.sum()))
    return min(1.0, float(chances[outlying].sum()))


def _on_grid(sums: "np.ndarray") -> "np.ndarray":
    import numpy as np

    exact = sums * LATTICE
    steps = np.rint(exact).astype(np.int64)
    if np.abs(exact - steps).max() < 1e-6:
        steps //= np.gcd.reduce(steps)
        if np.abs(steps).sum() <= LARGEST_LATTICE:
            return steps
    count = max(STEPS, STEPS_PER_CLUSTER * sums.size)
    return np.rint(sums * (count / np.abs(sums).sum())).astype(np.int64)


def _minimum_detectable_effect(
    differences: "np.ndarray", baseline: "np.ndarray", codes: "np.ndarray", alpha: float
) -> float | None:
    """The drop (or rise) that the sign-flip test at `alpha` finds with 80 % power, None where there is none below 1.

    It is the drop that single questions failing altogether add up to, which is how retrieval breaks, and which adds to
    the variance; scores that all fall a little are found sooner.
    """
    import numpy as np

    # With every cluster changed the same way, this is p.
    if 2.0 ** -int(codes.max()) > alpha:
        return None
    n = differences.size
    deviations = np.bincount(codes, weights=differences - differences.mean())
    noise = float(deviations @ deviations) / n**2
    # One question, or as many as fail together: as the changes show, and where there are few, as far as the baseline's
    # scores are alike within a cluster.
    failure = design_effect(differences, codes, design_effect(baseline, codes)) / n
    z_alpha, z_power = NormalDist().inv_cdf(1.0 - alpha / 2.0), NormalDist().inv_cdf(POWER)
    # The smallest drop D that is significant: D^2 = z^2 (noise + failure D), and one failure more because failures come
    # whole; but never fewer than the test needs when nothing else has changed.
    needed = z_alpha**2 * failure / 2.0 + z_alpha * math.sqrt(noise + (z_alpha * failure) ** 2 / 4.0) + failure
    needed = max(needed, math.ceil(1.0 - math.log2(alpha)) * failure)
    # The drop d from which chance takes off too much in only a fifth of all runs: (d - D)^2 = z^2 (noise + failure d).
    spread = noise + failure * needed + (z_power * failure) ** 2 / 4.0
    effect = needed + z_power**2 * failure / 2.0 + z_power * math.sqrt(spread)
    return effect if effect < 1.0 else None


def _scored(run: Mapping[str, float | None]) -> dict[str, float]:
    scored = {item: float(value) for item, value in run.items() if value is not None}
    outside = sum(not 0.0 <= value <= 1.0 for value in scored.values())
    if outside:
        raise ValueError(f"a comparison takes scores in [0, 1]; {outside} lie outside or are not numbers")
    return scored
