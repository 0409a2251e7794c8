"""A night of a fleet: many clients, most of them unchanged, through schedule, queue, broker and workers; with kills.

Usage: python benchmarks/fleet_night.py [--clients 12] [--kills 5] [--changed 1%] [--default 3] [--documents 2]
[--items 8]

It starts servers of its own in a temporary folder: PostgreSQL (initdb), and the services of deploy/compose.yaml as
processes (Redis, Chroma, code server, webserver, daemon, one `rageval worker --processes 2`). Nothing of it is Docker.

Two clients are ingested and evaluated by `rageval`, as users do. All others are copies of the first one: its collection
in Chroma, and its rows in SQL under another name and other numbers. So every client has a history and a store of its
own, and the same texts; nobody pays for a thousand first evaluations. Texts are embedded by a scripted endpoint.

Three nights, each asked for by the nightly schedule: nothing changed; some clients changed (and one regressed); the
same from the same state with kills: of a worker's process, a whole worker, the daemon, Redis and PostgreSQL. What the
third night stored is compared with the second one, row by row. Last, some clients by Dagster's default launcher.
Seconds of computing are those of all processes of a service: they hold beside other programs, too.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml
from dagster_graphql import DagsterGraphQLClient

from rageval_dagster.corpus.names import CLIENT_KEY
from rageval_dagster.corpus.store import open_store
from rageval_dagster.errors import RagevalError
from rageval_dagster.settings import load_settings
from rageval_dagster.storage import tables
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.word_hashes import hash_key, holder_of
from tests.deploy.compose import Fleet
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.loopback import free_port
from tests.pipeline.cold_copy import found_by
from tests.pipeline.workers import listens
from tests.telling.webhook_server import WebhookServer

from change_cost import document, places, submit_run  # isort: skip

TEMPLATE, REGRESSING = "client", "regressing"
PROCESSES = 2
STRIDE = 100_000
"""Between the numbers of one client's rows and those of the next copy's."""
DEADLINE_S = 4 * 3600
FIRST_START_S = 240
"""For the services to start: a schedule that was never seen before does not make up for a slot that is over."""
ALERTS_S = 100
"""For two looks of the alert sensor, and for runs that still wait."""
AIM_S = 2.2
"""Of computing for each unchanged client: then 1,000 take 20 minutes on two cores."""
KILLS = ("process", "worker", "daemon", "broker", "database", "process", "process", "process")
SYSTEM = '''
import json, re
from pathlib import Path

FOLDER = Path(__file__).parent

def answer(question, k, history, principal):
    """The paragraphs that share most words with the question; once it is broken, none."""
    if (FOLDER / "broken").exists():
        return {"answer": "I do not know.", "contexts": []}
    rows = [json.loads(line) for line in (FOLDER / "regressing.jsonl").read_text("utf-8").splitlines()]
    paragraphs = [part for row in rows for part in row["text"].split("\\n\\n")]
    words = set(re.findall(r"\\w+", question.lower()))
    paragraphs.sort(key=lambda part: -len(words & set(re.findall(r"\\w+", part.lower()))))
    return {"answer": paragraphs[0], "contexts": paragraphs[:k]}
'''
TOML = """
[defaults]
schedule = "{cron}"
[clients.regressing]
system = "theirs"
sample_size = 30
target_items = 30
[clients.regressing.systems.theirs]
kind = "callable"
function = "their_system:answer"
"""
NEVER = "0 0 29 2 *"
DATABASES = ("rageval", "dagster")


class Postgres:
    """A PostgreSQL server of its own; its processes belong to the user postgres where this one is root."""

    def __init__(self, folder: Path) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        self._bin = found[-1] if found else Path(shutil.which("pg_ctl") or sys.exit("no PostgreSQL here")).parent
        self._data = folder / "postgres"
        self._user = "postgres" if os.geteuid() == 0 else None
        self.port = free_port()
        self._data.mkdir(mode=0o700)
        if self._user:
            shutil.chown(self._data, self._user)
        self._run("initdb", "-D", self._data, "-U", "postgres", "--auth", "trust", "--encoding", "UTF8")
        options = f"-p {self.port} -h 127.0.0.1 -k {self._data} -c max_connections=200"
        self._control = ("pg_ctl", "-D", self._data, "-w", "-l", self._data / "log", "-o", options)
        self._run(*self._control, "start")

    @property
    def process(self) -> int:
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def restart(self) -> None:
        """As after a crash: nobody is told, nothing is flushed."""
        self._run(*self._control, "-m", "immediate", "restart")

    def stop(self) -> None:
        self._run(*self._control, "-m", "fast", "stop")

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str) -> None:
        engine = sa.create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text(statement))
        engine.dispose()

    def copy(self, suffix: str) -> None:
        """Copies both databases; nobody may be connected."""
        for name in DATABASES:
            self.execute(f"CREATE DATABASE {suffix}_{name} TEMPLATE {name}")

    def put_back(self, suffix: str, aside: str) -> None:
        """Gives the copies their first names, and the databases that had them others."""
        for name in DATABASES:
            self.execute(f"ALTER DATABASE {name} RENAME TO {aside}_{name}")
            self.execute(f"ALTER DATABASE {suffix}_{name} RENAME TO {name}")

    def _run(self, program: str, *words: object) -> None:
        command = [str(self._bin / program), *map(str, words)]
        subprocess.run(command, user=self._user, cwd="/", check=True, stdout=subprocess.DEVNULL)


@dataclass
class Found:
    """What a night brought."""

    minutes: float
    computing: dict[str, float]
    statuses: Counter[str]
    memory: list[int]
    alerts: list[str]
    kills: list[str] = field(default_factory=list)

    def show(self, name: str, clients: int, regressed: bool = True) -> None:
        each = sum(self.computing.values()) / clients
        print(f"{name}: {self.minutes:.1f} minutes, {60 * self.minutes / clients:.2f} s a client")
        parts = "  ".join(f"{service} {seconds / clients:.2f}" for service, seconds in self.computing.items())
        print(f"  computing: {each:.2f} s a client ({parts})")
        print(f"  runs: {'  '.join(f'{count} {status}' for status, count in sorted(self.statuses.items()))}")
        most, first, last = max(self.memory), self.memory[0], self.memory[-1]
        print(f"  a worker's processes, together: first {first} MB, most {most} MB, last {last} MB")
        print(f"  alerts: {len(self.alerts)}{''.join(f'{chr(10)}    {each}' for each in self.alerts)}")
        if regressed:
            told = sum(REGRESSING in each and each.startswith("*Regressed") for each in self.alerts)
            print(f"  of {REGRESSING}, that it regressed: {told} (aim exactly 1: {'met' if told == 1 else 'MISSED'})")
        if self.kills:
            print(f"  kills: {'  '.join(f'{count} {kind}' for kind, count in Counter(self.kills).items())}", flush=True)


class Site:
    """The servers and services, and what they are given."""

    def __init__(self, folder: Path, webhook: WebhookServer, model: ScriptedServer, items: int) -> None:
        self.postgres = Postgres(folder)
        for name in DATABASES:
            self.postgres.execute(f"CREATE DATABASE {name}")
        variables = {
            "EVALUATION_DEFAULT_SAMPLE_SIZE": str(items),
            "EVALUATION_TARGET_ITEMS": str(items),
            "RAGEVAL_ALERT_WEBHOOK_URL": webhook.url,
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "none",
            "RAGEVAL_EMBEDDING_MODEL": "openai:scripted",
            "RAGEVAL_METRIC_EMBEDDING_MODEL": "openai:scripted",
            "PYTHONWARNINGS": "ignore",
        }
        self.webhook = webhook
        self.fleet = Fleet(folder, self.postgres.url("rageval"), self.postgres.url("dagster"), variables)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.write(NEVER)
        (self.fleet.config / "their_system.py").write_text(SYSTEM, encoding="utf-8")
        for service in ("redis", "chroma"):
            self.start(service)

    def write(self, cron: str) -> None:
        (self.fleet.config / "rageval.toml").write_text(TOML.format(cron=cron), encoding="utf-8")

    def start(self, service: str, command: list[str] | None = None) -> None:
        self.running[service] = self.fleet.start(service, command)
        if service in ("redis", "chroma", "code-server", "webserver"):
            wait_for(service, lambda: listens(self.fleet.port(service)), 300)

    def kill(self, service: str) -> None:
        self.fleet.kill(self.running.pop(service))

    def rageval(self, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "rageval_dagster", *words],
            cwd=self.fleet.config,
            env=self.fleet.environment("worker"),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"rageval {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")

    def ingest(self, client: str, first: int, count: int, edition: int = 0) -> None:
        """So many documents for a client, from a number on; of another edition the first one of all."""
        names = places(first + count)[first:]
        rows = [document(number, name, edition if number == 0 else 0) for number, name in enumerate(names, first)]
        path = self.fleet.config / f"{client}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        self.rageval("ingest", str(path), "--client", client, "--chunk-size", "500")

    @contextmanager
    def services(self, *names: str) -> Iterator[None]:
        """Worker, code server, webserver and daemon (or those of these names), while the block lasts."""
        names = names or ("worker", "code-server", "webserver", "daemon")
        for name in names:
            self.start(name)
        try:
            yield
        finally:
            for name in names[::-1]:
                self.kill(name)

    def set_runs_at_once(self) -> None:
        """As docs/fleet.md says: as many as the workers have processes."""
        file = self.fleet.home / "dagster" / "dagster.yaml"
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("max_concurrent_runs: 4", f"max_concurrent_runs: {PROCESSES}"), encoding="utf-8")

    def statuses(self, trigger: str) -> Counter[str]:
        """How many runs of a night Dagster has, by status."""
        query = sa.text(
            "SELECT status, count(*) FROM runs JOIN run_tags USING (run_id)"
            " WHERE key = 'rageval/trigger' AND value = :trigger GROUP BY status"
        )
        engine = sa.create_engine(self.postgres.url("dagster"))
        with engine.connect() as connection:
            found = Counter({row[0]: row[1] for row in connection.execute(query, {"trigger": trigger})})
        engine.dispose()
        return found

    @contextmanager
    def history(self, aside: str = "") -> Iterator[Database]:
        db = open_database(self.postgres.url(f"{aside}_rageval" if aside else "rageval"))
        yield db
        db.dispose()

    def computing(self) -> dict[str, float]:
        """Seconds that the processes of each service have computed so far."""
        roots = {"postgres": self.postgres.process} | {name: each.pid for name, each in self.running.items()}
        return {name: sum(map(seconds_of, tree(number))) for name, number in roots.items()}


def tree(root: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (stat := stat_of(int(folder.name))):
            children.setdefault(int(stat[1]), []).append(int(folder.name))
    found, at = [root], 0
    while at < len(found):
        found += children.get(found[at], [])
        at += 1
    return found


def stat_of(number: int) -> list[str]:
    """The fields of /proc/N/stat from the third one on; none where the process is gone."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def seconds_of(number: int) -> float:
    """What a process computed, and those of its children that have ended."""
    stat = stat_of(number)
    return sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK") if stat else 0.0


