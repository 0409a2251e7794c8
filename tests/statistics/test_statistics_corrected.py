"""Means corrected by labels: they cover the truth, use a judge as far as it is good, and are silent on too little."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.statistics import Corrected, corrected_difference, corrected_mean

properties = settings(deadline=None, max_examples=40)
ANSWERS = 300


def people(rng: np.random.Generator, rate: float = 0.7, count: int = ANSWERS) -> dict[str, float]:
    return {f"answer-{number}": float(each) for number, each in enumerate(rng.random(count) < rate)}


def judged(rng: np.random.Generator, truth: dict[str, float], right: float) -> dict[str, float]:
    """A judge that says of each answer what people do with this chance, else the opposite."""
    return {name: value if rng.random() < right else 1.0 - value for name, value in truth.items()}


def drawn(rng: np.random.Generator, values: dict[str, float], size: int) -> dict[str, float]:
    return {name: values[name] for name in rng.choice(sorted(values), size, replace=False)}


def bounds(found: Corrected) -> tuple[float, float, float]:
    assert found.mean is not None
    assert found.low is not None
    assert found.high is not None
    return found.low, found.mean, found.high


def width(found: Corrected) -> float:
    low, _, high = bounds(found)
    return high - low


@pytest.mark.parametrize("right", [0.5, 0.85, 0.97])
def test_the_interval_covers_what_people_would_say_of_all(right: float) -> None:
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        truth = people(rng)
        low, _, high = bounds(corrected_mean(drawn(rng, truth, 60), judged(rng, truth, right)))
        covered += low <= 0.7 <= high
    assert covered >= 182  # 91 %: three standard errors below 95 %


def test_a_good_judge_makes_it_narrower_and_a_useless_one_hardly_wider() -> None:
    gains: dict[float, list[float]] = {0.5: [], 0.9: []}
    for seed in range(50):
        for right, found in gains.items():
            rng = np.random.default_rng(seed)
            truth = people(rng)
            found.append(corrected_mean(drawn(rng, truth, 60), judged(rng, truth, right)).gain or 0.0)
    assert np.mean(gains[0.9]) > 1.25
    assert min(gains[0.5]) > 0.98


@properties
@given(st.integers(0, 10_000), st.floats(0.0, 0.3))
def test_what_a_judge_adds_to_every_score_is_its_bias_and_no_more(seed: int, by: float) -> None:
    rng = np.random.default_rng(seed)
    truth = people(rng, count=80)
    judge = {name: 0.7 * value for name, value in judged(rng, truth, 0.9).items()}
    labels = drawn(rng, truth, 30)
    plain, shifted = (
        corrected_mean(labels, each) for each in (judge, {name: value + by for name, value in judge.items()})
    )
    assert bounds(shifted) == pytest.approx(bounds(plain))
    assert shifted.bias == pytest.approx((plain.bias or 0.0) + by)


@properties
@given(st.integers(0, 10_000))
def test_the_order_of_answers_and_their_names_do_not_matter(seed: int) -> None:
    rng, shuffled = np.random.default_rng(seed), random.Random(seed)
    truth = people(rng, count=60)
    judge, labels = judged(rng, truth, 0.8), drawn(rng, truth, 25)
    strata = dict(judge)
    renamed = {name: f"other-{name}" for name in truth}

    def again(values: dict[str, float]) -> dict[str, float]:
        rows = [(renamed[name], value) for name, value in values.items()]
        shuffled.shuffle(rows)
        return dict(rows)

    found = corrected_mean(labels, judge, strata=strata)
    other = corrected_mean(again(labels), again(judge), strata=again(strata))
    assert other == found or bounds(other) == pytest.approx(bounds(found))


def test_the_mean_is_that_of_prediction_powered_inference_with_power_tuning() -> None:
    """By the paper's formula, which counts the scores of the answers without a label apart from the others."""
    rng = np.random.default_rng(3)
    truth = people(rng)
    judge = judged(rng, truth, 0.85)
    labels = drawn(rng, truth, 60)
    said = np.array([judge[name] for name in labels])
    people_said = np.array(list(labels.values()))
    rest = np.array([value for name, value in judge.items() if name not in labels])
    covariance = float(((said - said.mean()) * (people_said - people_said.mean())).mean())
    power = covariance / (float(np.var([*said, *rest])) * (1.0 + len(said) / len(rest)))
    expected = power * rest.mean() + (people_said - power * said).mean()
    assert corrected_mean(labels, judge).mean == pytest.approx(expected, abs=1e-9)


