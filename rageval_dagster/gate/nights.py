"""The verdict: whether a metric has fallen since its reference, night by night, from nothing but scores.

`benchmarks/gate.py` simulates how sure it is.
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

from rageval_dagster.gate.panel import Movement, Night, Panel, cluster_key, drift_ratio
from rageval_dagster.statistics.comparisons import sign_flip_p_value

if TYPE_CHECKING:
    import numpy as np

Word = Literal["passed", "regressed", "unclear"]
Evidence = Literal["fall", "confirmed", "lasting", "before"]
"""What a regression is sure by: tonight's fall, its confirmed questions, the mean of the last nights, or the night
before, since which nothing changed."""

LOOKS = 90
"""Nights over which at most one client in twenty has a false alarm."""
LASTING = 4
"""Nights whose mean tells a fall that lasts; it is less noisy than one night's."""
CHANCE = 0.1
"""Passed is also what chance alone exceeds in one look of ten."""
POWER = 0.8
_NORMAL = NormalDist()
_ROUNDING = 1e-9
LEAST_QUESTIONS = 5
"""With fewer a night cannot pass: even if all of them failed, no test at 5 % would be sure (2^-4 is .06)."""
LEAST_LINKED = 0.2
"""Of a night's questions, as many as must link it with the reference for it to pass: what an anchor panel is."""
_CONFIRMED_SHARE = 0.9
"""Of a night's own error rate, the part that confirmed questions get where there are any."""


@dataclass(frozen=True)
class Variances:
    """How scores move while nothing changes: of a question from night to night, its drift a night, the whole night.

    Each is a variance of scores in [0, 1]. As a prior they weigh as much as `nights` nights of the client's own.
    """

    noise: float = 0.02
    drift: float = 0.001
    shift: float = 2.5e-5
    nights: float = 8.0


@dataclass(frozen=True)
class NightVerdict:
    """A metric on one night against the reference, the first night.

    `fall` is by how much its level fell, over all questions that link the two nights, with its 95 % interval `low` to
    `high`; `lasting` is the mean fall of the last nights. All are None where too few questions lead back to the
    reference. `resolution` is the smallest fall that would be called a regression in 80 % of such nights; None where
    none would. `variances` are as estimated up to this night. `better` is whether it rose as surely as a regression
    falls, `suspected` whether a single look would have called it a regression. `sure_by` is None but for a regression;
    the interval may reach across 0 there, since it is two-sided and of tonight's fall alone.
    """

    decision: Word
    fall: float | None
    low: float | None
    high: float | None
    lasting: float | None
    resolution: float | None
    variances: Variances
    better: bool = False
    suspected: bool = False
    sure_by: Evidence | None = None


def verdicts(
    nights: Sequence[Night],
    clusters: Mapping[str, Hashable] | None = None,
    confirmed: Sequence[Mapping[str, int] | None] | None = None,
    unchanged: Sequence[bool] | None = None,
    prior: Variances | None = None,
    tolerance: float = 0.02,
    alpha: float = 0.05,
    looks: int = LOOKS,
) -> list[NightVerdict]:
    """The verdict on each night, told by the nights up to it: one metric of which more is better.

    Regressed: the fall is surely beyond the tolerance. Passed: it is within the tolerance, or no more than chance does
    in one look of ten, and where no fall would show, no more than one question's worth. Unclear: all else, and where
    too few questions link the night with the reference, or fewer than five. A night with the very scores of the night
    before gets its verdict: there was nothing to look at.

    Two things can be sure: tonight's fall, unless nothing changed since the night before, and the mean fall of the last
    four nights, which finds slow decay. Where nothing changed, a regression stands as long as a single look is sure of
    tonight's fall. Where `confirmed` questions are given for a night, the exact test of their documents stands beside
    tonight's fall.

    Args:
        nights: {question: score in [0, 1], None where not scored}, oldest first; the first is the reference.
        clusters: {question: what it was written from}; those that stand alone may be left out.
        confirmed: for each night the questions that newly fail (-1) or newly pass (+1), each asked again until it is
            sure; None where nobody asked.
        unchanged: for each night whether no version changed since the night before: what moves then is noise. None
            where that is not known: all that moves is, but for the two largest steps (a fall and its recovery).
        prior: variances of other clients, for the first nights.
        tolerance: a fall up to here does not count.
        alpha: the chance of a false alarm over all looks; divide it where several metrics are looked at.
        looks: how often the reference is looked at; 1 for a single decision.

    Raises ValueError for an alpha outside (0, 1), fewer looks than one, or lists of different lengths.
    """
    return Course(nights, clusters, confirmed, unchanged, prior, tolerance, alpha, looks).verdicts()


