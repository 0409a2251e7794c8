"""Summaries count what was not scored and never average it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.records import Outcome
from rageval_dagster.statistics import breakdown, mean_interval, summarise


def _number(value: float | None) -> float:
    assert value is not None
    return value


outcomes = st.dictionaries(
    st.text(max_size=4),
    st.floats(0, 1).map(Outcome.scored) | st.just(Outcome.undefined("no evidence")) | st.just(Outcome.error("timeout")),
    max_size=30,
)


def test_nothing_scored_has_no_mean():
    summary = summarise({"a": Outcome.undefined("no claims")})
    assert (summary.n, summary.n_undefined) == (1, 1)
    assert {summary.mean, summary.ci_low, summary.ci_high, summary.min, summary.max} == {None}
    assert (summary.worst_low, summary.worst_high) == (None, None)
    assert summarise({}).mean is None
    failed = summarise({"a": Outcome.error("timeout"), "b": Outcome.error("timeout")})
    assert (failed.mean, failed.worst_low, failed.worst_high) == (None, 0.0, 1.0), "it could have been anything"


def test_clusters_widen_the_interval():
    column = {f"q{position}": Outcome.scored(float(position // 10 % 2)) for position in range(100)}
    documents = {item: f"document {int(item[1:]) // 10}" for item in column}
    alone, together = summarise(column), summarise(column, documents)
    assert together.mean == alone.mean
    assert _number(together.ci_low) < _number(alone.ci_low)
    assert _number(together.ci_high) > _number(alone.ci_high)


@settings(deadline=None, max_examples=50)
@given(outcomes)
def test_counts_add_up_and_bounds_enclose_the_mean(column):
    summary = summarise(column)
    assert summary.n == summary.n_scored + summary.n_undefined + summary.n_error == len(column)
    if summary.mean is not None:
        assert 0 <= _number(summary.worst_low) <= _number(summary.mean) + 1e-12
        assert _number(summary.mean) <= _number(summary.worst_high) + 1e-12
        assert _number(summary.worst_high) <= 1
        scored = [outcome.value for outcome in column.values() if outcome.value is not None]
        interval = mean_interval(scored)
        assert (summary.mean, summary.ci_low, summary.ci_high) == (interval.mean, interval.low, interval.high)
        assert (summary.min, summary.max) == (min(scored), max(scored))
    if summary.n_error == 0:
        assert (summary.worst_low, summary.worst_high) == (pytest.approx(summary.mean), pytest.approx(summary.mean))


def test_each_group_has_the_summary_of_its_members():
    column = {
        "a": Outcome.scored(1.0),
        "b": Outcome.scored(0.0),
        "c": Outcome.error("timeout"),
        "d": Outcome.scored(0.5),
    }
    groups = {"a": ["one"], "b": ["one", "two"], "c": ["two"], "d": [], "unasked": ["three"]}
    found = breakdown(column, groups)
    assert found == {
        "one": summarise({name: column[name] for name in "ab"}),
        "two": summarise({name: column[name] for name in "bc"}),
    }


def test_a_group_of_one_claims_next_to_nothing():
    for value in (0.0, 0.5, 1.0):
        summary = breakdown({"a": Outcome.scored(value)}, {"a": ["one"]}, {"a": "document"})["one"]
        assert (summary.n, summary.mean) == (1, value)
        assert _number(summary.ci_high) - _number(summary.ci_low) > 0.9


@given(outcomes, st.data())
def test_groups_that_part_the_items_add_up(column, data):
    groups = {item: [data.draw(st.sampled_from("xyz"))] for item in column}
    found = breakdown(column, groups)
    assert sum(summary.n for summary in found.values()) == len(column)
    assert sum(summary.n_error for summary in found.values()) == summarise(column).n_error
