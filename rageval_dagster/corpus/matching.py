"""What an external system returned, matched by id and by content to chunks: which of the client's it is, or whose."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from rageval_dagster.corpus.evidence import Resolution, RunIndex, find_quotes
from rageval_dagster.corpus.scanning import hash_unscanned
from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.corpus.word_runs import RUN_WORDS, SHINGLE_WORDS, RunHasher, words
from rageval_dagster.identity import digest
from rageval_dagster.records import UNKEPT, Chunk, Evidence, Hit, Owner, page_id
from rageval_dagster.storage.corpus import ManifestEntry, chunks_by_key, chunks_by_words, document_chunks
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.word_hashes import hash_key, holder_of, holders_of
from rageval_dagster.text import normalised, separate_characters

MATCHING_REVISION = 5
"""What was matched by other rules is not reused."""

MIN_SHARED = 0.5
"""Of a passage's words: with fewer in runs that stand in the client's chunks, it is none of the client's."""

SURELY_OWN = 0.9
"""A passage with so many of its words in the document that it names is not looked for elsewhere."""

BOILERPLATE_CLIENTS = 3
BOILERPLATE_SHARE = 0.05
"""Words that so many other clients hold, and such a share of all clients, are nobody's own."""

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
    """What a hit turned out to be. `whole` is false for a passage that is cut otherwise than the store's chunk.

    `exact` is one with nothing but the chunk's words.
    """

    chunk_id: str
    document_id: str
    page: int | None
    owner: Owner = "own"
    whole: bool = True
    exact: bool = True
    holders: tuple[int, ...] = ()


@dataclass(frozen=True)
class Stray:
    """Whose a text is that is not the client's: of `foreign` words the clients that hold them, see `holder_of`."""

    owner: Owner
    holders: tuple[int, ...] = ()


def place_hits(
    db: Database,
    store: ChromaStore,
    client_id: str,
    asked: Sequence[tuple[Resolution, tuple[Hit, ...] | None]],
) -> list[Placed]:
    """Says of every hit which chunk it is and whose, and what is relevant for each question then.

    A hit with a text is known by its text: the client's equal chunk, the one of that id that it is a part of or holds,
    else the chunk that shares most with it where at least half of its words stand in the client's chunks in runs of six
    (all, of fewer than six); a chunk of the document that the hit names goes first, if that document has half of them.
    What nobody has is `unknown`. One without a text is known by its id; an id alone that exactly one other client has
    is `foreign`. Whatever a hit is, words of other clients in it make it `foreign` or `shared`, see `stray_owners`, and
    no word of it is kept.

    A system may have chunks of its own. Such a passage is relevant where it holds an item's quote itself, case, spaces
    and punctuation aside, and then stands for a chunk that holds it too; each evidence counts once, however many of the
    store's chunks overlap it. Where a system names documents only, nothing is relevant at chunk level, so that no such
    score is made up, but pages that are wanted as a whole, if it names pages too.

    Args:
        asked: for each question what its evidence stands for, and the hits as the system returned them.
    """
    hits = list(dict.fromkeys(hit for _, each in asked for hit in each or ()))
    known = _Known(db, store, client_id, hits)
    matches = _match_all(known, hits)
    exact = {hit.text for hit, match in matches.items() if match.exact and match.owner == "own"}
    said = [hit.text for hit in hits if hit.text not in exact]
    # An id, too, may be another client's text.
    said += [name for hit in hits for name in (hit.chunk_id, hit.document_id) if len(words(name)) >= RUN_WORDS]
    strays = stray_owners(db, store, client_id, said)
    named = {match.chunk_id for hit, match in matches.items() if not hit.text and match.owner == "own"}
    texts = {chunk.id: chunk.text for chunk in store.get(client_id, sorted(named))} if named else {}
    return [
        Placed(None, resolution) if own is None else _placed(known, resolution, own, matches, strays, texts)
        for resolution, own in asked
    ]


