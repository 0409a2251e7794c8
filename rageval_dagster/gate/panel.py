"""A panel of questions over nights: how far the level of all of them moved, although questions come and go.

The score of question q on night t is `a_q + L_t + w_qt + e_qt`: the question's own level, the night's level, a random
walk of the question and noise from night to night. The `a_q` are unknown and free, so that a question that joins tells
nothing about the level by itself, only by the nights on which it was asked together with others (equating of tests with
a chained panel). Both variances are fitted to the variogram of the paired differences, and the levels are estimated by
generalised least squares over all questions and nights (Kolen & Brennan 2014, ch. 4; Aitken 1936).
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

Night = Mapping[str, float | None]

NEAR_LAGS = 8
"""Every distance in nights up to here enters the variogram; farther ones grow by a quarter."""
LEAST_RATIO, LARGEST_RATIO = 2.0**-13, 8.0
DEFAULT_RATIO = 2.0**-4
"""Drift a night over noise, where too little was seen to fit either."""


@dataclass(frozen=True)
class Movement:
    """By how much the level moved between nights: the change and what each cluster of questions adds to its error.

    `questions` are how many tell of it, `linking` how many that were asked every night would tell as much, but no more
    than how many of equal weight do.
    Shapes: `errors` and `shares` are [clusters]. The errors sum to 0 in expectation, the shares (how much of what is
    known comes from the cluster) sum to 1.
    """

    change: float
    errors: "np.ndarray"
    shares: "np.ndarray"
    questions: int
    linking: float

    @property
    def turned(self) -> "Movement":
        """The same with falls as rises."""
        return replace(self, change=-self.change, errors=-self.errors)

    @property
    def clusters(self) -> float:
        """How many clusters of equal weight would tell as much."""
        return 1.0 / float(self.shares @ self.shares)

    @property
    def variance(self) -> float:
        """Of the change, by clusters (Liang & Zeger 1986), with the correction for few of them."""
        few = self.clusters / (self.clusters - 1.0) if self.clusters > 1.0 + 1e-9 else 1.0
        return float(self.errors @ self.errors) * few


class Panel:
    """Scores by question and night. `see` takes the nights in order, `moved` tells of those that were seen."""

    def __init__(self, nights: Sequence[Night], clusters: Mapping[str, Hashable] | None = None) -> None:
        import numpy as np

        questions = dict.fromkeys(name for night in nights for name, score in night.items() if score is not None)
        rows = {question: row for row, question in enumerate(questions)}
        self.scores = np.full((len(rows), len(nights)), np.nan)
        for column, night in enumerate(nights):
            for question, score in night.items():
                if score is not None:
                    self.scores[rows[question], column] = score
        codes: dict[Hashable, int] = {}
        self._cluster = np.array(
            [codes.setdefault(cluster_key(question, clusters), len(codes)) for question in rows], dtype=int
        )
        self._clusters = len(codes)
        self._asked = ~np.isnan(self.scores)
        self._seen = 0
        self._squares: dict[int, float] = {}
        self._pairs: dict[int, int] = {}

    def see(self) -> None:
        """Takes the next night into account."""
        night = self._seen
        self._seen += 1
        asked = self._asked[:, night].nonzero()[0]
        scores = self.scores[asked, night]
        for lag in _lags(night):
            both = self._asked[asked, night - lag]
            differences = scores[both] - self.scores[asked[both], night - lag]
            if differences.size > 1:
                deviations = differences - differences.mean()
                self._squares[lag] = self._squares.get(lag, 0.0) + float(deviations @ deviations)
                self._pairs[lag] = self._pairs.get(lag, 0) + differences.size - 1

    def variances(self) -> tuple[float, float] | None:
        """(noise of a question's score from night to night, growth of its drift a night); None: too little was seen.

        The mean square of a question's difference over `lag` nights is 2 noise + lag drift: a weighted line.
        """
        import numpy as np

        if len(self._pairs) < 3:
            return None
        lags = np.array(sorted(self._pairs), dtype=float)
        pairs = np.array([self._pairs[int(lag)] for lag in lags], dtype=float)
        means = np.array([self._squares[int(lag)] for lag in lags]) / pairs
        if means.max() < 1e-12:
            return 0.0, 0.0
        design = np.stack([np.full(lags.size, 2.0), lags], axis=1)
        fitted = np.ones(lags.size)
        noise = drift = 0.0
        for _ in range(3):
            # A mean of squares varies as its square, and pairs of nights that overlap tell much the same.
            weights = pairs / lags / fitted**2
            noise, drift = np.linalg.lstsq(design * np.sqrt(weights)[:, None], means * np.sqrt(weights), rcond=None)[0]
            noise, drift = max(float(noise), 0.0), max(float(drift), 0.0)
            fitted = np.maximum(design @ np.array([noise, drift]), 1e-3 * means.max())
        return noise, drift

    def step(self, night: int) -> Movement | None:
        """From the night before, over the questions asked on both; None without any."""
        import numpy as np

        both = self._asked[:, night] & self._asked[:, night - 1]
        count = int(both.sum())
        if not count:
            return None
        differences = self.scores[both, night] - self.scores[both, night - 1]
        change, clusters = float(differences.mean()), self._cluster[both]
        errors = np.bincount(clusters, (differences - change) / count, self._clusters)
        shares = np.bincount(clusters, minlength=self._clusters) / count
        return Movement(change, errors, shares, count, float(count))

    def moved(self, ratio: float, *contrasts: Mapping[int, float]) -> list[Movement | None]:
        """What each contrast of levels ({night: weight} that sums to 0) is; None where no chain of questions links it.

        Args:
            ratio: drift a night over noise, as `drift_ratio` gives it.
        """
        import numpy as np
        from scipy.sparse.csgraph import connected_components

        nights = self._seen
        information, sums = np.zeros((nights, nights)), np.zeros(nights)
        linked = np.eye(nights, dtype=bool)
        parts = []
        for (first, pattern), questions in self._by_nights().items():
            weight = _information(pattern, ratio)
            at = first + np.flatnonzero(np.frombuffer(pattern, dtype=bool))
            scores = self.scores[questions][:, at]
            information[np.ix_(at, at)] += len(questions) * weight
            sums[at] += weight @ scores.sum(axis=0)
            linked[np.ix_(at, at)] = True
            parts.append((questions, at, weight, scores))
        # In each set of nights that questions link, the level of the first is the origin.
        _, sets = connected_components(linked, directed=False)
        free = np.setdiff1d(np.arange(nights), np.unique(sets, return_index=True)[1])
        wanted: list[np.ndarray | None] = []
        for contrast in contrasts:
            weights = np.zeros(nights)
            weights[list(contrast)] = list(contrast.values())
            wanted.append(weights if len(set(sets[list(contrast)])) == 1 else None)
        right = np.stack([sums, *(vector for vector in wanted if vector is not None)], axis=1)
        solved = np.zeros_like(right)
        if free.size:
            solved[free] = np.linalg.solve(information[np.ix_(free, free)], right[free])
        levels, columns = solved[:, 0], iter(solved[:, 1:].T)
        # The covariance of one question's scores, if it is asked every night.
        always = np.eye(nights) + ratio * np.minimum.outer(np.arange(nights), np.arange(nights))
        return [
            None
            if vector is None
            else self._movement(vector, next(columns), levels, parts, float(vector @ always @ vector))
            for vector in wanted
        ]

    def _movement(
        self, contrast: "np.ndarray", solution: "np.ndarray", levels: "np.ndarray", parts: list, alone: float
    ) -> Movement:
        """`alone` is the variance of the contrast from one question that is asked every night."""
        import numpy as np

        errors, shares = np.zeros(self._clusters), np.zeros(self._clusters)
        total, told, squares = float(contrast @ solution), 0, 0.0
        for questions, at, weight, scores in parts:
            influence = weight @ solution[at]
            told += len(questions) if influence.any() else 0
            clusters = self._cluster[questions]
            errors += np.bincount(clusters, (scores - levels[at]) @ influence, self._clusters)
            if total > 0.0:
                share = float(solution[at] @ influence) / total
                shares += np.bincount(clusters, np.full(len(questions), share), self._clusters)
                squares += len(questions) * share**2
        # Many nights make a link of few questions as sure as that of many, but not as telling of all the others.
        linking = min(alone / total, 1.0 / squares) if squares > 0.0 else 0.0
        return Movement(float(contrast @ levels), errors, shares, told, linking)

    def _by_nights(self) -> dict[tuple[int, bytes], list[int]]:
        """The questions that were asked at least twice, by the first night and on which nights from there on."""
        import numpy as np

        asked = self._asked[:, : self._seen]
        often = np.flatnonzero(asked.sum(axis=1) > 1)
        firsts = asked[often].argmax(axis=1)
        ends = self._seen - asked[often, ::-1].argmax(axis=1)
        groups: dict[tuple[int, bytes], list[int]] = {}
        for question, first, end in zip(often, firsts, ends, strict=True):
            groups.setdefault((int(first), asked[question, first:end].tobytes()), []).append(int(question))
        return groups


def drift_ratio(variances: tuple[float, float] | None) -> float:
    """Drift a night over noise, in steps of two, so that few weights have to be computed."""
    if variances is None or max(variances) <= 0.0:
        return DEFAULT_RATIO
    noise, drift = variances
    ratio = drift / noise if noise > 0.0 else LARGEST_RATIO
    return 2.0 ** round(math.log2(min(max(ratio, LEAST_RATIO), LARGEST_RATIO)))


@lru_cache(maxsize=4096)
def _information(pattern: bytes, ratio: float) -> "np.ndarray":
    """[nights asked, nights asked]: what a question tells of the levels of the nights on which it was asked.

    The inverse of noise and random walk, with the question's own level taken out. The scale does not matter.
    """
    import numpy as np
    from scipy.linalg import solveh_banded

    at = np.flatnonzero(np.frombuffer(pattern, dtype=bool)).astype(float)
    # The inverse of a random walk's covariance has three diagonals, and (I + r M)^-1 = I - (I + M^-1 / r)^-1. That the
    # walk starts a night early makes no difference: the question's own level is free.
    gaps = 1.0 / np.diff(at, prepend=-1.0) / ratio
    banded = np.zeros((2, at.size))
    banded[0, 1:] = -gaps[1:]
    banded[1] = 1.0 + gaps
    banded[1, :-1] += gaps[1:]
    precision = np.eye(at.size) - solveh_banded(banded, np.eye(at.size))
    row = precision.sum(axis=1)
    return precision - np.outer(row, row) / row.sum()


def _lags(night: int) -> list[int]:
    found, lag = [], 1
    while lag <= night:
        found.append(lag)
        lag = lag + 1 if lag < NEAR_LAGS else math.ceil(lag * 1.25)
    return found


def cluster_key(question: str, clusters: Mapping[str, Hashable] | None) -> Hashable:
    """What a question fails together with; one without a cluster stands alone, whatever the others are called."""
    cluster = (clusters or {}).get(question)
    return ("question", question) if cluster is None else ("cluster", cluster)