def test_draws_with_unequal_chances_are_weighed_by_them() -> None:
    """Of the answers that the judge calls wrong four times as many are labelled, in strata or by their chances."""
    misses = dict.fromkeys(["strata", "chances", "unweighted"], 0)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        truth = people(rng, 0.8)
        judge = judged(rng, truth, 0.85)
        chances = {name: 0.4 if value == 0.0 else 0.1 for name, value in judge.items()}
        labels = {name: value for name, value in truth.items() if rng.random() < chances[name]}
        weightless = dict.fromkeys(judge, 0.5)
        found = {
            "strata": corrected_mean(labels, judge, strata=judge),
            "chances": corrected_mean(labels, weightless, probabilities=chances),
            "unweighted": corrected_mean(labels, weightless),
        }
        for how, each in found.items():
            low, _, high = bounds(each)
            misses[how] += not low <= 0.8 <= high
    assert misses["strata"] <= 12
    assert misses["chances"] <= 12
    assert misses["unweighted"] > 50


def test_answers_that_stand_and_fall_together_widen_the_interval() -> None:
    rng = np.random.default_rng(1)
    topics = {f"answer-{number}": number // 5 for number in range(ANSWERS)}
    fate = (rng.random(ANSWERS // 5) < 0.7).astype(float)
    truth = {name: float(fate[topic]) for name, topic in topics.items()}
    labels = {name: value for name, value in truth.items() if topics[name] < 12}
    judge = judged(rng, truth, 0.8)
    assert width(corrected_mean(labels, judge, clusters=topics)) > 1.5 * width(corrected_mean(labels, judge))


def test_labels_that_all_agree_do_not_promise_that_all_would() -> None:
    truth = dict.fromkeys(people(np.random.default_rng(0)), 1.0)
    found = corrected_mean(dict(list(truth.items())[:60]), truth)
    low, mean, high = bounds(found)
    assert (mean, high) == (1.0, 1.0)
    assert 0.93 < low < 0.97


def test_too_few_labels_and_strata_without_any_have_no_corrected_mean() -> None:
    truth = people(np.random.default_rng(0))
    four = dict(list(truth.items())[:4])
    found = corrected_mean(four, truth)
    assert (found.mean, found.lacking) == (None, "4 labels are too few: at least 5 are needed")
    strata = {name: "new" if number > 200 else "old" for number, name in enumerate(truth)}
    found = corrected_mean(dict(list(truth.items())[:60]), truth, strata=strata)
    assert (found.mean, found.low, found.gain, found.labels) == (None, None, None, 60)
    assert found.lacking == "1 group of similar answers has no label yet"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"judge": {}}, "there is no answer that the judge scored"),
        ({"labels": {"a": 2.0}}, r"labels\['a'\] is 2.0: values lie in \[0, 1\]"),
        ({"judge": {"a": float("nan")}}, r"judge\['a'\] is nan"),
        ({"probabilities": {"a": 0.0}}, "chances of being drawn lie above 0"),
        ({"confidence": 95}, "between 0 and 1, not 95"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        corrected_mean(**{"labels": {"a": 1.0}, "judge": {"a": 1.0}, **arguments})


def test_the_difference_of_two_runs_is_covered() -> None:
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        before = people(rng, 0.8)
        after = {name: value * float(rng.random() < 0.875) for name, value in before.items()}  # .8 to .7
        labelled = drawn(rng, before, 80)
        found = corrected_difference(
            labelled,
            judged(rng, before, 0.9),
            {name: after[name] for name in labelled},
            judged(rng, after, 0.9),
        )
        low, _, high = bounds(found)
        covered += low <= -0.1 <= high
    assert covered >= 182


def test_a_judge_that_drifts_is_told_from_a_system_that_got_worse() -> None:
    """Every answer is the very same; the judge finds a tenth of those it liked wrong now."""
    rng = np.random.default_rng(2)
    truth = people(rng)
    judge = judged(rng, truth, 0.9)
    drifted = {name: value * float(rng.random() < 0.85) for name, value in judge.items()}
    found = corrected_difference(drawn(rng, truth, 60), judge, {}, drifted, unchanged=truth.keys())
    low, mean, high = bounds(found)
    assert mean == pytest.approx(0.0, abs=1e-9)
    assert low <= 0.0 <= high
    assert high - low < 0.01
    assert found.bias == pytest.approx(found.judge)
    assert found.judge < -0.05


def test_labels_kept_from_unchanged_answers_clear_nothing_that_changed() -> None:
    rng = np.random.default_rng(4)
    truth = people(rng)
    judge = judged(rng, truth, 0.9)
    names = list(truth)
    worse = {**judge, **{name: 1.0 - judge[name] for name in names[:60]}}
    kept = {name: truth[name] for name in names[100:160]}
    found = corrected_difference(kept, judge, kept, worse)
    assert (found.mean, found.lacking) == (None, "1 group of similar answers has no label yet")
    anew = {name: 1.0 - truth[name] for name in names[:20]}
    before = {name: truth[name] for name in names[:20]}
    assert corrected_difference({**kept, **before}, judge, {**kept, **anew}, worse).mean is not None
