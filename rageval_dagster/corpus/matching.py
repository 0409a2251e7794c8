"""What an external system returned, matched by id and by content to chunks: which of the client's it is, or whose."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from rageval_dagster.corpus.evidence import Resolution, RunIndex, find_quotes
from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.errors import RedactionError, SettingsError
from rageval_dagster.identity import digest
from rageval_dagster.records import Chunk, Evidence, Hit, Owner
from rageval_dagster.storage.corpus import ManifestEntry, chunks_by_key, chunks_by_words, document_chunks
from rageval_dagster.storage.database import Database
from rageval_dagster.text import normalise_whitespace, normalised, separate_characters, word_spans

MATCHING_REVISION = 2
"""What was matched by other rules is not reused."""

SHINGLE_WORDS = 6
"""Texts share content where they share runs of so many words."""

MIN_SHARED = 0.5
"""Of a passage's words: with fewer in runs that stand in somebody's chunks, it is not somebody's."""

SURELY_OWN = 0.9
CLEARLY_MORE = 0.1
"""A passage with fewer of its words among the client's own chunks is looked for among other clients' too, and is theirs
if they have so much more of it: two customers' terms may differ in a few words."""

FOREIGN_SCAN_CHUNKS = 200_000
"""Other clients' chunks are searched for pieces of a context only up to so many; equal texts are always found."""

_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")
_DASH = re.compile("[\u2010-\u2015\u2212]")
_SETTING = re.compile(
    r"""["'`*_#|()\[\]\u2018-\u201f\u2039\u203a\u00ab\u00bb\u2022\u3001\u3002\u300c\u300d]|[.,;:?](?!\w)|!(?!=)"""
)
"""What is set otherwise by everybody who strips markup: quotation marks, emphasis, brackets, marks at a word's end."""

_TOKEN = re.compile(r"[^\W_]+|\S")


@dataclass(frozen=True)
class Placed:
    """Hits as chunks of the store where they are some, and what is relevant among them."""

    hits: tuple[Hit, ...] | None
    resolution: Resolution


@dataclass(frozen=True)
class _Match:
    """What a hit turned out to be. `whole` is false for a passage that is cut otherwise than the store's chunk."""

    client_id: str
    chunk_id: str
    document_id: str
    page: int | None
    whole: bool = True
    share: float = 1.0


def place_hits(
    db: Database,
    store: ChromaStore,
    client_id: str,
    asked: Sequence[tuple[Resolution, tuple[Hit, ...] | None]],
) -> list[Placed]:
    """Says of every hit which chunk it is and whose, and what is relevant for each question then.

    A hit with a text is known by its text: the client's equal chunk, the one of that id that it is a part of, else the
    chunk that shares most with it where at least half of its words stand in the client's chunks in runs of six (all, of
    fewer than six); a chunk of the document that the hit names goes first, if that document has half of them. Where
    another client's chunks have all of it, or clearly more, it is `foreign` and kept without its
    text; where nobody's have, or it has fewer than six words that the client's do not have, it is `unknown`. One
    without a text is known by its id; an id alone that exactly one other client has is `foreign`.

    A system may have chunks of its own. Such a passage is relevant where it holds an item's quote itself, case, spaces
    and punctuation aside, and then stands for a chunk that holds it too; each evidence counts once, however many of the
    store's chunks overlap it. Where a system names documents only, nothing is relevant at chunk level, so that no such
    score is made up.

    Args:
        asked: for each question what its evidence stands for, and the hits as the system returned them.
    """
    hits = [hit for _, own in asked for hit in own or ()]
    known = _Known(db, store, client_id, hits)
    matches = _match_all(known, hits)
    named = {match.chunk_id for hit, match in matches.items() if not hit.text and match.client_id == known.client_id}
    texts = {chunk.id: chunk.text for chunk in known.store.get(known.client_id, sorted(named))} if named else {}
    return [
        Placed(None, resolution) if own is None else _placed(known, resolution, own, matches, texts)
        for resolution, own in asked
    ]


