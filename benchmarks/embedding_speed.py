"""The embedding metrics of 1,000 items with 5 contexts, against one call of the model a metric and item (seed 000).

Both ways embed with the same loaded model in the same process and take turns, a block of items each, so that whatever
else the machine does falls on both. Twice: with the contexts of a real search, which share passages, and with contexts
that no two items share. The values of both ways are compared where METRICS.md says that they are equal.

Usage: python benchmarks/embedding_speed.py [--items 1000]    (clapnq and xquad_en are found in RAGEVAL_DATA_DIR)
"""

import argparse
import json
import os
import random
import re
import resource
import time
from pathlib import Path

import numpy as np

from rageval_dagster.embedding.models import TransformerEmbedder
from rageval_dagster.metrics import embedding
from rageval_dagster.metrics.interface import MetricOptions, Tools
from rageval_dagster.metrics.registry import compute_scores
from rageval_dagster.records import Answer, Item, Result
from rageval_dagster.settings import DEFAULT_EMBEDDING_MODEL

DATA = Path(os.environ.get("RAGEVAL_DATA_DIR", Path(__file__).parents[1] / "../shared/data"))
CONTEXTS = 5
BLOCKS = 4
SEED = 7


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def items(count: int, shared: bool) -> list[Result]:
    """Questions of both sets with an answer made of a passage's sentences, and with five passages.

    Shared: the nearest passages by common words, as a search gives them. Else each item has its own pieces of text.
    """
    rng = random.Random(SEED)
    found: list[Result] = []
    for name in ("clapnq", "xquad_en"):
        passages = [row["text"] for row in rows(DATA / name / "corpus.jsonl")]
        bags = [set(text.lower().split()) for text in passages]
        for row in rows(DATA / name / "queries.jsonl"):
            if not row["answers"] or len(found) == count:
                continue
            if shared:
                words = set(row["text"].lower().split())
                best = sorted(range(len(passages)), key=lambda at: -len(words & bags[at]))[:CONTEXTS]
                contexts = [passages[at] for at in best]
            else:
                contexts = [_piece(rng, passages) for _ in range(CONTEXTS)]
            answer = " ".join(re.split(r"(?<=[.!?])\s+", contexts[0])[:3])
            item = Item(row["text"], answers=(row["answers"][0],))
            found.append(Result(item, None, None, (), CONTEXTS, Answer(answer), tuple(contexts)))
    return found


def _piece(rng: random.Random, passages: list[str]) -> str:
    """Words of a passage from a random place on, as many as a chunk has."""
    words = rng.choice(passages).split()
    start = rng.randrange(max(1, len(words) - 60))
    return " ".join(words[start : start + 120])


def one_call_a_metric(model: TransformerEmbedder, results: list[Result]) -> list[dict[str, float]]:
    """Seed 000's formulas, each embedding what it reads."""

    def embed(texts: list[str]) -> np.ndarray:
        return model.encode(texts)

    found = []
    for result in results:
        assert result.answer is not None
        question, answer, reference = result.item.question, result.answer.text, result.item.answers[0]
        contexts = list(result.contexts)
        asked, among = embed([question])[0], embed(contexts)
        relevance = float(np.mean(among @ asked))
        asked, among = embed([question])[0], embed(contexts)
        sufficiency = float(np.mean(among @ asked >= 0.5))
        both = embed([answer, reference])
        closeness = float(both[0] @ both[1])
        both = embed([answer, reference])
        correctness = float(both[0] @ both[1])
        said = [sentence.strip() for sentence in re.split(r"[.!?]", answer) if sentence.strip()]
        vectors = embed(contexts + said)
        best = (vectors[len(contexts) :] @ vectors[: len(contexts)].T).max(axis=1)
        found.append(
            {
                "context_relevance": relevance,
                "context_sufficiency": sufficiency,
                "answer_relevance": closeness,
                "answer_correctness": correctness,
                "answer_hallucination": float(np.mean(best < 0.4)),
            }
        )
    return found


def measure(model: TransformerEmbedder, results: list[Result], label: str) -> None:
    metrics = embedding.metrics(MetricOptions(CONTEXTS, model.version))
    tools = Tools(model)
    ours = theirs = 0.0
    furthest = 0.0
    for block in np.array_split(np.arange(len(results)), BLOCKS):
        part = [results[at] for at in block]
        started = time.perf_counter()
        columns = compute_scores(metrics, part, tools)
        ours += time.perf_counter() - started
        started = time.perf_counter()
        plain = one_call_a_metric(model, part)
        theirs += time.perf_counter() - started
        for row, outcome in zip(plain, columns["embedding.answer_correctness"], strict=True):
            if row["answer_correctness"] >= 0 and outcome.value is not None:
                furthest = max(furthest, abs(row["answer_correctness"] - outcome.value))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    texts = len({text for result in results for text in result.contexts})
    print(
        f"{label:10} {len(results):6} {texts:9} {ours:8.1f} {theirs:10.1f} {theirs / ours:7.2f} {peak:9.0f} "
        f"{furthest:12.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1000)
    count = parser.parse_args().items
    model = TransformerEmbedder(DEFAULT_EMBEDDING_MODEL)
    model.encode(["The model is loaded before the clock runs."])
    print("contexts    items  distinct   ours s  one call s   ratio   peak MB   difference")
    for label, shared in (("shared", True), ("distinct", False)):
        measure(model, items(count, shared), label)


if __name__ == "__main__":
    main()
