"""The gate over stored evaluations: the reference, verdicts, other judges, and questions asked again."""

import html
import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from rageval_dagster.cli.gate import newly_failing
from rageval_dagster.errors import RagevalError
from rageval_dagster.evaluation.summary import EvaluationReport, report_of
from rageval_dagster.gate.baselines import accept
from rageval_dagster.gate.comparing_runs import compare_runs
from rageval_dagster.gate.decision import Judged, judged_before, visible_drop
from rageval_dagster.gate.incidents import review
from rageval_dagster.gate.spec import DEFAULT_GATE, seen_from
from rageval_dagster.records import Item, Outcome
from rageval_dagster.report.contents import FIRST_QUESTIONS, client_contents
from rageval_dagster.report.page import client_page, fleet_page
from rageval_dagster.settings import load_settings
from rageval_dagster.storage import comparisons as comparison_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.caches import LlmCall, save_replies
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, get_evaluation, update_evaluation
from rageval_dagster.storage.incidents import open_incidents
from rageval_dagster.storage.retention import delete_scores
from rageval_dagster.storage.types import utc_now
from rageval_dagster.storage.views import read_view
from rageval_dagster.telling.junit import junit_xml
from rageval_dagster.telling.standing import client_standings
from rageval_dagster.telling.verdicts import finding_of, headline, sentence, verdict_of, what_settles
from tests.gate.gated_history import ITEMS, SPEC, AskAgain, evaluated, held, other_judge, ranks, saying_the_same
from tests.storage.history_builder import (
    MRR,
    finish,
    make_dataset,
    make_items,
    open_run,
    summary,
)

MANY = make_items(400)


def said_of(db: Database, judged: Judged) -> str:
    return sentence(verdict_of(db, judged, SPEC.max_error_share))


def test_the_first_run_that_can_be_compared_with_is_the_baseline(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    [failed] = held(db, evaluated(db, dataset, "n1", dict.fromkeys(ranks(ITEMS), None)))
    assert failed.judgement.verdict is None
    [erring] = held(db, evaluated(db, dataset, "n2", {**ranks(ITEMS), **dict.fromkeys(list(ranks(ITEMS))[:10])}))
    assert erring.judgement.verdict is None
    [first] = held(db, evaluated(db, dataset, "n3", ranks(ITEMS)))
    assert first.judgement.verdict == "first"
    [second] = held(db, evaluated(db, dataset, "n4", ranks(ITEMS)))
    assert (second.judgement.verdict, second.judgement.baseline_id) == ("passed", first.evaluation.id)


def test_a_run_with_a_leak_is_no_baseline_by_itself(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    report = evaluated(db, dataset, "n1", ranks(ITEMS))
    leaking = replace(report, evaluation=replace(report.evaluation, foreign_chunks=3))
    assert held(db, leaking)[0].judgement.verdict is None
    [clean] = held(db, evaluated(db, dataset, "n2", ranks(ITEMS)))
    assert clean.judgement.verdict == "first"


def test_of_a_system_that_answered_nothing_no_change_is_known(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "n1", ranks(ITEMS)))
    report = evaluated(db, dataset, "n2", dict.fromkeys(ranks(ITEMS), None), declared=None, system_version="2")
    failed = replace(report, evaluation=replace(report.evaluation, error_count=len(ITEMS)))
    with pytest.raises(RagevalError, match="failed on every question: nothing can be compared with it"):
        accept(db, failed.evaluation, None)
    [judged] = held(db, failed)
    assert judged.judgement.changes == ()
    assert said_of(db, judged) == "the system failed on 60 of 60 questions: nothing could be measured"


def test_the_smallest_drop_is_told_before_there_is_a_second_run(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    [first] = held(db, evaluated(db, dataset, "n1", ranks(ITEMS)))
    [second] = held(db, evaluated(db, dataset, "n2", ranks(ITEMS)))
    [row] = second.gated
    assert visible_drop(db, first.evaluation, SPEC) == row.smallest_drop


def test_a_fall_is_held_against_the_baseline_until_it_is_over_or_accepted(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    [first] = held(db, evaluated(db, dataset, "n1", ranks(ITEMS)))
    for night in ("n2", "n3"):
        [fallen] = held(db, evaluated(db, dataset, night, ranks(ITEMS, wrong=15)))
        assert (fallen.judgement.verdict, fallen.judgement.baseline_id) == ("regressed", first.evaluation.id)
        [row] = fallen.regressed
        assert (row.baseline_mean, row.mean, row.difference) == (1.0, 0.75, -0.25)
        assert set(fallen.judgement.newly_failing) == {item.item_id for item in ITEMS[:15]}
        assert said_of(db, fallen).startswith(
            f"regressed against run {first.evaluation.id}: retrieval.mrr 1.000 -> 0.750 (-0.250 ["
        )
    named, both = newly_failing(fallen)
    ids = ", ".join(fallen.judgement.newly_failing[:10])
    assert named.endswith(f"15 questions newly failing, also when asked again: {ids} and 5 more")
    assert both == f"both answers: rageval runs compare {first.evaluation.id} {fallen.evaluation.id}"
    assert newly_failing(first) == ()
    [overview] = read_view(db, "fleet_overview")
    assert (overview["verdict"], overview["regressed_metric"], overview["regressed_by"]) == ("regressed", MRR, 0.25)
    [over] = held(db, evaluated(db, dataset, "n4", ranks(ITEMS)))
    assert over.judgement.verdict == "passed"
    accept(db, fallen.evaluation, "ann")
    [after] = held(db, evaluated(db, dataset, "n5", ranks(ITEMS, wrong=15)))
    assert (after.judgement.verdict, after.judgement.baseline_id) == ("passed", fallen.evaluation.id)
    assert after.judgement.newly_failing == ()


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"n2": "2.0", "n3": "3.0"}, "version 2.0 -> 3.0"),
        ({"n2": "a" * 64, "n3": "b" * 64}, "different recorded answers"),
        ({"n2": None, "n3": "3.0"}, "version not declared -> 3.0"),
        ({"n2": "2.0", "n3": "2.0"}, "its settings"),
    ],
)
def test_what_changed_is_told_since_the_last_good_run_with_the_versions(
    db: Database, declared: dict[str, str | None], said: str
) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "n1", ranks(ITEMS), declared="1.0"))
    [good] = held(db, evaluated(db, dataset, "n2", ranks(ITEMS), declared=declared["n2"], system_version="system-2"))
    report = evaluated(db, dataset, "n3", ranks(ITEMS, 15), declared=declared["n3"], system_version="system-3")
    [fallen] = held(db, report)
    since = f"; since run {good.evaluation.id}, the last good one, the system changed ({said}; 15 questions got worse"
    assert since in said_of(db, fallen)


