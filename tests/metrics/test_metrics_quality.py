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
    ("question", "expected"),
    [
        ("List all members.", True),
        ("Can you list the fees?", True),
        ("Enumerate the steps", True),
        ("What are the rules?", True),
        ("Which countries are in the union?", True),
        ("Name the founders.", True),
        ("Name three kings", True),
        ("Who were the first members?", True),
        ("What types of fees exist?", True),
        ("Welche Länder sind in der Union?", True),
        ("Nennen Sie die Gebühren.", True),
        ("Quelles sont les règles ?", True),
        ("¿Cuáles son las reglas?", True),
        ("Quali sono le regole?", True),
        ("Welke landen zijn lid?", True),
        ("Quais são as regras?", True),
        ("Jakie są zasady?", True),
        ("Перечислите правила.", True),
        ("有哪些规则？", True),
        ("規則を挙げてください。", True),
        ("규칙을 나열하세요.", True),
        ("", False),
        ("What is the fee?", False),
        ("Name the capital of France.", False),
        ("Name the status of the request.", False),
        ("Which city is the capital?", False),
        ("Who was the first king?", False),
        ("When was the price list of 2020 published?", False),
        ("What is listed in the annex?", False),
        ("Wie hoch ist die Gebühr?", False),
        ("费用是多少？", False),
        ("x" * 100_000 + " list all", False),
    ],
)
def test_which_questions_ask_for_a_list(question: str, expected: bool) -> None:
    assert asks_for_list(question) is expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("- Norway", True),
        ("•Norway", True),
        ("1.Norway", True),
        ("1、挪威", True),
        ("There are two:\n* Norway\n* Sweden", True),
        ("1. Norway\n2. Sweden", True),
        ("a) Norway\nb) Sweden", True),
        ("Norway\nSweden\nDenmark", True),
        ("| Country |\n|---|\n| Norway |", True),
        ("They are (1) Norway and (2) Sweden.", True),
        ("The members are Norway, Sweden and Denmark.", True),
        ("Norway and Sweden [1].", True),
        ("Norway; Sweden; Denmark", True),
        ("挪威、瑞典、丹麦", True),
        ("النرويج، السويد، الدنمارك", True),
        ("", False),
        ("Norway.", False),
        ("The fee is 1,234,567 dollars.", False),
        ("The union was founded long ago by a king whose name nobody remembers and whose land is gone.", False),
        ("```\n- rows\n```", False),
        ("However, nobody knows.", False),
        ("**Norway** was founded long ago.", False),
        ("*Norway* was.", False),
        ("1.5 million people live there.", False),
        ("-5 degrees.", False),
        ("U.S. citizens.", False),
        ("---", False),
    ],
)
def test_which_answers_are_lists(answer: str, expected: bool) -> None:
    assert is_list(answer) is expected


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("What are the opening hours of the library?", "See section 4 of the plan.", False),
        ("List all the requirements.", "These are the duties of members, see annex.", False),
        ("What are the rules?", "Part i of the plan.", False),
        ("¿Cuáles son las reglas de la biblioteca?", "Se publican en el plan anual.", False),
        ("Quali sono le regole della biblioteca?", "Si vedano i documenti del piano.", False),
        ("Welke landen zijn lid van de vereniging?", "Noorwegen en Zweden.", True),
        ("Jakie są zasady przyjmowania do biblioteki?", "Wniosek i opłata.", True),
        ("Quais são as regras da biblioteca municipal?", "Silêncio e respeito.", True),
        ("Quelles sont les règles de la bibliothèque ?", "Silence et respect.", True),
    ],
)
def test_a_word_that_joins_in_one_language_only_makes_no_list_in_another(
    question: str, answer: str, expected: bool
) -> None:
    assert is_list(answer, question) is expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Unable to generate an answer.", True),
        ("Unable to generate", True),
        ("I'm sorry, but I was unable to generate a response.", True),
        ("I apologize, but I encountered an error.", True),
        ("Sorry, something went wrong.", True),
        ("An error occurred while processing your request.", True),
        ("Error: request timed out", True),
        ("No answer could be generated.", True),
        ("As an AI language model I have no opinion.", True),
        ("Es ist ein Fehler aufgetreten.", True),
        ("Leider ist ein Fehler aufgetreten.", True),
        ("Une erreur s'est produite.", True),
        ("抱歉，发生错误", True),
        ("エラーが発生しました。", True),
        ("I don't know.", True),
        ("Das weiß ich nicht.", True),
        ("The contexts do not answer this question.", True),
        ("", False),
        ("The fee is $5.", False),
        ("The plant was unable to generate power in 2003.", False),
        ("An error in the ledger was found in 1998.", False),
        ("Sorry is a town in Sicily.", False),
        ("The request failed because the form was late [1].", False),
        ("The rules do not specify a fee for children, but for all others it is $5 [1].", False),
    ],
)
def test_which_answers_are_fallbacks(answer: str, expected: bool) -> None:
    assert is_fallback(answer) is expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Sure!", True),
        ("**Great question!**", True),
        ("I hope this helps.", True),
        ("Gerne!", True),
        ("好的。", True),
        ("Paris.", False),
        ("The fee is $5.", False),
        ("Hope is a town.", False),
        ("Here is the house of Grieg.", False),
        ("", False),
    ],
)
def test_which_sentences_are_pleasantries(sentence: str, expected: bool) -> None:
    assert is_pleasantry(sentence) is expected


@settings(max_examples=200, deadline=None)
@given(any_result, st.one_of(st.none(), st.floats(allow_nan=False)), st.booleans())
def test_every_check_is_1_or_0_or_undefined_and_all_make_passed(result, minimum, required):
    found = outcomes(replace(result, error=None), minimum_retrieval_score=minimum, citation_required=required)
    assert {outcome.value for outcome in found.values()} <= {0.0, 1.0, None}
    assert all(outcome.status in ("scored", "undefined") for outcome in found.values())
    if result.answer is not None and result.item.answerable:
        counted = {*CHECKS, "list_formatted"} - (set() if required else {"has_citation"})
        assert found["passed"].value == float(all(found[name].value != 0.0 for name in counted))
