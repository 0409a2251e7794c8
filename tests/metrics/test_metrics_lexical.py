"""The lexical family: seed 003's own examples, SQuAD's F1, numbers as numbers, and any script."""

import re
import string
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_samples import make_result, outcomes_of

from rageval_dagster.metrics.numbers import numbers


def score(answer, *references):
    found = outcomes_of("lexical", make_result(answer=answer, references=references))
    return {name: outcome.value for name, outcome in found.items()}


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        # rule c 1, rule, territory 118, territory, and the numbers 1 and 118
        ("Rule C-1 holds", "The Rule C-1, in Territory 118", 3 / 6),
        # the words of a phrase without the phrase: "new york" itself is missed
        ("York is new", "It was New York", 1 / 2),
        # the phrase with its number is missed, its word and its number are not
        ("the factor is 2,061", "Factor 2061", 2 / 3),
        ("bob and the ibm", "Bob of IBM", 1.0),
        ("nothing", "Which of them, if any?", None),
        ("state of the art", "a state-of-the-art engine", 1 / 2),
        ("yes", "Yes", 1.0),
    ],
)
def test_keyword_coverage(answer, reference, expected):
    assert score(answer, reference)["keyword_coverage"] == (None if expected is None else pytest.approx(expected))


def test_stop_words_are_those_of_the_reference_s_language():
    reference = "Die Rechnung muss vor dem Ende des Monats bezahlt werden, weil sonst eine Mahnung folgt."
    answer = "Rechnung, Ende, Monats, bezahlt, Mahnung, folgt"
    assert score(answer, reference)["keyword_coverage"] == 1.0
    assert score("muss werden weil sonst", reference)["keyword_coverage"] == 0.0
    # No language can be told of three words: English ones.
    assert score("Paris", "They went there")["keyword_coverage"] is None


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("The premium is $604", "$604", 1.0),  # the seed's example
        ("604.00", "$604", 1.0),
        ("1234", "1,234", 1.0),
        ("0.305", "0.305%", 0.0),
        ("0.305 percent", "0.305%", 1.0),
        ("0.133%", "-0.133%", 0.0),
        ("−0.133 %", "-0.133%", 1.0),
        ("118 and 117", "118, 117, 36 and 51", 0.5),
        ("٦٠٤", "604", 1.0),
        ("六百零四", "604", 0.0),
        ("604", "six hundred and four", None),
    ],
)
def test_number_match(answer, reference, expected):
    assert score(answer, reference)["number_match"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$604", {"604"}),
        ("US$ 1,234,567.80", {"1234567.8"}),
        ("-$5.50 and $-5", {"-5.5", "-5"}),
        ("Rule C-1, 10-20, 2020-05-12", {"1", "10", "20", "2020", "5", "12"}),
        ("1.234.567,89", {"1234567.89"}),
        ("1\u202f234,5 or 1'234", {"1234.5", "1234"}),
        ("12,34,567", {"1234567"}),
        ("0,305% of 3,5", {"0.305%", "3.5"}),
        ("version 3.11.4, rules 1,2,3", {"3", "11", "4", "1", "2"}),
        ("(-.5) .5", {"-0.5", "0.5"}),
        ("wait...5", {"5"}),
        ("007, -0, 1.0", {"7", "0", "1"}),
        ("٣٫١٤٪ and १,२३४ and ５０％", {"3.14%", "1234", "50%"}),
        ("下降到-5度", {"-5"}),
        ("10² ½ no number", {"10"}),
        ("7‰, 7 per cent", {"7‰", "7%"}),
    ],
)
def test_numbers(text, expected):
    assert numbers(text) == expected


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9))
def test_a_number_is_read_the_same_plain_and_grouped(value):
    (plain,) = numbers(f"{value:f}")
    (grouped,) = numbers(f"{value:,f}")
    assert plain == grouped
    assert float(plain) == float(value)


def squad_f1(answer, reference):
    """SQuAD 2.0's definition, as a plain reading of it."""

    def tokens(text):
        text = "".join(character for character in text.lower() if character not in set(string.punctuation))
        return re.sub(r"\b(a|an|the)\b", " ", text).split()

    ours, theirs = tokens(answer), tokens(reference)
    if not ours or not theirs:
        return float(ours == theirs)
    common = sum((Counter(ours) & Counter(theirs)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(ours), common / len(theirs)
    return 2 * precision * recall / (precision + recall)


latin = st.text(alphabet="abt he.,-'\"éß“”–5%\n", max_size=30)


@settings(max_examples=200, deadline=None)
@given(latin, st.lists(latin, min_size=1, max_size=3))
def test_token_f1_equals_squad_in_latin_script(answer, references):
    expected = max(squad_f1(answer, reference) for reference in references)
    assert score(answer, *references)["token_f1"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("the", "A", 1.0),
        ("", "the", 1.0),
        ("Paris", "the", 0.0),
        ("法国首都。", "法国的首都", 8 / 9),
        ("서울", "서울은", 0.8),
        ("है।", "है", 1.0),
    ],
)
def test_token_f1_edges(answer, reference, expected):
    assert score(answer, reference)["token_f1"] == pytest.approx(expected)


def test_several_references_count_by_the_best_and_none_leaves_the_answer_s_own_metric():
    found = score("Paris 5", "London 7", "Paris 5", "nothing here", "of it")
    assert found.pop("source_citation") == 0.0
    assert set(found.values()) == {1.0}
    assert [name for name, value in score("Source: x").items() if value is not None] == ["source_citation"]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_a_text_equals_itself(text):
    found = score(text, text)
    assert found["exact_match"] == found["token_f1"] == 1.0
    assert {found[name] for name in ("keyword_coverage", "number_match", "answer_completeness")} <= {1.0, None}
