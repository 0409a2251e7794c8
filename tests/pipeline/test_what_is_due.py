"""A night makes what is due: no benchmark where no dataset is, and one all the same where only the scan finds that."""

from collections.abc import Collection, Iterator

import dagster as dg
import pytest
from dagster import DagsterEventType as Kind

from rageval_dagster.automation.jobs import UNDUE_KEYS
from rageval_dagster.evaluation.summary import reports_of
from rageval_dagster.storage.benchmark import current_datasets, dataset_items
from rageval_dagster.storage.clients import notify
from tests.pipeline.looks import nightly_requests, tick
from tests.pipeline.small_project import Project, documents

MOST_EVENTS = 80
BENCHMARK = {"chunk_sample", "synthetic_qa", "validated_benchmark"}


@pytest.fixture
def instance(evaluated: Project) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.get() as opened:
        yield opened


def asked_for(instance: dg.DagsterInstance) -> Collection[dg.AssetKey] | None:
    [request] = nightly_requests(instance)
    left_out = request.run_config["resources"]["rageval_plan"]["config"].get("renewal_left_out", False)
    assert left_out == (request.asset_selection is not None)
    return request.asset_selection


def made_in(instance: dg.DagsterInstance, run_id: str) -> list[str]:
    logs = instance.all_logs(run_id, of_type={Kind.ASSET_MATERIALIZATION})
    return [entry.get_dagster_event().step_materialization_data.materialization.asset_key.path[-1] for entry in logs]


def checked_in(instance: dg.DagsterInstance, run_id: str) -> dict[str, bool]:
    logs = instance.all_logs(run_id, of_type={Kind.ASSET_CHECK_EVALUATION})
    found = [entry.get_dagster_event().asset_check_evaluation_data for entry in logs]
    assert {each.partition for each in found} <= {"acme"}
    return {each.check_name: each.passed for each in found}


def test_the_schedule_asks_for_the_benchmark_only_where_it_is_or_may_be_due(
    evaluated: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick(instance)
    assert asked_for(instance) == UNDUE_KEYS
    with monkeypatch.context() as older:
        older.setenv("EVALUATION_DATASET_MAX_AGE_DAYS", "0")
        assert asked_for(instance) is None
    with monkeypatch.context() as more:
        more.setenv("EVALUATION_DEFAULT_SAMPLE_SIZE", "9")
        assert asked_for(instance) is None
    notify(evaluated.database(), "acme")
    tick(instance)
    assert asked_for(instance) is None


def test_an_unchanged_night_makes_no_benchmark_and_evaluates_every_check_of_the_client(
    evaluated: Project, instance: dg.DagsterInstance
) -> None:
    launched = evaluated.evaluate("acme", "schedule:2026-05-02T02:00")
    assert launched.failure is None
    assert sorted(made_in(instance, launched.run_id)) == sorted(key.path[-1] for key in UNDUE_KEYS)
    expected = {"complete", "few_errors", "good_values", "no_foreign_chunks", "no_unknown_chunks", "fresh"}
    assert expected < set(checked_in(instance, launched.run_id))
    assert len(instance.all_logs(launched.run_id)) <= MOST_EVENTS
    # Every client keeps its outcome of the rules, from the run that made the dataset.
    rules = dg.AssetCheckKey(dg.AssetKey("validated_benchmark"), "quality_rules")
    [record] = instance.event_log_storage.get_asset_check_execution_history(rules, limit=5)
    assert record.run_id != launched.run_id


def test_what_only_the_scan_finds_is_renewed_by_the_run_that_left_it_out(
    evaluated: Project, instance: dg.DagsterInstance
) -> None:
    db = evaluated.database()
    tick(instance)
    [before] = current_datasets(db, "acme")
    rows = documents("lighthouse")
    for row in rows:
        row["text"] = row["text"].replace("crowns", "ducats").replace("the engineer", "the builder")
    evaluated.ingest("acme", rows)
    assert asked_for(instance) == UNDUE_KEYS, "nobody has seen that the documents changed"
    launched = evaluated.evaluate("acme", "schedule:2026-05-02T02:00")
    assert launched.failure is None
    [after] = current_datasets(db, "acme")
    assert after.id != before.id
    gone = {item.item_id for item in dataset_items(db, before.id)} - {i.item_id for i in dataset_items(db, after.id)}
    assert gone
    [report] = reports_of(db, "acme", "schedule:2026-05-02T02:00")
    assert report.evaluation.dataset_id == after.id
    assert set(made_in(instance, launched.run_id)) > BENCHMARK
    assert checked_in(instance, launched.run_id)["quality_rules"]
    tick(instance)
    assert asked_for(instance) == UNDUE_KEYS
