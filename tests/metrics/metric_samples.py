"""What the tests of the metrics share: a small deterministic embedder, results made short, and where the data is."""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rageval_dagster.metrics.interface import Metric, MetricOptions
from rageval_dagster.metrics.registry import Tools, all_metrics, compute_scores
from rageval_dagster.records import Answer, Hit, Item, Outcome, Owner, Result

DATA_DIR = Path(os.environ.get("RAGEVAL_DATA_DIR", Path(__file__).parents[3] / "shared" / "data"))


class TinyEmbedder:
    """Adds up a pseudo-random vector a word; its window is 200 characters. Counts what it is asked to embed."""

    name = "tiny"
    version = "tiny@1"
    dimension = 16

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.embedded.extend(texts)
        rows = np.stack(
            [sum(map(self._word, text.lower().split() or [""]), np.zeros(self.dimension)) for text in texts]
        )
        return (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)).astype(np.float32)

    def windows(self, text: str) -> list[str]:
        return [text[first : first + 200] for first in range(0, len(text), 200)] or [text]

    def _word(self, word: str) -> np.ndarray:
        data = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:16]
        return np.frombuffer(data, dtype=np.int8).astype(float)


def make_result(
    chunks: Sequence[str] = (),
    relevant: Sequence[str] | None = None,
    *,
    documents: Sequence[str] | None = None,
    relevant_documents: Sequence[str] | None = None,
    owners: Sequence[Owner] | None = None,
    k: int = 5,
    question: str = "Who?",
    answer: str | None = None,
    declined: bool = False,
    references: Sequence[str] = (),
    contexts: Sequence[str] = (),
    answerable: bool = True,
    error: str | None = None,
) -> Result:
    of_documents = documents if documents is not None else [f"doc of {chunk}" for chunk in chunks]
    all_own: list[Owner] = ["own" for _ in chunks]
    of_owners = owners if owners is not None else all_own
    hits = tuple(
        Hit(chunk, document, rank, 1.0 / rank, contexts[rank - 1] if rank <= len(contexts) else "", owner=owner)
        for rank, (chunk, document, owner) in enumerate(zip(chunks, of_documents, of_owners, strict=True), start=1)
    )
    return Result(
        item=Item(question, answers=tuple(references), answerable=answerable),
        relevant_chunks=None if relevant is None else frozenset(relevant),
        relevant_documents=None if relevant_documents is None else frozenset(relevant_documents),
        hits=hits,
        k=k,
        answer=None if answer is None else Answer(answer, declined),
        contexts=tuple(contexts),
        error=error,
    )


def plain_measures(ranked: Sequence[str], judged: Mapping[str, int], k: int) -> dict[str, float]:
    """The definitions, for one query whose documents stand in order; something has to be relevant."""
    gains = [max(judged.get(document, 0), 0) for document in ranked]
    ideal = sorted((grade for grade in judged.values() if grade > 0), reverse=True)
    hits = [rank for rank, gain in enumerate(gains, start=1) if gain]
    within = [rank for rank in hits if rank <= k]

    def dcg(some: Sequence[int], cutoff: int) -> float:
        return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(some[:cutoff], start=1))

    def average_precision(cutoff: int) -> float:
        return sum(count / rank for count, rank in enumerate(hits, start=1) if rank <= cutoff) / len(ideal)

    everything = len(ranked)
    return {
        f"P@{k}": len(within) / k,
        f"R@{k}": len(within) / len(ideal),
        f"Success@{k}": float(bool(within)),
        "RR": 1 / hits[0] if hits else 0.0,
        f"RR@{k}": 1 / within[0] if within else 0.0,
        "nDCG": dcg(gains, everything) / dcg(ideal, len(ideal)),
        f"nDCG@{k}": dcg(gains, k) / dcg(ideal, k),
        "AP": average_precision(everything),
        f"AP@{k}": average_precision(k),
        "Rprec": sum(rank <= len(ideal) for rank in hits) / len(ideal),
        "SetR": len(hits) / len(ideal),
    }


def unjudged(options: MetricOptions) -> list[Metric]:
    """The built-in metrics that need no judge model."""
    return [metric for metric in all_metrics(options) if metric.judged is None]


def columns_of(
    family: str, results: Sequence[Result], embedder: Any = None, *, k: int = 5, **options: Any
) -> dict[str, list[Outcome]]:
    """The outcomes of a family's metrics that need no judge, by their names without the family's."""
    embedder = embedder or TinyEmbedder()
    metrics = [metric for metric in unjudged(MetricOptions(k, embedder.version, **options)) if metric.family == family]
    columns = compute_scores(metrics, results, Tools(embedder))
    return {metric_id.removeprefix(f"{family}."): column for metric_id, column in columns.items()}


def outcomes_of(family: str, result: Result, embedder: Any = None, **options: Any) -> dict[str, Outcome]:
    """The same for one result."""
    return {name: column[0] for name, column in columns_of(family, [result], embedder, **options).items()}


def judged_rows(name: str) -> list[dict[str, Any]]:
    """Answers that people judged; skips the test where they are not there."""
    path = DATA_DIR / name / "judged.jsonl"
    if not path.is_file():
        pytest.skip(f"{path} is not there (RAGEVAL_DATA_DIR)")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def detail_of(outcome: Outcome) -> Mapping[str, Any]:
    assert isinstance(outcome.detail, Mapping), outcome
    return outcome.detail


def value_of(outcome: Outcome) -> float:
    assert outcome.value is not None, outcome
    return outcome.value
