"""The interval of a mean keeps its promise, is total, and depends on nothing but the scores."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.statistics import mean_interval

# No deadline: the machine may be busy with something else.
properties = settings(deadline=None, max_examples=50)
scores = st.floats(0, 1) | st.sampled_from([0.0, 1.0, 0.5])
samples = st.lists(scores, min_size=1, max_size=80)
clustered = st.lists(st.tuples(scores, st.none() | st.integers(0, 6)), min_size=1, max_size=80)


@properties
@given(clustered, st.sampled_from([0.5, 0.8, 0.95, 0.999]))
def test_bounds_enclose_the_mean_and_stay_in_range(sample, confidence):
    values, clusters = [value for value, _ in sample], [cluster for _, cluster in sample]
    for interval in (mean_interval(values, confidence=confidence), mean_interval(values, clusters, confidence)):
        assert 0 <= interval.low <= interval.mean <= interval.high <= 1
        assert interval.low < interval.high
        assert interval.mean == pytest.approx(math.fsum(values) / len(values), abs=1e-12)


@properties
@given(clustered, st.randoms())
def test_the_order_and_the_names_of_clusters_do_not_matter(sample, random):
    shuffled = random.sample(sample, len(sample))
    first = mean_interval([value for value, _ in sample], [cluster for _, cluster in sample])
    second = mean_interval(
        [value for value, _ in shuffled],
        [None if cluster is None else f"document {cluster}" for _, cluster in shuffled],
    )
    assert (second.mean, second.low, second.high) == pytest.approx((first.mean, first.low, first.high), abs=1e-6)


@properties
@given(samples)
def test_turning_the_scores_round_turns_the_interval_round(values):
    interval, turned = mean_interval(values), mean_interval([1 - value for value in values])
    assert turned.low == pytest.approx(1 - interval.high, abs=1e-9)
    assert turned.high == pytest.approx(1 - interval.low, abs=1e-9)


@properties
@given(samples)
def test_clusters_of_one_score_change_nothing(values):
    assert mean_interval(values, range(len(values))) == mean_interval(values)
    assert mean_interval(values, [None] * len(values)) == mean_interval(values)
    assert mean_interval(values, ["only"] * len(values)) == mean_interval(values)


@properties
@given(samples)
def test_more_confidence_is_wider(values):
    narrow, wide = mean_interval(values, confidence=0.8), mean_interval(values, confidence=0.99)
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


@properties
@given(samples, st.integers(0, 79), scores)
def test_a_higher_score_moves_no_bound_down(values, position, higher):
    raised = list(values)
    raised[position % len(values)] = max(raised[position % len(values)], higher)
    before, after = mean_interval(values), mean_interval(raised)
    assert after.low >= before.low - 1e-9
    assert after.high >= before.high - 1e-9


@pytest.mark.parametrize("value", [0.0, 0.7, 1.0])
def test_equal_scores_leave_room_for_the_unseen(value):
    widths = [mean_interval([value] * n) for n in (1, 10, 100, 1000)]
    assert all(interval.high - interval.low > 0 for interval in widths)
    assert [i.high - i.low for i in widths] == sorted((i.high - i.low for i in widths), reverse=True)
    assert mean_interval([1.0] * 10).high == 1.0
    assert 0.69 < mean_interval([1.0] * 10).low < 0.75
    assert (mean_interval([0.7]).low < 0.05, mean_interval([0.7]).high > 0.95) == (True, True)


@pytest.mark.parametrize("values", [[1e-300, 0.0], [5e-324], [1 - 1e-16] * 3, [1.0] * 50_000 + [0.0], [0.5, 1e-17]])
def test_extreme_scores_still_have_an_interval(values):
    interval = mean_interval(values)
    assert 0 <= interval.low <= interval.mean <= interval.high <= 1


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([], {}, "interval of a mean"),
        ([0.5, float("nan")], {}, "interval of a mean"),
        ([-1e-9], {}, "interval of a mean"),
        ([1.0000001], {}, "interval of a mean"),
        ([0.5, 0.6], {"clusters": ["a"]}, "2 scores need 2 clusters, not 1"),
        ([0.5], {"confidence": 1.0}, "confidence"),
        ([0.5], {"confidence": 95.0}, "confidence"),
        ([0.5], {"confidence": float("nan")}, "confidence"),
    ],
)
def test_what_is_no_score_no_cluster_or_no_confidence_is_refused(values, options, message):
    with pytest.raises(ValueError, match=message):
        mean_interval(values, **options)


def _binomial_coverage(n: int, p: float) -> float:
    """The exact chance that the interval of n 0/1 scores holds p."""
    covered = 0.0
    for ones in range(n + 1):
        interval = mean_interval([1.0] * ones + [0.0] * (n - ones))
        if interval.low <= p <= interval.high:
            covered += math.comb(n, ones) * p**ones * (1 - p) ** (n - ones)
    return covered


@pytest.mark.parametrize("n", [2, 9, 10, 20, 30])
def test_rates_are_covered_whatever_they_are(n):
    assert min(_binomial_coverage(n, p) for p in [0.02, 0.05, 0.0998, 0.2, 0.3, 0.5]) >= 0.93


def _wilson_width(ones: int, n: int) -> float:
    z = 1.959964
    return 2 * z / (1 + z * z / n) * math.sqrt(ones * (n - ones) / n**3 + z * z / (4 * n * n))


@pytest.mark.parametrize("n", [10, 20, 50, 200])
def test_rates_are_hardly_wider_than_wilson(n):
    for ones in range(n + 1):
        interval = mean_interval([1.0] * ones + [0.0] * (n - ones))
        assert interval.high - interval.low <= 1.2 * _wilson_width(ones, n)


T_QUANTILES = {10: 2.2622, 20: 2.0930, 50: 2.0096, 200: 1.9720}
WIDTH_LIMITS = {10: 2.6, 20: 2.2, 50: 1.6, 200: 1.3}


def _draws(name: str, size: tuple[int, int]):
    """Seeded draws and their true mean."""
    rng = np.random.default_rng(20240607)
    kind = rng.random(size)
    if name == "bernoulli .95":
        return (kind < 0.95) * 1.0, 0.95
    if name == "beta(8, 1)":
        return rng.beta(8, 1, size), 8 / 9
    if name == "0/1-inflated uniform":
        return np.where(kind < 0.1, 0.0, np.where(kind < 0.5, 1.0, rng.random(size))), 0.65
    return np.where(kind < 0.05, 0.0, rng.beta(8, 1, size)), 0.95 * 8 / 9


@pytest.mark.parametrize("n", [10, 20, 50, 200])
@pytest.mark.parametrize("name", ["bernoulli .95", "beta(8, 1)", "0/1-inflated uniform", "0-inflated beta(8, 1)"])
def test_nominal_95_percent_means_at_least_93(name, n):
    # benchmarks/intervals.py does it with 10,000 repetitions and more distributions.
    draws, true_mean = _draws(name, (400, n))
    intervals = [mean_interval(row) for row in draws]
    covered = sum(interval.low <= true_mean <= interval.high for interval in intervals)
    assert covered >= 0.93 * len(draws)
    width = sum(interval.high - interval.low for interval in intervals) / len(draws)
    t_width = 2 * T_QUANTILES[n] * draws.std(axis=1, ddof=1).mean() / math.sqrt(n)
    assert width <= WIDTH_LIMITS[n] * t_width


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_questions_of_one_document_are_not_independent(rate):
    # Beta-binomial with an intra-cluster correlation of .3: 20 documents of 10 questions.
    rng = np.random.default_rng(7)
    strength = 1 / 0.3 - 1
    rates = rng.beta(rate * strength, (1 - rate) * strength, (500, 20))
    draws = (rng.random((500, 200)) < np.repeat(rates, 10, axis=1)) * 1.0
    clusters = [f"document {position // 10}" for position in range(200)]
    heeded = [mean_interval(row, clusters) for row in draws]
    assert sum(interval.low <= rate <= interval.high for interval in heeded) >= 0.93 * 500
    ignored = [mean_interval(row) for row in draws]
    assert sum(interval.low <= rate <= interval.high for interval in ignored) < 0.85 * 500


def test_importing_the_package_does_not_import_numpy():
    program = "import sys, rageval_dagster.statistics; print('numpy' in sys.modules, 'scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
