"""Evaluations: resumed, reused and stored by content, with the outcomes that each of them used."""

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa
from history_builder import (
    MRR,
    finish,
    make_dataset,
    make_items,
    open_run,
    result_of,
    retrieval_of,
    row_counts,
    summary,
    work,
)
from sqlalchemy.exc import DBAPIError

from rageval_dagster.errors import DatabaseError
from rageval_dagster.identity import digest
from rageval_dagster.records import Answer, Evidence, Hit, Item, Outcome
from rageval_dagster.storage import evaluations
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.results import ResultRecord, RetrievalRecord
from rageval_dagster.storage.types import utc_now
from rageval_dagster.storage.views import read_view
from tests.processes import sent_statements


def test_doing_everything_again_changes_nothing(db: Database) -> None:
    items = make_items(5)
    dataset = make_dataset(db, "acme", items)
    evaluation = open_run(db, dataset, "night 1")
    records = [(retrieval_of(item), digest(item.item_id)) for item in items]
    results = [(result_of(record), digest("answer", key)) for record, key in records]
    scores = [(result.result_id, MRR, "1", Outcome.scored(0.5, {"rank": 2})) for result, _ in results]

    def everything() -> None:
        result_storage.save_retrievals(db, evaluation.id, records)
        result_storage.save_results(db, evaluation.id, results)
        score_storage.save_scores(db, evaluation.id, scores)
        score_storage.save_summaries(db, evaluation.id, [summary(MRR, 0.5)])

    everything()
    before, rows = row_counts(db), result_storage.run_items(db, evaluation.id)
    loaded = result_storage.load_results(db, evaluation.id)
    everything()
    assert open_run(db, dataset, "night 1") == evaluation
    assert row_counts(db) == before
    assert result_storage.run_items(db, evaluation.id) == rows
    assert result_storage.load_results(db, evaluation.id) == loaded
    assert score_storage.load_summaries(db, evaluation.id) == [summary(MRR, 0.5)]


def test_results_come_back_as_they_were_in_the_order_of_the_dataset(db: Database) -> None:
    items = make_items(3)
    evaluation = open_run(db, make_dataset(db, "acme", items), "night 1", k=2)
    hits = [
        Hit("c1", "d1", 1, 0.9, "first", 3),
        Hit("c2", "d1", 2, -0.25, "", None, "unknown"),
        Hit("c3", "d2", 3, -0.25, "third", None, "foreign"),
    ]
    found = RetrievalRecord("r1", items[2].item_id, ["c1"], ["d1", "d2"], hits, None)
    unknown = RetrievalRecord("r2", items[0].item_id, None, None, [], None)
    failed = RetrievalRecord("r3", items[1].item_id, [], None, [], "timed out")
    result_storage.save_retrievals(db, evaluation.id, [(found, "k1"), (unknown, "k2"), (failed, "k3")])
    result_storage.save_results(
        db,
        evaluation.id,
        [
            (ResultRecord("x1", items[2].item_id, "r1", Answer("yes [1]"), 2, None, 0.5), "a1"),
            (ResultRecord("x2", items[0].item_id, "r2", Answer("", declined=True), 0, None, None), "a2"),
            (ResultRecord("x3", items[1].item_id, "r3", None, 0, "timed out", None), "a3"),
        ],
    )
    loaded = result_storage.load_results(db, evaluation.id)
    assert list(loaded) == [item.item_id for item in items]
    assert [result_id for result_id, _ in loaded.values()] == ["x2", "x3", "x1"]
    declined, broken, answered = (result for _, result in loaded.values())
    assert answered.item == items[2]
    assert answered.hits == tuple(hits)
    assert answered.contexts == ("first", "")
    assert answered.relevant_chunks == {"c1"}
    assert answered.relevant_documents == {"d1", "d2"}
    assert (answered.answer, answered.k, answered.error) == (Answer("yes [1]"), 2, None)
    assert (declined.answer, declined.relevant_chunks, declined.hits) == (Answer("", declined=True), None, ())
    assert (broken.answer, broken.relevant_chunks, broken.error) == (None, frozenset(), "timed out")
    assert result_storage.load_retrievals(db, evaluation.id) == {
        record.item_id: record for record in (unknown, failed, found)
    }


