"""What the gate's evidence survives: the same scores again, few documents, an acceptance, failed asking, a judge."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rageval_dagster.evaluation.summary import EvaluationReport, report_of
from rageval_dagster.gate.baselines import accept
from rageval_dagster.gate.decision import Judged
from rageval_dagster.gate.incidents import review
from rageval_dagster.identity import digest
from rageval_dagster.records import Candidate, Evidence, Item, Outcome
from rageval_dagster.report.contents import client_contents
from rageval_dagster.report.page import client_page, fleet_page
from rageval_dagster.storage import comparisons as comparison_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.benchmark import Dataset, save_candidates
from rageval_dagster.storage.corpus import delete_manifest, upsert_manifest
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, get_evaluation
from rageval_dagster.storage.incidents import open_incidents
from rageval_dagster.storage.types import utc_now
from rageval_dagster.storage.views import read_view
from rageval_dagster.telling.junit import junit_xml
from rageval_dagster.telling.links import ReportLinks
from rageval_dagster.telling.run_page import run_metadata
from rageval_dagster.telling.standing import client_standings, gone_of_clients
from rageval_dagster.telling.verdicts import finding_of, headline, in_short, sentence, verdict_of, what_settles
from tests.gate.gated_history import ITEMS, SPEC, evaluated, held, other_judge, ranks, saying_the_same
from tests.gate.planted_incidents import settings_with
from tests.report.test_report_contents import manifest_entry
from tests.storage.history_builder import MRR, make_dataset, make_items

IDS = [item.item_id for item in ITEMS]
FAITHFULNESS = "claims.faithfulness"
BOTH = replace(SPEC, metrics=(MRR, FAITHFULNESS))


def right_from(wrong: int) -> dict[str, float]:
    return {item_id: float(number >= wrong) for number, item_id in enumerate(IDS)}


def with_faithfulness(
    db: Database,
    dataset: Dataset,
    trigger: str,
    ranked: Mapping[str, float],
    faithful: Mapping[str, float] | None,
    **others: str,
) -> EvaluationReport:
    """An evaluation with a second metric; None: its judge was away. `others` are for `evaluated`."""
    evaluation_id = evaluated(db, dataset, trigger, ranked, **others).evaluation.id  # pyright: ignore[reportArgumentType]
    [ranking] = score_storage.load_summaries(db, evaluation_id)
    scored = 0 if faithful is None else len(faithful)
    mean = sum(faithful.values()) / scored if faithful else None
    failed = ranking.n - scored
    second = replace(ranking, metric_id=FAITHFULNESS, metric_version="1", n_scored=scored, n_error=failed, mean=mean)
    score_storage.save_summaries(db, evaluation_id, [ranking, second])
    if faithful is not None:
        rows = [
            (row.result_id or "", FAITHFULNESS, "1", _scored(faithful.get(row.item_id)))
            for row in result_storage.run_items(db, evaluation_id)
        ]
        score_storage.save_scores(db, evaluation_id, rows)
    return report_of(db, get_evaluation(db, evaluation_id))


def _scored(value: float | None) -> Outcome:
    return Outcome.error("timeout") if value is None else Outcome.scored(value)


def about(documents: int, questions: int) -> list[Item]:
    return [
        Item(
            question=f"question {number}?",
            answers=("answer",),
            evidence=(Evidence(f"doc-{number * documents // questions}", None, f"quote {number}"),),
        )
        for number in range(questions)
    ]


@pytest.mark.parametrize("declared", ["1", None])
@pytest.mark.parametrize("trigger", ["command", "schedule"])
def test_confirmed_failures_count_again_where_a_later_run_has_the_same_scores(
    db: Database, trigger: str, declared: str | None
) -> None:
    """Twelve questions fail each time they are asked; six pass by chance: the second run of the same is no better."""
    dataset = make_dataset(db, "acme", ITEMS)
    before = {item_id: float(number not in range(12, 18)) for number, item_id in enumerate(IDS)}

    def flaky(evaluation: Evaluation, items: Sequence[Item], metric_ids: Sequence[str]):
        said = saying_the_same(db)(evaluation, items, metric_ids)[MRR]
        chance = {item_id: Outcome.scored(1.0 - (said[item_id].value or 0.0)) for item_id in said.keys() & IDS[12:18]}
        return {MRR: {**said, **chance}}

    held(db, evaluated(db, dataset, f"{trigger}:1", before, declared=declared), ask_again=flaky)
    words = []
    for night in (2, 3, 4):
        report = evaluated(
            db, dataset, f"{trigger}:{night}", right_from(12), declared=declared, system_version="system-2"
        )
        words += [each.judgement.verdict for each in held(db, report, ask_again=flaky)]
    assert words == ["regressed"] * 3


def test_a_regression_whose_interval_holds_no_change_says_what_decided(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    # Twelve questions turn from right to wrong by a little; five that stay right fall by much, four rise by as much.
    moves = [(0.5, 0.33)] * 12 + [(1.0, 0.5)] * 5 + [(0.5, 1.0)] * 4 + [(1.0, 1.0)] * 39
    before, now = ({item_id: move[when] for item_id, move in zip(IDS, moves, strict=True)} for when in (0, 1))
    held(db, evaluated(db, dataset, "command:1", before))
    [judged] = held(db, evaluated(db, dataset, "command:2", now, system_version="system-2"))
    [row] = judged.regressed
    assert row.ci_low is not None
    assert row.ci_high is not None
    assert row.ci_low < 0.0 < row.ci_high
    assert row.remark == "decided by the questions that newly fail, not by the interval"
    assert "; 12 questions newly fail; " in headline(verdict_of(db, judged, 0.05), {})


@pytest.mark.parametrize("documents", [1, 2, 3])
def test_where_all_questions_fail_the_gate_does_not_pass_however_few_their_documents(
    db: Database, documents: int
) -> None:
    items = about(documents, 30)
    dataset = make_dataset(db, "acme", items)
    held(db, evaluated(db, dataset, "command:1", ranks(items), items=items))
    [judged] = held(db, evaluated(db, dataset, "command:2", ranks(items, wrong=30), items=items))
    assert judged.judgement.verdict == "unclear"
    [same] = held(db, evaluated(db, dataset, "command:3", ranks(items), items=items))
    [flip] = held(db, evaluated(db, dataset, "command:4", ranks(items, wrong=1), items=items))
    assert (same.judgement.verdict, flip.judgement.verdict) == ("passed", "passed")


def test_what_failed_once_and_recovered_is_confirmed_when_it_fails_after_an_acceptance(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "command:1", ranks(ITEMS)))
    held(db, evaluated(db, dataset, "command:2", ranks(ITEMS, wrong=6), system_version="system-2"))
    [mended] = held(db, evaluated(db, dataset, "command:3", ranks(ITEMS), system_version="system-3"))
    accept(db, mended.evaluation, "ann")
    [again] = held(db, evaluated(db, dataset, "command:4", ranks(ITEMS, wrong=6), system_version="system-4"))
    assert set(again.judgement.newly_failing) == set(IDS[:6])


def test_a_question_that_timed_out_when_it_was_asked_again_is_asked_the_next_time(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    asked: list[str] = []

    def timing_out(_: Evaluation, items: Sequence[Item], metric_ids: Sequence[str]):
        return {name: {item.item_id: Outcome.error("timeout") for item in items} for name in metric_ids}

    def answering(evaluation: Evaluation, items: Sequence[Item], metric_ids: Sequence[str]):
        asked.extend(item.item_id for item in items)
        return saying_the_same(db)(evaluation, items, metric_ids)

    held(db, evaluated(db, dataset, "command:1", ranks(ITEMS)), ask_again=timing_out)
    held(db, evaluated(db, dataset, "command:2", ranks(ITEMS)), ask_again=answering)
    assert sorted(asked) == sorted(IDS * 2)
    [fallen] = held(db, evaluated(db, dataset, "command:3", ranks(ITEMS, wrong=6)), ask_again=answering)
    assert set(fallen.judgement.newly_failing) == set(IDS[:6])


def test_a_metric_that_scored_nothing_stops_no_judging(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, with_faithfulness(db, dataset, "command:1", right_from(0), right_from(0)), spec=BOTH)
    [judged] = held(db, with_faithfulness(db, dataset, "command:2", right_from(6), None), spec=BOTH)
    assert set(judged.judgement.newly_failing) == set(IDS[:6])
    assert {row.metric_id: row.decision for row in judged.gated}[FAITHFULNESS] == "unclear"


def test_a_first_score_by_a_judge_that_was_away_is_asked_three_times_later(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    # Too few errors to stop the run from being the baseline.
    half = {item_id: value for item_id, value in right_from(0).items() if item_id not in IDS[:2]}
    held(db, with_faithfulness(db, dataset, "command:1", right_from(0), half), spec=BOTH)
    held(db, with_faithfulness(db, dataset, "command:2", right_from(0), right_from(0)), spec=BOTH)
    [fallen] = held(db, with_faithfulness(db, dataset, "command:3", right_from(0), right_from(2)), spec=BOTH)
    assert set(fallen.judgement.newly_failing) == set(IDS[:2])


def test_judging_a_night_again_is_not_told_by_the_nights_after_it(db: Database) -> None:
    chance = random.Random(3)
    dataset = make_dataset(db, "acme", ITEMS)
    reports, once = [], []
    for night in range(6):
        failing = 0.05 if night < 4 else 0.25
        values = {item_id: float(chance.random() > failing) for item_id in IDS}
        reports.append(evaluated(db, dataset, f"schedule:{night}", values))
        once += held(db, reports[-1])
    assert [held(db, report)[0] for report in reports] == once


def test_what_one_metric_gains_does_not_accept_what_another_loses(db: Database) -> None:
    """Each run finds more and says less that is true: each loss passes, their sum must not."""
    spec = replace(BOTH, accept_better=True)
    dataset = make_dataset(db, "acme", ITEMS)
    words = []
    for run in range(5):
        report = with_faithfulness(db, dataset, f"command:{run}", right_from(48 - 12 * run), right_from(3 * run))
        words += [each.judgement.verdict for each in held(db, report, spec=spec)]
    baseline = comparison_storage.find_baseline(db, "acme", "human", "dense")
    assert baseline is not None
    assert baseline.reason == "first"
    assert words[-1] == "regressed"


def test_failures_are_confirmed_although_the_judge_of_the_baseline_was_another(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "command:1", ranks(ITEMS, wrong=6)))
    lenient = other_judge(lambda _: 1.0)
    held(db, evaluated(db, dataset, "command:2", ranks(ITEMS), version="2"), metrics=[lenient])
    [fallen] = held(db, evaluated(db, dataset, "command:3", ranks(ITEMS, wrong=6), version="2"), metrics=[lenient])
    assert set(fallen.judgement.newly_failing) == set(IDS[:6])


def test_failures_are_confirmed_where_the_judge_changed_and_was_changed_back(db: Database) -> None:
    """The second run's answers are reused in the third, and were asked three times by the other judge alone."""
    dataset = make_dataset(db, "acme", ITEMS)
    all_right = right_from(0)
    held(db, with_faithfulness(db, dataset, "command:1", all_right, all_right), spec=BOTH)
    lenient = with_faithfulness(db, dataset, "command:2", all_right, all_right, version="2", system_version="system-2")
    held(db, lenient, metrics=[other_judge(lambda _: 1.0)], spec=BOTH)
    strict = with_faithfulness(
        db, dataset, "command:3", right_from(6), all_right, system_version="system-2", results_of="command:2"
    )
    [fallen] = held(db, strict, spec=BOTH)
    assert set(fallen.judgement.newly_failing) == set(IDS[:6])