class _Known:
    """What the manifests know of the ids, words and documents of some hits."""

    def __init__(self, db: Database, store: ChromaStore, client_id: str, hits: Sequence[Hit]) -> None:
        self.store = store
        self.client_id = client_id
        self.by_words = chunks_by_words(db, {_words_hash(hit.text) for hit in hits if hit.text})
        self.by_key = chunks_by_key(db, {digest(hit.chunk_id) for hit in hits if hit.chunk_id})
        self.documents = document_chunks(db, client_id, {hit.document_id for hit in hits if hit.document_id})
        self.own_ids = {
            entry.chunk_id for pairs in self.by_key.values() for client, entry in pairs if client == client_id
        }


def _match_all(known: _Known, hits: Sequence[Hit]) -> dict[Hit, _Match]:
    found: dict[Hit, _Match] = {}
    cut: list[Hit] = []
    for hit in dict.fromkeys(hits):
        match = _listed(known, hit)
        if match is not None:
            found[hit] = match
        elif hit.text:
            cut.append(hit)
    found |= _excerpts(known, cut)
    return found | _cut_otherwise(known, [hit for hit in cut if hit not in found])


def _listed(known: _Known, hit: Hit) -> _Match | None:
    """The chunk with the hit's very words, or where it has none its id: the client's own first."""
    pairs = known.by_words.get(_words_hash(hit.text), []) if hit.text else known.by_key.get(digest(hit.chunk_id), [])
    own = [entry for client, entry in pairs if client == known.client_id]
    if own:
        best = max(own, key=lambda entry: (entry.chunk_id == hit.chunk_id, entry.document_id == hit.document_id))
        return _match(known.client_id, best)
    # An id that several clients have ("17") says nothing about whose it is.
    return _match(*pairs[0]) if len(pairs) == 1 or (pairs and hit.text) else None


def _excerpts(known: _Known, hits: Sequence[Hit]) -> dict[Hit, _Match]:
    """Hits that name a chunk of the client and hold a part of its words, or all of them and more."""
    named = {hit.chunk_id for hit in hits} & known.own_ids
    chunks = {chunk.id: chunk for chunk in known.store.get(known.client_id, sorted(named))} if named else {}
    found: dict[Hit, _Match] = {}
    for hit in hits:
        chunk = chunks.get(hit.chunk_id)
        if chunk is None:
            continue
        words, held = normalise_whitespace(hit.text), normalise_whitespace(chunk.text)
        if words in held or held in words:
            found[hit] = _Match(known.client_id, chunk.id, chunk.document_id, chunk.page)
    return found


def _cut_otherwise(known: _Known, hits: Sequence[Hit]) -> dict[Hit, _Match]:
    """Passages that are no chunk as they stand: looked for among the client's chunks, then among all others'."""
    if not hits:
        return {}
    passages = _Passages(hits)
    named = sorted({hit.document_id for hit in hits} & known.documents.keys())
    if named:
        chunk_ids = [entry.chunk_id for document_id in named for entry in known.documents[document_id]]
        passages.look_in(known.client_id, [known.store.get(known.client_id, chunk_ids)], named_only=True)
    if passages.uncertain():
        passages.look_in(known.client_id, _texts_of(known.store, known.client_id))
    # A few words that stand among another client's prove nothing.
    passages.leave_out_short()
    budget = FOREIGN_SCAN_CHUNKS
    for other in known.store.clients() if passages.uncertain() else ():
        if other != known.client_id:
            budget -= known.store.count(other)
            if budget < 0:
                break
            # A mistake in another client's settings stops nobody here; its equal chunks are found all the same.
            with suppress(SettingsError, RedactionError):
                passages.look_in(other, _texts_of(known.store, other))
    return passages.matches(known.client_id)


@dataclass
class _Found:
    """What of a passage stands in some chunks: the places of its words, and the chunk that has most of them."""

    places: set[int] = field(default_factory=set)
    chunk: Chunk | None = None
    rank: tuple[int, str, str] = (0, "", "")

    def add(self, places: set[int], chunk: Chunk) -> None:
        self.places |= places
        # Of equal ones always the same, in whatever order they come.
        rank = (-len(places), chunk.document_id, chunk.id)
        if self.chunk is None or rank < self.rank:
            self.rank, self.chunk = rank, chunk


