"""How sure the verdict is: histories of made-up clients, judged night by night by `rageval_dagster.gate.verdicts`.

Usage: python benchmarks/gate.py [--histories 200] [--only WORD]

Four kinds: systems that decay or break while questions come and go (how many are caught, and how far they had fallen by
then), systems that nobody touched (how many clients ever have a false alarm), single looks, and judges that change
while people have labelled 60 answers (--only judge). Questions come in threes from one document. A fifth of the
questions, at least 30, is the anchor panel, which only loses documents. Every question is asked every night; a flip is
a question that comes out wrong way round for one night.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import mean

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads that wait for each other take ten times as long

import numpy as np

from rageval_dagster.gate import NightVerdict, verdicts
from rageval_dagster.gate.drift import Drift, by_labels, decided, drift_of, is_found, less_drift
from rageval_dagster.statistics import corrected_difference

PER_DOCUMENT = 3
HIT_RATE = 0.9
LEAST_ANCHORS = 30
ROTATED = 0.2
LOST = (0.03, 0.06)
"""Of the questions, each week: rotated out, and gone with their quotes."""
WEEKS, NIGHTS_A_WEEK = 40, 2
QUIET_NIGHTS = 90
TOPIC = 5
"""Documents that fail together."""
ASKED, LABELLED = 200, 60
SUPPORTED = (0.95, 0.3)
"""With which chance a judge supports a claim of a right answer, and of a wrong one."""
WORDS = ("regressed", "unclear", "passed")

Night = dict[str, float | None]
Maker = Callable[[np.random.Generator], "History"]


@dataclass(frozen=True)
class History:
    """Nights of one client with what truly was: by how much its hit rate had fallen on each."""

    nights: list[Night]
    clusters: dict[str, int]
    fallen: list[float]
    unchanged: list[bool] | None = None
    confirmed: list[dict[str, int] | None] | None = None


@dataclass(frozen=True)
class Question:
    """A question that is answered while the hit rate is above its `need`."""

    name: str
    document: int
    need: float


class Benchmark:
    """Questions that are renewed as the product renews them."""

    def __init__(self, rng: np.random.Generator, size: int) -> None:
        self._rng, self._made = rng, 0
        self.live = self._new(size)
        self._anchors = {question.name for question in self.live[: max(LEAST_ANCHORS, size // 5)]}

    def _new(self, count: int) -> list[Question]:
        found = [
            Question(f"q{number}", number // PER_DOCUMENT, float(self._rng.random()))
            for number in range(self._made, self._made + count)
        ]
        self._made += -(-count // PER_DOCUMENT) * PER_DOCUMENT
        return found

    def renew(self, size: int) -> None:
        """A week later: quotes that left, questions that made room, and new ones up to `size`."""
        lost = self._rng.uniform(*LOST)
        self.live = [question for question in self.live if self._rng.random() >= lost]
        others = [question.name for question in self.live if question.name not in self._anchors]
        count = min(len(others), round(ROTATED * len(self.live)))
        leaving = set(self._rng.choice(others, count, replace=False)) if count else set()
        self.live = [question for question in self.live if question.name not in leaving]
        self.live += self._new(max(0, size - len(self.live)))
        kept = [question.name for question in self.live if question.name in self._anchors]
        rest = [question.name for question in self.live if question.name not in self._anchors]
        self._anchors = {*kept, *rest[: max(0, max(LEAST_ANCHORS, size // 5) - len(kept))]}


def changing(
    rng: np.random.Generator,
    start: int,
    end: int,
    flips: float,
    fallen: Callable[[float], float],
    weeks: int = WEEKS,
) -> History:
    """A benchmark that grows from `start` to `end` questions while the hit rate falls by `fallen(week)`."""
    benchmark = Benchmark(rng, start)
    nights: list[Night] = []
    true: list[float] = []
    clusters: dict[str, int] = {}
    for week in range(weeks + 1):
        if week:
            benchmark.renew(round(start + (end - start) * week / weeks))
        clusters |= {question.name: question.document for question in benchmark.live}
        for night in range(NIGHTS_A_WEEK):
            fall = fallen(week + night / NIGHTS_A_WEEK)
            flipped = rng.random(len(benchmark.live)) < flips
            nights.append(
                {
                    question.name: float((question.need < HIT_RATE - fall) != flip)
                    for question, flip in zip(benchmark.live, flipped, strict=True)
                }
            )
            true.append(fall)
    return History(nights, clusters, true)


def quiet(
    rng: np.random.Generator,
    size: int,
    flips: float = 0.0,
    shift: float = 0.0,
    topics: float = 0.0,
    nights: int = QUIET_NIGHTS,
) -> History:
    """Nothing changes: questions flip, or the whole night is judged `shift` (sd) higher, or topics fail together."""
    names = [f"q{number}" for number in range(size)]
    documents = np.arange(size) // PER_DOCUMENT
    right = (rng.random(size) < HIT_RATE).astype(float)
    found: list[Night] = []
    for _ in range(nights + 1):
        scores = np.where(rng.random(size) < flips, 1.0 - right, right)
        if topics:
            failing = rng.random(documents.max() // TOPIC + 1) < topics
            scores = np.where(failing[documents // TOPIC], 0.0, scores)
        if shift:  # a judge's graded scores, whose mood is the night's
            scores = np.clip(0.05 + 0.85 * scores + rng.normal(0, 0.05, size) + rng.normal(0, shift), 0, 1)
        found.append(dict(zip(names, map(float, scores), strict=True)))
    clusters = dict(zip(names, map(int, documents), strict=True))
    return History(found, clusters, [0.0] * len(found), unchanged=[True] * len(found))


def drop(rng: np.random.Generator, size: int, fall: float) -> History:
    """A deterministic system that loses questions at once; each that newly fails was asked again."""
    names = [f"q{number}" for number in range(size)]
    right = rng.random(size) < HIT_RATE
    lost = right & (rng.random(size) < fall / HIT_RATE)
    nights: list[Night] = [dict(zip(names, map(float, scores), strict=True)) for scores in (right, right & ~lost)]
    confirmed = {names[number]: -1 for number in np.flatnonzero(lost)}
    clusters = {name: number // PER_DOCUMENT for number, name in enumerate(names)}
    return History(nights, clusters, [0.0, fall], confirmed=[None, confirmed])


def judged(history: History, looks: int) -> list[NightVerdict]:
    return verdicts(history.nights, history.clusters, history.confirmed, history.unchanged, looks=looks)


@dataclass(frozen=True)
class Row:
    """A kind of history, and the aims: least share caught (or passed), and the most fallen, or of false alarms."""

    name: str
    make: Maker
    looks: int = 90
    caught: float | None = None
    fallen: float | None = None
    alarms: float | None = None
    passed: float | None = None


def decay(start: int, end: int, rate: float, flips: float) -> Maker:
    return lambda rng: changing(rng, start, end, flips, lambda week: rate * week)


def unchanged(size: int, flips: float = 0.0, shift: float = 0.0, topics: float = 0.0) -> Maker:
    return lambda rng: quiet(rng, size, flips, shift, topics)


def unversioned(size: int, flips: float = 0.0, shift: float = 0.0, topics: float = 0.0) -> Maker:
    """The same, of a system that says no version: nobody knows that nothing changed."""
    return lambda rng: replace(quiet(rng, size, flips, shift, topics), unchanged=None)


ROWS = (
    Row("decay .01 a week, 50 questions, flips 3 %", decay(50, 50, 0.01, 0.03), caught=0.90, fallen=0.30),
    Row("decay .01 a week, 50 questions, no flips", decay(50, 50, 0.01, 0.0), caught=0.90, fallen=0.30),
    Row("decay .01 a week, 50 -> 200, flips 3 %", decay(50, 200, 0.01, 0.03), caught=0.98, fallen=0.20),
    Row("decay .005 a week, 50 -> 200, no flips", decay(50, 200, 0.005, 0.0), caught=0.95),
    Row("decay .005 a week, 50 -> 200, flips 3 %", decay(50, 200, 0.005, 0.03)),
    Row("drop .20, 50 questions, asked again, one look", lambda rng: drop(rng, 50, 0.20), looks=1, caught=0.95),
    Row("drop .10, 100 questions, asked again, one look", lambda rng: drop(rng, 100, 0.10), looks=1, caught=0.90),
    Row("unchanged, 50 questions, flips 3 %", unchanged(50, flips=0.03), alarms=0.05),
    Row("unchanged, 200 questions, flips 3 %", unchanged(200, flips=0.03), alarms=0.05),
    Row("unchanged, 50 questions, nights shift sd .01", unchanged(50, shift=0.01), alarms=0.05),
    Row("unchanged, 200 questions, nights shift sd .01", unchanged(200, shift=0.01), alarms=0.05),
    Row("unchanged, 50 questions, topics fail 2 %", unchanged(50, topics=0.02), alarms=0.10),
    Row("unchanged, 200 questions, topics fail 2 %", unchanged(200, topics=0.02), alarms=0.10),
    Row("no version, 50 questions, flips 3 %", unversioned(50, flips=0.03), alarms=0.10),
    Row("no version, 50 questions, nights shift sd .01", unversioned(50, shift=0.01), alarms=0.10),
    Row("no version, 50 questions, topics fail 2 %", unversioned(50, topics=0.02), alarms=0.10),
    Row(
        "unchanged, 50 questions, flips 3 %, one look",
        lambda rng: quiet(rng, 50, flips=0.03, nights=1),
        looks=1,
        alarms=0.05,
        passed=0.90,
    ),
    *(
        Row(f"identical, {size} questions", lambda rng, size=size: quiet(rng, size, nights=3), alarms=0.0, passed=1.0)
        for size in (5, 37, 300)
    ),
)


def measure(row: Row, histories: int) -> bool:
    """Prints a row and says whether its aims were met."""
    began = time.perf_counter()
    caught_at: list[float] = []
    words: list[str] = []
    for number in range(histories):
        history = row.make(np.random.default_rng([number, len(row.name)]))
        found = judged(history, row.looks)
        words += [verdict.decision for verdict in found[1:]]
        first = next((night for night, verdict in enumerate(found) if verdict.decision == "regressed"), None)
        if first is not None:
            caught_at.append(history.fallen[first])
    share, passed = len(caught_at) / histories, words.count("passed") / len(words)
    fallen = mean(caught_at) if caught_at else 0.0
    aims: Sequence[tuple[str, bool]] = [
        *([(f"caught >= {row.caught:.2f}", share >= row.caught)] if row.caught is not None else []),
        *([(f"fallen <= {row.fallen:.2f}", fallen <= row.fallen)] if row.fallen is not None else []),
        *([(f"alarms <= {row.alarms:.2f}", share <= row.alarms)] if row.alarms is not None else []),
        *([(f"passed >= {row.passed:.2f}", passed >= row.passed)] if row.passed is not None else []),
    ]
    said = ", ".join(f"{aim} {'held' if held else 'MISSED'}" for aim, held in aims)
    what = "alarms" if row.alarms is not None else "caught"
    detail = f"fallen {fallen:.2f}" if row.alarms is None else f"passed {passed:.2f}"
    seconds = (time.perf_counter() - began) / histories
    print(f"{row.name:<50} {what} {share:.3f}  {detail}  {seconds:6.2f} s each  {said}", flush=True)
    return all(held for _, held in aims)


def judged_answers(rng: np.random.Generator, truth: np.ndarray, claims: int, fall: float = 0.0) -> np.ndarray:
    """Which claims of each answer a judge supports, [answers, claims], when it denies so many as lower its mean by
    `fall`."""
    supported = rng.random((truth.size, claims)) < np.where(truth > 0, *SUPPORTED)[:, None]
    return supported & (rng.random(supported.shape) >= fall / supported.mean())


@dataclass(frozen=True)
class Case:
    """What truly happens from one run to the next: by how much the system and the judge fall."""

    name: str
    system: float = 0.0
    judge: float = 0.0


CASES = (
    Case("nothing changes"),
    Case("the judge falls by .10", judge=0.1),
    Case("the system falls by .10", system=0.1),
    Case("the system falls by .20", system=0.2),
    Case("the judge by .10, the system by .20", system=0.2, judge=0.1),
    Case("the judge rises by .10, the system falls by .20", system=0.2, judge=-0.1),
)


def drifting(rng: np.random.Generator, case: Case, claims: int, looks: int) -> dict[str, tuple[str, bool]]:
    """{which labels there are: the decision, and whether the judge was found to have changed}.

    Two runs of a system that words every answer anew. 60 answers of the first, or of both, are labelled. Those of the
    first are judged anew, or all of the first where the metric fell: of each claim the judge says the same again, but
    for one in twenty and its drift.
    """
    names = [f"q{number}" for number in range(ASKED)]
    clusters = {name: number // PER_DOCUMENT for number, name in enumerate(names)}
    need = rng.random(ASKED)
    truths = [
        ((need < level) != (rng.random(ASKED) < 0.03)).astype(float) for level in (HIT_RATE, HIT_RATE - case.system)
    ]
    harsher, kinder = max(case.judge, 0.0), max(-case.judge, 0.0)
    said = judged_answers(rng, truths[0], claims, kinder), judged_answers(rng, truths[1], claims, harsher)
    before, after = (dict(zip(names, map(float, each.mean(axis=1)), strict=True)) for each in said)
    night = verdicts([before, after], clusters, looks=looks)[-1]
    found: dict[str, tuple[str, bool]] = {"judge believed": (night.decision, False)}
    if night.fall is None or night.low is None or night.high is None:
        return found
    picked = rng.choice(ASKED, LABELLED, replace=False)
    redrawn = rng.random((ASKED, claims)) < 0.05
    anew = np.where(redrawn, judged_answers(rng, truths[0], claims), said[0])
    if harsher:
        anew &= rng.random(anew.shape) >= harsher / said[0].mean()
    if kinder:
        anew |= rng.random(anew.shape) < kinder / (1.0 - said[0].mean())

    def drift_by(numbers: Iterable[int]) -> Drift | None:
        return drift_of(
            {names[at]: before[names[at]] for at in numbers},
            {names[at]: float(anew[at].mean()) for at in numbers},
            dict.fromkeys(names, "all"),
            clusters,
        )

    labels = [{names[at]: float(truth[at]) for at in picked} for truth in truths]
    of_both = corrected_difference(labels[0], before, labels[1], after, strata=dict.fromkeys(names, 0))
    cases = ("no labels", (), None), ("60 of the first", picked, None), ("60 of both", picked, by_labels(of_both))
    for which, numbers, labelled in cases:
        drift = drift_by(range(ASKED) if night.decision == "regressed" else numbers)
        found[which] = night.decision, False
        if drift is not None and is_found(drift, night.decision, 0.05, looks):
            rest = less_drift(-night.fall, -night.high, -night.low, drift)
            found[which] = decided(night.decision, rest, labelled, 0.02), True
    return found


def measure_drift(histories: int, claims: int, looks: int) -> None:
    """Prints how often each case is called what, without labels and with them."""
    print(f"A judge of {claims} claims an answer, {looks} looks")
    for case in CASES:
        runs = [
            drifting(np.random.default_rng([number, len(case.name)]), case, claims, looks)
            for number in range(histories)
        ]
        for which in ("judge believed", "no labels", "60 of the first", "60 of both"):
            rows = [run.get(which, ("unclear", False)) for run in runs]
            shares = [f"{word} {sum(each == word for each, _ in rows) / histories:.3f}" for word in WORDS]
            changed = sum(drifted for _, drifted in rows) / histories
            print(f"{case.name:<50} {which:<16} {'  '.join(shares)}  judge changed {changed:.3f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--only", default="", help="rows whose name holds this")
    arguments = parser.parse_args()
    if "judge".startswith(arguments.only):
        for claims, looks in ((4, 1), (4, 90), (1, 1), (1, 90)):
            measure_drift(arguments.histories, claims, looks)
    missed = [row.name for row in ROWS if arguments.only in row.name and not measure(row, arguments.histories)]
    print("Missed: " + ("; ".join(missed) if missed else "nothing"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