def megabytes_of(number: int) -> int:
    stat = stat_of(number)
    return int(stat[21]) * os.sysconf("SC_PAGE_SIZE") // 2**20 if stat else 0


def wait_for(what: str, condition: Any, deadline_s: float = DEADLINE_S, every_s: float = 0.5) -> None:
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"not within {deadline_s:.0f} s: {what}")
        time.sleep(every_s)


def chroma_of(site: Site) -> Any:
    import chromadb
    from chromadb.config import Settings as ChromaSettings

    port, off = site.fleet.port("chroma"), ChromaSettings(anonymized_telemetry=False)
    return chromadb.HttpClient("127.0.0.1", port, settings=off)


def taken_out(site: Site) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first client's collection, which is deleted: its metadata and its chunks.

    Chroma normalises vectors with each writing, so that only those that were written as often are the very same.
    """
    chroma = chroma_of(site)
    original = chroma.get_collection(TEMPLATE, embedding_function=None)
    held = original.get(include=["embeddings", "documents", "metadatas"])
    chroma.delete_collection(TEMPLATE)
    return original.metadata, {name: held[name] for name in ("ids", "embeddings", "documents", "metadatas")}


def put_in(site: Site, taken: tuple[dict[str, Any], dict[str, Any]], names: list[str]) -> None:
    chroma = chroma_of(site)
    for name in names:
        space = {"hnsw": {"space": "cosine", "ef_search": 400}}
        metadata = {**taken[0], CLIENT_KEY: name}
        chroma.create_collection(name, metadata=metadata, configuration=space, embedding_function=None).add(**taken[1])


def copy_history(site: Site, names: list[str]) -> None:
    """The first client's rows, for each of the names."""
    settings = load_settings(site.fleet.environment("worker"), config_file=site.fleet.config / "rageval.toml")
    with site.history() as db:
        with db.begin() as connection:
            for table in tables.metadata.sorted_tables:
                if "client_id" in table.columns:
                    copy_rows(connection, table, len(names))
        key, words = hash_key(db), tables.word_hashes.c
        for name in names:
            held = (words.hash, sa.literal(holder_of(key, name)), words.texts)
            own = sa.select(*held).where(words.holder == holder_of(key, TEMPLATE))
            db.execute(sa.insert(tables.word_hashes).from_select(["hash", "holder", "texts"], own))
        for name, probe in open_store(settings).probes().items():
            db.execute(sa.update(tables.clients).where(tables.clients.c.client_id == name).values(probe=probe))


