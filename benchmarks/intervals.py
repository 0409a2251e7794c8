"""How well intervals of a mean keep their promise: coverage and width by n, distribution and method, by simulation."""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import NormalDist

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rageval_dagster.statistics import mean_interval

Rng = np.random.Generator
Size = tuple[int, int]
Bounds = tuple[np.ndarray, np.ndarray]

SIZES = (10, 20, 50, 200)
WIDTH_LIMITS = {10: 2.6, 20: 2.2, 50: 1.6, 200: 1.3}
RESAMPLES = 1000
SEED = 20240607
Z = NormalDist().inv_cdf(0.975)


def bernoulli(rate: float) -> tuple[Callable[[Rng, Size], np.ndarray], float]:
    return lambda rng, size: (rng.random(size) < rate) * 1.0, rate


def beta(a: float, b: float) -> tuple[Callable[[Rng, Size], np.ndarray], float]:
    return lambda rng, size: rng.beta(a, b, size), a / (a + b)


def inflated(zeros: float, ones: float, a: float, b: float) -> tuple[Callable[[Rng, Size], np.ndarray], float]:
    """A share of zeros, a share of ones, and the rest from Beta(a, b)."""

    def draw(rng: Rng, size: Size) -> np.ndarray:
        kind = rng.random(size)
        return np.where(kind < zeros, 0.0, np.where(kind < zeros + ones, 1.0, rng.beta(a, b, size)))

    return draw, ones + (1 - zeros - ones) * a / (a + b)


def points(values: list[float], shares: list[float]) -> tuple[Callable[[Rng, Size], np.ndarray], float]:
    return lambda rng, size: rng.choice(values, size, p=shares), float(np.dot(values, shares))


DISTRIBUTIONS = {
    "Bernoulli(.95)": bernoulli(0.95),
    "Beta(8, 1)": beta(8, 1),
    "10 % 0, 30 % 1, uniform": inflated(0.1, 0.3, 1, 1),
    "5 % 0, 60 % 1, uniform": inflated(0.05, 0.6, 1, 1),
    "5 % 0, 5 % 1, Beta(8, 1)": inflated(0.05, 0.05, 8, 1),
    "2 % 0, 90 % 1, uniform": inflated(0.02, 0.9, 1, 1),
    "20 % 0, Beta(5, 2)": inflated(0.2, 0.0, 5, 2),
    # Not asked for: is the method fitted to the ones above?
    "Bernoulli(.5)": bernoulli(0.5),
    "Bernoulli(.8)": bernoulli(0.8),
    "Bernoulli(.99)": bernoulli(0.99),
    "uniform": beta(1, 1),
    "Beta(2, 5)": beta(2, 5),
    "0, .5, 1 at 5/15/80 %": points([0.0, 0.5, 1.0], [0.05, 0.15, 0.8]),
    "reciprocal ranks": points([0.0, 0.2, 1 / 3, 0.5, 1.0], [0.06, 0.04, 0.05, 0.1, 0.75]),
}
DEMANDED = list(DISTRIBUTIONS)[:7]


def ours(draws: np.ndarray, clusters: list[int] | None = None) -> Bounds:
    intervals = [mean_interval(row, clusters) for row in draws]
    return np.array([each.low for each in intervals]), np.array([each.high for each in intervals])


def student(draws: np.ndarray) -> Bounds:
    from scipy.stats import t

    n = draws.shape[1]
    half = t.ppf(0.975, n - 1) * draws.std(axis=1, ddof=1) / math.sqrt(n)
    return draws.mean(axis=1) - half, draws.mean(axis=1) + half


def wilson(draws: np.ndarray) -> Bounds:
    """Wilson's interval, whose variance is that of 0/1 scores."""
    n, mean = draws.shape[1], draws.mean(axis=1)
    centre = (mean + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * np.sqrt(mean * (1 - mean) / n + Z**2 / (4 * n**2))
    return centre - half, centre + half


def percentile(draws: np.ndarray) -> Bounds:
    low, high = np.quantile(_resampled(draws), [0.025, 0.975], axis=1)
    return low, high


def bca(draws: np.ndarray) -> Bounds:
    """Efron's bias-corrected and accelerated bootstrap; where all resamples are equal, that value."""
    from scipy.special import ndtr, ndtri

    means = _resampled(draws)
    mean = draws.mean(axis=1, keepdims=True)
    below = ((means < mean).sum(axis=1) + (means == mean).sum(axis=1) / 2) / RESAMPLES
    bias = ndtri(np.clip(below, 1 / RESAMPLES, 1 - 1 / RESAMPLES))
    deviations = mean - draws
    spread = np.maximum((deviations**2).sum(axis=1), 1e-30)
    acceleration = (deviations**3).sum(axis=1) / (6 * spread**1.5)
    rows = np.arange(len(draws))

    def bound(z: float) -> np.ndarray:
        level = ndtr(bias + (bias + z) / (1 - acceleration * (bias + z)))
        return means[rows, np.clip((level * RESAMPLES).astype(int), 0, RESAMPLES - 1)]

    return bound(-Z), bound(Z)


METHODS = {"ours": ours, "percentile": percentile, "BCa": bca, "t": student, "Wilson": wilson}


def _resampled(draws: np.ndarray) -> np.ndarray:
    """The sorted means of RESAMPLES bootstrap samples, a row each; all rows share the samples' positions."""
    n = draws.shape[1]
    counts = np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), RESAMPLES)
    # Rounded, so that equal means are equal whatever the order of their sum.
    return np.sort(np.round(draws @ counts.T / n, 12), axis=1)