class _Passages:
    """Passages to be found, and how much of each stands in whose chunks.

    Each is decided for itself, whatever else is looked for with it.
    """

    def __init__(self, hits: Sequence[Hit]) -> None:
        self._words = {hit: words for hit in hits if (words := _words(hit.text))}
        self._best: dict[Hit, dict[str, _Match]] = {hit: {} for hit in self._words}
        self._short: dict[Hit, dict[str, _Match]] = {}
        self._index = self._indexed()

    def _indexed(self) -> RunIndex[tuple[Hit, range]]:
        """The places of the passages' runs; one that is too short for a run is one as it stands."""
        lengths = {hit: min(len(self._words[hit]), SHINGLE_WORDS) for hit in self._best}
        return RunIndex(
            (self._words[hit][start : start + length], (hit, range(start, start + length)))
            for hit, length in lengths.items()
            for start in range(len(self._words[hit]) - length + 1)
        )

    def look_in(self, client_id: str, pages: Iterable[Sequence[Chunk]], named_only: bool = False) -> None:
        """Notes what of each passage that is not found yet stands in the client's chunks, and which has most of it.

        Args:
            named_only: of each passage only in the document that it names.
        """
        sure = {hit for hit, found in self._best.items() if _share(found) >= SURELY_OWN}
        everywhere: dict[Hit, _Found] = {}
        as_named: dict[Hit, _Found] = {}
        for chunks in pages:
            for chunk in chunks:
                own: dict[Hit, set[int]] = {}
                for hit, places in self._index.shared(_words(chunk.text)):
                    own.setdefault(hit, set()).update(places)
                for hit, places in own.items():
                    is_named = hit.document_id == chunk.document_id
                    if is_named:
                        as_named.setdefault(hit, _Found()).add(places, chunk)
                    if is_named or not named_only:
                        everywhere.setdefault(hit, _Found()).add(places, chunk)
        for hit, found in everywhere.items():
            if hit in sure:
                continue
            named = as_named.get(hit)
            trusted = named is not None and len(named.places) >= MIN_SHARED * len(self._words[hit])
            chunk = named.chunk if named is not None and trusted else found.chunk
            if chunk is not None:
                share = len(found.places) / len(self._words[hit])
                self._best[hit][client_id] = _Match(client_id, chunk.id, chunk.document_id, chunk.page, False, share)

    def leave_out_short(self) -> None:
        """From here on passages that are too short for a run are not looked for any more."""
        self._short = {hit: found for hit, found in self._best.items() if len(self._words[hit]) < SHINGLE_WORDS}
        self._best = {hit: found for hit, found in self._best.items() if hit not in self._short}
        self._index = self._indexed()

    def uncertain(self) -> bool:
        """Whether some passage may still be found better elsewhere."""
        return any(_share(found) < SURELY_OWN for found in self._best.values())

    def matches(self, client_id: str) -> dict[Hit, _Match]:
        """Whose each passage is; the client's own unless another one has clearly more of it."""
        decided: dict[Hit, _Match] = {}
        for hit, found in (self._best | self._short).items():
            own = found.get(client_id)
            best = max(found.values(), key=lambda match: match.share, default=None)
            if own is not None and best is not None and best.share < own.share + CLEARLY_MORE:
                best = own
            if best is not None and best.share >= MIN_SHARED:
                decided[hit] = best
        return decided


def _share(found: Mapping[str, _Match]) -> float:
    return max((match.share for match in found.values()), default=0.0)


def _words(text: str) -> list[str]:
    return [match.group().casefold() for match in word_spans(text)]


def _texts_of(store: ChromaStore, client_id: str) -> Iterator[list[Chunk]]:
    return (page.chunks for page in store.scan(client_id, with_vectors=False))