def test_documents_that_no_longer_come_back_are_named(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "n1", ranks(ITEMS), declared=None))
    [fallen] = held(db, evaluated(db, dataset, "n2", ranks(ITEMS, 15), declared=None, depth=5))
    assert "it declares no version; 15 questions got worse because of it; 5 documents no longer" in said_of(db, fallen)
    [change] = fallen.judgement.changes
    assert set(change.documents) == {"doc-6", "doc-7", "doc-8", "doc-9", "doc-10"}
    page = client_page(client_contents(db, load_settings({}), "acme"))
    assert f"Such as: {', '.join(change.documents[:3])}" in page
    assert "Such as" not in client_page(client_contents(db, load_settings({}), "acme", redact=True))


def test_a_system_that_changed_behind_its_version_is_no_new_version(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "n1", ranks(ITEMS), declared="1.0", system_version="told"))
    report = evaluated(db, dataset, "n2", ranks(ITEMS, 15), declared="1.0", system_version="told+1")
    [fallen] = held(db, report)
    assert "the system changed (its version is still 1.0, but it returned other passages or answers" in said_of(
        db, fallen
    )
    held(db, evaluated(db, dataset, "n3", ranks(ITEMS, 15), declared="1.1", system_version="other"))
    page = client_page(client_contents(db, load_settings({}), "acme"))
    assert page.count("other passages or answers, same version") == 1
    assert page.count("new version of the system") == 1


def test_a_few_wrong_answers_are_no_regression_but_are_named_where_they_fail_again(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "n1", ranks(ITEMS)))
    asked: list[str] = []

    def one_recovers(evaluation: Evaluation, items: Sequence[Item], metric_ids: Sequence[str]):
        asked.extend(item.item_id for item in items)
        return {MRR: {item.item_id: Outcome.scored(float(item is items[0])) for item in items}}

    [judged] = held(db, evaluated(db, dataset, "n2", ranks(ITEMS, wrong=3)), ask_again=one_recovers)
    assert judged.judgement.verdict == "passed"
    assert asked == [item.item_id for item in ITEMS[:3]] * 2, "twice more, and only those"
    assert set(judged.judgement.newly_failing) == set(asked[1:3])
    assert judged_before(db, judged.evaluation) == judged


def test_what_was_not_measured_does_not_pass_and_explains_nothing(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    [first] = held(db, evaluated(db, dataset, "n1", ranks(ITEMS)))
    [dark] = held(db, evaluated(db, dataset, "n2", dict.fromkeys(ranks(ITEMS))))
    assert (dark.judgement.verdict, [row.decision for row in dark.gated]) == ("unclear", ["unclear"])
    partly = {**ranks(ITEMS), **dict.fromkeys(list(ranks(ITEMS))[:20])}
    [half] = held(db, evaluated(db, dataset, "n3", partly))
    assert (half.judgement.verdict, half.gated[0].remark) == (
        "unclear",
        "only 40 of 60 questions were scored in both",
    )
    # What changed is told since the last evaluation of which anything is known.
    assert comparison_storage.last_good(db, half.evaluation) == first.evaluation.id


def test_models_that_cannot_be_asked_take_no_verdict_back(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "n1", ranks(ITEMS)))

    def gone(*_: object) -> dict[str, dict[str, Outcome]]:
        raise RagevalError("the endpoint is gone")

    [fallen] = held(db, evaluated(db, dataset, "n2", ranks(ITEMS, wrong=20)), ask_again=gone)
    assert (fallen.judgement.verdict, fallen.judgement.newly_failing) == ("regressed", ())
    assert judged_before(db, fallen.evaluation) == fallen


