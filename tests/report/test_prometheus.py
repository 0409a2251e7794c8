"""/metrics of `rageval serve`: what a real Prometheus makes of it, and of each query of the dashboard."""

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import uvicorn
from pydantic import SecretStr
from starlette.testclient import TestClient

from rageval_dagster.api import make_app
from rageval_dagster.automation.home import dagster_yaml
from rageval_dagster.report.prometheus import FleetMetrics
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import finish_evaluation
from rageval_dagster.storage.forgetting import bury, delete_rows
from rageval_dagster.storage.tables import evaluation_runs, llm_calls
from rageval_dagster.storage.types import utc_now
from tests.loopback import free_port
from tests.pipeline.services import wait_for
from tests.pipeline.small_project import Project
from tests.storage.history_builder import make_dataset, make_items, open_run

TOKEN = "a-token-of-the-tests"
ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana.json").read_text(encoding="utf-8"))
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def fill(db: Database) -> None:
    """Two clients: one evaluated an hour ago with a regression, the other being evaluated; two calls of a model."""
    for client in ("acme", 'glo"bex'):
        evaluation = open_run(db, make_dataset(db, client, make_items(2)), "n1")
        if client == "acme":
            finish_evaluation(db, evaluation.id, "complete", {}, duration_s=1.0, error_count=0)
            ended = {"finished_at": utc_now() - timedelta(hours=1), "verdict": "regressed"}
            db.execute(sa.update(evaluation_runs).where(evaluation_runs.c.id == evaluation.id).values(ended))
        call(db, client)


def call(db: Database, client: str, minutes_ago: int = 5) -> None:
    row = {
        "client_id": client,
        **{"role": "judge", "model": "m", "prompt_tokens": 100, "completion_tokens": 10, "cost_usd": 0.25},
        **{"latency_s": 1.0, "cache_hit": False, "retries": 0},
        "called_at": utc_now() - timedelta(minutes=minutes_ago),
    }
    db.execute(sa.insert(llm_calls).values(row))


def values(text: str) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_the_numbers_are_those_of_the_history(any_db: Database) -> None:
    fill(any_db)
    numbers = FleetMetrics(any_db, per_client=False)
    found = values(numbers.text({"queued": 3}))
    assert 3600 <= found.pop('rageval_newest_evaluation_age_seconds{of="newest"}') < 3700
    assert 3600 <= found.pop('rageval_newest_evaluation_age_seconds{of="stalest"}') < 3700
    assert found == {
        "rageval_clients": 2,
        "rageval_dagster_storage_up": 1,
        'rageval_dagster_runs{status="queued"}': 3,
        'rageval_evaluations_1d{status="complete"}': 1,
        'rageval_verdicts_1d{verdict="regressed"}': 1,
        "rageval_clients_evaluated_30d": 1,
        'rageval_model_calls_total{role="judge",model="m"}': 2,
        'rageval_model_prompt_tokens_total{role="judge",model="m"}': 200,
        'rageval_model_completion_tokens_total{role="judge",model="m"}': 20,
        'rageval_model_cost_usd_total{role="judge",model="m"}': 0.5,
    }
    call(any_db, "acme")
    call(any_db, "acme", minutes_ago=0)  # counted with a later look
    later = values(numbers.text(None))
    assert later['rageval_model_calls_total{role="judge",model="m"}'] == 3
    assert later["rageval_dagster_storage_up"] == 0


def test_clients_are_named_only_where_that_is_asked_for(any_db: Database) -> None:
    fill(any_db)
    assert "acme" not in FleetMetrics(any_db, per_client=False).text({})
    found = values(FleetMetrics(any_db, per_client=True).text({}))
    assert found['rageval_model_cost_usd_total{role="judge",model="m",client="acme"}'] == 0.25
    assert found['rageval_model_cost_usd_total{role="judge",model="m",client="glo\\"bex"}'] == 0.25
    assert found['rageval_verdicts_1d{verdict="regressed",client="acme"}'] == 1
    assert 'rageval_client_newest_evaluation_age_seconds{client="acme"}' in found


def test_a_forgotten_client_is_named_no_more(any_db: Database) -> None:
    fill(any_db)
    call(any_db, "files that were judged")
    numbers = FleetMetrics(any_db, per_client=True)
    assert "acme" in numbers.text({})
    delete_rows(any_db, "acme")
    bury(any_db, "acme", {})
    later = numbers.text({})
    assert "acme" not in later
    assert values(later)['rageval_model_calls_total{role="judge",model="m",client="glo\\"bex"}'] == 1
    assert values(later)['rageval_model_calls_total{role="judge",model="m",client="files that were judged"}'] == 1


def test_that_dagsters_storage_is_away_is_a_number(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"postgresql+psycopg2://rageval:secret@127.0.0.1:{free_port()}/dagster"
    away = project.given(monkeypatch, RAGEVAL_DAGSTER_DATABASE_URL=url)
    # As rageval writes it for these settings; of a user's own dagster.yaml only Dagster knows where the storage is.
    home = Path(os.environ["DAGSTER_HOME"], "dagster.yaml")
    home.write_text(dagster_yaml(away.settings), encoding="utf-8")
    client = TestClient(make_app(away.settings, away.database(), SecretStr(TOKEN)), raise_server_exceptions=False)
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    assert values(answer.text)["rageval_dagster_storage_up"] == 0
    assert "secret" not in answer.text


def test_the_page_takes_the_bearer_token_and_tells_of_the_queue(project: Project) -> None:
    app = make_app(project.settings, project.database(), SecretStr(TOKEN))
    client = TestClient(app, raise_server_exceptions=False)
    assert client.get("/metrics").status_code == 401
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert values(answer.text)['rageval_dagster_runs{status="queued"}'] == 0


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Callable[[str], list[Any]]]:
    """A real one that scrapes the target each second; gives what it finds by a query."""
    port = free_port()
    scrape = {"job_name": "rageval", "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
    config = {"scrape_configs": [{**scrape, "authorization": {"credentials": TOKEN}}]}
    (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")  # which is YAML, too
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"], cwd=folder, stdout=log, stderr=log
        )

    def ask(query: str) -> list[Any]:
        address = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
            return []  # it is just starting
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionError):
                raise
            return []
        assert said["status"] == "success"
        return said["data"]["result"]

    try:
        yield ask
    finally:
        process.terminate()
        process.wait(timeout=60)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("prometheus"), reason="Debian's package prometheus is not installed")
def test_prometheus_scrapes_it_and_evaluates_each_query_of_the_dashboard(project: Project) -> None:
    db = project.database()
    fill(db)
    app = make_app(project.settings, db, SecretStr(TOKEN))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        with prometheus(project.folder, f"127.0.0.1:{listening.getsockname()[1]}") as ask:
            wait_for("a scrape", lambda: [each["value"][1] for each in ask('up{job="rageval"}')] == ["1"], 120)
            # What is a rate needs two scrapes.
            wait_for("another one", lambda: bool(ask("rate(rageval_model_calls_total[5m])")), 120)
            assert [query for query in QUERIES if not ask(query)] == ["sum by (kind) (rageval_open_incidents)"], (
                "only what there is none of is empty"
            )
    finally:
        server.should_exit = True
        thread.join()


def test_the_dashboard_asks_for_what_there_is(any_db: Database) -> None:
    fill(any_db)
    told = set(re.findall(r"# TYPE (\w+)", FleetMetrics(any_db, per_client=False).text({})))
    assert {name for query in QUERIES for name in re.findall(r"rageval_\w+", query)} <= told
