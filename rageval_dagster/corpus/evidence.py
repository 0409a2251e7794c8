"""From evidence to chunks: which chunks of the corpus as it is now hold an item's exact words."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.records import Chunk, Evidence, Item
from rageval_dagster.storage.corpus import document_chunks
from rageval_dagster.storage.database import Database

_DOCUMENTS_AT_A_TIME = 200
_NEAREST = 3


@dataclass(frozen=True)
class Resolution:
    """What an item's evidence stands for in a corpus.

    `chunks` are the ids of the chunks that hold its quotes, `documents` the ids of the documents that its evidence
    names; each is None where nothing resolves to one. `unresolved` is the evidence whose document the corpus does not
    have, or whose quote that document does not (any more) hold; `of_each` the chunk ids of the evidence with a quote.
    """

    chunks: frozenset[str] | None
    documents: frozenset[str] | None
    unresolved: tuple[Evidence, ...] = ()
    of_each: Mapping[Evidence, frozenset[str]] = field(default_factory=dict)


def resolve(items: Iterable[Item], db: Database, store: ChromaStore, client_id: str) -> dict[str, Resolution]:
    """Resolves every item's evidence in the client's corpus as last scanned; item id -> its resolution.

    Evidence with a quote stands for the chunks of its document that contain the quote, whitespace aside; if none does,
    for those that overlap half of it (of a quote longer than two chunks: that lie within it by half). Where it
    names a page and the quote is found there, chunks of other pages do not count. Evidence without a quote
    stands for its document alone.

    Raises:
        StoreError: the store does not answer or does not know the client.
    """
    items = list(items)
    asked = {evidence for item in items for evidence in item.evidence}
    resolved: dict[Evidence, frozenset[str] | None] = {}
    documents = sorted({evidence.document_id for evidence in asked})
    for start in range(0, len(documents), _DOCUMENTS_AT_A_TIME):
        part = set(documents[start : start + _DOCUMENTS_AT_A_TIME])
        resolved.update(_resolve_in(part, [each for each in asked if each.document_id in part], db, store, client_id))
    return {item.item_id: _resolution(item, resolved) for item in items}


def _resolve_in(
    document_ids: set[str], asked: Sequence[Evidence], db: Database, store: ChromaStore, client_id: str
) -> dict[Evidence, frozenset[str] | None]:
    """Evidence -> its chunk ids, none for evidence without a quote, None where it does not resolve."""
    manifest = document_chunks(db, client_id, sorted(document_ids))
    quoted = {evidence.document_id for evidence in asked if normalise(evidence.quote or "")}
    chunk_ids = [entry.chunk_id for name, entries in manifest.items() if name in quoted for entry in entries]
    by_document: dict[str, list[Chunk]] = {}
    for chunk in store.get(client_id, chunk_ids):
        by_document.setdefault(chunk.document_id, []).append(chunk)
    resolved: dict[Evidence, frozenset[str] | None] = {}
    for evidence in asked:
        if evidence.document_id not in manifest:
            resolved[evidence] = None
        elif not evidence.quote or not normalise(evidence.quote):
            resolved[evidence] = frozenset()
        else:
            found = matching_chunks(evidence.quote, evidence.page, by_document.get(evidence.document_id, []))
            resolved[evidence] = frozenset(found) or None
    return resolved


def _resolution(item: Item, resolved: Mapping[Evidence, frozenset[str] | None]) -> Resolution:
    chunks: set[str] = set()
    documents: set[str] = set()
    unresolved: list[Evidence] = []
    for evidence in item.evidence:
        found = resolved[evidence]
        if found is None:
            unresolved.append(evidence)
        else:
            chunks |= found
            documents.add(evidence.document_id)
    of_each = {evidence: found for evidence in item.evidence if (found := resolved[evidence])}
    return Resolution(frozenset(chunks) or None, frozenset(documents) or None, tuple(unresolved), of_each)


def matching_chunks(quote: str, page: int | None, chunks: Sequence[Chunk]) -> list[str]:
    """The ids of a document's chunks that hold the quote, by the rules of `resolve`."""
    if page is not None:
        on_page = [chunk for chunk in chunks if chunk.page in (page, None)]
        found = matching_chunks(quote, None, on_page)
        if found or len(on_page) == len(chunks):
            return found
    words = normalise(quote)
    texts = {chunk.id: normalise(chunk.text) for chunk in chunks}
    containing = [chunk_id for chunk_id, text in texts.items() if words in text]
    if containing:
        return containing
    overlaps = {chunk_id: _overlap(words, text) for chunk_id, text in texts.items()}
    half = _length(words) / 2
    overlapping = [chunk_id for chunk_id, overlap in overlaps.items() if overlap >= half]
    if overlapping:
        return overlapping
    within = [chunk_id for chunk_id, overlap in overlaps.items() if overlap and overlap >= _length(texts[chunk_id]) / 2]
    # A heading that the quote mentions is not the quote: together they must make up half of it.
    return within if sum(overlaps[chunk_id] for chunk_id in within) >= half else []


def normalise(text: str) -> str:
    """The text with every run of whitespace as one space, and none at the ends."""
    return " ".join(text.split())


def _overlap(quote: str, text: str) -> int:
    """How many characters of the quote, spaces aside, stand at an edge of the text, or are all of it."""
    if not text:
        return 0
    if text in quote:
        return _length(text)
    longest = min(len(quote), len(text)) - 1
    ending = next((size for size in range(longest, 0, -1) if text.endswith(quote[:size])), 0)
    starting = next((size for size in range(longest, 0, -1) if text.startswith(quote[-size:])), 0)
    return max(_length(quote[:ending]), _length(quote[len(quote) - starting :]))


def _length(text: str) -> int:
    return len(text) - text.count(" ")


def nearest_matches(document_id: str, known_ids: Iterable[str]) -> list[str]:
    """Up to three known document ids that may be meant: those with the same file name first, then similar ones."""
    known = sorted(set(known_ids))
    stem = PurePosixPath(document_id).stem.casefold()
    same_name = [each for each in known if PurePosixPath(each).stem.casefold() == stem]
    similar = difflib.get_close_matches(document_id, known, n=_NEAREST)
    return list(dict.fromkeys(same_name + similar))[:_NEAREST]