def test_one_question_in_common_does_not_pass_a_run(db: Database) -> None:
    items = make_items(99)
    before, now = items[:50], items[49:]
    held(db, evaluated(db, make_dataset(db, "acme", before), "command:1", ranks(before), items=before))
    values = {item.item_id: float(item is now[0]) for item in now}
    [judged] = held(db, evaluated(db, make_dataset(db, "acme", now), "command:2", values, items=now))
    assert judged.judgement.verdict == "unclear"


def test_five_questions_in_common_do_not_pass_a_run_some_nights_later(db: Database) -> None:
    """Only they stay right; the others, of which half fail, change now and then."""
    chance = random.Random(3)
    items = make_items(195)
    before, now = items[:100], items[95:]
    held(db, evaluated(db, make_dataset(db, "acme", before), "schedule:0", ranks(before), items=before))
    dataset = make_dataset(db, "acme", now)
    values = {item.item_id: float(number < 5 or chance.random() < 0.5) for number, item in enumerate(now)}
    words = []
    for night in range(1, 10):
        for item in chance.sample(now[5:], 2):
            values[item.item_id] = float(chance.random() < 0.5)
        words += [held(db, evaluated(db, dataset, f"schedule:{night}", values, items=now))[0].judgement.verdict]
    assert words == ["unclear"] * 9