@dataclass(frozen=True)
class Course:
    """The nights of one metric, as `verdicts` takes them."""

    nights: Sequence[Night]
    clusters: Mapping[str, Hashable] | None = None
    confirmed: Sequence[Mapping[str, int] | None] | None = None
    unchanged: Sequence[bool] | None = None
    prior: Variances | None = None
    tolerance: float = 0.02
    alpha: float = 0.05
    looks: int = LOOKS

    def __post_init__(self) -> None:
        for column in (self.confirmed, self.unchanged):
            if column is not None and len(column) != len(self.nights):
                raise ValueError(f"{len(self.nights)} nights need {len(self.nights)} entries, not {len(column)}")
        _ = self._levels  # refuses what is no alpha, and no number of looks

    def verdicts(self) -> list[NightVerdict]:
        """The verdict on each night, from the first on."""
        return self._between(0, len(self.nights) - 1)

    def last(self) -> NightVerdict:
        """The last of the verdicts, without the work for the others; raises ValueError where there is no night."""
        if not self.nights:
            raise ValueError("there is no night to judge")
        last = len(self.nights) - 1
        while last > 1 and self._is_as_before(last):
            last -= 1
        [found] = self._between(last, last)
        if found.decision == "regressed" or not found.suspected or not self._is_still(last):
            return found
        changed = last  # a regression of the nights before would stand
        while changed > 1 and (self._is_still(changed) or self._is_as_before(changed)):
            changed -= 1
        return self._between(changed, last)[-1]

    def _between(self, first: int, last: int) -> list[NightVerdict]:
        """The verdicts on the nights from one to another, the first as though no night before were a regression."""
        panel = Panel(self.nights, self.clusters)
        spread = _Spread(self.prior or Variances(), robust=self.unchanged is None)
        found: list[NightVerdict] = []
        for night in range(last + 1):
            panel.see()
            if night == 0:
                start = NightVerdict("passed", 0.0, 0.0, 0.0, 0.0, None, spread.variances(None))
                found += [start] if first == 0 else []
                continue
            if night >= first:
                same = night > 1 and found and self._is_as_before(night)
                regressed = bool(found) and found[-1].decision == "regressed"
                found.append(found[-1] if same else self._judged(night, panel, spread, regressed))
            # What the night says of noise.
            if self._is_as_before(night):
                spread.add(None)
            elif self.unchanged is None or self.unchanged[night]:
                step = panel.step(night)
                if step is not None:
                    spread.add(step)
        return found

    @cached_property
    def _levels(self) -> "_Levels":
        return _Levels(self.alpha, self.looks)

    @cached_property
    def _scored(self) -> list[dict[str, float]]:
        return [{name: score for name, score in night.items() if score is not None} for night in self.nights]

    def _is_as_before(self, night: int) -> bool:
        """Whether a night has the very scores of the night before."""
        return self._scored[night] == self._scored[night - 1]

    def _is_as_at_first(self, night: int) -> bool:
        """Whether each question of a night was in the reference, and has the very score that it had there."""
        return self._scored[night].items() <= self._scored[0].items()

    def _is_still(self, night: int) -> bool:
        """Whether nothing is known to have changed since the night before, so that it takes no look."""
        return self.looks > 1 and self.unchanged is not None and self.unchanged[night]

    def _judged(self, night: int, panel: Panel, spread: "_Spread", regressed: bool) -> NightVerdict:
        """The verdict on a night; `regressed` is whether the night before was."""
        known = panel.variances()
        recent = range(max(1, night - LASTING + 1), night + 1)
        tonight, lasting = panel.moved(
            drift_ratio(known or spread.start),
            {0: -1.0, night: 1.0},
            {0: -1.0, **dict.fromkeys(recent, 1.0 / len(recent))},
        )
        variances = spread.variances(known)
        if tonight is None:
            return NightVerdict("unclear", None, None, None, None, None, variances)
        if self._is_as_at_first(night):
            # Whatever happened in between: each question that is asked scores what it did.
            tonight = replace(tonight, change=0.0)
        still, questions = self._is_still(night), len(self._scored[night])
        chances = 1.0, 1.0, 1.0
        if self.confirmed is not None and (confirmed := self.confirmed[night]) is not None:
            chances = confirmed_p_values(confirmed, self.clusters, questions, self.tolerance)
        moved = _Moved(tonight, lasting, len(recent), spread.shift, self.tolerance, *chances)
        sure_by = moved.sure_by(self._levels, still)
        suspected = sure_by is not None or moved.sure_by(_Levels(self.alpha, 1), False) is not None
        if sure_by is None and still and regressed and suspected:
            sure_by = "before"
        found = moved.verdict(sure_by, self._levels, variances)
        if found.decision == "passed" and tonight.linking < LEAST_LINKED * questions - _ROUNDING:
            return NightVerdict("unclear", None, None, None, None, None, variances)
        # Where no fall of any size would show, more than one question's worth is not called none.
        first = self._scored[0]
        most = sum(first.values()) / len(first) if first else 1.0
        is_unseen = found.resolution is None or found.resolution > most
        is_blind = moved.is_beyond and is_unseen and moved.fall > 1.0 / tonight.questions + _ROUNDING
        if found.decision == "passed" and (tonight.questions < LEAST_QUESTIONS or is_blind):
            found = replace(found, decision="unclear")
        better = moved.turned.sure_by(self._levels, still) is not None
        return replace(found, better=better, suspected=suspected)


