"""lexical.answer_match: what counts as the same, what contradicts, and how well it tells right from wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metric_samples import judged_rows, make_result, value_of

from rageval_dagster.metrics.answer_match import answer_match
from rageval_dagster.metrics.interface import MetricOptions
from rageval_dagster.metrics.registry import Tools, all_metrics, compute_scores
from rageval_dagster.text import word_spans


@pytest.mark.parametrize(
    ("reference", "answer", "expected"),
    [
        ("Ottawa", "The capital is Ottawa.", 1.0),
        ("Ottawa", "Toronto", 0.0),
        ("Ottawa", "", 0.0),
        ("seven", "7", 1.0),
        ("the 21st century", "twenty-first century", 1.0),
        ("ninety five", "95", 1.0),
        ("20%", "20", 1.0),
        ("1,776 steps", "1776", 0.5),
        ("٢٠١٧", "2017", 1.0),
        ("Washington, D.C.", "washington d. c.", 1.0),
        ("Department of Motor Vehicles", "the DMV", 1.0),
        ("DMV", "your Department of Motor Vehicles", 1.0),
        ("J. K. Rowling", "Joanne Kathleen Rowling", 1.0),
        ("Dáin", "dain Ironfoot", 1.0),
        ("King's Landing", "king landing", 1.0),
        ("Sharecropping", "sharecroppers", 1.0),
        ("state legislatures", "the legislature", 0.5),
        ("the winter solstice", "Winter Solstice.", 1.0),
        ("December 9, 2017", "9 December 2017", 1.0),
        ("December 9, 2017", "December 16, 2017", 0.0),
        ("December 9, 2017", "in 2017", 1 / 3),
        ("2017", "on December 9, 2017", 1.0),
        ("北京", "中国的首都是北京。", 1.0),
        ("北京", "上海", 0.0),
        ("Москва", "в Москве", 1.0),
        ("no", "No.", 1.0),
        ("Ⅳ", "iv", 1.0),
    ],
)
def test_what_counts_as_said(reference: str, answer: str, expected: float) -> None:
    assert answer_match("Which one is it?", [reference], answer) == pytest.approx(expected)


def test_words_of_the_question_say_nothing_new() -> None:
    question = "Who presides over the joint session?"
    assert answer_match(question, ["the Speaker of the joint session"], "a joint session") == 0.0
    assert answer_match(question, ["the joint session"], "the joint session") == 1.0


@pytest.mark.parametrize("references", [[], [""], ["...", "\u200b"]])
def test_a_reference_without_words_has_no_value(references: list[str]) -> None:
    assert answer_match("Who?", references, "Ottawa") is None


TEXTS = st.one_of(
    st.text(max_size=60), st.text(alphabet="U.S.A. twenty-one 21 1,234 DMV's éА北京ประ가나\u0301", max_size=60)
)


@given(TEXTS, TEXTS)
def test_the_reference_itself_is_always_right(question: str, reference: str) -> None:
    value = answer_match(question, [reference], reference)
    assert value in (None, 1.0)
    assert value == 1.0 or not any(word.group().isalpha() for word in word_spans(reference))


@given(TEXTS, st.lists(TEXTS, max_size=2), TEXTS, TEXTS)
def test_one_more_reference_never_lowers_it(question: str, references: list[str], more: str, answer: str) -> None:
    before, after = answer_match(question, references, answer), answer_match(question, [*references, more], answer)
    assert before is None or (after is not None and 0.0 <= before <= after <= 1.0)


def test_a_long_answer_takes_no_long() -> None:
    assert answer_match("Who?", ["Ottawa 1867"], "U.S.A. one two " * 100_000 + "1867 Ottawa") == 1.0


def test_it_agrees_with_people_on_each_half_of_the_questions() -> None:
    rows = judged_rows("nq301")
    results = [
        make_result(question=row["question"], answer=row["answer"], references=row["gold_answers"]) for row in rows
    ]
    [metric] = [each for each in all_metrics(MetricOptions(5)) if each.id == "lexical.answer_match"]
    outcomes = compute_scores([metric], results, Tools())[metric.id]
    numbers = {question: number for number, question in enumerate(dict.fromkeys(row["question"] for row in rows))}
    right = [(value_of(out) >= 0.5) == (row["label"] == "correct") for out, row in zip(outcomes, rows, strict=True)]
    halves = [
        [said for said, row in zip(right, rows, strict=True) if numbers[row["question"]] % 2 == half] for half in (0, 1)
    ]
    assert sum(right) / len(right) >= 0.80
    assert all(sum(half) / len(half) >= 0.785 for half in halves)
