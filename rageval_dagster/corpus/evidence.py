"""From evidence to chunks: which chunks of the corpus as it is now hold an item's exact words."""

import difflib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import PurePosixPath
from typing import Generic, TypeVar

from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.records import Chunk, Evidence, Item, page_id
from rageval_dagster.storage.corpus import ManifestEntry, document_chunks, iter_manifest, moved_documents
from rageval_dagster.storage.database import Database, in_batches
from rageval_dagster.text import normalise_whitespace

_DOCUMENTS_AT_A_TIME = 200
_NEAREST = 3
_FEW = 8
"""So few quotes are compared with every chunk, which takes no longer than looking its words up."""


@dataclass(frozen=True)
class Resolution:
    """What an item's evidence stands for in a corpus.

    `chunks` are the ids of the chunks that hold its quotes, and of the pages that it names without one; `documents` the
    ids of the documents that its evidence stands for; each is None where nothing resolves to one. `unresolved` is the
    evidence whose document the corpus does not have, or whose quote that document does not (any more) hold; `of_each`
    has the ids in `chunks` by the evidence that they are of.
    """

    chunks: frozenset[str] | None
    documents: frozenset[str] | None
    unresolved: tuple[Evidence, ...] = ()
    of_each: Mapping[Evidence, frozenset[str]] = field(default_factory=dict)


_Found = tuple[frozenset[str], frozenset[str]] | None
"""The ids of the chunks and of the documents that evidence stands for; None where the corpus does not hold it."""


def names_pages(items: Iterable[Item]) -> bool:
    """Whether at least half of these questions' evidence has a quote or a page.

    Where most know documents only, that is what all are held to: else the headlines, which are those of chunks as soon
    as one question has a score there, would be of a few.
    """
    known = [any(each.is_page or each.quote for each in item.evidence) for item in items if item.evidence]
    return 2 * sum(known) >= len(known)


def resolve(
    items: Iterable[Item], db: Database, store: ChromaStore, client_id: str, by_page: bool = True
) -> dict[str, Resolution]:
    """Resolves every item's evidence in the client's corpus as last scanned; item id -> its resolution.

    Evidence with a quote stands for the chunks of its document that contain the quote, whitespace aside; if none does,
    for those that overlap half of it (of a quote longer than two chunks: that lie within it by half). What such a chunk
    lacks of the quote has to stand in others: a heading that the quote begins with is not what followed it. Where it
    names a page and the quote is found there, chunks of other pages do not count. Evidence without a quote
    stands for its document, and for the page that it names, as a whole, where the store knows the page of each of the
    document's chunks, and one is of that page.

    Where the store does not name a chunk's document, the chunk's own id stands for it, and may be another tomorrow. So
    evidence that names such a chunk, or a document that the corpus does not have, stands for all chunks
    without a document that hold its quote, by the same rules. Evidence whose document exists is looked for only there;
    that of a document which has another id now, under that.

    Args:
        by_page: false leaves pages out (see `names_pages`).

    Raises:
        StoreError: the store does not answer or does not know the client.
    """
    items = list(items)
    named = {evidence for item in items for evidence in item.evidence}
    moved = moved_documents(db, client_id, {evidence.document_id for evidence in named})
    now = {each: replace(each, document_id=moved.get(each.document_id, each.document_id)) for each in named}
    asked = set(now.values())
    found: dict[Evidence, _Found] = {}
    documents = sorted({evidence.document_id for evidence in asked})
    for part in map(set, in_batches(documents, _DOCUMENTS_AT_A_TIME)):
        found.update(_resolve_in(part, [each for each in asked if each.document_id in part], db, store, client_id))
    by_content = [evidence for evidence in asked if evidence not in found]
    found.update(_resolve_anywhere(by_content, db, store, client_id))
    resolved = {each: found[asked_for] for each, asked_for in now.items()}
    return {item.item_id: _resolution(item, resolved, by_page) for item in items}


def _resolve_in(
    document_ids: set[str], asked: Sequence[Evidence], db: Database, store: ChromaStore, client_id: str
) -> dict[Evidence, _Found]:
    """What evidence stands for in its own document, None where that does not hold it.

    Left out is evidence with a quote whose document the corpus does not have, or only as a chunk without one.
    """
    manifest = document_chunks(db, client_id, sorted(document_ids))
    named = {
        name: entries
        for name, entries in manifest.items()
        if any(entry.chunk_id != entry.document_id for entry in entries)
    }
    quoted: dict[str, list[Evidence]] = {}
    resolved: dict[Evidence, _Found] = {}
    for evidence in asked:
        if not normalise_whitespace(evidence.quote or ""):
            entries = manifest.get(evidence.document_id)
            itself = frozenset([evidence.document_id])
            resolved[evidence] = None if entries is None else (_page(evidence, entries), itself)
        elif evidence.document_id in named:
            quoted.setdefault(evidence.document_id, []).append(evidence)
    by_document: dict[str, list[Chunk]] = {}
    for chunk in store.get(client_id, [entry.chunk_id for name in quoted for entry in named[name]]):
        by_document.setdefault(chunk.document_id, []).append(chunk)
    for name, own in quoted.items():
        for evidence, chunk_ids in _find_whole(own, partial(by_document.get, name, [])).items():
            resolved[evidence] = (chunk_ids, frozenset([name])) if chunk_ids else None
    return resolved