def test_the_same_answers_are_not_asked_about_again_the_next_night(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "n1", ranks(ITEMS)))
    asked: list[int] = []

    def count(evaluation: Evaluation, items: Sequence[Item], metric_ids: Sequence[str]):
        asked.append(len(items))
        return saying_the_same(db)(evaluation, items, metric_ids)

    [once] = held(db, evaluated(db, dataset, "n2", ranks(ITEMS, wrong=3)), ask_again=count)
    again = open_run(db, dataset, "n3", reference=False)
    links = {row.item_id: row for row in result_storage.run_items(db, once.evaluation.id)}
    result_storage.link(
        db, again.id, result_storage.RETRIEVAL, {k: (v.retrieval_id or "", "x") for k, v in links.items()}
    )
    result_storage.link(db, again.id, result_storage.RESULT, {k: (v.result_id or "", "x") for k, v in links.items()})
    finish(db, again, {})
    score_storage.save_summaries(db, again.id, score_storage.load_summaries(db, once.evaluation.id))
    [twice] = held(db, report_of(db, get_evaluation(db, again.id)), ask_again=count)
    assert asked == [3, 3]
    assert twice.judgement.newly_failing == once.judgement.newly_failing


def test_judging_the_same_evaluation_again_changes_nothing(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    first = evaluated(db, dataset, "n1", ranks(ITEMS))
    fallen = evaluated(db, dataset, "n2", ranks(ITEMS, wrong=20))
    once = held(db, first) + held(db, fallen)
    assert held(db, first) + held(db, fallen) == once


def test_another_judge_is_compared_with_itself_or_not_at_all(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    before = evaluated(db, dataset, "n1", ranks(ITEMS))
    held(db, before)
    harsh = ranks(ITEMS, wrong=30)
    [unknown] = held(db, evaluated(db, dataset, "n2", harsh, version="2"))
    [row] = unknown.gated
    assert (row.decision, row.difference, unknown.judgement.verdict) == ("unclear", None, "unclear")
    # Now the earlier answers are scored by the new judge: as harshly.
    harsher = other_judge(lambda item_id: harsh[item_id] or 0.0)
    report = evaluated(db, dataset, "n3", harsh, version="2")
    for evaluation, model in ((before.evaluation, "gemma-3"), (report.evaluation, "gemma-4")):
        update_evaluation(db, evaluation.id, dagster_run_id=model)
        call = LlmCall("acme", "judge", model, 1, 1, None, 0.1, False, 0, None, run_id=model)
        save_replies(db, "acme", [], [call])
    [judged] = held(db, report_of(db, get_evaluation(db, report.evaluation.id)), metrics=[harsher])
    [row] = judged.gated
    assert (row.decision, row.difference, judged.judgement.verdict) == ("passed", 0.0, "passed")
    assert "-0.000" not in said_of(db, judged)
    assert "; since run 1 the judge changed (model gemma-3 -> gemma-4: retrieval.mrr)" in said_of(db, judged)
    # The earlier run keeps its own scores.
    kept = score_storage.load_scores(db, before.evaluation.id, {MRR: "1"})[MRR]
    assert {outcome.value for outcome in kept.values()} == {1.0}


def test_runs_of_two_clients_and_unfinished_ones_are_not_compared(db: Database) -> None:
    acme = evaluated(db, make_dataset(db, "acme", ITEMS), "n1", ranks(ITEMS))
    beta = evaluated(db, make_dataset(db, "beta", ITEMS), "n1", ranks(ITEMS))
    with pytest.raises(RagevalError, match=r"run \d+ is of client 'acme', run \d+ of 'beta'"):
        compare_runs(db, load_settings({}), acme.evaluation.id, beta.evaluation.id)
    going = open_run(db, make_dataset(db, "acme", ITEMS), "n2")
    with pytest.raises(RagevalError, match=f"run {going.id} is not complete"):
        compare_runs(db, load_settings({}), acme.evaluation.id, going.id)
    with pytest.raises(RagevalError, match="only a complete one can be the baseline"):
        accept(db, going, None)


@pytest.mark.parametrize(("drop", "said"), [(0.2539, 0.26), (0.25, 0.25), (0.07, 0.07), (0.29, 0.29), (0.2501, 0.26)])
def test_a_smallest_drop_is_told_as_one_that_would_have_been_seen(drop: float, said: float) -> None:
    assert seen_from(drop) == said


def test_what_people_are_told_of_a_metric(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    first = held(db, evaluated(db, dataset, "n1", ranks(ITEMS)))
    assert finding_of(first, "retrieval.mrr", None).said == [
        "not compared: this is the baseline that later runs are compared with"
    ]
    assert finding_of(first, "claims.faithfulness", None).said == ["not measured: there is no judge model"]
    fallen = held(db, evaluated(db, dataset, "n2", ranks(ITEMS, wrong=20)))
    finding = finding_of(fallen, "retrieval.mrr", None)
    assert not finding.passed
    assert finding.said[0].startswith("regressed: human/dense: MRR 1.00 to .67 (−.33, 95 %: ")
    assert "60 shared questions" in finding.said[0]
    silent = finding_of(fallen, "claims.faithfulness", "model")
    assert (silent.passed, silent.said) == (False, ["not measured: the newest evaluation has no score for it"])


def renewed(db: Database, night: int, kept: int, size: int, failing: int, corpus: str = "corpus-1") -> Judged:
    """An evaluation of a dataset of questions `kept` to `kept + size`, of which all before `failing` are wrong."""
    items = MANY[kept : kept + size]
    report = evaluated(
        db,
        make_dataset(db, "acme", items),
        f"schedule:{night}",
        {item.item_id: 0.0 if number + kept < failing else 1.0 for number, item in enumerate(items)},
        items=items,
        corpus=corpus,
    )
    return held(db, report)[0]


def baseline_of(db: Database) -> tuple[int, str]:
    baseline = comparison_storage.find_baseline(db, "acme", "human", "dense")
    assert baseline is not None
    return baseline.evaluation_id, baseline.reason


def test_a_renewal_in_the_middle_of_a_fall_launders_nothing(db: Database) -> None:
    first = renewed(db, 1, 0, 50, failing=0)
    renewed(db, 2, 0, 50, failing=10)
    # 29 of 50 questions are new and answered rightly; of the 21 that still stand half fail.
    fallen = renewed(db, 3, 29, 50, failing=40, corpus="corpus-2")
    assert fallen.judgement.verdict == "regressed"
    assert fallen.gated[0].n_shared == 21
    assert baseline_of(db) == (first.evaluation.id, "first")
    # Nor does the night after: the same is held against the same run.
    still = renewed(db, 4, 29, 50, failing=40, corpus="corpus-2")
    assert (still.judgement.verdict, still.judgement.baseline_id) == ("regressed", first.evaluation.id)


def test_slow_decay_adds_up_through_questions_that_all_change(db: Database) -> None:
    first = renewed(db, 0, 0, 50, failing=0)
    found = []
    for week in range(1, 31):
        kept = 5 * week  # after ten weeks none of the first questions is left
        found.append(renewed(db, week, kept, 50, failing=kept + week, corpus=f"corpus-{week}"))
    verdicts = [each.judgement.verdict for each in found]
    assert "regressed" in verdicts
    caught = verdicts.index("regressed")
    assert caught < 15, "each week another of the fifty fails"
    assert set(verdicts[caught:]) == {"regressed"}
    assert found[-1].gated[0].n_shared == 0
    assert baseline_of(db) == (first.evaluation.id, "first")


def test_where_no_question_leads_back_the_verdict_is_unclear_and_asks_for_an_acceptance(db: Database) -> None:
    renewed(db, 1, 0, 50, failing=0)
    alone = renewed(db, 2, 50, 50, failing=0)
    assert (alone.judgement.verdict, alone.gated[0].difference) == ("unclear", None)
    assert "too few questions lead back" in said_of(db, alone)
    assert f"to start from this run: rageval runs accept {alone.evaluation.id}" in said_of(db, alone)
    accept(db, alone.evaluation, "ann")
    after = renewed(db, 3, 50, 50, failing=0)
    assert (after.judgement.verdict, after.judgement.baseline_id) == ("passed", alone.evaluation.id)


@pytest.mark.parametrize(("trigger", "verdict"), [("command:1", "regressed"), ("schedule:1", "unclear")])
def test_a_person_looks_once_and_the_nights_share_their_alarms(db: Database, trigger: str, verdict: str) -> None:
    items = ITEMS[:40]
    dataset = make_dataset(db, "acme", items)
    held(db, evaluated(db, dataset, "schedule:0", ranks(items), items=items))
    report = evaluated(db, dataset, trigger, ranks(items, wrong=7), items=items, index="index-2")
    [judged] = held(db, report)
    assert judged.judgement.verdict == verdict
    if verdict == "unclear":
        assert "strongly suspected: as a single comparison it would be a regression" in said_of(db, judged)
        assert "since run 1 the index changed (re-embedded" in said_of(db, judged)
    # Who compares the two runs by hand reads the same.
    rows = compare_runs(db, load_settings({}), 1, judged.evaluation.id).rows
    assert [(row.decision, row.difference) for row in rows] == [
        (row.decision, row.difference) for row in judged.comparisons
    ]


@pytest.mark.parametrize("size", [5, 37, 60])
def test_identical_runs_pass_however_few_the_questions_and_one_flip_of_37_passes(db: Database, size: int) -> None:
    items = ITEMS[:size]
    dataset = make_dataset(db, "acme", items)
    held(db, evaluated(db, dataset, "command:0", ranks(items), items=items))
    [same] = held(db, evaluated(db, dataset, "command:1", ranks(items), items=items))
    [row] = same.gated
    assert (same.judgement.verdict, row.difference) == ("passed", 0.0)
    assert row.ci_low is not None
    assert row.ci_low < 0.0, "one question more or less could have changed"
    if size == 37:
        [flip] = held(db, evaluated(db, dataset, "command:2", ranks(items, wrong=1), items=items))
        assert flip.judgement.verdict == "passed"


def test_a_fall_within_the_tolerance_passes_and_is_told_as_what_it_is(db: Database) -> None:
    dataset = make_dataset(db, "acme", MANY)
    held(db, evaluated(db, dataset, "n1", ranks(MANY), items=MANY))
    lower: dict[str, float | None] = {item.item_id: 0.5 if n < 7 else 1.0 for n, item in enumerate(MANY)}
    [fallen] = held(db, evaluated(db, dataset, "n2", lower, items=MANY))
    assert fallen.judgement.verdict == "passed"
    assert "retrieval.mrr: the drop is within the tolerance (-0.0" in said_of(db, fallen)


@pytest.mark.parametrize(
    ("alpha", "remark"),
    [(0.05, "the drop may be within the tolerance"), (1e-9, "the drop is less certain than the gate requires")],
)
def test_a_fall_that_is_sure_but_not_surely_beyond_the_tolerance_says_so(
    db: Database, alpha: float, remark: str
) -> None:
    spec, wrong = replace(SPEC, alpha=alpha), 12 if alpha == 0.05 else 20
    dataset = make_dataset(db, "acme", MANY)
    held(db, evaluated(db, dataset, "n1", ranks(MANY), items=MANY), spec=spec)
    [fallen] = held(db, evaluated(db, dataset, "n2", ranks(MANY, wrong=wrong), items=MANY), spec=spec)
    [row] = fallen.gated
    assert (row.decision, row.remark) == ("unclear", remark)
    assert row.ci_high is not None
    assert row.ci_high < 0.0


def test_a_run_that_is_surely_better_is_offered_for_acceptance(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "command:1", ranks(ITEMS, wrong=30)))
    [better] = held(db, evaluated(db, dataset, "command:2", ranks(ITEMS)))
    assert (better.judgement.verdict, better.gated[0].better) == ("passed", True)
    assert f"rageval runs accept {better.evaluation.id}" in said_of(db, better)
    assert baseline_of(db) == (1, "first"), "only a person moves it"


def test_a_built_in_system_is_never_asked_again(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "command:1", ranks(ITEMS), reference=True))

    def never(*_: object) -> dict[str, dict[str, Outcome]]:
        raise AssertionError("it would say the same")

    [judged] = held(db, evaluated(db, dataset, "command:2", ranks(ITEMS, wrong=4), reference=True), ask_again=never)
    assert len(judged.judgement.newly_failing) == 4


def test_a_run_that_is_surely_better_is_accepted_by_itself_where_that_is_wanted(db: Database) -> None:
    spec = replace(SPEC, accept_better=True)
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "command:1", ranks(ITEMS, wrong=30)), spec=spec)
    held(db, evaluated(db, dataset, "command:2", ranks(ITEMS, wrong=29)), spec=spec)
    assert baseline_of(db) == (1, "first"), "a little better is not surely better"
    [better] = held(db, evaluated(db, dataset, "command:3", ranks(ITEMS)), spec=spec)
    assert baseline_of(db) == (better.evaluation.id, "better")
    [back] = held(db, evaluated(db, dataset, "command:4", ranks(ITEMS, wrong=30)), spec=spec)
    assert (back.judgement.verdict, back.judgement.baseline_id) == ("regressed", better.evaluation.id)