def test_three_hundred_items_load_in_a_handful_of_queries(db: Database) -> None:
    items = make_items(300)
    evaluation = open_run(db, make_dataset(db, "acme", items), "night 1")
    with sent_statements() as written:
        work(db, evaluation, items, batch=300)
    assert len(written) < 60
    with sent_statements() as read:
        loaded = result_storage.load_results(db, evaluation.id)
    assert len(loaded) == 300
    assert all(len(result.hits) == 10 and result.hits[9].text for _, result in loaded.values())
    assert len([statement for statement in read if statement.startswith("SELECT")]) <= 5
    with sent_statements() as read:
        assert len(score_storage.load_scores(db, evaluation.id, {MRR: "1"})[MRR]) == 300
    assert len([statement for statement in read if statement.startswith("SELECT")]) == 1


def test_an_unfinished_evaluation_is_resumed_and_a_complete_one_is_left(db: Database) -> None:
    items = make_items(4)
    dataset = make_dataset(db, "acme", items)
    evaluation = open_run(db, dataset, "night 1")
    result_storage.save_retrievals(db, evaluation.id, [(retrieval_of(items[0]), digest("key"))])
    resumed = open_run(db, dataset, "night 1")
    assert resumed == evaluation
    assert [row.retrieval_id is not None for row in result_storage.run_items(db, evaluation.id)] == [True] + [False] * 3
    evaluations.finish_evaluation(db, evaluation.id, "failed", {}, None, 1)
    assert open_run(db, dataset, "night 1").status == "running"
    finish(db, evaluation, {MRR: 0.5})
    complete = open_run(db, dataset, "night 1", corpus="corpus-2")
    assert (complete.status, complete.versions.corpus, complete.headline) == ("complete", "corpus-1", {MRR: 0.5})
    assert complete.versions.judge == "judge-1"
    assert complete.finished_at is not None


def test_what_nobody_went_on_with_has_failed_once_a_later_one_is_complete(db: Database) -> None:
    items = make_items(2)
    dataset = make_dataset(db, "acme", items)
    left = [open_run(db, dataset, "command:1"), open_run(db, dataset, "command:1", system="bm25")]
    renewed = make_dataset(db, "acme", make_items(3), name=dataset.name)
    finish(db, open_run(db, renewed, "command:2"), {MRR: 0.5})
    later = open_run(db, renewed, "command:3")
    status = {each.id: each.status for each in evaluations.list_evaluations(db, "acme")}
    assert [status[each.id] for each in left] == ["failed", "running"], "nothing is known of the other system"
    assert status[later.id] == "running"


def test_an_evaluation_resumed_on_another_corpus_starts_its_items_anew(db: Database) -> None:
    items = make_items(2)
    dataset = make_dataset(db, "acme", items)
    evaluation = open_run(db, dataset, "night 1")
    work(db, evaluation, items)
    resumed = open_run(db, dataset, "night 1", corpus="corpus-2")
    assert (resumed.id, resumed.versions.corpus) == (evaluation.id, "corpus-2")
    assert all(row.retrieval_id is None and row.result_id is None for row in result_storage.run_items(db, resumed.id))
    assert result_storage.load_results(db, resumed.id) == {}


def test_evaluations_are_told_apart_and_listed_newest_first(db: Database) -> None:
    acme, other = make_dataset(db, "acme", make_items(1)), make_dataset(db, "other", make_items(1))
    runs = [
        open_run(db, acme, "schedule:1"),
        open_run(db, acme, "schedule:1", system="bm25"),
        open_run(db, acme, "change:1"),
        open_run(db, other, "schedule:1"),
    ]
    finish(db, runs[0], {MRR: None})
    assert len({run.evaluation_id for run in runs}) == 4
    assert [run.id for run in evaluations.list_evaluations(db)] == [run.id for run in reversed(runs)]
    assert [run.id for run in evaluations.list_evaluations(db, "acme", limit=2)] == [runs[2].id, runs[1].id]
    assert [run.id for run in evaluations.list_evaluations(db, "acme", status="complete")] == [runs[0].id]
    assert [run.id for run in evaluations.list_evaluations(db, trigger="schedule:1", dataset_id=other.id)] == [
        runs[3].id
    ]
    assert {found.trigger for found in evaluations.evaluations_of_trigger(db, "acme")} == {"change:1"}
    assert evaluations.evaluations_of_trigger(db, "nobody") == []