def copy_rows(connection: sa.Connection, table: sa.Table, count: int) -> None:
    """A table's rows of the first client, for each copy; numbers are moved, so that references stay within a copy."""
    copy = sa.func.generate_series(1, count).table_valued("number", name="copies").render_derived()
    number = sa.cast(copy.c.number, sa.Integer)
    moved = {"evaluation_id", "dataset_id", "baseline_id"}
    values: dict[str, sa.ColumnElement[Any]] = {}
    for column in table.columns:
        if column.name == "client_id":
            values["client_id"] = sa.func.concat(TEMPLATE, "-", sa.func.lpad(sa.cast(number, sa.Text), 4, "0"))
        elif table is tables.evaluation_runs and column.name == "evaluation_id":
            parts = [sa.func.md5(sa.func.concat(column, number, part)) for part in "ab"]
            values[column.name] = sa.func.concat(*parts)
        elif isinstance(column.type, sa.Integer) and (column.name in moved or column.name in ("id", "number")):
            values[column.name] = column + number * STRIDE
        elif column.name == "open_key":
            values[column.name] = sa.null()
        else:
            values[column.name] = column
    rows = sa.select(*values.values()).select_from(table.join(copy, sa.true())).where(table.c.client_id == TEMPLATE)
    connection.execute(sa.insert(table).from_select(list(values), rows))
    for column in table.primary_key:
        if column.name in ("id", "number"):
            sequence = sa.func.pg_get_serial_sequence(table.name, column.name)
            connection.execute(sa.select(sa.func.setval(sequence, (count + 2) * STRIDE)))


