"""The SQL views: what they say of a small history, the same on all three databases."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from history_builder import (
    MRR,
    answer_all,
    finish,
    make_dataset,
    make_items,
    open_run,
    score_all,
    summary,
    work,
)

from rageval_dagster.errors import DatabaseError
from rageval_dagster.gate.causes import CHANGED_ANSWERS, LOST_EVIDENCE
from rageval_dagster.gate.decision import deciding, judged_before
from rageval_dagster.records import Outcome
from rageval_dagster.storage import clients
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.benchmark import Dataset, DatasetKind
from rageval_dagster.storage.comparisons import (
    Change,
    Judgement,
    MetricComparison,
    Verdict,
    save_comparisons,
    save_judgement,
)
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import evaluations_of_trigger
from rageval_dagster.storage.incidents import Finding, open_all
from rageval_dagster.storage.standing import lately_failing
from rageval_dagster.storage.tables import benchmark_items
from rageval_dagster.storage.types import utc_now
from rageval_dagster.storage.view_sources import view_names
from rageval_dagster.storage.views import read_view, view_columns, view_preview

RECALL = "retrieval.recall_at_5"
PRECISION = "retrieval.precision_at_5"
DOCUMENT_MRR = "retrieval.document_mrr"


def record(
    db: Database, dataset: Dataset, trigger: str, means: Mapping[str, float | None], system: str = "dense", k: int = 5
) -> int:
    evaluation = open_run(db, dataset, trigger, system=system, k=k)
    finish(db, evaluation, means)
    return evaluation.id


@pytest.fixture
def history(db: Database) -> Database:
    """acme fell, beta rose a little, calm was evaluated once, document knows documents only, new not at all."""
    nights = {
        ("acme", "dense"): [{MRR: 0.8, RECALL: 0.9, "judge.x": 0.9}, {MRR: 0.5, RECALL: 0.85, "judge.x": 0.1}],
        ("acme", "bm25"): [{MRR: 0.4}, {MRR: 0.45}],
        ("beta", "dense"): [{MRR: 0.2, RECALL: 0.2}, {MRR: 0.3, RECALL: 0.25}],
        ("calm", "dense"): [{MRR: 0.7, RECALL: 0.1}],
        ("document", "dense"): [{MRR: None, DOCUMENT_MRR: 0.9}, {MRR: None, DOCUMENT_MRR: 0.8}],
        ("gone", "dense"): [{MRR: 0.9}, {MRR: 0.1}],
    }
    for (client, system), evaluated in nights.items():
        dataset = make_dataset(db, client, make_items(2))
        for number, means in enumerate(evaluated, start=1):
            record(db, dataset, f"n{number}", means, system=system)
    clients.mark_vanished(db, "gone", vanished=True)
    clients.observe_probe(db, "new", "1")
    return db


def test_a_table_is_no_view(sqlite_db: Database) -> None:
    with pytest.raises(DatabaseError, match="no view 'clients'"):
        read_view(sqlite_db, "clients")


def test_the_columns_of_a_view_are_told_in_the_order_of_its_rows(history: Database) -> None:
    for name in view_names():
        columns = view_columns(history, name)
        [row, *_] = read_view(history, name, limit=1) or [{column: None for column, _ in columns}]
        assert [column for column, _ in columns] == list(row)
    assert dict(view_columns(history, "metric_history"))["n_scored"] == "INTEGER"


def test_systems_on_one_dataset_have_places_by_each_metric(history: Database) -> None:
    rows = read_view(history, "leaderboard", client_id="acme")
    places = [(row["metric_id"], row["place"], row["system_name"], row["systems"]) for row in rows]
    assert places == [
        ("judge.x", 1, "dense", 1),
        (MRR, 1, "dense", 2),
        (MRR, 2, "bm25", 2),
        (RECALL, 1, "dense", 1),
    ]


def test_the_history_has_seed_004_s_columns(history: Database) -> None:
    rows = read_view(history, "evaluation_history", client_id="acme")
    newest = next(row for row in rows if row["system_name"] == "dense")
    assert {"run_id", "dataset_id", "precision_at_k", "recall_at_k", "mrr", "faithfulness", "k", "created_at"} <= set(
        newest
    )
    assert (newest["mrr"], newest["recall_at_k"], newest["faithfulness"], newest["k"]) == (0.5, 0.85, None, 5)
    [older, *_] = read_view(history, "evaluation_history", client_id="document")
    assert older["mrr"] == 0.8  # at document level, where nothing is known at chunk level


def test_the_history_has_the_hit_rate_at_the_evaluations_own_k(db: Database) -> None:
    dataset = make_dataset(db, "acme", make_items(1))
    record(db, dataset, "n1", {MRR: 0.5, "retrieval.hit_rate_at_5": 0.1, "retrieval.hit_rate_at_3": 0.2}, k=3)
    record(db, dataset, "n2", {MRR: None, DOCUMENT_MRR: 0.9, "retrieval.document_hit_rate_at_5": 0.4})
    assert [row["hit_rate_at_k"] for row in read_view(db, "evaluation_history")] == [0.4, 0.2]


def test_a_change_since_the_run_before_is_of_the_same_questions_only(db: Database) -> None:
    for client, items, failed in (("alike", 4, 0), ("failed", 4, 1), ("renewed", 5, 0)):
        record(db, make_dataset(db, client, make_items(4)), "n1", {MRR: 0.5})
        later = open_run(db, make_dataset(db, client, make_items(items)), "n2")
        finish(db, later, {MRR: 0.4}, errors={MRR: failed})
    found = {row["client_id"]: row["worst_delta"] for row in read_view(db, "fleet_overview")}
    assert found == {"alike": pytest.approx(-0.1), "failed": None, "renewed": None}


def test_the_fleet_is_one_row_a_client_worst_first(history: Database) -> None:
    rows = read_view(history, "fleet_overview")
    assert [row["client_id"] for row in rows] == ["acme", "document", "calm", "beta", "new", "gone"]
    assert [row["worst_rank"] for row in rows] == [1, 2, 3, 4, 5, 6]
    acme, document, calm, beta, new, gone = rows
    assert (acme["worst_metric"], acme["system_name"], acme["evaluations"]) == (MRR, "dense", 2)
    assert acme["worst_delta"] == pytest.approx(-0.3)
    assert (acme["mrr"], acme["items"], acme["errors"]) == (0.5, 4, 0)
    assert (document["worst_metric"], document["mrr"]) == (DOCUMENT_MRR, 0.8)
    assert document["worst_delta"] == pytest.approx(-0.1)
    assert (calm["worst_delta"], calm["worst_metric"], calm["mrr"]) == (None, MRR, 0.7)
    assert (beta["worst_metric"], beta["worst_delta"]) == (MRR, pytest.approx(0.1))
    assert (new["evaluations"], new["evaluated_at"], new["pending_changes"]) == (0, None, 1)
    assert isinstance(gone["vanished_at"], datetime)
    assert gone["vanished_at"].utcoffset() is not None
    assert read_view(history, "fleet_overview", limit=2) == rows[:2]


def test_a_client_whose_run_failed_comes_first_be_it_evaluated_or_not(history: Database) -> None:
    failed = [Finding(client, "failed_run", run_id=run_id) for client, run_id in (("new", "run 2"), ("calm", "run 1"))]
    open_all(history, failed, utc_now())
    rows = read_view(history, "fleet_overview")
    assert [row["client_id"] for row in rows] == ["new", "calm", "acme", "document", "beta", "gone"]
    assert [row["failed_run_id"] for row in rows] == ["run 2", "run 1", None, None, None, None]


def test_of_a_client_in_which_nothing_fell_the_same_metric_is_shown_each_day(db: Database) -> None:
    dataset = make_dataset(db, "acme", make_items(2))
    shown = []
    for night, (mrr, precision) in enumerate([(0.5, 0.1), (0.5, 0.142), (0.6, 0.142), (0.6, 0.1), (0.7, 0.2)]):
        record(db, dataset, f"n{night}", {MRR: mrr, PRECISION: precision})
        [row] = read_view(db, "fleet_overview")
        shown.append((row["worst_metric"], row["worst_mean"]))
    assert shown == [(MRR, 0.5), (MRR, 0.5), (MRR, 0.6), (PRECISION, 0.1), (MRR, 0.7)]


def test_the_gravest_dataset_is_shown_then_the_one_with_most_questions(db: Database) -> None:
    def judged(dataset: Dataset, trigger: str, mrr: float, verdict: Verdict) -> None:
        save_judgement(db, record(db, dataset, trigger, {MRR: mrr}), Judgement(verdict, 1, (), ()))

    def shown() -> tuple[Any, ...]:
        [row] = read_view(db, "fleet_overview")
        return row["dataset_name"], row["questions"], row["verdict"], row["worst_mean"]

    few, many = make_dataset(db, "acme", make_items(2), "few"), make_dataset(db, "acme", make_items(45), "many")
    judged(few, "n1", 0.9, "first")
    judged(many, "n1", 0.8, "first")
    assert shown() == ("many", 45, "first", 0.8)
    judged(few, "n2", 0.4, "passed")
    judged(many, "n2", 0.8, "passed")
    assert shown() == ("many", 45, "passed", 0.8)
    judged(few, "n3", 0.4, "unclear")
    assert shown() == ("few", 2, "unclear", 0.4)
    renewed = make_dataset(db, "acme", make_items(3, "new"), "few")
    judged(renewed, "n4", 0.5, "passed")
    assert shown() == ("many", 45, "passed", 0.8), "no first run, since the baseline is of the name"
    record(db, many, "n5", {"mine": 1.0})
    assert shown() == ("many", 45, "passed", None), "whatever was measured"


def test_a_few_generated_questions_make_no_client_unclear_that_has_a_larger_dataset(db: Database) -> None:
    def verdict_with(
        count: int,
        kind: DatasetKind,
        client: str,
        fall: float = 0.0,
        lost: tuple[Change, ...] = (),
        failing: tuple[str, ...] = (),
        larger: Verdict | None = "passed",
        system: str = "dense",
    ) -> str:
        own, few = (
            make_dataset(db, client, make_items(45), "own"),
            make_dataset(db, client, make_items(count), "few", kind),
        )
        save_judgement(db, record(db, own, "n1", {MRR: 0.5}), Judgement(larger, 1, (), ()))
        id = record(db, few, "n1", {MRR: 0.5}, system=system)
        row = MetricComparison(MRR, "1", True, 1, True, 4, 0.5, 0.5 - fall, -fall, -1.0, 1.0, None, "unclear")
        save_comparisons(db, id, [row])
        save_judgement(db, id, Judgement("unclear", 1, lost, failing))
        latest = [judged_before(db, each) for each in evaluations_of_trigger(db, client)]
        [row] = read_view(db, "fleet_overview", client_id=client)
        # As the exit code of --gate says.
        decided = {each.judgement.verdict for each in deciding(db, latest)}
        assert decided == ({"passed"} if row["verdict"] == "passed" else {larger, "unclear"})
        return row["verdict"]

    assert verdict_with(4, "generated", "a") == "passed"
    assert verdict_with(5, "generated", "b") == "unclear"
    assert verdict_with(4, "imported", "c") == "unclear", "who chose four questions wants to know"
    assert verdict_with(4, "generated", "e", fall=0.25) == "unclear"
    assert verdict_with(4, "generated", "f", lost=(Change(LOST_EVIDENCE, "all of it"),)) == "unclear"
    assert verdict_with(4, "generated", "g", lost=(Change(CHANGED_ANSWERS, "all of them"),)) == "unclear"
    assert verdict_with(4, "generated", "h", failing=("one",)) == "unclear", "though another began to pass"
    assert verdict_with(4, "generated", "i", larger=None) == "unclear", "the larger one could not be compared"
    assert verdict_with(4, "generated", "j", larger="first") == "unclear"
    assert verdict_with(4, "generated", "k", system="bm25") == "unclear", "another system passed the larger one"
    alone = make_dataset(db, "a", make_items(4), "few", "generated")
    save_judgement(db, record(db, alone, "n2", {MRR: 0.5}, system="mine"), Judgement("unclear", 1, (), ()))
    clients.set_systems(db, "a", ["mine"])
    [row] = read_view(db, "fleet_overview", client_id="a")
    assert row["verdict"] == "unclear", "the larger dataset was asked of a system that is gone"
    dataset = make_dataset(db, "d", make_items(4), "few", "generated")
    save_judgement(db, record(db, dataset, "n1", {MRR: 0.5}), Judgement("unclear", 1, (), ()))
    [row] = read_view(db, "fleet_overview", client_id="d")
    assert row["verdict"] == "unclear"


def test_questions_that_newly_fail_are_counted_over_a_client_s_systems(db: Database) -> None:
    def row() -> tuple[int | None, int | None]:
        [acme] = read_view(db, "fleet_overview")
        return acme["newly_failing"], acme["newly_failing_evaluation_id"]

    def judged(trigger: str, system: str, failing: tuple[str, ...]) -> int:
        evaluation = open_run(db, dataset, trigger, system=system)
        finish(db, evaluation, {MRR: 0.5})
        save_judgement(db, evaluation.id, Judgement("passed", 1, (), failing))
        return evaluation.id

    clients.observe_probe(db, "acme", "1")
    assert row() == (None, None)
    dataset = make_dataset(db, "acme", make_items(2))
    finish(db, open_run(db, dataset, "n1"), {MRR: 0.5})
    assert row() == (0, None)
    last = judged("n2", "dense", ("one", "two", "three"))
    judged("n2", "bm25", ())
    assert (row(), lately_failing(db)) == ((3, last), {"acme": 3})
    last = judged("n3", "bm25", ("one",))
    assert (row(), lately_failing(db)) == ((4, last), {"acme": 4})
    judged("n4", "dense", ("one", "four"))
    last = judged("n4", "bm25", ("one",))
    assert (row(), lately_failing(db, "acme")) == ((3, last), {"acme": 1}), "those that failed before are no news"
    judged("n5", "dense", ())
    judged("n5", "bm25", ())
    assert (row(), lately_failing(db)) == ((0, None), {})
    assert lately_failing(db, "other") == {}
    judged("n6", "dense", ("one",))
    clients.set_systems(db, "acme", ["bm25"])
    assert lately_failing(db) == {}


def test_systems_that_the_settings_no_longer_name_do_not_count(history: Database) -> None:
    def acme() -> dict[str, Any]:
        return next(row for row in read_view(history, "fleet_overview") if row["client_id"] == "acme")

    clients.set_systems(history, "acme", ["mine"])  # never evaluated: what there is counts
    assert (acme()["system_name"], acme()["evaluations"]) == ("dense", 2)
    clients.set_systems(history, "acme", ["bm25", "mine"])
    assert (acme()["system_name"], acme()["evaluations"], acme()["items"], acme()["mrr"]) == ("bm25", 1, 2, 0.45)
    clients.set_systems(history, "acme", ["bm25", "dense"])
    assert (acme()["system_name"], acme()["evaluations"]) == ("dense", 2)


def test_a_client_that_was_shown_others_chunks_comes_first(history: Database) -> None:
    assert {row["foreign_chunks"] for row in read_view(history, "fleet_overview")} == {0, None}
    calm = make_dataset(history, "calm", make_items(2))
    for trigger, foreign, system in (("n2", 5, "mine"), ("n3", 2, "mine"), ("n3", 1, "other")):
        evaluation = open_run(history, calm, trigger, system=system, declared=None if system == "mine" else "1")
        finish(history, evaluation, {MRR: 0.9}, foreign=foreign, unknown=4)
    rows = read_view(history, "fleet_overview")
    assert [row["client_id"] for row in rows] == ["calm", "acme", "document", "beta", "new", "gone"]
    assert (rows[0]["foreign_chunks"], rows[0]["unknown_chunks"]) == (3, 8)
    assert isinstance(rows[0]["foreign_chunks"], int)
    notes = {row["client_id"]: row["system_note"] for row in rows}
    assert notes["calm"] == "system unversioned, may have changed"
    assert (notes["acme"], notes["new"]) == ("system versioned", None)


def test_a_system_that_does_not_tell_leaks_nobody_knows_how_many(db: Database) -> None:
    finish(db, open_run(db, make_dataset(db, "acme", make_items(1)), "n1"), {}, foreign=None)
    [row] = read_view(db, "fleet_overview")
    assert row["foreign_chunks"] is None


def test_the_latest_evaluation_of_each_dataset_and_system_has_its_headlines(history: Database) -> None:
    rows = {(row["client_id"], row["system_name"]): row for row in read_view(history, "latest_per_client")}
    assert len(rows) == 6
    acme = rows["acme", "dense"]
    assert (acme["metric_level"], acme["mrr"], acme["recall_at_k"]) == ("chunk", 0.5, 0.85)
    assert (acme["precision_at_k"], acme["ndcg_at_10"], acme["n_scored"]) == (None, None, 10)
    document = rows["document", "dense"]
    assert (document["metric_level"], document["mrr"]) == ("document", 0.8)


def test_headlines_are_those_of_the_evaluations_own_k(db: Database) -> None:
    dataset = make_dataset(db, "acme", make_items(1))
    means = {
        MRR: 0.5,
        "retrieval.precision_at_1": 0.1,
        "retrieval.precision_at_10": 0.2,
        "retrieval.ndcg_at_1": 0.3,
        "retrieval.ndcg_at_10": 0.4,
    }
    record(db, dataset, "n1", means, k=1)
    [row] = read_view(db, "latest_per_client")
    assert (row["precision_at_k"], row["ndcg_at_10"]) == (0.1, 0.4)


def test_a_run_stands_against_the_one_before_it_with_the_reasons(db: Database) -> None:
    dataset = make_dataset(db, "acme", make_items(1))
    first = open_run(db, dataset, "n1")
    finish(db, first, {MRR: 0.5, RECALL: 0.5})
    score_storage.save_summaries(db, first.id, [summary(PRECISION, 0.25, version="1")])
    unfinished = open_run(db, dataset, "n2")
    score_storage.save_summaries(db, unfinished.id, [summary(MRR, 0.0)])
    third = open_run(db, dataset, "n3", corpus="corpus-2")
    finish(db, third, {MRR: 0.75, RECALL: None})
    score_storage.save_summaries(db, third.id, [summary(PRECISION, 0.5, version="2")])
    rows = {row["metric_id"]: row for row in read_view(db, "run_against_previous")}
    assert set(rows) == {MRR, RECALL, PRECISION}
    mrr, recall, precision = rows[MRR], rows[RECALL], rows[PRECISION]
    assert (mrr["evaluation_id"], mrr["previous_evaluation_id"]) == (third.id, first.id)
    assert (mrr["mean"], mrr["previous_mean"], mrr["delta"], mrr["improvement"]) == (0.75, 0.5, 0.25, 0.25)
    assert (mrr["corpus_changed"], mrr["index_changed"], mrr["system_changed"]) == (1, 0, 0)
    assert (recall["delta"], recall["n_scored"]) == (None, 0)
    assert (precision["metric_changed"], precision["delta"], precision["mean"]) == (1, None, 0.5)


def test_a_trend_holds_the_last_ten_runs(db: Database) -> None:
    dataset = make_dataset(db, "acme", make_items(1))
    for night in range(12):
        record(db, dataset, f"n{night}", {MRR: night / 20})
    rows = read_view(db, "metric_trend")
    assert [row["run_age"] for row in rows] == list(range(1, 11))
    assert [row["mean"] for row in rows] == [night / 20 for night in range(11, 1, -1)]
    assert rows[0]["moving_average"] == pytest.approx(9 / 20)
    assert all(row["delta"] == pytest.approx(1 / 20) for row in rows)
    renewed = make_dataset(db, "acme", make_items(2))
    record(db, renewed, "n12", {MRR: 1.0})
    latest = read_view(db, "metric_trend")[0]
    assert (latest["run_age"], latest["dataset_id"], latest["mean"], latest["delta"]) == (1, renewed.id, 1.0, None)
    assert len(read_view(db, "metric_history")) == 13
    assert read_view(db, "metric_history")[0]["evaluation_id"] == latest["evaluation_id"]


def test_the_hardest_questions_come_first_and_perfect_ones_not_at_all(db: Database) -> None:
    items = make_items(4)
    dataset = make_dataset(db, "acme", items)
    old = open_run(db, dataset, "n1", corpus="corpus-0")
    work(db, old, items)
    finish(db, old, {MRR: 0.75})
    evaluation = open_run(db, dataset, "n2")
    outcomes = [Outcome.scored(0.5), Outcome.error("timed out"), Outcome.scored(1.0), Outcome.scored(0.25)]
    results = answer_all(db, evaluation, items, salt="n2")
    score_all(db, evaluation, results, MRR, outcomes)
    score_all(db, evaluation, results, MRR, [Outcome.scored(0.0)] * 4, version="0")
    finish(db, evaluation, {MRR: 0.5})
    rows = read_view(db, "hardest_questions")
    assert [(row["item_id"], row["status"], row["reciprocal_rank"]) for row in rows] == [
        (items[1].item_id, "error", None),
        (items[3].item_id, "scored", 0.25),
        (items[0].item_id, "scored", 0.5),
    ]
    assert {row["evaluation_id"] for row in rows} == {evaluation.id}


def test_questions_that_no_system_finds_at_once_are_hard_for_every_system(db: Database) -> None:
    items = make_items(5)
    dataset = make_dataset(db, "acme", items)
    failed = Outcome.error("timed out")
    for system, ranks in (
        ("dense", [*map(Outcome.scored, (0.5, 0.0, 1.0, 0.25)), failed]),
        ("bm25", [*map(Outcome.scored, (0.0, 0.0, 0.0, 0.25)), failed]),
    ):
        evaluation = open_run(db, dataset, f"night of {system}", system=system)
        score_all(db, evaluation, answer_all(db, evaluation, items, salt=system), MRR, ranks)
        finish(db, evaluation, {MRR: 0.4})
    alone = make_dataset(db, "beta", items)
    evaluation = open_run(db, alone, "n1")
    score_all(db, evaluation, answer_all(db, evaluation, items), MRR, [Outcome.scored(0.0)] * 5)
    finish(db, evaluation, {MRR: 0.0})
    rows = read_view(db, "hard_for_every_system")
    shown = ("client_id", "item_id", "systems", "errors", "best_reciprocal_rank", "difficulty_rank")
    assert [tuple(row[name] for name in shown) for row in rows] == [
        ("acme", items[4].item_id, 2, 2, None, 1),
        ("acme", items[1].item_id, 2, 0, 0.0, 2),
        ("acme", items[3].item_id, 2, 0, 0.25, 3),
        ("acme", items[0].item_id, 2, 0, 0.5, 4),
    ]


@pytest.mark.parametrize("view", ["category_breakdown", "hardest_questions"])
def test_what_shows_questions_of_one_client_reads_no_other_client_s_rows(sqlite_db: Database, view: str) -> None:
    plan = f"EXPLAIN QUERY PLAN SELECT * FROM {view} WHERE client_id = 'acme'"
    with sqlite_db.connect() as connection:
        steps = [row[-1] for row in connection.execute(sa.text(plan))]
    assert [step for step in steps if step.startswith(("SCAN r ", "SEARCH r "))] == [
        "SEARCH r USING INDEX ix_evaluation_runs_newest (newest=? AND client_id=?)"
    ]


def test_categories_are_told_apart_also_when_the_questions_are_deleted(db: Database) -> None:
    items = [replace(item, category="temporal" if n < 2 else "multi_hop") for n, item in enumerate(make_items(5))]
    dataset = make_dataset(db, "acme", items)
    evaluation = open_run(db, dataset, "n1")
    outcomes = [*map(Outcome.scored, (0.25, 0.75, 1.0, 0.5)), Outcome.error("timed out")]
    results = answer_all(db, evaluation, items)
    for metric_id in (MRR, "lexical.f1"):
        score_all(db, evaluation, results, metric_id, outcomes)
    finish(db, evaluation, {MRR: 0.625, "lexical.f1": 0.625})
    with db.begin() as connection:
        connection.execute(sa.delete(benchmark_items))
    rows = read_view(db, "category_breakdown")
    shown = ("category", "metric_id", "mean", "n", "n_scored", "n_undefined", "n_error")
    assert [tuple(row[name] for name in shown) for row in rows] == [
        ("temporal", MRR, 0.5, 2, 2, 0, 0),
        ("multi_hop", MRR, 0.75, 3, 2, 0, 1),
    ]


def test_datasets_show_their_use(history: Database) -> None:
    make_dataset(history, "acme", make_items(3))
    rows = [row for row in read_view(history, "dataset_overview") if row["client_id"] == "acme"]
    assert [(row["qa_count"], row["newest"], row["evaluations"], row["systems"]) for row in rows] == [
        (3, 1, 0, 0),
        (2, 0, 4, 2),
    ]
    assert rows[1]["valid"] == "yes"
    assert isinstance(rows[1]["last_evaluated_at"], datetime)
    assert isinstance(rows[1]["checked_at"], datetime)


def test_a_preview_counts_all_rows_and_shows_the_first(history: Database) -> None:
    preview = view_preview(history, "metric_history", rows=3)
    assert preview.row_count == len(read_view(history, "metric_history"))
    assert len(preview.markdown.splitlines()) == 5
    assert "| gone |" in preview.markdown


def test_every_view_can_be_read_for_one_client(history: Database) -> None:
    for name in view_names():
        rows = read_view(history, name)
        for client in {row["client_id"] for row in rows}:
            assert read_view(history, name, client_id=client) == [row for row in rows if row["client_id"] == client]
        assert read_view(history, name, client_id="nobody") == []