def stray_owners(db: Database, store: ChromaStore, client_id: str, texts: Iterable[str]) -> dict[str, Stray]:
    """The texts that hold words of other clients which the client's own chunks do not cover, and whose they are.

    A run of eight words, or a whole chunk of six, that one other client holds makes a text `foreign`, one that several
    hold `shared`; what is boilerplate counts for nothing. Runs are found as hashes (see `word_runs`): `SURE_WORDS` in a
    row surely, fewer by chance. It costs what the texts are long, however many clients there are: another client's
    store is read only before that client was ever scanned, and once.
    """
    split = {text: found for text in texts if (found := words(text))}
    if not split:
        return {}
    hash_unscanned(db, store)
    key = hash_key(db)
    hasher = RunHasher(key)
    runs = {text: hasher.runs(found) for text, found in split.items()}
    holders = holders_of(db, holder_of(key, client_id), {run.hash for each in runs.values() for run in each})
    equal = chunks_by_words(db, {_words_hash(text) for text in split})
    boilerplate = max(BOILERPLATE_CLIENTS, math.ceil(BOILERPLATE_SHARE * len(store.clients())))
    # {text: the others that have it as a whole chunk}; a heading says nothing about whose it is.
    whole = {
        text: {holder_of(key, client) for client, _ in equal.get(_words_hash(text), []) if client != client_id}
        for text, found in split.items()
        if len(found) >= SHINGLE_WORDS
    }
    held = {
        text: [
            (range(run.start, run.start + RUN_WORDS), holder)
            for run in each
            if (holder := holders.get(run.hash)) is not None and not holder.own
        ]
        for text, each in runs.items()
    }
    suspects = {
        text: split[text]
        for text, theirs in held.items()
        if any(0 < others < boilerplate for others in (len(whole.get(text, ())), *(each.others for _, each in theirs)))
    }
    covered = _covered(store, client_id, suspects) if suspects else {}
    strays: dict[str, Stray] = {}
    for text, found in suspects.items():
        left = [each for places, each in held[text] if not covered[text].issuperset(places)]
        counts, holders = [each.others for each in left], {each.other for each in left}
        if not covered[text].issuperset(range(len(found))) and (having := whole.get(text)):
            counts.append(len(having))
            holders |= having if len(having) == 1 else set()
        least = min(filter(None, counts), default=boilerplate)
        if least == 1:
            strays[text] = Stray("foreign", tuple(sorted(each for each in holders if each is not None)))
        elif least < boilerplate:
            strays[text] = Stray("shared")
    return strays


def _covered(store: ChromaStore, client_id: str, split: Mapping[str, list[str]]) -> dict[str, set[int]]:
    """The places of the texts' words that stand in the client's chunks in runs of six, or are a whole chunk."""
    covered: dict[str, set[int]] = {text: set() for text in split}
    short: set[tuple[str, ...]] = set()
    index = RunIndex((run, (text, places)) for text, found in split.items() for run, places in _runs(found))
    for chunks in _texts_of(store, client_id):
        for chunk in chunks:
            found = words(chunk.text)
            if len(found) < SHINGLE_WORDS:
                short.add(tuple(found))
            for said in filter(None, (found, words(chunk.left_out))):
                for text, places in index.shared(said):
                    covered[text].update(places)
    for text, found in split.items():
        for length in range(1, SHINGLE_WORDS):
            covered[text].update(*(places for run, places in _runs(found, length) if tuple(run) in short))
    return covered


def _runs(found: Sequence[str], words_each: int = SHINGLE_WORDS) -> Iterator[tuple[Sequence[str], range]]:
    """The runs of a text's words with their places; a text that is too short for a run is one as it stands."""
    length = min(len(found), words_each)
    for start in range(len(found) - length + 1):
        yield found[start : start + length], range(start, start + length)


class _Known:
    """What the manifests know of the ids, words and documents of some hits."""

    def __init__(self, db: Database, store: ChromaStore, client_id: str, hits: Sequence[Hit]) -> None:
        self.db = db
        self.store = store
        self.client_id = client_id
        self.by_words = chunks_by_words(db, {_words_hash(hit.text) for hit in hits if hit.text})
        self.by_key = chunks_by_key(db, {digest(hit.chunk_id) for hit in hits if hit.chunk_id})
        self.documents = document_chunks(db, client_id, {hit.document_id for hit in hits if hit.document_id})
        self.own_ids = {
            entry.chunk_id for pairs in self.by_key.values() for client, entry in pairs if client == client_id
        }

    @cached_property
    def key(self) -> bytes:
        return hash_key(self.db)

    def with_words(self, text: str) -> list[tuple[str, ManifestEntry]]:
        """All clients' chunks of just these words, with their clients."""
        return self.by_words.get(_words_hash(text), [])


def _match_all(known: _Known, hits: Sequence[Hit]) -> dict[Hit, _Match]:
    found: dict[Hit, _Match] = {}
    cut: list[Hit] = []
    for hit in hits:
        match = _listed(known, hit)
        if match is not None:
            found[hit] = match
        elif hit.text:
            cut.append(hit)
    found |= _excerpts(known, cut)
    return found | _cut_otherwise(known, [hit for hit in cut if hit not in found])


