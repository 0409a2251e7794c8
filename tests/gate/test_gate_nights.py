"""The pure verdict: what may move it and what must not, on histories small enough to follow."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.gate import NightVerdict, verdicts
from rageval_dagster.gate.nights import Course

Nights = list[dict[str, float | None]]

scores = st.sampled_from([0.0, 0.25, 0.5, 1.0, None])
nights_of_few = st.lists(
    st.dictionaries(st.sampled_from([f"q{number}" for number in range(12)]), scores, max_size=12),
    min_size=1,
    max_size=7,
)


def night(values: Sequence[float] | np.ndarray, first: int = 0) -> dict[str, float | None]:
    return {f"q{first + number}": float(value) for number, value in enumerate(values)}


def fallen(of: int, failing: int) -> Nights:
    """Two nights: all questions right, then so many wrong."""
    return [night([1.0] * of), night([0.0] * failing + [1.0] * (of - failing))]


def words(found: Sequence[NightVerdict]) -> list[str]:
    return [verdict.decision for verdict in found]


def noisy(rng: np.random.Generator, size: int, nights: int, flips: float, hit_rate: float = 0.9) -> Nights:
    right = rng.random(size) < hit_rate
    return [night(right != (rng.random(size) < flips)) for _ in range(nights)]


@pytest.mark.parametrize("size", [5, 37, 300])
def test_identical_nights_pass_from_five_questions_on(size: int) -> None:
    found = verdicts([night([1.0, 0.0, 0.5, 1.0, 0.25] * (size // 5) + [1.0] * (size % 5))] * 4, looks=1)
    assert words(found) == ["passed"] * 4
    assert all(verdict.fall == 0.0 for verdict in found)


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("looks", [1, 90])
def test_fewer_than_five_questions_prove_nothing_so_that_they_do_not_pass(size: int, looks: int) -> None:
    found = verdicts([night([1.0] * size)] * 3, looks=looks)
    assert words(found)[1:] == ["unclear"] * 2
    assert found[-1].fall == 0.0


def test_few_questions_that_stayed_do_not_pass_for_the_many_that_left() -> None:
    before = night([1.0] * 20)
    found = verdicts([before, dict(list(before.items())[:4])], looks=1)
    assert found[-1].decision == "unclear"


def test_questions_that_score_what_they_did_show_no_change_whatever_others_did_before_they_left() -> None:
    before = night([1.0] * 30 + [0.5] * 3)
    worse = {name: 0.0 if place % 2 else score for place, (name, score) in enumerate(before.items())}
    stayed = dict(list(before.items())[14:])
    found = verdicts([before, worse, stayed], looks=1)
    assert (found[-1].decision, found[-1].fall) == ("passed", 0.0)


@settings(deadline=None)
@given(nights_of_few, st.lists(st.booleans(), min_size=7, max_size=7), st.integers(1, 7))
def test_a_night_is_judged_by_the_nights_up_to_it(nights: Nights, unchanged: list[bool], until: int) -> None:
    until = min(until, len(nights))
    found = verdicts(nights, unchanged=unchanged[: len(nights)])
    assert found[:until] == verdicts(nights[:until], unchanged=unchanged[:until])


@settings(deadline=None)
@given(nights_of_few, st.lists(st.booleans(), min_size=7, max_size=7), st.sampled_from([1, 90]))
def test_the_last_verdict_alone_is_the_last_of_all(nights: Nights, unchanged: list[bool], looks: int) -> None:
    still = unchanged[: len(nights)]
    assert Course(nights, unchanged=still, looks=looks).last() == verdicts(nights, unchanged=still, looks=looks)[-1]


@settings(deadline=None)
@given(nights_of_few)
def test_every_verdict_is_one_of_three_words_with_the_fall_inside_its_interval(nights: Nights) -> None:
    for verdict in verdicts(nights, clusters={"q0": "a", "q1": "a", "q2": "b"}):
        assert verdict.decision in ("passed", "regressed", "unclear")
        if verdict.fall is None:
            assert verdict.decision == "unclear"
            assert verdict.low is None
            assert verdict.high is None
        else:
            assert verdict.low is not None
            assert verdict.high is not None
            assert -1.0 <= verdict.low <= verdict.fall + 1e-9
            assert verdict.fall - 1e-9 <= verdict.high <= 1.0


@settings(deadline=None)
@given(nights_of_few, st.randoms(use_true_random=False))
def test_the_order_and_the_names_of_questions_do_not_matter(nights: Nights, random) -> None:
    names = [f"q{number}" for number in range(12)]
    renamed = dict(zip(names, random.sample(names, 12), strict=True))
    other = [{renamed[name]: value for name, value in random.sample(list(each.items()), len(each))} for each in nights]
    for one, two in zip(verdicts(nights), verdicts(other), strict=True):
        assert one.decision == two.decision
        assert (one.fall is None) == (two.fall is None)
        assert one.fall is None or one.fall == pytest.approx(two.fall, abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_over_two_nights_the_fall_is_the_mean_of_the_differences(pairs: list[tuple[float, float]]) -> None:
    before, now = night([one for one, _ in pairs]), night([two for _, two in pairs])
    fall = verdicts([before, now])[1].fall
    assert fall == pytest.approx(np.mean([one - two for one, two in pairs]), abs=1e-9)


def test_one_flip_of_37_passes_and_a_single_look_sees_half_of_them_fail() -> None:
    assert words(verdicts(fallen(37, 1), looks=1)) == ["passed", "passed"]
    assert words(verdicts(fallen(37, 18), looks=1)) == ["passed", "regressed"]


def test_a_rise_passes_and_a_fall_within_the_tolerance_passes() -> None:
    assert words(verdicts(fallen(300, 150)[::-1])) == ["passed", "passed"]
    assert words(verdicts(fallen(300, 6), looks=1)) == ["passed", "passed"]
    assert words(verdicts([night([0.5] * 300), night([0.485] * 300)], looks=1)) == ["passed", "passed"]


def test_five_questions_cannot_prove_a_regression_over_ninety_looks() -> None:
    assert words(verdicts(fallen(5, 5))) == ["passed", "unclear"]
    assert words(verdicts(fallen(40, 40))) == ["passed", "regressed"]


def test_questions_of_one_document_are_one_event() -> None:
    together = {f"q{number}": "one document" for number in range(12)}
    assert words(verdicts(fallen(60, 12), looks=1)) == ["passed", "regressed"]
    assert words(verdicts(fallen(60, 12), together, looks=1))[1] != "regressed"


def test_confirmed_questions_decide_by_their_documents() -> None:
    nights, confirmed = fallen(37, 12), {f"q{number}": -1 for number in range(12)}
    apart = {f"q{number}": number for number in range(37)}
    together = apart | {f"q{number}": number // 4 for number in range(12)}
    assert verdicts(nights, apart, [None, confirmed], looks=1)[1].decision == "regressed"
    assert verdicts(nights, together, [None, confirmed], looks=1)[1].decision != "regressed"
    balanced = confirmed | {f"q{number}": +1 for number in range(12, 24)}
    assert verdicts(noisy(np.random.default_rng(3), 37, 2, 0.0), apart, [None, balanced], looks=1)[1].decision == (
        "passed"
    )


@pytest.mark.parametrize("size", [5, 6, 40])
def test_one_confirmed_failure_passes_however_few_the_questions(size: int) -> None:
    assert verdicts(fallen(size, 1), confirmed=[None, {"q0": -1}], looks=1)[1].decision == "passed"


@pytest.mark.parametrize(("fails", "decision"), [(1, "passed"), (2, "unclear")])
def test_where_no_fall_would_show_more_than_one_failure_is_not_called_none(fails: int, decision: str) -> None:
    [_, found] = verdicts(fallen(10, fails))
    assert (found.decision, found.resolution) == (decision, None)


@pytest.mark.parametrize(
    ("passing", "decision"),
    [(1, "unclear"), (8, "passed")],
)
def test_questions_that_fail_each_time_do_not_pass_though_their_documents_are_too_few_to_tell(
    passing: int, decision: str
) -> None:
    size = 95
    clusters = {f"q{number}": number // 4 if number < 8 else 2 + number % 25 for number in range(size)}
    now = {f"q{number}": float(number >= 8) for number in range(size - passing)}
    before = {f"q{number}": 1.0 for number in range(size - passing)}
    turned = range(size - passing, size)
    before |= {f"q{number}": 0.0 for number in turned}
    now |= {f"q{number}": 1.0 for number in turned}
    confirmed = {f"q{number}": -1 for number in range(8)} | {f"q{number}": 1 for number in turned}
    found = verdicts([before, now], clusters, [None, confirmed], looks=1)[1]
    assert found.decision == decision


def test_where_a_level_is_so_low_that_no_fall_would_show_a_fall_is_not_called_none() -> None:
    clusters = {f"q{number}": number % 20 for number in range(40)}
    before = {f"q{number}": float(number < 10) for number in range(40)}
    [_, found] = verdicts([before, before | {"q0": 0.0, "q1": 0.0, "q2": 0.0}], clusters)
    assert (found.decision, (found.resolution or 0.0) > 10 / 40) == ("unclear", True)


def renewed(rng: np.random.Generator, level: Sequence[float], size: int = 60, leaving: int = 12) -> Nights:
    """A benchmark with some questions replaced each night, by harder ones, at these hit rates of the old ones."""
    live = [(number, rng.random()) for number in range(size)]
    found: Nights = []
    for step, rate in enumerate(level):
        if step:
            live = live[leaving:] + [(size + step * leaving + n, 0.3 + 0.7 * rng.random()) for n in range(leaving)]
        found.append({f"q{number}": float(need < rate) for number, need in live})
    return found


def test_new_questions_that_are_harder_are_no_fall() -> None:
    found = verdicts(renewed(np.random.default_rng(1), [0.9] * 12))
    assert words(found) == ["passed"] * 12
    assert found[-1].fall == pytest.approx(0.0, abs=1e-9)


def test_a_fall_stays_a_fall_when_all_its_questions_were_replaced() -> None:
    found = verdicts(renewed(np.random.default_rng(1), [0.9] * 4 + [0.45] * 8))
    assert set(words(found)[5:]) == {"regressed"}
    assert found[-1].fall is not None
    assert found[-1].fall > 0.3


def test_without_a_chain_of_questions_the_verdict_is_unclear() -> None:
    found = verdicts([night([1.0] * 30), night([0.0] * 30, first=30), night([0.0] * 30, first=30)])
    assert [(verdict.decision, verdict.fall) for verdict in found[1:]] == [("unclear", None), ("unclear", None)]
    back = verdicts([night([1.0] * 30), night([1.0] * 30, first=30), night([1.0] * 30)])
    assert [verdict.decision for verdict in back] == ["passed", "unclear", "passed"]


def test_slow_decay_adds_up_through_renewals() -> None:
    rng = np.random.default_rng(5)
    found = verdicts(renewed(rng, [0.9 - 0.01 * step for step in range(45)], leaving=6))
    first = words(found).index("regressed")
    assert first < 35
    assert 0.01 * first < 0.3


def test_noise_of_nights_without_a_change_is_no_regression() -> None:
    rng = np.random.default_rng(8)
    mood = [night(np.clip(0.8 + rng.normal(0, 0.02, 100) + rng.normal(0, 0.03), 0, 1)) for _ in range(60)]
    assert "regressed" not in words(verdicts(mood, unchanged=[True] * 60))
    assert "regressed" in words(verdicts([*mood, *[night([0.4] * 100)] * 4], unchanged=[True] * 64))


def test_on_a_night_without_a_change_one_bad_night_is_not_believed_and_lasting_ones_are() -> None:
    good, bad = noisy(np.random.default_rng(2), 100, 9, 0.02), noisy(np.random.default_rng(2), 100, 9, 0.02, 0.6)
    once = [*good[:5], bad[5], *good[6:]]
    assert "regressed" not in words(verdicts(once, unchanged=[True] * 9))
    assert verdicts(once, unchanged=[True] * 5 + [False] * 4)[5].decision == "regressed"
    assert verdicts([*good[:5], *bad[5:]], unchanged=[True] * 9)[-1].decision == "regressed"


def test_the_very_scores_of_the_night_before_get_its_verdict_again() -> None:
    nights = fallen(40, 20)
    found = verdicts([*nights, nights[1], nights[1]])
    assert found[1] == found[2] == found[3]


def test_fleet_variances_count_in_the_first_nights() -> None:
    calm = verdicts(fallen(200, 40))[1]
    assert calm.decision == "regressed"
    moody = replace(calm.variances, shift=0.01)
    assert verdicts(fallen(200, 40), prior=moody)[1].decision == "unclear"


def test_more_questions_show_smaller_falls() -> None:
    few, many = (verdicts(fallen(size, size // 50))[1].resolution for size in (50, 500))
    assert few is not None
    assert many is not None
    assert many < few < 1.0
    assert verdicts(fallen(5, 0) + fallen(5, 1))[3].resolution is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0.0}, "alpha lies in"),
        ({"looks": 0}, "at least one look"),
        ({"unchanged": [True]}, "2 nights need 2 entries"),
        ({"confirmed": [None] * 3}, "2 nights need 2 entries"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        verdicts(fallen(5, 1), **arguments)
    assert verdicts([]) == []


def test_the_night_on_which_a_lasting_fall_is_mended_passes() -> None:
    fallen_nights = [night([0.0] * 20 + [1.0] * 39 + [0.5 + 0.1 * number]) for number in range(6)]
    found = verdicts([night([1.0] * 60), *fallen_nights, night([0.9] + [1.0] * 59)])
    assert words(found) == ["passed", *["regressed"] * 6, "passed"]
    risen = [{question: 1.0 - (score or 0.0) for question, score in each.items()} for each in fallen_nights]
    found = verdicts([night([0.0] * 60), *risen, night([0.1] + [0.0] * 59)])
    assert [verdict.better for verdict in found] == [False, *[True] * 6, False]