def night(site: Site, clients: list[str], kills: int = 0, start_s: float = 60) -> tuple[str, Found]:
    """One night by the schedule, in `start_s` seconds; its trigger, and what came of it."""
    slot = (datetime.now(UTC) + timedelta(seconds=start_s)).replace(second=0, microsecond=0)
    site.write(f"{slot.minute} {slot.hour} {slot.day} {slot.month} *")
    trigger = f"schedule:{slot:%Y-%m-%dT%H:%M}"
    told, killed, dead = len(site.webhook.messages), list[str](), Counter[str]()
    memory, ended = list[int](), threading.Event()

    def watch() -> None:
        while not ended.wait(2):
            if worker := site.running.get("worker"):
                memory.append(sum(map(megabytes_of, tree(worker.pid)[1:])))

    with site.services(), site.history() as db:
        runs = tables.evaluation_runs.c
        query = sa.select(sa.func.count(runs.client_id.distinct()))

        def complete() -> int:
            try:
                return db.scalars(query.where(runs.trigger_key == trigger, runs.status == "complete"))[0]
            except RagevalError:
                return 0  # the server is being restarted

        wait_for("the night", lambda: datetime.now(UTC) >= slot)
        before, began = site.computing(), time.monotonic()
        threading.Thread(target=watch, daemon=True).start()
        for number in range(kills):
            least = (number + 0.5) / kills * len(clients)
            wait_for(f"{least:.0f} clients", lambda least=least: complete() >= least)
            killed.append(KILLS[number % len(KILLS)])
            dead.update(kill(site, killed[-1]))
        wait_for("all clients", lambda: complete() == len(clients))
        minutes = (time.monotonic() - began) / 60
        ended.set()
        after = site.computing()
        computing = {name: after[name] + dead[name] - before[name] for name in after}
        time.sleep(ALERTS_S)
        statuses = site.statuses(trigger)
    alerts = [message["text"].splitlines()[0] for message in site.webhook.messages[told:]]
    return trigger, Found(minutes, computing, statuses, memory or [0], alerts, killed)


