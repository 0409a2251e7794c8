"""Declining of the keyless answerer on human questions, beside always answering and a threshold on the dense score.

clapnq has labelled unanswerable questions. From xquad_en they are made: each question is asked twice, of the whole
corpus and of the corpus without its own paragraph. Balanced accuracy is the mean of two shares: answerable questions
answered, and unanswerable ones declined. Thresholds are chosen on a random half of the questions and measured on the
other half, 100 times over; a question's two askings are never in different halves.

Usage: python benchmarks/declining.py    (the sets are found in RAGEVAL_DATA_DIR)
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rageval_dagster.embedding.models import TokenVectors, TransformerEmbedder
from rageval_dagster.rag.extractive import BLOCK, MIN_SUPPORT, ExtractiveAnswerer
from rageval_dagster.settings import DEFAULT_EMBEDDING_MODEL

DATA = Path(os.environ.get("RAGEVAL_DATA_DIR", Path(__file__).parents[1] / "../shared/data"))
CONTEXTS = 5
GRID = np.round(np.arange(0.30, 0.901, 0.01), 2)
HALVINGS = 100


class Remembering:
    """The default model with each text's token vectors kept: a passage is a context of many questions."""

    def __init__(self) -> None:
        self.model = TransformerEmbedder(DEFAULT_EMBEDDING_MODEL)
        self.version = self.model.version
        self._kept: dict[str, TokenVectors] = {}

    def token_vectors(self, texts: Sequence[str]) -> list[TokenVectors]:
        missing = [text for text in texts if text not in self._kept]
        self._kept.update(zip(missing, self.model.token_vectors(missing), strict=True))
        return [self._kept[text] for text in texts]


@dataclass(frozen=True)
class Scores:
    """Of each asking: its question's number, whether it is answerable, its best dense score, its support."""

    question: np.ndarray
    answerable: np.ndarray
    dense: np.ndarray
    support: np.ndarray

    def among(self, questions: np.ndarray) -> "Scores":
        rows = np.isin(self.question, questions)
        return Scores(self.question[rows], self.answerable[rows], self.dense[rows], self.support[rows])


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def score(name: str, own_removed: bool) -> Scores:
    """All questions of a set; with `own_removed` each a second time, without the passage that answers it."""
    corpus, queries = rows(DATA / name / "corpus.jsonl"), rows(DATA / name / "queries.jsonl")
    texts = [f"{row['title']}\n{row['text']}" for row in corpus]
    places = {row["id"]: place for place, row in enumerate(corpus)}
    lines = [line.split("\t") for line in (DATA / name / "qrels.tsv").read_text().splitlines()]
    evidence = {line[0]: places[line[1]] for line in lines if line[1] in places}
    remembering = Remembering()
    answerer = ExtractiveAnswerer(remembering)
    similarity = remembering.model.encode([row["text"] for row in queries]) @ remembering.model.encode(texts).T
    asked: list[tuple[str, bool, int, np.ndarray]] = []
    for number, (row, cosines) in enumerate(zip(queries, similarity, strict=True)):
        asked.append((row["text"], not row["is_impossible"], number, cosines))
        if own_removed:
            without = cosines.copy()
            without[evidence[row["id"]]] = -1.0
            asked.append((row["text"], False, number, without))
    best = [np.argsort(-cosines, kind="stable")[:CONTEXTS] for _, _, _, cosines in asked]
    support: list[float] = []
    for start in range(0, len(asked), BLOCK):
        part = slice(start, start + BLOCK)
        contexts = [[texts[place] for place in places] for places in best[part]]
        for matches in answerer.matches([question for question, *_ in asked[part]], contexts):
            support.append(max((match.support_around for match in matches), default=0.0))
    return Scores(
        np.array([number for _, _, number, _ in asked]),
        np.array([answerable for _, answerable, _, _ in asked]),
        np.array([cosines.max() for *_, cosines in asked]),
        np.array(support),
    )


def accuracy(answered: np.ndarray, answerable: np.ndarray) -> tuple[float, float, float]:
    """(share of answerable ones answered, share of unanswerable ones declined, their mean)."""
    right = float(answered[answerable].mean()), float((~answered)[~answerable].mean())
    return (*right, sum(right) / 2)


def choose(signal: str, sets: Sequence[Scores]) -> float:
    """The lowest threshold that is within .005 of the best balanced accuracy, averaged over the sets.

    The curve is flat at its top, and declining too much is the worse error: it hides what retrieval found.
    """

    def quality(threshold: float) -> float:
        return float(np.mean([accuracy(getattr(each, signal) >= threshold, each.answerable)[2] for each in sets]))

    qualities = [quality(threshold) for threshold in GRID]
    return float(GRID[np.flatnonzero(np.array(qualities) >= max(qualities) - 0.005)[0]])


def halves(each: Scores, generator: np.random.Generator) -> tuple[Scores, Scores]:
    questions = generator.permutation(np.unique(each.question))
    return each.among(questions[::2]), each.among(questions[1::2])


def held_out(signal: str, chosen_on: Sequence[str], sets: dict[str, Scores], measured: str) -> np.ndarray:
    """[halvings, 3] accuracies on one set's second halves, the threshold chosen on the first halves of `chosen_on`."""
    generator = np.random.default_rng(0)
    results = []
    for _ in range(HALVINGS):
        split = {name: halves(each, generator) for name, each in sets.items()}
        threshold = choose(signal, [split[name][0] for name in chosen_on])
        other = split[measured][1]
        results.append(accuracy(getattr(other, signal) >= threshold, other.answerable))
    return np.array(results)


def main() -> None:
    if not (DATA / "clapnq").is_dir():
        print(f"skipped: no clapnq in {DATA}; set RAGEVAL_DATA_DIR")
        return
    report({"clapnq": score("clapnq", own_removed=False), "xquad_en": score("xquad_en", own_removed=True)})


def report(sets: dict[str, Scores]) -> None:
    print(f"Support threshold chosen on all of both sets: {choose('support', list(sets.values())):.2f}", end=" ")
    print(f"(in use: {MIN_SUPPORT:.2f})")
    for name, each in sets.items():
        print(f"\n{name}, {len(each.dense)} askings, {each.answerable.mean():.0%} answerable")
        print(f"  {'':42s} answered  declined  balanced accuracy")
        rows = {
            "always answers": np.array([accuracy(np.ones(len(each.dense), dtype=bool), each.answerable)]),
            "best dense score, chosen on the same set": held_out("dense", [name], sets, name),
            "best dense score, chosen on both sets": held_out("dense", list(sets), sets, name),
            "keyless answerer, chosen on both sets": held_out("support", list(sets), sets, name),
            f"keyless answerer as it is ({MIN_SUPPORT:.2f})": np.array(
                [accuracy(each.support >= MIN_SUPPORT, each.answerable)]
            ),
        }
        for rule, results in rows.items():
            mean, spread = results.mean(axis=0), f" ± {results[:, 2].std():.3f}" if len(results) > 1 else ""
            print(f"  {rule:42s} {mean[0]:8.3f}  {mean[1]:8.3f}     {mean[2]:.3f}{spread}")


if __name__ == "__main__":
    main()