def asked_of(db: Database, flaky: Collection[str] = ()) -> tuple[list[str], AskAgain]:
    """The items that are asked again, as they are, and a system whose `flaky` ones come out otherwise then."""
    asked: list[str] = []

    def ask_again(evaluation: Evaluation, items: Sequence[Item], metric_ids: Sequence[str]):
        asked.extend(item.item_id for item in items)
        same = saying_the_same(db)(evaluation, items, metric_ids)
        return {
            name: {
                item_id: Outcome.scored(1.0 - (found.value or 0.0)) if item_id in flaky else found
                for item_id, found in outcomes.items()
            }
            for name, outcomes in same.items()
        }

    return asked, ask_again


def test_questions_are_asked_three_times_when_they_join_and_when_they_turn_for_better_or_worse(db: Database) -> None:
    ids = [item.item_id for item in MANY[:40]]
    asked, ask_again = asked_of(db)

    def night(trigger: str, items: Sequence[Item], wrong: Collection[str]) -> list[str]:
        values = {item.item_id: float(item.item_id not in wrong) for item in items}
        asked.clear()
        held(db, evaluated(db, make_dataset(db, "acme", items), trigger, values, items=items), ask_again=ask_again)
        return asked[: len(asked) // 2]

    assert night("n1", MANY[:30], ids[:2]) == ids[:30], "all, when they are first asked"
    assert night("n2", MANY[:30], ids[:2]) == [], "none where nothing turned"
    assert night("n3", MANY[10:40], ids[10:12]) == [*ids[10:12], *ids[30:40]], "those that turned, and those that join"
    assert night("n4", MANY[:30], ids[10:11]) == [*ids[:2], ids[10]], "newly passing ones as well as failing ones"


def test_a_question_that_comes_out_differently_is_no_evidence_then_or_now(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    ids = [item.item_id for item in ITEMS]
    _, then = asked_of(db, flaky=ids[:2])
    held(db, evaluated(db, dataset, "command:1", ranks(ITEMS)), ask_again=then)
    _, now = asked_of(db, flaky=ids[4:5])
    [judged] = held(db, evaluated(db, dataset, "command:2", ranks(ITEMS, wrong=6)), ask_again=now)
    assert set(judged.judgement.newly_failing) == {ids[2], ids[3], ids[5]}


@pytest.mark.parametrize(("flaky", "verdict"), [(True, "regressed"), (False, "passed")])
def test_confirmed_failures_are_evidence_where_chance_passes_hide_them(db: Database, flaky: bool, verdict: str) -> None:
    """Six questions newly fail. Four newly pass: by chance, or each time that they are asked."""
    dataset = make_dataset(db, "acme", ITEMS)
    ids = [item.item_id for item in ITEMS]
    before = {item_id: float(number not in range(6, 10)) for number, item_id in enumerate(ids)}
    now = {item_id: float(number >= 6) for number, item_id in enumerate(ids)}
    _, ask_again = asked_of(db, flaky=ids[6:10] if flaky else ())
    held(db, evaluated(db, dataset, "command:1", before), ask_again=ask_again)
    [judged] = held(db, evaluated(db, dataset, "command:2", now), ask_again=ask_again)
    assert set(judged.judgement.newly_failing) == set(ids[:6])
    assert judged.judgement.verdict == verdict
    # Who compares the two runs by hand reads the same, and nobody is asked for it.
    rows = compare_runs(db, load_settings({}), 1, judged.evaluation.id).rows
    assert [row.decision for row in rows] == [row.decision for row in judged.comparisons]


def test_twelve_of_37_questions_that_fail_each_time_are_a_regression_at_one_look(db: Database) -> None:
    items = ITEMS[:37]
    dataset = make_dataset(db, "acme", items)
    held(db, evaluated(db, dataset, "command:1", ranks(items), items=items))
    [judged] = held(db, evaluated(db, dataset, "command:2", ranks(items, wrong=12), items=items))
    assert (judged.judgement.verdict, len(judged.judgement.newly_failing)) == ("regressed", 12)


def test_recorded_answers_are_never_asked_again_and_that_is_said(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    asked, ask_again = asked_of(db)
    held(db, evaluated(db, dataset, "command:1", ranks(ITEMS)), ask_again=ask_again, recorded=["dense"])
    report = evaluated(db, dataset, "command:2", ranks(ITEMS, wrong=3))
    [judged] = held(db, report, ask_again=ask_again, recorded=["dense"])
    assert asked == []
    assert len(judged.judgement.newly_failing) == 3
    assert (
        "3 questions newly failing, in recorded answers: the system cannot be asked again" in newly_failing(judged)[0]
    )
    assert judged_before(db, judged.evaluation) == judged


def test_a_run_that_is_accepted_keeps_what_was_asked_before_it(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "command:1", ranks(ITEMS)))
    [worse] = held(db, evaluated(db, dataset, "command:2", ranks(ITEMS, wrong=3)))
    accept(db, worse.evaluation, "ann")
    delete_scores(db, "acme", utc_now() + timedelta(days=1))
    asked, ask_again = asked_of(db)
    [judged] = held(db, evaluated(db, dataset, "command:3", ranks(ITEMS, wrong=5)), ask_again=ask_again)
    assert asked == [item.item_id for item in ITEMS[3:5]] * 2, "only what turned since the run that was accepted"
    assert set(judged.judgement.newly_failing) == {item.item_id for item in ITEMS[3:5]}


def test_a_system_that_fails_is_not_asked_three_times(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    asked, ask_again = asked_of(db)
    held(db, evaluated(db, dataset, "n1", dict.fromkeys(ranks(ITEMS))), ask_again=ask_again)
    assert asked == []
    held(db, evaluated(db, dataset, "n2", {**ranks(ITEMS), ITEMS[0].item_id: None}), ask_again=ask_again)
    assert set(asked) == {item.item_id for item in ITEMS[1:]}


def test_the_last_scores_of_questions_that_left_are_told_beside_the_fall(db: Database) -> None:
    renewed(db, 1, 0, 50, failing=0)
    renewed(db, 2, 0, 50, failing=4)
    fallen = renewed(db, 3, 10, 50, failing=30)
    assert "10 questions no longer asked had moved by -0.400 since first asked" in said_of(db, fallen)


def test_a_question_that_was_asked_and_not_scored_has_not_left(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "n1", ranks(ITEMS)))
    held(db, evaluated(db, dataset, "n2", ranks(ITEMS, wrong=15)))
    failing = {item.item_id: None for item in ITEMS[:4]}
    [judged] = held(db, evaluated(db, dataset, "n3", {**ranks(ITEMS, wrong=15), **failing}))
    [row] = judged.gated
    assert (row.n_shared, row.remark) == (56, None)


@pytest.mark.parametrize(("unread", "verdict"), [([], "unclear"), ([3], "unclear"), (range(1, 8), "regressed")])
def test_one_version_that_could_not_be_read_does_not_make_a_still_night_a_change(
    db: Database, unread: Sequence[int], verdict: str
) -> None:
    dataset, judged = make_dataset(db, "acme", ITEMS), None
    for number in range(1, 8):
        declared = None if number in unread else "1"
        wrong = 12 if number == 7 else 0
        report = evaluated(db, dataset, f"schedule:{number}", ranks(ITEMS, wrong), declared=declared)
        [judged] = held(db, report, recorded=["dense"])
    assert judged is not None
    assert judged.judgement.verdict == verdict


@pytest.mark.parametrize("declared", ["1", None])
def test_a_question_that_answers_as_it_once_failed_is_asked_again_unless_nothing_was_asked(
    db: Database, declared: str | None
) -> None:
    """A system of a known version has its answers reused; another one may say the same for once, by chance."""
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "n1", ranks(ITEMS), declared=declared))
    asked, ask_again = asked_of(db)
    failing = evaluated(db, dataset, "n2", ranks(ITEMS, wrong=3), declared=declared)
    held(db, failing, ask_again=ask_again)
    again = open_run(db, dataset, "n3", reference=False, declared=declared)
    links = {row.item_id: row for row in result_storage.run_items(db, failing.evaluation.id)}
    result_storage.link(
        db, again.id, result_storage.RETRIEVAL, {k: (v.retrieval_id or "", "x") for k, v in links.items()}
    )
    result_storage.link(db, again.id, result_storage.RESULT, {k: (v.result_id or "", "x") for k, v in links.items()})
    finish(db, again, {})
    score_storage.save_summaries(db, again.id, score_storage.load_summaries(db, failing.evaluation.id))
    _, well = asked_of(db, flaky=[item.item_id for item in ITEMS[:1]])
    [twice] = held(db, report_of(db, get_evaluation(db, again.id)), ask_again=well if declared is None else ask_again)
    assert len(asked) == 2 * 3
    assert len(twice.judgement.newly_failing) == (3 if declared else 2)


