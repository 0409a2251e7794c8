"""A judge that changes behind its name is not taken for a system that got worse, where people labelled answers."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from rageval_dagster.evaluation.summary import report_of
from rageval_dagster.gate.decision import Judged
from rageval_dagster.gate.incidents import review
from rageval_dagster.labels.queue import draw
from rageval_dagster.metrics.interface import Metric
from rageval_dagster.records import Outcome
from rageval_dagster.settings import load_settings
from rageval_dagster.storage import labels as label_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.caches import LlmCall, save_replies
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import get_evaluation, update_evaluation
from rageval_dagster.storage.incidents import open_incidents
from rageval_dagster.storage.labels import Label
from rageval_dagster.storage.types import utc_now
from rageval_dagster.telling.verdicts import headline, sentence, verdict_of
from tests.gate.gated_history import SPEC, evaluated, held
from tests.storage.history_builder import make_dataset, make_items, summary

FAITHFULNESS = "claims.faithfulness"
ITEMS = make_items(80)
GOOD, BAD = 0.9, 0.4
BEFORE = [BAD if number % 5 == 0 else GOOD for number in range(80)]
ONLY = replace(SPEC, metrics=(FAITHFULNESS,))


def night(
    db: Database,
    dataset: Dataset,
    trigger: str,
    scores: Sequence[float],
    moved: float | None = None,
    new: int = len(ITEMS),
) -> Judged:
    """A run in which so many answers are `new`, at the gate; the others are those of the run "n1". The judge scores old
    answers by so much `moved`; None: the run did not ask it, and who asked it now would be told of an error."""
    kept, known = [item.item_id for item in ITEMS[new:]], {item.item_id: 1.0 for item in ITEMS}
    of = "n1" if kept else ""
    evaluation = evaluated(db, dataset, trigger, known, items=ITEMS, results_of=of, kept=kept).evaluation
    by_item = dict(zip((item.item_id for item in ITEMS), scores, strict=True))
    rows = result_storage.run_items(db, evaluation.id)
    outcomes = [(row.result_id or "", FAITHFULNESS, "1", Outcome.scored(by_item[row.item_id])) for row in rows]
    score_storage.save_scores(db, evaluation.id, outcomes)
    score_storage.save_summaries(db, evaluation.id, [summary(FAITHFULNESS, sum(scores) / len(scores), len(scores))])
    update_evaluation(db, evaluation.id, dagster_run_id=trigger)
    if moved is not None:
        save_replies(db, "acme", [], [LlmCall("acme", "judge", "model", 10, 10, None, 0.1, False, 0, None, trigger)])
    return at_gate(db, evaluation.id, moved)


def at_gate(db: Database, evaluation_id: int, moved: float | None = None) -> Judged:
    was = {item.item_id: score for item, score in zip(ITEMS, BEFORE, strict=True)}
    metric = _judge(lambda item_id: Outcome.error("asked") if moved is None else Outcome.scored(was[item_id] + moved))
    report = report_of(db, get_evaluation(db, evaluation_id))
    [judged] = held(db, report, metrics=[metric], spec=ONLY, recorded=["dense"])
    return judged


def _judge(score: Callable[[str], Outcome]) -> Metric:
    return Metric(
        id=FAITHFULNESS,
        version="1",
        needs=frozenset(),
        unanswerable="undefined",
        description="made up",
        edge_cases="",
        source="",
        score=lambda results, _: [{"faithfulness": score(each.item.item_id)} for each in results],
    )


def label(db: Database, judged: Judged, truth: Callable[[int], float], size: int = 60) -> None:
    """Ann labels so many answers of a run."""
    answers = draw(db, judged.evaluation, FAITHFULNESS, size)
    places = {item.item_id: number for number, item in enumerate(ITEMS)}
    said = [Label(each, FAITHFULNESS, "ann", truth(places[answers.items[each]])) for each in answers.waiting]
    label_storage.save_labels(db, "acme", said)


def truth_before(number: int) -> float:
    return float(number % 5 != 0)


def shifted(by: float) -> list[float]:
    return [score + by for score in BEFORE]


def test_before_a_fall_is_believed_the_judge_scores_the_answers_it_fell_from_again(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    night(db, dataset, "n1", BEFORE)
    harsher = night(db, dataset, "n2", shifted(-0.1), moved=-0.1)
    assert harsher.judgement.verdict == "unclear"
    [change] = [each for each in harsher.judgement.changes if each.what == "judge_drift"]
    assert change.detail == f"the judge changed: it scores the same 80 answers 0.10 lower ({FAITHFULNESS})"
    # Told again it is the same, and nobody is asked again.
    assert at_gate(db, harsher.evaluation.id).judgement == harsher.judgement
    fallen = night(db, dataset, "n3", shifted(-0.1), moved=0.0)
    assert fallen.judgement.verdict == "regressed"
    assert "judge_drift" not in {each.what for each in fallen.judgement.changes}
    assert at_gate(db, fallen.evaluation.id).judgement == fallen.judgement


def test_a_run_asks_the_judge_about_each_old_answer_once_however_often_it_is_judged(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    label(db, night(db, dataset, "n1", BEFORE), truth_before)
    judged = night(db, dataset, "n2", shifted(-0.1))
    save_replies(db, "acme", [], [LlmCall("acme", "judge", "model", 10, 10, None, 0.1, False, 0, None, "n2")])
    report = report_of(db, get_evaluation(db, judged.evaluation.id))
    was = {item.item_id: score for item, score in zip(ITEMS, BEFORE, strict=True)}
    failing = {item.item_id for item in ITEMS[::8]}
    asked: list[str] = []

    def score(item_id: str) -> Outcome:
        asked.append(item_id)
        return Outcome.error("no reply") if item_id in failing else Outcome.scored(was[item_id] - 0.1)

    def look(tolerance: float) -> tuple[str | None, int]:
        """The verdict, and how many answers the judge was asked about for it."""
        before, spec = len(asked), replace(ONLY, tolerance=tolerance)
        [found] = held(db, report, metrics=[_judge(score)], spec=spec, recorded=["dense"])
        return found.judgement.verdict, len(asked) - before

    # While no fall is seen, of what people labelled; then the rest of what it is a fall from; then no more.
    assert [look(0.5), look(0.5)] == [("passed", 60), ("passed", 0)]
    assert [look(0.02), look(0.02)] == [("unclear", 20), ("unclear", 0)]
    assert sorted(asked) == sorted(item.item_id for item in ITEMS)
    assert failing < set(asked)
    # A later run that needs them asks anew, about those that failed, too.
    asked.clear()
    later = night(db, dataset, "n3", shifted(-0.1))
    save_replies(db, "acme", [], [LlmCall("acme", "judge", "model", 10, 10, None, 0.1, False, 0, None, "n3")])
    report = report_of(db, get_evaluation(db, later.evaluation.id))
    failing.clear()
    assert [look(0.02), look(0.02)] == [("unclear", 80), ("unclear", 0)]


def test_a_judge_that_is_not_asked_on_a_night_is_not_checked(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    night(db, dataset, "n1", BEFORE)
    judged = night(db, dataset, "n2", shifted(-0.1))
    assert judged.judgement.verdict == "regressed"
    assert judged.judgement.changes == ()


def test_with_labels_the_judge_is_named_until_it_scores_as_before(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    label(db, night(db, dataset, "n1", BEFORE), truth_before)
    drifted = night(db, dataset, "n2", shifted(-0.1), moved=-0.1)
    assert drifted.judgement.verdict == "unclear"
    [change] = [each for each in drifted.judgement.changes if each.what == "judge_drift"]
    assert change.detail == f"the judge changed: it scores the same 80 answers 0.10 lower ({FAITHFULNESS})"
    verdict = verdict_of(db, drifted, 0.05)
    assert "which may be the judge's doing; the judge changed: it scores the same 80 answers" in headline(verdict, {})
    assert "label answers of this run too (rageval labels queue --client acme)" in sentence(verdict)
    review(db, load_settings({}), ["acme"], utc_now())
    assert [each.kind for each in open_incidents(db)] == ["judge_drift"]
    # Told again, it is the same, and nobody is asked again; and so is the next night, on which nobody is asked.
    assert at_gate(db, drifted.evaluation.id).judgement == drifted.judgement
    assert night(db, dataset, "n3", shifted(-0.1)).judgement.verdict == "unclear"
    well = night(db, dataset, "n4", BEFORE, moved=0.0)
    assert well.judgement.verdict == "passed"
    review(db, load_settings({}), ["acme"], utc_now())
    assert open_incidents(db) == []


def test_a_judge_that_says_nothing_of_old_answers_takes_nothing_back(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    label(db, night(db, dataset, "n1", BEFORE), truth_before)
    assert night(db, dataset, "n2", shifted(-0.1), moved=-0.1).judgement.verdict == "unclear"
    judged = night(db, dataset, "n3", shifted(-0.1))
    save_replies(db, "acme", [], [LlmCall("acme", "judge", "model", 10, 10, None, 0.1, False, 0, None, "n3")])
    # It is asked, and gives errors only.
    assert at_gate(db, judged.evaluation.id).judgement.verdict == "unclear"


def test_labels_of_what_the_judge_liked_best_say_nothing_of_it(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    answers = draw(db, night(db, dataset, "n1", BEFORE).evaluation, FAITHFULNESS, 60)
    liked = [name for name in answers.waiting if answers.judge[name] == GOOD]
    label_storage.save_labels(db, "acme", [Label(each, FAITHFULNESS, "ann", 1.0) for each in liked])
    # A judge that wavers gives less to these when asked again, as it gives more to the others.
    judged = night(db, dataset, "n2", BEFORE, moved=-0.1)
    assert (judged.judgement.verdict, judged.judgement.changes) == ("passed", ())


def test_a_system_that_got_worse_is_called_so_whatever_the_judge_does(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    label(db, night(db, dataset, "n1", BEFORE), truth_before)
    fallen = [BAD if number % 2 else score for number, score in enumerate(BEFORE)]
    same_judge = night(db, dataset, "n2", fallen, moved=0.0)
    assert same_judge.judgement.verdict == "regressed"
    harsher = night(db, dataset, "n3", [score - 0.1 for score in fallen], moved=-0.1)
    assert harsher.judgement.verdict == "regressed"
    assert "without that -0." in (harsher.gated[0].remark or "")


def test_labels_of_both_runs_decide_where_the_judge_changed(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    label(db, night(db, dataset, "n1", BEFORE), truth_before, size=80)
    # As good as before by a judge that has become kinder: people see that it is not.
    kinder = night(db, dataset, "n2", BEFORE, moved=0.1)
    assert kinder.judgement.verdict == "unclear"
    label(db, kinder, lambda number: float(number % 2), size=80)
    seen = at_gate(db, kinder.evaluation.id)
    assert seen.judgement.verdict == "regressed"
    assert "without that -0.300" in (seen.gated[0].remark or "")
    assert (seen.gated[0].remark or "").endswith("by labels of both runs")


@pytest.mark.parametrize("moved", [None, 0.0])
def test_a_judge_that_stays_changes_no_verdict(db: Database, moved: float | None) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    label(db, night(db, dataset, "n1", BEFORE), truth_before)
    judged = night(db, dataset, "n2", BEFORE, moved=moved)
    assert (judged.judgement.verdict, judged.judgement.changes) == ("passed", ())


def test_a_judge_that_changed_has_moved_only_answers_that_are_new(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    label(db, night(db, dataset, "n1", BEFORE), truth_before)
    # Five new answers could hide a fall of .006 in all, which is tolerated.
    kinder = night(db, dataset, "n2", BEFORE, moved=0.1, new=5)
    assert kinder.judgement.verdict == "passed"
    assert "which affects 5 of 80 answers" in (kinder.gated[0].remark or "")
    assert [each.what for each in kinder.judgement.changes] == ["judge_drift"]
    fallen = [max(score - 0.7, 0.0) if number < 25 else score for number, score in enumerate(BEFORE)]
    assert night(db, dataset, "n3", fallen, moved=-0.1, new=25).judgement.verdict == "regressed"
