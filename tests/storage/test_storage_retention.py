"""Retention deletes texts that nothing uses any more, later scores too, and nothing that is used."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from rageval_dagster.errors import TextsDeletedError
from rageval_dagster.identity import digest
from rageval_dagster.records import Candidate, Outcome
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage import benchmark, evaluations, retention
from rageval_dagster.storage.benchmark import Dataset, dataset_items
from rageval_dagster.storage.caches import save_replies, save_vectors
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.comparisons import find_baseline, save_baseline
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.incidents import Finding, close_all, open_all, open_incidents
from rageval_dagster.storage.labels import Label, Queued, load_labels, load_queue, save_labels, save_queue
from rageval_dagster.storage.leases import acquire_lease
from rageval_dagster.storage.results import known_results, load_results
from rageval_dagster.storage.retention import delete_scores, delete_texts, retain_all
from rageval_dagster.storage.scores import (
    load_night_scores,
    load_scores,
    load_summaries,
    save_night_scores,
    save_scores,
    save_summaries,
)
from rageval_dagster.storage.tables import evaluation_runs, item_results, metadata, qa_candidates, run_items
from rageval_dagster.storage.types import utc_now
from rageval_dagster.storage.views import read_view
from tests.storage.history_builder import MRR, finish, make_dataset, make_items, open_run, row_counts, summary, work
from tests.storage.planted import found, plant

OLD, RECENT = timedelta(days=-100), timedelta(days=-10)


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PAGE", 2)


def evaluated(db: Database, dataset: Dataset, night: str, ended: timedelta, salt: str = "") -> Evaluation:
    """A finished evaluation of a dataset that ended so long ago; others reuse its results unless salted otherwise."""
    evaluation = open_run(db, dataset, f"schedule:{night}", corpus=f"corpus-{salt}")
    work(db, evaluation, dataset_items(db, dataset.id), salt=salt)
    finish(db, evaluation, {MRR: 0.75})
    set_ended(db, evaluation, utc_now() + ended)
    return evaluation


def set_ended(db: Database, evaluation: Evaluation, time: datetime) -> None:
    with db.begin() as connection:
        here = evaluation_runs.c.id == evaluation.id
        connection.execute(sa.update(evaluation_runs).where(here).values(started_at=time, finished_at=time))


def everything_is_old(db: Database) -> None:
    """Moves all times but those of evaluations back by 100 days."""
    with db.begin() as connection:
        for table in metadata.sorted_tables:
            if table is evaluation_runs:
                continue
            times = [column for column in table.columns if column.name in ("created_at", "made_at", "checked_at")]
            times += [column for column in table.columns if column.name in ("first_seen", "drawn_at", "called_at")]
            if times:
                connection.execute(sa.update(table).values({column.name: utc_now() + OLD for column in times}))


def texts_of(db: Database, evaluation: Evaluation) -> set[str]:
    """The answers and contexts that an evaluation still has."""
    results = [result for _, result in load_results(db, evaluation.id).values()]
    words = {context for result in results for context in result.contexts}
    return (words | {result.answer.text for result in results if result.answer}) - {""}


def set_checked(db: Database, dataset: Dataset, ago: timedelta) -> None:
    datasets = metadata.tables["evaluation_datasets"]
    with db.begin() as connection:
        connection.execute(sa.update(datasets).where(datasets.c.id == dataset.id).values(checked_at=utc_now() + ago))


def judge_all(db: Database, evaluation: Evaluation, reasoning: str, oldest: datetime | None = None) -> None:
    """Gives every result of an evaluation a verdict, as the score stage does."""
    verdicts = [
        (result_id, JUDGED, "1", Outcome.scored(0.5, {"reasoning": reasoning}))
        for result_id, _ in load_results(db, evaluation.id).values()
    ]
    save_scores(db, evaluation.id, verdicts, None if oldest is None else {JUDGED: oldest})
    save_summaries(db, evaluation.id, [summary(JUDGED, 0.5)])


JUDGED = "judge.overall"


def since(days: int = 90) -> datetime:
    return utc_now() - timedelta(days=days)


def test_texts_that_nothing_uses_go_and_numbers_stay(db: Database) -> None:
    dataset = make_dataset(db, "acme", make_items(5))
    evaluation = evaluated(db, dataset, "one", OLD)
    everything_is_old(db)
    before = row_counts(db)
    numbers = {name: before[name] for name in ("metric_scores", "metric_summaries", "evaluation_runs", "run_items")}
    scores, summaries = load_scores(db, evaluation.id, {MRR: "1"}), load_summaries(db, evaluation.id)
    results = load_results(db, evaluation.id).values()
    judged = [(result_id, JUDGED, "1", Outcome.scored(0.5, {"reasoning": "it says so"})) for result_id, _ in results]
    save_scores(db, evaluation.id, judged)
    everything_is_old(db)
    numbers["metric_scores"] += len(judged)
    assert len(texts_of(db, evaluation)) > 20
    deleted = delete_texts(db, "acme", since())
    assert deleted == {"item_results": 5, "texts": 50, "reuse_keys": 10, "metric_scores": 5}
    found = load_scores(db, evaluation.id, {JUDGED: "1"})[JUDGED].values()
    assert [(outcome.value, outcome.detail) for outcome in found] == [(0.5, None)] * 5
    assert texts_of(db, evaluation) == set()
    assert all(result.texts_deleted for _, result in load_results(db, evaluation.id).values())
    assert row_counts(db).items() >= numbers.items()
    assert (load_scores(db, evaluation.id, {MRR: "1"}), load_summaries(db, evaluation.id)) == (scores, summaries)
    assert len(dataset_items(db, dataset.id)) == 5  # it is the current one
    assert delete_texts(db, "acme", since()) == {}


def test_what_people_labelled_stays_as_long_as_its_question_is_asked(db: Database) -> None:
    items = make_items(5)
    evaluation = evaluated(db, make_dataset(db, "acme", items), "one", OLD)
    result_id, result = load_results(db, evaluation.id)[items[0].item_id]
    save_labels(db, "acme", [Label(result_id, MRR, "ann", 1.0, labelled_at=utc_now() + OLD)])
    save_queue(db, "acme", MRR, {result_id: Queued("1 high", 1)})
    everything_is_old(db)
    for _ in range(2):
        delete_texts(db, "acme", since())
    kept = load_results(db, evaluation.id)
    assert [name for name, (_, each) in kept.items() if not each.texts_deleted] == [items[0].item_id]
    assert kept[items[0].item_id][1].contexts == result.contexts
    delete_scores(db, "acme", since())
    assert load_labels(db, "acme", MRR, [result_id])
    assert known_results(db, "acme", [each for each, _ in kept.values()]) == {result_id}
    make_dataset(db, "acme", items[1:])  # the question is retired
    delete_scores(db, "acme", since())
    assert load_labels(db, "acme", MRR, [result_id]) == {}
    assert load_queue(db, "acme", MRR, [result_id]) == {}
    assert known_results(db, "acme", [result_id]) == set()


def test_no_text_that_nothing_used_since_is_left_in_any_table(db: Database) -> None:
    gone, used = "ancientword", "usedword"
    first = make_dataset(db, "acme", make_items(3, gone))
    evaluated(db, first, "one", OLD, salt=gone)
    benchmark.save_candidates(db, "acme", [Candidate("k1", "prompted", 0, "accepted", make_items(1, gone)[0])])
    second = make_dataset(db, "acme", make_items(3, used))
    evaluated(db, second, "two", OLD, salt=used)
    benchmark.save_candidates(db, "acme", [Candidate("k2", "prompted", 0, "accepted", make_items(1, used)[0])])
    # The same results were judged then, and again since, when that verdict was too old.
    judge_all(db, evaluated(db, second, "three", OLD, salt=used), gone)
    save_replies(db, "acme", [(digest(gone), "model", gone)])
    save_vectors(db, "acme", "model", {digest(gone): b"1234"})
    everything_is_old(db)
    set_checked(db, first, OLD - timedelta(days=1))
    recent = evaluated(db, second, "four", RECENT, salt=used)
    judge_all(db, recent, used, oldest=since())
    save_replies(db, "acme", [(digest(used), "model", used)])
    save_vectors(db, "acme", "model", {digest(used): b"1234"})
    kept = {
        *("benchmark_items.item", "item_results.answer", "llm_cache.response", "metric_scores.detail"),
        *("qa_candidates.item", "texts.text"),
    }
    ids = {"evaluation_runs.corpus_version", "retrievals.relevant_chunks", "retrievals.hits"}
    assert set(found(db, gone)) == set(found(db, used)) == kept | ids
    before = (load_results(db, recent.id), load_scores(db, recent.id, {MRR: "1", JUDGED: "1"}))
    delete_texts(db, "acme", since())
    assert set(found(db, gone)) == ids
    assert set(found(db, used)) == kept | ids
    assert (load_results(db, recent.id), load_scores(db, recent.id, {MRR: "1", JUDGED: "1"})) == before
    assert (row_counts(db)["embedding_cache"], row_counts(db)["reuse_keys"]) == (1, 6)
    assert delete_texts(db, "acme", since()) == {}


def test_zero_days_deletes_all_but_the_current_questions(sqlite_db: Database) -> None:
    plant(sqlite_db, "acme")
    delete_texts(sqlite_db, "acme", utc_now(), keep_baselines=False)
    left = row_counts(sqlite_db)
    assert [left[name] for name in ("texts", "reuse_keys", "llm_cache", "embedding_cache")] == [0, 0, 0, 0]
    assert left["benchmark_items"] == 3
    with sqlite_db.connect() as connection:
        assert set(connection.execute(sa.select(item_results.c.answer)).scalars()) == {None}


def test_questions_of_datasets_that_are_neither_current_nor_used_go(db: Database) -> None:
    items = make_items(4)
    first = make_dataset(db, "acme", items[:3])
    evaluation = evaluated(db, first, "one", OLD)
    used = make_dataset(db, "acme", items[1:3])
    evaluated(db, used, "two", RECENT)
    current = make_dataset(db, "acme", items[2:])
    other = make_dataset(db, "acme", [items[0]], name="another")
    everything_is_old(db)
    for dataset in (current, other):  # the newest of each name is the current one
        set_checked(db, dataset, OLD + timedelta(days=1))
    assert delete_texts(db, "acme", since())["benchmark_items"] == 0
    with db.begin() as connection:
        connection.execute(sa.delete(metadata.tables["dataset_items"]).where(sa.text(f"dataset_id = {other.id}")))
    assert delete_texts(db, "acme", since())["benchmark_items"] == 1
    with pytest.raises(TextsDeletedError, match=f"the questions of dataset {first.id} were deleted"):
        dataset_items(db, first.id)
    for dataset in (used, current):
        assert len(dataset_items(db, dataset.id)) == 2
    # What it scored stays, by the ids of the questions.
    assert len(load_scores(db, evaluation.id, {MRR: "1"})[MRR]) == 3
    assert len(load_results(db, evaluation.id)) == 2


def test_candidates_of_no_current_dataset_go_and_a_persons_decision_outlives_its_text(db: Database) -> None:
    items = make_items(4)
    make_dataset(db, "acme", items[:1])
    candidates = [
        Candidate("asked", "extractive", 0, "accepted", items[0]),
        Candidate("idle", "extractive", 0, "accepted", items[1]),
        Candidate("rule", "extractive", 0, "rejected", items[2], ("too_short",)),
        Candidate("person", "extractive", 0, "rejected", items[3], ("rejected_by_reviewer",)),
        Candidate("failed", "extractive", 0, "failed", None, ("no_question",)),
    ]
    benchmark.save_candidates(db, "acme", candidates)
    assert delete_texts(db, "acme", since(), ["rejected_by_reviewer"]) == {}
    with db.begin() as connection:
        connection.execute(sa.update(qa_candidates).values(created_at=utc_now() + OLD))
    assert delete_texts(db, "acme", since(), ["rejected_by_reviewer"]) == {"qa_candidates": 4}
    left = {candidate.chunk_key: candidate for candidate in benchmark.list_candidates(db, "acme")}
    assert set(left) == {"asked", "person"}
    assert left["asked"].item == items[0]
    assert (left["person"].item, left["person"].reasons) == (None, ("rejected_by_reviewer",))
    assert delete_texts(db, "acme", since(), ["rejected_by_reviewer"]) == {}


def test_an_unfinished_evaluation_that_lost_its_texts_asks_again(sqlite_db: Database) -> None:
    dataset = make_dataset(sqlite_db, "acme", make_items(3))
    evaluation = open_run(sqlite_db, dataset, "change:1")
    work(sqlite_db, evaluation, dataset_items(sqlite_db, dataset.id))
    with sqlite_db.begin() as connection:
        connection.execute(sa.update(evaluation_runs).values(started_at=utc_now() + OLD))
    everything_is_old(sqlite_db)
    delete_texts(sqlite_db, "acme", since())
    with sqlite_db.connect() as connection:
        links = connection.execute(sa.select(run_items.c.retrieval_id, run_items.c.result_id)).all()
    assert [tuple(link) for link in links] == [(None, None)] * 3
    again = open_run(sqlite_db, dataset, "change:1")
    assert again.id == evaluation.id
    work(sqlite_db, again, dataset_items(sqlite_db, dataset.id))
    assert texts_of(sqlite_db, again) != set()


def test_scores_go_with_the_evaluations_that_had_them(db: Database) -> None:
    dataset = make_dataset(db, "acme", make_items(3))
    gone = evaluated(db, dataset, "one", OLD, salt="other")
    evaluated(db, dataset, "two", OLD)
    recent = evaluated(db, dataset, "three", RECENT)
    everything_is_old(db)
    kept = (load_results(db, recent.id), load_scores(db, recent.id, {MRR: "1"}), load_summaries(db, recent.id))
    deleted = delete_scores(db, "acme", since())
    assert deleted["evaluation_runs"] == 2
    assert deleted["item_results"] == deleted["metric_scores"] == deleted["retrievals"] == 3
    assert [each.id for each in evaluations.list_evaluations(db, "acme")] == [recent.id]
    assert load_summaries(db, gone.id) == []
    assert (load_results(db, recent.id), load_scores(db, recent.id, {MRR: "1"}), load_summaries(db, recent.id)) == kept
    assert delete_scores(db, "acme", since()) == {}


def test_where_the_newest_evaluation_goes_one_that_ended_later_is_the_newest(db: Database) -> None:
    dataset = make_dataset(db, "acme", make_items(2))
    resumed = evaluated(db, dataset, "1", RECENT)
    evaluated(db, dataset, "2", OLD)
    delete_scores(db, "acme", utc_now() + timedelta(days=-50))
    assert [row["evaluation_id"] for row in read_view(db, "latest_per_client")] == [resumed.id]


def test_the_baseline_stays_as_long_as_it_is_one(db: Database) -> None:
    dataset = make_dataset(db, "acme", make_items(3))
    former, baseline, later = (evaluated(db, dataset, night, OLD, salt=night) for night in ("one", "two", "three"))
    save_night_scores(db, "acme", "1", {(each.id, MRR): {"item": 1.0} for each in (former, baseline, later)})
    for evaluation in (former, baseline):
        save_baseline(db, evaluation, "accepted")
    everything_is_old(db)
    kept = (load_scores(db, baseline.id, {MRR: "1"}), load_summaries(db, baseline.id))
    deleted = delete_scores(db, "acme", since())
    assert (deleted["evaluation_runs"], deleted["item_results"]) == (1, 6)
    assert [each.id for each in evaluations.list_evaluations(db, "acme")] == [later.id, baseline.id]
    # What was after it leads back to it, question by question.
    assert set(load_night_scores(db, [former.id, baseline.id, later.id], MRR, "1")) == {baseline.id, later.id}
    assert (load_scores(db, baseline.id, {MRR: "1"}), load_summaries(db, baseline.id)) == kept
    left = find_baseline(db, "acme", dataset.name, "dense")
    assert left is not None
    assert (left.evaluation_id, row_counts(db)["baselines"]) == (baseline.id, 1)
    # Its texts stay for a judge that changes, unless nobody wants any to be kept.
    delete_texts(db, "acme", since())
    assert texts_of(db, baseline) != set()
    delete_texts(db, "acme", since(), keep_baselines=False)
    assert texts_of(db, baseline) == set()


def test_what_was_told_found_and_compared_grows_old_with_the_scores(sqlite_db: Database) -> None:
    plant(sqlite_db, "acme")
    open_all(sqlite_db, [Finding("acme", "stale"), Finding("acme", "failed_run")], utc_now())
    over = [incident for incident in open_incidents(sqlite_db, ["acme"]) if incident.kind == "failed_run"]
    close_all(sqlite_db, [(incident, {}) for incident in over], utc_now())
    deleted = delete_scores(sqlite_db, "acme", utc_now())
    assert (deleted["corpus_changes"], deleted["incidents"]) == (1, 1)
    assert [each.kind for each in open_incidents(sqlite_db, ["acme"])] == ["stale"]


def test_versions_of_datasets_go_that_are_neither_current_nor_evaluated(db: Database) -> None:
    items = make_items(4)
    idle, asked, current = (make_dataset(db, "acme", items[start:]) for start in range(3))
    evaluated(db, asked, "one", RECENT)
    everything_is_old(db)
    for dataset in (idle, asked):
        set_checked(db, dataset, OLD - timedelta(days=1))
    assert delete_scores(db, "acme", since())["evaluation_datasets"] == 1
    assert {each.id for each in benchmark.list_datasets(db, "acme")} == {asked.id, current.id}
    assert row_counts(db)["dataset_items"] == 5


def test_what_no_evaluation_names_any_more_goes_but_what_is_current(sqlite_db: Database) -> None:
    plant(sqlite_db, "acme")
    with sqlite_db.begin() as connection:
        connection.execute(sa.update(evaluation_runs).values(corpus_version="another"))
    everything_is_old(sqlite_db)
    deleted = delete_scores(sqlite_db, "acme", utc_now())
    assert deleted["llm_calls"] == 1
    assert (row_counts(sqlite_db)["corpus_versions"], row_counts(sqlite_db)["chunk_samples"]) == (1, 1)
    with sqlite_db.begin() as connection:
        connection.execute(sa.text("UPDATE clients SET corpus_version = 'newer'"))
    assert delete_scores(sqlite_db, "acme", utc_now()) == {"corpus_versions": 1}


def settings_of(folder: Path, toml: str) -> Settings:
    path = folder / "rageval.toml"
    path.write_text(toml, encoding="utf-8")
    return load_settings({"RAGEVAL_HOME": str(folder)}, env_file=folder / "none.env", config_file=path)


def test_each_client_has_its_own_days_and_nobodys_mistake_stops_the_others(sqlite_db: Database, tmp_path: Path) -> None:
    for client in ("acme", "broken", "globex", "zero"):
        plant(sqlite_db, client)
    settings = settings_of(
        tmp_path,
        """
        [defaults]
        retention_days_text = 30
        [clients.zero]
        retention_days_text = 0
        [clients.broken]
        retention_days_text = "soon"
        """,
    )
    report = retain_all(sqlite_db, settings)
    assert (report.clients, report.busy) == (3, 0)
    [failure] = report.failures
    assert failure.startswith("client 'broken'")
    assert "retention_days_text" in failure
    with sqlite_db.connect() as connection:
        texts = metadata.tables["texts"].c.client_id
        assert set(connection.execute(sa.select(texts)).scalars()) == {"acme", "broken", "globex"}
    later = retain_all(sqlite_db, settings, now=utc_now() + timedelta(days=31))
    assert (later.rows["texts"], later.kept["baselines_kept_with_texts"]) == (0, 2)
    assert set(later.metadata()) >= {"clients", "busy", "failed", "baselines_kept_with_texts"}
    assert retain_all(sqlite_db, settings, now=utc_now() + timedelta(days=31)).rows == {}


def test_who_is_worked_on_is_left_for_the_next_time(sqlite_db: Database, tmp_path: Path) -> None:
    plant(sqlite_db, "acme")
    ensure_client(sqlite_db, "globex")
    acquire_lease(sqlite_db, "acme", "elsewhere:1:run 7")
    report = retain_all(sqlite_db, settings_of(tmp_path, ""), now=utc_now() + timedelta(seconds=60))
    assert (report.clients, report.busy) == (1, 1)
    assert row_counts(sqlite_db)["texts"] == 30


def test_what_a_model_said_of_files_grows_old_too(sqlite_db: Database, tmp_path: Path) -> None:
    """Files are judged for nobody, or for a client whose documents were never seen."""
    save_replies(sqlite_db, "(files)", [(digest("request"), "judge", "it quotes the answer")])
    later = utc_now() + timedelta(days=91)
    assert retain_all(sqlite_db, settings_of(tmp_path, ""), now=later).rows == {"llm_cache": 1}
    again = retain_all(sqlite_db, settings_of(tmp_path, ""), now=later)
    assert again.metadata() == {"clients": 0, "busy": 0, "failed": 0}


def test_the_log_of_sqlite_keeps_no_copy_of_the_texts(sqlite_db: Database, tmp_path: Path) -> None:
    plant(sqlite_db, "acme")
    log = tmp_path / "history.sqlite3-wal"
    assert log.stat().st_size > 0
    retain_all(sqlite_db, settings_of(tmp_path, "[defaults]\nretention_days_text = 0"))
    assert log.stat().st_size == 0
