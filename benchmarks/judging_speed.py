"""How fast items are judged: ours against ragas 0.4.3, and against a bare loop over the same client.

Usage: python benchmarks/judging_speed.py [--items 50] [--peer-python PATH]

All of them ask the same scripted endpoint on loopback, a process of its own that waits 0.2 s before each reply. An item
has five contexts and gets faithfulness, answer relevancy, context precision (with the reference) and context recall.
What the bare loop does with as many calls is the least that the client's own work allows.

ragas never stands in the project's own environment. Make it one, and name its python with --peer-python:

    python3 -m venv ragas-venv
    ragas-venv/bin/pip install ragas==0.4.3 'langchain-community<0.4' 'langchain<1' 'langchain-core<1' \\
        'langchain-openai<1'
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI, DefaultAioHttpClient, DefaultAsyncHttpxClient

from rageval_dagster.embedding.cache import CachedEmbedder
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.llm.client import ChatClient
from rageval_dagster.llm.dialects import dialect_of
from rageval_dagster.metrics import claims
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.metrics.judge_model import judge_scores
from rageval_dagster.metrics.registry import options_of
from rageval_dagster.records import Answer, Hit, Item, Outcome, Result
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.database import open_database

HERE = Path(__file__).parent
WAIT = 0.2
CONTEXTS = 5
CONTEXT_SENTENCES = 5
LEVELS = (16, 64)
"""How many requests stand open at once."""
CALLS_AN_ITEM = 5
REPEATS = 3
SLOWEST = 1.25
"""Times what the waits alone take when every place is always taken."""
FASTER = 3.0
BARE_RATIO = 1.2
SEED = 7

Given = dict[str, Any]
TRANSPORTS = {"httpx2": DefaultAsyncHttpxClient, "aiohttp": DefaultAioHttpClient}
OUR_TRANSPORT = "httpx2"


@dataclass(frozen=True)
class Measured:
    seconds: float
    calls: int
    most_at_once: int
    """The most requests that the endpoint had open at once."""

    def least(self, concurrency: int) -> float:
        """The seconds that the waits alone take when every place is always taken."""
        return self.calls * WAIT / concurrency

    def line(self, name: str, concurrency: int) -> str:
        least = self.least(concurrency)
        return (
            f"{name:14} {concurrency:7} {self.calls:6} {self.seconds:8.2f} {least:8.2f} {self.seconds / least:7.2f} "
            f"{self.most_at_once:8}"
        )


@contextmanager
def endpoint(wait: float = WAIT, **faults: float) -> Iterator[str]:
    """The base URL of the scripted endpoint while the block lasts; for its faults see there."""
    command = [sys.executable, str(HERE / "judging/endpoint.py"), str(wait), json.dumps(faults)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def counts(base_url: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{base_url}/counts") as response:
        return json.load(response)


def some_items(count: int) -> list[Given]:
    """Contexts of made-up sentences; two of an answer's three are in them, and one of a reference's two."""
    draw = random.Random(SEED)
    words = "river castle engine ledger harbour winter copper council signal garden letter market tower bridge".split()

    def sentence() -> str:
        return f"The {draw.choice(words)} of {draw.randrange(10**6)} has {' '.join(draw.sample(words, 10))}."

    items: list[Given] = []
    for number in range(count):
        contexts = [[sentence() for _ in range(CONTEXT_SENTENCES)] for _ in range(CONTEXTS)]
        items.append(
            {
                "question": f"What is known of the {draw.choice(words)} of {number}?",
                "contexts": [" ".join(context) for context in contexts],
                "answer": f"{contexts[0][0]} {contexts[2][1]} {sentence()}",
                "reference": f"{contexts[0][0]} {sentence()}",
            }
        )
    return items


OURS = {f"claims.{name}" for name in ("faithfulness", "answer_relevancy", "context_precision", "context_recall")}


def run_ours(base_url: str, items: list[Given], concurrency: int) -> float:
    """Judges the items with the project's own metrics; gives the seconds."""
    scores, seconds = judged(base_url, items, concurrency)
    unscored = [outcome.reason for column in scores.values() for outcome in column if outcome.status != "scored"]
    assert not unscored, unscored[:3]
    print("  our means: " + ", ".join(f"{name} {mean(column):.2f}" for name, column in scores.items()), flush=True)
    return seconds


def judged(
    base_url: str, items: list[Given], concurrency: int, **variables: str
) -> tuple[Mapping[str, list[Outcome]], float]:
    """The outcomes of the four metrics, and the seconds without imports and the opening of the cache."""
    results = [result_of(item) for item in items]
    with judging(base_url, concurrency, **variables) as (metrics, tools):
        started = time.perf_counter()
        scores = judge_scores(metrics, results, tools)
        seconds = time.perf_counter() - started
    return scores, seconds


@contextmanager
def judging(base_url: str, concurrency: int, **variables: str) -> Iterator[tuple[list[Metric], Tools]]:
    """The four metrics and what they ask, with a cache in a database as in a run."""
    import openai  # noqa: F401  (what is loaded once is loaded before the clock runs)

    given = {
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": "none",
        "RAGEVAL_JUDGE_MODEL": "scripted",
        "RAGEVAL_METRIC_EMBEDDING_MODEL": "openai:scripted",
        "RAGEVAL_LLM_CONCURRENCY": str(concurrency),
    }
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(given | variables, env_file=Path(folder) / ".env")
        db = open_database(f"sqlite:///{folder}/history.sqlite3")
        embedder = CachedEmbedder(load_embedder(settings.metric_embedding_model, settings), db, "bench")
        embedder.encode(["warm up"])
        judge = ChatClient(settings, "judge", db, "bench")
        dialect_of(judge.endpoint).speaks = True  # as after a first call, which would count
        metrics = [metric for metric in claims.metrics(options_of(settings, CONTEXTS, embedder)) if metric.id in OURS]
        yield metrics, Tools(embedder, judge)
        db.dispose()


