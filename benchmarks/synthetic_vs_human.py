"""Does the keyless benchmark rank retrieval systems as human questions do? Nine systems, Kendall's tau of their MRR.

Beside it stands how well two random halves of the human questions agree with each other, and how many of the pairs of
systems that the human questions tell apart are ranked alike.

Usage: python benchmarks/synthetic_vs_human.py [SET ...]    (default: clapnq xquad_en, found in RAGEVAL_DATA_DIR)

The sets xquad.de and xquad.zh are German and Chinese. No model that reads them is at hand, so there the nine systems
compare words and characters; `xquad_en,words` has the same nine in English.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

import numpy as np
from scipy.stats import kendalltau
from sklearn.feature_extraction.text import TfidfVectorizer

from rageval_dagster.benchmark.by_rule.generator import generate
from rageval_dagster.benchmark.wording import content_tokens
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.rag.retrievers import FUSION_K, _Bm25Index
from rageval_dagster.records import Chunk
from rageval_dagster.settings import Settings

DATA = Path(os.environ.get("RAGEVAL_DATA_DIR", Path(__file__).parents[1] / "../shared/data"))
SEEDS = 10
HALVES, RESAMPLES = 200, 1000
DEPTH = 10
CUT = 200
AIM = 0.8

Scores = np.ndarray
"""[questions, passages]; higher is better."""


@dataclass(frozen=True)
class Questions:
    """Questions with the rows of the passages that answer them."""

    texts: list[str]
    relevant: list[set[int]]


class Vectors:
    """Embeddings, each distinct text once."""

    def __init__(self) -> None:
        settings = Settings()
        self._embedder = load_embedder(settings.embedding_model, settings)
        self._known: dict[str, np.ndarray] = {}

    def of(self, texts: Sequence[str]) -> np.ndarray:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known.update(zip(new, self._embedder.encode(new), strict=True))
        return np.stack([self._known[text] for text in texts])


class Bm25:
    """The product's own BM25, each distinct question once."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._size = len(texts)
        self._index = _Bm25Index()
        for row, text in enumerate(texts):
            self._index.add(str(row), text)
        self._index.close()
        self._known: dict[str, np.ndarray] = {}

    def scores(self, questions: Sequence[str]) -> Scores:
        for question in questions:
            if question not in self._known:
                found = self._index.search(question, self._size)
                row = np.zeros(self._size, dtype=np.float32)
                row[[int(number) for number, _ in found]] = [score for _, score in found]
                self._known[question] = row
        return np.stack([self._known[question] for question in questions])


