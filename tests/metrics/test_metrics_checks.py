"""The checks family: how lists, facts and calculations are found. tests/seeds has seed 003's EF_1, EF_2 and EF_3."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metric_samples import columns_of, detail_of, make_result, outcomes_of

from rageval_dagster.benchmark.formats import read_dataset
from rageval_dagster.metrics import patterns
from rageval_dagster.recorded.formats import OutputOptions, read_outputs
from rageval_dagster.records import Item

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def outcomes(answer, checks, references=()):
    result = make_result(answer=answer)
    result = replace(result, item=Item("Who?", tuple(references), checks=tuple(checks)))
    return outcomes_of("checks", result)


def list_coverage(answer, check, *references):
    return outcomes(answer, [{"name": "items", "kind": "list", **check}], references)["list_coverage"].value


def holds(answer, check):
    return bool(outcomes(answer, [{"name": "it", "kind": "fact", **check}])["fact_score"].value)


def test_the_example_files_have_the_scores_that_the_documentation_says():
    options = OutputOptions(answers=EXAMPLES / "answers.json")
    report = read_outputs(EXAMPLES / "expected_outputs.json", "expected-outputs", options)
    assert report.refused == []
    columns = columns_of("checks", [output.result for output in report.rows])
    assert {name: [outcome.value for outcome in column] for name, column in columns.items()} == {
        "list_coverage": [0.75, None, None],
        "fact_score": [None, 1.0, None],
        "calculation_correct": [None, None, 1.0],
    }


@pytest.mark.parametrize(
    ("answer", "check", "references", "expected"),
    [
        ("We have apples and PEARS.", {"expect": ["apples", "pears", "plums", "figs"]}, [], 0.5),
        ("We have apples.", {"expect": "apples"}, [], 1.0),
        ("apples", {"expect": ["apples", "Apples", "pears"]}, [], 0.5),
        ("604 and 7%", {"expect": [604, "7%", "8%"]}, [], 2 / 3),
        ("pineapples", {"expect": ["apples"]}, [], 0.0),
        ("apples or quinces", {"expect": ["apples"], "any_of": ["pears", "quinces"]}, [], 1.0),
        ("apples", {"any_of": ["pears", "apples"]}, [], 1.0),
        ("Base Rates, then rounding", {}, ["* Base Rates\n* Rounding;\n- Group Rating."], 2 / 3),
        ("first, second", {}, ["1. **First**\n2) Second\n\nand 3. no entry"], 1.0),
        ("first", {}, ["* First\n* Second", "* First"], 1.0),
        ("C-1 and C-2", {"pattern": r"C-\d+"}, ["C-1, C-2, c-2 and C-3"], 2 / 3),
        ("C-1 and the Territories", {"pattern": r"C-\d+"}, ["* C-1: Base Rates\n* Territories"], 1.0),
        ("C-1", {"pattern": r"C-\d+", "expect": ["Territories"]}, ["C-1"], 0.0),
        ("anything", {}, ["no list here"], None),
        ("anything", {"pattern": r"C-\d+"}, [], None),
        ("北京、上海", {"expect": ["北京", "上海", "广州"]}, [], 2 / 3),
    ],
)
def test_list_coverage(answer, check, references, expected):
    found = list_coverage(answer, check, *references)
    assert found == (None if expected is None else pytest.approx(expected))


def test_several_lists_are_averaged_over_those_that_expect_something():
    checks = [
        {"name": "fruits", "kind": "list", "expect": ["apples", "pears"]},
        {"name": "rules", "kind": "list", "pattern": r"C-\d+"},
        {"name": "towns", "kind": "list", "expect": ["Rome"]},
    ]
    outcome = outcomes("apples of Rome", checks, ["No rules."])["list_coverage"]
    assert outcome.value == 0.75
    assert detail_of(outcome)["checks"] == {"fruits": 0.5, "towns": 1.0}
    assert detail_of(outcome)["counts"]["rules"] == {"found": 0, "expected": 0}


@pytest.mark.parametrize(
    ("answer", "check", "expected"),
    [
        ("Yes, it is.", {"expect": "yes"}, True),
        ("Since yesterday", {"expect": "yes"}, False),
        ("The *Rule*\n  C-1 holds", {"expect": "rule c-1"}, True),
        ("__Rule C-1__", {"expect": "Rule C-1"}, True),
        ("rule  C\u201110", {"expect": "Rule C-10"}, True),
        ("Rule C-10", {"expect": "Rule C-1"}, False),
        ("Rule C-1.5", {"expect": "Rule C-1"}, False),
        ("It is Rule C-1.", {"expect": "Rule C-1"}, True),
        ("GRG 15,000", {"expect": "GRG 15"}, False),
        ("GRG 51, GRG 15", {"expect": "GRG 51"}, True),
        ("the user's \u201crate\u201d", {"expect": 'user\u2019s "rate"'}, True),
        ("snake_case_name", {"expect": "case"}, False),
        ("首都是巴黎的", {"expect": "巴黎"}, True),
        ("Straße 5", {"expect": "STRASSE 5"}, True),
        ("करा", {"expect": "कर"}, False),
        ("0.305 %", {"expect": "0.305%"}, True),
        ("0.305%", {"expect": "0.305 %"}, True),
        ("0.305", {"expect": "0.305%"}, False),
        ("**-0.133%**", {"expect": "-0.133%"}, True),
        ("0.133%", {"expect": "-0.133%"}, False),
        ("136", {"expect": "36"}, False),
        ("1,234", {"expect": 1234}, True),
        ("1234.00", {"expect": 1234.0}, True),
        ("0.0000001", {"expect": 1e-7}, True),
        ("Paris and Rome", {"expect": ["Paris", "Rome"]}, True),
        ("Paris", {"expect": ["Paris", "Rome"]}, False),
        ("London", {"expect": "Paris", "any_of": ["Rome", "London"]}, True),
        ("rate: 0.3", {"pattern": r"rate:\s*0\.\d+"}, True),
        ("RATE", {"pattern": "rate"}, True),
        ("**total**: 5", {"pattern": r"total: \d"}, True),
        ("**total**: 5", {"pattern": r"\*\*total"}, True),
        ("on 2020-05-12", {"expect": "2020-05-12"}, True),
        ("604 euros", {"kind": "number", "expect": "EUR 604"}, True),
        ("six hundred and four", {"kind": "number", "expect": 604, "any_of": ["six hundred and four"]}, True),
        ("٦٠٤", {"kind": "number", "expect": 604}, True),
    ],
)
def test_facts(answer, check, expected):
    assert holds(answer, check) is expected


def test_the_fact_score_is_the_mean_of_facts_and_numbers():
    checks = [
        {"name": "town", "kind": "fact", "expect": "Paris"},
        {"name": "premium", "kind": "number", "expect": 604},
        {"name": "rules", "kind": "list", "expect": ["C-1"]},
        {"name": "king", "kind": "fact", "expect": "Louis"},
    ]
    outcome = outcomes("Paris, C-1, $604", checks)["fact_score"]
    assert outcome.value == pytest.approx(2 / 3)
    assert outcome.detail == {"checks": {"town": 1.0, "premium": 1.0, "king": 0.0}}


@pytest.mark.parametrize(
    ("answer", "forbid", "expected"),
    [
        ("604, but I am unable to calculate it exactly", None, 0.0),
        ("604, but I am unable to calculate it exactly", [], 1.0),
        ("604, though it can’t be determined", None, 0.0),
        ("604, roughly", ["roughly"], 0.0),
        ("604, throughly", ["roughly"], 1.0),
        ("604: das lässt sich nicht berechnen", ["nicht berechnen"], 0.0),
    ],
)
def test_forbidden_phrases(answer, forbid, expected):
    check = {"name": "premium", "kind": "calculation", "expect": 604, "forbid": forbid}
    assert outcomes(answer, [check])["calculation_correct"].value == expected


@pytest.mark.parametrize(("answer", "second"), [("604 and 605", 1.0), ("604", 0.0)])
def test_all_calculations_must_be_correct(answer, second):
    checks = [{"name": str(value), "kind": "calculation", "expect": value} for value in (604, 605)]
    outcome = outcomes(answer, checks)["calculation_correct"]
    assert outcome.value == second
    assert detail_of(outcome)["checks"] == {"604": 1.0, "605": second}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("* 5\n* 6", False), ("5*6", True), ("base rate * factor", True), ("5 x 6", True), ("at times, 5", True)],
)
def test_shown_steps(answer, expected):
    outcome = outcomes(answer, [{"name": "n", "kind": "calculation", "expect": 5}])["calculation_correct"]
    assert detail_of(outcome)["reported"]["n"]["shows_steps"] is expected


def test_details_hold_names_and_figures_alone():
    checks = [
        {"name": "a", "kind": "fact", "expect": "SECRET", "any_of": ["HIDDEN"]},
        {"name": "b", "kind": "list", "pattern": "SECRET|HIDDEN"},
        {
            "name": "c",
            "kind": "calculation",
            "expect": "SECRET",
            "forbid": ["HIDDEN"],
            "intermediates": {"d": "SECRET"},
        },
    ]
    found = outcomes("SECRET HIDDEN", checks, ["SECRET"])
    assert all(outcome.detail for outcome in found.values())
    assert "SECRET" not in str(found)
    assert "HIDDEN" not in str(found)


def test_a_pattern_that_takes_too_long_is_an_error_of_its_check(monkeypatch):
    monkeypatch.setattr(patterns, "SECONDS", 0.05)
    slow = {"name": "slow one", "kind": "fact", "pattern": r"(a|aa)+$"}
    quick = {"name": "rules", "kind": "list", "expect": ["aaa"]}
    answer = "a" * 200_000 + "b"
    bad = replace(make_result(answer=answer), item=Item("Who?", checks=(slow, quick)))
    good = replace(make_result(answer="aa"), item=Item("Who?", checks=(slow, quick)))
    found = columns_of("checks", [good, *[bad] * 10])
    assert [outcome.status for outcome in found["fact_score"]] == ["scored", *["error"] * 10]
    assert found["fact_score"][-1].reason == "the pattern of the check 'slow one' takes too long"
    assert {outcome.status for outcome in found["list_coverage"]} == {"scored"}


def test_a_list_of_too_many_items_is_an_error():
    reference = "".join(f"* item {number}\n" for number in range(10_001))
    outcome = outcomes(reference, [{"name": "items", "kind": "list"}], [reference])["list_coverage"]
    assert (outcome.status, outcome.reason) == ("error", "the check 'items' expects more than 10,000 items")


@pytest.mark.parametrize(
    ("pattern", "reason"), [("(", "is not a regular expression"), ("a" * 1_001, "is longer than 1,000 characters")]
)
def test_a_pattern_that_cannot_be_used_is_refused_when_it_is_imported_and_an_error_later(tmp_path, pattern, reason):
    check = {"name": "n", "kind": "fact", "pattern": pattern}
    path = tmp_path / "items.jsonl"
    path.write_text(json.dumps({"question": "Who?", "checks": [check]}) + "\n" + json.dumps({"question": "Why?"}))
    [refusal] = read_dataset(path).refused
    assert (refusal.field, reason in refusal.reason) == ("checks[0].pattern", True)
    for kind, metric in (("fact", "fact_score"), ("list", "list_coverage")):
        outcome = outcomes("a", [{**check, "kind": kind}], ["a list"])[metric]
        assert (outcome.status, outcome.reason) == ("error", f"the pattern of the check 'n' {reason}")


@given(st.integers(-(10**9), 10**9), st.sampled_from(["{:d}", "{:,d}", "${:d}", "**{:d}**", "it is {:d}.", "({:d})"]))
def test_a_number_is_found_however_it_is_written_and_no_other_is(value, form):
    written = form.format(value)
    assert holds(written, {"kind": "number", "expect": value})
    assert not holds(written, {"kind": "number", "expect": value + 1})
    assert not holds(written, {"kind": "number", "expect": f"{value}%"})


@given(st.lists(st.sampled_from(["apple", "pear", "fig", "C-1", "C-10", "604"]), unique=True), st.randoms())
def test_coverage_is_the_share_of_what_is_named(named, random):
    expected = ["apple", "pear", "fig", "C-1", "C-10", "604"]
    random.shuffle(named)
    assert list_coverage("; ".join(named), {"expect": expected}) == len(named) / len(expected)
