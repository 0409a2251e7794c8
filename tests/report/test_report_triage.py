"""Triage: which metric says whether a question was answered right, and where a question belongs then."""

import pytest

from rageval_dagster.evaluation.rightness import is_right, rightness_of
from rageval_dagster.metrics.answer_match import answer_match
from rageval_dagster.records import Outcome
from rageval_dagster.report.questions import quadrant
from tests.storage.history_builder import summary

COSINE, MATCH = "embedding.answer_correctness", "lexical.answer_match"


@pytest.mark.parametrize(
    ("measured", "best"),
    [
        (("judge.correctness", "claims.answer_correctness", MATCH, COSINE), "judge.correctness"),
        (("claims.answer_correctness", MATCH, COSINE), "claims.answer_correctness"),
        ((MATCH, COSINE, "overlap.answer_correctness"), MATCH),
        ((COSINE, "overlap.answer_correctness"), None),
    ],
)
def test_the_best_judge_of_an_answer_decides_and_never_a_cosine(measured: tuple[str, ...], best: str | None) -> None:
    assert rightness_of({name: summary(name, 0.5) for name in measured}) == best


def test_a_whole_sentence_that_holds_the_answer_is_right_whatever_its_cosine() -> None:
    said = "The council was formed after long talks, and it has met in Geneva every spring since 1951."
    match = answer_match("Where does the council meet?", ["Geneva"], said)
    assert match is not None
    outcomes = {MATCH: Outcome.scored(match), COSINE: Outcome.scored(0.31)}
    assert is_right(outcomes, MATCH) is True
    assert quadrant(Outcome.scored(1.0), is_right(outcomes, MATCH)) == "found_right"


@pytest.mark.parametrize(
    ("outcomes", "right"),
    [
        ({MATCH: Outcome.scored(0.49)}, False),
        ({MATCH: Outcome.scored(1.0), "quality.refusal_correct": Outcome.scored(0.0)}, False),
        ({MATCH: Outcome.undefined("no reference")}, None),
        ({}, None),
    ],
)
def test_wrong_declined_and_unknown_are_told_apart(outcomes: dict[str, Outcome], right: bool | None) -> None:
    assert is_right(outcomes, MATCH) is right
