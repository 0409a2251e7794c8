"""How well `rageval_dagster.experiments.search` finds the best configuration, against other ways, at equal cost.

Usage: python benchmarks/experiments.py [--replays 40] [--only PART] [--sets clapnq xquad_en]

Parts: same, alike, equal, means.

It replays two tables of real scores, 100 configurations x 300 questions each (benchmarks/experiment_tables), so that
nothing is asked. Cost is the number of questions asked, in percent of all 30,000; held-out ones count. A search
succeeds where what it chooses is within .01 of the best. There are two truths to hold that against:

- same: a configuration's mean over all 300 questions of the table. It is what the full grid would find, but favours who
  chooses by all of them: the search keeps a third out.
- alike: each replay draws 300 questions from the table, by whole documents and with replacement, and the truth is the
  mean over the table. So the questions asked are a sample, as they are for a user, and the full grid errs as well. The
  search's estimates are held against this truth.

`equal` shuffles each question's scores over the configurations, so that all are equally good: who names a winner is
wrong. `means` simulates spaces where a configuration has one noisy score (main effects, pair effects, noise) and counts
the regret: by how much the chosen one is worse than the best.
"""

import argparse
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads that wait for each other take ten times as long

import numpy as np
import optuna

from rageval_dagster.experiments import SearchResult, search

TABLES = Path(__file__).parent / "experiment_tables"
SETS = ("clapnq", "xquad_en")
SPACE = {"chunk_size": [200, 400, 700, 1200], "dense": [0.0, 0.25, 0.5, 0.75, 1.0], "k": [1, 2, 3, 5, 8]}
BUDGETS = (2, 5, 10, 15, 25, 40)
TOLERANCE = 0.01
RANDOM_NODES = 4

SIMULATED = {"model": ["a", "b", "c", "d"], "embedder": ["a", "b", "c"], "chunk": [1, 2, 3, 4], "k": [1, 2, 3, 4]}
MAIN = {"model": 0.06, "embedder": 0.03, "chunk": 0.02, "k": 0.02}
PAIR, NOISE = 0.01, 0.02
EVALUATIONS = (10, 20)

Way = Callable[["World", int, int], int]


@dataclass(frozen=True)
class World:
    """`scores` [configurations, questions] that can be asked, the questions' clusters, and each one's true mean."""

    scores: np.ndarray
    clusters: list[int]
    truth: np.ndarray
    space: dict[str, list[Any]]

    @property
    def levels(self) -> list[tuple[int, ...]]:
        return list(product(*(range(len(values)) for values in self.space.values())))


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(TABLES / f"{name}.npz") as kept:
        return kept["scores"] / 250, kept["clusters"].astype(int)


def world(name: str, kind: str, seed: int) -> World:
    scores, clusters = table(name)
    truth = scores.mean(axis=1)
    rng = np.random.default_rng(seed)
    if kind == "equal":
        return World(rng.permuted(scores, axis=0), clusters.tolist(), np.full(len(scores), scores.mean()), SPACE)
    if kind == "same":
        return World(scores, clusters.tolist(), truth, SPACE)
    members = [np.flatnonzero(clusters == cluster) for cluster in range(clusters.max() + 1)]
    columns: list[int] = []
    drawn: list[int] = []
    while len(columns) < scores.shape[1]:
        own = members[rng.integers(len(members))]
        columns += own.tolist()
        drawn += [len(drawn)] * len(own)
    size = scores.shape[1]
    return World(scores[:, columns[:size]], drawn[:size], truth, SPACE)


def simulated(seed: int) -> World:
    rng = np.random.default_rng(seed)
    shape = tuple(map(len, SIMULATED.values()))
    truth = np.full(shape, 0.6)
    for axis, (name, size) in enumerate(zip(SIMULATED, shape, strict=True)):
        truth += _along(rng.normal(0, MAIN[name], size), (axis,))
        for other in range(axis):
            truth += _along(rng.normal(0, PAIR, (shape[other], size)), (other, axis))
    flat = truth.ravel()
    return World((flat + rng.normal(0, NOISE, flat.size))[:, None], [0], flat, SIMULATED)


