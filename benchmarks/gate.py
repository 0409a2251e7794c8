"""What the gate sees and what it imagines: the drops that it catches by sample size, and its false alarms in 90 days.

Run with `python benchmarks/gate.py [--clients 1000] [--repetitions 500]`. Made-up panels: questions in threes from one
document; a hit rate of .9 and an MRR that follows it; 3 to 8 claims an answer, 92 % of them supported, and a judge who
is wrong about 3 of 100. In the false alarms nothing ever changes but the noise, which is renewed every day for all
three metrics at once: 3 % of the questions find their evidence on one day and not on another, as with a system whose
answers cannot be reused. The gate is the product's: `compare` and `Gate.decision`.
"""

import argparse
import sys
from dataclasses import dataclass

import numpy as np

from rageval_dagster.gate.decision import LOOKS, Gate
from rageval_dagster.statistics.comparisons import compare

SIZES = (50, 100, 200, 300)
DROPS = (0.05, 0.10, 0.20)
METRICS = ("hit rate", "MRR", "faithfulness")
LIMIT = 0.05
PER_DOCUMENT = 3
JUDGE_ERROR = 0.03
FLIPS = 0.03
HIT_RATE = 0.9
SUPPORTED = 0.92
LEAST_Z = 2.8
"""No exact p value below 1e-3 belongs to a smaller |z|: only these are worth the exact test."""


@dataclass
class Panel:
    """A client's questions as they truly are: where the evidence is found, and which claims are supported."""

    ranks: np.ndarray
    claims: np.ndarray
    supported: np.ndarray

    @property
    def clusters(self) -> dict[str, int]:
        return {str(item): item // PER_DOCUMENT for item in range(len(self.ranks))}


def panel(size: int, rng: np.random.Generator) -> Panel:
    ranks = np.where(rng.random(size) < HIT_RATE, rng.choice([1, 1, 1, 2, 3], size), 0)
    claims = rng.integers(3, 9, size)
    return Panel(ranks, claims, rng.binomial(claims, SUPPORTED))


def worse(before: Panel, drop: float, together: bool, rng: np.random.Generator) -> Panel:
    """The same questions where a share of them fails altogether, so that each mean falls by `drop` on average.

    They fail one by one, or `together` with all questions of their document.
    """

    def failing(share: float) -> np.ndarray:
        size = len(before.ranks)
        if not together:
            return rng.random(size) < share
        return np.repeat(rng.random(-(-size // PER_DOCUMENT)) < share, PER_DOCUMENT)[:size]

    lost, unsupported = failing(drop / HIT_RATE), failing(drop / SUPPORTED)
    return Panel(np.where(lost, 0, before.ranks), before.claims, np.where(unsupported, 0, before.supported))


def day(true: Panel, flips: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """What one evaluation measures."""
    missed = rng.random(len(true.ranks)) < flips
    ranks = np.where(missed, np.where(true.ranks > 0, 0, 1), true.ranks)
    judged = rng.binomial(true.supported, 1 - JUDGE_ERROR) + rng.binomial(true.claims - true.supported, JUDGE_ERROR)
    return {
        "hit rate": (ranks > 0).astype(float),
        "MRR": np.divide(1.0, ranks, out=np.zeros(len(ranks)), where=ranks > 0),
        "faithfulness": judged / true.claims,
    }


def regressed(before: np.ndarray, now: np.ndarray, clusters: dict[str, int], gate: Gate) -> bool:
    difference = now - before
    sums = np.bincount(np.fromiter(clusters.values(), int), weights=difference)
    spread = float(np.sqrt(sums @ sums))
    if difference.mean() >= -gate.tolerance or not spread or difference.sum() / spread > -LEAST_Z:
        return False
    one, other = ({str(item): float(v) for item, v in enumerate(column)} for column in (before, now))
    return gate.decision(compare(one, other, clusters)) == "regressed"


def power(repetitions: int, together: bool, rng: np.random.Generator) -> None:
    gate = Gate(metrics=len(METRICS))
    how = "documents of three questions" if together else "single questions"
    print(
        f"\nWhere {how} fail, the share of true drops caught on the day ({repetitions} repetitions, one-sided level "
        f"{gate.level:.2e}):"
    )
    print(
        f"{'questions':>10} {'metric':>14} "
        + " ".join(f"{f'drop {drop:.2f}':>10}" for drop in DROPS)
        + "  none (a look)"
    )
    for size in SIZES:
        caught = {(metric, drop): 0 for metric in METRICS for drop in (*DROPS, 0.0)}
        for _ in range(repetitions):
            before = panel(size, rng)
            first = day(before, 0.0, rng)
            for drop in (*DROPS, 0.0):
                now = day(worse(before, drop, together, rng), 0.0, rng)
                for metric in METRICS:
                    caught[metric, drop] += regressed(first[metric], now[metric], before.clusters, gate)
        for metric in METRICS:
            cells = " ".join(f"{caught[metric, drop] / repetitions:>10.3f}" for drop in DROPS)
            print(f"{size:>10} {metric:>14} {cells}  {caught[metric, 0.0] / repetitions:.3f}")


def false_alarms(clients: int, rng: np.random.Generator) -> bool:
    gate = Gate(metrics=len(METRICS))
    print(f"\nClients of {clients} with any false alarm in {LOOKS} unchanged days, all metrics noisy (limit {LIMIT}):")
    held = True
    for size in SIZES:
        alarmed = alarms_of_a_month = 0
        for _ in range(clients):
            true = panel(size, rng)
            first, clusters = day(true, FLIPS, rng), true.clusters
            alarm_days = []
            for number in range(LOOKS):
                now = day(true, FLIPS, rng)
                if any(regressed(first[metric], now[metric], clusters, gate) for metric in METRICS):
                    alarm_days.append(number)
            alarmed += bool(alarm_days)
            alarms_of_a_month += any(number < 30 for number in alarm_days)
        share, month = alarmed / clients, 200 * alarms_of_a_month / clients
        held &= share < LIMIT
        print(f"{size:>10} questions: {share:.4f} ({share / LIMIT:.2f} of the limit); 200 clients: {month:.1f} a month")
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--repetitions", type=int, default=500)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    for together in (False, True):
        power(arguments.repetitions, together, rng)
    held = false_alarms(arguments.clients, rng)
    print("\nMissed: " + ("nothing" if held else "the limit of false alarms"))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
