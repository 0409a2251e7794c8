"""What only the whole corpus tells of chunks: what is furniture or stands elsewhere, what documents are about."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import PurePosixPath

from rageval_dagster.benchmark.by_rule.prose import (
    HEADING_MARK,
    MAX_MARKED,
    READ_CHARACTERS,
    Sentence,
    clean_heading,
    entry,
    heading_keys,
    line_key,
    prose,
    titles,
    without_number,
    words,
)
from rageval_dagster.benchmark.by_rule.subjects import noun_phrases, nouns, subject
from rageval_dagster.benchmark.by_rule.terms import Surroundings, Term, content_words, terms
from rageval_dagster.records import Chunk
from rageval_dagster.text import is_character, word_spans

FURNITURE = 3
"""A line that stands in so many chunks is no part of what any of them says: a page header, a menu, a standing heading.
Neighbours that overlap share a line by twos."""

MAX_LINE = 120
"""Characters of a heading, or of a line that may be furniture."""
FEW, FEW_SHARE = 2, 0.1
"""In more documents, and in a larger share of them, a title or heading is nobody's topic."""

NAMED, NAMED_SHARE = 3, 0.3
"""In so many chunks of one document, and such a share of them, and in no other's, a name is what it is about."""

COMMON, COMMON_SHARE = 100, 0.05
"""A term whose rarest word is in more chunks, and in a larger share of them, is not looked for: it tells too little."""

TELLING, TELLING_SHARE = 3, 0.01
"""A word of no more chunks, or of such a share of them, tells something of what it is said of."""
MAX_BEGINNING, MIN_ENDING = 8, 7
"""Words."""
RARE = 2
"""What is asked about stands together in no more chunks: neighbours that overlap are two."""

_VERSION = re.compile(r"#+ (?:[^\W\d_]+ )?\W*v?\d+(?:\.\d+)+[\w.+-]*[\W\d]*")
ARTICLE = 3
"""Chunks. Cut at 800 characters, three quarters of an encyclopedia stand in such documents, of manuals a third."""
SHORT = 2
"""A document of no more chunks is about little else than its title: what it names by the way tells enough there."""
VERSIONS = 3
"""A document with so many headings that are versions lists what changed, and says of nothing what it is; so do so many
documents whose titles differ in a version."""
_DOTTED = re.compile(r"\d+(?:\.\d+)+")
_OF_WHAT = re.compile(r"(?<=\S) \((?:[^()]|\([^()]*\))+\)$")
"""What many titles end with in parentheses."""

Read = tuple[Sentence, Term | None, Sequence[Term]]
"""A sentence, its subject, if that is plain, and all that it names."""


@dataclass(frozen=True)
class Passage:
    """A chunk as it is read: its language, and its sentences, each with its subject, if that is plain, and all that it
    names; `words` is how often they have each word that carries meaning.
    """

    chunk: Chunk
    language: str | None
    sentences: Sequence[Read]
    words: Mapping[str, int]


