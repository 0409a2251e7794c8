"""How good every configuration of a space seems, from the scores of those that were tried.

Configurations that share values are alike, and so are the accidents of their scores. Both are modelled by a Gaussian
process: a configuration's worth is a sum of effects of single values, of pairs of values, and of its own. Questions
are harder or easier for all, which takes no part in it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from rageval_dagster.experiments.spaces import Configurations
from rageval_dagster.statistics.intervals import cluster_codes

if TYPE_CHECKING:
    import numpy as np

SHAPES = ((0.85, 0.1, 0.05), (0.6, 0.3, 0.1), (0.4, 0.3, 0.3))
"""How much of the variance between configurations is of single values, pairs, and the whole: the likeliest is taken."""
SCALES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
"""The variance between configurations, as a multiple of that of their means."""
NOISES = (0.02, 0.1, 0.3, 1.0)
"""The same of the noise, where each configuration has a single score."""
DECAY = 1.5
"""Numbers at the two ends of a parameter are alike by exp(-DECAY)."""


@dataclass(frozen=True)
class Posterior:
    """Of each configuration of the space how good it is, higher is better, and the covariance of what is unknown."""

    mean: "np.ndarray"
    covariance: "np.ndarray"


class Surrogate:
    """A model of a space. Scores are in [0, 1], higher is better."""

    def __init__(self, space: Configurations) -> None:
        import numpy as np

        levels = np.array(space.levels).reshape(len(space.all), len(space.sizes))
        alike = []
        for column, size, ordered in zip(levels.T, space.sizes, space.ordered, strict=True):
            if size < 2:
                continue
            apart = np.abs(column[:, None] - column[None, :])
            alike.append(np.exp(-DECAY * apart / (size - 1)) if ordered else (apart == 0).astype(float))
        own = np.eye(len(space.all))
        single = sum(alike) / len(alike) if alike else own
        pairs = [one * other for place, one in enumerate(alike) for other in alike[:place]]
        self._kernels = np.array([single, sum(pairs) / len(pairs) if pairs else single, own])

    def start(self, count: int, seed: int) -> list[int]:
        """So many configurations, each the one that tells most about all others; the first by the seed."""
        import numpy as np

        rng = np.random.default_rng(seed)
        covariance = np.tensordot(SHAPES[1], self._kernels, 1)
        # Of equally telling ones, which are many, any is as good.
        favour = 1.0 + 0.05 * rng.random(len(covariance))
        chosen: list[int] = []
        for _ in range(count):
            told = (covariance**2).sum(axis=0) / (np.diag(covariance) + 0.1) * favour
            told[chosen] = -1.0
            chosen.append(int(told.argmax()))
            covariance = conditioned(covariance, chosen[-1], 0.1)
        return chosen

    def fit(
        self,
        tried: Sequence[int],
        scores: "np.ndarray",
        stretches: Sequence[slice],
        clusters: Sequence[Hashable],
    ) -> Posterior:
        """The posterior from `scores` [tried, questions], NaN where not asked.

        A configuration was asked a first part of the questions. `stretches` are the parts that were asked at once.
        """
        import numpy as np

        kernels = self._kernels[:, tried][:, :, tried]
        asked = ~np.isnan(scores)
        known = np.where(asked, scores, 0.0)
        noise = _noise(known, asked, kernels, clusters)
        rows, values, counts, parts = [], [], [], []
        for part, stretch in enumerate(stretches):
            count = asked[:, stretch].sum(axis=1)
            own = np.flatnonzero(count)
            rows += list(own)
            values += list(known[own, stretch].sum(axis=1) / count[own])
            counts += list(count[own])
            parts += [part] * len(own)
        row, value, count, part = np.array(rows), np.array(values), np.array(counts), np.array(parts)
        same_part = part[:, None] == part[None, :]
        shared = np.where(same_part, 1.0 / np.maximum(count[:, None], count[None, :]), 0.0)
        # The level of each part is unknown: what all configurations share is no difference between them.
        level = np.where(same_part, 1.0, 0.0)
        means = known.sum(axis=1) / np.maximum(asked.sum(axis=1), 1)
        spread = float(means.var()) + 1e-8
        pairs = (slice(None), row[:, None], row[None, :])
        at_pairs = kernels[pairs]
        errors = (
            [np.tensordot(noise, at_pairs, 1) * shared]
            if noise is not None
            else [share * spread * np.eye(len(row)) for share in NOISES]
        )
        best: tuple[float, np.ndarray, np.ndarray] | None = None
        centred = value - value.mean()
        for error in errors:
            for shape in SHAPES:
                signal = np.tensordot(shape, at_pairs, 1)
                for scale in SCALES:
                    total = scale * spread * signal + error + level + 1e-7 * np.eye(len(row))
                    factor = np.linalg.cholesky(total)
                    half = np.linalg.solve(factor, centred)
                    fit = -0.5 * float(half @ half) - float(np.log(np.diag(factor)).sum())
                    if best is None or fit > best[0]:
                        best = fit, scale * spread * np.array(shape), factor
        _, weights, factor = cast("tuple[float, np.ndarray, np.ndarray]", best)
        across = np.tensordot(weights, self._kernels[:, :, np.array(tried)[row]], 1)
        left = np.linalg.solve(factor, across.T)
        worth = left.T @ np.linalg.solve(factor, centred)
        prior = np.tensordot(weights, self._kernels, 1)
        at = np.array(tried)[row]
        offset = float(np.average(value - worth[at], weights=count))
        return Posterior(worth + offset, prior - left.T @ left)


def conditioned(covariance: "np.ndarray", number: int, noise: float) -> "np.ndarray":
    """The covariance of what is unknown once that one is asked."""
    column = covariance[:, number]
    return covariance - column[:, None] * column[None, :] / (column[number] + noise)


def _noise(
    known: "np.ndarray", asked: "np.ndarray", kernels: "np.ndarray", clusters: Sequence[Hashable]
) -> "np.ndarray | None":
    """The variances of a single score around worth and question, by kernel; None where nothing tells them."""
    import numpy as np
    from scipy.optimize import nnls

    if len(known) < 2 or known.shape[1] < 2:
        return None
    by_question = asked.sum(axis=0)
    use = by_question > 1
    if use.sum() < 2:
        return None
    known, asked = known[:, use], asked[:, use]
    left = np.where(asked, known - known.sum(axis=0) / by_question[use], 0.0)
    left -= np.where(asked, (left.sum(axis=1) / np.maximum(asked.sum(axis=1), 1))[:, None], 0.0)
    codes = cluster_codes([cluster for cluster, used in zip(clusters, use, strict=True) if used], left.shape[1])
    members = np.zeros((left.shape[1], codes.max() + 1))
    members[np.arange(len(codes)), codes] = 1.0
    sums = left @ members
    together = asked.astype(float) @ asked.T
    weight = np.sqrt(together)
    covariance = sums @ sums.T / np.maximum(together, 1.0)
    centre = np.eye(len(known)) - 1.0 / len(known)
    features = [(weight * (centre @ kernel @ centre)).ravel() for kernel in kernels]
    found, _ = nnls(np.array(features).T, (weight * covariance).ravel())
    found[2] = max(found[2], 1e-6)
    return found
