"""A plan asks in rounds, in any order of answers, and goes on where it was killed."""

import random
from typing import Any

import pytest

from rageval_dagster.errors import SettingsError
from rageval_dagster.experiments import Plan, SearchResult
from rageval_dagster.experiments.planning import Batch

SPACE = {"model": ["a", "b", "c"], "k": [1, 3, 5, 8]}
Scores = list[float | None]


def scores_of(batch: Batch) -> Scores:
    """Always the same for the same batch; model b is best, and one question in nine fails."""
    gain = 0.2 * (batch.configuration["model"] == "b") + batch.configuration["k"] / 40
    return [
        None if each % 9 == 0 else round(gain + random.Random(f"{batch.number} {each}").random() / 2, 3)
        for each in batch.questions
    ]


def plan() -> Plan:
    return Plan(SPACE, range(120), [each // 3 for each in range(120)], budget=700, seed=1)


def run(one: Plan, shuffled: random.Random | None = None) -> tuple[list[set[tuple[int, tuple]]], SearchResult]:
    rounds = []
    while batches := one.next():
        rounds.append({(batch.number, batch.questions) for batch in batches})
        if shuffled is not None:
            shuffled.shuffle(batches)
        for batch in batches:
            one.tell(batch, scores_of(batch))
    return rounds, one.result()


def test_the_order_of_answers_does_not_matter() -> None:
    expected = run(plan())
    assert len(expected[0]) > 3
    assert run(plan(), random.Random(0)) == expected
    assert run(plan(), random.Random(1)) == expected


@pytest.mark.parametrize("told_before", [0, 1, 5, 12, 20])
def test_a_killed_search_goes_on_from_its_scores(told_before: int) -> None:
    stored: dict[tuple[int, tuple], Scores] = {}
    killed = plan()
    while len(stored) < told_before and (batches := killed.next()):
        batch = batches[-1]
        stored[batch.number, batch.questions] = scores_of(batch)
        killed.tell(batch, stored[batch.number, batch.questions])
    resumed, asked = plan(), 0
    while batches := resumed.next():
        for batch in batches:
            known = stored.get((batch.number, batch.questions))
            asked += known is None
            resumed.tell(batch, scores_of(batch) if known is None else known)
    rounds, expected = run(plan())
    assert resumed.result() == expected
    assert asked == sum(map(len, rounds)) - len(stored)


def test_a_round_is_asked_for_until_it_is_told() -> None:
    one = plan()
    first = one.next()
    one.tell(first[0], scores_of(first[0]))
    assert one.next() == first[1:]


def test_there_is_a_result_at_any_time() -> None:
    one, told = plan(), 0
    assert one.result() == SearchResult(None, [], None, 0, [], winner=False)
    while batches := one.next():
        one.tell(batches[0], scores_of(batches[0]))
        told += len(batches[0].questions)
        result = one.result()
        assert result.best in result.tied
        assert result.evaluations == told <= 700


def test_an_excluded_configuration_is_asked_nothing_more_and_not_recommended() -> None:
    one = plan()
    excluded: set[int] = set()
    while batches := one.next():
        assert not excluded & {batch.number for batch in batches}
        for batch in batches:
            one.tell(batch, scores_of(batch))
            if batch.configuration["model"] == "b":
                one.exclude(batch.number, "too slow")
                excluded.add(batch.number)
    result = one.result()
    assert excluded
    assert result.best is not None
    assert all(configuration["model"] != "b" for configuration in result.tied)
    reasons = {trial.left_because for trial in result.trials if trial.configuration["model"] == "b"}
    assert reasons == {"too slow"}


def test_a_batch_of_an_excluded_configuration_is_not_waited_for() -> None:
    one = plan()
    first = one.next()
    one.exclude(first[0].number, "every question failed")
    for batch in first[1:]:
        one.tell(batch, scores_of(batch))
    assert first[0].number not in {batch.number for batch in one.next()}


def before_the_finalists() -> Plan:
    rounds, _ = run(plan())
    one = plan()
    for _ in rounds[:-1]:
        for batch in one.next():
            one.tell(batch, scores_of(batch))
    return one


def test_the_best_finalist_by_all_questions_is_recommended_with_an_interval_that_holds_for_all() -> None:
    one = before_the_finalists()
    finalists = one.next()
    assert len(finalists) > 1
    first = one.result().best
    for batch in finalists:
        one.tell(batch, [float(batch.configuration != first)] * len(batch.questions))
    result = one.result()
    assert one.next() == []
    assert result.best != first
    assert result.best in [batch.configuration for batch in finalists]
    held_out = {tuple(trial.configuration.items()): trial.held_out for trial in result.trials}
    assert result.estimate == held_out[tuple((result.best or {}).items())]
    assert result.estimate is not None
    assert result.estimate.mean == 1


def test_what_was_no_finalist_is_not_recommended_for_what_the_finalists_failed() -> None:
    one = before_the_finalists()
    finalists = one.next()
    for batch in finalists:
        one.tell(batch, [0.0] * len(batch.questions))
    assert one.result().best in [batch.configuration for batch in finalists]


def test_all_excluded_leaves_no_best() -> None:
    one = Plan({"k": [1, 2]}, range(10), budget=20)
    for batch in one.next():
        one.tell(batch, scores_of_zero(batch))
        one.exclude(batch.number, "it names other clients' documents")
    assert one.next() == []
    result = one.result()
    assert result.best is None
    assert result.tied == []
    assert len(result.trials) == 2


def scores_of_zero(batch: Batch) -> Scores:
    return [0.0] * len(batch.questions)


def test_scores_that_were_not_asked_for_are_refused() -> None:
    one = plan()
    first = one.next()
    one.tell(first[0], scores_of(first[0]))
    stray: Any = Batch(first[0].configuration, first[0].number, ("elsewhere",))
    for batch in (first[0], stray):
        with pytest.raises(SettingsError, match="not ask for now"):
            one.tell(batch, [0.5] * len(batch.questions))
