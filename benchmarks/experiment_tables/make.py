"""Makes the tables that benchmarks/experiments.py replays: 100 configurations of a RAG system x 300 questions.

Usage: python benchmarks/experiment_tables/make.py [SET ...]    (clapnq and xquad_en, in RAGEVAL_DATA_DIR; some minutes)

A configuration is a chunk size, a mix of BM25 and dense ranking (by reciprocal rank fusion), and k. The answers are the
built-in extractive answerer's, so no model is asked. A table holds, for each configuration and question, the score of
the answer: token F1 for clapnq, whose answers are long, the answer match for xquad_en.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from rageval_dagster.corpus.readers import Document, Section
from rageval_dagster.corpus.splitting import ChunkSize, cut
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.metrics.answer_match import answer_match
from rageval_dagster.metrics.lexical import squad_tokens, token_f1
from rageval_dagster.rag.extractive import ExtractiveAnswerer, Match, compose
from rageval_dagster.rag.retrievers import FUSION_K, _Bm25Index
from rageval_dagster.settings import Settings

DATA = Path(os.environ.get("RAGEVAL_DATA_DIR", Path(__file__).parents[2] / "../shared/data"))
HERE = Path(__file__).parent
SPACE = {"chunk_size": [200, 400, 700, 1200], "dense": [0.0, 0.25, 0.5, 0.75, 1.0], "k": [1, 2, 3, 5, 8]}
QUESTIONS = 300
DEPTH = 100


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def questions_of(name: str) -> tuple[list[dict], list[str]]:
    """The first 300 answerable questions of a seeded order, and the passage of each, by which they are clustered."""
    passages = dict(line.split("\t")[:2] for line in (DATA / name / "qrels.tsv").read_text().splitlines())
    asked = [row for row in rows(DATA / name / "queries.jsonl") if row["id"] in passages and not row["is_impossible"]]
    chosen = np.sort(np.random.default_rng(0).permutation(len(asked))[:QUESTIONS])
    asked = [asked[place] for place in chosen]
    return asked, [passages[row["id"]] for row in asked]


def score(name: str, row: dict, answer: str) -> float:
    if name == "clapnq":
        said = squad_counts(answer)
        return max(token_f1(said, squad_counts(reference)) for reference in row["answers"])
    return answer_match(row["text"], row["answers"], answer) or 0.0


def squad_counts(text: str) -> Counter[str]:
    return Counter(squad_tokens(text))


def rankings(asked: Sequence[str], texts: Sequence[str], embedder: Any) -> dict[float, list[list[int]]]:
    """For each share of dense ranking the best chunks of each question."""
    dense = np.argsort(-(embedder.encode(list(asked)) @ embedder.encode(list(texts)).T), axis=1, kind="stable")
    index = _Bm25Index()
    for number, text in enumerate(texts):
        index.add(f"{number:06d}", text)
    index.close()
    found: dict[float, list[list[int]]] = {share: [] for share in SPACE["dense"]}
    for question, by_vector in zip(asked, dense, strict=True):
        by_word = [int(number) for number, _ in index.search(question, DEPTH)]
        for share, lists in found.items():
            fused = np.zeros(len(texts))
            for weight, ranking in ((1 - share, by_word), (share, by_vector[:DEPTH])):
                for rank, number in enumerate(ranking, start=1):
                    fused[number] += weight / (FUSION_K + rank)
            order = np.argsort(-fused, kind="stable")[: max(SPACE["k"])]
            lists.append([int(number) for number in order if fused[number] > 0])
    return found


def table(name: str) -> tuple[np.ndarray, list[str]]:
    settings = Settings()
    embedder: Any = load_embedder(settings.embedding_model, settings)
    answerer = ExtractiveAnswerer(embedder)
    asked, clusters = questions_of(name)
    texts = [row["text"] for row in asked]
    scores: dict[tuple, list[float]] = {}
    for size in SPACE["chunk_size"]:
        chunks = [
            f"{row['title']}\n{piece.text}"
            for row in rows(DATA / name / "corpus.jsonl")
            for piece in cut(Document([Section(row["text"])]), ChunkSize(int(size), 0))
        ]
        ranked = rankings(texts, chunks, embedder)
        shown = [sorted({n for lists in ranked.values() for n in lists[place]}) for place in range(len(texts))]
        # All at once, so that a chunk that many questions find is read once.
        matched = list(answerer.matches(texts, [[chunks[n] for n in numbers] for numbers in shown]))
        for share, k in product(SPACE["dense"], SPACE["k"]):
            scores[size, share, k] = [
                score(name, row, answer_from(matches, numbers, lists[: int(k)]))
                for row, matches, numbers, lists in zip(asked, matched, shown, ranked[share], strict=True)
            ]
        print(f"{name}: chunks of {size}, {len(chunks)} of them", flush=True)
    return np.array([scores[key] for key in product(*SPACE.values())]), clusters


def answer_from(matches: Sequence[Match], numbers: Sequence[int], contexts: Sequence[int]) -> str:
    """The answer from these contexts, of the matches of all that any configuration shows for the question."""
    rank = {number: place for place, number in enumerate(contexts)}
    own = [
        Match(rank[numbers[match.context]], match.sentence, match.support, match.support_around)
        for match in matches
        if numbers[match.context] in rank
    ]
    answer = compose(sorted(own, key=lambda match: match.context))
    return "" if answer.declined else answer.text


if __name__ == "__main__":
    if not DATA.is_dir():
        sys.exit(f"no human-made sets in {DATA}; name their folder in RAGEVAL_DATA_DIR")
    for chosen in sys.argv[1:] or ("xquad_en", "clapnq"):
        values, documents = table(chosen)
        numbers = {document: number for number, document in enumerate(dict.fromkeys(documents))}
        np.savez_compressed(
            HERE / f"{chosen}.npz",
            scores=np.round(values * 250).astype(np.uint8),
            clusters=np.array([numbers[document] for document in documents], dtype=np.uint16),
        )