def confirmed_p_values(
    confirmed: Mapping[str, int], clusters: Mapping[str, Hashable] | None, questions: int, tolerance: float
) -> tuple[float, float, float]:
    """Three one-sided p values of confirmed new failures against new passes, beyond the tolerance.

    The first is of the sign test of the documents' net changes, each as likely one as the other; the second the chance
    of so many failing documents where those that newly pass and the tolerance account for as many as expected
    (Poisson). Questions of one document are one event there. The third is of the sign test of the questions: of these
    themselves, whatever their documents say of others. Any tolerance covers one question.
    """
    import numpy as np
    from scipy.stats import binom, poisson

    net: Counter[Hashable] = Counter()
    for question, sign in confirmed.items():
        net[cluster_key(question, clusters)] -= sign
    fallen = [fall for fall in net.values() if fall > 0]
    lost = sum(net.values())
    tolerated = max(tolerance * questions, 1.0) if tolerance > 0.0 else 0.0
    if lost <= tolerated + _ROUNDING or not fallen:
        return 1.0, 1.0, 1.0
    risen = sum(fall < 0 for fall in net.values())
    expected = risen + tolerance * questions * len(fallen) / sum(fallen)
    by_signs = sign_flip_p_value(np.array(list(net.values()), dtype=float)) / 2.0
    failing = sum(sign < 0 for sign in confirmed.values())
    by_questions = float(binom.sf(failing - 1, len(confirmed), 0.5))
    return by_signs, float(poisson.sf(len(fallen) - 1, expected)), by_questions


