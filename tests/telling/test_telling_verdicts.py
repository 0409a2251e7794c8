"""The verdict sentence on histories that went through the real gate."""

import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import sqlalchemy as sa

from rageval_dagster.app.evaluate import look_at
from rageval_dagster.cli.evaluate import evaluation_lines
from rageval_dagster.evaluation.summary import report_of
from rageval_dagster.gate.baselines import accept
from rageval_dagster.gate.decision import Judged, judged_before
from rageval_dagster.gate.spec import seen_from
from rageval_dagster.report.contents import client_contents
from rageval_dagster.report.page import client_page
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import get_evaluation
from rageval_dagster.storage.tables import evaluation_runs
from rageval_dagster.telling.standing import tone_of_client
from rageval_dagster.telling.verdicts import Tone, headline, headline_metrics, verdict_of
from rageval_dagster.telling.words import number, signed
from tests.gate.gated_history import SPEC, evaluated, held, ranks
from tests.storage.history_builder import MRR, make_dataset, make_items, summary

ITEMS = make_items(200)
RANKS = ranks(ITEMS)


@pytest.fixture
def dataset(sqlite_db: Database) -> Dataset:
    return make_dataset(sqlite_db, "acme", ITEMS)


def told(db: Database, judged: Judged) -> tuple[Tone, str]:
    found = verdict_of(db, judged, SPEC.max_error_share)
    return found.tone, headline(found, {"mrr": report_of(db, judged.evaluation).summaries[MRR]})


def night(db: Database, dataset: Dataset, trigger: str, wrong: int = 0, **versions: Any) -> Judged:
    return held(db, evaluated(db, dataset, trigger, ranks(ITEMS, wrong), items=ITEMS, **versions))[0]


def shape(sentence: str) -> str:
    """The sentence with the date left out, and the time that stands beside it in a history of one day."""
    return re.sub(r"\d{1,2} [A-Z][a-z]+ 20\d\d(, \d\d:\d\d UTC)?", "DATE", sentence)


def test_the_time_is_told_where_the_day_does_not_tell_runs_apart(sqlite_db: Database, dataset: Dataset) -> None:
    night(sqlite_db, dataset, "n1")
    judged = night(sqlite_db, dataset, "n2")
    now = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
    found = verdict_of(sqlite_db, replace(judged, evaluation=replace(judged.evaluation, started_at=now)), 0.05)
    # Ten in the evening of the 20th in New York is the 21st in UTC.
    same_day = datetime(2026, 11, 20, 22, 5, tzinfo=timezone(-timedelta(hours=5)))
    said = headline(replace(found, baseline_at=same_day), {})
    assert said == "Passed: as good as on 21 November 2026, 03:05 UTC: nothing changed."
    said = headline(replace(found, baseline_at=same_day - timedelta(days=1)), {})
    assert said == "Passed: as good as on 20 November 2026: nothing changed."


def test_first_run(sqlite_db: Database, dataset: Dataset) -> None:
    first = told(sqlite_db, night(sqlite_db, dataset, "n1", wrong=10))
    assert first == ("first", "First run: MRR .95; later runs are compared with it.")
    later = night(sqlite_db, dataset, "n2", wrong=40)
    accept(sqlite_db, later.evaluation, "Ann")
    accepted = told(sqlite_db, judged_before(sqlite_db, later.evaluation))
    assert accepted == ("first", "Accepted as the baseline: MRR .80; later runs are compared with it.")


@pytest.mark.parametrize(
    ("before", "after", "tone", "sentence"),
    [
        ({}, {}, "same", "Passed: as good as on DATE: nothing changed."),
        ({}, {"corpus": "corpus-2"}, "same", "Passed: as good as on DATE: the documents changed (other chunks)."),
        (
            {"declared": None},
            {"declared": None},
            "same",
            "Passed: as good as on DATE: the system may have changed (it declares no version).",
        ),
        (
            {"wrong": 10},
            {"wrong": 60, "corpus": "corpus-2"},
            "worse",
            "Regressed since DATE against the baseline of DATE: MRR .95 to .70; the documents changed (",
        ),
        (
            {},
            {"wrong": 50, "index": "index-2"},
            "worse",
            "Regressed since DATE against the baseline of DATE: MRR 1.00 to .75; the index changed (re-embedded).",
        ),
        (
            {"wrong": 60},
            {"system_version": "system-2"},
            "better",
            "Passed, and better since DATE: MRR .70 to 1.00; the system changed (",
        ),
        (
            {},
            {"wrong": 8},
            "unclear",
            "Unclear since DATE against the baseline of DATE: MRR 1.00 to .96; 8 questions newly fail, "
            "too few to call it a drop; nothing changed.",
        ),
    ],
)
def test_a_run_against_its_baseline(
    sqlite_db: Database, dataset: Dataset, before: dict[str, Any], after: dict[str, Any], tone: str, sentence: str
) -> None:
    night(sqlite_db, dataset, "n1", **before)
    found, said = told(sqlite_db, night(sqlite_db, dataset, "n2", **after))
    assert found == tone
    assert shape(said).startswith(sentence)


