"""What to try next: Optuna's tree-structured Parzen estimator, told what was tried and how good it seems."""

import warnings
from collections.abc import Mapping, Sequence

from rageval_dagster.experiments.spaces import Configurations


def proposals(
    space: Configurations, worth: Mapping[int, float], untried: Sequence[int], asks: int, seed: int
) -> list[int]:
    """The numbers of at most `asks` untried configurations; `worth` is how good each one tried is, higher is better.

    The study is made anew from what was tried, so nothing of it is ever stored. What Optuna proposes that is not in the
    space, or was tried, stands for the untried configuration that shares most values with it.
    """
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution

    distributions: dict[str, BaseDistribution] = {
        str(place): CategoricalDistribution(range(size)) for place, size in enumerate(space.sizes)
    }
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=0)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for number, value in worth.items():
            params = {str(place): level for place, level in enumerate(space.levels[number])}
            study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=value))
        found = [study.ask(distributions).params for _ in range(asks)]
    finally:
        optuna.logging.set_verbosity(verbosity)

    def shared(number: int, params: Mapping[str, int]) -> int:
        return sum(params[str(place)] == level for place, level in enumerate(space.levels[number]))

    return list(dict.fromkeys(max(untried, key=lambda number: shared(number, params)) for params in found))
