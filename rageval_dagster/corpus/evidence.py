"""From evidence to chunks: which chunks of the corpus as it is now hold an item's exact words."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.records import Chunk, Evidence, Item
from rageval_dagster.storage.corpus import document_chunks, iter_manifest
from rageval_dagster.storage.database import Database, in_batches
from rageval_dagster.text import normalise_whitespace

_DOCUMENTS_AT_A_TIME = 200
_NEAREST = 3


@dataclass(frozen=True)
class Resolution:
    """What an item's evidence stands for in a corpus.

    `chunks` are the ids of the chunks that hold its quotes, `documents` the ids of the documents that its evidence
    stands for; each is None where nothing resolves to one. `unresolved` is the evidence whose document the corpus does
    not have, or whose quote that document does not (any more) hold; `of_each` the chunk ids of the evidence with a
    quote.
    """

    chunks: frozenset[str] | None
    documents: frozenset[str] | None
    unresolved: tuple[Evidence, ...] = ()
    of_each: Mapping[Evidence, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Found:
    chunks: frozenset[str]
    documents: frozenset[str]


def resolve(items: Iterable[Item], db: Database, store: ChromaStore, client_id: str) -> dict[str, Resolution]:
    """Resolves every item's evidence in the client's corpus as last scanned; item id -> its resolution.

    Evidence with a quote stands for the chunks of its document that contain the quote, whitespace aside; if none does,
    for those that overlap half of it (of a quote longer than two chunks: that lie within it by half). Where it
    names a page and the quote is found there, chunks of other pages do not count. Evidence without a quote
    stands for its document alone.

    Where the store does not name a chunk's document, the chunk's own id stands for it, and may be another tomorrow. So
    evidence that names such a chunk, or a document that the corpus does not have, stands for all chunks
    without a document that hold its quote, by the same rules. Evidence whose document exists is looked for only there.

    Raises:
        StoreError: the store does not answer or does not know the client.
    """
    items = list(items)
    asked = {evidence for item in items for evidence in item.evidence}
    resolved: dict[Evidence, _Found | None] = {}
    documents = sorted({evidence.document_id for evidence in asked})
    for part in map(set, in_batches(documents, _DOCUMENTS_AT_A_TIME)):
        resolved.update(_resolve_in(part, [each for each in asked if each.document_id in part], db, store, client_id))
    by_content = [evidence for evidence in asked if evidence not in resolved]
    resolved.update(_resolve_anywhere(by_content, db, store, client_id))
    return {item.item_id: _resolution(item, resolved) for item in items}


def _resolve_in(
    document_ids: set[str], asked: Sequence[Evidence], db: Database, store: ChromaStore, client_id: str
) -> dict[Evidence, _Found | None]:
    """What evidence stands for in its own document, None where that does not hold it.

    Left out is evidence with a quote whose document the corpus does not have, or only as a chunk without one.
    """
    manifest = document_chunks(db, client_id, sorted(document_ids))
    named = {
        name: entries
        for name, entries in manifest.items()
        if any(entry.chunk_id != entry.document_id for entry in entries)
    }
    quoted = {evidence.document_id for evidence in asked if normalise_whitespace(evidence.quote or "")}
    chunk_ids = [entry.chunk_id for name, entries in named.items() if name in quoted for entry in entries]
    by_document: dict[str, list[Chunk]] = {}
    for chunk in store.get(client_id, chunk_ids):
        by_document.setdefault(chunk.document_id, []).append(chunk)
    resolved: dict[Evidence, _Found | None] = {}
    for evidence in asked:
        itself = frozenset([evidence.document_id])
        if not normalise_whitespace(evidence.quote or ""):
            resolved[evidence] = _Found(frozenset(), itself) if evidence.document_id in manifest else None
        elif evidence.document_id in named:
            found = matching_chunks(evidence.quote or "", evidence.page, by_document.get(evidence.document_id, []))
            resolved[evidence] = _Found(frozenset(found), itself) if found else None
    return resolved


def _resolve_anywhere(
    asked: Sequence[Evidence], db: Database, store: ChromaStore, client_id: str
) -> dict[Evidence, _Found | None]:
    """What evidence stands for among all chunks without a document, which are read once for all of it."""
    if not asked:
        return {}
    pages = iter_manifest(db, client_id, without_document=True)
    chunks = (chunk for page in pages for chunk in store.get(client_id, [entry.chunk_id for entry in page]))
    return {evidence: _Found(ids, ids) if ids else None for evidence, ids in find_quotes(asked, chunks).items()}


def find_quotes(asked: Sequence[Evidence], chunks: Iterable[Chunk]) -> dict[Evidence, frozenset[str]]:
    """The ids of the chunks that hold each evidence's quote, by the rules of `resolve`, whatever their document."""
    matches: dict[Evidence, list[_Match]] = {evidence: [] for evidence in asked}
    quotes = _Quotes([(_Words.of(evidence.quote or ""), matches[evidence]) for evidence in asked])
    for chunk in chunks:
        _collect(chunk, quotes.possible(chunk))
    return {
        evidence: frozenset(_chosen(_Words.of(evidence.quote or ""), evidence.page, found))
        for evidence, found in matches.items()
    }


def _resolution(item: Item, resolved: Mapping[Evidence, _Found | None]) -> Resolution:
    chunks: set[str] = set()
    documents: set[str] = set()
    unresolved: list[Evidence] = []
    of_each: dict[Evidence, frozenset[str]] = {}
    for evidence in item.evidence:
        found = resolved[evidence]
        if found is None:
            unresolved.append(evidence)
            continue
        chunks |= found.chunks
        documents |= found.documents
        if found.chunks:
            of_each[evidence] = found.chunks
    return Resolution(frozenset(chunks) or None, frozenset(documents) or None, tuple(unresolved), of_each)


