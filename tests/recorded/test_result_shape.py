"""The result shape tells what was not scored from what scored 0, and its figures are those of the summaries."""

import json

from hypothesis import given
from hypothesis import strategies as st

from rageval_dagster.recorded.scoring import result_shape
from rageval_dagster.records import Outcome
from rageval_dagster.statistics import summarise

OUTCOMES = st.one_of(
    st.floats(0, 1).map(Outcome.scored),
    st.sampled_from([Outcome.undefined("no reference answer"), Outcome.error("timeout")]),
)


def test_what_was_not_scored_has_its_reason_and_what_was_may_have_details() -> None:
    undefined, error, scored = Outcome.undefined("no reference"), Outcome.error("timeout"), Outcome.scored(0.0)
    shape = result_shape({"a.b": {"q1": undefined, "q2": error, "q3": scored, "q4": Outcome.scored(0.5, {"rank": 2})}})
    assert shape["details"] == {"a.b": {"q4": {"rank": 2}}}
    assert shape["question_scores"] == {"a.b": {"q1": None, "q2": None, "q3": 0.0, "q4": 0.5}}
    assert shape["outcomes"]["a.b"] == {
        "q1": {"status": "undefined", "reason": "no reference"},
        "q2": {"status": "error", "reason": "timeout"},
    }


def test_no_interval_reaches_above_the_ceiling() -> None:
    column = {str(number): Outcome.scored(0.2) for number in range(10)}
    shape = result_shape({"retrieval.precision_at_5": column}, ceilings={"retrieval.precision_at_5": 0.2})
    assert shape["scores"]["retrieval.precision_at_5"]["ci_high"] == 0.2


@given(st.dictionaries(st.text(max_size=4), OUTCOMES, max_size=12), st.booleans())
def test_it_is_json_and_agrees_with_the_summary(column: dict[str, Outcome], clustered: bool) -> None:
    clusters = {item: item[:1] for item in column} if clustered else None
    shape = result_shape({"a.b": column}, clusters)
    assert json.loads(json.dumps(shape, allow_nan=False)) == shape
    summary = summarise(column, clusters)
    score = shape["scores"]["a.b"]
    assert (score["mean"], score["ci_low"], score["ci_high"]) == (summary.mean, summary.ci_low, summary.ci_high)
    unscored = shape["outcomes"].get("a.b", {})
    assert {item for item, value in shape["question_scores"]["a.b"].items() if value is None} == set(unscored)
    assert len(unscored) == score["n_undefined"] + score["n_error"]