def test_errors_and_other_clients_results_are_never_reused(db: Database) -> None:
    items = make_items(2)
    evaluation = open_run(db, make_dataset(db, "acme", items), "night 1")
    good, bad = retrieval_of(items[0]), retrieval_of(items[1], count=0, error="timed out")
    result_storage.save_retrievals(db, evaluation.id, [(good, "good"), (bad, "bad")])
    result_storage.save_results(db, evaluation.id, [(result_of(good), "good a"), (result_of(bad), "bad a")])
    assert result_storage.reusable(db, "acme", ["good", "bad", "none"]) == {"good": good.retrieval_id}
    assert result_storage.reusable(db, "acme", ["good a", "bad a"]) == {"good a": result_of(good).result_id}
    assert result_storage.reusable(db, "other", ["good"]) == {}
    assert result_storage.reusable(db, "acme", ["good a"], max_age_days=1) != {}
    assert result_storage.reusable(db, "acme", ["good a"], max_age_days=-1) == {}


def test_a_key_stands_for_what_was_made_last(db: Database) -> None:
    items = make_items(1)
    dataset = make_dataset(db, "acme", items)
    for trigger, salt in [("night 1", "old"), ("night 2", "new")]:
        evaluation = open_run(db, dataset, trigger)
        result_storage.save_retrievals(db, evaluation.id, [(retrieval_of(items[0], salt=salt), "key")])
    newest = retrieval_of(items[0], salt="new")
    assert result_storage.reusable(db, "acme", ["key"]) == {"key": newest.retrieval_id}