@dataclass(frozen=True)
class _Moved:
    """Tonight's fall and the one of the last nights, with the noise of whole nights.

    `by_signs`, `by_count` and `by_questions` are the chances of tonight's confirmed questions (`confirmed_p_values`).
    """

    tonight: Movement
    lasting: Movement | None
    nights: int
    shift: float
    tolerance: float
    by_signs: float = 1.0
    by_count: float = 1.0
    by_questions: float = 1.0

    @property
    def fall(self) -> float:
        return -self.tonight.change

    @property
    def is_beyond(self) -> bool:
        return self.fall > self.tolerance + _ROUNDING

    @property
    def turned(self) -> "_Moved":
        """The same with falls as rises, of which no question is confirmed."""
        lasting = self.lasting and self.lasting.turned
        return replace(self, tonight=self.tonight.turned, lasting=lasting, by_signs=1.0, by_count=1.0, by_questions=1.0)

    def sure_by(self, levels: "_Levels", still: bool) -> Evidence | None:
        """What makes it a regression: tonight's fall, its confirmed questions, or the lasting fall; None: nothing.

        A fall that lasted and is over tonight is none.
        """
        if not self.is_beyond:
            return None
        level = levels.tonight
        # The exact test is the dearer one.
        if not still and self._p_value(self.tonight, 2.0) <= level and self._exact_p_value() <= level:
            return "fall"
        if max(self.by_signs, self.by_count) <= _CONFIRMED_SHARE * level:
            return "confirmed"
        if self.lasting is None or self.nights < LASTING:
            return None
        return "lasting" if self._p_value(self.lasting, 1.0 + 1.0 / LASTING) <= levels.lasting else None

    def verdict(self, sure_by: Evidence | None, levels: "_Levels", variances: Variances) -> NightVerdict:
        word: Word = "regressed" if sure_by else "unclear" if self.is_beyond and not self._may_be_chance() else "passed"
        # One question more or less could have changed: no interval has width 0.
        half = 1.96 * math.sqrt(self._variance(self.tonight, 2.0) + 1.0 / self.tonight.questions**2)
        fall = _clipped(self.fall)  # levels that many questions bridge may add up to more than a score can fall
        return NightVerdict(
            decision=word,
            fall=fall,
            low=_clipped(fall - half),
            high=_clipped(fall + half),
            lasting=None if self.lasting is None else _clipped(-self.lasting.change),
            resolution=self._resolution(levels.tonight),
            variances=variances,
            sure_by=sure_by,
        )

    def _variance(self, moved: Movement, nights: float) -> float:
        return moved.variance + nights * self.shift

    def _p_value(self, moved: Movement, nights: float) -> float:
        """That the fall exceeds the tolerance so far by chance; never below that of all clusters falling alike."""
        beyond = -moved.change - self.tolerance
        if beyond <= _ROUNDING:
            return 1.0
        variance = self._variance(moved, nights)
        chance = _NORMAL.cdf(-beyond / math.sqrt(variance)) if variance > 0.0 else 0.0
        return max(chance, 2.0 ** -min(moved.clusters, 1000.0))

    def _exact_p_value(self) -> float:
        """The one-sided p value of any fall, where each cluster's part could as well have the other sign."""
        return sign_flip_p_value(self._parts) / 2.0 if self.fall > 0.0 else 1.0

    @property
    def _parts(self) -> "np.ndarray":
        """[clusters]: what each adds to tonight's fall."""
        return self.tonight.shares * self.fall - self.tonight.errors

    def _may_be_chance(self) -> bool:
        if 2.0**-self.tonight.clusters > CHANCE:  # so few clusters that whatever they do may be chance
            return self.fall <= 1.0 / self.tonight.questions + _ROUNDING
        # What fails each time is no noise, though its signs alone may be chance, or its documents too few to tell.
        if min(self.by_count, self.by_questions) <= CHANCE:
            return False
        spread = math.sqrt(float(self._parts @ self._parts) + 2.0 * self.shift)
        return _NORMAL.cdf(-self.fall / spread) > CHANCE or self._exact_p_value() > CHANCE

    def _resolution(self, level: float) -> float | None:
        """The smallest fall D that tonight's test finds with 80 % power, if single clusters fail altogether."""
        if 2.0**-self.tonight.clusters > level:
            return None
        needed, noise = -_NORMAL.inv_cdf(level) + _NORMAL.inv_cdf(POWER), self._variance(self.tonight, 2.0)
        cluster = 1.0 / self.tonight.clusters
        # (D - tolerance)^2 = needed^2 (noise + D cluster)
        half = needed**2 * cluster / 2.0
        fall = self.tolerance + half + math.sqrt(half**2 + needed**2 * (noise + self.tolerance * cluster))
        return _clipped(fall) if fall < 1.0 else None