def test_three_documents_of_ten_that_are_lost_do_not_pass(db: Database) -> None:
    items = about(10, 100)
    dataset = make_dataset(db, "acme", items)
    held(db, evaluated(db, dataset, "command:1", ranks(items), items=items, reference=True))
    report = evaluated(db, dataset, "command:2", ranks(items, wrong=30), items=items, reference=True)
    [judged] = held(db, report)
    assert judged.judgement.verdict != "passed"


def test_a_regression_stands_on_the_nights_after_it_while_nothing_changes(db: Database) -> None:
    """All scores fall from .95 to .60, so that no question turns, and then move by .02 from night to night."""
    chance = random.Random(3)
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "schedule:0", dict.fromkeys(IDS, 0.95)))
    words = []
    for night in range(1, 5):
        values = {item_id: 0.6 + chance.choice([-0.02, 0.0, 0.02]) for item_id in IDS}
        report = evaluated(db, dataset, f"schedule:{night}", values, system_version="system-2")
        words += [each.judgement.verdict for each in held(db, report)]
    assert words == ["regressed"] * 4


def without_evidence(lost: int) -> dict[str, float | None]:
    """All are right, but for the first ones, whose evidence left the documents."""
    return {item_id: math.nan if number < lost else 1.0 for number, item_id in enumerate(IDS)}