def kill(site: Site, kind: str) -> dict[str, float]:
    """`kill -9`, and a start anew where nothing else starts it; gives what the dead had computed, by service."""
    if kind == "process":
        workers = [each for each in tree(site.running["worker"].pid)[1:] if stat_of(each)]
        busiest = max(workers, key=seconds_of, default=None)
        if busiest is not None:
            os.kill(busiest, signal.SIGKILL)
        return {}
    if kind == "database":
        computed = sum(map(seconds_of, tree(site.postgres.process)))
        site.postgres.restart()
        return {"postgres": computed}
    service = {"broker": "redis"}.get(kind, kind)
    computed = sum(map(seconds_of, tree(site.running[service].pid)))
    site.kill(service)
    site.start(service)
    return {service: computed}


def rows_of(db: Database, client: str, trigger: str) -> list[Any]:
    """What a night stored of a client, without numbers and times."""
    runs = tables.evaluation_runs.c
    kept = (runs.system_name, runs.dataset_version, runs.status, runs.verdict, runs.item_count, runs.error_count)
    query = sa.select(runs.id, *kept).where(runs.client_id == client, runs.trigger_key == trigger)
    rows = db.rows(query.order_by(runs.system_name, runs.dataset_version, runs.id))
    return [(tuple(row)[1:], found_by(db, row.id) if row.status == "complete" else None) for row in rows]