@dataclass(frozen=True)
class CorpusFacts:
    """What the corpus tells of some of its chunks.

    Attributes:
        passages: those chunks by content key, read without the lines that many chunks have.
        repeated: wordings of their sentences that stand in several documents, or in several places of one: a question
            about one has several right places, and counts one.
        alike: wordings of those of which all but the beginning stands in many documents: "The kedge is a part of the
            Larvik suite of tools", as each of its tools says of itself.
        titles: the documents' titles by document id, and how many documents have each.
        names: of their documents, by document id, a name that they speak of again and again, and no other does.
        headings: where each heading of theirs has sentences under it, by its `heading_keys`: the numbers of the chunks
            in the corpus, ascending, each with the first of the sentences.
        spoken: of their documents, by document id, the words of the title that stand in their text; and the
            file's name, if it does whole, as it stands there.
        sections: which documents have a section of each of their headings, by its wording.
        pages: which documents of the corpus have a name in their title, or as their file's name, by its wording.
        places: in which chunks of the corpus each of their terms stands, by its wording: their numbers in the
            corpus. Common ones are left out.
        documents: the document id of each chunk of the corpus.
        of_changes: those of their documents that list what changed from version to version.
        few: what more documents have than so many is nobody's topic.
        chunks_with: in how many chunks of the corpus each of their words stands, in lower case.
        nouns: by language, those of their words that plainly are nouns, in lower case.
    """

    passages: Mapping[str, Passage]
    repeated: frozenset[str]
    alike: frozenset[str]
    titles: Mapping[str, tuple[str, int]]
    names: Mapping[str, str]
    headings: Mapping[str, Sequence[tuple[int, str]]]
    spoken: Mapping[str, frozenset[str]]
    sections: Mapping[str, frozenset[str]]
    pages: Mapping[str, frozenset[str]]
    places: Mapping[str, frozenset[int]]
    documents: Sequence[str]
    of_changes: frozenset[str]
    few: int
    chunks_with: Mapping[str, int]
    nouns: Mapping[str | None, frozenset[str]]

    @cached_property
    def is_of_articles(self) -> bool:
        """Whether most of the corpus stands in documents of no more than `ARTICLE` chunks."""
        sizes = Counter(self.documents)
        return 2 * sum(size for size in sizes.values() if size <= ARTICLE) > len(self.documents)

    def is_single(self, heading: str, document_id: str | None = None) -> bool:
        """Whether a heading stands in one place of the corpus, or of a document: neighbours, which overlap, are one.

        A name is not single where others end with it: "total" beside "Order.total".
        """
        found = self.headings.get(heading_keys(heading)[0], ())
        places = [each for each in found if document_id in (None, self.documents[each[0]])]
        return all(
            here - before == 1 and self.documents[before] == self.documents[here] and text == same
            for (before, text), (here, same) in pairwise(places)
        )

    def has_own_page(self, name: str, document_id: str) -> bool:
        """Whether another document is about what a name stands for: "Apache Module mod_ldap"."""
        return bool(self.pages.get(wording(name), frozenset()) - {document_id})

    def has_own_section(self, name: str, document_id: str) -> bool:
        """Whether another document, or a section of it, is about what a name stands for."""
        elsewhere = self.sections.get(wording(name), frozenset()) - {document_id}
        return bool(elsewhere) or self.has_own_page(name, document_id)