def test_where_a_fifth_of_the_questions_lost_their_evidence_the_gate_does_not_pass(
    db: Database, tmp_path: Path
) -> None:
    dataset, settings = make_dataset(db, "acme", ITEMS), settings_with(None, tmp_path)

    def night(number: int, lost: int) -> Judged:
        return held(db, evaluated(db, dataset, f"schedule:{number}", without_evidence(lost)))[0]

    def open_kinds() -> list[str]:
        review(db, settings, {"acme"}, utc_now())
        return [each.kind for each in open_incidents(db)]

    night(1, lost=0)
    assert night(2, lost=11).judgement.verdict != "failed"
    assert open_kinds() == []
    for number in (3, 4):  # the night after nothing is well again
        judged = night(number, lost=20)
        assert judged.judgement.verdict == "unclear"
        lost = "20 documents are gone; 20 of 60 questions lost their evidence"
        assert judged.judgement.changes[0].detail == lost
        verdict = verdict_of(db, judged, 0.1)
        assert in_short(verdict, {}).endswith(f": {lost}.")
        assert what_settles(verdict).startswith(f"if that was intended: rageval runs accept {judged.evaluation.id}; ")
        assert not finding_of([judged], MRR, None).passed
        assert open_kinds() == ["lost_evidence"]
        page = client_page(client_contents(db, settings, "acme"))
        assert "Unclear: documents or parts of them are missing" in page
    assert night(5, lost=0).judgement.verdict == "passed"
    assert open_kinds() == []
    gone = night(6, lost=20)
    assert open_kinds() == ["lost_evidence"]
    accept(db, gone.evaluation, "ann")
    assert open_kinds() == []
    assert night(7, lost=20).judgement.verdict == "passed"


