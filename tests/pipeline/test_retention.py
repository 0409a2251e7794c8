"""The daily retention as Dagster runs it, and what comes after: texts are gone, and nothing is made up for them."""

from dataclasses import replace

import dagster as dg
import pytest

from rageval_dagster.definitions import defs
from rageval_dagster.errors import TextsDeletedError
from rageval_dagster.evaluation.scoring import run_scoring
from rageval_dagster.evaluation.summary import reports_of
from rageval_dagster.metrics.interface import Tools
from rageval_dagster.metrics.registry import metrics_of
from rageval_dagster.settings import Settings
from rageval_dagster.storage.results import load_results
from tests.cli.running import Run
from tests.pipeline.small_project import Project
from tests.pipeline.two_clients import FORGOTTEN, OTHER

pytestmark = pytest.mark.slow


def retain(raise_on_error: bool = True) -> dg.ExecuteInProcessResult:
    with dg.DagsterInstance.get() as instance:
        job = defs.resolve_job_def("rageval_retention")
        return job.execute_in_process(instance=instance, raise_on_error=raise_on_error)


def told(ended: dg.ExecuteInProcessResult) -> dict[str, object]:
    [output] = [event for event in ended.all_events if event.is_successful_output]
    return {name: value.value for name, value in output.step_output_data.metadata.items()}


def test_the_job_deletes_texts_and_the_next_evaluation_finds_the_same_scores(
    two_clients: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = two_clients.database()
    [before] = reports_of(db, FORGOTTEN, "command:one")
    assert told(retain()) == {"clients": 2, "busy": 0, "failed": 0}  # nothing is old yet
    monkeypatch.setenv("RAGEVAL_RETENTION_DAYS_TEXT", "0")
    metadata = told(retain())
    assert (metadata["clients"], metadata["failed"]) == (2, 0)
    [other] = reports_of(db, OTHER)
    assert metadata["item_results"] == before.evaluation.item_count + other.evaluation.item_count
    assert [result for _, result in load_results(db, before.evaluation.id).values() if not result.texts_deleted] == []
    # The run still shows its numbers, and says why there is no answer.
    shown = run("runs", "show", before.evaluation.id)
    assert shown.code == 0
    assert "MRR" in shown.out
    if before.by_badness:
        assert "deleted: not used for longer than texts are kept" in shown.out
    assert run("runs", "export", before.evaluation.id).code == 0
    assert run("datasets", "show", before.evaluation.dataset_id).code == 0
    # Nobody scores an answer that is no longer there.
    changed = [replace(metric, version="changed") for metric in metrics_of(Settings(), before.evaluation.k)]
    with pytest.raises(TextsDeletedError, match="evaluate the client again"):
        run_scoring(db, before.evaluation, changed, Tools(), 30)
    monkeypatch.delenv("RAGEVAL_RETENTION_DAYS_TEXT")
    after = two_clients.report(FORGOTTEN, "command:two")
    assert {id: each.mean for id, each in after.summaries.items()} == {
        id: each.mean for id, each in before.summaries.items()
    }
    assert not any(result.texts_deleted for _, result in load_results(db, after.evaluation.id).values())


def test_a_client_for_whom_it_fails_fails_the_job_after_all_others_are_done(two_clients: Project) -> None:
    toml = f'[defaults]\nretention_days_text = 0\n[clients."{FORGOTTEN}"]\nretention_days_text = "soon"\n'
    (two_clients.folder / "rageval.toml").write_text(toml, encoding="utf-8")
    ended = retain(raise_on_error=False)
    assert not ended.success
    metadata = told(ended)
    assert (metadata["clients"], metadata["failed"]) == (1, 1)
    [failure] = [event.step_failure_data.error for event in ended.all_events if event.is_step_failure]
    assert failure is not None
    assert f"client {FORGOTTEN!r}" in failure.to_string()


def test_it_runs_every_day() -> None:
    schedule = defs.resolve_schedule_def("rageval_retention")
    assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING
    assert schedule.cron_schedule == "30 3 * * *"
