"""How many items a second the metrics on texts score, and in how much memory, a family at a time.

Usage: python benchmarks/text_metrics_speed.py [ITEMS] [FAMILY ...]    (default: 100000 items, all families on texts)

An item has five contexts out of 4,000 chunks of some 100 words (from Python's own reference), an answer and a reference
of a sentence or two, and a check of each kind. Each family runs in a process of its own. The embedder adds up hashed
words, so that a family's own work is measured and no model's.
"""

import random
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rageval_dagster.metrics.registry import MetricOptions, Tools, all_metrics, compute_scores
from rageval_dagster.records import Answer, Hit, Item, Result

FAMILIES = ("lexical", "checks", "overlap", "citation", "quality", "embedding")
CHUNKS = 4_000
WORDS = 100
BATCH = 1_000
"""Items scored at once."""


class HashEmbedder:
    """Sums a pseudo-random vector of 8 numbers a word."""

    name = version = "hash"
    dimension = 8

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.array([self._sum(text) for text in texts], dtype=np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)

    def windows(self, text: str) -> list[str]:
        return [text]

    def _sum(self, text: str) -> np.ndarray:
        codes = np.array([zlib.crc32(word.encode()) for word in text.split()], dtype=np.uint32)
        return ((codes[:, None] >> np.arange(0, 32, 4, dtype=np.uint32)) % 16).sum(axis=0) - 7.5 * len(codes)


def chunks() -> list[list[str]]:
    from pydoc_data.topics import topics

    words = [word for text in topics.values() for word in text.split()]
    starts = range(0, len(words) - WORDS, max(1, (len(words) - WORDS) // CHUNKS))
    return [words[start : start + WORDS] for start in starts][:CHUNKS]


def some_results(count: int, all_chunks: list[list[str]], seed: int) -> list[Result]:
    draw = random.Random(seed)
    results: list[Result] = []
    for number in range(count):
        places = draw.sample(range(len(all_chunks)), 5)
        source = all_chunks[places[0]]
        answer = f"{' '.join(source[:20])} [1]. It is {draw.randrange(1_000)}.{draw.randrange(10)}% [2]."
        checks = (
            {"name": "items", "kind": "list", "expect": source[10:15]},
            {"name": "word", "kind": "fact", "expect": source[3], "any_of": [source[4]]},
            {"name": "pattern", "kind": "fact", "pattern": r"\d+\.\d%"},
            {"name": "rate", "kind": "number", "expect": draw.randrange(1_000)},
            {"name": "sum", "kind": "calculation", "expect": draw.randrange(1_000)},
        )
        reference = f"{' '.join(source[:15])}. It is {draw.randrange(1_000)}%."
        contexts = tuple(" ".join(all_chunks[place]) for place in places)
        hits = tuple(
            Hit(f"c{place}", f"d{place // 10}", rank, 1 / rank, text)
            for rank, (place, text) in enumerate(zip(places, contexts, strict=True), start=1)
        )
        results.append(
            Result(
                Item(f"What are the words {number}?", (reference,), checks=checks),
                relevant_chunks=frozenset({f"c{places[0]}"}),
                relevant_documents=frozenset({f"d{places[0] // 10}"}),
                hits=hits,
                k=5,
                answer=Answer(answer),
                contexts=contexts,
            )
        )
    return results


def peak_megabytes() -> float:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def measure(family: str, items: int) -> None:
    """Prints the family's line; every batch's results are new objects, as they are when they come from storage."""
    metrics = [metric for metric in all_metrics(MetricOptions(5, HashEmbedder.version)) if metric.family == family]
    tools, all_chunks = Tools(HashEmbedder()), chunks()
    compute_scores(metrics, some_results(10, all_chunks, -1), tools)  # what is loaded once
    before, seconds, scored = peak_megabytes(), 0.0, 0
    for first in range(0, items, BATCH):
        results = some_results(min(BATCH, items - first), all_chunks, first)
        started = time.process_time()
        columns = compute_scores(metrics, results, tools)
        seconds += time.process_time() - started
        scored += sum(outcome.status == "scored" for column in columns.values() for outcome in column)
    growth = peak_megabytes() - before
    print(
        f"{family:10} {len(metrics):2} metrics {items / seconds:9,.0f} items/s {seconds:8.1f} s  "
        f"{scored / items:4.1f} scored an item  peak {peak_megabytes():5,.0f} MB (+{growth:,.0f} MB)",
        flush=True,
    )


def main() -> int:
    arguments = sys.argv[1:]
    items = int(arguments[0]) if arguments else 100_000
    families = arguments[1:] or FAMILIES
    if len(families) == 1:
        measure(families[0], items)
        return 0
    for family in families:
        subprocess.run([sys.executable, __file__, str(items), family], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
