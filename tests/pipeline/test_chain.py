"""The whole chain in one process, over real documents in a real Chroma: what it stores, and what it stores again."""

import json
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as sa

from rageval_dagster.benchmark.importing import import_dataset
from rageval_dagster.evaluation.summary import reports_of
from rageval_dagster.records import Evidence, Item
from rageval_dagster.storage.benchmark import current_datasets, dataset_items, list_candidates
from rageval_dagster.storage.evaluations import list_evaluations
from rageval_dagster.storage.tables import evaluation_datasets
from tests.pipeline.small_project import Project, documents


def test_a_client_is_evaluated_from_documents_to_history(evaluated: Project) -> None:
    [report] = reports_of(evaluated.database(), "acme", "command:one")
    assert report.evaluation.status == "complete"
    assert report.evaluation.item_count == 8
    headline = report.headline()
    assert headline["hit_rate_at_5"].n_scored == 8
    assert 0 < (headline["mrr"].mean or 0) <= 1
    with dg.DagsterInstance.get() as instance:
        [run] = instance.get_runs()
        assert run.status == dg.DagsterRunStatus.SUCCESS
        event = instance.get_latest_materialization_event(dg.AssetKey("evaluation_runs"))
        assert event is not None
        assert event.asset_materialization is not None
        shown = event.asset_materialization.metadata
        assert shown["synthetic/mrr"].value == headline["mrr"].mean
        assert event.asset_materialization.partition == "acme"


def test_a_run_for_a_change_that_was_evaluated_ends_early(evaluated: Project) -> None:
    assert evaluated.evaluate("acme", "change:1", only_if_changed=True).message is None
    assert reports_of(evaluated.database(), "acme", "change:1") == []


@pytest.mark.slow
def test_questions_stay_where_their_quote_stands_and_retire_where_it_is_gone(evaluated: Project) -> None:
    db = evaluated.database()
    [before] = current_datasets(db, "acme")
    old = {item.item_id: item for item in dataset_items(db, before.id)}
    rows = documents("lighthouse")
    victim = next(iter(old.values()))
    document_id, quote = victim.evidence[0].document_id, victim.evidence[0].quote or ""
    for row in rows:
        if row["id"] == document_id:
            row["text"] = " ".join(row["text"].split()).replace(" ".join(quote.split()), "Nothing is left of it.")
    evaluated.ingest("acme", rows)
    assert evaluated.evaluate("acme", "command:two").message is None
    [after] = current_datasets(db, "acme")
    new = {item.item_id for item in dataset_items(db, after.id)}
    gone = {id for id, item in old.items() if (item.evidence[0].quote or "") == quote}
    assert set(old) - new == gone
    # What is gone is replaced as far as the documents give more questions.
    assert before.qa_count - len(gone) <= after.qa_count <= before.qa_count
    retired = [candidate for candidate in list_candidates(db, "acme") if candidate.status == "retired"]
    assert {candidate.item.item_id for candidate in retired if candidate.item} == gone


@pytest.mark.slow
def test_what_a_resumed_run_no_longer_asks_for_is_not_finished_half_done(
    loaded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("rageval_dagster.evaluation.asking.resolve", lambda *_: 1 / 0)
        assert loaded.evaluate("acme", "change:1", systems=["bm25"]).failed_step == "retrieval_runs"
    assert loaded.evaluate("acme", "change:1", systems=["dense"]).message is None
    db = loaded.database()
    assert [report.evaluation.system for report in reports_of(db, "acme", "change:1")] == ["dense"]
    assert {each.system: each.status for each in list_evaluations(db, "acme")} == {
        "dense": "complete",
        "bm25": "failed",
    }


def test_a_benchmark_that_fails_a_blocking_rule_is_refused(evaluated: Project) -> None:
    db = evaluated.database()
    [dataset] = current_datasets(db, "acme")
    with db.begin() as connection:
        connection.execute(sa.update(evaluation_datasets).values(valid=False))
    launched = evaluated.evaluate("acme", "command:two")
    assert f"dataset {dataset.id} cannot be evaluated" in (launched.message or "")
    assert reports_of(db, "acme", "command:two") == []


@pytest.mark.slow
def test_without_generation_only_imported_datasets_are_evaluated(
    loaded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALUATION_AUTO_GENERATE_DATASETS", "false")
    assert "has no dataset to evaluate" in (loaded.evaluate("acme", "command:one").message or "")
    path = loaded.folder / "questions.jsonl"
    item = Item("Who keeps the lighthouse of Avonlea?", evidence=(Evidence("lighthouse-avonlea"),))
    path.write_text(json.dumps(item.to_dict()), encoding="utf-8")
    import_dataset(loaded.database(), "acme", "human", path, "native")
    report = loaded.report("acme", "command:two")
    assert (report.evaluation.dataset_name, report.level) == ("human", "document")


@pytest.mark.slow
def test_same_documents_in_another_home_give_the_same_scores(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        other = Project(tmp_path / name, {**project.environment, "RAGEVAL_HOME": str(tmp_path / name / "home")})
        monkeypatch.setenv("RAGEVAL_HOME", other.environment["RAGEVAL_HOME"])
        other.ingest("acme", documents("castle"))
        report = other.report("acme", "command:one")
        [dataset] = current_datasets(other.database(), "acme")
        found.append((dataset.dataset_version, {id: s.mean for id, s in report.summaries.items()}))
    assert found[0] == found[1]