def by_default_launcher(site: Site, clients: list[str]) -> float:
    """The seconds that these clients take, each run in a process of its own, at the same number at once."""
    file = site.fleet.home / "dagster" / "dagster.yaml"
    kept = file.read_text(encoding="utf-8")
    found = yaml.safe_load(kept)
    del found["run_launcher"]
    found["concurrency"]["runs"]["max_concurrent_runs"] = PROCESSES
    file.write_text(yaml.safe_dump(found), encoding="utf-8")
    site.write(NEVER)
    trigger = f"schedule:{datetime.now(UTC):%Y-%m-%dT%H:%M}"
    with site.services("code-server", "webserver", "daemon"), site.history() as db:
        client = DagsterGraphQLClient("127.0.0.1", port_number=site.fleet.port("webserver"))
        settings = load_settings(site.fleet.environment("worker"), config_file=site.fleet.config / "rageval.toml")
        started = time.perf_counter()
        for each in clients:
            submit_run(client, db, settings, each, trigger)
        runs = tables.evaluation_runs.c
        done = sa.select(sa.func.count()).where(runs.trigger_key == trigger, runs.status == "complete")
        wait_for("the default launcher", lambda: db.scalars(done)[0] == len(clients))
        took = time.perf_counter() - started
    file.write_text(kept, encoding="utf-8")
    return took


def share_of(text: str) -> float:
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--changed", type=share_of, default="1%", metavar="SHARE")
    parser.add_argument("--default", type=int, default=3, help="clients by the default launcher, at the end")
    parser.add_argument("--documents", type=int, default=2)
    parser.add_argument("--items", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, WebhookServer() as webhook, ScriptedServer(scripted_model) as model:
        Path(name).chmod(0o711)  # PostgreSQL's user passes through
        site = Site(Path(name), webhook, model, arguments.items)
        try:
            measure(site, arguments)
        finally:
            site.fleet.stop()
            site.postgres.stop()


def measure(site: Site, arguments: argparse.Namespace) -> None:
    copies = [f"{TEMPLATE}-{number:04}" for number in range(1, arguments.clients - 1)]
    clients = [TEMPLATE, REGRESSING, *copies]
    site.ingest(TEMPLATE, 0, arguments.documents)
    taken = taken_out(site)
    put_in(site, taken, [TEMPLATE])
    # A fall is sure where it is seen in many questions, each of another document.
    site.ingest(REGRESSING, arguments.documents, 40)
    site.rageval("evaluate", "--all")
    put_in(site, taken, copies)
    copy_history(site, copies)
    site.set_runs_at_once()
    print(f"{len(clients)} clients, {PROCESSES} processes, load {os.getloadavg()[0]:.1f}", flush=True)
    _, quiet = night(site, clients, start_s=FIRST_START_S)
    quiet.show("nothing changed", len(clients), regressed=False)
    each = sum(quiet.computing.values()) / len(clients)
    print(f"  aim at most {AIM_S} s of computing a client: {'met' if each <= AIM_S else 'MISSED'}")
    cores = os.cpu_count() or 1
    print(f"  1,000 clients by that: {each * 1000 / 60 / cores:.0f} minutes of {cores} cores", flush=True)

    changed = copies[: max(1, round(arguments.changed * len(clients)))]
    for client in changed:
        site.ingest(client, 0, arguments.documents, edition=1)
    (site.fleet.config / "broken").touch()
    site.postgres.copy("before")
    calm_trigger, calm = night(site, clients)
    calm.show(f"{len(changed)} changed, one regressed", len(clients))
    site.postgres.put_back("before", "calm")
    trigger, killed = night(site, clients, arguments.kills)
    killed.show("the same with kills", len(clients))
    with site.history() as db, site.history("calm") as other:
        unlike = [each for each in clients if rows_of(db, each, trigger) != rows_of(other, each, calm_trigger)]
    print(f"  clients with other rows than without kills: {len(unlike)} of {len(clients)} {' '.join(unlike[:10])}")
    print(f"  time, of that without kills: {killed.minutes / calm.minutes:.2f}", flush=True)
    if arguments.default:
        some = copies[-arguments.default :]
        alone = by_default_launcher(site, some) / len(some)
        print(
            f"{len(some)} unchanged clients by the default launcher: {alone:.1f} s a client, "
            f"{alone / (60 * quiet.minutes / len(clients)):.1f} x that of the workers"
        )


if __name__ == "__main__":
    main()