def read_corpus(
    chunks: Sequence[Chunk], corpus: Callable[[], Iterable[Chunk]], language: str | None = None
) -> CorpusFacts:
    """Reads the corpus twice; the chunks are among it.

    Args:
        language: of all chunks; without it, each one's is detected.
    """
    lines = _Lines({line_key(line) for chunk in chunks for line in _lines(chunk)})
    written = {match.group() for chunk in chunks for match in word_spans(chunk.text[:READ_CHARACTERS])}
    vocabulary = {word.lower() for word in written}
    chunks_with: Counter[str] = Counter()
    opening: dict[str, list[Chunk]] = defaultdict(list)
    size = 0
    for chunk in corpus():
        size += 1
        chunks_with.update(vocabulary.intersection(words(chunk.text)))
        lines.look_in(chunk)
        if (chunk.position or 0) <= 1 and len(opening[chunk.document_id]) < 2:
            opening[chunk.document_id].append(chunk)
    opening = {key: found for key, found in opening.items() if any(not chunk.position for chunk in found)}
    few = max(FEW, int(FEW_SHARE * len(opening)))
    furniture = lines.furniture(few)
    in_lower_case = frozenset(filter(str.islower, written))
    common = frozenset(word for word, count in chunks_with.items() if count > max(TELLING, TELLING_SHARE * size))
    around = Surroundings("", language, in_lower_case, common)
    standing = lines.standing()
    passages = {
        chunk.content_key: _read(chunk, furniture, standing.get(chunk.document_id, set()), around) for chunk in chunks
    }
    looked = _Wordings(chunks_with, max(COMMON, int(COMMON_SHARE * size)))
    endings: dict[str, str] = {}
    for passage in passages.values():
        for sentence, opening_term, found in passage.sentences:
            said = wording(sentence.text)
            endings[said] = _ending(said)
            looked.want(said)
            looked.want(endings[said])
            for term in (*found, *([opening_term] if opening_term else [])):
                looked.want(wording(term.text))
            for term in noun_phrases(sentence.text, passage.language):
                if is_character(term.text[0]) or " " in term.text or chunks_with[term.text.lower()] <= RARE:
                    looked.want(wording(term.text))
    named = _titles(opening, lines.of_many_documents(few), few)
    headings = {
        heading_keys(sentence.heading)[0]
        for passage in passages.values()
        for sentence, *_ in passage.sentences
        if sentence.heading
    }
    under: dict[str, list[tuple[int, str]]] = defaultdict(list)
    spoken: dict[str, set[str]] = {chunk.document_id: set() for chunk in chunks if chunk.has_document}
    about = {each: frozenset(content_words(named.get(each, ("", 0))[0], None)) for each in spoken}
    for chunk in corpus():
        looked.look_in(chunk)
        if not headings.isdisjoint(key for line in _lines(chunk) for key in heading_keys(line)):
            known = passages.get(chunk.content_key)
            said = [each[0] for each in known.sentences] if known else prose(chunk, language, furniture)[1]
            before = None
            for sentence in said:
                if sentence.heading and (sentence.opens or sentence.heading != before):
                    for heading in headings.intersection(heading_keys(sentence.heading, is_heading=True)):
                        under[heading].append((len(looked.documents) - 1, sentence.text))
                before = sentence.heading
        if chunk.document_id in spoken:
            title = named.get(chunk.document_id, ("", 0))[0]
            text = "\n".join(line for line in chunk.text.split("\n") if not title or title not in line)
            spoken[chunk.document_id] |= about[chunk.document_id].intersection(content_words(text, None))
            name = file_name(chunk.document_id)
            if f" {wording(name)} " in f" {wording(chunk.text)} ":
                is_so = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", chunk.text, re.IGNORECASE)
                spoken[chunk.document_id].add(name if is_so else name.replace("-", " "))
    return CorpusFacts(
        passages=passages,
        repeated=frozenset(key for key, found in looked.places.items() if looked.is_apart(found)),
        alike=frozenset(
            said
            for said, ending in endings.items()
            if len(looked.documents_of(looked.places.get(ending, ()))) >= FURNITURE
        ),
        titles=named,
        names=_names(passages.values(), looked),
        headings=under,
        spoken={document_id: frozenset(found) for document_id, found in spoken.items()},
        sections=_sections(passages.values()),
        pages=_pages(named),
        places={key: frozenset(found) for key, found in looked.places.items()},
        documents=looked.documents,
        of_changes=lines.of_changes() | _of_versions(named),
        few=few,
        chunks_with=chunks_with,
        nouns=_nouns(passages.values()),
    )


def file_name(document_id: str) -> str:
    """The name of the file that a document id is the path of."""
    return " ".join(re.split(r"[\s_]+", PurePosixPath(document_id.replace("\\", "/")).stem)).strip()


def wording(text: str) -> str:
    """The words of a text alone: equal for texts that differ in case, punctuation, markup and line breaks."""
    return " ".join(words(text))