def test_a_regression_does_not_hide_that_evidence_was_lost(db: Database, tmp_path: Path) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "schedule:1", without_evidence(0)))
    both = {name: value and value * 0.2 for name, value in without_evidence(20).items()}
    [judged] = held(db, evaluated(db, dataset, "schedule:2", both))
    assert judged.judgement.verdict == "regressed"
    lost = "20 documents are gone; 20 of 60 questions lost their evidence"
    verdict = verdict_of(db, judged, 0.1)
    assert sentence(verdict).startswith("regressed against run 1: ")
    assert sentence(verdict).count(lost) == junit_xml([verdict]).decode().count(lost) == 1
    review(db, settings_with(None, tmp_path), {"acme"}, utc_now())
    assert {each.kind for each in open_incidents(db)} == {"regression", "lost_evidence"}


def test_questions_that_failed_did_not_lose_their_evidence(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "command:1", ranks(ITEMS)))
    failed = {item_id: None if number < 5 else 1.0 for number, item_id in enumerate(IDS)}
    [judged] = held(db, evaluated(db, dataset, "command:2", failed))
    assert judged.judgement.changes == ()


@pytest.mark.parametrize(("retired", "verdict", "what"), [(16, "unclear", "evidence"), (4, "passed", "gone")])
def test_questions_retired_with_their_documents_count_as_lost(
    db: Database, retired: int, verdict: str, what: str
) -> None:
    held(db, evaluated(db, make_dataset(db, "acme", ITEMS), "command:1", ranks(ITEMS)))
    gone, stay = ITEMS[:retired], ITEMS[retired:]
    candidates = [Candidate(each.item_id, "extractive", 0, "retired", item=each) for each in gone]
    save_candidates(db, "acme", candidates)
    report = evaluated(db, make_dataset(db, "acme", stay), "command:2", ranks(stay), items=stay)
    [judged] = held(db, report)
    assert judged.judgement.verdict == verdict
    told = [each.detail for each in judged.judgement.changes if each.what == what]
    assert told == [f"{retired} documents are gone; {retired} of 60 questions lost their evidence"]


@pytest.mark.parametrize(
    ("gone", "lost", "wrong", "said"),
    [
        (14, 3, 0, "14 documents are gone; 3 of 60 questions lost their evidence"),
        (1, 1, 0, "1 document is gone; 1 of 60 questions lost its evidence"),
        (2, 0, 0, "2 documents are gone; no question lost its evidence"),
        (14, 3, 40, "14 documents are gone; 3 of 60 questions lost their evidence"),
    ],
)
def test_documents_that_are_gone_are_told_whatever_the_verdict(
    db: Database, gone: int, lost: int, wrong: int, said: str, tmp_path: Path
) -> None:
    dataset, settings = make_dataset(db, "acme", ITEMS), settings_with(None, tmp_path)
    names = [*(f"doc-{n}" for n in range(60)), *(f"other-{n}" for n in range(20))]
    entries = [manifest_entry(name, f"c-{name}", utc_now()) for name in names]
    upsert_manifest(db, "acme", entries)
    held(db, evaluated(db, dataset, "command:1", without_evidence(0)))
    away = [*(f"doc-{n}" for n in range(lost)), *(f"other-{n}" for n in range(gone - lost))]
    delete_manifest(db, "acme", [digest(f"c-{name}") for name in away])
    now = {name: value and value * (0.1 if n < wrong else 1.0) for n, (name, value) in enumerate(_lost(lost))}
    [judged] = held(db, evaluated(db, dataset, "command:2", now, corpus="corpus-2"))
    verdict, decided = verdict_of(db, judged, 0.1), "regressed" if wrong else "passed"
    assert judged.judgement.verdict == decided
    for told in (sentence(verdict), headline(verdict, {}), junit_xml([verdict]).decode()):
        assert told.count(said) == 1
        assert "nothing changed" not in told
    assert judged.judgement.changes[0].documents == tuple(away[:3])
    review(db, settings, {"acme"}, utc_now())
    assert "lost_evidence" not in {each.kind for each in open_incidents(db)}
    [(evaluation_id, change)] = gone_of_clients(db, settings).values()
    assert (evaluation_id, change.detail) == (judged.evaluation.id, said)
    found = client_contents(db, settings, "acme").evaluations[0]
    page = client_page(client_contents(db, settings, "acme"))
    assert said in found.sentence
    assert f"{said}. Such as: {', '.join(away[:3])}" in page
    assert ("May ship, if the documents were meant to change" in page) is not bool(wrong)
    [standing] = client_standings(read_view(db, "fleet_overview"), [], settings, gone_of_clients(db, settings), {})
    assert standing.is_doubtful is (bool(lost) and not wrong)
    assert f"{said}." in fleet_page([standing])
    shown = run_metadata(db, [report_of(db, judged.evaluation)], [verdict], ReportLinks(None), SPEC)
    assert shown["human/lost documents"] == f"{said}: {', '.join(away[:3])}"