def _listed(known: _Known, hit: Hit) -> _Match | None:
    """The client's chunk with the hit's very words; of a hit without any the one with its id, also another client's."""
    pairs = known.with_words(hit.text) if hit.text else known.by_key.get(digest(hit.chunk_id), [])
    own = [entry for client, entry in pairs if client == known.client_id]
    if own:
        return _match(max(own, key=lambda each: (each.chunk_id == hit.chunk_id, each.document_id == hit.document_id)))
    # An id that several clients have ("17") says nothing about whose it is.
    if len(pairs) != 1 or hit.text:
        return None
    [(client, entry)] = pairs
    return replace(_match(entry), owner="foreign", holders=(holder_of(known.key, client),))


def _excerpts(known: _Known, hits: Sequence[Hit]) -> dict[Hit, _Match]:
    """Hits that name a chunk of the client and hold a part of its words, or all of them and not as much again."""
    named = {hit.chunk_id for hit in hits} & known.own_ids
    chunks = {chunk.id: chunk for chunk in known.store.get(known.client_id, sorted(named))} if named else {}
    found: dict[Hit, _Match] = {}
    for hit in hits:
        chunk = chunks.get(hit.chunk_id)
        if chunk is None:
            continue
        # By whole words: "Contact" is no part of "Contacts".
        passage, held = (f" {' '.join(words(text))} " for text in (hit.text, chunk.text))
        is_part = passage in held
        if passage.strip() and (is_part or (held in passage and len(held) >= MIN_SHARED * len(passage))):
            found[hit] = _Match(chunk.id, chunk.document_id, chunk.page, exact=is_part)
    return found


def _cut_otherwise(known: _Known, hits: Sequence[Hit]) -> dict[Hit, _Match]:
    """Passages that are no chunk as they stand: looked for among the client's chunks."""
    if not hits:
        return {}
    passages = _Passages(hits, known.documents)
    named = sorted({hit.document_id for hit in hits} & known.documents.keys())
    if named:
        chunk_ids = [entry.chunk_id for document_id in named for entry in known.documents[document_id]]
        passages.look_in([known.store.get(known.client_id, chunk_ids)], named_only=True)
    if passages.uncertain():
        passages.look_in(_texts_of(known.store, known.client_id))
    return passages.matches()


@dataclass
class _Found:
    """What of a passage stands in some chunks: the places of its words, those that stand in their texts, and the chunk
    that has most of them."""

    places: set[int] = field(default_factory=set)
    in_text: set[int] = field(default_factory=set)
    chunk: Chunk | None = None
    rank: tuple[int, int, str, str] = (0, 0, "", "")

    def add(self, in_text: set[int], places: set[int], chunk: Chunk) -> None:
        self.places |= places
        self.in_text |= in_text
        # By the text: a site's menu stands on each page, and is kept with one. Of equal ones always the same.
        rank = (-len(in_text), -len(places), chunk.document_id, chunk.id)
        if self.chunk is None or rank < self.rank:
            self.rank, self.chunk = rank, chunk


