"""The gate over stored evaluations: baselines, verdicts, carrying over, other judges, and questions asked again."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rageval_dagster.cli.gate import newly_failing
from rageval_dagster.errors import RagevalError
from rageval_dagster.evaluation.bridging import dataset_before
from rageval_dagster.evaluation.summary import report_of
from rageval_dagster.gate.baselines import accept
from rageval_dagster.gate.comparing_runs import compare_runs
from rageval_dagster.gate.decision import Gate, level_of_a_look
from rageval_dagster.gate.judging import Bench, judge_all, judged_before, visible_drop
from rageval_dagster.gate.spec import seen_from
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.records import Item, Outcome
from rageval_dagster.settings import load_settings
from rageval_dagster.statistics.comparisons import compare
from rageval_dagster.storage import comparisons as comparison_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, get_evaluation
from rageval_dagster.storage.views import read_view
from rageval_dagster.telling.verdicts import finding_of, gate_metadata, sentence
from tests.gate.gated_history import ITEMS, SPEC, evaluated, held, ranks, still_wrong
from tests.storage.history_builder import (
    MRR,
    finish,
    make_dataset,
    make_items,
    open_run,
)


def test_the_first_run_that_can_be_compared_with_is_the_baseline(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    [failed] = held(db, evaluated(db, dataset, "n1", dict.fromkeys(ranks(ITEMS), None)))
    assert failed.judgement.verdict is None
    [erring] = held(db, evaluated(db, dataset, "n2", {**ranks(ITEMS), **dict.fromkeys(list(ranks(ITEMS))[:10])}))
    assert erring.judgement.verdict is None
    [first] = held(db, evaluated(db, dataset, "n3", ranks(ITEMS)))
    assert first.judgement.verdict == "first"
    [second] = held(db, evaluated(db, dataset, "n4", ranks(ITEMS)))
    assert (second.judgement.verdict, second.judgement.baseline_id) == ("too_few", first.evaluation.id)


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
    with pytest.raises(RagevalError, match="failed on every question: nothing can be held against it"):
        accept(db, failed.evaluation)
    [judged] = held(db, failed)
    assert judged.judgement.changes == ()
    assert sentence(judged, SPEC.effect) == "the system failed on every question: there is nothing to compare"


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
        assert sentence(fallen, SPEC.effect).startswith(
            f"regressed against run {first.evaluation.id}: retrieval.mrr 1.000 -> 0.750 (-0.250 ["
        )
    named, both = newly_failing(fallen)
    ids = ", ".join(fallen.judgement.newly_failing[:5])
    assert named.endswith(f"15 questions newly failing, also when asked again: {ids} and 10 more")
    assert both == f"both answers: rageval runs compare {first.evaluation.id} {fallen.evaluation.id}"
    assert newly_failing(first) == ()
    [overview] = read_view(db, "fleet_overview")
    assert (overview["verdict"], overview["regressed_metric"], overview["regressed_by"]) == ("regressed", MRR, 0.25)
    [over] = held(db, evaluated(db, dataset, "n4", ranks(ITEMS)))
    assert over.judgement.verdict == "too_few"
    accept(db, fallen.evaluation)
    [after] = held(db, evaluated(db, dataset, "n5", ranks(ITEMS, wrong=15)))
    assert (after.judgement.verdict, after.judgement.baseline_id) == ("too_few", fallen.evaluation.id)
    assert after.judgement.newly_failing == ()


def test_a_few_wrong_answers_are_no_regression_but_are_named_where_they_fail_again(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "n1", ranks(ITEMS)))
    asked: list[str] = []

    def one_recovers(evaluation: Evaluation, items: Sequence[Item], metric_ids: Sequence[str]):
        asked.extend(item.item_id for item in items)
        return {MRR: {item.item_id: Outcome.scored(float(item is items[0])) for item in items}}

    [judged] = held(db, evaluated(db, dataset, "n2", ranks(ITEMS, wrong=3)), ask_again=one_recovers)
    assert judged.judgement.verdict == "too_few"
    assert len(asked) == 3
    assert list(judged.judgement.newly_failing) == asked[1:]
    assert judged_before(db, judged.evaluation) == judged


def test_what_was_not_measured_does_not_pass_and_explains_nothing(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    [first] = held(db, evaluated(db, dataset, "n1", ranks(ITEMS)))
    [dark] = held(db, evaluated(db, dataset, "n2", dict.fromkeys(ranks(ITEMS))))
    assert (dark.judgement.verdict, [row.decision for row in dark.gated]) == ("too_few", ["not_comparable"])
    partly = {**ranks(ITEMS), **dict.fromkeys(list(ranks(ITEMS))[:20])}
    [half] = held(db, evaluated(db, dataset, "n3", partly))
    assert (half.judgement.verdict, half.gated[0].remark) == (
        "too_few",
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

    def count(
        evaluation: Evaluation, items: Sequence[Item], metric_ids: Sequence[str]
    ) -> dict[str, dict[str, Outcome]]:
        asked.append(len(items))
        return still_wrong(evaluation, items, metric_ids)

    [once] = held(db, evaluated(db, dataset, "n2", ranks(ITEMS, wrong=3)), ask_again=count)
    again = open_run(db, dataset, "n3")
    links = {row.item_id: row for row in result_storage.run_items(db, once.evaluation.id)}
    result_storage.link_retrievals(db, again.id, {k: (v.retrieval_id or "", "x") for k, v in links.items()})
    result_storage.link_results(db, again.id, {k: (v.result_id or "", "x") for k, v in links.items()})
    finish(db, again, {})
    score_storage.save_summaries(db, again.id, score_storage.load_summaries(db, once.evaluation.id))
    [twice] = held(db, report_of(db, get_evaluation(db, again.id)), ask_again=count)
    assert asked == [3]
    assert twice.judgement.newly_failing == once.judgement.newly_failing


def test_datasets_that_somebody_chose_move_no_baseline(db: Database) -> None:
    small = make_dataset(db, "acme", ITEMS[:20])
    held(db, evaluated(db, small, "n1", ranks(ITEMS[:20])))
    grown = evaluated(db, make_dataset(db, "acme", ITEMS), "n2", ranks(ITEMS))
    judge_all(db, [grown], Bench(SPEC, lambda _: (), Tools, still_wrong, named=True))
    baseline = comparison_storage.find_baseline(db, "acme", "human", "dense")
    assert baseline is not None
    assert baseline.reason == "first"


def test_judging_the_same_evaluation_again_changes_nothing(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    first = evaluated(db, dataset, "n1", ranks(ITEMS))
    fallen = evaluated(db, dataset, "n2", ranks(ITEMS, wrong=20))
    once = held(db, first) + held(db, fallen)
    assert held(db, first) + held(db, fallen) == once


def test_only_shared_questions_are_compared_and_a_dataset_that_grew_is_taken_in(db: Database) -> None:
    held(db, evaluated(db, make_dataset(db, "acme", ITEMS[:50]), "n1", ranks(ITEMS[:50])))
    # Ten new questions that all fail are no regression of the fifty.
    more = evaluated(db, make_dataset(db, "acme", ITEMS), "n2", ranks(ITEMS[::-1], wrong=10))
    [judged] = held(db, more)
    assert [row.n_shared for row in judged.gated] == [50]
    assert judged.judgement.verdict == "too_few"
    assert judged.judgement.changes[-1].detail == "50 shared questions, 10 new, 0 gone"
    baseline = comparison_storage.find_baseline(db, "acme", "human", "dense")
    assert baseline is not None
    assert baseline.reason == "first"
    # Where most of the questions are new, the run is what later ones are compared with: in all its questions.
    held(db, evaluated(db, make_dataset(db, "beta", ITEMS[:20]), "n1", ranks(ITEMS[:20])))
    [grown] = held(db, evaluated(db, make_dataset(db, "beta", ITEMS), "n2", ranks(ITEMS)))
    baseline = comparison_storage.find_baseline(db, "beta", "human", "dense")
    assert baseline is not None
    assert (baseline.evaluation_id, baseline.reason) == (grown.evaluation.id, "carried_over")
    assert held(db, report_of(db, grown.evaluation)) == [grown]


@pytest.mark.parametrize(("effect", "reason"), [(0.2, "carried_over"), (0.9, "first")])
def test_a_benchmark_renewed_by_more_than_a_fifth_is_taken_in_where_too_little_could_be_seen(
    db: Database, effect: float, reason: str
) -> None:
    spec = replace(SPEC, effect=effect)
    held(db, evaluated(db, make_dataset(db, "acme", ITEMS[:50]), "n1", ranks(ITEMS[:50])), spec=spec)
    renewed = ITEMS[12:]
    [judged] = held(db, evaluated(db, make_dataset(db, "acme", renewed), "n2", ranks(renewed)), spec=spec)
    assert judged.judgement.verdict == ("too_few" if reason == "carried_over" else "passed")
    baseline = comparison_storage.find_baseline(db, "acme", "human", "dense")
    assert baseline is not None
    assert baseline.reason == reason


def test_what_looks_worse_is_not_taken_in(db: Database) -> None:
    held(db, evaluated(db, make_dataset(db, "acme", ITEMS[:20]), "n1", ranks(ITEMS[:20])))
    held(db, evaluated(db, make_dataset(db, "acme", ITEMS), "n2", ranks(ITEMS, wrong=2)))
    baseline = comparison_storage.find_baseline(db, "acme", "human", "dense")
    assert baseline is not None
    assert baseline.reason == "first"


def test_with_few_shared_questions_the_old_dataset_is_asked_once_more_and_speaks_for_the_new(db: Database) -> None:
    old = make_dataset(db, "acme", ITEMS[:40])
    [first] = held(db, evaluated(db, old, "n1", ranks(ITEMS[:40])))
    assert dataset_before(db, old, "dense") is None
    new = make_dataset(db, "acme", ITEMS[20:])
    assert dataset_before(db, new, "dense") == old
    again = evaluated(db, old, "n2", ranks(ITEMS[:40], wrong=20))
    renewed = evaluated(db, new, "n2", ranks(ITEMS[20:]))
    _, judged = held(db, renewed, again)
    assert (judged.evaluation.id, judged.judgement.verdict) == (renewed.evaluation.id, "regressed")
    assert f"evaluation {again.evaluation.id} asked once more" in (judged.regressed[0].remark or "")
    # The next night all is well: the new questions take over.
    again = evaluated(db, old, "n3", ranks(ITEMS[:40]))
    renewed = evaluated(db, new, "n3", ranks(ITEMS[20:]))
    held(db, again, renewed)
    baseline = comparison_storage.find_baseline(db, "acme", "human", "dense")
    assert baseline is not None
    assert (baseline.evaluation_id, baseline.reason) == (renewed.evaluation.id, "carried_over")
    assert dataset_before(db, new, "dense") is None
    assert first.evaluation.id != baseline.evaluation_id


def test_another_judge_is_compared_with_itself_or_not_at_all(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    before = evaluated(db, dataset, "n1", ranks(ITEMS))
    held(db, before)
    harsh = ranks(ITEMS, wrong=30)
    [unknown] = held(db, evaluated(db, dataset, "n2", harsh, version="2"))
    [row] = unknown.gated
    assert (row.decision, row.difference, unknown.judgement.verdict) == ("not_comparable", None, "too_few")
    # Now the earlier answers are scored by the new judge: as harshly.
    harsher = Metric(
        id=MRR,
        version="2",
        needs=frozenset(),
        unanswerable="undefined",
        description="made up",
        edge_cases="",
        source="",
        score=lambda results, _: {"mrr": [Outcome.scored(harsh[each.item.item_id] or 0.0) for each in results]},
    )
    [judged] = held(db, evaluated(db, dataset, "n3", harsh, version="2"), metrics=[harsher])
    [row] = judged.gated
    assert (row.decision, row.difference, judged.judgement.verdict) == ("unchanged", 0.0, "too_few")
    assert [change.what for change in judged.judgement.changes] == ["judge"]
    # The earlier run keeps its own scores.
    kept = score_storage.load_scores(db, before.evaluation.id, {MRR: "1"})[MRR]
    assert {outcome.value for outcome in kept.values()} == {1.0}


def test_runs_of_two_clients_and_unfinished_ones_are_not_compared(db: Database) -> None:
    acme = evaluated(db, make_dataset(db, "acme", ITEMS), "n1", ranks(ITEMS))
    beta = evaluated(db, make_dataset(db, "beta", ITEMS), "n1", ranks(ITEMS))
    with pytest.raises(RagevalError, match=r"run \d+ is of client 'acme', run \d+ of 'beta'"):
        compare_runs(db, load_settings({}), acme.evaluation.id, beta.evaluation.id)
    going = open_run(db, make_dataset(db, "acme", ITEMS), "n2")
    with pytest.raises(RagevalError, match=f"run {going.id} is running"):
        compare_runs(db, load_settings({}), acme.evaluation.id, going.id)
    with pytest.raises(RagevalError, match="only a complete one can be the baseline"):
        accept(db, going)


def test_a_fall_that_the_gate_cannot_prove_is_told_first(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    [first] = held(db, evaluated(db, dataset, "n1", ranks(ITEMS)))
    [fallen] = held(db, evaluated(db, dataset, "n2", ranks(ITEMS, wrong=7)))
    assert (fallen.judgement.verdict, fallen.gated[0].decision) == ("too_few", "unchanged")
    said = sentence(fallen, SPEC.effect)
    assert said.startswith(f"unclear against run {first.evaluation.id}: retrieval.mrr 1.000 -> 0.883 (-0.117 [")
    assert "it may be chance" in said
    [same] = held(db, evaluated(db, dataset, "n3", ranks(ITEMS)))
    said = sentence(same, SPEC.effect)
    assert said.startswith("too little to tell whether it got worse against run ")
    assert said.endswith(" or more would have been seen; the gate wants 0.2: RAGEVAL_GATE_EFFECT)")


@pytest.mark.parametrize(("drop", "said"), [(0.2539, 0.26), (0.25, 0.25), (0.07, 0.07), (0.29, 0.29), (0.2501, 0.26)])
def test_a_smallest_drop_is_told_as_one_that_would_have_been_seen(drop: float, said: float) -> None:
    assert seen_from(drop) == said


def test_a_fall_within_the_tolerance_is_none_and_is_told_as_what_it_is(db: Database) -> None:
    items = make_items(600)
    dataset = make_dataset(db, "acme", items)
    held(db, evaluated(db, dataset, "n1", ranks(items), items=items))
    lower: dict[str, float | None] = {item.item_id: 0.5 if n < 20 else 1.0 for n, item in enumerate(items)}
    [fallen] = held(db, evaluated(db, dataset, "n2", lower, items=items))
    [row] = fallen.gated
    assert (fallen.judgement.verdict, row.decision, row.looks_worse, row.is_unclear) == (
        "passed",
        "unchanged",
        True,
        False,
    )
    assert row.adjusted_p is not None
    assert row.adjusted_p < 0.001, "it is proven, and yet none"
    assert sentence(fallen, SPEC.effect).startswith("no regression against run ")
    assert "retrieval.mrr: the fall is within the tolerance (-0.017), a drop of " in sentence(fallen, SPEC.effect)


def test_what_people_are_told_of_a_metric(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    first = held(db, evaluated(db, dataset, "n1", ranks(ITEMS)))
    assert finding_of(first, "retrieval.mrr", 0.1, None).said == [
        "not compared: this is the baseline that later runs are compared with"
    ]
    assert finding_of(first, "claims.faithfulness", 0.1, None).said == ["not measured: no judge (RAGEVAL_JUDGE_MODEL)"]
    fallen = held(db, evaluated(db, dataset, "n2", ranks(ITEMS, wrong=20)))
    finding = finding_of(fallen, "retrieval.mrr", 0.1, None)
    assert not finding.passed
    assert finding.said[0].startswith("regressed: human/dense: retrieval.mrr 1.000 -> 0.667 ")
    assert finding.metadata["human/dense/shared_questions"] == 60
    silent = finding_of(fallen, "claims.faithfulness", 0.1, "model")
    assert (silent.passed, silent.said) == (True, ["not measured: the newest evaluation has no score of it"])
    assert gate_metadata(fallen, SPEC.effect)["human/retrieval.mrr/against_baseline"] == pytest.approx(-1 / 3)


def test_a_check_that_passes_says_whether_a_fall_could_have_been_seen(db: Database) -> None:
    dataset = make_dataset(db, "acme", ITEMS)
    held(db, evaluated(db, dataset, "n1", ranks(ITEMS)))
    same = held(db, evaluated(db, dataset, "n2", ranks(ITEMS)))
    visible = same[0].gated[0].smallest_drop
    assert visible is not None
    for effect, begun in ((visible, "no regression: "), (visible / 2, "too few questions to tell: ")):
        finding = finding_of(same, "retrieval.mrr", effect, None)
        assert finding.passed
        assert finding.said[0].startswith(begun)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=80),
    st.integers(1, 5),
)
def test_a_decision_needs_both_significance_and_size(pairs: list[tuple[float, float]], metrics: int) -> None:
    before = {str(number): one for number, (one, _) in enumerate(pairs)}
    now = {str(number): other for number, (_, other) in enumerate(pairs)}
    gate = Gate(metrics=metrics)
    found = compare(before, now, alpha=2 * gate.level)
    decision = gate.decision(found)
    assert found.difference is not None
    assert found.p_value is not None
    surely = found.p_value / 2 <= gate.level
    assert (decision == "regressed") == (surely and found.difference < -gate.tolerance)
    assert (decision == "improved") == (surely and found.difference > gate.tolerance)
    assert (
        gate.decision(compare(now, before, alpha=2 * gate.level))
        == {
            "regressed": "improved",
            "improved": "regressed",
            "unchanged": "unchanged",
        }[decision]
    )


def test_the_level_of_a_look_spends_alpha_over_looks_and_metrics() -> None:
    assert level_of_a_look(0.05, 1, looks=1) == pytest.approx(0.05, rel=1e-3)
    one, three = level_of_a_look(0.05, 1), level_of_a_look(0.05, 3)
    # Between Bonferroni's and that of a single look.
    assert 0.05 / 90 < one < 0.05
    assert 0.05 / 270 < three < one
    with pytest.raises(ValueError, match="alpha"):
        level_of_a_look(1.0, 1)
