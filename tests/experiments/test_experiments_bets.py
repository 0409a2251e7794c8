"""What is surely below a limit stays so however often one looks."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rageval_dagster.experiments.bets import surely_below


def test_what_lies_far_below_is_found_and_what_lies_at_the_limit_is_not() -> None:
    low = [0.2 + each % 3 / 10 for each in range(60)]
    assert surely_below(low, None, 0.8)
    assert not surely_below(low, None, 0.3)
    assert not surely_below(low[:3], None, 0.4)
    assert not surely_below([], None, 0.5)


def test_it_is_rarely_wrong_however_often_one_looks() -> None:
    """500 streams of 200 scores whose mean is the limit; one looks at all times (the highest capital counts)."""
    rng = np.random.default_rng(0)
    wrong = sum(surely_below((rng.random(200) < 0.7).astype(float).tolist(), None, 0.7) for _ in range(500))
    assert wrong <= 40  # 25 expected at the most; more than 40 have a chance of .2 %


def test_what_fails_together_is_one_piece_of_evidence() -> None:
    scores = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0] * 2
    assert surely_below(scores, None, 0.5)
    assert not surely_below(scores, ["one document"] * 12 + ["another"] * 12, 0.5)


def test_a_failed_question_counts_as_nothing() -> None:
    assert surely_below([None] * 20, None, 0.5)


@given(st.lists(st.floats(0, 1), max_size=40), st.lists(st.floats(0, 1), max_size=10), st.floats(0, 1))
def test_more_scores_take_nothing_back(first: list[float], more: list[float], limit: float) -> None:
    assert surely_below([*first, *more], None, limit) >= surely_below(first, None, limit)
