"""What a night costs on which nothing changed: one client by the command line and queued, and many queued at once.

Usage: python benchmarks/quiet_night.py [--clients 12] [--documents 20] [--items 50] [--models]

Every client has its own documents, of ten chunks each, and is evaluated once before. Then the webserver, daemon and
code server run as `dagster dev` starts them, with the dagster.yaml that rageval writes, and get the runs that the
nightly schedule asks for. A run is a process of its own: what it is held against is a process that imports Dagster and
the definitions, and ends. One client is also evaluated in a process that did all that before, as in a worker that
stays, with the events and checks that Dagster keeps of a night, and where the time goes. With --models a scripted model
writes, answers and judges; on such a night none is asked.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from rageval_dagster.settings import load_settings
from rageval_dagster.storage.tables import evaluation_runs
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.loopback import free_port
from tests.pipeline.small_project import Project

from change_cost import Bench, document, places, submit_run  # isort: skip

ROOT = Path(__file__).parents[1]
DEADLINE_S = 900
IMPORTS = "from rageval_dagster.definitions import defs; defs.resolve_job_def('rageval_evaluation')"
WARM = """
import collections, json, sys, time
import dagster as dg
from rageval_dagster.automation.launch import launch
from rageval_dagster.definitions import defs
from rageval_dagster.settings import load_settings

for night in range(4):
    began, used = time.perf_counter(), time.process_time()
    launched = launch(defs, load_settings(), sys.argv[1], f"schedule:2026-02-{night + 1:02}T02:00", {}, lambda _: None)
    took = {"seconds": time.perf_counter() - began, "CPU seconds": time.process_time() - used}
    assert launched.failure is None, launched.failure
with dg.DagsterInstance.get() as instance:
    logs = instance.all_logs(launched.run_id)
kinds = collections.Counter(entry.dagster_event.event_type_value for entry in logs if entry.dagster_event)
times = collections.defaultdict(list)
for entry in logs:
    if entry.step_key:
        times[entry.step_key].append(entry.timestamp)
steps = {step: max(moments) - min(moments) for step, moments in times.items()}
print(json.dumps({**took, "events": len(logs), "checks": kinds["ASSET_CHECK_EVALUATION"], "steps": steps}))
"""
CLIENTS = 12
MOST = 4.0
"""Times the imports alone: what a client's night may take."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--items", type=int, default=50)
    parser.add_argument("--models", action="store_true")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        ScriptedServer(scripted_model) if arguments.models else nullcontext() as server,
    ):
        variables = {
            "RAGEVAL_HOME": f"{folder}/home",
            "DAGSTER_HOME": f"{folder}/home/dagster",
            "EVALUATION_DEFAULT_SAMPLE_SIZE": str(arguments.items),
            "EVALUATION_TARGET_ITEMS": str(arguments.items),
            "EVALUATION_ENABLED": "false",  # nothing but what is queued here
            "PYTHONWARNINGS": "ignore",
        }
        if server is not None:
            roles = {f"RAGEVAL_{role}_MODEL": "scripted" for role in ("GENERATOR", "ANSWER", "JUDGE")}
            variables |= {**roles, "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "none"}
        bench = Bench(Path(folder), variables)
        clients = [f"client-{number:02}" for number in range(arguments.clients)]
        prepare(bench, clients, arguments.documents)
        asked = len(server.requests) if server is not None else 0
        measure(bench, clients)
        if server is not None:
            print(f"  model calls of all these nights: {len(server.requests) - asked}")


def prepare(bench: Bench, clients: list[str], count: int) -> None:
    """Every client's documents, and its first evaluation."""
    names = places(count * len(clients))
    (bench.home / "dagster").mkdir(parents=True)
    project = Project(bench.folder, bench.variables)
    for number, client in enumerate(clients):
        own = names[number * count : (number + 1) * count]
        project.ingest(client, [document(place, name) for place, name in enumerate(own)], chunk_size=500)
    bench.command("evaluate", "--all")


def measure(bench: Bench, clients: list[str]) -> None:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", IMPORTS], env=bench.environment, cwd=bench.folder, check=True)
    imports = time.perf_counter() - started
    alone = bench.command("evaluate", "--client", clients[0])
    done = subprocess.run(
        [sys.executable, "-c", WARM, clients[0]],
        env=bench.environment,
        cwd=bench.folder,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    warm = json.loads(done.stdout.splitlines()[-1])
    with services(bench) as submit:
        one = queued(bench, submit, clients[:1], "schedule:2026-01-02T02:00")
        many = queued(bench, submit, clients, "schedule:2026-01-03T02:00")
    print(f"imports alone                          {imports:7.1f} s")
    computing = f"{warm['CPU seconds']:.1f} s of them computing"
    print(f"one client, in a warm process          {warm['seconds']:7.1f} s   {computing}")
    print(f"  {warm['events']} events, {warm['checks']} checks")
    for step, seconds in warm["steps"].items():
        print(f"  {step:36} {seconds:7.2f} s")
    print(f"one client, by the command line        {alone:7.1f} s   {alone / imports:5.2f} x the imports")
    print(f"one client, queued                     {one:7.1f} s   {one / imports:5.2f} x the imports")
    each = many / len(clients)
    print(f"{len(clients)} clients, queued at once             {many:7.1f} s   {each:5.1f} s a client")
    print(
        f"  a client of many, of the imports: {each / imports:.2f} (aim at most {MOST:g}: "
        f"{'met' if each <= MOST * imports else 'MISSED'})"
    )


def queued(bench: Bench, submit: Callable[[str, str], str], clients: list[str], trigger: str) -> float:
    """The seconds from the first request until every client's run has ended, each of them well."""
    started = time.perf_counter()
    for client in clients:
        submit(client, trigger)

    def complete() -> int:
        with bench.history() as db, db.connect() as connection:
            done = (evaluation_runs.c.trigger_key == trigger, evaluation_runs.c.status == "complete")
            return connection.execute(sa.select(sa.func.count()).select_from(evaluation_runs).where(*done)).scalar_one()

    wait_for(lambda: complete() == len(clients))
    return time.perf_counter() - started


@contextmanager
def services(bench: Bench) -> Iterator[Callable[[str, str], str]]:
    """Webserver, daemon and code server; gives what submits a client's run for a trigger."""
    from dagster_graphql import DagsterGraphQLClient

    port, settings = free_port(), load_settings(bench.environment)
    dagster = str(Path(sys.executable).parent / "dagster")
    environment = {**bench.environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with (bench.folder / "dev.log").open("w") as log:
        process = subprocess.Popen(
            [dagster, "dev", "-w", str(ROOT / "workspace.yaml"), "-p", str(port)],
            env=environment,
            cwd=bench.folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        client: list[Any] = []

        def answers() -> bool:
            try:
                client[:] = [DagsterGraphQLClient("127.0.0.1", port_number=port)]
                return bool(client[0]._execute("{ workspaceOrError { __typename } }"))
            except Exception:  # noqa: BLE001  (whatever it raises while nobody listens)
                return False

        wait_for(answers)

        def submit(client_id: str, trigger: str) -> str:
            with bench.history() as db:
                return submit_run(client[0], db, settings, client_id, trigger)

        yield submit
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"not within {DEADLINE_S} s")
        time.sleep(0.2)


if __name__ == "__main__":
    main()
