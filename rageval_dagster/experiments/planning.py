"""Which configurations to ask which questions, and what the scores say in the end.

Few configurations are asked many questions, all in the same seeded order, so that every comparison is paired. The
first ones fill the space; later ones are those that Optuna proposes and the surrogate finds most promising. One that is
surely worse than the best is asked nothing more. A third of the questions is held out: only the finalists, at most
eight, are asked those, once they stand. The best of them by all questions is recommended. Its estimate is of the
held-out questions alone: there, the luck of being the best of many is gone. That they had a part in which of eight is
the best, its interval allows for.
"""

import math
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from rageval_dagster.errors import SettingsError
from rageval_dagster.experiments.bets import evidence
from rageval_dagster.experiments.proposing import proposals
from rageval_dagster.experiments.spaces import Configuration, Space, configurations_of, named
from rageval_dagster.experiments.surrogate import LEAST, Posterior, Surrogate, conditioned
from rageval_dagster.records import Interval
from rageval_dagster.statistics.intervals import mean_interval

if TYPE_CHECKING:
    import numpy as np

Direction = Literal["higher", "lower"]
QuestionId = Hashable
Clusters = Sequence[Hashable] | Mapping[Any, Hashable]
"""The cluster of each question: in their order, or by their ids."""

HELD_OUT = 1 / 3
LEAST_HELD_OUT = 30
"""With fewer held-out questions there is no estimate, so none are held out."""
HELD_OUT_BUDGET = 1 / 3
"""Of the budget at most as much is kept for them."""
FINALISTS = 8
TARGET = 10
"""Configurations are asked so many questions that the budget lasts for at least so many configurations."""
LEAST_STEP = 10
STEPS = (0.25, 0.5, 1.0)
"""A configuration is asked up to these shares of its questions, and can leave after each."""
ASKS = 8
"""Optuna's proposals, of which the surrogate chooses one."""
ALPHA = 0.05
"""The chance that a winner is none: half of it for the race, half for the held-out questions."""


@dataclass(frozen=True)
class Batch:
    """Questions to ask a configuration; `number` is its place in the space."""

    configuration: Configuration = field(compare=False)
    number: int
    questions: tuple[Any, ...]


