"""Means that people's labels of a few answers correct, where a judge scored all of them.

Prediction-powered inference with power tuning (Angelopoulos, Duchi & Zrnic 2023, "PPI++"), by strata of the draw
(Fisch et al. 2024) and by clusters. A judge that tells nothing gets weight 0: the interval is then that of the labels.
"""

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rageval_dagster.statistics.intervals import cluster_codes

if TYPE_CHECKING:
    import numpy as np

LEAST_LABELS = 5
"""With fewer there is no corrected mean."""


@dataclass(frozen=True)
class Corrected:
    """A mean (or a difference of means) that labels correct, with its confidence interval.

    `judge` is the judge's own, `bias` by how much that is above the corrected one, `weight` how much the judge counts
    (0: not at all), `gain` the width of the labels' own interval over this one. `labels` were used. All but `judge` and
    `labels` are None where there are too few labels; `lacking` says so, and `needed` is how many more there must be at
    least.
    """

    judge: float
    labels: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    gain: float | None = None
    bias: float | None = None
    weight: float | None = None
    lacking: str | None = None
    needed: int | None = None


def corrected_mean(
    labels: Mapping[str, float],
    judge: Mapping[str, float],
    strata: Mapping[str, Hashable] | None = None,
    probabilities: Mapping[str, float] | None = None,
    clusters: Mapping[str, Hashable] | None = None,
    confidence: float = 0.95,
) -> Corrected:
    """The mean that people would give all answers, from their labels of a few and the judge's scores of all.

    The interval is about further answers of the same kind, as that of `mean_interval` is.

    Args:
        labels: {id: value in [0, 1]} of the answers that people labelled; ids without a judge's score are left out.
        judge: {id: score in [0, 1]} of all answers.
        strata: {id: what the answers were divided by before they were drawn}; each needs labels of its own.
        probabilities: {id: chance with which it was drawn, in (0, 1]}, where it differs within a stratum.
        clusters: {id: what it stands and falls with, such as a document}; those left out stand alone.

    Raises ValueError for no judge's score, for values outside their range, and for a confidence outside (0, 1).
    """
    _check(confidence, {"labels": labels, "judge": judge})
    return _Drawn.of(labels, judge, strata, probabilities, clusters).corrected(confidence, 0.0, 1.0)


def corrected_difference(
    labels_before: Mapping[str, float],
    judge_before: Mapping[str, float],
    labels_after: Mapping[str, float],
    judge_after: Mapping[str, float],
    strata: Mapping[str, Hashable] | None = None,
    probabilities: Mapping[str, float] | None = None,
    clusters: Mapping[str, Hashable] | None = None,
    confidence: float = 0.95,
    unchanged: Collection[str] = (),
) -> Corrected:
    """By how much people's mean changed between two runs over the same questions, `after` minus `before`, paired.

    Only answers labelled in both runs tell of it, and those in `unchanged`, whose answer and contexts are the very
    same, so that no label could differ. What the judge's scores moved there is its own drift, which is in `bias`.
    Labels that were kept from before are of answers that stayed as they were: where no strata are given, answers whose
    judge's score changed are a stratum of their own, so that without a label among them there is no corrected
    difference.

    Args and errors as `corrected_mean` has them; ids that both runs have are the questions compared.
    """
    tables = {
        "labels_before": labels_before,
        "judge_before": judge_before,
        "labels_after": labels_after,
        "judge_after": judge_after,
    }
    _check(confidence, tables)
    judge = {name: judge_after[name] - before for name, before in judge_before.items() if name in judge_after}
    same = set(unchanged)
    labels = {name: labels_after[name] - value for name, value in labels_before.items() if name in labels_after}
    labels |= dict.fromkeys(same & judge.keys(), 0.0)
    if strata is None:
        strata = {name: "changed" if moved else "same score" for name, moved in judge.items()}
    drawn = _Drawn.of(labels, judge, strata, probabilities, clusters, known=same)
    return drawn.corrected(confidence, -1.0, 1.0)


def _check(confidence: float, tables: Mapping[str, Mapping[str, float]]) -> None:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"the confidence of an interval lies between 0 and 1, not {confidence!r}")
    for table, values in tables.items():
        for name, value in values.items():
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{table}[{name!r}] is {value!r}: values lie in [0, 1]")


