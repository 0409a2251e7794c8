"""This project's definitions in somebody's own Dagster deployment: neither gets into the other's way."""

import importlib
import os
from pathlib import Path

import dagster as dg
import pytest

from rageval_dagster import definitions as rageval
from rageval_dagster.assets.partitions import clients_partitions
from rageval_dagster.automation.jobs import EVALUATION_JOB
from rageval_dagster.automation.requests import ensure_partitions
from rageval_dagster.evaluation.summary import reports_of
from rageval_dagster.resources import HistoryDatabase
from tests.docs.pages import blocks
from tests.pipeline.small_project import Project
from tests.pipeline.test_forget import forget


class Warehouse(dg.ConfigurableResource):
    """Under a name that this project might use, too."""

    table: str


@dg.asset(group_name="evaluation")
def orders(database: Warehouse) -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"table": database.table})


@dg.asset(deps=["evaluation_runs"], partitions_def=clients_partitions)
def quality_page() -> None:
    """Theirs, made of what ours found."""


@dg.sensor(name="alert_sensor", job_name="evaluation")
def their_sensor() -> dg.SkipReason:
    return dg.SkipReason("nothing to do")


THEIRS = dg.Definitions(
    assets=[orders, quality_page],
    jobs=[dg.define_asset_job("evaluation", ["orders"]), dg.define_asset_job("quality", ["quality_page"])],
    schedules=[dg.ScheduleDefinition(name="retention", job_name="evaluation", cron_schedule="0 3 * * *")],
    sensors=[their_sensor],
    resources={"database": Warehouse(table="orders")},
    loggers={"console": dg.colored_console_logger},
    executor=dg.multiprocess_executor,
)


def test_the_page_says_how_to_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    definitions, assets = blocks("docs/your-dagster.md", "python")
    (tmp_path / "my_project").mkdir()
    (tmp_path / "my_project" / "assets.py").write_text(assets, encoding="utf-8")
    (tmp_path / "my_project" / "definitions.py").write_text(definitions, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    merged = importlib.import_module("my_project.definitions").defs
    with dg.instance_for_test():  # else Dagster resolves by the last instance of this process, which is gone
        graph = merged.resolve_asset_graph()
    page = graph.get(dg.AssetKey("quality_page"))
    assert page.parent_keys == {dg.AssetKey("evaluation_runs")}
    assert page.partitions_def == clients_partitions
    keys = merged.resolve_job_def(EVALUATION_JOB).asset_layer.executable_asset_keys
    assert dg.AssetKey("evaluation_runs") in keys
    assert dg.AssetKey("quality_page") not in keys


def test_files_of_their_runs_keep_their_rights(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensors open the database in the process that starts their runs, too."""
    monkeypatch.setenv("DAGSTER_HOME", str(project.folder / "theirs"))
    before = os.umask(0o022)
    try:
        HistoryDatabase().open()
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def executed(defs: dg.Definitions, job: str, instance: dg.DagsterInstance, partition: str | None = None) -> set[str]:
    """Runs a job; gives the assets that it made."""
    done = defs.resolve_job_def(job).execute_in_process(instance=instance, partition_key=partition)
    return {event.asset_key.to_user_string() for event in done.get_asset_materialization_events() if event.asset_key}


def test_merged_with_their_definitions_both_work_as_before(loaded: Project) -> None:
    merged = dg.Definitions.merge(THEIRS, rageval.defs)
    assert merged.executor is dg.multiprocess_executor
    # Within an instance: Dagster keeps the state storage of the one that a thread entered last, though that is gone.
    with dg.DagsterInstance.get() as instance:
        dg.Definitions.validate_loadable(merged)
        ensure_partitions(instance, ["acme"])
        ours = executed(merged, EVALUATION_JOB, instance, "acme")
        assert "evaluation_runs" in ours
        assert not ours & {"orders", "quality_page"}
        [report] = reports_of(loaded.database(), "acme")
        assert report.evaluation.status == "complete"

        assert executed(merged, "evaluation", instance) == {"orders"}
        assert executed(merged, "quality", instance, "acme") == {"quality_page"}
        theirs = {run.run_id for run in instance.get_runs() if run.job_name in {"evaluation", "quality"}}
        assert forget("acme") == 0
        assert {run.run_id for run in instance.get_runs()} == theirs