def _placed(
    known: _Known,
    resolution: Resolution,
    hits: Sequence[Hit],
    matches: Mapping[Hit, _Match],
    texts: Mapping[str, str],
) -> Placed:
    placed: list[Hit] = []
    used: set[str] = set()
    own_cut: set[str] = set()
    # A passage that is a chunk of the store stands for it, wherever among the others it came.
    whole = {match.chunk_id for hit in hits if (match := matches.get(hit)) is not None and match.whole}
    for hit in hits:
        match = matches.get(hit)
        if match is None:
            placed.append(_unmatched(known, hit))
        elif match.client_id != known.client_id:
            # Not a word of another client's chunk is kept: `forget` could not find it here.
            taken = match.chunk_id in known.own_ids or (not match.whole and match.chunk_id in used)
            name = _by_content(hit) if taken else match.chunk_id
            placed.append(replace(hit, chunk_id=name, document_id=name, page=None, text="", owner="foreign"))
        elif match.whole:
            text = hit.text or texts.get(match.chunk_id, "")
            chunk_id = _by_content(hit) if match.chunk_id in own_cut else match.chunk_id
            placed.append(
                replace(hit, chunk_id=chunk_id, document_id=match.document_id, page=match.page, text=text, owner="own")
            )
        else:
            chunk_id = _stands_for(hit, match, resolution, used, whole)
            own_cut.add(chunk_id)
            page = hit.page or match.page
            placed.append(replace(hit, chunk_id=chunk_id, document_id=match.document_id, page=page, owner="own"))
        used.add(placed[-1].chunk_id)
    if any(_is_document(hit) for hit in hits):
        return Placed(tuple(placed), replace(resolution, chunks=None))
    if not own_cut:
        return Placed(tuple(placed), resolution)
    # Each evidence counts once.
    once = {chunk_id for ids in resolution.of_each.values() for chunk_id in (ids & used) or {min(ids)}}
    return Placed(tuple(placed), replace(resolution, chunks=frozenset(once) or None))


def _unmatched(known: _Known, hit: Hit) -> Hit:
    if _is_document(hit):
        owner: Owner = "own" if hit.document_id in known.documents else "unknown"
        return replace(hit, chunk_id=f"document:{hit.document_id}", owner=owner)
    # The id of a chunk which this is not must not stand for it.
    chunk_id = hit.chunk_id if hit.chunk_id and hit.chunk_id not in known.own_ids else _by_content(hit)
    return replace(hit, chunk_id=chunk_id, document_id=hit.document_id or chunk_id, owner="unknown")


def _is_document(hit: Hit) -> bool:
    return bool(hit.document_id) and not hit.chunk_id and not hit.text


def _stands_for(hit: Hit, match: _Match, resolution: Resolution, used: set[str], whole: set[str]) -> str:
    """The chunk that a passage of the system's own cut stands for; itself where another one stands for that.

    Args:
        used: what the passages before it stand for.
        whole: chunks that are among the passages as they are.
    """
    candidates = [
        chunk_id
        for evidence, chunk_ids in resolution.of_each.items()
        if evidence.quote and _holds(hit.text, evidence.quote)
        for chunk_id in (match.chunk_id, *sorted(chunk_ids))
        if chunk_id in chunk_ids
    ]
    # Without the quote it is not what the chunk is relevant for.
    others = () if match.chunk_id in whole or match.chunk_id in (resolution.chunks or ()) else (match.chunk_id,)
    free = [chunk_id for chunk_id in candidates or others if chunk_id not in used]
    return free[0] if free else _by_content(hit)


def _holds(passage: str, quote: str) -> bool:
    """Whether a passage holds a quote by the rules for chunks, however either is set.

    A system that strips markup from its documents in its own way has `file .` where the store has `file.`.
    """
    if _stands_in(passage, quote):
        return True
    spelled = _spelling(quote)
    # With a mark at its ends the quote begins and ends with whole words; the passage may be cut within one.
    return bool(spelled) and _stands_in(_spelling(passage), f"|{spelled}|")


def _stands_in(text: str, quote: str) -> bool:
    return any(find_quotes([Evidence("", quote=quote)], [Chunk("", text, "")]).values())


def _spelling(text: str) -> str:
    """The words and signs of a text, with marks between: not its case, spaces, quotation marks, emphasis, punctuation.

    What stands within a number stays, as do signs: 1.5 is not 15, and x < y not x > y.
    """
    text = _INVISIBLE.sub("", _DASH.sub("-", normalised(text, "NFKC").casefold()))
    return "|".join(_TOKEN.findall(separate_characters(_SETTING.sub(" ", text))))


def _by_content(hit: Hit) -> str:
    return f"content:{_words_hash(hit.text)[:16]}"


def _match(client_id: str, entry: ManifestEntry) -> _Match:
    return _Match(client_id, entry.chunk_id, entry.document_id, entry.page)


def _words_hash(text: str) -> str:
    return Chunk("", text, "").words_hash
