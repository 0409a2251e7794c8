"""Which chunks of a sample have to do with each other, told by the words that few of them share."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import islice
from math import log, sqrt

from rageval_dagster import languages
from rageval_dagster.benchmark.by_rule.facts import CorpusFacts, read_corpus
from rageval_dagster.identity import digest
from rageval_dagster.metrics.answer_match import words_of
from rageval_dagster.records import Chunk

LEAST_ALIKE = 0.08
"""Half of the paragraphs of an encyclopedia have another article's above it in a sample of 250 (ClapNQ, XQuAD): whether
the two can be combined is left to the model."""
MOST_ALIKE = 0.9
"""What is more alike says the same: either alone answers what both do."""
PARTNERS = 2
"""One a draft."""
COMMON = 200
"""Words in more chunks than this tell nothing about two of them."""


class Related:
    """A sample's chunks by their words. They are read when something is asked for the first time.

    Similarity is the cosine of their distinct words, weighted by log(1 + chunks / chunks with the word); words are
    cut to five letters, as `answer_match` does. `language` is that of all chunks; without it, each one's is detected.
    `corpus` gives the chunks that the sample was drawn from; without it, the sample is the corpus.
    """

    def __init__(
        self,
        chunks: Iterable[Chunk],
        language: str | None = None,
        seed: int = 0,
        corpus: Callable[[], Iterable[Chunk]] | None = None,
    ) -> None:
        self._corpus = corpus
        self._chunks = list({chunk.content_key: chunk for chunk in chunks}.values())
        self._language = language
        self._seed = seed
        self._partners: dict[str, list[Chunk]] = {}

    @cached_property
    def facts(self) -> CorpusFacts:
        """What the corpus tells of the sample's chunks."""
        return read_corpus(self._chunks, self._corpus or (lambda: self._chunks), self._language)

    def language(self, chunk: Chunk) -> str | None:
        """The chunk's language as two letters, None where it cannot be told."""
        return self._language or languages.detect(chunk.text)

    def partners(self, chunk: Chunk) -> list[Chunk]:
        """Chunks of other documents, in its language, that have to do with a chunk without repeating it; best first.

        Of those that are equally alike, the seed decides.
        """
        if chunk.content_key not in self._partners:
            found = [
                (-cosine, digest(str(self._seed), other.content_key), other)
                for cosine, other in self._alike(self._words(chunk.text))
                if LEAST_ALIKE <= cosine < MOST_ALIKE and other.document_id != chunk.document_id
            ]
            found.sort(key=lambda entry: entry[:2])
            speaking_alike = (other for *_, other in found if self.language(other) == self.language(chunk))
            self._partners[chunk.content_key] = list(islice(speaking_alike, PARTNERS))
        return self._partners[chunk.content_key]

    def nearest(self, text: str, number: int, but: Chunk) -> list[Chunk]:
        """The chunks that share most with a text, best first; fewer where others share nothing with it."""
        found = [(-cosine, other.content_key, other) for cosine, other in self._alike(self._words(text))]
        found.sort(key=lambda entry: entry[:2])
        return [other for _, key, other in found if key != but.content_key][:number]

    def _alike(self, words: frozenset[str]) -> Iterable[tuple[float, Chunk]]:
        products: dict[int, float] = defaultdict(float)
        for word in sorted(words):  # in one order: sums of floats depend on it
            held_by = self._places.get(word, ())
            if len(held_by) <= COMMON:
                for place in held_by:
                    products[place] += self._weight(word) ** 2
        length = self._length(words)
        return [(product / (length * self._lengths[place]), self._chunks[place]) for place, product in products.items()]

    @cached_property
    def _read(self) -> list[frozenset[str]]:
        return [self._words(chunk.text) for chunk in self._chunks]

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = defaultdict(list)
        for place, words in enumerate(self._read):
            for word in words:
                places[word].append(place)
        return dict(places)

    @cached_property
    def _lengths(self) -> list[float]:
        return [self._length(words) for words in self._read]

    def _length(self, words: Iterable[str]) -> float:
        return sqrt(sum(self._weight(word) ** 2 for word in sorted(words)))

    def _weight(self, word: str) -> float:
        return log(1 + len(self._chunks) / max(len(self._places.get(word, ())), 1))

    def _words(self, text: str) -> frozenset[str]:
        found = words_of(text, self._language or languages.detect(text))
        return found.pairs.union(found.order)