def answering(db: Database, report: EvaluationReport, overlap: float, by_judge: bool = False) -> EvaluationReport:
    """The evaluation with every answer's overlap with what is expected, and with a judge's score of 1."""
    evaluation = report.evaluation
    values = {"overlap.answer_correctness": overlap, **({"claims.faithfulness": 1.0} if by_judge else {})}
    for name, value in values.items():
        results = [row.result_id for row in result_storage.run_items(db, evaluation.id) if row.result_id]
        score_storage.save_scores(db, evaluation.id, [(each, name, "1", Outcome.scored(value)) for each in results])
        n = len(results)
        score_storage.save_summaries(db, evaluation.id, [summary(name, value, n), summary(MRR, 1.0, n)])
    return report_of(db, evaluation)


@pytest.mark.parametrize(
    ("now", "gate", "by_judge", "verdict"),
    [
        (0.1, DEFAULT_GATE, False, "unclear"),
        (0.55, DEFAULT_GATE, False, "passed"),  # perhaps in other words
        (0.1, DEFAULT_GATE, True, "passed"),  # a judge read them
        (0.1, ("retrieval.mrr",), False, "passed"),  # the gate is the client's own
    ],
)
def test_other_answers_are_no_pass_while_no_judge_reads_them(
    sqlite_db: Database, now: float, gate: tuple[str, ...], by_judge: bool, verdict: str
) -> None:
    spec, dataset = replace(SPEC, metrics=gate), make_dataset(sqlite_db, "acme", ITEMS)
    for trigger, overlap in (("n1", 0.6), ("n2", now)):
        report = answering(sqlite_db, evaluated(sqlite_db, dataset, trigger, ranks(ITEMS)), overlap, by_judge)
        [judged] = held(sqlite_db, report, spec=spec)
    assert judged.judgement.verdict == verdict
    found = verdict_of(sqlite_db, judged, 0.05)
    assert found.answers_unread == (verdict == "unclear")
    if found.answers_unread:
        assert headline(found, {}).endswith(
            "answer correctness (overlap) .60 to .10, and no judge model says whether the answers are still right; "
            "nothing changed."
        )
        assert what_settles(found) == (
            "read the answers: rageval runs compare 1 2; if they are right: rageval runs accept 2; if not, mend the "
            "system"
        )
        assert b'<skipped message="unclear against run 1: ' in junit_xml([found])
        client = client_contents(sqlite_db, load_settings({}), "acme")
        assert len(client.evaluations[0].suffering) == FIRST_QUESTIONS
        assert len(compare_runs(sqlite_db, load_settings({}), 1, 2).worse) == len(ITEMS)
        assert "Every question went well" not in client_page(client)