class _Passages:
    """Passages to be found among the client's chunks. Each is decided for itself, whatever else is looked for."""

    def __init__(self, hits: Sequence[Hit], documents: Collection[str]) -> None:
        """`documents` are those of the client that the hits name."""
        self._documents = documents
        self._words = {hit: found for hit in hits if (found := words(hit.text))}
        self._best: dict[Hit, tuple[float, _Match]] = {}
        self._index = RunIndex(
            (run, (hit, places)) for hit, found in self._words.items() for run, places in _runs(found)
        )

    def look_in(self, pages: Iterable[Sequence[Chunk]], named_only: bool = False) -> None:
        """Notes what of each passage that is not surely found yet stands in these chunks, and which has most of it.

        Args:
            named_only: of each passage only in the document that it names.
        """
        sure = {hit for hit, (share, _) in self._best.items() if share >= SURELY_OWN}
        everywhere: dict[Hit, _Found] = {}
        as_named: dict[Hit, _Found] = {}
        for chunks in pages:
            for chunk in chunks:
                in_text, beside = map(self._shared, (chunk.text, chunk.left_out))
                for hit in in_text.keys() | beside.keys():
                    said = in_text.get(hit, set())
                    is_named = hit.document_id == chunk.document_id
                    found = (said, said | beside.get(hit, set()), chunk)
                    if is_named:
                        as_named.setdefault(hit, _Found()).add(*found)
                    if is_named or not named_only:
                        everywhere.setdefault(hit, _Found()).add(*found)
        for hit, found in everywhere.items():
            if hit in sure:
                continue
            named = as_named.get(hit)
            trusted = named is not None and len(named.places) >= MIN_SHARED * len(self._words[hit])
            chunk = named.chunk if named is not None and trusted else found.chunk
            if chunk is not None:
                share = len(found.places) / len(self._words[hit])
                match = _Match(chunk.id, chunk.document_id, chunk.page, whole=False, exact=False)
                is_menu = len(found.in_text) < MIN_SHARED * len(self._words[hit])
                if is_menu and not trusted and hit.document_id in self._documents:
                    # A site's menu stands on each page, and is kept with one: it is of the page that the system names.
                    match = _Match(_by_content(hit), hit.document_id, hit.page, whole=False, exact=False)
                self._best[hit] = share, match

    def _shared(self, text: str) -> dict[Hit, set[int]]:
        """The places of the passages' words that stand in a text."""
        shared: dict[Hit, set[int]] = {}
        for hit, places in self._index.shared(words(text)) if text else ():
            shared.setdefault(hit, set()).update(places)
        return shared

    def uncertain(self) -> bool:
        """Whether some passage may still be found better elsewhere."""
        return any(hit not in self._best or self._best[hit][0] < SURELY_OWN for hit in self._words)

    def matches(self) -> dict[Hit, _Match]:
        """Which chunk each passage is a piece of; without those that are hardly the client's."""
        return {hit: match for hit, (share, match) in self._best.items() if share >= MIN_SHARED}


def _texts_of(store: ChromaStore, client_id: str) -> Iterator[list[Chunk]]:
    return (page.chunks for page in store.scan(client_id, with_vectors=False))


def _placed(
    known: _Known,
    resolution: Resolution,
    hits: Sequence[Hit],
    matches: Mapping[Hit, _Match],
    strays: Mapping[str, Stray],
    texts: Mapping[str, str],
) -> Placed:
    placed: list[Hit] = []
    used: set[str] = set()
    own_cut: set[str] = set()
    # A passage that is a chunk of the store stands for it, wherever among the others it came.
    whole = {match.chunk_id for hit in hits if (match := matches.get(hit)) and match.whole and not _stray(hit, strays)}
    for hit in hits:
        match = matches.get(hit)
        stray = _stray(hit, strays)
        whose = stray or match
        if whose is not None and whose.owner in UNKEPT:
            theirs = [entry.chunk_id for _, entry in known.with_words(hit.text)] if stray else [hit.chunk_id]
            # An own chunk's id would count as found.
            name = _by_content(hit) if not theirs or theirs[0] in known.own_ids else theirs[0]
            kept = replace(hit, chunk_id=name, document_id=name, page=None, text="")
            placed.append(replace(kept, owner=whose.owner, holders=whose.holders))
        elif match is None:
            placed.append(_unmatched(known, hit))
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
    if named := [hit for hit in hits if _is_document(hit)]:
        wanted = [ids for evidence, ids in resolution.of_each.items() if evidence.is_page]
        pages = frozenset().union(*wanted) if all(hit.page is not None for hit in named) else None
        return Placed(tuple(placed), replace(resolution, chunks=pages or None))
    if not own_cut:
        return Placed(tuple(placed), resolution)
    # Each evidence counts once.
    once = {chunk_id for ids in resolution.of_each.values() for chunk_id in (ids & used) or {min(ids)}}
    return Placed(tuple(placed), replace(resolution, chunks=frozenset(once) or None))


def _stray(hit: Hit, strays: Mapping[str, Stray]) -> Stray | None:
    return strays.get(hit.text) or strays.get(hit.chunk_id) or strays.get(hit.document_id)


def _unmatched(known: _Known, hit: Hit) -> Hit:
    if _is_document(hit):
        owner: Owner = "own" if hit.document_id in known.documents else "unknown"
        name = f"document:{hit.document_id}" if hit.page is None else page_id(hit.document_id, hit.page)
        return replace(hit, chunk_id=name, owner=owner)
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
    return f"content:{_words_hash(hit.text or f'{hit.chunk_id} {hit.document_id}')[:16]}"


def _match(entry: ManifestEntry) -> _Match:
    return _Match(entry.chunk_id, entry.document_id, entry.page)


def _words_hash(text: str) -> str:
    return Chunk("", text, "").words_hash
