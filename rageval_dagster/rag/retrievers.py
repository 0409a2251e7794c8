"""The built-in retrievers: dense, BM25, and the fusion of rankings."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Protocol

from rageval_dagster.corpus.compatibility import check_embedder
from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.embedding.models import Embedder, Reranker
from rageval_dagster.records import Hit
from rageval_dagster.text import word_spans

if TYPE_CHECKING:
    import numpy as np

BM25_K1, BM25_B = 1.5, 0.75
STEMMER_LANGUAGE = "english"
FUSION_K = 60
"""The constant of reciprocal rank fusion (Cormack, Clarke, Buettcher, SIGIR 2009)."""
FUSION_DEPTH = 100
"""How deep the fused rankings are at least: what one of them has at rank 30 may stand first after fusion."""


RERANKED_TIMES, MOST_RERANKED = 4, 50
"""A model that reranks sees so many times the hits that are asked for, but no more than so many."""


class Retriever(Protocol):
    """Finds a client's chunks. `parameters` are all that decides its results beside the corpus."""

    @property
    def parameters(self) -> Mapping[str, Any]: ...

    def search(self, questions: Sequence[str], depth: int) -> list[list[Hit]]:
        """At most `depth` hits for each question, best first; equal scores stand in the order of their chunk ids."""
        ...


class DenseRetriever:
    """The store's nearest neighbours of the embedded question."""

    def __init__(self, store: ChromaStore, client_id: str, embedder: Embedder) -> None:
        self._store = store
        self._client_id = client_id
        self._embedder = embedder
        self._checked = False

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"retriever": "dense", "embedder": self._embedder.version}

    def search(self, questions: Sequence[str], depth: int) -> list[list[Hit]]:
        """As `Retriever.search`; the score is the cosine.

        Raises:
            EmbeddingError: the store's vectors come from another model than the questions'.
        """
        if not questions:
            return []
        if not self._checked:
            check_embedder(self._store, self._client_id, self._embedder)
            self._checked = True
        return self._store.query(self._client_id, self._embedder.encode(questions), depth)


class Bm25Retriever:
    """BM25 (Lucene's variant) over stemmed words, indexed in memory from the store at the first search.

    Stop words and stemmer are English; words of other languages are matched as they are, or nearly.
    """

    def __init__(self, store: ChromaStore, client_id: str) -> None:
        self._store = store
        self._client_id = client_id

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"retriever": "bm25", "k1": BM25_K1, "b": BM25_B, "stemmer": STEMMER_LANGUAGE}

    def search(self, questions: Sequence[str], depth: int) -> list[list[Hit]]:
        """As `Retriever.search`; chunks that share no word with the question are never hits."""
        rankings = [self._index.search(question, depth) for question in questions]
        chunk_ids = list(dict.fromkeys(chunk_id for ranking in rankings for chunk_id, _ in ranking))
        chunks = {chunk.id: chunk for chunk in self._store.get(self._client_id, chunk_ids)}
        # A chunk deleted since the index was made is left out, and what follows moves up.
        found = [
            [(chunks[chunk_id], score) for chunk_id, score in ranking if chunk_id in chunks] for ranking in rankings
        ]
        return [
            [
                Hit(chunk.id, chunk.document_id, rank, score, chunk.text, chunk.page)
                for rank, (chunk, score) in enumerate(ranking, start=1)
            ]
            for ranking in found
        ]

    @cached_property
    def _index(self) -> "_Bm25Index":
        index = _Bm25Index()
        for page in self._store.scan(self._client_id, with_vectors=False):
            for chunk in page.chunks:
                index.add(chunk.id, chunk.text)
        index.close()
        return index


class _Bm25Index:
    """An index of chunks by their words; it keeps ids and word numbers, no texts."""

    def __init__(self) -> None:
        import Stemmer
        from bm25s import BM25
        from bm25s.stopwords import STOPWORDS_EN

        self._stem = cache(Stemmer.Stemmer(STEMMER_LANGUAGE).stemWord)
        self._stopwords = frozenset(STOPWORDS_EN)
        self._bm25 = BM25(method="lucene", k1=BM25_K1, b=BM25_B)
        self._vocabulary: dict[str, int] = {}
        self._chunk_ids: list[str] = []
        self._documents: list[array[int]] = []

    def add(self, chunk_id: str, text: str) -> None:
        numbers = [self._vocabulary.setdefault(word, len(self._vocabulary)) for word in self._words(text)]
        self._chunk_ids.append(chunk_id)
        self._documents.append(array("i", numbers))

    def close(self) -> None:
        """Makes the index of what was added."""
        import numpy as np

        if self._vocabulary:
            self._bm25.index((self._documents, self._vocabulary), show_progress=False)
        self._documents = []
        self._order_of_ids = np.argsort(np.argsort(np.array(self._chunk_ids, dtype=object), kind="stable"))

    def search(self, question: str, depth: int) -> list[tuple[str, float]]:
        """(chunk id, score), best first."""
        import numpy as np

        numbers = [self._vocabulary[word] for word in self._words(question) if word in self._vocabulary]
        if not numbers:
            return []
        scores: np.ndarray = self._bm25.get_scores_from_ids(numbers)
        best = _best(scores, self._order_of_ids, depth)
        return [(self._chunk_ids[row], float(scores[row])) for row in best if scores[row] > 0]

    def _words(self, text: str) -> list[str]:
        words = (match.group().lower() for match in word_spans(text))
        return [self._stem(word) for word in words if word not in self._stopwords]