@pytest.mark.parametrize("lost", [0, 10])
def test_a_question_that_was_first_asked_while_documents_were_missing_is_held_against_its_next_time(
    db: Database, lost: int
) -> None:
    """With fewer passages to find it looked easier than it is."""
    known, new = MANY[:30], MANY[30:36]
    held(db, evaluated(db, make_dataset(db, "acme", known), "n1", ranks(known), items=known))
    items = MANY[:36]
    dataset = make_dataset(db, "acme", items)
    missing = {item.item_id: math.nan for item in known[:lost]}
    [without] = held(db, evaluated(db, dataset, "n2", {**ranks(items), **missing}, items=items))
    assert without.judgement.verdict == ("unclear" if lost else "passed")
    values = {**ranks(items), **{item.item_id: 0.0 for item in new}}
    [back] = held(db, evaluated(db, dataset, "n3", values, items=items))
    [again] = held(db, evaluated(db, dataset, "n4", values, items=items))
    for each in (back, again):
        assert len(each.judgement.newly_failing) == (0 if lost else len(new))


def test_other_answers_are_an_incident_until_they_are_as_before_or_accepted(db: Database) -> None:
    spec, dataset, settings = replace(SPEC, metrics=DEFAULT_GATE), make_dataset(db, "acme", ITEMS), load_settings({})

    def night(trigger: str, overlap: float) -> Judged:
        report = answering(db, evaluated(db, dataset, trigger, ranks(ITEMS)), overlap)
        [judged] = held(db, report, spec=spec)
        review(db, settings, ["acme"], utc_now())
        return judged

    night("n1", 0.6)
    night("n2", 0.1)
    [incident] = open_incidents(db)
    assert incident.kind == "changed_answers"
    [client] = client_standings(read_view(db, "fleet_overview"), [incident], settings, {}, {})
    assert (client.verdict, client.gravity) == ("answers changed", 1)
    assert client.metric == (None, None, None)
    said = "A drop of the answers' overlap with the expected ones by 0.50, and no judge model says whether the answers"
    assert said in html.unescape(fleet_page([client]))
    night("n3", 0.6)
    assert open_incidents(db) == []
    changed = night("n4", 0.1)
    accept(db, changed.evaluation, "ann")
    night("n5", 0.1)
    assert open_incidents(db) == []


