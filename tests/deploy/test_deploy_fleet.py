"""deploy/compose.yaml, run as processes: documents are evaluated in workers, whatever dies."""

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from rageval_dagster.storage.database import open_database
from rageval_dagster.storage.tables import evaluation_runs
from tests.deploy.compose import Fleet, running
from tests.llm.scripted_server import ScriptedServer
from tests.loopback import free_port
from tests.pipeline.services import HoldingModel, wait_for
from tests.pipeline.small_project import documents
from tests.pipeline.workers import listens, process_of


@pytest.fixture
def databases() -> Iterator[tuple[str, str]]:
    """Two new databases on the server of the tests, as deploy/databases.sql makes them; dropped afterwards."""
    variable = "RAGEVAL_TEST_POSTGRES_URL"
    if not os.environ.get(variable):
        pytest.skip(f"{variable} is not set")
    server = sa.make_url(os.environ[variable])
    names = [f"rageval_fleet_{os.getpid()}_{each}" for each in ("rageval", "dagster")]
    plain = server.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection, ExitStack() as stack:
        for name in map(sql.Identifier, names):
            connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
            stack.callback(connection.execute, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
        history, storage = (server.set(database=name).render_as_string(hide_password=False) for name in names)
        yield history, storage


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_whose_worker_is_killed_is_done_by_another(
    tmp_path: Path, databases: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = HoldingModel()
    with ScriptedServer(model) as server:
        port = free_port()
        variables = {
            "RAGEVAL_SERVE_PORT": str(port),
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "sk-none",
            "RAGEVAL_EMBEDDING_MODEL": "openai:scripted",
            "RAGEVAL_METRIC_EMBEDDING_MODEL": "openai:scripted",
            "RAGEVAL_ANSWER_MODEL": "scripted-answer",
            "RAGEVAL_LLM_TIMEOUT_S": "900",
            "RAGEVAL_SETTLE_S": "0",
            "EVALUATION_DEFAULT_SAMPLE_SIZE": "4",
        }
        with running(Fleet(tmp_path, *databases, variables)) as fleet:
            for service in ("redis", "chroma"):
                fleet.start(service)
                wait_for(service, lambda name=service: listens(fleet.port(name)), 120)
            rows = "\n".join(json.dumps(row) for row in documents("lighthouse", count=3))
            (fleet.config / "acme.jsonl").write_text(rows, encoding="utf-8")
            loaded = fleet.start("worker", ["rageval", "ingest", "acme.jsonl", "--client", "acme"])
            assert loaded.wait(timeout=300) == 0, fleet.log("worker").read_text()

            workers = [fleet.start("worker") for _ in range(2)]
            for service in ("code-server", "webserver", "daemon"):
                fleet.start(service)
                if service in ("code-server", "webserver"):
                    wait_for(service, lambda name=service: listens(fleet.port(name)), 300)

            # The test's own eyes.
            for name, value in fleet.environment("worker").items():
                monkeypatch.setenv(name, value)
            monkeypatch.setenv("DAGSTER_HOME", str(fleet.home / "dagster"))
            monkeypatch.chdir(fleet.config)
            with dg.DagsterInstance.get() as instance:
                assert model.asked.wait(400), fleet.log("daemon").read_text()[-3000:]
                [run] = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
                working = os.getpgid(process_of(instance, run.run_id))
                [killed] = [worker for worker in workers if worker.pid == working]
                fleet.kill(killed)
                model.holds = False
                model.let_go.set()

                def done() -> list[dg.DagsterRun]:
                    return list(instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS])))

                wait_for("the run of another worker", lambda: bool(done()), 600)
                assert {each.tags["dagster/partition"] for each in done()} == {"acme"}
                ended = instance.get_run_by_id(run.run_id)
                assert ended is not None
                assert ended.status == dg.DagsterRunStatus.FAILURE
                again = process_of(instance, done()[0].run_id)
                assert os.getpgid(again) in {worker.pid for worker in workers if worker is not killed}

            db = open_database(databases[0])
            complete = [row.status for row in db.rows(sa.select(evaluation_runs.c.status))]
            db.dispose()
            assert complete == ["complete"], "one row, whoever worked on it"
            said = doctor(fleet)
            assert said["launcher"] == said["broker"] == said["Dagster's storage"] == "yes"
            assert said["workers"] == "warning", "one of two workers is left"
            assert reports(fleet, port) == (401, 200)


def doctor(fleet: Fleet) -> dict[str, str]:
    command = ["rageval", "doctor", "--json"]
    asked = subprocess.run(
        command, cwd=fleet.config, env=fleet.environment("worker"), capture_output=True, text=True, check=False
    )
    return {row["check"]: row["ok"] for row in json.loads(asked.stdout)}


def reports(fleet: Fleet, port: int) -> tuple[int, int]:
    """What `rageval serve` answers without and with the token."""
    fleet.start("serve")
    wait_for("rageval serve", lambda: listens(port), 120)
    found = []
    for token in ("none", "token-of-the-fleet"):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/evaluation/runs")
        request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                found.append(answer.status)
        except urllib.error.HTTPError as error:
            found.append(error.code)
    return found[0], found[1]