class TestTakes:
    """An error may be scored again later; what an evaluation said then stays what it said."""

    def setup(self, db: Database, trigger: str) -> tuple[int, str, str]:
        item = make_items(1)[0]
        evaluation = open_run(db, make_dataset(db, "acme", [item]), trigger)
        retrieval = retrieval_of(item)
        result = result_of(retrieval)
        result_storage.save_retrievals(db, evaluation.id, [(retrieval, "r")])
        result_storage.save_results(db, evaluation.id, [(result, "a")])
        return evaluation.id, item.item_id, result.result_id

    def outcome(self, db: Database, evaluation_id: int, item_id: str) -> Outcome:
        return score_storage.load_scores(db, evaluation_id, {"judge.x": "1"})["judge.x"][item_id]

    def test_an_error_is_scored_again_and_the_old_evaluation_keeps_it(self, db: Database) -> None:
        first, item_id, result_id = self.setup(db, "night 1")
        score_storage.save_scores(db, first, [(result_id, "judge.x", "1", Outcome.error("no answer"))])
        assert score_storage.scored(db, "acme", [result_id], {"judge.x": "1"}) == {}
        second, _, _ = self.setup(db, "night 2")
        score_storage.save_scores(db, second, [(result_id, "judge.x", "1", Outcome.scored(0.5))])
        assert score_storage.scored(db, "acme", [result_id], {"judge.x": "1", "judge.y": "1"}) == {
            (result_id, "judge.x"): None
        }
        third, _, _ = self.setup(db, "night 3")
        assert self.outcome(db, first, item_id) == Outcome.error("no answer")
        assert self.outcome(db, second, item_id) == Outcome.scored(0.5)
        assert self.outcome(db, third, item_id) == Outcome.scored(0.5)

    def test_the_same_error_again_adds_no_row_and_another_one_does(self, db: Database) -> None:
        first, item_id, result_id = self.setup(db, "night 1")
        score_storage.save_scores(db, first, [(result_id, "judge.x", "1", Outcome.error("no answer"))])
        second, _, _ = self.setup(db, "night 2")
        score_storage.save_scores(db, second, [(result_id, "judge.x", "1", Outcome.error("no answer"))])
        assert row_counts(db)["metric_scores"] == 1
        assert self.outcome(db, second, item_id) == Outcome.error("no answer")
        third, _, _ = self.setup(db, "night 3")
        score_storage.save_scores(db, third, [(result_id, "judge.x", "1", Outcome.error("too slow"))])
        assert row_counts(db)["metric_scores"] == 2
        assert self.outcome(db, first, item_id) == Outcome.error("no answer")
        assert self.outcome(db, third, item_id) == Outcome.error("too slow")

    def test_an_evaluation_that_scores_its_own_error_again_uses_the_new_outcome(self, db: Database) -> None:
        first, item_id, result_id = self.setup(db, "night 1")
        score_storage.save_scores(db, first, [(result_id, "judge.x", "1", Outcome.error("no answer"))])
        score_storage.save_scores(db, first, [(result_id, "judge.x", "1", Outcome.undefined("no claims"))])
        assert self.outcome(db, first, item_id) == Outcome.undefined("no claims")

    def test_an_outcome_is_final_and_a_new_metric_version_is_another_one(self, db: Database) -> None:
        first, item_id, result_id = self.setup(db, "night 1")
        score_storage.save_scores(db, first, [(result_id, "judge.x", "1", Outcome.scored(0.5, {"claims": [1, 0]}))])
        score_storage.save_scores(db, first, [(result_id, "judge.x", "1", Outcome.scored(0.9))])
        score_storage.save_scores(db, first, [(result_id, "judge.x", "2", Outcome.scored(1.0))])
        found = self.outcome(db, first, item_id)
        assert (found, found.detail) == (Outcome.scored(0.5), {"claims": [1, 0]})
        assert score_storage.scored(db, "acme", [result_id], {"judge.x": "3"}) == {}
        assert score_storage.load_scores(db, first, {"judge.x": "2"})["judge.x"] == {item_id: Outcome.scored(1.0)}
        assert score_storage.load_scores(db, first, {"judge.y": "1"}) == {}

    def test_a_verdict_that_is_too_old_is_made_again_and_earlier_evaluations_keep_theirs(self, db: Database) -> None:
        versions = {"judge.x": "1"}
        first, item_id, result_id = self.setup(db, "night 1")
        score_storage.save_scores(db, first, [(result_id, "judge.x", "1", Outcome.scored(0.5))])
        assert score_storage.scored(db, "acme", [result_id], versions, {"judge.x": utc_now() - timedelta(days=1)}) == {
            (result_id, "judge.x"): None
        }
        oldest = {"judge.x": utc_now()}
        assert score_storage.scored(db, "acme", [result_id], versions, oldest) == {}
        second, _, _ = self.setup(db, "night 2")
        score_storage.save_scores(db, second, [(result_id, "judge.x", "1", Outcome.scored(0.9))], oldest)
        score_storage.save_scores(db, second, [(result_id, "judge.x", "1", Outcome.scored(0.1))], oldest)
        assert (self.outcome(db, first, item_id).value, self.outcome(db, second, item_id).value) == (0.5, 0.9)
        # Whoever comes later uses the newest, without making it again.
        found = score_storage.scored(db, "acme", [result_id], versions, oldest)
        assert found == {(result_id, "judge.x"): 1}
        third, _, _ = self.setup(db, "night 3")
        score_storage.use_takes(db, third, found)
        assert self.outcome(db, third, item_id).value == 0.9
        # A verdict that fails now is an error, not the old verdict.
        fourth, _, _ = self.setup(db, "night 4")
        row = (result_id, "judge.x", "1", Outcome.error("too slow"))
        score_storage.save_scores(db, fourth, [row], {"judge.x": utc_now()})
        assert self.outcome(db, fourth, item_id) == Outcome.error("too slow")
        assert self.outcome(db, third, item_id).value == 0.9