class LexicalSystems:
    """Nine retrieval systems that need no vectors, over one corpus of any language."""

    def __init__(self, passages: list[str]) -> None:
        self._size = len(passages)
        self._pieces, self._piece_rows = _cut(passages)
        rng = np.random.default_rng(0)
        self._moved = rng.permutation(self._size)[: self._size // 7]
        self._bm25 = Bm25(passages)
        self._bm25_pieces = Bm25(self._pieces)
        self._bm25_starts = Bm25([text[:CUT] for text in passages])
        self._bm25_halves = Bm25([text[: len(text) // 2] for text in passages])
        self._counts = _Ngrams(passages, (2, 3), idf=False)
        self._ngrams = _Ngrams(passages, (2, 3))
        self._signs = _Ngrams(passages, (1, 1))

    def reciprocal_ranks(self, questions: Questions) -> dict[str, np.ndarray]:
        """Of each system and question, that of the first relevant passage; 0 if it is not among the first `DEPTH`."""
        bm25 = self._bm25.scores(questions.texts)
        ngrams = self._ngrams.scores(questions.texts)
        shuffled = bm25.copy()
        shuffled[:, self._moved] = bm25[:, np.roll(self._moved, 1)]
        scores = {
            "bm25": bm25,
            f"bm25, {CUT} characters": _best_piece(
                self._bm25_pieces.scores(questions.texts), self._piece_rows, self._size
            ),
            f"bm25, first {CUT} characters": self._bm25_starts.scores(questions.texts),
            "bm25, first half": self._bm25_halves.scores(questions.texts),
            "bm25, a seventh shuffled": shuffled,
            "character n-grams": ngrams,
            "character n-grams, no idf": self._counts.scores(questions.texts),
            "single characters": self._signs.scores(questions.texts),
            "rrf of bm25 and n-grams": _fusion(bm25) + _fusion(ngrams),
        }
        return {name: _reciprocal(matrix, questions.relevant) for name, matrix in scores.items()}


class _Ngrams:
    """The cosine of n-grams of characters."""

    def __init__(self, passages: list[str], sizes: tuple[int, int], idf: bool = True) -> None:
        self._vectorizer = TfidfVectorizer(analyzer="char", ngram_range=sizes, use_idf=idf)
        self._passages: Any = self._vectorizer.fit_transform(passages)

    def scores(self, questions: Sequence[str]) -> Scores:
        asked: Any = self._vectorizer.transform(questions)
        return (asked @ self._passages.T).toarray()


class Systems:
    """The nine retrieval systems over one corpus, each passage one chunk (title and text), as it is ingested."""

    def __init__(self, passages: list[str], vectors: Vectors) -> None:
        pieces, self._piece_rows = _cut(passages)
        self._vectors = vectors
        self._passages = vectors.of(passages)
        self._pieces = vectors.of(pieces)
        self._bm25 = Bm25(passages)
        self._bm25_pieces = Bm25(pieces)
        rng = np.random.default_rng(0)
        self._shuffled = self._passages.copy()
        moved = rng.permutation(len(passages))[: len(passages) // 7]
        self._shuffled[moved] = self._passages[np.roll(moved, 1)]
        # Noise of the vectors' own length.
        noise = rng.standard_normal(self._passages.shape) / np.sqrt(self._passages.shape[1])
        self._noisy = _unit(self._passages + noise)

    def reciprocal_ranks(self, questions: Questions) -> dict[str, np.ndarray]:
        """Of each system and question, that of the first relevant passage; 0 if it is not among the first `DEPTH`."""
        asked = self._vectors.of(questions.texts)
        dense = asked @ self._passages.T
        bm25 = self._bm25.scores(questions.texts)
        scores = {
            "dense": dense,
            "bm25": bm25,
            "rrf of both": _fusion(dense) + _fusion(bm25),
            "dense, 64 dimensions": _unit(asked[:, :64]) @ _unit(self._passages[:, :64]).T,
            "dense, 16 dimensions": _unit(asked[:, :16]) @ _unit(self._passages[:, :16]).T,
            f"dense, {CUT} characters": _best_piece(asked @ self._pieces.T, self._piece_rows, len(self._passages)),
            f"bm25, {CUT} characters": _best_piece(
                self._bm25_pieces.scores(questions.texts), self._piece_rows, len(self._passages)
            ),
            "dense, a seventh shuffled": asked @ self._shuffled.T,
            "dense plus noise": asked @ self._noisy.T,
        }
        return {name: _reciprocal(matrix, questions.relevant) for name, matrix in scores.items()}


def _cut(passages: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Pieces of `CUT` characters, and the row of each one's passage."""
    pieces = [(row, text[at : at + CUT]) for row, text in enumerate(passages) for at in range(0, len(text), CUT)]
    return [piece for _, piece in pieces], np.array([row for row, _ in pieces])


def _best_piece(scores: Scores, piece_rows: np.ndarray, passages: int) -> Scores:
    best = np.full((passages, len(scores)), -np.inf)
    np.maximum.at(best, piece_rows, scores.T)
    return best.T


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _ranks(scores: Scores) -> np.ndarray:
    """1-based ranks; of equal scores the passage that stands first in the corpus is first."""
    order = np.argsort(-scores, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(1, scores.shape[1] + 1)[None, :], axis=1)
    return ranks


def _fusion(scores: Scores) -> Scores:
    return 1 / (FUSION_K + _ranks(scores))


def _reciprocal(scores: Scores, relevant: Sequence[set[int]]) -> np.ndarray:
    first = np.array([min(ranks[row] for row in rows) for ranks, rows in zip(_ranks(scores), relevant, strict=True)])
    return np.where(first <= DEPTH, 1 / first, 0.0)


def _means(found: dict[str, np.ndarray]) -> dict[str, float]:
    return {name: float(each.mean()) for name, each in found.items()}


def halves(found: dict[str, np.ndarray]) -> list[float]:
    """Kendall's tau of the systems' MRR over one half of the questions and over the other, for some random halves."""
    rng = np.random.default_rng(0)
    size = len(next(iter(found.values())))
    taus = []
    for _ in range(HALVES):
        order = rng.permutation(size)
        one, other = ({name: each[part] for name, each in found.items()} for part in np.array_split(order, 2))
        taus.append(tau(_means(one), _means(other)))
    return taus


def told_apart(found: dict[str, np.ndarray]) -> list[tuple[str, str]]:
    """The pairs of systems, the better one first, of which a paired bootstrap puts 95 % of the differences on one side
    of zero."""
    rng = np.random.default_rng(0)
    size = len(next(iter(found.values())))
    drawn = rng.integers(0, size, (RESAMPLES, size))
    pairs = []
    for one, other in combinations(found, 2):
        low, high = np.quantile((found[one] - found[other])[drawn].mean(axis=1), [0.025, 0.975])
        pairs += [(one, other)] if low > 0 else [(other, one)] if high < 0 else []
    return pairs


def repeated(questions: Questions, passages: Sequence[str]) -> float:
    """The mean share of a question's content words that stand in its passage."""
    shares = []
    for text, rows in zip(questions.texts, questions.relevant, strict=True):
        held = set(content_tokens(passages[min(rows)]))
        words = content_tokens(text)
        shares.append(sum(word in held for word in words) / max(len(words), 1))
    return mean(shares)


def load(name: str) -> tuple[list[Chunk], Questions]:
    return _load_squad(name) if name.startswith("xquad.") else _load_beir(name)


def _load_squad(name: str) -> tuple[list[Chunk], Questions]:
    articles = json.loads((DATA / "xquad_squad" / f"{name}.json").read_text(encoding="utf-8"))["data"]
    chunks: list[Chunk] = []
    human = Questions([], [])
    for article in articles:
        for paragraph in article["paragraphs"]:
            human.texts.extend(each["question"] for each in paragraph["qas"])
            human.relevant.extend({len(chunks)} for _ in paragraph["qas"])
            chunks.append(Chunk(str(len(chunks)), paragraph["context"], str(len(chunks))))
    return chunks, human


def _load_beir(name: str) -> tuple[list[Chunk], Questions]:
    def rows(file: str) -> list[dict]:
        return [json.loads(line) for line in (DATA / name / file).read_text(encoding="utf-8").splitlines()]

    chunks = [Chunk(row["id"], f"{row['title']}\n{row['text']}", row["id"]) for row in rows("corpus.jsonl")]
    number = {chunk.id: row for row, chunk in enumerate(chunks)}
    relevant: dict[str, set[int]] = {}
    for line in (DATA / name / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        question, passage, relevance = line.split("\t")
        if int(relevance) > 0:
            relevant.setdefault(question, set()).add(number[passage])
    asked = [row for row in rows("queries.jsonl") if row["id"] in relevant and not row["is_impossible"]]
    return chunks, Questions([row["text"] for row in asked], [relevant[row["id"]] for row in asked])


def tau(one: dict[str, float], other: dict[str, float]) -> float:
    result: Any = kendalltau([one[name] for name in one], [other[name] for name in one])
    return float(result.statistic)


def report(name: str, vectors: Vectors) -> None:
    chunks, human = load(name.removesuffix(",words"))
    passages = [chunk.text for chunk in chunks]
    lexical = name.startswith("xquad.") or name.endswith(",words")
    systems = LexicalSystems(passages) if lexical else Systems(passages, vectors)
    human_ranks = systems.reciprocal_ranks(human)
    by_human = _means(human_ranks)
    synthetic = []
    for seed in range(SEEDS):
        candidates = generate(chunks, seed)
        rows = {chunk.content_key: row for row, chunk in enumerate(chunks)}
        made = [(rows[each.chunk_key], each.item) for each in candidates if each.item is not None]
        synthetic.append(Questions([item.question for _, item in made], [{row} for row, _ in made]))
    by_seed = [_means(systems.reciprocal_ranks(questions)) for questions in synthetic]
    taus = [tau(by_human, mrr) for mrr in by_seed]
    print(f"\n{name}: {len(human.texts)} human questions, {mean(len(q.texts) for q in synthetic):.0f} synthetic a seed")
    print(f"  {'MRR@10':28s} {'human':>7s} synthetic (mean ± standard deviation over seeds)")
    for system in sorted(by_human, key=lambda system: -by_human[system]):
        values = [mrr[system] for mrr in by_seed]
        print(f"  {system:28s} {by_human[system]:7.3f} {mean(values):7.3f} ± {pstdev(values):.3f}")
    theirs, ours = repeated(human, passages), mean(repeated(questions, passages) for questions in synthetic)
    print(f"  question words repeated from the passage: human {theirs:.2f}, synthetic {ours:.2f}")
    verdict = "reaches" if mean(taus) >= AIM else "stays below"
    print(
        f"  Kendall's tau {mean(taus):.3f} ± {pstdev(taus):.3f} ({min(taus):.3f} to {max(taus):.3f}, {SEEDS} seeds): "
        f"{verdict} the aim of {AIM}"
    )
    between = halves(human_ranks)
    print(f"  tau between two halves of the human questions {mean(between):.3f} ± {pstdev(between):.3f}")
    apart = told_apart(human_ranks)
    alike = mean(sum(mrr[better] > mrr[worse] for better, worse in apart) for mrr in by_seed)
    print(f"  of the {len(apart)} pairs of 36 that the human questions tell apart, {alike:.1f} are ranked alike")


if __name__ == "__main__":
    if not DATA.is_dir():
        print(f"skipped: no human-made sets in {DATA}; name their folder in RAGEVAL_DATA_DIR")
        sys.exit()
    shared_vectors = Vectors()
    for chosen in sys.argv[1:] or ("clapnq", "xquad_en"):
        report(chosen, shared_vectors)
    print(
        "\nWhat a keyless benchmark is good for: one system against itself over time, and coarse differences between"
        "\nsystems. For lexical against dense retrieval take human questions, or those of a language model: how many"
        "\nof a passage's words a question repeats decides which of the two looks better; rules only guess that."
    )
