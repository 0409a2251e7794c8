"""How well scores agree with human labels: accuracy at a threshold, AUROC, Cohen's kappa, rank correlations."""

import math
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Any

from rageval_dagster.records import Interval
from rageval_dagster.statistics.intervals import cluster_codes, mean_interval

if TYPE_CHECKING:
    import numpy as np

FOLDS = 5
SEED = 0


@dataclass(frozen=True)
class HeldOut:
    """What thresholds chosen without a question say about it: for each score whether it is good, and their mean."""

    said: tuple[bool, ...]
    threshold: float


def accuracy(
    said: Sequence[bool], labels: Sequence[bool], clusters: Sequence[Hashable] | None = None
) -> Interval | None:
    """The share of labels that are said, with the interval of a mean over clusters; None where there are none.

    Raises ValueError for sequences of different lengths.
    """
    if not labels:
        return None
    return mean_interval([float(ours == theirs) for ours, theirs in zip(said, labels, strict=True)], clusters)


def kappa(said: Sequence[Hashable], labels: Sequence[Hashable]) -> float | None:
    """Cohen's kappa (1960), in [-1, 1]; None where there is nothing, or chance alone would agree always.

    That is so where both sides only know one and the same label. No interval: none known covers small kappas well.
    """
    from sklearn.metrics import cohen_kappa_score

    return None if len({*said, *labels}) < 2 else float(cohen_kappa_score(said, labels))


def auroc(
    values: Sequence[float], labels: Sequence[bool], clusters: Sequence[Hashable] | None = None
) -> Interval | None:
    """The chance that a good one scores higher than a bad one, a tie counting half; None where one of them is missing.

    The interval is Newcombe's (2006, method 5): the score interval with Hanley and McNeil's variance, so that it is no
    point where all is told apart. With clusters that variance counts times the ratio, at least 1, of DeLong's variance
    over clusters (Obuchowski 1997) to that over single scores.

    Raises ValueError for sequences of different lengths.
    """
    import numpy as np

    scores, good = np.asarray(values, dtype=float), np.asarray(labels, dtype=bool)
    if scores.shape != good.shape:
        raise ValueError(f"{scores.size} scores need as many labels, not {good.size}")
    positives, negatives = scores[good], scores[~good]
    if not positives.size or not negatives.size:
        return None
    # Each good one's share of the bad ones that it beats, and each bad one's share of the good ones that beat it.
    placements = np.empty(scores.size)
    placements[good] = _share_below(positives, negatives)
    placements[~good] = 1.0 - _share_below(negatives, positives)
    area = math.fsum(placements[good]) / positives.size
    effect = 1.0
    if clusters is not None:
        effect = _design_effect(placements - area, good, cluster_codes(clusters, scores.size))
    z = NormalDist().inv_cdf(0.975)
    low = _newcombe_bound(area, positives.size, negatives.size, z, effect)
    high = 1.0 - _newcombe_bound(1.0 - area, positives.size, negatives.size, z, effect)
    return Interval(area, min(low, area), max(high, area))


def spearman(values: Sequence[float], labels: Sequence[float]) -> float | None:
    """Spearman's rank correlation with ties at their mean rank; None where a side does not vary."""
    from scipy.stats import spearmanr

    return _statistic(spearmanr, values, labels)


def kendall(values: Sequence[float], labels: Sequence[float]) -> float | None:
    """Kendall's tau-b, which allows for ties; None where a side does not vary."""
    from scipy.stats import kendalltau

    return _statistic(kendalltau, values, labels)


def _statistic(correlation: Callable[..., Any], values: Sequence[float], labels: Sequence[float]) -> float | None:
    if len(set(values)) < 2 or len(set(labels)) < 2:
        return None
    return float(correlation(values, labels).statistic)


def best_threshold(values: Sequence[float], labels: Sequence[bool]) -> float:
    """The threshold at and above which scores are best taken as good: the one with the highest accuracy.

    It lies midway between two neighbouring scores, or at an end, where all or none are good; of several that are as
    accurate it is the middle one.

    Raises ValueError for no scores, and for sequences of different lengths.
    """
    if not values:
        raise ValueError("a threshold needs at least one score")
    counts: dict[float, list[int]] = {}
    for value, label in zip(values, labels, strict=True):
        counts.setdefault(value, [0, 0])[label] += 1
    levels = sorted(counts)
    # From all good (the lowest threshold) upward: each level that falls below it turns its good ones wrong.
    right = sum(map(bool, labels))
    found = [(right, levels[0])]
    for level, following in zip(levels, [*levels[1:], None], strict=True):
        bad, good = counts[level]
        right += bad - good
        above = math.nextafter(level, math.inf)  # between two neighbouring floats there is none
        found.append((right, above if following is None else max(above, (level + following) / 2)))
    best = [threshold for correct, threshold in found if correct == max(found)[0]]
    return best[len(best) // 2]


def held_out(values: Sequence[float], labels: Sequence[bool], clusters: Sequence[Hashable]) -> HeldOut | None:
    """What each score says by a threshold that was chosen on other clusters (five folds of them, by a fixed seed).

    None where there are fewer than two clusters: nothing is left to choose on.

    Raises ValueError for sequences of different lengths.
    """
    if not len(values) == len(labels) == len(clusters):
        raise ValueError("scores, labels and clusters are of different lengths")
    distinct = list(dict.fromkeys(clusters))
    if len(distinct) < 2:
        return None
    random.Random(SEED).shuffle(distinct)  # noqa: S311  (a fixed one, so that the same file gives the same number)
    fold_of = {cluster: place % FOLDS for place, cluster in enumerate(distinct)}
    folds = [fold_of[cluster] for cluster in clusters]
    thresholds = {
        fold: best_threshold(
            [value for value, other in zip(values, folds, strict=True) if other != fold],
            [label for label, other in zip(labels, folds, strict=True) if other != fold],
        )
        for fold in sorted(set(folds))
    }
    said = tuple(value >= thresholds[fold] for value, fold in zip(values, folds, strict=True))
    return HeldOut(said, fmean(thresholds.values()))


def _share_below(these: "np.ndarray", others: "np.ndarray") -> "np.ndarray":
    """For each of these the share of the others below it, equal ones counting half."""
    import numpy as np

    ordered = np.sort(others)
    return (np.searchsorted(ordered, these, "left") + np.searchsorted(ordered, these, "right")) / (2 * others.size)


def _design_effect(deviations: "np.ndarray", good: "np.ndarray", codes: "np.ndarray") -> float:
    """How many times the area's variance over clusters is that over single scores, at least 1."""
    import numpy as np

    # Both are sums of squares of what each score, or each cluster, adds to the area.
    weights = deviations / np.where(good, good.sum(), (~good).sum())
    sums = np.bincount(codes, weights=weights)
    single = float(weights @ weights)
    return max(1.0, float(sums @ sums) / single) if single > 0.0 and sums.size > 1 else 1.0


def _newcombe_bound(area: float, positives: int, negatives: int, z: float, effect: float) -> float:
    """The lowest area whose score interval still holds this one, by bisection."""
    half_total = (positives + negatives) / 2 - 1

    def deviation(theta: float) -> float:
        spread = 1.0 + half_total * ((1.0 - theta) / (2.0 - theta) + theta / (1.0 + theta))
        variance = theta * (1.0 - theta) * spread / (positives * negatives)
        return area - theta - z * math.sqrt(effect * variance)

    low, high = 0.0, area
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if deviation(middle) > 0 else (low, middle)
    return low
