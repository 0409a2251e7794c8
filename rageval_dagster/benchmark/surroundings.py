"""What only the whole corpus tells of chunks: which sentences and titles stand elsewhere too, which words are rare."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rageval_dagster.benchmark.repeated import repeated_wordings
from rageval_dagster.benchmark.sentences import Sentence, clean_heading, eligible, sentences, title
from rageval_dagster.languages import detect
from rageval_dagster.records import Chunk

READ_CHARACTERS = 50_000
"""Of a chunk, from its beginning: one question is wanted, and trying those of a whole megabyte takes minutes."""

_EDGES = "\"'`*_.,;:()[]\u2018\u2019\u201a\u201c\u201d\u201e"
_POSSESSIVE = re.compile(r"['\u2019]s?$")


@dataclass(frozen=True)
class Surroundings:
    """Of some chunks: the wordings of their sentences that stand in several documents of the corpus (`repeated`), the
    titles of their documents that no other document has, how many of the corpus's chunks hold each of their words, and
    which of their headings are lines of several documents (`shared_headings`).
    """

    repeated: frozenset[str]
    titles: Mapping[str, str]
    held_by: Mapping[str, int]
    shared_headings: frozenset[str]


def look_around(chunks: Sequence[Chunk], corpus: Iterable[Chunk], language: str | None = None) -> Surroundings:
    """Reads the corpus once; the chunks are among it.

    Args:
        language: of all chunks; without it, each one's is detected.
    """
    own = {chunk.document_id for chunk in chunks}
    vocabulary = {word for chunk in chunks for word in spaced(chunk.text)}
    held_by: Counter[str] = Counter()
    titles: dict[str, str] = {}
    documents_with: Counter[str] = Counter()
    sources = [(chunk, sentence) for chunk in chunks for sentence in prose(chunk, language)[1]]
    under = {sentence.heading for _, sentence in sources if sentence.heading}
    first_with: dict[str, str] = {}
    shared: set[str] = set()

    def watched() -> Iterator[Chunk]:
        for chunk in corpus:
            held_by.update(vocabulary & spaced(chunk.text))
            if chunk.has_document:
                for heading in under & {clean_heading(line) for line in chunk.text.split("\n") if len(line) <= 100}:
                    if first_with.setdefault(heading, chunk.document_id) != chunk.document_id:
                        shared.add(heading)
            if chunk.position == 0 and (name := title(chunk.text[:READ_CHARACTERS])):
                documents_with[name] += 1
                if chunk.document_id in own:
                    titles[chunk.document_id] = name
            yield chunk

    repeated = repeated_wordings(((chunk, sentence.text) for chunk, sentence in sources), watched())
    alone = {document_id: name for document_id, name in titles.items() if documents_with[name] == 1}
    return Surroundings(repeated, alone, held_by, frozenset(shared))


def prose(chunk: Chunk, language: str | None) -> tuple[str | None, list[Sentence]]:
    """The language of what is read of a chunk, as far as it is known, and its complete sentences."""
    text = chunk.text[:READ_CHARACTERS]
    language = language or detect(text)
    return language, sentences(text, language) if eligible(text) else []


def spaced(text: str) -> set[str]:
    """The words of a text as spaces part them: a path is one of its own, whatever words it is made of."""
    return {_POSSESSIVE.sub("", word.strip(_EDGES)).lower() for word in text.split()}
