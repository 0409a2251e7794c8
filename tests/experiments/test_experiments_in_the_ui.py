"""Experiments from the launchpad: a run opens them, the sensor asks for what comes next, until they are done."""

import json
from datetime import timedelta
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from rageval_dagster.automation.launch import execute
from rageval_dagster.definitions import defs
from rageval_dagster.experiments.copies import files_of
from rageval_dagster.experiments.definition import read_definition
from rageval_dagster.experiments.opening import checked, opened
from rageval_dagster.storage.experiments import end_experiment, get_experiment, list_experiments, load_results
from rageval_dagster.storage.tables import experiments
from rageval_dagster.storage.types import utc_now
from tests.cli.running import Run
from tests.experiments.small import CHUNKINGS, CLIENT, calls_of, definition, driven, own
from tests.pipeline.looks import look
from tests.pipeline.small_project import Project
from tests.processes import sent_statements

pytestmark = pytest.mark.slow


def look_and_run(instance: dg.DagsterInstance) -> list[str]:
    """What the sensor asks for is run, one after another, as the daemon would; gives the partitions."""
    asked = look("rageval_experiments", instance)
    for request in asked.dynamic_partitions_requests or []:
        instance.add_dynamic_partitions(request.partitions_def_name, request.partition_keys)
    for request in asked.run_requests or []:
        job = defs.resolve_job_def(request.job_name)
        tags = {**request.tags, "dagster/partition": request.partition_key}
        assert execute(instance, job, request.run_config, tags, lambda _: None).failure is None
    return [request.partition_key for request in asked.run_requests or []]


def test_one_that_a_run_opens_is_gone_on_with_by_the_sensor(varied: Project, run: Run) -> None:
    file = own(varied, "right", "broken")
    opening: Any = {"ops": {"rageval_definition": {"config": {"file": str(file)}}}}
    with dg.DagsterInstance.get() as instance:
        assert look_and_run(instance) == []
        launched = execute(instance, defs.resolve_job_def("rageval_experiment_open"), opening, {}, lambda _: None)
        assert launched.failure is None
        [experiment] = list_experiments(varied.database())
        assert (experiment.opened_by, experiment.status) == ("launchpad", "running")
        assert look_and_run(instance) == ["1:acme"]
        first = look_and_run(instance)
        assert first == [f"1.{number}:acme" for number in range(4)]
        while get_experiment(varied.database(), 1).status == "running":
            assert look_and_run(instance) or get_experiment(varied.database(), 1).status == "finished"
        made = instance.fetch_materializations(dg.AssetKey("experiment_trials"), limit=100).records
        assert {record.partition_key for record in made} == set(first)
        newest = made[0].asset_materialization
        assert newest is not None
        assert "style" in str(newest.metadata["so far"].value)
        assert str(newest.metadata["words"].value).startswith("![words](data:image/svg+xml;base64,")
    assert any(path.name == "experiment.json" for path in files_of(varied.settings, CLIENT))
    asked = len(calls_of(varied))
    summary = driven(varied, file)
    assert (summary["experiment"], summary["recommended"]["style"]) == (1, "right")
    assert len([call for call in calls_of(varied)[asked:] if "broken" not in call]) == 0
    assert run("forget", "--client", CLIENT, "--yes").code == 0
    with dg.DagsterInstance.get() as instance:
        assert instance.get_dynamic_partitions("rageval_experiments") == []
        # That which opened it is of no single client, and goes too.
        assert instance.get_runs_count() == 0


def test_one_that_a_run_ended_gets_its_report_too(varied: Project) -> None:
    settings, db = varied.settings, varied.database()
    file = own(varied, "right")
    experiment = opened(db, settings, checked(db, settings, read_definition(file), file.name), "launchpad")
    end_experiment(db, experiment.number, "its budget is spent")
    with dg.DagsterInstance.get() as instance:
        assert look_and_run(instance) == []
    report = next(path for path in files_of(settings, CLIENT) if path.name == "report.html")
    assert "its budget is spent" in report.read_text(encoding="utf-8")
    made = report.stat().st_mtime_ns
    with dg.DagsterInstance.get() as instance:
        assert look_and_run(instance) == []
    assert report.stat().st_mtime_ns == made


def test_a_wrong_definition_fails_its_run_with_one_clear_error(varied: Project) -> None:
    file = own(varied, "right")
    file.write_text(file.read_text(encoding="utf-8").replace("style =", "stile ="), encoding="utf-8")
    with dg.DagsterInstance.get() as instance:
        job = defs.resolve_job_def("rageval_experiment_open")
        failed = execute(instance, job, {}, {}, lambda _: None)  # its file has the name that is looked for
    assert failed.message is not None
    assert "experiment.toml [parameters] stile: system 'mine' has no such parameter (did you mean style?)" in (
        failed.message
    )
    assert json.dumps(list_experiments(varied.database())) == "[]"


def test_a_tick_reads_only_those_with_work_left(varied: Project) -> None:
    settings, db = varied.settings, varied.database()
    for seed in range(3):
        file = own(varied, "right", more=f"seed = {seed}")
        opened(db, settings, checked(db, settings, read_definition(file), file.name), "launchpad")
    long_ago = utc_now() - timedelta(days=2)
    db.execute(sa.update(experiments).values(ended_at=long_ago))
    with dg.DagsterInstance.get() as instance:
        look("rageval_experiments", instance)  # the database is open
        with sent_statements() as sent:
            assert look("rageval_experiments", instance).skip_reason is not None
    assert len([statement for statement in sent if "experiment" in statement]) == 1


def test_a_run_by_hand_of_a_whole_experiment_asks_its_round(varied: Project) -> None:
    settings, db = varied.settings, varied.database()
    file = own(varied, "right", "silent", "a" * 500)
    experiment = opened(db, settings, checked(db, settings, read_definition(file), file.name), "launchpad")
    with dg.DagsterInstance.get() as instance:
        instance.add_dynamic_partitions("rageval_experiments", ["1:acme"])
        for job in ("rageval_experiment_copies", "rageval_experiments"):
            tags = {"dagster/partition": "1:acme"}
            assert execute(instance, defs.resolve_job_def(job), {}, tags, lambda _: None).failure is None
        [run] = instance.get_runs(dg.RunsFilter(job_name="rageval_experiments"))
        assert run.tags["rageval/experiment"] == "1"
        [made] = instance.fetch_materializations(dg.AssetKey("experiment_trials"), limit=9).records
        told = str(made.asset_materialization and made.asset_materialization.metadata)
    assert "right" in told
    assert "a" * 100 not in told, "a long value, such as a prompt, is nothing for Dagster's event log"
    assert len(calls_of(varied)) == len(load_results(db, experiment.number)) > 0


def test_without_its_copies_a_run_by_hand_fails_and_no_configuration_does(varied: Project) -> None:
    settings, db = varied.settings, varied.database()
    file = definition(varied.folder, CHUNKINGS)
    opened(db, settings, checked(db, settings, read_definition(file), file.name), "launchpad")
    with dg.DagsterInstance.get() as instance:
        instance.add_dynamic_partitions("rageval_experiments", ["1:acme"])
        job = defs.resolve_job_def("rageval_experiments")
        failed = execute(instance, job, {}, {"dagster/partition": "1:acme"}, lambda _: None)
    assert failed.message is not None
    assert "the copies of the documents are not made yet; make the asset experiment_copies" in failed.message
    assert load_results(db, 1) == {}