@pytest.mark.parametrize(("recall", "shown"), [(0.8, False), (0.7, True)])
def test_a_recall_that_is_the_hit_rate_once_more_is_not_among_the_first_metrics(recall: float, shown: bool) -> None:
    names = {"retrieval.hit_rate_at_5": 0.8, MRR: 0.6, "retrieval.recall_at_5": recall}
    found = headline_metrics({name: summary(name, mean) for name, mean in names.items()}, names, 5)
    assert [each.metric_id for each in found] == [name for name in names if shown or "recall" not in name]


def test_the_first_night_that_was_worse_is_named_and_the_baseline_beside_it(
    sqlite_db: Database, dataset: Dataset
) -> None:
    """The baseline is of May, all is well until the 11th, and from the 12th of November on it is not."""
    nights = [(5, 3, 0), (11, 11, 0), (11, 12, 60), (11, 13, 60)]
    for month, day, wrong in nights:
        judged = night(sqlite_db, dataset, f"n{month}-{day}", wrong=wrong)
        with sqlite_db.begin() as connection:
            at = datetime(2026, month, day, 2, 0, tzinfo=UTC)
            mine = evaluation_runs.c.id == judged.evaluation.id
            connection.execute(sa.update(evaluation_runs).where(mine).values(started_at=at))
    said = told(sqlite_db, judged_before(sqlite_db, get_evaluation(sqlite_db, len(nights))))[1]
    assert said.startswith("Regressed since 12 November 2026 against the baseline of 3 May 2026: MRR 1.00 to .70")


def test_what_is_not_kept_any_more_is_not_named(sqlite_db: Database, dataset: Dataset) -> None:
    for trigger, corpus in (("n1", "c1"), ("n2", "c1"), ("n3", "c2")):
        judged = night(sqlite_db, dataset, trigger, corpus=corpus)
    baseline, since = judged.judgement.baseline_id, judged.judgement.changes[0].since
    assert None is not since != baseline
    with sqlite_db.begin() as connection:
        connection.execute(sa.delete(evaluation_runs).where(evaluation_runs.c.id == since))
    assert told(sqlite_db, judged)[1].startswith("Passed: as good as on ")
    assert "documents changed" in client_page(client_contents(sqlite_db, load_settings({}), "acme"))
    with sqlite_db.begin() as connection:
        connection.execute(sa.delete(evaluation_runs).where(evaluation_runs.c.id == baseline))
    assert told(sqlite_db, judged)[1].startswith(f"Passed: as good as on run {baseline}")
    assert "documents changed" in client_page(client_contents(sqlite_db, load_settings({}), "acme"))


def test_the_judge_changed(sqlite_db: Database, dataset: Dataset) -> None:
    night(sqlite_db, dataset, "n1")
    [judged] = held(sqlite_db, evaluated(sqlite_db, dataset, "n2", ranks(ITEMS, 100), version="2", items=ITEMS))
    tone, said = told(sqlite_db, judged)
    assert tone == "unclear"
    assert "MRR: its judge changed" in said
    assert "the judge changed (retrieval.mrr)" in said


def test_the_questions_changed(sqlite_db: Database, dataset: Dataset) -> None:
    night(sqlite_db, dataset, "n1")
    other = [*ITEMS[:180], *make_items(20, "another question")]
    renewed = make_dataset(sqlite_db, "acme", other)
    [judged] = held(sqlite_db, evaluated(sqlite_db, renewed, "n2", ranks(other), items=other))
    assert shape(told(sqlite_db, judged)[1]) == (
        "Passed: as good as on DATE: the questions changed (180 shared questions, 20 new, 20 gone)."
    )


def test_the_system_failed_on_many_questions(sqlite_db: Database, dataset: Dataset) -> None:
    night(sqlite_db, dataset, "n1")
    judged = night(sqlite_db, dataset, "n2", wrong=60)

    def with_errors(count: int) -> tuple[Tone, str]:
        return told(sqlite_db, replace(judged, evaluation=replace(judged.evaluation, error_count=count)))

    assert with_errors(10)[1].startswith("Regressed since ")  # 5 % of 200
    tone, said = with_errors(50)
    assert tone == "worse"
    assert said.startswith("The system failed on 50 of 200 questions; for the others: regressed since ")
    nothing = "The system failed on 200 of 200 questions: nothing could be measured."
    assert with_errors(200) == ("failed", nothing)


def test_a_run_that_leaks_did_not_pass_whatever_it_scored(sqlite_db: Database, dataset: Dataset) -> None:
    night(sqlite_db, dataset, "n1")
    judged = night(sqlite_db, dataset, "n2")
    leaking = replace(judged, evaluation=replace(judged.evaluation, foreign_chunks=2))
    said = told(sqlite_db, leaking)[1]
    assert said.startswith("Leak, so not passed; by its scores alone: passed: as good as on ")


