"""Every faithfulness signal that needs no reference and no judge, by its AUROC on human labels, beside seed 000's ways.

The AUROC is the chance that an answer labelled faithful has a higher value than one that is not; .5 is chance. Values
of which lower is better count from 1. The last two columns are the AUROC on two halves of a set, parted by a hash of
the contexts. Seed 000's ways take the answer's pieces between full stops: the share whose best cosine with a context is
at least 0.4, and the mean of the best cosines. Token precision is the share of the answer's words that are among the
words of all contexts. Values that are undefined for an item leave it out; the column `scored` counts the others.

The sets are no test of overlap.support any more: its rules and constants were chosen with all three in view.

Usage: python benchmarks/faithfulness.py [SET ...] [--good LABEL ...]    (the sets are found in RAGEVAL_DATA_DIR)

A SET is a folder there, or any other folder, with judged.jsonl, whose lines have contexts, answer and label.
"""

import argparse
import hashlib
import json
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rageval_dagster.embedding.models import TransformerEmbedder
from rageval_dagster.metrics.interface import MetricOptions, Tools
from rageval_dagster.metrics.registry import all_metrics, compute_scores
from rageval_dagster.metrics.support import support
from rageval_dagster.records import Answer, Item, Result
from rageval_dagster.settings import DEFAULT_EMBEDDING_MODEL
from rageval_dagster.statistics.agreement import auroc

DATA = Path(os.environ.get("RAGEVAL_DATA_DIR", Path(__file__).parents[1] / "../shared/data"))
SETS = ("begin_dev", "q2", "summedits")
GOOD = ("Fully attributable", "consistent")
SIGNALS = (
    "embedding.answer_hallucination",
    "overlap.faithfulness",
    "overlap.support",
    "citation.accuracy",
    "citation.coverage",
    "citation.recall",
)
THRESHOLD = 0.4

Column = list[float | None]


def shipped(results: Sequence[Result], tools: Tools, model: TransformerEmbedder) -> dict[str, Column]:
    declared = all_metrics(MetricOptions(max(1, *(len(result.contexts) for result in results)), model.version))
    chosen = [metric for metric in declared if metric.id in SIGNALS]
    outcomes = compute_scores(chosen, results, tools)
    columns: dict[str, Column] = {}
    for metric in chosen:
        values = [outcome.value for outcome in outcomes[metric.id]]
        name = metric.id if metric.higher_is_better else f"1 - {metric.id}"
        columns[name] = [value if value is None or metric.higher_is_better else 1.0 - value for value in values]
    return columns


def seed_ways(results: Sequence[Result], tools: Tools) -> dict[str, Column]:
    said = [[piece.strip() for piece in re.split(r"[.!?]", answer_of(result)) if piece.strip()] for result in results]
    contexts = [[context for context in result.contexts if context.strip()] for result in results]
    vectors = tools.embed(text for texts in (*said, *contexts) for text in texts)
    share: Column = []
    mean: Column = []
    precision: Column = []
    for result, pieces, known in zip(results, said, contexts, strict=True):
        best = np.zeros(len(pieces))
        if known:
            among = np.concatenate([vectors[context] for context in known]).T
            best = np.array([(vectors[piece] @ among).max() for piece in pieces])
        share.append(float(np.mean(best >= THRESHOLD)) if pieces else None)
        mean.append(float(best.mean()) if pieces else None)
        words = re.findall(r"\w+", answer_of(result).lower())
        have = set(re.findall(r"\w+", " ".join(known).lower()))
        precision.append(sum(word in have for word in words) / len(words) if words else None)
    return {"seed: cosine share": share, "seed: mean best cosine": mean, "token precision": precision}


def answer_of(result: Result) -> str:
    return result.answer.text if result.answer else ""


def agreement(column: Column, labels: Sequence[bool], chosen: Sequence[bool]) -> tuple[str, int]:
    """The AUROC as text over the chosen items that have a value, and how many these are."""
    pairs = [
        (value, label)
        for value, label, taken in zip(column, labels, chosen, strict=True)
        if taken and value is not None
    ]
    found = auroc([value for value, _ in pairs], [label for _, label in pairs])
    return ("-" if found is None else f"{found.mean:.3f}"), len(pairs)


def measure(folder: Path, good: Sequence[str], model: TransformerEmbedder) -> None:
    rows = [json.loads(line) for line in (folder / "judged.jsonl").read_text(encoding="utf-8").splitlines()]
    results = [
        Result(
            Item(row.get("question", "")),
            None,
            None,
            (),
            max(1, len(row["contexts"])),
            Answer(row["answer"]),
            tuple(row["contexts"]),
        )
        for row in rows
    ]
    labels = [row["label"] in good for row in rows]
    first = [hashlib.sha256("\n".join(row["contexts"]).encode()).digest()[0] % 2 == 0 for row in rows]
    tools = Tools(model)
    print(f"\n{folder.name}: {len(rows)} answers, {sum(labels)} of them faithful")
    print(f"  {'signal':36} {'AUROC':>6} {'scored':>7} {'half 1':>7} {'half 2':>7}")
    for name, column in {**seed_ways(results, tools), **shipped(results, tools, model)}.items():
        whole, scored = agreement(column, labels, [True] * len(rows))
        halves = [agreement(column, labels, [each is half for each in first])[0] for half in (True, False)]
        print(f"  {name:36} {whole:>6} {scored:7} {halves[0]:>7} {halves[1]:>7}")
    started = time.perf_counter()
    for result in results:
        support(answer_of(result), result.contexts)
    print(f"  overlap.support takes {len(rows) / (time.perf_counter() - started):.0f} answers a second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS, metavar="SET")
    parser.add_argument("--good", nargs="+", default=GOOD, metavar="LABEL", help="the labels of a faithful answer")
    arguments = parser.parse_args()
    model = TransformerEmbedder(DEFAULT_EMBEDDING_MODEL)
    for name in arguments.sets:
        folder = DATA / name
        if (folder / "judged.jsonl").is_file():
            measure(folder, arguments.good, model)
        else:
            print(f"\n{name}: no judged.jsonl in {folder}; set RAGEVAL_DATA_DIR")


if __name__ == "__main__":
    main()