def _figures(bounds: Bounds, mean: float) -> tuple[float, float]:
    """Coverage and mean width."""
    low, high = bounds
    return float(((low - 1e-9 <= mean) & (mean <= high + 1e-9)).mean()), float((high - low).mean())


def independent(repetitions: int) -> Iterator[tuple[int, str, dict[str, tuple[float, float]]]]:
    for name, (draw, mean) in DISTRIBUTIONS.items():
        for n in SIZES:
            draws = draw(np.random.default_rng(SEED), (repetitions, n))
            yield n, name, {method: _figures(bounds(draws), mean) for method, bounds in METHODS.items()}


def clustered(repetitions: int) -> Iterator[tuple[str, dict[str, tuple[float, float]]]]:
    """20 clusters of 10, intra-cluster correlation .3: of a rate (beta-binomial), and of scores, some shared."""
    count, size = 20, 10
    clusters = [position // size for position in range(count * size)]
    for name in ("Bernoulli(.5)", "Bernoulli(.8)", "Bernoulli(.95)", *DEMANDED[1:], "uniform", "reciprocal ranks"):
        draw, mean = DISTRIBUTIONS[name]
        rng = np.random.default_rng(SEED)
        if name.startswith("Bernoulli"):
            strength = 1 / 0.3 - 1
            rates = rng.beta(mean * strength, (1 - mean) * strength, (repetitions, count))
            draws = (rng.random((repetitions, count * size)) < np.repeat(rates, size, axis=1)) * 1.0
        else:
            # Two scores of a cluster are the cluster's own one, and so the same, with probability .3.
            shared = np.repeat(draw(rng, (repetitions, count)), size, axis=1)
            own = draw(rng, (repetitions, count * size))
            draws = np.where(rng.random(own.shape) < math.sqrt(0.3), shared, own)
        figures = {"ours": _figures(ours(draws, clusters), mean)}
        means_of_clusters = draws.reshape(repetitions, count, size).mean(axis=2)
        figures["t of cluster means"] = _figures(student(means_of_clusters), mean)
        figures["percentile, clusters ignored"] = _figures(percentile(draws), mean)
        figures["ours, clusters ignored"] = _figures(ours(draws), mean)
        yield name, figures


def main() -> int:
    """Prints the tables; ends with 1 if a demanded figure is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10_000)
    repetitions = parser.parse_args().repetitions
    missed: list[str] = []
    print(f"Nominal 95 %, {repetitions} repetitions, {RESAMPLES} bootstrap samples. Each cell: coverage, mean width.\n")
    print("| n | distribution | " + " | ".join(METHODS) + " | ours / t | ours / Wilson |")
    print("|--:|---|" + "---|" * len(METHODS) + "--:|--:|")
    for n, name, figures in independent(repetitions):
        cells = [f"{coverage:.3f}, {width:.3f}" for coverage, width in figures.values()]
        to_t = figures["ours"][1] / figures["t"][1]
        to_wilson = figures["ours"][1] / figures["Wilson"][1]
        is_rate = name.startswith("Bernoulli")
        print(
            f"| {n} | {name} | {' | '.join(cells)} | {to_t:.2f} | {f'{to_wilson:.2f}' if is_rate else ''} |", flush=True
        )
        too_wide = (name in DEMANDED and to_t > WIDTH_LIMITS[n]) or (is_rate and to_wilson > 1.2)
        if figures["ours"][0] < 0.93 or too_wide:
            missed.append(f"n = {n}, {name}")
    print("\n20 clusters of 10, intra-cluster correlation .3\n")
    header = ""
    for name, figures in clustered(repetitions):
        if not header:
            header = "| distribution | " + " | ".join(figures) + " |\n|---|" + "---|" * len(figures)
            print(header)
        print(f"| {name} | " + " | ".join(f"{c:.3f}, {w:.3f}" for c, w in figures.values()) + " |", flush=True)
        if figures["ours"][0] < 0.93:
            missed.append(f"clusters, {name}")
    scores = np.random.default_rng(SEED).beta(8, 1, 300)
    started = time.perf_counter()
    for _ in range(200):
        mean_interval(scores)
    print(f"\nOne interval of 300 scores: {(time.perf_counter() - started) / 200 * 1000:.2f} ms")
    print("Missed: " + ("; ".join(missed) or "nothing"))
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