def mean(outcomes: Sequence[Outcome]) -> float:
    return sum(outcome.value or 0.0 for outcome in outcomes) / len(outcomes)


def result_of(item: Given) -> Result:
    hits = tuple(Hit(f"c{rank}", f"d{rank}", rank, 1.0, text) for rank, text in enumerate(item["contexts"], start=1))
    return Result(
        Item(item["question"], answers=(item["reference"],)),
        relevant_chunks=None,
        relevant_documents=None,
        hits=hits,
        k=CONTEXTS,
        answer=Answer(item["answer"]),
        contexts=tuple(item["contexts"]),
    )


def run_ragas(python: str, base_url: str, items: list[Given], concurrency: int) -> tuple[Measured, dict[str, float]]:
    """The run in ragas' environment, and its metrics' means."""
    given = json.dumps({"base_url": base_url, "items": items, "concurrency": concurrency})
    command = [python, str(HERE / "peers/ragas_judging.py")]
    try:
        done = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"ragas' half did not run: {error}\n--help says how to make an environment for --peer-python")
    found = json.loads(done.stdout)
    return Measured(found["seconds"], found["calls"], found["most_at_once"]), found["scores"]


def run_bare(transport: str, base_url: str, items: list[Given], concurrency: int, calls: int) -> float:
    """The seconds of as many plain calls through the client, each with an item's contexts and answer."""

    async def run() -> float:
        places = asyncio.Semaphore(concurrency)
        texts = ["\n".join([item["question"], *item["contexts"], item["answer"]]) for item in items]
        async with AsyncOpenAI(base_url=base_url, api_key="none", http_client=TRANSPORTS[transport]()) as client:

            async def ask(text: str) -> str | None:
                async with places:
                    reply = await client.chat.completions.create(
                        model="scripted", messages=[{"role": "user", "content": text}]
                    )
                return reply.choices[0].message.content

            await ask(texts[0])
            started = time.perf_counter()
            await asyncio.gather(*(ask(texts[number % len(texts)]) for number in range(calls)))
            return time.perf_counter() - started

    return asyncio.run(run())


def verdict(name: str, value: float, aim: float, most: bool = True) -> str:
    met = value <= aim if most else value >= aim
    return f"  {name}: {value:.2f} (aim {'at most' if most else 'at least'} {aim:g}: {'met' if met else 'MISSED'})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=50)
    parser.add_argument("--peer-python", metavar="PATH", help="the python of an environment that has ragas 0.4.3")
    arguments = parser.parse_args()
    items = some_items(arguments.items)
    if not arguments.peer_python:
        print("ragas is left out: --help says how to make an environment with it")
    print("who            at once  calls        s  least s   ratio  open")
    with endpoint() as base_url:
        for concurrency in LEVELS:
            compare(base_url, items, concurrency, arguments.peer_python)


def compare(base_url: str, items: list[Given], concurrency: int, peer_python: str | None) -> None:
    """Ours and the bare loops take turns, so that whatever else the machine does falls on all of them."""
    ours: list[Measured] = []
    bare: dict[str, list[Measured]] = {transport: [] for transport in TRANSPORTS}
    for _ in range(REPEATS):
        ours.append(measure_ours(base_url, items, concurrency))
        calls = ours[-1].calls
        for transport, runs in bare.items():
            counts(base_url)  # begins a new count of the most at once
            seconds = run_bare(transport, base_url, items, concurrency, calls)
            runs.append(Measured(seconds, calls, counts(base_url)["most_at_once"]))
    for name, runs in {"ours": ours, **{f"bare, {transport}": runs for transport, runs in bare.items()}}.items():
        print(middle(runs).line(name, concurrency), flush=True)
    ragas = None
    if peer_python:
        ragas, scores = run_ragas(peer_python, base_url, items, concurrency)
        print(ragas.line("ragas 0.4.3", concurrency))
        print("  its means: " + ", ".join(f"{name} {value:.2f}" for name, value in scores.items()), flush=True)
    taken = middle(ours)
    print(verdict("our calls an item", taken.calls / len(items), CALLS_AN_ITEM))
    if concurrency == LEVELS[0]:
        print(verdict("our time over the least", taken.seconds / taken.least(concurrency), SLOWEST))
        if ragas:
            print(verdict("times faster than ragas", ragas.seconds / taken.seconds, FASTER, most=False))
    else:
        print(verdict("our time over the bare loop's", taken.seconds / middle(bare[OUR_TRANSPORT]).seconds, BARE_RATIO))


def measure_ours(base_url: str, items: list[Given], concurrency: int) -> Measured:
    before = counts(base_url)
    seconds = run_ours(base_url, items, concurrency)
    after = counts(base_url)
    return Measured(seconds, after["chat"] - before["chat"], after["most_at_once"])


def middle(runs: list[Measured]) -> Measured:
    """The run with the median time."""
    return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]


if __name__ == "__main__":
    main()
