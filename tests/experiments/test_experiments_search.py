"""`search` finds a good configuration, within its budget, and claims no more than it knows."""

import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.errors import SettingsError
from rageval_dagster.experiments import SearchResult, search

SPACE = {"chunk_size": [256, 512, 1024], "retriever": ["dense", "bm25", "hybrid"], "k": [1, 3, 5, 10]}
KEYS = list(product(*SPACE.values()))
Evaluate = Callable[[dict[str, Any], list[Any]], list[float | None]]


def scores_of(table: np.ndarray) -> Evaluate:
    """Scores from a table [configurations, questions]."""
    number = {key: row for row, key in enumerate(KEYS)}
    return lambda configuration, questions: table[number[tuple(configuration.values())], questions].tolist()


def with_effects(seed: int, questions: int = 150) -> np.ndarray:
    """Hybrid is best by .1, k = 5 by .05; questions differ much more than that."""
    rng = np.random.default_rng(seed)
    worth = [0.1 * (retriever == "hybrid") + 0.05 * (k == 5) for _, retriever, k in KEYS]
    noise = rng.normal(0, 0.1, (len(KEYS), questions))
    return np.clip(0.45 + np.array(worth)[:, None] + rng.normal(0, 0.15, questions) + noise, 0, 1)


def truth(table: np.ndarray, result: SearchResult) -> float:
    assert result.best is not None
    return float(table[KEYS.index(tuple(result.best.values()))].mean())