def matching_chunks(quote: str, page: int | None, chunks: Sequence[Chunk]) -> list[str]:
    """The ids of a document's chunks that hold the quote, by the rules of `resolve`."""
    words = _Words.of(quote)
    matches: list[_Match] = []
    for chunk in chunks:
        _collect(chunk, [(words, matches)])
    return _chosen(words, page, matches)


@dataclass(frozen=True)
class _Words:
    """A text with its white space normalised; `head` and `tail` are its shortest beginning and end with half of it.

    Lengths do not count spaces.
    """

    text: str
    length: int
    head: str
    tail: str

    @classmethod
    def of(cls, text: str) -> "_Words":
        text = normalise_whitespace(text)
        length = _length(text)
        half = (length + 1) // 2
        return cls(text, length, text[: _size(text, half)], text[len(text) - _size(text[::-1], half) :])


@dataclass(frozen=True)
class _Match:
    """How much of a quote a chunk holds at an edge (spaces aside), or all of it (`contains`)."""

    chunk_id: str
    page: int | None
    words_hash: str
    length: int
    overlap: int
    contains: bool


class _Quotes:
    """Many quotes at once: which of them a chunk may hold is told by single words, so that most are never compared."""

    def __init__(self, quotes: Sequence[tuple[_Words, list[_Match]]]) -> None:
        self._quotes = quotes
        self._longest = max((quote.length for quote, _ in quotes), default=0)
        self._by_word: dict[str, set[int]] = {"": set()}
        for number, (quote, _) in enumerate(quotes):
            # The first and the last word may be cut. Where nothing else is left, the quote is always compared.
            anchors = [max(part.split()[1:-1], key=len, default="") for part in (quote.head, quote.tail)]
            for anchor in anchors if all(anchors) else [""]:
                self._by_word.setdefault(anchor, set()).add(number)

    def possible(self, chunk: Chunk) -> list[tuple[_Words, list[_Match]]]:
        """Those that the chunk may hold half of, and those of which it may be a part."""
        words = chunk.text.split()
        length = sum(map(len, words))
        numbers = set().union(*(self._by_word[word] for word in self._by_word.keys() & {"", *words}))
        if length < self._longest:
            numbers.update(number for number, (quote, _) in enumerate(self._quotes) if quote.length > length)
        return [self._quotes[number] for number in sorted(numbers)]


def _collect(chunk: Chunk, quotes: Iterable[tuple[_Words, list[_Match]]]) -> None:
    """Adds the chunk to the matches of every quote of which it holds enough to count."""
    text = normalise_whitespace(chunk.text)
    length = _length(text)
    own: _Words | None = None
    for quote, matches in quotes:
        # What counts has half of the shorter one, at its own edge: so the other has its head or its tail.
        if quote.length <= length:
            if quote.head not in text and quote.tail not in text:
                continue
        else:
            own = own or _Words.of(text)
            if own.head not in quote.text and own.tail not in quote.text:
                continue
        contains = quote.text in text
        overlap = quote.length if contains else _overlap(quote.text, text)
        if overlap:
            matches.append(_Match(chunk.id, chunk.page, chunk.words_hash, length, overlap, contains))


def _chosen(quote: _Words, page: int | None, matches: Sequence[_Match]) -> list[str]:
    if page is not None:
        found = _chosen(quote, None, [match for match in matches if match.page in (page, None)])
        return found or _chosen(quote, None, matches)
    containing = [match for match in matches if match.contains]
    overlapping = [match for match in matches if match.overlap >= quote.length / 2]
    if containing or overlapping:
        return [match.chunk_id for match in containing or overlapping]
    within = [match for match in matches if match.overlap >= match.length / 2]
    # A heading that the quote mentions is not the quote, however often it stands: together they make up half of it.
    together = sum({match.words_hash: match.overlap for match in within}.values())
    return [match.chunk_id for match in within] if together >= quote.length / 2 else []


def _overlap(quote: str, text: str) -> int:
    """How many characters of the quote, spaces aside, stand at an edge of the text, or are all of it.

    0 where that is less than half of the shorter one.
    """
    if text in quote:
        return _length(text)
    half = (min(_length(quote), _length(text)) + 1) // 2
    ending, starting = _seam(text, quote, half), _seam(quote, text, half)
    return max(_length(quote[:ending]), _length(quote[len(quote) - starting :]))


def _seam(left: str, right: str, half: int) -> int:
    """The length of the longest end of `left` that is a beginning of `right`; 0 where it has less than `half`."""
    least = right[: _size(right, half)]
    start = left.find(least, max(len(left) - len(right), 0))
    while start >= 0 and not right.startswith(left[start:]):
        start = left.find(least, start + 1)
    return len(left) - start if start >= 0 else 0


def _size(text: str, length: int) -> int:
    """How many characters from its start hold `length` that are no spaces."""
    size = length
    while (missing := length - _length(text[:size])) > 0:
        size += missing
    return size


def _length(text: str) -> int:
    return len(text) - text.count(" ")


def nearest_matches(document_id: str, known_ids: Iterable[str]) -> list[str]:
    """Up to three known document ids that may be meant: those with the same file name first, then similar ones."""
    known = sorted(set(known_ids))
    stem = PurePosixPath(document_id).stem.casefold()
    same_name = [each for each in known if PurePosixPath(each).stem.casefold() == stem]
    similar = difflib.get_close_matches(document_id, known, n=_NEAREST)
    return list(dict.fromkeys(same_name + similar))[:_NEAREST]
