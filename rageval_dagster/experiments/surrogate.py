"""How good every configuration of a space seems, from the scores of those that were tried.

Configurations that share values are alike, and so are the accidents of their scores. Both are modelled by a Gaussian
process: a configuration's worth is a sum of effects of single values, of pairs of values, and of its own. Questions
are harder or easier for all, which takes no part in it.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rageval_dagster.experiments.spaces import Configurations
from rageval_dagster.statistics.intervals import cluster_codes

if TYPE_CHECKING:
    import numpy as np

SINGLE, PAIRS, OWN, NOISE = 0.6, 0.3, 0.1, 0.1
"""What is expected before any score: how much of the variance between configurations is of single values, of pairs, and
of each configuration alone; and how much noise there is beside it where each has a single score."""
DOUBT = 1.5
"""How far the logarithms of these may well be off."""
LEAST = 1e-6
"""Variances are at least so much: that of differences of .001."""
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
        pairs = [one * other for place, one in enumerate(alike) for other in alike[:place]]
        own = np.eye(len(space.all))
        # One for each parameter, one for all pairs, one for the configuration alone.
        self._kernels = np.array([*alike, sum(pairs) / len(pairs) if pairs else own, own])
        self._expected = np.array([*[SINGLE / max(1, len(alike))] * len(alike), PAIRS, OWN])

    def start(self, count: int, seed: int) -> list[int]:
        """So many configurations, each the one that tells most about all others; the first by the seed."""
        import numpy as np

        rng = np.random.default_rng(seed)
        covariance = np.tensordot(self._expected, self._kernels, 1)
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
        spread = float(means.var()) + LEAST
        at_pairs = kernels[:, row[:, None], row[None, :]]
        start = np.log(spread * self._expected)
        if noise is None:
            at_pairs, start = np.array([*at_pairs, np.eye(len(row))]), np.array([*start, math.log(spread * NOISE)])
            fixed = level + LEAST * np.eye(len(row))
        else:
            fixed = level + np.tensordot(noise, at_pairs, 1) * shared + LEAST * np.eye(len(row))
        centred = value - value.mean()
        weights = np.exp(_likeliest(start, at_pairs, fixed, centred))
        total = np.linalg.inv(fixed + np.tensordot(weights, at_pairs, 1))
        weights = weights[: len(self._kernels)]
        at = np.array(tried)[row]
        across = np.tensordot(weights, self._kernels[:, :, at], 1)
        worth = across @ total @ centred
        offset = float(np.average(value - worth[at], weights=count))
        unknown = np.tensordot(weights, self._kernels, 1) - across @ total @ across.T
        # Rounded: the last digits depend on the machine, and what is asked next on the smallest difference.
        return Posterior(np.round(worth + offset, 9), np.round(unknown, 12))


def _likeliest(start: "np.ndarray", kernels: "np.ndarray", fixed: "np.ndarray", values: "np.ndarray") -> "np.ndarray":
    """The logarithms of the kernels' weights that explain the values best, not far from `start`."""
    import numpy as np
    from scipy.optimize import minimize
    from threadpoolctl import threadpool_limits

    def cost(logs: np.ndarray) -> tuple[float, np.ndarray]:
        parts = np.exp(logs)[:, None, None] * kernels
        covariance = fixed + parts.sum(axis=0)
        inverse = np.linalg.inv(covariance)
        pull = inverse @ values
        slope = 0.5 * ((inverse - np.outer(pull, pull)) * parts).sum(axis=(1, 2))
        away = (logs - start) / DOUBT
        value = 0.5 * (float(values @ pull) + float(np.linalg.slogdet(covariance)[1]) + float(away @ away))
        return value, slope + away / DOUBT

    # Threads for matrices so small wait for each other longer than they work.
    with threadpool_limits(1, "blas"):
        bounds = list(zip(start - 4 * DOUBT, start + 4 * DOUBT, strict=True))
        return minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 30}).x


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
    found[-1] = max(found[-1], LEAST)
    return found
