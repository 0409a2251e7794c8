"""Agreement with labels: against values worked out by hand, and what holds for any scores."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rageval_dagster.statistics.agreement import accuracy, auroc, best_threshold, held_out, kappa, kendall, spearman

SCORES = st.floats(0, 1)
PAIRS = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0]) | SCORES, st.booleans()), min_size=2, max_size=30)


def both(pairs):
    return [value for value, _ in pairs], [label for _, label in pairs]


@pytest.mark.parametrize("labels", [[], [True], [True, True], [False, False]])
def test_with_one_kind_of_label_there_is_no_area(labels):
    assert auroc([0.5] * len(labels), labels) is None


def test_the_interval_is_newcombes():
    """Solved by hand for 5 good and 5 bad ones that are all told apart: (1 - t)^2 = z^2 var(t) at the lower end."""
    found = auroc([0.1] * 5 + [0.9] * 5, [False] * 5 + [True] * 5)
    assert found is not None
    low = found.low
    variance = low * (1 - low) * (1 + 4 * ((1 - low) / (2 - low) + low / (1 + low))) / 25
    assert (1 - low) ** 2 == pytest.approx(1.959964**2 * variance, rel=1e-4)
    assert found.high == 1.0


def test_answers_to_the_same_questions_tell_less():
    generator = random.Random(1)
    labels = [generator.random() < 0.5 for _ in range(60)]
    values = [generator.random() + 0.3 * label for label in labels]
    alone, repeated = auroc(values, labels), auroc(values * 4, labels * 4, clusters=list(range(60)) * 4)
    assert alone is not None
    assert repeated is not None
    assert repeated.mean == pytest.approx(alone.mean)
    assert repeated.high - repeated.low == pytest.approx(alone.high - alone.low, rel=0.1)


@given(PAIRS)
def test_the_area_turns_with_the_scores(pairs):
    values, labels = both(pairs)
    ahead, back = auroc(values, labels), auroc([-value for value in values], labels)
    assert (ahead is None) == (len(set(labels)) < 2)
    if ahead is not None and back is not None:
        assert ahead.mean == pytest.approx(1 - back.mean)
        beaten = [
            (good > bad) + (good == bad) / 2
            for good, is_good in pairs
            if is_good
            for bad, other_good in pairs
            if not other_good
        ]
        assert ahead.mean == pytest.approx(sum(beaten) / len(beaten))
        assert 0.0 <= ahead.low <= ahead.mean <= ahead.high <= 1.0
        assert ahead.low < ahead.high, "a few answers do not tell it exactly"


@pytest.mark.parametrize(
    ("said", "labels", "expected"),
    [
        ([1] * 20 + [1] * 5 + [0] * 10 + [0] * 15, [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15, 0.4),
        ([True, False], [True, False], 1.0),
        ([True, False], [False, True], -1.0),
        ([True, True], [True, False], 0.0),
        ([], [], None),
    ],
)
def test_kappa_is_agreement_beyond_chance(said, labels, expected):
    assert kappa(said, labels) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("values", "labels", "rho", "tau"),
    [
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], 1.0, 1.0),
        ([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], 0.8, 0.6),
        # Mean ranks 1.5 1.5 3 4 and 1 2.5 2.5 4: covariance 3.75, variances 4.5. Of 6 pairs 4 agree, 2 are tied.
        ([1, 1, 2, 3], [1, 2, 2, 3], 3.75 / 4.5, 4 / 5),
        ([0.5, 0.5], [1, 2], None, None),
        ([0.1, 0.2], [1, 1], None, None),
        ([], [], None, None),
    ],
)
def test_rank_correlations(values, labels, rho, tau):
    assert spearman(values, labels) == (None if rho is None else pytest.approx(rho))
    assert kendall(values, labels) == (None if tau is None else pytest.approx(tau))


@given(st.lists(st.tuples(SCORES, st.integers(1, 5)), min_size=2, max_size=25))
def test_kendall_counts_pairs(pairs):
    values, labels = both(pairs)
    difference = untied_values = untied_labels = 0
    for first in range(len(pairs)):
        for second in range(first):
            by_value = (values[first] > values[second]) - (values[first] < values[second])
            by_label = (labels[first] > labels[second]) - (labels[first] < labels[second])
            difference += by_value * by_label
            untied_values += by_value != 0
            untied_labels += by_label != 0
    found = kendall(values, labels)
    if untied_values and untied_labels:
        assert found == pytest.approx(difference / math.sqrt(untied_values * untied_labels))
    else:
        assert found is None


@pytest.mark.parametrize(
    ("values", "labels", "expected"),
    [
        ([0.1, 0.2, 0.6, 0.9], [False, False, True, True], 0.4),
        ([0.1, 0.9], [True, True], 0.1),
        ([0.1, 0.9], [False, False], math.nextafter(0.9, 1)),
        ([0.5], [True], 0.5),
    ],
)
def test_the_best_threshold_parts_good_from_bad(values, labels, expected):
    assert best_threshold(values, labels) == pytest.approx(expected)


@given(PAIRS)
def test_no_threshold_is_better_than_the_best(pairs):
    values, labels = both(pairs)

    def right(threshold):
        return sum((value >= threshold) == label for value, label in pairs)

    best = right(best_threshold(values, labels))
    assert all(right(threshold) <= best for threshold in [*values, *(value + 1e-9 for value in values)])


def test_a_threshold_is_never_chosen_on_the_question_it_judges():
    """Scores that say nothing: chosen on the same answers the threshold would flatter them, held out it does not."""
    generator = random.Random(3)
    values = [generator.random() for _ in range(400)]
    labels = [generator.random() < 0.5 for _ in range(400)]
    held = held_out(values, labels, list(range(400)))
    assert held is not None
    threshold = best_threshold(values, labels)
    flattered = sum((value >= threshold) == label for value, label in zip(values, labels, strict=True))
    honest = sum(said == label for said, label in zip(held.said, labels, strict=True))
    assert honest < flattered
    assert held == held_out(values, labels, list(range(400))), "the same file gives the same number"


def test_all_answers_to_a_question_are_held_out_together():
    values, labels = [0.0, 0.0, 1.0, 1.0], [True, True, False, False]
    held = held_out(values, labels, ["a", "a", "b", "b"])
    assert held is not None
    # Each question is judged by the other alone: seen there, all answers are bad (or good).
    assert held.said == (False, False, True, True)
    assert held_out(values, labels, ["a"] * 4) is None
    found = accuracy([True, True, False, False], [True, False, False, False], ["a", "a", "b", "b"])
    assert found is not None
    assert found.low < found.mean == 0.75 < found.high
    assert accuracy([], []) is None


@pytest.mark.parametrize("function", [auroc, spearman, kendall, accuracy, kappa])
def test_sides_of_different_lengths_are_refused(function):
    with pytest.raises(ValueError, match=r"."):
        function([1.0, 0.0, 1.0], [True, False])
