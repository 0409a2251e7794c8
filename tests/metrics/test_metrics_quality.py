"""The quality family: each heuristic on its own, what passes, and that any input has an outcome."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_samples import make_result, outcomes_of, value_of
from test_metrics_totality import results as any_result

from rageval_dagster.languages import asks_for_list, is_fallback, is_pleasantry
from rageval_dagster.metrics.quality import is_list
from rageval_dagster.records import Answer, Hit, Result

CHECKS = ("answered", "has_context", "has_citation", "no_fallback_phrase", "retrieval_score_above_minimum")


def outcomes(result: Result, **options: Any) -> dict[str, Any]:
    return outcomes_of("quality", result, **options)


def values(result: Result, **options: Any) -> dict[str, float | None]:
    return {name: outcome.value for name, outcome in outcomes(result, **options).items()}


def good_result() -> Result:
    return make_result(["a", "b"], answer="The fee is $5. [1]", contexts=["The fee is $5.", "It rains."])


@pytest.mark.parametrize(
    ("answerable", "answer", "declined", "expected"),
    [
        (True, "Paris", False, 1.0),
        (True, "I cannot say.", True, 0.0),
        (True, " ", False, 0.0),
        (False, "Paris", False, 0.0),
        (False, "I cannot say.", True, 1.0),
        (False, "", False, 1.0),
    ],
)
def test_refusal_correct_is_what_passes_on_unanswerable_questions(answerable, answer, declined, expected):
    result = make_result(answer=answer, declined=declined, answerable=answerable, references=["Paris"])
    found = outcomes(result)
    assert value_of(found["refusal_correct"]) == expected
    if not answerable:
        assert value_of(found["passed"]) == expected


def test_a_logged_question_of_which_nobody_said_whether_it_can_be_answered_is_not_judged():
    found = outcomes(make_result(answer="I cannot say.", declined=True))
    assert found["refusal_correct"].status == "undefined"
    assert found["passed"].value == 0.0


def test_a_good_answer_passes_all_that_applies():
    found = values(good_result(), minimum_retrieval_score=0.7)
    assert {name: found[name] for name in CHECKS} == dict.fromkeys(CHECKS, 1.0)
    assert (found["list_formatted"], found["passed"]) == (None, 1.0)


def test_each_failed_check_fails_the_whole_and_is_named():
    good = good_result()
    failing = {
        "answered": replace(good, answer=Answer(" ", citations=("1",))),
        "has_context": replace(good, hits=(), contexts=()),
        "has_citation": replace(good, answer=Answer("The fee is $5.")),
        "no_fallback_phrase": replace(good, answer=Answer("Unable to generate an answer. [1]")),
        "list_formatted": replace(good, item=replace(good.item, question="List all fees.")),
    }
    for name, result in failing.items():
        found = outcomes(result)
        assert value_of(found[name]) == 0.0
        assert value_of(found["passed"]) == 0.0
        assert found["passed"].detail == {"failed": [name]}
    found = outcomes(good, minimum_retrieval_score=1.5)
    assert found["passed"].detail == {"failed": ["retrieval_score_above_minimum"]}


def test_citations_count_only_where_they_are_required():
    result = replace(good_result(), answer=Answer("The fee is $5."))
    assert values(result, citation_required=True)["passed"] == 0.0
    assert values(result, citation_required=False)["passed"] == 1.0
    assert values(result, citation_required=False)["has_citation"] == 0.0


def test_a_citation_given_apart_from_the_text_counts():
    assert values(replace(good_result(), answer=Answer("The fee is $5.", citations=("a",))))["has_citation"] == 1.0


def test_what_the_system_calls_a_decline_is_a_fallback():
    result = replace(good_result(), answer=Answer("That is for the office to say. [1]", declined=True))
    assert values(result)["no_fallback_phrase"] == 0.0


def test_the_best_retrieval_score_counts():
    def reached(*scores: float, minimum: float | None = 0.5) -> float | None:
        hits = tuple(Hit(str(rank), "d", rank, score, "A text.") for rank, score in enumerate(scores, start=1))
        result = replace(good_result(), hits=hits, contexts=("A text.",) * min(len(hits), 2))
        return values(result, minimum_retrieval_score=minimum)["retrieval_score_above_minimum"]

    assert reached(0.9, 0.1) == reached(0.1, 0.5) == reached(float("nan"), 0.6) == 1.0
    assert reached(0.4, 0.3) == 0.0
    assert reached(0.4, 0.3, 0.9) == 0.0, "the answerer did not see the third"
    assert reached(-0.2, -0.4, minimum=-0.3) == 1.0
    assert reached(float("nan")) is reached() is reached(0.9, minimum=None) is None
    assert reached(0.0, 0.0) is None, "the system told no scores"
    assert reached(0.0, -0.7) == 0.0


def test_contexts_that_are_not_told_or_not_known():
    untold = replace(good_result(), hits=(), contexts=(), tells_contexts=False)
    found = values(untold, minimum_retrieval_score=0.5)
    assert (found["has_context"], found["retrieval_score_above_minimum"], found["passed"]) == (None, None, 1.0)
    named_only = replace(good_result(), hits=(Hit("a", "d", 1, 1.0),), contexts=("",))
    assert values(named_only)["has_context"] == 1.0
    blank = replace(good_result(), hits=(Hit("a", "d", 1, 1.0, " \n"),), contexts=(" \n",))
    assert values(blank)["has_context"] == 0.0


@pytest.mark.parametrize(
    "question",
    [
        "List all members.",
        "Can you list the fees?",
        "Enumerate the steps",
        "What are the rules?",
        "Which countries are in the union?",
        "Name the founders.",
        "Name three kings",
        "Who were the first members?",
        "What types of fees exist?",
        "Welche Länder sind in der Union?",
        "Nennen Sie die Gebühren.",
        "Quelles sont les règles ?",
        "¿Cuáles son las reglas?",
        "Quali sono le regole?",
        "Welke landen zijn lid?",
        "Quais são as regras?",
        "Jakie są zasady?",
        "Перечислите правила.",
        "有哪些规则？",
        "規則を挙げてください。",
        "규칙을 나열하세요.",
    ],
)
def test_questions_that_ask_for_a_list(question):
    assert asks_for_list(question)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "What is the fee?",
        "Name the capital of France.",
        "Name the status of the request.",
        "Which city is the capital?",
        "Who was the first king?",
        "When was the price list of 2020 published?",
        "What is listed in the annex?",
        "Wie hoch ist die Gebühr?",
        "费用是多少？",
        "x" * 100_000 + " list all",
    ],
)
def test_questions_that_do_not(question):
    assert not asks_for_list(question)


@pytest.mark.parametrize(
    "answer",
    [
        "- Norway",
        "•Norway",
        "1.Norway",
        "1、挪威",
        "There are two:\n* Norway\n* Sweden",
        "1. Norway\n2. Sweden",
        "a) Norway\nb) Sweden",
        "Norway\nSweden\nDenmark",
        "| Country |\n|---|\n| Norway |",
        "They are (1) Norway and (2) Sweden.",
        "The members are Norway, Sweden and Denmark.",
        "Norway and Sweden [1].",
        "Norway; Sweden; Denmark",
        "挪威、瑞典、丹麦",
        "النرويج، السويد، الدنمارك",
    ],
)
def test_answers_that_are_lists(answer):
    assert is_list(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Norway.",
        "The fee is 1,234,567 dollars.",
        "The union was founded long ago by a king whose name nobody remembers and whose land is gone.",
        "```\n- rows\n```",
        "However, nobody knows.",
        "**Norway** was founded long ago.",
        "*Norway* was.",
        "1.5 million people live there.",
        "-5 degrees.",
        "U.S. citizens.",
        "---",
    ],
)
def test_answers_that_are_none(answer):
    assert not is_list(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "Unable to generate an answer.",
        "Unable to generate",
        "I'm sorry, but I was unable to generate a response.",
        "I apologize, but I encountered an error.",
        "Sorry, something went wrong.",
        "An error occurred while processing your request.",
        "Error: request timed out",
        "No answer could be generated.",
        "As an AI language model I have no opinion.",
        "Es ist ein Fehler aufgetreten.",
        "Leider ist ein Fehler aufgetreten.",
        "Une erreur s'est produite.",
        "抱歉，发生错误",
        "エラーが発生しました。",
        "I don't know.",
        "Das weiß ich nicht.",
        "The contexts do not answer this question.",
    ],
)
def test_fallback_phrases(answer):
    assert is_fallback(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "The fee is $5.",
        "The plant was unable to generate power in 2003.",
        "An error in the ledger was found in 1998.",
        "Sorry is a town in Sicily.",
        "The request failed because the form was late [1].",
        "The rules do not specify a fee for children, but for all others it is $5 [1].",
    ],
)
def test_answers_that_are_no_fallback(answer):
    assert not is_fallback(answer)


@pytest.mark.parametrize("sentence", ["Sure!", "**Great question!**", "I hope this helps.", "Gerne!", "好的。"])
def test_pleasantries(sentence):
    assert is_pleasantry(sentence)


@pytest.mark.parametrize("sentence", ["Paris.", "The fee is $5.", "Hope is a town.", "Here is the house of Grieg.", ""])
def test_sentences_that_say_something(sentence):
    assert not is_pleasantry(sentence)


@settings(max_examples=200, deadline=None)
@given(any_result, st.one_of(st.none(), st.floats(allow_nan=False)), st.booleans())
def test_every_check_is_1_or_0_or_undefined_and_all_make_passed(result, minimum, required):
    found = outcomes(replace(result, error=None), minimum_retrieval_score=minimum, citation_required=required)
    assert {outcome.value for outcome in found.values()} <= {0.0, 1.0, None}
    assert all(outcome.status in ("scored", "undefined") for outcome in found.values())
    if result.answer is not None and result.item.answerable:
        counted = {*CHECKS, "list_formatted"} - (set() if required else {"has_citation"})
        assert found["passed"].value == float(all(found[name].value != 0.0 for name in counted))