def test_summaries_are_renewed(db: Database) -> None:
    evaluation = open_run(db, make_dataset(db, "acme", make_items(1)), "night 1")
    old = replace(summary("b", 0.25), ceiling=0.5, higher_is_better=False, n_error=1)
    score_storage.save_summaries(db, evaluation.id, [old, summary("a", None)])
    score_storage.save_summaries(db, evaluation.id, [replace(old, mean=1 / 3)])
    assert score_storage.load_summaries(db, evaluation.id) == [summary("a", None), replace(old, mean=1 / 3)]
    score_storage.save_summaries(db, evaluation.id, [replace(old, good_value=0.7)])
    assert score_storage.load_summaries(db, evaluation.id)[1].good_value == 0.7


HOSTILE = "nul \x00 lone \ud800 \udfff '; DROP TABLE texts; -- %s :name {x} 🦜 \u202e\u2028 \\ \"\r\n" + "ü" * 100_000


def test_hostile_texts_are_stored_everywhere_and_do_no_harm(db: Database) -> None:
    item = Item(HOSTILE, (HOSTILE,), (Evidence("d\x00", None, HOSTILE),), checks=({"expect": HOSTILE},))
    dataset = make_dataset(db, "acme", [item])
    evaluation = open_run(db, dataset, "night 1")
    hit = Hit("c\x00\ud800", "d\x00", 1, float("inf"), HOSTILE)
    retrieval = RetrievalRecord(digest("r"), item.item_id, ["c\x00\ud800"], ["d\x00"], [hit], None)
    result = ResultRecord(digest("x"), item.item_id, digest("r"), Answer(HOSTILE), 1, HOSTILE, 0.1)
    for _ in range(2):
        result_storage.save_retrievals(db, evaluation.id, [(retrieval, digest("k"))])
        result_storage.save_results(db, evaluation.id, [(result, digest("a"))])
        score_storage.save_scores(
            db, evaluation.id, [(digest("x"), "judge.x", "1", Outcome("error", None, HOSTILE, {"said": HOSTILE}))]
        )
    storable = HOSTILE.replace("\x00", "\ufffd").replace("\ud800", "\ufffd").replace("\udfff", "\ufffd")
    (_, loaded) = result_storage.load_results(db, evaluation.id)[item.item_id]
    assert loaded.item == item
    assert loaded.item.item_id == item.item_id
    assert loaded.answer == Answer(storable)
    assert loaded.contexts == (storable,)
    assert loaded.hits == (replace(hit, text=storable),)
    assert loaded.relevant_chunks == {"c\x00\ud800"}
    outcome = score_storage.load_scores(db, evaluation.id, {"judge.x": "1"})["judge.x"][item.item_id]
    assert (outcome.reason, outcome.detail) == (storable, {"said": HOSTILE})
    assert row_counts(db)["metric_scores"] == 1


def test_a_failing_write_shows_no_text(db: Database) -> None:
    items = make_items(1)
    evaluation = open_run(db, make_dataset(db, "acme", items), "night 1")
    with db.begin() as connection:
        connection.execute(sa.text("ALTER TABLE retrievals RENAME TO gone"))
    try:
        with pytest.raises((DBAPIError, DatabaseError)) as caught:
            result_storage.save_retrievals(db, evaluation.id, [(retrieval_of(items[0], salt="canary"), "key")])
        assert "canary" not in str(caught.value)
    finally:
        with db.begin() as connection:
            connection.execute(sa.text("ALTER TABLE gone RENAME TO retrievals"))


def test_an_evaluation_that_is_resumed_after_a_newer_one_stands_before_it(db: Database) -> None:
    dataset = make_dataset(db, "acme", make_items(2))
    first, resumed, newest = (open_run(db, dataset, f"night {night}") for night in (1, 2, 3))
    finish(db, first, {MRR: 0.5})
    finish(db, newest, {MRR: 0.5})
    before = {row["evaluation_id"]: row["previous_evaluation_id"] for row in read_view(db, "run_against_previous")}
    assert before == {newest.id: first.id}
    finish(db, resumed, {MRR: 0.5})
    before = {row["evaluation_id"]: row["previous_evaluation_id"] for row in read_view(db, "run_against_previous")}
    assert before == {newest.id: resumed.id, resumed.id: first.id}
    assert [row["evaluation_id"] for row in read_view(db, "latest_per_client")] == [newest.id]
