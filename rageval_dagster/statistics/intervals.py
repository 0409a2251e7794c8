"""The confidence interval of a mean of scores in [0, 1], for independent and for clustered scores."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

from rageval_dagster.records import Interval

if TYPE_CHECKING:
    import numpy as np

# Weight of the unseen worst (best) score beside the n seen ones. At 1 the interval is Gaffke's, which for 0/1 scores is
# that of Clopper and Pearson, but for Beta(8, 1) wider at n = 50 than is useful; at 1/2 it falls to 89 % for some.
# At 3/4 every rate is covered by more than 93 % for every n up to 300 (computed exactly).
UNSEEN_WEIGHT = 0.75
# How much of one further cluster, whose members all lie as far out as the farthest score, the design effect counts in:
# it stands for the clusters that failed as a whole and were not drawn. Chosen by simulation (benchmarks/intervals.py).
UNSEEN_CLUSTER_WEIGHT = 0.2
# Below exp(-300) a bound is 0 in double precision.
SMALLEST_LOG_DISTANCE = -300.0


def mean_interval(
    values: Iterable[float], clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> Interval:
    """The mean of scores in [0, 1] and its confidence interval, never empty and never of width 0.

    Each bound is a quantile of the mean under random Dirichlet weights over the scores and one unseen score at that end
    of the range (Gaffke 2005; Learned-Miller & Thomas 2020), so a run without a failure does not claim that there are
    none. The quantile comes from the saddlepoint approximation r* of Barndorff-Nielsen, exact to about .002 at n = 1.

    `clusters` names each score's cluster, such as the document a question came from (None: a cluster of its own). The
    scores then count as n / design effect (Kish; Korn & Graubard 1998). With one cluster in all nothing says how
    clusters differ, and the interval is about further scores of that cluster.

    Raises ValueError for no scores, for a score that is not a number in [0, 1], and for clusters of another length.
    """
    import numpy as np

    if not 0.0 < confidence < 1.0:
        raise ValueError(f"the confidence of an interval lies between 0 and 1, not {confidence!r}")
    scores = np.asarray(list(values), dtype=float)
    if scores.ndim != 1 or scores.size == 0:
        raise ValueError("an interval of a mean needs at least one score")
    # Written so that NaN fails it too.
    if not bool(((scores >= 0.0) & (scores <= 1.0)).all()):
        raise ValueError("an interval of a mean takes scores in [0, 1]; at least one lies outside or is not a number")
    mean = min(max(math.fsum(scores) / scores.size, float(scores.min())), float(scores.max()))
    weight = 1.0 if clusters is None else 1.0 / design_effect(scores, cluster_codes(clusters, scores.size))
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    # Sorted, so that the order of the scores cannot move the last digits.
    scores.sort()
    low = _lower_bound(scores, weight, z)
    high = 1.0 - _lower_bound(1.0 - scores[::-1], weight, z)
    return Interval(mean=mean, low=min(low, mean), high=max(high, mean))


def cluster_codes(clusters: Sequence[Hashable], n: int) -> "np.ndarray":
    """The clusters as integers 0, 1, ... in order of appearance; each None is a cluster of its own."""
    import numpy as np

    if len(clusters) != n:
        raise ValueError(f"{n} scores need {n} clusters, not {len(clusters)}")
    codes: dict[Hashable, int] = {}
    return np.array(
        [
            codes.setdefault((position,) if cluster is None else (cluster, None), len(codes))
            for position, cluster in enumerate(clusters)
        ]
    )


def design_effect(scores: "np.ndarray", codes: "np.ndarray", prior: float | None = None) -> float:
    """How many times the variance of the mean exceeds that of independent scores, at least 1.

    Where all scores are equal it is the `prior`, and towards it where few differ: what is known of the clusters from
    elsewhere, by default the mean cluster size (weighted by size), which it can hardly exceed.
    """
    import numpy as np

    n = scores.size
    sizes = np.bincount(codes).astype(float)
    cluster_size = float(sizes @ sizes) / n
    effective_clusters = n / cluster_size
    if sizes.size < 2 or sizes.size == n:
        return 1.0
    deviations = scores - scores.mean()
    sums = np.bincount(codes, weights=deviations)
    between = effective_clusters / (effective_clusters - 1) * float(sums @ sums)
    independent = n / (n - 1) * float(deviations @ deviations)
    unseen = UNSEEN_CLUSTER_WEIGHT * cluster_size * float(np.abs(deviations).max()) ** 2
    if independent + unseen <= 1e-18 * n:
        return cluster_size if prior is None else prior
    return max(1.0, (between + (cluster_size if prior is None else prior) * unseen) / (independent + unseen))


def _lower_bound(scores: "np.ndarray", weight: float, z: float) -> float:
    """The quantile at normal deviate -z of the Dirichlet-weighted mean of the scores (each `weight`) and an unseen 0.

    With E Dirichlet's gamma variables, the mean lies below b when the sum of E_i (x_i - b) is negative. That sum's
    saddlepoint for b is linear in 1 / (x_i + e) for some e > 0, and b follows from e in closed form; so one root over
    log e is all there is to find.
    """
    import numpy as np

    largest = float(scores[-1])
    if largest <= 0.0:
        return 0.0
    # The bound scales with the scores; with the largest at 1 the search below always starts near its goal.
    scores = scores / largest
    total = scores.size * weight + UNSEEN_WEIGHT

    def bound_at(log_e: float) -> tuple[float, float]:
        e = math.exp(log_e)
        shifted = scores + e
        bound = weight * float((scores / shifted).sum()) / (weight * float((1.0 / shifted).sum()) + UNSEEN_WEIGHT / e)
        likelihood_ratio = weight * float(np.log(shifted).sum()) + UNSEEN_WEIGHT * log_e - total * math.log(e + bound)
        if likelihood_ratio < 1e-9:
            return bound, -z
        standardised = (scores - bound) / shifted
        v = math.sqrt(weight * float(standardised @ standardised) + UNSEEN_WEIGHT * (bound / e) ** 2)
        r = math.sqrt(2.0 * likelihood_ratio)
        return bound, r + math.log(v / r) / r - z

    return largest * _bound_at_root(bound_at)


def _bound_at_root(bound_at: Callable[[float], tuple[float, float]]) -> float:
    """The bound where its excess deviate, falling in log e, is 0: a bracket around 0, then the Illinois method."""
    left = right = 0.0
    bound, excess = bound_at(0.0)
    left_excess = right_excess = excess
    step = 1.0
    while left_excess < 0.0:
        right, right_excess = left, left_excess
        left -= step
        if left < SMALLEST_LOG_DISTANCE:
            return 0.0
        bound, left_excess = bound_at(left)
        step *= 2.0
    step = 1.0
    while right_excess > 0.0:
        left, left_excess = right, right_excess
        right += step
        bound, right_excess = bound_at(right)
        step *= 2.0
    previous = 0.0
    for _ in range(100):
        middle = (left * right_excess - right * left_excess) / (right_excess - left_excess) if left < right else left
        bound, excess = bound_at(middle)
        if abs(excess) < 1e-10 or right - left < 1e-12:
            break
        if excess > 0.0:
            left, left_excess = middle, excess
            right_excess = right_excess / 2 if previous > 0.0 else right_excess
        else:
            right, right_excess = middle, excess
            left_excess = left_excess / 2 if previous < 0.0 else left_excess
        previous = excess
    return bound