def _best(scores: "np.ndarray", order: "np.ndarray", depth: int) -> "np.ndarray":
    """The rows of the `depth` best scores, best first; equal ones by `order`, which a partial sort leaves open."""
    import numpy as np

    rows = np.arange(len(scores))
    if depth < len(scores):
        worst = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        rows = np.flatnonzero(scores >= worst)
    return rows[np.lexsort((order[rows], -scores[rows]))][:depth]


class FusedRetriever:
    """Several retrievers in one ranking, by reciprocal rank fusion; `weights` are how much each counts."""

    def __init__(self, retrievers: Sequence[Retriever], weights: Sequence[float] | None = None) -> None:
        self._retrievers = retrievers
        self._weights = weights or [1.0] * len(retrievers)

    @property
    def parameters(self) -> Mapping[str, Any]:
        fused = [dict(retriever.parameters) for retriever in self._retrievers]
        alike = len(set(self._weights)) == 1
        weights = {} if alike else {"weights": list(self._weights)}
        return {"retriever": "fused", "k": FUSION_K, "depth": FUSION_DEPTH, "of": fused, **weights}

    def search(self, questions: Sequence[str], depth: int) -> list[list[Hit]]:
        """As `Retriever.search`; the score is the fused one."""
        rankings = [retriever.search(questions, max(depth, FUSION_DEPTH)) for retriever in self._retrievers]
        return [fuse(each, depth, self._weights) for each in zip(*rankings, strict=True)]


class RerankedRetriever:
    """Another retriever's hits in the order of a model that reads the question and a chunk together."""

    def __init__(self, retriever: Retriever, reranker: Reranker) -> None:
        self._retriever = retriever
        self._reranker = reranker

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            "retriever": "reranked",
            "reranker": self._reranker.version,
            "of": dict(self._retriever.parameters),
            "times": RERANKED_TIMES,
            "most": MOST_RERANKED,
        }

    def search(self, questions: Sequence[str], depth: int) -> list[list[Hit]]:
        """As `Retriever.search`; the score is the model's."""
        found = self._retriever.search(questions, max(depth, min(RERANKED_TIMES * depth, MOST_RERANKED)))
        return [self._reranked(question, hits)[:depth] for question, hits in zip(questions, found, strict=True)]

    def _reranked(self, question: str, hits: Sequence[Hit]) -> list[Hit]:
        scored = zip(self._reranker.scores(question, [hit.text for hit in hits]), hits, strict=True)
        best = sorted(scored, key=lambda each: (-each[0], each[1].chunk_id))
        return [replace(hit, rank=rank, score=score) for rank, (score, hit) in enumerate(best, start=1)]


def fuse(rankings: Sequence[Sequence[Hit]], depth: int, weights: Sequence[float] | None = None) -> list[Hit]:
    """Reciprocal rank fusion: a chunk's score is the sum of 1 / (60 + rank) over the rankings that hold it.

    Args:
        weights: by which each ranking's part is multiplied; of weight 0 it brings no chunk.
    """
    scores: dict[str, float] = {}
    hits: dict[str, Hit] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        for hit in ranking if weight else ():
            scores[hit.chunk_id] = scores.get(hit.chunk_id, 0.0) + weight / (FUSION_K + hit.rank)
            hits.setdefault(hit.chunk_id, hit)
    best = sorted(scores, key=lambda chunk_id: (-scores[chunk_id], chunk_id))[:depth]
    return [replace(hits[chunk_id], rank=rank, score=scores[chunk_id]) for rank, chunk_id in enumerate(best, start=1)]


def dense_weights(dense_share: float) -> list[float]:
    """The weights of a dense and another ranking, of which the dense one counts so much; 1 and 1 where it is half."""
    return [2 * dense_share, 2 * (1 - dense_share)]