def test_the_best_is_found_at_a_fifth_of_the_grid() -> None:
    found = 0
    for seed in range(5):
        table = with_effects(seed)
        result = search(SPACE, scores_of(table), range(150), budget=table.size // 5, seed=seed)
        found += truth(table, result) >= table.mean(axis=1).max() - 0.02
    assert found == 5


def test_a_winner_is_surely_better_and_alone() -> None:
    def evaluate(configuration: dict[str, Any], questions: list[int]) -> list[float]:
        return [0.9 if configuration["k"] == 3 else 0.2 + question % 3 / 10 for question in questions]

    result = search({"k": [1, 3, 5]}, evaluate, range(120), budget=360)
    assert result.winner
    assert result.best == {"k": 3}
    assert result.tied == [{"k": 3}]
    assert result.estimate is not None
    assert result.estimate.low < 0.9 < result.estimate.high or result.estimate.mean == pytest.approx(0.9)
    assert {trial.configuration["k"]: trial.left_because for trial in result.trials}[3] is None


def test_equal_configurations_have_no_winner() -> None:
    winners = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        table = np.clip(rng.normal(0.5, 0.3, 120) + rng.normal(0, 0.2, (len(KEYS), 120)), 0, 1)
        winners += search(
            {"k": SPACE["k"][:2]}, lambda c, q, t=table: t[c["k"], q].tolist(), range(120), budget=240
        ).winner
    assert winners <= 3  # 1 expected at the very most; more than 3 of 20 at 5 % has a chance of 1.6 %


def test_the_estimate_is_not_the_luck_of_the_best() -> None:
    """The best of 36 equal ones looks good where it was chosen; its interval covers the truth all the same."""
    covered = []
    for seed in range(12):
        table = (np.random.default_rng(seed).random((12, 120)) < 0.5).astype(float)
        found = search({"k": range(12)}, lambda c, q, t=table: t[c["k"], q].tolist(), range(120), budget=700, seed=seed)
        assert found.estimate is not None
        covered.append(found.estimate.low <= 0.5 <= found.estimate.high)
    assert sum(covered) >= 9  # at 95 % fewer have a chance of .02 %


@settings(max_examples=15, deadline=None)
@given(
    budget=st.integers(1, 700),
    questions=st.integers(1, 130),
    size=st.integers(1, 12),
    seed=st.integers(0, 3),
    direction=st.sampled_from(["higher", "lower"]),
)
def test_no_budget_is_exceeded_and_no_question_asked_twice(
    budget: int, questions: int, size: int, seed: int, direction: Any
) -> None:
    rng = np.random.default_rng(seed)
    asked: list[tuple[int, int]] = []

    def evaluate(configuration: dict[str, Any], ids: list[int]) -> list[float | None]:
        asked.extend((configuration["n"], each) for each in ids)
        return [None if value < 0.1 else value for value in rng.random(len(ids)).tolist()]

    clusters = [each // 4 for each in range(questions)]
    result = search(
        {"n": list(range(size))}, evaluate, range(questions), clusters, budget=budget, direction=direction, seed=seed
    )
    assert result.evaluations == len(asked) == len(set(asked)) <= budget
    assert result.best in result.tied
    assert len(result.trials) == len({number for number, _ in asked})
    assert all(0 <= trial.mean <= 1 for trial in result.trials)


def test_clusters_are_not_torn_between_choosing_and_holding_out() -> None:
    clusters = [f"document {each // 7}" for each in range(140)]
    asked: dict[int, set[int]] = {}

    def evaluate(configuration: dict[str, Any], ids: list[int]) -> list[float]:
        asked.setdefault(configuration["n"], set()).update(ids)
        return [(configuration["n"] + each % 5) / 20 for each in ids]

    result = search({"n": list(range(12))}, evaluate, range(140), clusters, budget=1200)
    finalists = {trial.number for trial in result.trials if trial.held_out is not None}
    assert finalists
    others = set[int]().union(*(ids for number, ids in asked.items() if number not in finalists))
    held_out = set[int]().union(*(asked[number] for number in finalists)) - others
    assert len(held_out) >= 140 / 3
    assert not {clusters[each] for each in held_out} & {clusters[each] for each in others}


def test_a_failed_question_counts_as_the_worst_score() -> None:
    def evaluate(configuration: dict[str, Any], ids: list[int]) -> list[float | None]:
        fails = configuration["model"] == "flaky"
        return [None if fails and each % 2 else 0.6 for each in ids]

    for direction, mean in (("higher", 0.3), ("lower", 0.8)):
        space = {"model": ["steady", "flaky"]}
        result = search(space, evaluate, range(40), budget=80, direction=direction)  # type: ignore[arg-type]
        assert result.best == {"model": "steady"}
        assert [trial.mean for trial in result.trials] == [pytest.approx(0.6), pytest.approx(mean)]


def test_scores_beyond_one_keep_their_scale() -> None:
    def seconds(configuration: dict[str, Any], ids: list[int]) -> list[float]:
        return [100.0 * configuration["k"] + each % 10 for each in ids]

    result = search({"k": [1, 2, 3]}, seconds, range(120), budget=400, tolerance=1, direction="lower")
    assert result.best == {"k": 1}
    assert result.winner
    assert result.estimate is not None
    assert result.estimate.mean == pytest.approx(104.5, abs=2)
    assert result.estimate.low <= result.estimate.mean <= result.estimate.high


def test_a_list_of_configurations_may_lack_parameters() -> None:
    space = [{"retriever": "bm25"}, *({"retriever": "dense", "model": model} for model in "abcdefgh")]
    asked: list[dict[str, Any]] = []

    def evaluate(configuration: dict[str, Any], ids: list[int]) -> list[float]:
        asked.append(configuration)
        return [0.9 - each % 3 / 10 if configuration.get("model") == "g" else 0.4 for each in ids]

    result = search(space, evaluate, range(60), budget=500)
    assert result.best == {"retriever": "dense", "model": "g"}
    assert all(configuration in space for configuration in asked)


def test_one_question_makes_it_a_search_over_means() -> None:
    rng = np.random.default_rng(0)
    regrets = []
    for seed in range(8):
        worth = with_effects(0, 400).mean(axis=1)
        noisy = (worth + rng.normal(0, 0.01, len(KEYS)))[:, None]
        result = search(SPACE, scores_of(noisy), [0], budget=14, seed=seed)
        assert result.evaluations == 14
        assert result.estimate is None
        assert not result.winner
        regrets.append(worth.max() - worth[KEYS.index(tuple((result.best or {}).values()))])
    assert np.mean(regrets) < 0.02  # a random one is worse by .1


def test_few_questions_are_all_used_to_choose() -> None:
    result = search({"k": [1, 2, 3]}, lambda c, ids: [c["k"] / 4 + each % 2 / 9 for each in ids], range(40), budget=200)
    assert result.best == {"k": 3}
    assert result.estimate is None
    assert {trial.n for trial in result.trials if trial.left_because is None} == {40}


BAD = {
    "the space holds no configuration": {"space": {}},
    "needs a list of at least one value": {"space": {"k": []}},
    "needs a list of at least one value, not 'dense'": {"space": {"retriever": "dense"}},
    "has the value 3 twice": {"space": {"k": [3, 5, 3]}},
    "holds the configuration {'k': 3} twice": {"space": [{"k": 3}, {"k": 3}]},
    "there are no questions": {"questions": []},
    "the question id 'a' is there twice": {"questions": ["a", "b", "a"]},
    "2 questions and 1 clusters": {"clusters": ["x"]},
    "a whole number of at least 1, not 0": {"budget": 0},
    "a number of at least 0, not -1": {"tolerance": -1},
    "give 'higher' or 'lower'": {"direction": "up"},
    "a whole number from 0": {"seed": -1},
    "3 scores for 2 questions": {"evaluate": lambda _configuration, ids: [0.5] * (len(ids) + 1)},
    "give a finite number or None": {"evaluate": lambda _configuration, ids: [math.nan] * len(ids)},
    "not 'ab'": {"questions": "ab"},
    "the question id ['a'] cannot be a name": {"questions": [["a"], ["b"]]},
    "the question 'b' has no cluster": {"clusters": {"a": "x"}},
    "the cluster ['x'] cannot be a name": {"clusters": {"a": ["x"], "b": ["x"]}},
    "the space is the values of each parameter": {"space": ["k", "j"]},
    "a list of configurations, as in": {"space": None},
    "are None; give a list": {"evaluate": lambda _configuration, _ids: None},
    "are 0.5; give a list": {"evaluate": lambda _configuration, _ids: 0.5},
    "in the order of the questions": {"evaluate": lambda _configuration, ids: dict.fromkeys(ids, 0.5)},
    "is 'good'": {"evaluate": lambda _configuration, ids: ["good"] * len(ids)},
}


@pytest.mark.parametrize("said", BAD)
def test_what_cannot_be_used_is_one_sentence(said: str) -> None:
    arguments: dict[str, Any] = {
        "space": {"k": [1, 2]},
        "evaluate": lambda _configuration, ids: [0.5] * len(ids),
        "questions": ["a", "b"],
        "budget": 10,
    }
    with pytest.raises(SettingsError) as error:
        search(**{**arguments, **BAD[said]})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_clusters_by_question_are_those_in_order() -> None:
    questions = list(range(120))
    documents = [question // 10 for question in questions]
    one, other = (
        search(SPACE, scores_of(with_effects(3)), questions, clusters, budget=400, seed=3)
        for clusters in (documents, dict(reversed([*zip(questions, documents, strict=True), ("unused", 0)])))
    )
    assert one == other
    assert one.estimate is not None


def test_numbers_and_questions_may_be_numpy_s() -> None:
    table = with_effects(5)
    wanted = search(SPACE, scores_of(table), list(range(90)), budget=200, seed=5)
    found = search(
        SPACE,
        lambda configuration, ids: np.array(scores_of(table)(configuration, ids)),  # pyright: ignore[reportArgumentType]
        np.arange(90),  # pyright: ignore[reportArgumentType]
        budget=np.int64(200),  # pyright: ignore[reportArgumentType]
        seed=np.int64(5),  # pyright: ignore[reportArgumentType]
    )
    assert found == wanted


def test_a_space_beyond_all_numbers_is_searched() -> None:
    space = {f"p{place}": list(range(10)) for place in range(20)}
    assert search(space, lambda _configuration, ids: [0.5] * len(ids), [0], budget=3).evaluations == 3


def test_importing_it_loads_nothing_heavy() -> None:
    program = (
        "import sys, rageval_dagster.experiments\n"
        "print({'numpy', 'scipy', 'optuna', 'torch', 'dagster', 'sqlalchemy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_large_space_is_searched_too() -> None:
    space: dict[str, Sequence[Any]] = {f"p{place}": list(range(6)) for place in range(6)}
    result = search(space, lambda c, ids: [sum(c.values()) / 30] * len(ids), [0], budget=12)
    assert result.best is not None
    assert sum(result.best.values()) / 30 > 0.65