def _along(effect: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    shape = [1] * len(SIMULATED)
    for axis, size in zip(axes, effect.shape, strict=True):
        shape[axis] = size
    return effect.reshape(shape)


def ours(world: World, budget: int, seed: int) -> tuple[int, SearchResult]:
    number = {levels: place for place, levels in enumerate(product(*world.space.values()))}

    def evaluate(configuration: dict[str, Any], questions: list[int]) -> list[float]:
        return world.scores[number[tuple(configuration.values())], questions].tolist()

    questions = list(range(world.scores.shape[1]))
    result = search(world.space, evaluate, questions, world.clusters, budget=budget, seed=seed)
    assert result.best is not None
    assert result.evaluations <= budget
    return number[tuple(result.best.values())], result


def our_choice(world: World, budget: int, seed: int) -> int:
    return ours(world, budget, seed)[0]


def random_search(world: World, budget: int, seed: int) -> int:
    """Every configuration on all questions; the highest mean."""
    tried = np.random.default_rng(seed).permutation(len(world.scores))[: max(1, budget // world.scores.shape[1])]
    return best_of(world, tried.tolist())


def tpe(world: World, budget: int, seed: int) -> int:
    """Optuna's sampler as it comes, a third of the trials at random, every configuration on all questions."""
    count = min(len(world.scores), max(1, budget // world.scores.shape[1]))
    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=max(2, count // 3))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    tried: list[int] = []
    for _ in range(20 * count):
        trial = study.ask()
        levels = tuple(
            trial.suggest_categorical(name, range(len(values)))
            if isinstance(values[0], str)
            else trial.suggest_int(name, 0, len(values) - 1)
            for name, values in world.space.items()
        )
        number = world.levels.index(levels)
        study.tell(trial, float(world.scores[number].mean()))
        if number not in tried:
            tried.append(number)
        if len(tried) == count:
            break
    return best_of(world, tried)


def halving(world: World, budget: int, seed: int) -> int:
    """Successive halving of all configurations, each on questions of its own choice."""
    rng = np.random.default_rng(seed)
    order = rng.permuted(np.tile(np.arange(world.scores.shape[1]), (len(world.scores), 1)), axis=1)
    left = rng.permutation(len(world.scores)).tolist()
    rungs = math.ceil(math.log2(len(left)))
    asked = dict.fromkeys(left, 0)
    for _ in range(rungs):
        for number in left:
            asked[number] = min(world.scores.shape[1], asked[number] + budget // rungs // len(left))
        means = {n: world.scores[n, order[n, : asked[n]]].mean() if asked[n] else 0.0 for n in left}
        left = sorted(left, key=lambda number: -means[number])[: max(1, len(left) // 2)]
    return left[0]


def gam(world: World, budget: int, seed: int) -> int:
    """As ai4rag describes its own: some at random, then always the one that an additive model of means predicts best.

    The model has a penalised effect for each value (penalty .6, as in pyGAM) on all questions' means.
    """
    count = min(len(world.scores), max(1, budget // world.scores.shape[1]))
    tried = np.random.default_rng(seed).permutation(len(world.scores))[: min(RANDOM_NODES, count)].tolist()
    sizes = [len(values) for values in world.space.values()]
    effects = np.array(
        [np.concatenate([np.eye(n)[level] for n, level in zip(sizes, row, strict=True)]) for row in world.levels]
    )
    while len(tried) < count:
        means = world.scores[tried].mean(axis=1)
        used = effects[tried]
        weights = np.linalg.solve(used.T @ used + 0.6 * np.eye(used.shape[1]), used.T @ (means - means.mean()))
        predicted = effects @ weights
        predicted[tried] = -np.inf
        tried.append(int(predicted.argmax()))
    return best_of(world, tried)


def greedy(world: World, budget: int, seed: int) -> int:
    """Models first: one parameter after the other, all its values, with the best so far of the others."""
    rng = np.random.default_rng(seed)
    current = [int(rng.integers(len(values))) for values in world.space.values()]
    tried: list[int] = []
    while len(tried) < budget:
        before = len(tried)
        for axis, values in enumerate(world.space.values()):
            for level in range(len(values)):
                number = world.levels.index((*current[:axis], level, *current[axis + 1 :]))
                if number not in tried and len(tried) < budget:
                    tried.append(number)
            current = list(world.levels[best_of(world, tried)])
        if len(tried) == before:
            tried += [number for number in rng.permutation(len(world.scores)).tolist() if number not in tried][:1]
    return best_of(world, tried)


def full_grid(world: World, _budget: int, _seed: int) -> int:
    return best_of(world, list(range(len(world.scores))))


def best_of(world: World, tried: Sequence[int]) -> int:
    return max(tried, key=lambda number: world.scores[number].mean())


WAYS: dict[str, Way] = {
    "search": our_choice,
    "random": random_search,
    "Optuna TPE on means": tpe,
    "halving, unpaired": halving,
    "GAM (ai4rag)": gam,
}


def replay(name: str, kind: str, seed: int) -> dict[tuple[str, int], float]:
    """By how much each way's choice is worse than the best, at each budget; whether our estimate covers the truth."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    made = world(name, kind, seed)
    found: dict[tuple[str, int], float] = {}
    for percent in BUDGETS:
        budget = made.scores.size * percent // 100
        for way, choose in WAYS.items():
            if way == "search":
                chosen, result = ours(made, budget, seed)
                if result.estimate is not None:
                    found["covered", percent] = result.estimate.low <= made.truth[chosen] <= result.estimate.high
                    found["estimate", percent] = result.estimate.mean - made.truth[chosen]
                found["tied", percent] = len(result.tied)
                found["held", percent] = best_tried_is_tied(made, result)
                found["winner", percent] = result.winner
            else:
                chosen = choose(made, budget, seed)
            found[way, percent] = made.truth.max() - made.truth[chosen]
    found["full grid", 100] = made.truth.max() - made.truth[full_grid(made, 0, seed)]
    return found


def best_tried_is_tied(world: World, result: SearchResult) -> bool:
    keys = list(product(*world.space.values()))
    truth = {tuple(trial.configuration.values()): 0.0 for trial in result.trials}
    truth = {key: float(world.truth[keys.index(key)]) for key in truth}
    return max(truth.values()) == max(truth[tuple(each.values())] for each in result.tied)


def replay_equal(name: str, seed: int) -> dict[tuple[str, int], float]:
    made = world(name, "equal", seed)
    return {("winner", percent): ours(made, made.scores.size * percent // 100, seed)[1].winner for percent in (5, 15)}


def replay_means(seed: int) -> dict[tuple[str, int], float]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    made = simulated(seed)
    ways = {**WAYS, "greedy, models first": greedy}
    del ways["halving, unpaired"]
    return {
        (way, count): made.truth.max() - made.truth[choose(made, count, seed)]
        for way, choose in ways.items()
        for count in EVALUATIONS
    } | {("full grid", 192): made.truth.max() - made.truth[full_grid(made, 0, seed)]}


def collected(
    job: Callable[[int], dict[tuple[str, int], float]], replays: int, pool: ProcessPoolExecutor
) -> dict[tuple[str, int], np.ndarray]:
    found: dict[tuple[str, int], list[float]] = {}
    for each in pool.map(job, range(replays), chunksize=4):
        for key, value in each.items():
            found.setdefault(key, []).append(value)
    return {key: np.array(values) for key, values in found.items()}


def report(name: str, kind: str, replays: int, pool: ProcessPoolExecutor) -> None:
    found = collected(partial(replay, name, kind), replays, pool)
    print(f"\n{name}, truth: {kind}; share within {TOLERANCE} of the best (mean regret), {replays} replays")
    print(f"  {'questions asked, of the grid':28s}" + "".join(f"{f'{percent} %':>13s}" for percent in BUDGETS))
    for way in WAYS:
        cells = [found[way, percent] for percent in BUDGETS]
        print(f"  {way:28s}" + "".join(f"{success(cell):6.2f} ({cell.mean():.3f})" for cell in cells))
    cell = found["full grid", 100]
    print(f"  {'full grid, 100 %':28s}{success(cell):6.2f} ({cell.mean():.3f})")
    if kind == "alike":
        estimated = [percent for percent in BUDGETS if ("covered", percent) in found]
        covered = np.concatenate([found["covered", percent] for percent in estimated])
        bias = np.concatenate([found["estimate", percent] for percent in estimated])
        print(f"  the estimate's interval holds the truth in {covered.mean():.3f}, its bias is {bias.mean():+.4f}")
    held = "".join(f"{found['held', percent].mean():13.2f}" for percent in BUDGETS)
    print(f"  {'tied has the best one tried':28s}{held}")
    tied = "".join(f"{found['tied', percent].mean():13.1f}" for percent in BUDGETS)
    winners = "".join(f"{found['winner', percent].mean():13.2f}" for percent in BUDGETS)
    print(f"  {'tied, mean number':28s}{tied}\n  {'a winner named':28s}{winners}")


def success(regrets: np.ndarray) -> float:
    return float((regrets <= TOLERANCE + 1e-9).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replays", type=int, default=40)
    parser.add_argument("--only", choices=("same", "alike", "equal", "means"))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    options = parser.parse_args()
    with ProcessPoolExecutor(2) as pool:
        for kind in ("same", "alike"):
            for name in options.sets if options.only in (None, kind) else ():
                report(name, kind, options.replays, pool)
        for name in options.sets if options.only in (None, "equal") else ():
            found = collected(partial(replay_equal, name), options.replays, pool)
            shares = ", ".join(f"{values.mean():.3f} at {percent} %" for (_, percent), values in found.items())
            print(f"\n{name}, all configurations equal: a winner is named in {shares}")
        if options.only in (None, "means"):
            found = collected(replay_means, options.replays, pool)
            print(f"\nOne noisy score a configuration, {192} simulated configurations: mean regret")
            for (way, count), values in found.items():
                error = values.std() / math.sqrt(len(values))
                print(f"  {way:28s} {count:4d} evaluations {values.mean():7.4f} ± {error:.4f}")


if __name__ == "__main__":
    main()