@dataclass(frozen=True)
class _Drawn:
    """All answers, and the labelled ones among them. Shapes: [answers], but `at` and `labels`, which are [labelled].

    `at` are the positions of the labelled; `weights` those by which each counts in its stratum. `certain` are the
    answers whose label is known without a draw.
    """

    judge: "np.ndarray"
    strata: "np.ndarray"
    clusters: "np.ndarray"
    certain: "np.ndarray"
    at: "np.ndarray"
    labels: "np.ndarray"
    weights: "np.ndarray"

    @classmethod
    def of(
        cls,
        labels: Mapping[str, float],
        judge: Mapping[str, float],
        strata: Mapping[str, Hashable] | None,
        probabilities: Mapping[str, float] | None,
        clusters: Mapping[str, Hashable] | None,
        known: Collection[str] = (),
    ) -> "_Drawn":
        import numpy as np

        if not judge:
            raise ValueError("there is no answer that the judge scored")
        names = sorted(judge)
        at = np.array([place for place, name in enumerate(names) if name in labels], dtype=int)
        chances = [(probabilities or {}).get(names[place], 1.0) for place in at]
        if not all(0.0 < chance <= 1.0 for chance in chances):
            raise ValueError("chances of being drawn lie above 0, and up to 1")
        groups = [("known",) if name in known else ("drawn", (strata or {}).get(name)) for name in names]
        return cls(
            judge=np.array([judge[name] for name in names]),
            strata=cluster_codes(groups, len(names)),
            clusters=cluster_codes([(clusters or {}).get(name) for name in names], len(names)),
            certain=np.array([name in known for name in names]),
            at=at,
            labels=np.array([labels[names[place]] for place in at]),
            weights=1.0 / np.array(chances),
        )

    def corrected(self, confidence: float, least: float, most: float) -> Corrected:
        import numpy as np

        judged, count = float(self.judge.mean()), self.at.size
        drawn = int((~self.certain[self.at]).sum())
        without = np.setdiff1d(self.strata, self.strata[self.at]).size
        needed = max(without, LEAST_LABELS - drawn)
        if without:
            groups = "1 group of similar answers has" if without == 1 else f"{without} groups of similar answers have"
            return Corrected(judged, count, lacking=f"{groups} no label yet", needed=needed)
        if drawn < LEAST_LABELS and not self.certain.all():
            lacking = f"{drawn} labels are too few: at least {LEAST_LABELS} are needed"
            return Corrected(judged, count, lacking=lacking, needed=needed)
        weight = self._tuned()
        mean, half = self.estimate(weight, confidence)
        _, alone = self._of_labels_alone().estimate(0.0, confidence)
        mean = min(max(mean, least), most)
        return Corrected(
            judge=judged,
            labels=count,
            mean=mean,
            low=max(mean - half, least),
            high=min(mean + half, most),
            gain=alone / half if half > 0.0 else 1.0,
            bias=judged - mean,
            weight=weight,
        )

    def _tuned(self) -> float:
        """The judge's weight that makes the variance smallest, 0 where it tells nothing.

        At most all of PPI++'s weight, which counts the judge's scores of those without a label only.
        """
        shared = varies = 0.0
        size = self.judge.size
        for of_all, of_labelled in self._by_stratum():
            if self.certain[of_all].all():
                continue
            share, n = of_all.size / size, of_labelled.size
            labels, scores = self.labels[of_labelled], self.judge[self.at[of_labelled]]
            both = float(((labels - labels.mean()) * (scores - scores.mean())).mean())
            spread = float(self.judge[of_all].var())
            shared += share**2 * both / n
            varies += share**2 * spread / n
        if varies <= 0.0:
            return 0.0
        unlabelled = size - self.at.size
        return min(max(shared / varies, 0.0), size / unlabelled if unlabelled else 1.0)

    def _of_labels_alone(self) -> "_Drawn":
        """The same draw without what the strata know of the answers that nobody labelled."""
        import numpy as np

        weights = self.weights.copy()
        for of_all, of_labelled in self._by_stratum():
            weights[of_labelled] *= of_all.size / weights[of_labelled].sum()
        return replace(self, strata=self.certain.astype(np.int64), weights=weights)

    def estimate(self, weight: float, confidence: float) -> tuple[float, float]:
        """The mean, and half the width of its interval."""
        import numpy as np
        from scipy.stats import t

        size = self.judge.size
        residuals = self.labels - weight * self.judge[self.at]
        values, influence = np.zeros(size), np.zeros(size)
        least = 0.0
        parameters = 1 if weight else 0
        pooled = float(np.average(residuals, weights=self.weights))
        for of_all, of_labelled in self._by_stratum():
            shares = self.weights[of_labelled] / self.weights[of_labelled].sum()
            level = float(shares @ residuals[of_labelled])
            values[of_all] = weight * self.judge[of_all] + level
            if self.certain[of_all].all():
                values[of_all] = 0.0
                continue
            parameters += 1
            n, share = of_labelled.size, of_all.size / size
            moved = residuals[of_labelled] - (level if n > 1 else pooled)
            influence[self.at[of_labelled]] += share * shares * moved
            # Few labels that all agree do not show that all would: they vary at least as if two more differed.
            rare = 2.0 / (n + 4.0)
            lacking = rare * (1.0 - rare) / n - float((shares * moved) @ (shares * moved))
            least += share**2 * max(lacking, 0.0)
        mean = float(values.mean())
        influence += (values - mean) / size
        sums = np.bincount(self.clusters, influence)
        drawn = self.at[~self.certain[self.at]]
        groups = np.unique(self.clusters[drawn]).size if drawn.size else size
        freedom = max(groups - parameters, 1)
        variance = float(sums @ sums) * max(groups, 2) / freedom + least
        return mean, float(t.ppf(0.5 + confidence / 2.0, freedom)) * math.sqrt(variance)

    def _by_stratum(self) -> "list[tuple[np.ndarray, np.ndarray]]":
        """Of each stratum the positions of all its answers, and those of its labels among the labelled."""
        import numpy as np

        of_labelled = self.strata[self.at]
        return [(np.flatnonzero(self.strata == code), np.flatnonzero(of_labelled == code)) for code in set(self.strata)]
