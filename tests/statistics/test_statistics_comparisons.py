"""Two runs compared: the test is exact, finds real drops, leaves unchanged runs alone, and says what it cannot see."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.statistics import compare

properties = settings(deadline=None, max_examples=50)
grades = st.sampled_from([0.0, 0.2, 0.25, 1 / 3, 0.5, 2 / 3, 1.0])
pairs = st.lists(st.tuples(grades, grades), min_size=1, max_size=9)


def _number(value: float | None) -> float:
    assert value is not None
    return value


def _runs(sample):
    baseline = {f"q{position}": before for position, (before, _) in enumerate(sample)}
    current = {f"q{position}": after for position, (_, after) in enumerate(sample)}
    return baseline, current


def _all_sign_patterns(sums) -> float:
    sums = [total for total in sums if abs(total) > 1e-12]
    observed = abs(sum(sums)) - 1e-9
    patterns = list(itertools.product([-1, 1], repeat=len(sums)))
    return sum(abs(sum(s * d for s, d in zip(p, sums, strict=True))) >= observed for p in patterns) / len(patterns)


@properties
@given(pairs)
def test_p_is_the_share_of_sign_patterns_at_least_as_extreme(sample):
    comparison = compare(*_runs(sample))
    assert comparison.p_value == pytest.approx(_all_sign_patterns([after - before for before, after in sample]))


@properties
@given(pairs, st.lists(st.integers(0, 3), min_size=9, max_size=9))
def test_clusters_flip_as_one(sample, numbers):
    clusters = {f"q{position}": f"d{number}" for position, number in enumerate(numbers)}
    used = numbers[: len(sample)]
    if len(set(used)) == 1:
        used = range(len(sample))
    sums = dict.fromkeys(used, 0.0)
    for number, (before, after) in zip(used, sample, strict=True):
        sums[number] += after - before
    assert compare(*_runs(sample), clusters).p_value == pytest.approx(_all_sign_patterns(sums.values()))


def test_scores_off_the_grid_have_the_exact_p_too():
    rng = np.random.default_rng(3)
    sample = list(zip(rng.random(12), rng.random(12), strict=True))
    exact = _all_sign_patterns([after - before for before, after in sample])
    assert compare(*_runs(sample)).p_value == pytest.approx(exact, rel=0.01)


def test_p_values_far_below_any_number_of_draws():
    baseline = {f"q{position}": 1.0 for position in range(60)}
    current = {item: 0.0 if position < 20 else 1.0 for position, item in enumerate(baseline)}
    assert compare(baseline, current).p_value == pytest.approx(2.0**-19)


@properties
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_exchanging_the_runs_turns_the_comparison_round(sample):
    there, back = compare(*_runs(sample)), compare(*_runs([(after, before) for before, after in sample]))
    assert -1 <= _number(there.low) <= _number(there.difference) <= _number(there.high) <= 1
    assert back.difference == pytest.approx(-_number(there.difference), abs=1e-12)
    assert (back.low, back.high) == pytest.approx((-_number(there.high), -_number(there.low)), abs=1e-9)
    assert back.p_value == pytest.approx(there.p_value)
    assert back.minimum_detectable_effect == pytest.approx(there.minimum_detectable_effect)


def test_only_items_that_both_runs_scored_count():
    comparison = compare({"a": 0.5, "b": 1.0, "c": None, "d": 0.1}, {"b": 0.0, "a": 0.5, "c": 1.0, "e": 0.3})
    assert (comparison.n_shared, comparison.difference) == (2, -0.5)
    nothing = compare({"a": 0.5}, {"b": 0.5})
    assert nothing.n_shared == 0
    assert nothing.difference is nothing.p_value is nothing.minimum_detectable_effect is None


def test_an_unchanged_run_is_no_difference_but_not_proof_of_none():
    run = {f"q{position}": float(position % 7 > 0) for position in range(50)}
    comparison = compare(run, run)
    assert (comparison.difference, comparison.p_value) == (0.0, 1.0)
    assert _number(comparison.low) < 0 < _number(comparison.high)
    # Six failures of 50 are the fewest that can be significant; at a drop of .157 there are so many 4 times in 5.
    assert comparison.minimum_detectable_effect == pytest.approx(0.157, abs=0.015)


@pytest.mark.parametrize("value", [float("nan"), 1.5, -0.1, float("inf")])
def test_what_is_no_score_is_refused(value):
    with pytest.raises(ValueError, match=r"scores in \[0, 1\]; 1 lie outside"):
        compare({"a": value, "b": 0.5}, {"a": 0.5, "b": 0.5})


def test_too_few_clusters_can_show_nothing():
    run = {f"q{position}": 1.0 for position in range(40)}
    clusters = {f"q{position}": f"document {position % 4}" for position in range(40)}
    assert compare(run, run, clusters).minimum_detectable_effect is None
    assert compare(run, run).minimum_detectable_effect is not None


def _hit_rates(rng, n: int, drop: float):
    """Two runs of 0/1 scores about .9: a tenth of the questions are answered anew, and `drop` of all fail."""
    before = rng.random(n) < 0.9
    after = np.where(rng.random(n) < 0.1, rng.random(n) < 0.9, before) & (rng.random(n) >= drop / 0.9)
    return _runs(list(zip(before * 1.0, after * 1.0, strict=True)))


def test_unchanged_quality_is_rarely_called_different():
    rng = np.random.default_rng(11)
    comparisons = [compare(*_hit_rates(rng, 100, 0.0)) for _ in range(300)]
    assert sum(_number(comparison.p_value) <= 0.05 for comparison in comparisons) <= 0.05 * 300
    assert sum(_number(comparison.low) <= 0 <= _number(comparison.high) for comparison in comparisons) >= 0.95 * 300


@pytest.mark.parametrize("n", [50, 200])
def test_the_minimum_detectable_effect_is_found_four_times_in_five(n):
    rng = np.random.default_rng(13)
    effects = [_number(compare(*_hit_rates(rng, n, 0.0)).minimum_detectable_effect) for _ in range(50)]
    drop = sum(effects) / len(effects)
    found = sum(_number(compare(*_hit_rates(rng, n, drop)).p_value) <= 0.05 for _ in range(300))
    assert 0.7 * 300 <= found <= 0.95 * 300


def test_drops_of_whole_documents_need_more_of_them():
    rng = np.random.default_rng(19)
    clusters = {f"q{position}": f"document {position // 10}" for position in range(200)}
    false_alarms = {"heeded": 0, "ignored": 0}
    for _ in range(200):
        # What is noise to one question is noise to its whole document.
        shifts = np.repeat(rng.choice([-0.4, 0.0, 0.4], 20, p=[0.1, 0.8, 0.1]), 10)
        baseline, current = _runs([(0.5, 0.5 + shift) for shift in shifts])
        false_alarms["heeded"] += _number(compare(baseline, current, clusters).p_value) <= 0.05
        false_alarms["ignored"] += _number(compare(baseline, current).p_value) <= 0.05
    assert false_alarms["heeded"] <= 0.05 * 200
    assert false_alarms["ignored"] > 0.3 * 200