def test_nothing_could_be_scored(sqlite_db: Database, dataset: Dataset) -> None:
    [judged] = held(sqlite_db, evaluated(sqlite_db, dataset, "n1", dict.fromkeys(RANKS), items=ITEMS))
    assert told(sqlite_db, judged)[0] == "unmeasured"


@pytest.mark.parametrize(
    ("row", "tone"),
    [
        ({"verdict": "passed", "worst_delta": 0.0}, "same"),
        ({"verdict": "passed"}, "same"),  # of a renewed dataset
        ({"verdict": "first"}, "first"),
        ({"verdict": "failed", "errors": 3}, "failed"),
        ({"verdict": "unclear", "errors": 2}, "unclear"),
        ({"verdict": "regressed", "regressed_metric": MRR, "errors": 40}, "worse"),
        ({"verdict": None, "items": None}, None),
    ],
)
def test_a_client_in_a_word(row: dict[str, Any], tone: str | None) -> None:
    known = {"regressed_metric": None, "worst_delta": None, "errors": 0, "items": 40}
    assert tone_of_client(known | row, 0.05) == tone


def test_few_questions_do_not_say_that_a_run_is_as_good(sqlite_db: Database) -> None:
    few = make_items(15)
    dataset = make_dataset(sqlite_db, "acme", few)
    values = {item.item_id: 0.626 for item in few}
    for trigger in ("n1", "n2"):
        [judged] = held(sqlite_db, evaluated(sqlite_db, dataset, trigger, values, items=few))
    [row] = judged.gated
    assert row.smallest_drop is not None
    said = told(sqlite_db, judged)[1]
    drop = number(seen_from(row.smallest_drop))
    assert f"no clear drop since DATE, but 15 questions can reliably show only one of {drop} or more" in shape(said)
    assert "as good" not in said
    page = client_page(client_contents(sqlite_db, load_settings({}), "acme"))
    assert "No large drop seen; with so few questions, a smaller one can stay unseen" in page
    assert "May ship" not in page


def test_the_terminal_says_on_which_questions_a_number_is_unchanged(sqlite_db: Database) -> None:
    """Three of 42 questions lost their evidence: the mean is of the others, and so is the comparison."""
    items, settings = make_items(42), load_settings({})
    dataset = make_dataset(sqlite_db, "acme", items)
    values: dict[str, float | None] = {item.item_id: float(number > 5) for number, item in enumerate(items)}
    lines = []
    for trigger, lost in (("n1", 0), ("n2", 0), ("n3", 3)):
        now = values | {item.item_id: math.nan for item in items[:lost]}
        [judged] = held(sqlite_db, evaluated(sqlite_db, dataset, trigger, now, items=items))
        found = look_at(settings, sqlite_db, report_of(sqlite_db, judged.evaluation))
        lines.append([line.split() for line in evaluation_lines(settings, sqlite_db, found)])
    assert ["MRR", ".86", "unchanged"] in lines[1]
    assert ["MRR", ".92", *"unchanged on 39 questions (those scored both times)".split()] in lines[2]
    gone = "3 documents are gone; 3 of 42 questions lost their evidence".split()
    assert any(line[-len(gone) :] == [*gone[:-1], "evidence."] for line in lines[2])


@pytest.mark.parametrize(
    ("metric_id", "decision", "gated", "told_of"),
    [
        (
            "overlap.answer_correctness",
            "regressed",
            False,
            "; outside the gate, answer correctness (overlap) got worse",
        ),
        ("overlap.answer_correctness", "unclear", False, ""),
        ("overlap.answer_correctness", "regressed", True, ""),
        ("lexical.token_f1", "regressed", False, ""),
    ],
)
def test_a_pass_says_which_metrics_of_answers_got_worse_outside_the_gate(
    sqlite_db: Database, dataset: Dataset, metric_id: str, decision: Any, gated: bool, told_of: str
) -> None:
    night(sqlite_db, dataset, "n1")
    judged = night(sqlite_db, dataset, "n2", system_version="system-2")
    worse = replace(judged.comparisons[0], metric_id=metric_id, decision=decision, gated=gated, difference=-0.4)
    judged = replace(judged, comparisons=(*judged.comparisons, worse))
    found = replace(verdict_of(sqlite_db, judged, 0.05), scores="same")
    assert shape(headline(found, {})).startswith(f"Passed: as good as on DATE{told_of}: the system changed")
    regressed = replace(found, scores="worse", rows=judged.gated)
    assert "outside the gate" not in headline(regressed, {})


@pytest.mark.parametrize(
    ("value", "said"), [(0.05, "+.05"), (0.0, "+.00"), (-0.0049, "−.005"), (0.004, "+.004"), (-0.0004, "+.00")]
)
def test_a_difference_that_two_digits_would_hide_has_a_third(value: float, said: str) -> None:
    assert signed(value) == said