def _ending(said: str) -> str:
    """Most of a sentence's wording, without what it says it of; of a short one nothing."""
    found = said.split()
    ending = found[min(len(found) // 3, MAX_BEGINNING) :]
    return " ".join(ending) if len(ending) >= MIN_ENDING else ""


def _lines(chunk: Chunk) -> list[str]:
    lines = chunk.text[:READ_CHARACTERS].split("\n")
    return [line for line in lines if 0 < len(line) <= (MAX_MARKED if line.endswith(HEADING_MARK) else MAX_LINE)]


def _read(chunk: Chunk, furniture: Collection[str], standing: Collection[str], around: Surroundings) -> Passage:
    language, found = prose(chunk, around.language, furniture, standing)
    around = replace(around, text=" ".join(sentence.text for sentence in found), language=language)
    read = [(sentence, terms(sentence.text, around)) for sentence in found]
    return Passage(
        chunk,
        language,
        [(sentence, subject(sentence.text, named, around), named) for sentence, named in read],
        around.stems,
    )


def _titles(opening: Mapping[str, list[Chunk]], furniture: frozenset[str], few: int) -> dict[str, tuple[str, int]]:
    """The title of each document that has one, as the store or its beginning tells, and how many have it."""
    known = {
        document_id: [clean_heading(chunks[0].title)] if chunks[0].title else titles(_beginning(chunks), furniture)
        for document_id, chunks in opening.items()
    }
    titled: dict[str, set[str]] = defaultdict(set)
    first: dict[str, str] = {}
    # Of what: "Expressions (Manual of the program)".
    ends = Counter(match.group() for found in known.values() for match in map(_OF_WHAT.search, found[:1]) if match)
    for document_id, found in known.items():
        for title in found:
            match = _OF_WHAT.search(title)
            plain = title[: match.start()] if match and ends[match.group()] > few else title
            titled[plain].add(document_id)
            first.setdefault(document_id, plain)
    return {each: (title, len(titled[title])) for each, title in first.items()}


def _beginning(chunks: list[Chunk]) -> str:
    """Of a document, from its first chunks: the first may be a line alone, such as what the page is part of."""
    first, *following = sorted(chunks, key=lambda chunk: chunk.position or 0)
    text = first.text[:READ_CHARACTERS]
    is_line = "\n" not in text.strip() and len(text) <= MAX_LINE
    goes_on = is_line and following and following[0].position == 1
    return f"{text}\n\n{following[0].text[:READ_CHARACTERS]}" if goes_on else text


def _sections(passages: Iterable[Passage]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for passage in passages:
        for heading in {sentence.heading for sentence, *_ in passage.sentences if sentence.heading}:
            found[wording(without_number(heading))].add(passage.chunk.document_id)
    return {key: frozenset(documents) for key, documents in found.items()}


def _pages(titles: Mapping[str, tuple[str, int]]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for document_id, (title, _) in titles.items():
        for name in filter(entry, (*title.split(), file_name(document_id))):
            found[wording(name)].add(document_id)
    return {key: frozenset(documents) for key, documents in found.items()}


def _of_versions(titles: Mapping[str, tuple[str, int]]) -> frozenset[str]:
    """The documents of a series whose titles differ in a version alone: "Django 1.7 release notes"."""
    alike: dict[str, set[str]] = defaultdict(set)
    for document_id, (title, _) in titles.items():
        if _DOTTED.search(title):
            alike[_DOTTED.sub("0", title)].add(document_id)
    return frozenset(each for found in alike.values() if len(found) >= VERSIONS for each in found)


def _names(passages: Iterable[Passage], looked: "_Wordings") -> dict[str, str]:
    """The name that most chunks of each document hold, and no other document."""
    sizes = Counter(looked.documents)
    best: dict[str, tuple[int, str]] = {}
    for passage in passages:
        document_id = passage.chunk.document_id
        for term in [term for *_, found in passage.sentences for term in found if term.kind == "name"]:
            where = looked.places.get(wording(term.text), ())
            least = max(NAMED, NAMED_SHARE * sizes[document_id])
            if len(where) >= least and looked.documents_of(where) == {document_id}:
                best[document_id] = max(best.get(document_id, (0, "")), (len(where), term.text))
    return {document_id: name for document_id, (_, name) in best.items()}


def _nouns(passages: Iterable[Passage]) -> dict[str | None, frozenset[str]]:
    texts: dict[str | None, list[str]] = defaultdict(list)
    for passage in passages:
        texts[passage.language] += [sentence.text for sentence, *_ in passage.sentences]
    return {language: nouns(found, language) for language, found in texts.items()}


class _Lines:
    """Counts lines over the corpus."""

    def __init__(self, wanted: set[str]) -> None:
        self._wanted = wanted
        self._chunks: Counter[str] = Counter()
        self._opening: Counter[str] = Counter()
        self._documents: dict[str, Counter[str]] = defaultdict(Counter)
        self._versions: dict[str, set[str]] = defaultdict(set)

    def look_in(self, chunk: Chunk) -> None:
        lines = _lines(chunk)
        if chunk.has_document:
            found = {line for line in lines if len(line) <= MAX_LINE and _VERSION.fullmatch(line)}
            self._versions[chunk.document_id] |= found
        keys = [line_key(line) for line in lines if line.strip()]
        self._opening.update(self._wanted.intersection(keys[:1]))
        for key in self._wanted.intersection(keys):
            self._chunks[key] += 1
            self._documents[key][chunk.document_id] += 1

    def furniture(self, few: int) -> frozenset[str]:
        """The lines that are no part of what any chunk says, unless they open a few documents of one chunk each: such
        a line is their title."""
        return frozenset(
            key
            for key, count in self._chunks.items()
            if count >= FURNITURE and not count == self._opening[key] == len(self._documents[key]) <= few
        )

    def standing(self) -> Mapping[str, set[str]]:
        """By document, the lines that stand in many of its chunks: "Parameters:"."""
        found: dict[str, set[str]] = defaultdict(set)
        for key, documents in self._documents.items():
            for document_id, count in documents.items():
                if count >= FURNITURE:
                    found[document_id].add(key)
        return found

    def of_changes(self) -> frozenset[str]:
        """The documents that list what changed from version to version."""
        return frozenset(document_id for document_id, found in self._versions.items() if len(found) >= VERSIONS)

    def of_many_documents(self, few: int) -> frozenset[str]:
        """The lines that are nobody's title; one that other documents link to may be one."""
        return frozenset(key for key, documents in self._documents.items() if len(documents) > few)


@dataclass
class _Wordings:
    """Finds wordings in chunks: each is looked for only where its rarest word stands."""

    chunks_with: Mapping[str, int]
    most: int
    places: dict[str, list[int]] = field(default_factory=dict)
    documents: list[str] = field(default_factory=list)
    _by_word: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _undocumented: set[str] = field(default_factory=set)

    def want(self, key: str) -> None:
        if key and key not in self.places:
            rarest = min(key.split(), key=lambda word: (self.chunks_with.get(word, 0), word))
            if self.chunks_with.get(rarest, 0) <= self.most:
                self.places[key] = []
                self._by_word[rarest].append(key)

    def look_in(self, chunk: Chunk) -> None:
        held = words(chunk.text)
        text = f" {' '.join(held)} "
        self.documents.append(chunk.document_id)
        if not chunk.has_document:
            self._undocumented.add(chunk.document_id)
        for word in self._by_word.keys() & set(held):
            for key in self._by_word[word]:
                if f" {key} " in text:
                    self.places[key].append(len(self.documents) - 1)

    def is_apart(self, places: Sequence[int]) -> bool:
        """Whether chunks are of several documents, or no neighbours in one."""
        documents = self.documents_of(places)
        return len(documents) > 1 or (
            documents != {""} and any(here - before > 1 for before, here in pairwise(sorted(places)))
        )

    def documents_of(self, places: Iterable[int]) -> set[str]:
        """The documents of chunks. Those without one count as one: evidence in one of them stands for all that hold
        it."""
        return {"" if each in self._undocumented else each for each in map(self.documents.__getitem__, places)}
