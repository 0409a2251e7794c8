"""The real webserver, daemon and code server: a changed document is evaluated without a hand on it, once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from rageval_dagster.assets.partitions import CLIENTS_PARTITIONS
from tests.loopback import free_port
from tests.pipeline.services import wait_for
from tests.pipeline.small_project import Project, documents

ROOT = Path(__file__).parents[2]


@pytest.fixture
def services(loaded: Project) -> Iterator[int]:
    """`dagster dev` over the project; gives its port."""
    port = free_port()
    log = (loaded.folder / "dev.log").open("w")
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "dagster"), "dev", "-w", str(ROOT / "workspace.yaml"), "-p", str(port)],
        env={**os.environ, **loaded.environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        cwd=loaded.folder,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    yield port
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    log.close()


@pytest.mark.core
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("services")
def test_changed_and_new_documents_are_evaluated_by_themselves(loaded: Project) -> None:
    with dg.DagsterInstance.get() as instance:

        def finished() -> list[str]:
            runs = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS]))
            return sorted(run.tags["dagster/partition"] for run in runs)

        wait_for("the first evaluation", lambda: finished() == ["acme"])

        loaded.ingest("globex", documents("castle", count=3))
        wait_for("the new client's evaluation", lambda: finished() == ["acme", "globex"])
        assert sorted(instance.get_dynamic_partitions(CLIENTS_PARTITIONS)) == ["acme", "globex"]

        rows = documents("castle", count=3)
        rows[0]["text"] += " A new wing was opened in 1999."
        loaded.ingest("globex", rows)
        wait_for("the changed client's evaluation", lambda: finished() == ["acme", "globex", "globex"])

        # One more look of the sensor asks for nothing; it looks every 30 seconds.
        ticks = len(sensor_ticks(instance))
        wait_for("one more tick", lambda: len(sensor_ticks(instance)) > ticks)
        assert instance.get_runs_count() == 3


def sensor_ticks(instance: dg.DagsterInstance) -> list[object]:
    [state] = [state for state in instance.all_instigator_state() if state.name == "rageval_document_store_sensor"]
    return list(instance.get_ticks(state.instigator_origin_id, state.selector_id))
