"""What the report of a large evaluation costs: to write, to keep, and to open in a browser.

Usage: python benchmarks/report.py [--questions 2000] [--keep FOLDER]

A history of two evaluations is made up: questions of some 12 words, answers of some 100, ten contexts of some 120 words
each, and every metric that there is, each scored anew each night. The words are drawn
at random from a vocabulary of 20,000, by Zipf's law: that packs worse than people's sentences do. Opening is measured
in Chromium from the start of the navigation until the page says that it is ready, the quickest of three.
"""

import argparse
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from rageval_dagster.evaluation.summary import finish
from rageval_dagster.gate.spec import GateSpec
from rageval_dagster.identity import digest
from rageval_dagster.metrics.interface import Metric, MetricOptions
from rageval_dagster.metrics.registry import all_metrics
from rageval_dagster.records import Answer, Evidence, Hit, Item, Outcome
from rageval_dagster.report.files import write_client_report
from rageval_dagster.settings import load_settings
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.results import RetrievalRecord
from tests.gate.gated_history import held
from tests.storage.history_builder import answer_key, make_dataset, open_run, result_of, retrieval_key

from watching import verdict  # isort: skip

OPEN_LIMIT_S = 2.0
SIZE_LIMIT_MB = 5.0
CONTEXTS = 10
VOCABULARY = 20_000
CLIENT = "acme"
CUTOFF = 5

Chunk = tuple[str, str, str]
"""Its id, its document's, and its text."""


class Writer:
    """Makes up texts of words that are as frequent as people's."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        letters = np.array(list("eeeettaaooiinnsshhrrddlu"))
        lengths = self.random.integers(2, 11, VOCABULARY)
        self._words = np.array(["".join(self.random.choice(letters, length)) for length in lengths])
        shares = 1 / np.arange(1, VOCABULARY + 1)
        self._shares = shares / shares.sum()

    def text(self, words: int) -> str:
        count = max(3, int(self.random.normal(words, words / 4)))
        chosen = self.random.choice(self._words, count, p=self._shares)
        return " ".join(chosen).capitalize() + "."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=2_000)
    parser.add_argument("--keep", type=Path, help="a folder for the report")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings({"RAGEVAL_HOME": folder}, Path(folder) / "none.env")
        db = open_database(settings.database_url)
        make_history(db, options.questions)
        started = time.perf_counter()
        path = write_client_report(db, settings, CLIENT)
        writing = time.perf_counter() - started
        size = path.stat().st_size / 1e6
        opening = min(opened(path) for _ in range(3))
        print(f"{options.questions} questions, {len(metrics())} metrics: written in {writing:.1f} s")
        print(f"  size: {verdict(size, SIZE_LIMIT_MB, 'MB')}")
        print(f"  opened: {verdict(opening, OPEN_LIMIT_S, 's')}")
        if options.keep:
            shutil.copy(path, options.keep)


def opened(path: Path) -> float:
    """Seconds until the page is ready, in a browser that has just started."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto("about:blank")
        started = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        seconds = time.perf_counter() - started
        browser.close()
    return seconds


def metrics() -> list[Metric]:
    return all_metrics(MetricOptions(CUTOFF, "model"))


def make_history(db: Database, count: int) -> None:
    """A client whose second night has nothing in common with its first but the questions."""
    writer = Writer(7)
    chunks = [(f"chunk-{number}", f"document-{number // 10}", writer.text(120)) for number in range(count * 3)]
    items = [
        Item(
            question=f"{writer.text(12)[:-1]} {number}?",
            answers=(writer.text(30),),
            evidence=(Evidence(chunks[number * 3][1], None, chunks[number * 3][2][:120]),),
            category=f"category {number % 5}",
        )
        for number in range(count)
    ]
    dataset = make_dataset(db, CLIENT, items)
    for night in range(2):
        evaluation = open_run(db, dataset, f"night {night}", corpus=f"corpus-{night}", k=CUTOFF)
        for number, item in enumerate(items):
            ask(db, evaluation, item, number, chunks, writer)
        held(db, finish(db, evaluation, metrics()), spec=GateSpec.from_settings(load_settings({})))


def ask(db: Database, evaluation: Evaluation, item: Item, number: int, chunks: list[Chunk], writer: Writer) -> None:
    """One question's contexts, answer and scores."""
    places = [number * 3, *writer.random.choice(len(chunks), CONTEXTS - 1, replace=False)]
    writer.random.shuffle(places)
    found = [(rank, *chunks[place]) for rank, place in enumerate(places, start=1)]
    hits = [Hit(chunk_id, document_id, rank, 1 / rank, text) for rank, chunk_id, document_id, text in found]
    chunk_id, document_id, _ = chunks[number * 3]
    retrieval = RetrievalRecord(
        digest(str(evaluation.id), item.item_id), item.item_id, [chunk_id], [document_id], hits, None
    )
    result = replace(result_of(retrieval), answer=Answer(writer.text(100)))
    result_storage.save_retrievals(db, evaluation.id, [(retrieval, retrieval_key(evaluation, item.item_id))])
    result_storage.save_results(db, evaluation.id, [(result, answer_key(evaluation, item.item_id))])
    scores = []
    for metric in metrics():
        said = {"reasoning": writer.text(25)} if metric.id.startswith(("judge.", "claims.")) else None
        scores.append((result.result_id, metric.id, metric.version, Outcome.scored(writer.random.random(), said)))
    score_storage.save_scores(db, evaluation.id, scores)


if __name__ == "__main__":
    main()
