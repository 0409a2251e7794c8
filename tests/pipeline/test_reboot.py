"""A run's process that is killed, and a whole machine: the client is evaluated all the same, and no slot is lost."""

import os
import signal

import dagster as dg
import pytest
from dagster import DagsterRunStatus as Status

from rageval_dagster.storage.clients import get_client
from rageval_dagster.storage.evaluations import evaluations_of_trigger
from rageval_dagster.storage.leases import held_leases
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.services import HoldingModel, running, statuses, wait_for, with_endpoint
from tests.pipeline.small_project import Project, documents

AFTER_RESTART_S = 180


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_worker_killed_then_worker_code_server_and_daemon_together(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = HoldingModel()
    with ScriptedServer(model) as server:
        served = with_endpoint(project, server, monkeypatch)
        served.ingest("acme", documents("lighthouse", count=3))
        db = served.database()
        with dg.DagsterInstance.get() as instance, running(served) as services:
            wait_for("the first run to be in the middle", model.asked.is_set)
            assert slots(instance) == 1
            [lease] = held_leases(db)
            model.asked.clear()
            os.kill(int(lease.holder.split(":")[1].partition(".")[0]), signal.SIGKILL)

            wait_for("the second run to be in the middle", model.asked.is_set)
            assert (statuses(instance)[Status.FAILURE], statuses(instance)[Status.STARTED]) == (["acme"], ["acme"])
            services.kill()
            assert slots(instance) > 0

            model.holds = False
            model.let_go.set()
            services.start()
            wait_for("the client's evaluation", lambda: statuses(instance)[Status.SUCCESS] == ["acme"], AFTER_RESTART_S)
            assert statuses(instance)[Status.FAILURE] == ["acme", "acme"]
            wait_for("the slots of the killed runs to be free", lambda: slots(instance) == 0)
            assert instance.get_runs_count() == 3
    [evaluation] = evaluations_of_trigger(db, "acme")
    assert (evaluation.status, evaluation.error_count) == ("complete", 0)
    client = get_client(db, "acme")
    assert (client.evaluated_seq, client.lease_holder) == (client.change_seq, None)


def slots(instance: dg.DagsterInstance) -> int:
    """How many places in the pool of language models are taken, or waited for."""
    info = instance.event_log_storage.get_concurrency_info("llm")
    return info.active_slot_count + info.pending_step_count