@pytest.mark.parametrize(("edited", "is_doubtful"), [(1, False), (3, False), (4, True)])
def test_an_edit_that_takes_the_evidence_of_hardly_any_question_raises_no_doubt(
    db: Database, edited: int, is_doubtful: bool, tmp_path: Path
) -> None:
    dataset, settings = make_dataset(db, "acme", ITEMS), settings_with(None, tmp_path)
    upsert_manifest(db, "acme", [manifest_entry(f"doc-{n}", f"c-doc-{n}", utc_now()) for n in range(60)])
    held(db, evaluated(db, dataset, "command:1", without_evidence(0)))
    [judged] = held(db, evaluated(db, dataset, "command:2", without_evidence(edited), corpus="corpus-2"))
    said = f"{edited} of 60 questions lost {'its' if edited == 1 else 'their'} evidence"
    assert said in sentence(verdict_of(db, judged, 0.1))
    [standing] = client_standings(read_view(db, "fleet_overview"), [], settings, gone_of_clients(db, settings), {})
    assert standing.is_doubtful is is_doubtful


@pytest.mark.parametrize(
    ("gone", "nameless", "verdict"),
    [(20, 0, "unclear"), (10, 0, "passed"), (10, 1, "passed"), (40, 1, "unclear"), (10, 150, "passed")],
)
def test_a_fifth_of_the_documents_does_not_go_unseen_though_no_question_is_about_them(
    db: Database, gone: int, nameless: int, verdict: str
) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    asked = [manifest_entry(f"doc-{n}", f"c-doc-{n}", utc_now()) for n in range(60)]
    others = [manifest_entry(f"other-{n}", f"c-other-{n}", utc_now()) for n in range(40)]
    # Of a store that mostly names no documents nobody can say what is gone.
    lonely = [manifest_entry(f"lonely-{n}", f"lonely-{n}", utc_now()) for n in range(nameless)]
    upsert_manifest(db, "acme", [*asked, *others, *lonely])
    held(db, evaluated(db, dataset, "command:1", without_evidence(0)))
    delete_manifest(db, "acme", [digest(f"c-other-{n}") for n in range(gone)])
    for night in ("command:2", "command:3"):  # and not forgotten the night after
        [judged] = held(db, evaluated(db, dataset, night, without_evidence(0), corpus="corpus-2"))
        assert judged.judgement.verdict == verdict
        told = [each.detail for each in judged.judgement.changes if each.what in ("gone", "evidence")]
        said = [f"{gone} documents are gone; no question lost its evidence"]
        assert told == ([] if nameless > 50 or (verdict == "passed" and night == "command:3") else said)


def _lost(lost: int) -> list[tuple[str, float | None]]:
    return list(without_evidence(lost).items())