@dataclass(frozen=True)
class Trial:
    """A configuration that was asked `n` of the questions to choose by.

    `mean` is of their scores; `worth` what they come to in the light of all other configurations, None where nothing is
    left to compare with. `held_out` is the mean of a finalist's held-out scores, with an interval that holds for all
    finalists at once. `left_because` is why it was asked nothing more, None where it was not taken out.
    """

    configuration: Configuration
    number: int
    n: int
    mean: float
    worth: float | None
    held_out: Interval | None
    left_because: str | None


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    `best` is the recommended configuration; None where nothing was scored. `tied` holds it and every other that is
    within the tolerance of it or not surely worse. `estimate` is the mean of the best from at least 30 held-out
    questions, else None; its interval holds in 95 %, whichever finalist is the best. `winner` is whether the best is
    surely better than every other configuration that was tried. `evaluations` counts the questions asked.
    """

    best: Configuration | None
    tied: list[Configuration]
    estimate: Interval | None
    evaluations: int
    trials: list[Trial]
    winner: bool


def search(
    space: Space,
    evaluate: Callable[[Configuration, list[Any]], Sequence[float | None]],
    questions: Sequence[QuestionId],
    clusters: Clusters | None = None,
    budget: int = 1000,
    tolerance: float = 0.01,
    direction: Direction = "higher",
    seed: int = 0,
) -> SearchResult:
    """Finds the best configuration of a space by asking at most `budget` questions in all.

    `space` has the values of each parameter, or is a list of configurations. `evaluate(configuration, question_ids)`
    returns a score for each question, None where it failed, which counts as the worst score: 0, or the worst one seen
    if that is worse (for `direction="lower"`: 1, or the highest one seen). `clusters` names the cluster of each
    question, such as its document, in the questions' order or as {question: cluster}: questions of one cluster are held
    out together. With one question the score of a
    configuration is its mean, and nothing is held out.

    Raises SettingsError for a space, questions, budget, tolerance or direction that cannot be used, and where
    `evaluate` returns another number of scores than questions or something that is no number.
    """
    plan = Plan(space, questions, clusters, budget=budget, tolerance=tolerance, direction=direction, seed=seed)
    while batches := plan.next():
        for batch in batches:
            plan.tell(batch, evaluate(dict(batch.configuration), list(batch.questions)))
    return plan.result()


class Plan:
    """A search in rounds, for who asks the questions elsewhere; arguments as of `search`.

        while batches := plan.next():
            for batch in batches:           # in any order, or all at once
                plan.tell(batch, scores_of(batch))
        plan.result()

    What comes next depends on nothing but the arguments and what was told, so a search that was killed goes on from its
    stored scores: make the plan again, and tell it those in answer to `next`.
    """

    def __init__(
        self,
        space: Space,
        questions: Sequence[QuestionId],
        clusters: Clusters | None = None,
        *,
        budget: int,
        tolerance: float = 0.01,
        direction: Direction = "higher",
        seed: int = 0,
    ) -> None:
        if isinstance(questions, str | Mapping | AbstractSet):
            raise SettingsError(f"questions are a list of their ids, in a fixed order, not {questions!r:.60}")
        questions = list(questions)
        if isinstance(clusters, Mapping):
            clusters = _of_each(questions, clusters)
        _check(questions, clusters, budget, tolerance, direction, seed)
        seed = int(seed)
        self._space = configurations_of(space, seed)
        self._tolerance = tolerance
        self._lower = direction == "lower"
        self._seed = seed
        self._budget = int(budget)
        self._cluster_of = dict(zip(questions, questions if clusters is None else clusters, strict=True))
        self._choosing, self._held = _split(questions, self._cluster_of, seed)
        self._place = {question: place for place, question in enumerate(self._choosing + self._held)}
        share = int(self._budget * HELD_OUT_BUDGET)
        if share < LEAST_HELD_OUT <= len(self._held):
            self._choosing, self._held = self._choosing + self._held, []
        self._held = self._held[:share]
        reserved = len(self._held) and len(self._held) * max(1, min(FINALISTS, share // 2 // len(self._held)))
        self._for_choosing = self._budget - reserved
        count = len(self._space.all)
        self._depth = max(1, min(len(self._choosing), self._for_choosing // min(count, TARGET)))
        # The union over all pairs that may ever be compared is taken over so many.
        self._most = min(count, math.ceil(1.25 * self._for_choosing / self._depth))
        self._surrogate = Surrogate(self._space)
        self._scores: dict[int, dict[QuestionId, float | None]] = {}
        self._left: dict[int, str] = {}
        self._excluded: dict[int, str] = {}
        self._round: list[Batch] = []
        self._stretches: list[slice] = []
        self._finalists: list[int] | None = None

    def next(self) -> list[Batch]:
        """The batches of this round that were not told yet, which can be asked in parallel; empty at the end.

        A new round begins when all of one are told. A batch of a configuration that was excluded is not asked.
        """
        while True:
            open_ = [batch for batch in self._round if not self._is_told(batch) and batch.number not in self._excluded]
            if open_ or self._finalists is not None:
                return open_
            self._round = self._next_round()

    def tell(self, batch: Batch, scores: Sequence[float | None]) -> None:
        """The scores of a batch of this round, in the order of its questions; None for a question that failed.

        Raises SettingsError for another number of scores, for something that is no finite number, and for a batch that
        is not asked for now.
        """
        if all(batch != other for other in self._round) or self._is_told(batch):
            raise SettingsError("these scores are of a batch that the plan does not ask for now; tell those of next()")
        if isinstance(scores, str | Mapping) or not hasattr(scores, "__len__"):
            raise SettingsError(
                f"the scores of {batch.configuration} are {scores!r:.60}; give a list with one for each question, in "
                "the order of the questions"
            )
        if len(scores) != len(batch.questions):
            raise SettingsError(
                f"there are {len(scores)} scores for {len(batch.questions)} questions to {batch.configuration}; "
                "give one for each, None where it failed"
            )
        for question, score in zip(batch.questions, scores, strict=True):
            if score is not None and not _is_number(score):
                raise SettingsError(f"the score of question {question!r} is {score!r}; give a finite number or None")
        told = self._scores.setdefault(batch.number, {})
        told.update((q, None if s is None else float(s)) for q, s in zip(batch.questions, scores, strict=True))
        self._forget()

    def _forget(self) -> None:
        for name in ("_range", "_table", "_posterior"):
            self.__dict__.pop(name, None)

    def exclude(self, number: int, reason: str) -> None:
        """Takes a configuration out for good: it fails, leaks, or surely misses a requirement.

        Who resumes a search excludes again at the same place: before the next round begins.
        """
        self._excluded.setdefault(number, reason)
        self._forget()

    def result(self) -> SearchResult:
        """What is known now, also in the middle of a search."""
        tried = self._tried()
        best = self._recommended()
        finalists = [number for number in self._finalists or () if number in tried and len(self._kept_out(number))]
        intervals = {number: self._interval(number, 1 - ALPHA / len(finalists)) for number in finalists}
        trials = [
            Trial(
                configuration=self._space.all[number],
                number=number,
                n=len(self._chosen_by(number)),
                mean=self._scaled_back(float(self._chosen_by(number).mean())),
                worth=self._scaled_back(float(self._posterior.mean[number])) if tried else None,
                held_out=intervals.get(number),
                left_because=self._excluded.get(number) or self._left.get(number),
            )
            for number in sorted(self._scores)
        ]
        if best is None:
            return SearchResult(None, [], None, self._spent(), trials, winner=False)
        enough = best in finalists and len(self._kept_out(best)) >= LEAST_HELD_OUT
        worse = self._surely_worse(best, finalists)
        others = [number for number in tried if number != best]
        behind = worse | {number for number in others if self._seems_worse(number, best, len(others))}
        limit = self._posterior.mean[best] - self._tolerance / self._range[1]
        tied = [number for number in others if number not in behind or self._posterior.mean[number] >= limit]
        return SearchResult(
            best=self._space.all[best],
            tied=[self._space.all[number] for number in (best, *tied)],
            estimate=intervals[best] if enough else None,
            evaluations=self._spent(),
            trials=trials,
            winner=bool(others) and len(worse) == len(others),
        )

    # Rounds

    def _next_round(self) -> list[Batch]:
        self._let_leave()
        running = [number for number in self._tried() if number not in self._left]
        left = self._for_choosing - self._spent()
        unfinished = [number for number in running if self._done(number) < self._depth]
        if not unfinished:
            unfinished = self._new(left // self._depth)
        if not unfinished and self._depth < len(self._choosing) and left > 0 and running:
            # Nothing new can be afforded, or nothing is left to try: the best are asked the rest.
            self._depth = len(self._choosing)
            unfinished = sorted(running, key=lambda number: (-self._posterior.mean[number], number))
        batches = []
        for number in unfinished:
            done = self._done(number)
            end = min(self._step(done), done + left)
            if end > done:
                batches.append(self._batch(number, self._choosing[done:end]))
                left -= end - done
        if batches:
            ends = {self._done(batch.number) + len(batch.questions) for batch in batches}
            bounds = sorted({0, len(self._choosing), *ends, *(bound.stop for bound in self._stretches)})
            self._stretches = [slice(*pair) for pair in pairwise(bounds)]
            return batches
        best = self._recommended()
        room = (self._budget - self._spent()) // len(self._held) if self._held else 0
        ranked = sorted(running, key=lambda number: (number != best, -self._posterior.mean[number], number))
        self._finalists = ranked[: min(room, FINALISTS)]
        self._stretches.append(slice(len(self._choosing), len(self._choosing) + len(self._held)))
        return [self._batch(number, self._held) for number in self._finalists]

    def _new(self, affordable: int) -> list[int]:
        """Configurations to try next, at most as many as can be asked all their questions."""
        untried = [number for number in range(len(self._space.all)) if number not in {*self._scores, *self._excluded}]
        affordable = min(affordable, len(untried), self._most - len(self._scores))
        if affordable <= 0:
            return []
        if affordable == len(untried):
            return untried
        tried = self._tried()
        if len(tried) < 2:
            size = max(min(affordable, 4), affordable // 2)
            found = self._surrogate.start(size + len(self._space.all) - len(untried), self._seed)
            return [number for number in found if number in untried][:size]
        size = max(1, (self._for_choosing // self._depth) // 10)
        mean, covariance = self._posterior.mean, self._posterior.covariance
        worth = {number: mean[number] for number in tried}
        found: list[int] = []
        for _ in range(min(size, affordable)):
            free = [number for number in untried if number not in found]
            asked = proposals(self._space, worth, free, ASKS, (self._seed + 1000 * len(tried) + len(found)) % 2**31)
            # What is good as far as is known, or not known well.
            chosen = max(asked, key=lambda number: mean[number] + math.sqrt(max(0.0, covariance[number, number])))
            found.append(chosen)
            worth[chosen] = mean[chosen]
            covariance = conditioned(covariance, chosen, LEAST)
        return found

    def _let_leave(self) -> None:
        """Those that are surely worse than the best, by more than the tolerance as it seems."""
        best = self._recommended()
        if best is None:
            return
        limit = self._posterior.mean[best] - self._tolerance / self._range[1]
        for number in self._tried():
            if number not in self._left and self._posterior.mean[number] < limit and self._is_worse(number, best):
                self._left[number] = f"surely worse than {named(self._space.all[best])}"

    def _step(self, done: int) -> int:
        """Up to which question one goes on that was asked so many; whole clusters, if it can be."""
        for share in STEPS:
            end = max(LEAST_STEP, math.ceil(share * self._depth))
            clusters = self._clusters(self._choosing[: self._depth])
            while end < self._depth and clusters[end - 1] == clusters[end]:
                end += 1
            if end > done:
                return min(end, self._depth)
        return self._depth

    def _batch(self, number: int, questions: Sequence[QuestionId]) -> Batch:
        return Batch(self._space.all[number], number, tuple(questions))

    def _is_told(self, batch: Batch) -> bool:
        return all(question in self._scores.get(batch.number, {}) for question in batch.questions)

    # Scores

    def _spent(self) -> int:
        return sum(map(len, self._scores.values()))

    def _tried(self) -> list[int]:
        return [number for number in sorted(self._scores) if number not in self._excluded]

    @cached_property
    def _range(self) -> tuple[float, float]:
        """The lowest score and the width of the range of scores: [0, 1], or what was seen if that reaches farther."""
        seen = [score for told in self._scores.values() for score in told.values() if score is not None]
        low, high = min([0.0, *seen]), max([1.0, *seen])
        return low, high - low

    def _scaled_back(self, score: float) -> float:
        low, width = self._range
        return low + width * (1.0 - score if self._lower else score)

    @cached_property
    def _table(self) -> "dict[int, np.ndarray]":
        """The scores of each configuration in [0, 1], higher is better, 0 where it failed, NaN where it was not asked.

        First the questions to choose by, then those held out.
        """
        import numpy as np

        low, width = self._range
        worst = low + width if self._lower else low
        found = {}
        for number, told in self._scores.items():
            row = np.full(len(self._choosing) + len(self._held), np.nan)
            for question, score in told.items():
                row[self._place[question]] = worst if score is None else score
            found[number] = (low + width - row) / width if self._lower else (row - low) / width
        return found

    def _done(self, number: int) -> int:
        return len(self._chosen_by(number)) if number in self._scores else 0

    def _chosen_by(self, number: int) -> "np.ndarray":
        """The scores by which a configuration is chosen: of the first questions, as many as it was asked."""
        row = self._table[number][: len(self._choosing)]
        return row[row == row]  # noqa: PLR0124  (NaN is not equal to itself)

    def _kept_out(self, number: int) -> "np.ndarray":
        row = self._table[number][len(self._choosing) :]
        return row[row == row]  # noqa: PLR0124

    def _clusters(self, questions: Sequence[QuestionId]) -> list[Hashable]:
        return [self._cluster_of[question] for question in questions]

    @cached_property
    def _posterior(self) -> Posterior:
        import numpy as np

        tried = self._tried()
        scores = np.array([self._table[number] for number in tried])
        return self._surrogate.fit(tried, scores, self._stretches, self._clusters(self._choosing + self._held))

    def _recommended(self) -> int | None:
        """The best that was tried, by all that was told; once the finalists stand, the best of them."""
        mean = self._posterior.mean if self._tried() else []
        running = [number for number in self._tried() if number not in self._left]
        finalists = [number for number in running if number in (self._finalists or ())]
        return max(finalists or running, key=lambda number: (float(mean[number]), -number), default=None)

    def _is_worse(self, number: int, best: int, alpha: float = ALPHA / 2) -> bool:
        """Whether one is surely worse than another, of all pairs, at any time."""
        ours, theirs = self._chosen_by(number), self._chosen_by(best)
        shared = min(len(ours), len(theirs))
        against = evidence(theirs[:shared] - ours[:shared], self._clusters(self._choosing[:shared]))
        return against >= math.log(self._most * (self._most - 1) / alpha)

    def _seems_worse(self, number: int, best: int, others: int) -> bool:
        """Whether the surrogate gives it a chance of less than alpha, divided by all others, to be as good."""
        mean, covariance = self._posterior.mean, self._posterior.covariance
        variance = covariance[best, best] + covariance[number, number] - 2 * covariance[best, number]
        chance = NormalDist(mean[best] - mean[number], math.sqrt(max(variance, 1e-12))).cdf(0.0)
        return chance < ALPHA / others

    def _surely_worse(self, best: int, finalists: Sequence[int]) -> set[int]:
        """Those that are surely worse than the best, by the questions to choose by or by those held out."""
        found = {number for number in self._tried() if number != best and self._is_worse(number, best)}
        others = [number for number in finalists if number != best]
        pairs = math.comb(len(finalists), 2)
        for number in others:
            both = min(len(self._kept_out(best)), len(self._kept_out(number)))
            if best in finalists and both:
                gains = (1 + self._kept_out(best)[:both] - self._kept_out(number)[:both]) / 2
                # Of all pairs, since the held-out questions had a part in which of them is the best.
                low = mean_interval(gains, self._clusters(self._held[:both]), 1 - ALPHA / pairs).low
                if low > 0.5:
                    found.add(number)
        return found

    def _interval(self, number: int, confidence: float) -> Interval:
        scores = self._kept_out(number)
        found = mean_interval(scores, self._clusters(self._held[: len(scores)]), confidence)
        ends = sorted(map(self._scaled_back, (found.low, found.high)))
        return Interval(self._scaled_back(found.mean), *ends)


def _split(
    questions: Sequence[QuestionId], cluster_of: Mapping[QuestionId, Hashable], seed: int
) -> tuple[list[QuestionId], list[QuestionId]]:
    """The questions to choose by and those held out, each in the order they are asked in, cluster by cluster."""
    members: dict[Hashable, list[QuestionId]] = {}
    for question in questions:
        members.setdefault(cluster_of[question], []).append(question)
    order = list(members.values())
    random.Random(seed).shuffle(order)  # noqa: S311
    held: list[QuestionId] = []
    while order and len(held) < len(questions) * HELD_OUT:
        held += order.pop()
    choosing = [question for cluster in order for question in cluster]
    if len(held) < LEAST_HELD_OUT or not choosing:
        return choosing + held, []
    return choosing, held


def _of_each(questions: Sequence[QuestionId], clusters: Mapping[QuestionId, Hashable]) -> list[Hashable]:
    lacking = next((question for question in questions if question not in clusters), None)
    if lacking is not None:
        raise SettingsError(f"the question {lacking!r} has no cluster; give one for each")
    return [clusters[question] for question in questions]


def _check(
    questions: Sequence[QuestionId],
    clusters: Sequence[Hashable] | None,
    budget: int,
    tolerance: float,
    direction: str,
    seed: int,
) -> None:
    if not questions:
        raise SettingsError("there are no questions; give at least one question id")
    for what, names in (("question id", questions), ("cluster", clusters or ())):
        unfit = next((name for name in names if not isinstance(name, Hashable)), None)
        if unfit is not None:
            raise SettingsError(f"the {what} {unfit!r:.60} cannot be a name; give a text or a number")
    if len(set(questions)) < len(questions):
        twice = next(question for question in questions if questions.count(question) > 1)
        raise SettingsError(f"the question id {twice!r} is there twice; give each question an id of its own")
    if clusters is not None and len(clusters) != len(questions):
        raise SettingsError(f"there are {len(questions)} questions and {len(clusters)} clusters; give one for each")
    if isinstance(budget, bool) or not isinstance(budget, SupportsIndex) or int(budget) < 1:
        raise SettingsError(f"the budget counts questions to ask: give a whole number of at least 1, not {budget!r}")
    if not _is_number(tolerance) or tolerance < 0:
        raise SettingsError(f"the tolerance is a difference of scores: give a number of at least 0, not {tolerance!r}")
    if direction not in ("higher", "lower"):
        raise SettingsError(f"the direction is {direction!r}; give 'higher' or 'lower'")
    if not _is_number(seed) or not 0 <= seed < 2**31 or seed != int(seed):
        raise SettingsError(f"the seed is {seed!r}; give a whole number from 0 to {2**31 - 1}")


def _is_number(value: Any) -> bool:
    """Numbers of numpy are numbers too."""
    try:
        return not isinstance(value, str) and math.isfinite(value)
    except TypeError:
        return False