class _Levels:
    """One-sided levels of a look: of tonight's fall (and its confirmed questions), and of the lasting fall.

    For a single look all of alpha is tonight's. Over many looks tonight's fall gets half of it and the lasting fall all
    of it, with which alpha is kept: they mostly alarm together, and the last nights overlap from look to look, which is
    not counted (`benchmarks/gate.py` shows the false alarms).
    """

    def __init__(self, alpha: float, looks: int) -> None:
        if not 0.0 < alpha < 1.0 or looks < 1:
            raise ValueError("alpha lies in (0, 1), and there is at least one look")
        self.tonight, self.lasting = alpha, 0.0
        if looks > 1:
            self.tonight = level_of_a_look(alpha / 2.0, looks, 0.5)
            self.lasting = level_of_a_look(alpha, looks, 1.0 / (1.0 + 1.0 / LASTING))


@lru_cache(maxsize=256)
def level_of_a_look(alpha: float, looks: int, shared: float) -> float:
    """The one-sided level of each of `looks` looks at one reference, so that alpha holds for all of them.

    All looks share the reference, so that their statistics correlate by `shared`, the part of the variance that is the
    reference's (Dunnett 1955, for infinitely many degrees of freedom).
    """
    # Midpoints of 2,000 equally likely values of the reference's own deviation.
    reference = [_NORMAL.inv_cdf((number + 0.5) / 2000) for number in range(2000)]
    low, high = 0.0, 12.0
    for _ in range(60):
        bound = (low + high) / 2.0
        stays = math.fsum(
            _NORMAL.cdf((bound + math.sqrt(shared) * z) / math.sqrt(1.0 - shared)) ** looks for z in reference
        )
        low, high = (bound, high) if 1.0 - stays / len(reference) > alpha else (low, bound)
    return 1.0 - _NORMAL.cdf(high)


class _Spread:
    """The variance of whole nights: what the level moves from night to night beyond what the questions account for."""

    def __init__(self, prior: Variances, robust: bool) -> None:
        self._prior = prior
        self._robust = robust
        self._excess: list[float] = []

    @property
    def start(self) -> tuple[float, float]:
        """Noise and drift of the prior."""
        return self._prior.noise, self._prior.drift

    @property
    def shift(self) -> float:
        excess = self._excess
        if self._robust:
            # Some nights may have been changed: a fall and its recovery are left out, or a tenth where that is less.
            excess = sorted(excess)[: len(excess) - min(math.ceil(len(excess) / 10), 2)]
        total = self._prior.nights * 2.0 * self._prior.shift + math.fsum(excess)
        return max(0.0, total / (self._prior.nights + len(excess)) / 2.0)

    def add(self, step: Movement | None) -> None:
        """A night's step from the night before, on which nothing changed; None: the scores were the very same."""
        self._excess.append(0.0 if step is None else step.change**2 - step.variance)

    def variances(self, known: tuple[float, float] | None) -> Variances:
        noise, drift = known or self.start
        return Variances(noise, drift, self.shift, self._prior.nights)


def _clipped(fall: float) -> float:
    return round(min(max(fall, -1.0), 1.0), 12) + 0.0  # equal on every machine, without dust of solving, and no -0.0