def test_a_run_of_before_that_was_unclear_for_its_answers_is_told_as_it_was(db: Database) -> None:
    spec, dataset = replace(SPEC, metrics=DEFAULT_GATE), make_dataset(db, "acme", ITEMS)
    for trigger, overlap in (("n1", 0.6), ("n2", 0.1)):
        [judged] = held(db, answering(db, evaluated(db, dataset, trigger, ranks(ITEMS)), overlap), spec=spec)
    of_before = replace(judged, judgement=replace(judged.judgement, changes=()))
    assert headline(verdict_of(db, of_before, 0.05), {}) == headline(verdict_of(db, judged, 0.05), {})


def test_answers_outside_a_gate_of_ones_own_do_not_say_which_questions_got_worse(db: Database) -> None:
    spec, dataset = replace(SPEC, metrics=("retrieval.mrr",)), make_dataset(db, "acme", ITEMS)
    for trigger, overlap in (("n1", 0.6), ("n2", 0.1)):
        held(db, answering(db, evaluated(db, dataset, trigger, ranks(ITEMS)), overlap), spec=spec)
    rows = client_contents(db, load_settings({}), "acme").evaluations[0].questions.rows
    assert [row for row in rows if row.get("d")] == []


def test_a_pass_tells_which_questions_newly_fail_and_which_newly_pass(db: Database) -> None:
    """A third of an index may be lost, and as many questions gain by it as lose."""
    dataset = make_dataset(db, "acme", ITEMS)
    before = {item.item_id: float(number >= 8) for number, item in enumerate(ITEMS)}
    now = {item.item_id: float(number < 8 or number >= 14) for number, item in enumerate(ITEMS)}
    held(db, evaluated(db, dataset, "n1", before))
    [judged] = held(db, evaluated(db, dataset, "n2", now, system_version="system-2"))
    assert set(judged.judgement.newly_failing) == {item.item_id for item in ITEMS[8:14]}
    assert set(judged.judgement.newly_passing) == {item.item_id for item in ITEMS[:8]}
    assert judged_before(db, judged.evaluation).judgement == judged.judgement
    named, _ = newly_failing(judged)
    assert named.startswith("6 questions newly failing, 8 newly passing, also when asked again: ")
    found = verdict_of(db, judged, 0.05)
    assert found.scores == "same"
    assert "; 6 questions newly fail, 8 newly pass" in headline(found, {})
    assert "6 questions got worse and 8 better because of it" in sentence(found)
