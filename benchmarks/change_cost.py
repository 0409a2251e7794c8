"""What a change of one document in a hundred costs, as a share of evaluating everything.

Usage: python benchmarks/change_cost.py [--documents 100] [--items 300] [--wait 0.05]

A scripted model writes the questions, answers them and judges the answers, over HTTP on loopback. The documents, of
ten chunks each, are evaluated; then one of them is written anew from end to end, and they are evaluated again. What
that found is compared, row by row, with an evaluation of the same dataset in a copy of the history that has nothing to
reuse.

Each evaluation is `rageval evaluate` in a process of its own; the times include its start.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from dagster_graphql import DagsterGraphQLClient

from rageval_dagster.automation.jobs import EVALUATION_JOB
from rageval_dagster.automation.launch import CODE_LOCATION
from rageval_dagster.automation.requests import run_request
from rageval_dagster.automation.selection import without_benchmark
from rageval_dagster.settings import Settings
from rageval_dagster.storage.caches import model_usage
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.evaluations import Evaluation, list_evaluations
from rageval_dagster.storage.tables import corpus_chunks, dataset_items, metadata
from rageval_dagster.storage.types import utc_now
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.cold_copy import forget_all_work, found_by

CLIENT = "acme"
CHUNKS = 10
"""Of each document."""
MOST_CALLS = 0.03
"""Of the calls of a full run, beside those that write, answer and judge the questions that were replaced."""
SEED = 11
ROLES = ("generator", "answer", "judge")
THINGS = ("mill", "abbey", "bridge", "theatre", "harbour", "library", "market", "fortress", "observatory", "garden")
WORDS = (
    "granite oak copper slate marble amber ivory cedar bronze velvet crimson emerald silver walnut limestone basalt "
    "northern southern eastern western winding narrow hidden ancient restored painted vaulted domed terraced walled"
).split()


def places(count: int) -> list[str]:
    """Made-up names of places, no two alike."""
    draw = random.Random(SEED)
    starts = "Bel Cor Dun Eld Fen Gal Har Ist Jor Kel Lan Mor Nor Ost Pen Quar Ros Sel Tar Ulv Ver Wen Yar Zel".split()
    middles = "a an ar en er i in o on or u un".split()
    ends = "by dale ford gate ham holm keep lund mere ness port shaw stead ton vik wick".split()
    found: dict[str, None] = {}
    while len(found) < count:
        found[draw.choice(starts) + draw.choice(middles) + draw.choice(ends)] = None
    return list(found)


def document(number: int, place: str, edition: int = 0) -> dict[str, str]:
    """A document of ten paragraphs about one place; another edition says something else in each of them."""
    draw = random.Random(f"{SEED} {number} {edition}")
    paragraphs = []
    for thing in THINGS:
        words = [draw.choice(WORDS) for _ in range(8)]
        paragraphs.append(
            f"The {thing} of {place} was founded in {draw.randrange(1200, 1990)} by a guild of {words[0]} workers. "
            f"Its {words[1]} hall and its {words[2]} tower stand beside a {words[3]} square with {words[4]} columns, "
            f"and the {thing} of {place} is reached by a {words[5]} lane. "
            f"A ticket for the {words[6]} rooms of the {thing} of {place} costs {draw.randrange(3, 90)} crowns, and "
            f"the keeper lends visitors a {words[7]} lantern."
        )
    return {"id": f"place-{place.lower()}", "title": place, "text": "\n\n".join(paragraphs)}


@dataclass(frozen=True)
class Run:
    """One evaluation: its wall time in seconds, the calls that were sent by role, and what was stored of it."""

    seconds: float
    calls: dict[str, int]
    evaluation: Evaluation
    rows_added: dict[str, int]

    @property
    def all_calls(self) -> int:
        return sum(self.calls.values())


@dataclass
class Bench:
    """A history and a store of its own, and the environment in which `rageval` finds them."""

    folder: Path
    variables: dict[str, str]

    @property
    def home(self) -> Path:
        return Path(self.variables["RAGEVAL_HOME"])

    @contextmanager
    def history(self) -> Iterator[Database]:
        db = open_database(f"sqlite:///{self.home / 'rageval.sqlite3'}")
        yield db
        db.dispose()

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAGEVAL_", "EVALUATION_"))}
        return {**kept, **self.variables}

    def command(self, *arguments: str) -> float:
        """The seconds that a command of `rageval` took."""
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "rageval_dagster", *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"rageval {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return time.perf_counter() - started

    def ingest(self, documents: Sequence[dict[str, str]]) -> None:
        path = self.folder / "documents.jsonl"
        path.write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
        self.command("ingest", str(path), "--client", CLIENT, "--chunk-size", "500", "--overlap", "0")

    def evaluate(self, *arguments: str) -> Run:
        started, before = utc_now(), self.counts()
        seconds = self.command("evaluate", "--client", CLIENT, *arguments)
        with self.history() as db:
            calls = {role: model_usage(db, CLIENT, role=role, since=started).sent for role in ROLES}
            [evaluation] = list_evaluations(db, CLIENT, limit=1)
        added = {name: count - before.get(name, 0) for name, count in self.counts().items()}
        return Run(seconds, calls, evaluation, {name: count for name, count in added.items() if count})

    def counts(self) -> dict[str, int]:
        """{table: rows}."""
        with self.history() as db, db.connect() as connection:
            return {
                table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
                for table in metadata.sorted_tables
            }

    def copy(self, name: str) -> "Bench":
        home = self.folder / name
        shutil.copytree(self.home, home)
        return Bench(self.folder, {**self.variables, "RAGEVAL_HOME": str(home)})


def submit_run(dagster: DagsterGraphQLClient, db: Database, settings: Settings, client_id: str, trigger: str) -> str:
    """Asks the webserver for a client's run as the nightly schedule asks for it; gives Dagster's run id."""
    request = run_request(client_id, trigger, trigger, client_id in without_benchmark(db, settings, [client_id]))
    return dagster.submit_job_execution(
        EVALUATION_JOB,
        repository_location_name=CODE_LOCATION,
        repository_name="__repository__",
        run_config=request.run_config,
        tags=dict(request.tags),
        asset_selection=request.asset_selection,
    )


def items_of(db: Database, evaluation: Evaluation) -> set[str]:
    with db.connect() as connection:
        query = sa.select(dataset_items.c.item_id).where(dataset_items.c.dataset_id == evaluation.dataset_id)
        return set(connection.execute(query).scalars())


def show(name: str, run: Run, full: Run) -> None:
    calls = "  ".join(f"{role} {count:6,}" for role, count in run.calls.items())
    print(f"{name:26} {run.seconds:7.1f} s {run.seconds / full.seconds:6.1%}   calls: {calls}", flush=True)


def judged(name: str, value: float, most: float, form: str = ".2%") -> str:
    return f"  {name}: {value:{form}} (aim at most {most:{form}}: {'met' if value <= most else 'MISSED'})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--wait", type=float, default=0.05, help="seconds that the model takes to reply")
    parser.add_argument("--keep", metavar="FOLDER", help="an empty folder in which everything is left behind")
    arguments = parser.parse_args()

    def reply(body: dict[str, Any]) -> str:
        time.sleep(arguments.wait)
        return scripted_model(body)

    with ScriptedServer(reply) as server, tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.keep or temporary)
        variables = {
            **{f"RAGEVAL_{role.upper()}_MODEL": f"scripted-{role}" for role in ROLES},
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "none",
            "RAGEVAL_HOME": str(folder / "home"),
            "EVALUATION_DEFAULT_SAMPLE_SIZE": str(arguments.items),
            "EVALUATION_TARGET_ITEMS": str(arguments.items),
        }
        compare(Bench(folder, variables), arguments.documents)


def compare(bench: Bench, count: int) -> None:
    names = places(count)
    corpus = [document(number, place) for number, place in enumerate(names)]
    bench.ingest(corpus)
    full = bench.evaluate()
    with bench.history() as db, db.connect() as connection:
        chunks = connection.execute(sa.select(sa.func.count()).select_from(corpus_chunks)).scalar_one()
    print(f"{count} documents, {chunks} chunks, {full.evaluation.item_count} questions")
    show("everything", full, full)
    quiet = bench.evaluate()
    show("nothing changed", quiet, full)
    corpus[count // 2] = document(count // 2, names[count // 2], edition=1)
    bench.ingest(corpus)
    changed = bench.evaluate()
    show("one document rewritten", changed, full)
    cold_bench = bench.copy("cold")
    with cold_bench.history() as db:
        forget_all_work(db)
    cold = cold_bench.evaluate("--dataset", str(changed.evaluation.dataset_id))
    show("the same, nothing reused", cold, full)
    with bench.history() as db, cold_bench.history() as other:
        before, after = items_of(db, full.evaluation), items_of(db, changed.evaluation)
        new = len(after - before)
        found, anew = found_by(db, changed.evaluation.id), found_by(other, cold.evaluation.id)
    unlike = [
        f"{kind} {key}"
        for kind in found
        for key in sorted({*found[kind], *anew[kind]}, key=str)
        if found[kind].get(key) != anew[kind].get(key)
    ]
    print(f"questions replaced: {new} of {len(after)}")
    # A new question is drafted, criticised, answered and judged as those of the full run were, on the average.
    for_new = changed.calls["generator"] + new * (full.calls["answer"] + full.calls["judge"]) / len(before)
    others = max(changed.all_calls - for_new, 0)
    print(
        f"calls: {full.all_calls:,} for everything, {changed.all_calls:,} after the change, of which about "
        f"{for_new:,.0f} for replaced questions"
    )
    print(judged("calls beside those of replaced questions, of the full run's", others / full.all_calls, MOST_CALLS))
    print(f"  wall time, of the full run's: {changed.seconds / full.seconds:.2%}")
    print(f"rows added by the change: {changed.rows_added}")
    print(f"rows added by the night without one: {quiet.rows_added}")
    print(
        judged(
            f"rows unlike those of an evaluation without anything to reuse, of {sum(map(len, found.values())):,}",
            len(unlike),
            0,
            ",.0f",
        )
    )
    for line in unlike[:20]:
        print(f"    {line}")


if __name__ == "__main__":
    main()