def _page(evidence: Evidence, entries: Iterable[ManifestEntry]) -> frozenset[str]:
    """The page that evidence names, if every chunk's page is known and one is of it."""
    pages = {entry.page for entry in entries}
    # Evidence counts pages from 1; a store may count from 0.
    page = evidence.page - (0 in pages) if evidence.page is not None else None
    return frozenset() if None in pages or page not in pages else frozenset([page_id(evidence.document_id, page)])


def _resolve_anywhere(
    asked: Sequence[Evidence], db: Database, store: ChromaStore, client_id: str
) -> dict[Evidence, _Found]:
    """What evidence stands for among all chunks without a document, which are read once for all of it."""
    if not asked:
        return {}

    def chunks() -> Iterator[Chunk]:
        for page in iter_manifest(db, client_id, without_document=True):
            yield from store.get(client_id, [entry.chunk_id for entry in page])

    return {evidence: (ids, ids) if ids else None for evidence, ids in _find_whole(asked, chunks).items()}


def _resolution(item: Item, resolved: Mapping[Evidence, _Found | None], by_page: bool) -> Resolution:
    # One passage cannot be found as a chunk and as its page.
    quoted = {evidence.document_id for evidence in item.evidence if evidence.quote}
    chunks: set[str] = set()
    documents: set[str] = set()
    unresolved: list[Evidence] = []
    of_each: dict[Evidence, frozenset[str]] = {}
    for evidence in item.evidence:
        found = resolved[evidence]
        if found is None:
            unresolved.append(evidence)
            continue
        documents |= found[1]
        if found[0] and not (evidence.is_page and (evidence.document_id in quoted or not by_page)):
            chunks |= found[0]
            of_each[evidence] = found[0]
    return Resolution(frozenset(chunks) or None, frozenset(documents) or None, tuple(unresolved), of_each)


T = TypeVar("T")


class RunIndex(Generic[T]):
    """An index of texts by runs of their words: a chunk is compared with those only that it shares a run with."""

    def __init__(self, runs: Iterable[tuple[Sequence[str], T]]) -> None:
        """Each run with what it belongs to; whatever has the empty run is always found."""
        self._holders: dict[Hashable, list[T]] = {}
        self._lengths: set[int] = set()
        for run, holder in runs:
            self._lengths.add(len(run))
            self._holders.setdefault(_runs_of(run, len(run))[0], []).append(holder)

    def shared(self, words: Sequence[str]) -> Iterator[T]:
        """What the runs of these words belong to, once for each different run."""
        for length in self._lengths:
            for run in self._holders.keys() & set(_runs_of(words, length)):
                yield from self._holders[run]


def _runs_of(words: Sequence[str], length: int) -> Sequence[Hashable]:
    """All runs of so many of the words, in their order; a single word is itself one, which is quicker than a tuple."""
    if length == 1:
        return words
    return list(zip(*(words[start:] for start in range(length)), strict=False)) if length else [()]


class _Words:
    """A text with its white space normalised. `length` and what is half of it do not count spaces."""

    def __init__(self, text: str) -> None:
        self.text = normalise_whitespace(text)
        self.length = _length(self.text)
        self.half = (self.length + 1) // 2

    @cached_property
    def head(self) -> str:
        """The shortest beginning with half of it."""
        return self.text[: _size(self.text, self.half)]

    @cached_property
    def tail(self) -> str:
        """The shortest end with half of it."""
        return self.text[len(self.text) - _size(self.text[::-1], self.half) :]

    def anchors(self) -> list[tuple[str, ...]]:
        """A word of the head and one of the tail; none where one of them may have no whole word."""
        # The first and the last word may be cut.
        anchors = [max(part.split()[1:-1], key=len, default="") for part in (self.head, self.tail)]
        return [(anchor,) for anchor in anchors] if all(anchors) else [()]


