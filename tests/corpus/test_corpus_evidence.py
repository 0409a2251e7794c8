"""Evidence to chunks: quotes are found whatever the chunks are, and what is gone is said to be gone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rageval_dagster.corpus.evidence import find_quotes, resolve
from rageval_dagster.corpus.scanning import scan_corpus
from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.records import Chunk, Evidence, Item
from rageval_dagster.storage.corpus import document_names
from rageval_dagster.storage.database import Database


def chunked(*texts: str, page: int | None = None) -> list[Chunk]:
    return [Chunk(f"c{number}", text, "d", page) for number, text in enumerate(texts)]


def matching_chunks(quote: str, page: int | None, chunks: list[Chunk]) -> list[str]:
    asked = Evidence("d", page, quote)
    found = find_quotes([asked], chunks)[asked]
    return [chunk.id for chunk in chunks if chunk.id in found]


@pytest.mark.parametrize(
    ("quote", "texts", "found"),
    [
        # Every chunk that holds it counts, white space aside.
        (" quick brown\tfox ", ["the quick\n  brown fox", "a quick brown fox jumps", "quickbrown fox"], ["c0", "c1"]),
        # Across two chunks, it belongs to the one with half of it; cut in the middle, to both.
        ("one two three four five", ["it began with one two three four", "five six and so on"], ["c0"]),
        ("abcd efgh", ["x abcd", "efgh y", "z"], ["c0", "c1"]),
        # Longer than two chunks, it belongs to those within it.
        (
            "one two three four five six seven eight nine",
            ["alpha one two", "three four five", "six seven eight", "nine omega and more words here"],
            ["c0", "c1", "c2"],
        ),
        # A heading that it mentions is not the quote.
        ("see Installation for how the package is set up", ["Installation", "else"], []),
        ("no such words", ["all other text", ""], []),
    ],
)
def test_whose_a_quote_is(quote: str, texts: list[str], found: list[str]) -> None:
    assert matching_chunks(quote, None, chunked(*texts)) == found


def test_the_page_narrows_and_an_outdated_page_does_not_hide_the_quote() -> None:
    chunks = [Chunk("p1", "the same words", "d", 1), Chunk("p2", "the same words", "d", 2)]
    assert matching_chunks("same words", 2, chunks) == ["p2"]
    assert matching_chunks("same words", 9, chunks) == ["p1", "p2"]


@given(st.text("ab \n", min_size=1, max_size=60), st.integers(1, 30), st.integers(0, 59), st.integers(1, 30))
def test_a_quote_of_the_document_is_always_found(text: str, size: int, start: int, length: int) -> None:
    quote = text[start : start + length]
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    if quote.strip() and size >= length:  # then two neighbours hold it, one of them half of it
        assert matching_chunks(quote, None, chunked(*pieces))


@pytest.fixture
def corpus(store: ChromaStore, db: Database, embedder) -> ChromaStore:
    chunks = [
        Chunk("a0", "Rome was founded in 753 BC.", "rome.md"),
        Chunk("a1", "It fell much later.", "rome.md"),
        Chunk("b0", "Rome was founded in 753 BC.", "copy.md"),
        Chunk("b1", "Paris lies on the Seine.", "paris.pdf", 2),
    ]
    store.ensure_client("acme")
    metadatas = [{"document_id": chunk.document_id} | ({"page": chunk.page} if chunk.page else {}) for chunk in chunks]
    store.upsert("acme", chunks, embedder.encode([chunk.text for chunk in chunks]), metadatas)
    scan_corpus(db, store, "acme")
    return store


def test_resolving_items(corpus: ChromaStore, db: Database) -> None:
    rome = Evidence("rome.md", quote="founded in  753 BC")
    paris = Evidence("paris.pdf", 2, "on the Seine")
    gone = Evidence("rome.md", quote="founded in 754 BC")
    missing = Evidence("athens.md", quote="anything")
    items = {
        "quote": Item("q", evidence=(rome,)),
        "two documents": Item("q", evidence=(rome, paris)),
        "document only": Item("q", evidence=(Evidence("rome.md"),)),
        "in part": Item("q", evidence=(paris, gone, missing)),
        "gone": Item("q", evidence=(gone, missing)),
        "document gone": Item("q", evidence=(Evidence("athens.md"),)),
        "none": Item("q"),
    }
    found = resolve(items.values(), db, corpus, "acme")
    seen = {name: found[item.item_id] for name, item in items.items()}
    assert {name: (each.chunks, each.documents, each.unresolved) for name, each in seen.items()} == {
        "quote": ({"a0"}, {"rome.md"}, ()),
        "two documents": ({"a0", "b1"}, {"rome.md", "paris.pdf"}, ()),
        "document only": (None, {"rome.md"}, ()),
        "in part": ({"b1"}, {"paris.pdf"}, (gone, missing)),
        "gone": (None, None, (gone, missing)),
        "document gone": (None, None, (Evidence("athens.md"),)),
        "none": (None, None, ()),
    }


def written(store: ChromaStore, embedder, document_id: str, *texts: str, ids: str = "") -> None:
    chunks = [Chunk(f"{ids or document_id}{number}", text, document_id) for number, text in enumerate(texts)]
    store.upsert("acme", chunks, embedder.encode(list(texts)), [{"document_id": document_id} for _ in texts])


ROME = ("Rome was founded in 753 BC.", "It fell much later.")


@pytest.mark.parametrize("keeps_ids", [True, False])
def test_a_document_is_found_under_its_new_id(corpus: ChromaStore, db: Database, embedder, keeps_ids: bool) -> None:
    """Also where its passages keep their ids, and where it is renamed again; not where one passage is another."""
    quoted, whole = Evidence("rome.md", quote="fell much later"), Evidence("rome.md")
    items = [Item("q", evidence=(quoted,)), Item("r", evidence=(whole,))]

    def renamed(old: str, new: str, *texts: str) -> list[tuple]:
        if not keeps_ids:
            corpus.delete("acme", [f"{'a' if old == 'rome.md' else old}{number}" for number in range(2)])
        written(corpus, embedder, new, *texts, ids="a" if keeps_ids else "")
        scan_corpus(db, corpus, "acme")
        found = resolve(items, db, corpus, "acme")
        return [(found[item.item_id].documents, len(found[item.item_id].chunks or ())) for item in items]

    assert renamed("rome.md", "history/rome.md", *ROME) == [({"history/rome.md"}, 1), ({"history/rome.md"}, 0)]
    assert document_names(db, "acme", ["rome.md"]) == {"rome.md": "rome.md"}
    assert renamed("history/rome.md", "old/rome.md", *ROME) == [({"old/rome.md"}, 1), ({"old/rome.md"}, 0)]
    assert renamed("old/rome.md", "new/rome.md", ROME[0], "It fell in 476.") == [(None, 0), (None, 0)]


def test_a_deleted_copy_leaves_its_questions_to_the_other_one(corpus: ChromaStore, db: Database, embedder) -> None:
    written(corpus, embedder, "twin.md", *ROME)
    scan_corpus(db, corpus, "acme")
    corpus.delete("acme", ["a0", "a1"])
    scan_corpus(db, corpus, "acme")
    item = Item("q", evidence=(Evidence("rome.md", quote="fell much later"),))
    assert resolve([item], db, corpus, "acme")[item.item_id].documents == {"twin.md"}
    written(corpus, embedder, "rome.md", "It fell much later.", ids="c")
    scan_corpus(db, corpus, "acme")
    assert resolve([item], db, corpus, "acme")[item.item_id].documents == {"rome.md"}, "its own document is back"


HEADING, SENTENCE = "# The museum of Brightwater", "The museum of Brightwater was founded in 1808"


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([HEADING, f"{SENTENCE} by a baker."], {1}),
        # What followed the heading is gone, whatever stands there now.
        ([HEADING, "The museum of Brightwater was founded in 1809 by a baker."], None),
        ([f"Opening hours. {HEADING}", "It is closed."], None),
        ([HEADING[2:], "It is closed."], None),
        # A cut within the quote is none within the text.
        ([HEADING, "The museum of Brightwater was founded", "in 1808 by a baker."], {1}),
        ([HEADING, "The museum of Brightwater was founded", "in 1809 by a baker."], None),
        (["The museum of Brightwater was", "founded", "in 1808 by a baker."], {0}),
    ],
)
def test_a_heading_is_not_what_followed_it(
    store: ChromaStore, db: Database, embedder, texts: list[str], found: set[int] | None, named: bool
) -> None:
    chunks = [Chunk(f"c{n}", text, "museum.md" if named else f"c{n}") for n, text in enumerate(texts)]
    store.ensure_client("acme")
    metadatas = [{"document_id": each.document_id} if named else {"n": 1} for each in chunks]
    store.upsert("acme", chunks, embedder.encode(texts), metadatas)
    scan_corpus(db, store, "acme")
    evidence = Evidence("museum.md" if named else "was", quote=SENTENCE)
    item = Item("When was the museum of Brightwater founded?", ("1808",), (evidence,))
    resolution = resolve([item], db, store, "acme")[item.item_id]
    assert resolution.chunks == (None if found is None else {f"c{n}" for n in found})
    assert resolution.unresolved == ((evidence,) if found is None else ())


def test_a_document_may_have_the_name_of_one_of_its_chunks(store: ChromaStore, db: Database, embedder) -> None:
    chunks = [Chunk("report", "It begins here.", "report"), Chunk("report-2", "And here it ends.", "report")]
    store.ensure_client("acme")
    vectors = embedder.encode([chunk.text for chunk in chunks])
    store.upsert("acme", chunks, vectors, [{"document_id": "report"}] * 2)
    scan_corpus(db, store, "acme")
    item = Item("q", evidence=(Evidence("report", quote="here it ends"),))
    found = resolve([item], db, store, "acme")[item.item_id]
    assert (found.chunks, found.documents, found.unresolved) == ({"report-2"}, {"report"}, ())


class TestWithoutDocuments:
    """Chunks whose document the store does not name: their ids may be others tomorrow."""

    TEXTS = ("Rome was founded in 753 BC. It fell later.", "It fell later. Paris lies on the Seine.", "Index", "Index")

    @pytest.fixture
    def loose(self, store: ChromaStore, db: Database, embedder) -> ChromaStore:
        chunks = [Chunk(f"today {number}", text, f"today {number}") for number, text in enumerate(self.TEXTS)]
        chunks.append(Chunk("told", "Oslo lies on a fjord. It fell later.", "oslo.md"))
        metadatas = [{"document_id": chunk.document_id} if chunk.has_document else {"n": 1} for chunk in chunks]
        store.ensure_client("acme")
        store.upsert("acme", chunks, embedder.encode([chunk.text for chunk in chunks]), metadatas)
        scan_corpus(db, store, "acme")
        return store

    @pytest.mark.parametrize("name", ["yesterday 0", "today 0", "today 2"])
    def test_a_quote_stands_for_every_such_chunk_that_holds_it(self, loose: ChromaStore, db: Database, name) -> None:
        held, elsewhere = Evidence(name, quote="It fell  later."), Evidence(name, quote="Oslo lies on a fjord.")
        item = Item("q", evidence=(held, elsewhere))
        found = resolve([item], db, loose, "acme")[item.item_id]
        assert found.chunks == found.documents == found.of_each[held] == {"today 0", "today 1"}
        assert found.unresolved == (elsewhere,)

    def test_evidence_without_a_quote_needs_its_document(self, loose: ChromaStore, db: Database) -> None:
        items = [Item("q", evidence=(Evidence(name),)) for name in ("today 1", "yesterday 1")]
        found = resolve(items, db, loose, "acme")
        assert found[items[0].item_id].documents == {"today 1"}
        assert found[items[1].item_id].unresolved == items[1].evidence

    def test_a_heading_counts_once_though_many_chunks_have_it(self, loose: ChromaStore, db: Database) -> None:
        item = Item("q", evidence=(Evidence("gone", quote="see the Index"),))
        assert resolve([item], db, loose, "acme")[item.item_id].chunks is None

    def test_a_quote_cut_by_new_chunks_is_found_in_its_parts(self, loose: ChromaStore, db: Database, embedder) -> None:
        item = Item("q", evidence=(Evidence("today 0", quote=self.TEXTS[0]),))
        halves = (self.TEXTS[0][:21], self.TEXTS[0][21:])
        parts = [Chunk(f"part {number}", half, f"part {number}") for number, half in enumerate(halves)]
        loose.delete("acme", ["today 0", "today 1"])
        loose.upsert("acme", parts, embedder.encode([part.text for part in parts]), [{"n": 1}, {"n": 1}])
        scan_corpus(db, loose, "acme")
        assert resolve([item], db, loose, "acme")[item.item_id].chunks == {"part 0", "part 1"}


def reference(quote: str, chunks: list[Chunk]) -> list[str]:
    """The rule without pages, letter by letter."""

    def bare(text: str) -> int:
        return len(text.replace(" ", ""))

    words = " ".join(quote.split())
    texts = {chunk.id: " ".join(chunk.text.split()) for chunk in chunks}
    containing = [id for id, text in texts.items() if words in text]
    if containing:
        return containing
    overlaps = {}
    for id, text in texts.items():
        edges = [words[:size] for size in range(1, len(words)) if text.endswith(words[:size])]
        edges += [words[-size:] for size in range(1, len(words)) if text.startswith(words[-size:])]
        overlaps[id] = bare(text) if text in words else max(map(bare, edges), default=0)
    half = bare(words) / 2
    overlapping = [id for id, overlap in overlaps.items() if overlap >= half]
    within = [id for id, overlap in overlaps.items() if overlap and overlap >= bare(texts[id]) / 2]
    return overlapping or (within if sum({texts[id]: overlaps[id] for id in within}.values()) >= half else [])


SHORT_TEXTS = st.text("ab ", max_size=12) | st.text("abcdef gh", max_size=20)


@given(SHORT_TEXTS.filter(str.strip), st.lists(SHORT_TEXTS, max_size=6))
def test_the_quick_search_finds_what_the_rule_says(quote: str, texts: list[str]) -> None:
    chunks = chunked(*texts, quote[: len(quote) // 2] + "a", "b" + quote[2:])
    assert matching_chunks(quote, None, chunks) == reference(quote, chunks)


@given(st.lists(SHORT_TEXTS.filter(str.strip), max_size=4), st.lists(SHORT_TEXTS, max_size=6))
def test_many_quotes_at_once_find_what_each_finds_alone(quotes: list[str], texts: list[str]) -> None:
    chunks = chunked(*texts, *quotes)
    asked = [Evidence("gone", quote=quote) for quote in quotes]
    assert find_quotes(asked, chunks) == {
        evidence: frozenset(matching_chunks(evidence.quote or "", None, chunks)) for evidence in asked
    }
