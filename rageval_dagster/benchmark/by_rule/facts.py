"""What only the whole corpus tells of chunks: which sentences and headings stand elsewhere, which words are rare."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rageval_dagster.benchmark.by_rule.prose import READ_CHARACTERS, Sentence, clean_heading, prose, title, words
from rageval_dagster.records import Chunk

_EDGES = "\"'`*_.,;:()[]\u2018\u2019\u201a\u201c\u201d\u201e"


@dataclass(frozen=True)
class CorpusFacts:
    """What the corpus tells of some of its chunks.

    Attributes:
        repeated: wordings of their sentences that stand in several documents: a question about one has several right
            places, and counts one.
        titles: their documents' titles by document id, but those that two documents have.
        shared_headings: their headings that are lines of several documents.
        chunks_with: in how many chunks of the corpus each of their words stands, as `spaced_words` finds them.
    """

    repeated: frozenset[str]
    titles: Mapping[str, str]
    shared_headings: frozenset[str]
    chunks_with: Mapping[str, int]


def read_corpus(chunks: Sequence[Chunk], corpus: Iterable[Chunk], language: str | None = None) -> CorpusFacts:
    """Reads the corpus once; the chunks are among it.

    Args:
        language: of all chunks; without it, each one's is detected.
    """
    sources = [(chunk, sentence) for chunk in chunks for sentence in prose(chunk, language)[1]]
    repeated = _Repeated(sources)
    headings = {sentence.heading for _, sentence in sources if sentence.heading}
    vocabulary = {word for chunk in chunks for word in spaced_words(chunk.text)}
    documents = {chunk.document_id for chunk in chunks}
    under: dict[str, set[str]] = defaultdict(set)
    titled: dict[str, set[str]] = defaultdict(set)
    chunks_with: Counter[str] = Counter()
    for chunk in corpus:
        repeated.look_in(chunk)
        chunks_with.update(vocabulary & spaced_words(chunk.text))
        if chunk.has_document:
            for heading in headings & {clean_heading(line) for line in chunk.text.split("\n") if len(line) <= 100}:
                under[heading].add(chunk.document_id)
        if chunk.position == 0 and (name := title(chunk.text[:READ_CHARACTERS])):
            titled[name].add(chunk.document_id)
    return CorpusFacts(
        repeated=repeated.found(),
        titles={next(iter(ids)): name for name, ids in titled.items() if len(ids) == 1 and ids <= documents},
        shared_headings=frozenset(heading for heading, ids in under.items() if len(ids) > 1),
        chunks_with=chunks_with,
    )


def wording(text: str) -> str:
    """The words of a text alone: equal for texts that differ in case, punctuation, markup and line breaks."""
    return " ".join(words(text))


def spaced_words(text: str) -> set[str]:
    """The words of a text as spaces part them: a path is one of its own, whatever words it is made of."""
    return {word.strip(_EDGES).removesuffix("'s").removesuffix("\u2019s").lower() for word in text.split()}


class _Repeated:
    """Finds sentences in documents beside their own: looked for only where their longest word stands."""

    def __init__(self, sources: Iterable[tuple[Chunk, Sentence]]) -> None:
        self._documents: dict[str, set[str]] = defaultdict(set)
        for chunk, sentence in sources:
            self._documents[wording(sentence.text)].add(_document(chunk))
        self._by_word: dict[str, list[str]] = defaultdict(list)
        for each in self._documents:
            self._by_word[max(each.split(), key=len, default="")].append(each)

    def look_in(self, chunk: Chunk) -> None:
        held = words(chunk.text)
        text = f" {' '.join(held)} "
        for word in self._by_word.keys() & set(held):
            for each in self._by_word[word]:
                if f" {each} " in text:
                    self._documents[each].add(_document(chunk))

    def found(self) -> frozenset[str]:
        return frozenset(each for each, documents in self._documents.items() if len(documents) > 1)


def _document(chunk: Chunk) -> str:
    """Chunks without a document count as one: evidence in one of them stands for all that hold it."""
    return chunk.document_id if chunk.has_document else ""
