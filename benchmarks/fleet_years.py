"""Two years of nights of a thousand clients: how long everything takes that looks at all of them.

Usage: python benchmarks/fleet_years.py --database postgresql+psycopg://USER@HOST/NAME [--clients 1000] [--nights 730]

The database has to be empty, and stays filled: the same command uses it again. One client is really evaluated, twice.
Its second night, on which nothing changed, is then written for every client and night by SQL, with new numbers, names
and times, into tables that are unlogged for that. Every week a client's documents change: it has a new version of its
dataset, a fifth of its questions have new results, and a model was called twenty times. What retention would have
removed is not there: texts, reasons and requests of more than 90 days ago.

Commands are processes of their own; their times include Python's start and the imports. Sensors and the schedule tick
in one process, the second time; a tick of the schedule makes a run request for every client.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import sqlalchemy as sa

from rageval_dagster.automation.home import prepare_dagster_home
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.forgetting import bury, delete_rows
from rageval_dagster.storage.retention import delete_scores, delete_texts
from rageval_dagster.storage.tables import evaluation_runs, metadata
from rageval_dagster.storage.types import utc_now
from rageval_dagster.storage.view_sources import view_names
from rageval_dagster.storage.views import read_view
from tests.loopback import free_port
from tests.pipeline.small_project import Project

from change_cost import document, places  # isort: skip

TEMPLATE = "template"
DOCUMENTS, QUESTIONS = 5, 20
WEEK, TEXT_NIGHTS, CALLS = 7, 90, 20
AT_ONCE = 10
"""Nights that one statement writes."""
LIMIT_S = 2.0
API = "/api/v1/evaluation"
PURGED = 20
"""Clients of whom retention is measured."""
TOKEN = "fleet-years-fleet-years"
NIGHTLY = ("evaluation_runs", "run_items", "metric_summaries", "metric_comparisons", "night_scores")
WEEKLY = ("evaluation_datasets", "dataset_items", "corpus_changes", "document_changes")
RESULTS = {"retrievals": "retrieval_id", "item_results": "result_id", "metric_scores": "result_id"}
LARGE = ("run_items", "metric_summaries", "metric_comparisons", "metric_scores")
"""Filled without their keys, which are added then."""
ONCE = (
    *("clients", "client_systems", "corpus_versions", "corpus_chunks", "chunk_samples", "qa_candidates"),
    *("benchmark_items", "texts", "reuse_keys", "baselines", "repeated_scores"),
)


# Filling.


class Filling:
    """Writes rows of the template's for client c in night n, or week n, as SQL makes them."""

    def __init__(self, db: Database, clients: int, nights: int) -> None:
        self.db, self.clients, self.nights = db, clients, nights
        with db.connect() as connection:
            of = evaluation_runs.c
            [self.evaluation] = connection.execute(
                sa.select(sa.func.max(of.id)).where(of.client_id == TEMPLATE)
            ).scalars()
            self.dataset = connection.execute(sa.select(of.dataset_id).where(of.id == self.evaluation)).scalar_one()
        # From here on the template's own numbers are not met again.
        self.first = 1_000
        self.began = f"timestamptz '{utc_now():%Y-%m-%d} 02:00+00' - interval '{nights} days'"

    def all(self) -> None:
        with self.db.begin() as connection:
            for table in reversed(metadata.sorted_tables):
                connection.execute(sa.text(f"ALTER TABLE {table.name} SET UNLOGGED"))
        for name in ONCE:
            self.rows(name, 0, 1)
        weeks = -(-self.nights // WEEK)
        for name in LARGE:
            self.execute(f"ALTER TABLE {name} DROP CONSTRAINT pk_{name}")
        for name in (*WEEKLY, *RESULTS):
            for week in range(0, weeks, AT_ONCE):
                self.rows(name, week, min(week + AT_ONCE, weeks))
        for name in NIGHTLY:
            for night in range(0, self.nights, AT_ONCE):
                self.rows(name, night, min(night + AT_ONCE, self.nights))
        for name in LARGE:
            key = ", ".join(column.name for column in metadata.tables[name].primary_key)
            self.execute(f"ALTER TABLE {name} ADD CONSTRAINT pk_{name} PRIMARY KEY ({key})")
        self.others(weeks)
        delete_rows(self.db, TEMPLATE)
        bury(self.db, TEMPLATE, {})
        with self.db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for table in metadata.sorted_tables:
                identity = [column.name for column in table.primary_key if column.name in ("id", "number")]
                for name in identity:
                    sequence = f"pg_get_serial_sequence('{table.name}', '{name}')"
                    connection.execute(
                        sa.text(f"SELECT setval({sequence}, (SELECT COALESCE(MAX({name}), 1) FROM {table.name}))")
                    )
            connection.execute(sa.text("VACUUM ANALYZE"))

    def execute(self, statement: str) -> None:
        began = time.perf_counter()
        with self.db.begin() as connection:
            connection.execute(sa.text("SET LOCAL maintenance_work_mem = '512MB'"))
            connection.execute(sa.text(statement))
        print(f"  {statement}: {time.perf_counter() - began:.0f} s", flush=True)

    def rows(self, name: str, first: int, end: int) -> None:
        """The template's rows of a table for each client and each night, week, or once."""
        began = time.perf_counter()
        table = metadata.tables[name]
        values = {column.name: self.value(name, column) for column in table.columns}
        # Joined in this order, so that rows come in the order of nights and clients without being sorted.
        source = f"generate_series({first}, {end - 1}) night CROSS JOIN generate_series(0, {self.clients - 1}) client"
        source += f" CROSS JOIN {name} t"
        where = f"t.client_id = '{TEMPLATE}'"
        if "evaluation_id" in table.c and name not in ("evaluation_runs", "baselines", "repeated_scores"):
            where += f" AND t.evaluation_id = {self.evaluation}"
        if name in ("evaluation_runs", "evaluation_datasets"):
            where += f" AND t.id = {self.evaluation if name == 'evaluation_runs' else self.dataset}"
        if name in RESULTS:
            # Each week a fifth of the questions has new ones; the newest week's are those that the evaluations have.
            weeks = -(-self.nights // WEEK)
            where += f" AND (night = {weeks - 1} OR hashtext(t.{RESULTS[name]}) % 5 = night % 5)"
        with self.db.begin() as connection:
            connection.execute(sa.text("SET LOCAL session_replication_role = replica"))  # no look-up of foreign keys
            connection.execute(sa.text("SET LOCAL join_collapse_limit = 1"))
            inserted = connection.execute(
                sa.text(
                    f"INSERT INTO {name} ({', '.join(values)}) SELECT {', '.join(values.values())} FROM {source} "
                    f"WHERE {where}".replace(":", r"\:")
                )
            ).rowcount
        seconds = time.perf_counter() - began
        print(f"  {name} {first}-{end - 1}: {inserted:,} rows, {inserted / seconds:,.0f} a second", flush=True)

    def value(self, table: str, column: sa.Column[Any]) -> str:
        """What stands in a column, of the client c and the night or week n."""
        name, weeks = column.name, -(-self.nights // WEEK)
        evaluation = f"{self.first} + night * {self.clients} + client"
        dataset = f"{self.first} + {f'(night / {WEEK})' if table in NIGHTLY else 'night'} * {self.clients} + client"
        at = f"{self.began} + make_interval(days => {'night' if table in NIGHTLY else f'night * {WEEK}'})"
        if name == "client_id":
            return "'client-' || lpad(client::text, 4, '0')"
        if (table, name) == ("evaluation_runs", "id") or (name == "evaluation_id" and table != "evaluation_runs"):
            return evaluation
        if (table, name) == ("evaluation_runs", "evaluation_id"):
            return "md5(night || ':' || client)"
        if name == "dataset_id" or (table, name) == ("evaluation_datasets", "id"):
            return dataset
        if table in ("baselines", "corpus_changes", "document_changes") and name == "id":
            most = 1 + DOCUMENTS if table == "document_changes" else 1
            number = "row_number() OVER (PARTITION BY night, client)"
            return f"{self.first} + (night * {self.clients} + client) * {most} + {number}"
        if name == "baseline_id":
            return f"{self.first} + client"
        if name == "dataset_version":
            return hashed("night || ':' || client")
        if table in RESULTS and name in ("result_id", "retrieval_id"):
            return f"CASE night WHEN {weeks - 1} THEN t.{name} ELSE {hashed(f't.{name} || night')} END"
        if name in ("answer", "citations", "detail"):
            return f"CASE WHEN night * {WEEK} >= {self.nights - TEXT_NIGHTS} THEN t.{name} END"
        if name == "trigger_key":
            return f"'schedule:' || to_char({at}, 'YYYY-MM-DD\"T\"HH24:MI')"
        if name == "dagster_run_id":
            return "md5('run' || night || ':' || client)"
        if (table, name) == ("evaluation_runs", "verdict"):
            regressed = "WHEN hashtext(night || ':' || client) % 200 = 0 THEN 'regressed'"
            return f"CASE WHEN night = 0 THEN 'first' {regressed} ELSE 'passed' END"
        if name == "newest":
            return f"CASE night WHEN {self.nights - 1} THEN TRUE END"
        if name == "previous_id":
            return f"CASE WHEN night % {WEEK} > 0 THEN {self.first} + (night - 1) * {self.clients} + client END"
        if (table, name) in (("metric_summaries", "mean"), ("metric_comparisons", "mean")):
            return "t.mean * (0.97 + 0.03 * random())"
        if isinstance(column.type, type(evaluation_runs.c.started_at.type)) and table in (*NIGHTLY, *WEEKLY, *RESULTS):
            return f"CASE WHEN t.{name} IS NULL THEN NULL ELSE {at} END"
        if table == "clients" and name == "created_at":
            return self.began
        return f"t.{name}"

    def others(self, weeks: int) -> None:
        """What the template has none of: model calls, incidents, and the requests of the last nights."""
        client = "'client-' || lpad(client::text, 4, '0')"
        series = f"generate_series(0, {self.clients - 1}) client"
        week = f"{self.began} + make_interval(days => night * {WEEK})"
        is_open = f"night = {weeks - 1} AND client % 100 = 0"
        statements = {
            "llm_calls": "INSERT INTO llm_calls (client_id, role, model, prompt_tokens, completion_tokens, cost_usd, "
            "latency_s, cache_hit, retries, run_id, called_at) "
            f"SELECT {client}, (ARRAY['generator', 'answer', 'judge'])[1 + i % 3], 'model-' || i % 2, 1200, 150, "
            f"0.002, 1.5, false, 0, md5('run' || night || ':' || client), {week} "
            f"FROM generate_series(0, {weeks - 1}) night, {series}, generate_series(1, {CALLS}) i",
            "incidents": "INSERT INTO incidents (client_id, kind, subject, open_key, opened_at, closed_at, "
            "evaluation_id, details, opening_told_at, closing_told_at) "
            f"SELECT {client}, 'regression', 'synthetic/vector', "
            f"CASE WHEN {is_open} THEN md5('open' || client) END, {week}, "
            f"CASE WHEN {is_open} THEN NULL ELSE {week} + interval '1 day' END, "
            f"{self.first} + client, '{INCIDENT}', now(), now() "
            f"FROM generate_series(0, {weeks - 1}) night, {series} WHERE night % 10 = 0 OR ({is_open})",
            "run_requests": "INSERT INTO run_requests "
            f"SELECT {client}, 'schedule:night-' || night, t.settings, t.plan, now() - make_interval(days => night) "
            "FROM (SELECT settings, plan FROM run_requests LIMIT 1) t, "
            f"generate_series(1, {min(TEXT_NIGHTS, self.nights)}) night, {series}",
        }
        for name, statement in statements.items():
            with self.db.begin() as connection:
                inserted = connection.execute(sa.text(statement.replace(":", r"\:"))).rowcount
            print(f"  {name}: {inserted:,} rows", flush=True)


def hashed(text: str) -> str:
    """SQL: 64 hex digits of a text."""
    return f"encode(sha256(convert_to({text}, 'UTF8')), 'hex')"


INCIDENT = json.dumps(
    {
        **{
            "dataset": "synthetic",
            "system": "vector",
            "metric": "retrieval.mrr",
            "baseline_id": 1000,
            "newly_failing": 1,
        },
        **{"baseline_mean": 0.9, "mean": 0.8, "difference": -0.1, "ci_low": -0.12, "ci_high": -0.08, "n_shared": 20},
        **{"other_metrics": [], "changes": [], "asked_again": True},
    }
)


def evaluate_template(folder: Path, environment: Mapping[str, str]) -> None:
    """Two nights of one client, on the second of which nothing changed, with a request as the schedule makes them."""
    from rageval_dagster.storage.run_requests import freeze

    project = Project(folder, dict(environment))
    project.ingest(TEMPLATE, [document(n, name) for n, name in enumerate(places(DOCUMENTS))], chunk_size=500)
    db = project.database()
    for night in ("1", "2"):
        freeze(db, project.settings, {TEMPLATE: f"schedule:{night}"}, {})
        launched = project.evaluate(TEMPLATE, f"schedule:{night}")
        if launched.failure is not None:
            sys.exit(launched.failure)
    db.dispose()


# Measuring.


class Measured:
    """Prints how long something took, against the limit; `missed` are those that took longer."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def __call__(self, name: str, work: Callable[[], Any], limit: float | None = LIMIT_S) -> None:
        began, computed = time.perf_counter(), computing()
        work()
        seconds, computed = time.perf_counter() - began, computing() - computed
        against = "" if limit is None else f"{seconds / limit:8.2f} x the limit of {limit:g} s"
        print(f"{name:64} {seconds:9.2f} s, of Python {computed:6.2f} s computing {against}", flush=True)
        if limit is not None and seconds > limit:
            self.missed.append(name)


def computing() -> float:
    """Seconds of processors of this process and of commands that have ended, whatever else the machine does."""
    return sum(sum(resource.getrusage(of)[:2]) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def measure(db: Database, folder: Path, environment: Mapping[str, str], measured: Measured) -> None:
    one = "client-0007"

    def command(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "rageval_dagster", *arguments],
            env=dict(environment),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"rageval {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr}")
        return done.stdout

    measured("rageval --help (Python's start)", lambda: command("--help"), None)
    for arguments in (
        ("status",),
        ("status", "--client", one),
        ("runs", "list"),
        ("runs", "list", "--client", one),
        ("datasets", "list", "--client", one),
        ("report", "--client", one),
    ):
        measured(f"rageval {' '.join(arguments)}", lambda arguments=arguments: command(*arguments))
    print()
    for name in view_names():
        measured(f"view {name}, one client", lambda name=name: read_view(db, name, client_id=one))
        measured(f"view {name}, its first 100 rows", lambda name=name: read_view(db, name, limit=100))
    print()
    ticks(measured)
    print()
    fleet = {**environment, "RAGEVAL_METRICS_PER_CLIENT": "false"}
    with served(folder, fleet) as get:
        scraped(measured, get, "of the fleet")
        for path in (
            "/reports/fleet.html",
            f"{API}/runs",
            f"{API}/runs?limit=1000",
            f"{API}/runs?limit=50&offset=100000",
            f"{API}/datasets",
            f"{API}/datasets?client_id={one}",
        ):
            measured(f"GET {path}", lambda path=path: get(path))
    with served(folder, {**fleet, "RAGEVAL_METRICS_PER_CLIENT": "true"}) as get:
        scraped(measured, get, "with each client")
    print()
    sizes(db)
    print()
    purge(db)


def scraped(measured: Measured, get: Callable[[str], bytes], what: str) -> None:
    # What starts with the process, such as Dagster's import, is not of the database.
    measured(f"/metrics {what}, the first of a process", lambda: get("/metrics"), None)
    measured(f"/metrics {what}", lambda: get("/metrics"))


def purge(db: Database) -> None:
    """Retention of a few clients as it will be in a month, which then has a month to delete; and on the night after."""
    oldest = db.scalars(sa.select(sa.func.min(evaluation_runs.c.started_at)))[0]
    scores, texts = oldest + timedelta(days=30), utc_now() - timedelta(days=TEXT_NIGHTS - 30)
    for which in ("of a month", "of nothing"):
        began, gone = time.perf_counter(), Counter[str]()
        for number in range(PURGED):
            client = f"client-{number:04}"
            gone += delete_scores(db, client, scores)
            gone += delete_texts(db, client, texts)
        each = (time.perf_counter() - began) / PURGED
        print(f"retention, {which}: {each:.2f} s a client; of {PURGED} clients deleted or blanked: {dict(gone)}")


def ticks(measured: Measured) -> None:
    import dagster as dg

    from tests.pipeline.looks import look, nightly_requests

    with dg.DagsterInstance.get() as instance:
        for name in ("rageval_alert_sensor", "rageval_dead_run_sensor", "rageval_experiments"):
            look(name, instance)
            measured(f"tick of {name}", lambda name=name: look(name, instance))
        nightly_requests(instance)
        measured("tick of the nightly schedule", lambda: nightly_requests(instance))


@contextmanager
def served(folder: Path, environment: Mapping[str, str]) -> Iterator[Callable[[str], bytes]]:
    """`rageval serve`; gives what fetches an address, logged in and with the token."""
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "-m", "rageval_dagster", "serve", "--port", str(port)],
        env={**environment, "RAGEVAL_SERVE_TOKEN": TOKEN},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    cookies = CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))

    def get(path: str, data: dict[str, str] | None = None) -> bytes:
        headers = {"Authorization": f"Bearer {TOKEN}", "Origin": base}
        body = None if data is None else urlencode(data).encode()
        with opener.open(urllib.request.Request(base + path, body, headers)) as answer:
            return answer.read()

    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                get("/login")
                break
            except urllib.error.URLError:
                if time.monotonic() > deadline:
                    sys.exit("rageval serve does not answer")
                time.sleep(0.2)
        [form] = [each.value for each in cookies if each.name == "rageval_form"]
        get("/login", {"token": TOKEN, "form": form or ""})
        yield get
    finally:
        process.terminate()
        process.wait(timeout=30)


def sizes(db: Database) -> None:
    """Of each table its rows and bytes, with indexes."""
    query = sa.text(
        "SELECT relname AS name, n_live_tup AS rows, pg_total_relation_size(relid) AS total "
        "FROM pg_stat_user_tables ORDER BY total DESC LIMIT 14"
    )
    for row in db.rows(query):
        each = row.total / row.rows if row.rows else 0
        print(f"  {row.name:24} {row.rows:14,} rows {row.total / 1e6:10,.0f} MB, {each:6.0f} bytes a row with indexes")
    print(
        f"  all of the database: {db.scalars(sa.text('SELECT pg_database_size(current_database())'))[0] / 1e9:.1f} GB"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", help="the URL of an empty database of PostgreSQL")
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--nights", type=int, default=730)
    arguments = parser.parse_args()
    if arguments.database is None:
        print("left out: it needs --database, an empty one of PostgreSQL with room for 40 GB")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RAGEVAL_", "EVALUATION_", "DAGSTER_"))
        }
        own = {
            "RAGEVAL_HOME": f"{folder}/home",
            "RAGEVAL_DATABASE_URL": arguments.database,
            "EVALUATION_DEFAULT_SAMPLE_SIZE": str(QUESTIONS),
            "EVALUATION_TARGET_ITEMS": str(QUESTIONS),
        }
        os.environ.update(own)
        os.chdir(folder)
        environment = {**kept, **own}
        prepare_dagster_home(load_settings(environment))
        db = open_database(arguments.database)
        if not db.scalars(sa.select(evaluation_runs.c.id).limit(1)):
            evaluate_template(Path(folder), environment)
            began = time.perf_counter()
            Filling(db, arguments.clients, arguments.nights).all()
            print(f"filled in {time.perf_counter() - began:.0f} s\n")
        measured = Measured()
        measure(db, Path(folder), environment, measured)
        db.dispose()
    print(f"\nover the limit: {', '.join(measured.missed) or 'nothing'}")
    return 1 if measured.missed else 0


if __name__ == "__main__":
    sys.exit(main())
