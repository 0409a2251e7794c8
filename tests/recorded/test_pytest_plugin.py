"""The pytest plugin, used by a project's own tests."""

import json
import subprocess
import sys

import pytest

from rageval_dagster import assert_evaluation
from rageval_dagster.errors import SettingsError
from tests.docs.pages import blocks

pytest_plugins = ["pytester"]

ROWS = [
    {"id": "notice", "question": "What is the notice period?", "answers": ["30 days"], "answer": "It is 30 days."},
    {"id": "fee", "question": "What is the fee?", "answers": ["604 euros"], "answer": "It is 640 euros."},
    {"id": "lost", "question": "Who signs?", "answers": ["The tenant"], "error": "timeout"},
    {"id": "open", "question": "Is there a garden?", "answer": "Yes."},
]


TESTS = """
from rageval_dagster import assert_evaluation

def test_bad(recorded_answers):
    each = {"lexical.number_match": 1.0, "lexical.token_f1": 0.1}
    assert_evaluation(recorded_answers("answers/said.jsonl"), each=each)

def test_good(recorded_answers):
    good = recorded_answers("answers/said.jsonl")[:2]
    assert_evaluation(good, each={"lexical.number_match": 0.0}, mean={"lexical.answer_match": 0.5})

def test_refused(recorded_answers):
    recorded_answers("answers/broken.jsonl", "recorded")

def test_absent(recorded_answers):
    recorded_answers("answers/none.jsonl")
"""


def test_the_tests_of_a_project_fail_in_a_line_a_question(pytester: pytest.Pytester) -> None:
    folder = pytester.mkdir("answers")
    (folder / "said.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    (folder / "broken.jsonl").write_text('{"question": 7, "answer": "x"}\n', encoding="utf-8")
    rows = [{**row, "contexts": [row.get("answer", "")]} for row in ROWS[:2]]
    (pytester.path / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    pytester.makepyfile(test_project=TESTS, test_of_the_docs=blocks("docs/in-your-tests-and-ci.md", "python")[0])
    # A process of its own: what pytester imports in this one it takes out again, and numpy is imported only once.
    ended = pytester.runpytest_subprocess()
    ended.assert_outcomes(passed=1, failed=4)
    shown = [line.removeprefix("E").strip() for line in ended.outlines if line.startswith("E ")]
    assert shown == [
        "AssertionError: mean of 2 questions: lexical.answer_match 0.500, at least 0.8",
        "AssertionError: 2 of 4 questions not good enough:",
        "fee  lexical.number_match 0.000, at least 1  What is the fee?",
        "lost  lexical.number_match: error, timeout; lexical.token_f1: error, timeout  Who signs?",
    ]
    assert not any("asserting.py" in line for line in ended.outlines)
    ended.stdout.fnmatch_lines(["broken.jsonl, row 1, field question: *", "*none.jsonl cannot be read *"])


def test_a_mean_below_its_limit_fails() -> None:
    with pytest.raises(AssertionError) as failed:
        assert_evaluation(ROWS[:2], mean={"lexical.number_match": 0.9})
    assert str(failed.value) == "mean of 2 questions: lexical.number_match 0.500, at least 0.9"


def test_less_is_better_for_some_metrics() -> None:
    rows = [{"question": "Who?", "answer": "Ada wrote it.", "contexts": []}]
    with pytest.raises(AssertionError, match=r"embedding.answer_hallucination 1.000, at most 0.3"):
        assert_evaluation(rows, each={"embedding.answer_hallucination": 0.3})


def test_what_nothing_measures_does_not_pass() -> None:
    with pytest.raises(AssertionError, match=r"lexical.token_f1 has no value on any question: "):
        assert_evaluation([ROWS[3]], each={"lexical.token_f1": 0.0})
    with pytest.raises(TypeError, match="takes limits"):
        assert_evaluation(ROWS)
    with pytest.raises(SettingsError, match=r"'lexical.\*' is a pattern"):
        assert_evaluation(ROWS, each={"lexical.*": 0.5})


def test_the_plugin_imports_nothing_heavy() -> None:
    code = "import sys, rageval_dagster.pytest_plugin; print(*(m for m in sys.modules if m.startswith('rageval_d')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["rageval_dagster", "rageval_dagster.pytest_plugin"]