@dataclass(frozen=True)
class _Match:
    """How much of a quote a chunk holds at an edge (spaces aside), or all of it (`contains`).

    `start` and `end` are where that stands in the quote, `lacks` are the parts of the quote before and after it.
    """

    chunk: Chunk
    length: int
    overlap: int
    contains: bool
    start: int = 0
    end: int = 0
    lacks: tuple[str, ...] = ()

    def holds_more(self, other: "_Match") -> bool:
        """Whether it holds all that the other one does of the quote, and more."""
        return self.start <= other.start and other.end <= self.end and self.overlap > other.overlap


def find_quotes(asked: Iterable[Evidence], chunks: Iterable[Chunk]) -> dict[Evidence, frozenset[str]]:
    """The ids of the chunks that hold each evidence's quote, or half of it, whatever their document."""
    return {evidence: _ids(matches) for evidence, matches in _matches(asked, chunks).items()}


def _find_whole(asked: Iterable[Evidence], chunks: Callable[[], Iterable[Chunk]]) -> dict[Evidence, frozenset[str]]:
    """As `find_quotes`, but what a chunk lacks of a quote has to stand in these chunks, too, cut or not.

    Of chunks that hold the same part those that hold more of it count.
    """
    found = _matches(asked, chunks())
    lacking = {Evidence("", quote=part) for matches in found.values() for match in matches for part in match.lacks}
    standing = {each.quote for each, ids in (_find_whole(lacking, chunks) if lacking else {}).items() if ids}
    return {
        evidence: _ids(
            match
            for match in matches
            if standing.issuperset(match.lacks) and not any(other.holds_more(match) for other in matches)
        )
        for evidence, matches in found.items()
    }


def _ids(matches: Iterable[_Match]) -> frozenset[str]:
    return frozenset(match.chunk.id for match in matches)


def _matches(asked: Iterable[Evidence], chunks: Iterable[Chunk]) -> dict[Evidence, Sequence[_Match]]:
    """The chunks that stand for each evidence's quote."""
    quotes = {evidence: _Words(evidence.quote or "") for evidence in asked}
    matches: dict[Evidence, list[_Match]] = {evidence: [] for evidence in quotes}
    index = None
    if len(quotes) > _FEW:
        index = RunIndex((anchor, evidence) for evidence, quote in quotes.items() for anchor in quote.anchors())
    longest = max((quote.length for quote in quotes.values()), default=0)
    for chunk in chunks:
        text = _Words(chunk.text)
        possible: Iterable[Evidence] = quotes
        if index is not None:
            # Those that the chunk may hold half of, and those of which it may be a part.
            possible = set(index.shared(text.text.split()))
            if text.length < longest:
                possible.update(evidence for evidence, quote in quotes.items() if quote.length > text.length)
        for evidence in possible:
            match = _match(quotes[evidence], chunk, text)
            if match is not None:
                matches[evidence].append(match)
    return {evidence: _chosen(quotes[evidence], evidence.page, found) for evidence, found in matches.items()}


def _match(quote: _Words, chunk: Chunk, text: _Words) -> _Match | None:
    """How much of a quote a chunk holds; None where that is less than half of the shorter one."""
    shorter, longer = (quote, text) if quote.length <= text.length else (text, quote)
    # What counts has half of the shorter one, at its own edge: so the other has its head or its tail.
    if shorter.head not in longer.text and shorter.tail not in longer.text:
        return None
    if quote.text in text.text:
        return _Match(chunk, text.length, quote.length, True)
    start = quote.text.find(text.text)
    end = start + len(text.text)
    if start < 0:
        ending, starting = _seam(text.text, quote.text, shorter.half), _seam(quote.text, text.text, shorter.half)
        start, end = max(
            (0, ending),
            (len(quote.text) - starting, len(quote.text)),
            key=lambda span: _length(quote.text[slice(*span)]),
        )
    overlap = _length(quote.text[start:end])
    lacks = tuple(part for part in (quote.text[:start].strip(), quote.text[end:].strip()) if part)
    return _Match(chunk, text.length, overlap, False, start, end, lacks) if overlap else None


def _chosen(quote: _Words, page: int | None, matches: Sequence[_Match]) -> Sequence[_Match]:
    """Those of the chunks that hold some of a quote which stand for it."""
    if page is not None:
        found = _chosen(quote, None, [match for match in matches if match.chunk.page in (page, None)])
        return found or _chosen(quote, None, matches)
    containing = [match for match in matches if match.contains]
    overlapping = [match for match in matches if match.overlap >= quote.length / 2]
    if containing or overlapping:
        return containing or overlapping
    within = [match for match in matches if match.overlap >= match.length / 2]
    # A heading that the quote mentions is not the quote, however often it stands: together they make up half of it.
    together = sum({match.chunk.words_hash: match.overlap for match in within}.values())
    return within if together >= quote.length / 2 else []


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
