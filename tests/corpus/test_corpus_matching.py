"""Whose chunk is it that an external system returned, and which: by words, by id, by passages cut otherwise."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rageval_dagster.corpus.evidence import Resolution, resolve
from rageval_dagster.corpus.matching import Placed, place_hits
from rageval_dagster.corpus.scanning import scan_corpus
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.records import Chunk, Evidence, Hit, Item
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.database import Database
from tests.corpus.conftest import HashingEmbedder

SENTENCES = [
    "The ferry to the northern island leaves from pier seven at half past nine in the morning.",
    "Tickets for the crossing are sold at the red kiosk beside the old customs house.",
    "Bicycles travel free of charge, but motorcycles need a place that was booked before.",
    "In winter the last boat returns at four, because the harbour has no lights.",
    "Passengers who miss the last boat may sleep in the hut that the island council keeps.",
    "Dogs are welcome on deck as long as they are held on a short lead at all times.",
]
FIRST, SECOND = " ".join(SENTENCES[:3]), " ".join(SENTENCES[3:])
QUOTE = SENTENCES[1]
ITEM = Item("Where are tickets sold?", ("at the red kiosk",), (Evidence("ferry.md", quote=QUOTE),))
SECRET = "The merger of Orinoco with Parana Holdings will be announced on the ninth of May in Caracas."
NEARLY = [
    ("Fee: 5 euros", "The coffee 5 euros a cup is sold here."),
    ("the fee is 1.5 euros for each metre", "the fee is 1,5 euros for each metre"),
    ("a place costs 1,500 crowns in the summer", "a place costs 1.500 crowns in the summer"),
    ("refused below a temperature of 5 degrees", "refused below a temperature of -5 degrees"),
    ("if weight != limit then it is refused", "if weight == limit then it is refused"),
    ("taken where length > 12 or height > 4", "taken where length < 12 or height < 4"),
]
"""What one says the other does not, though its words are the same but for signs and the beginning of one."""


SHARED = "Whoever loses a ticket pays a fine of forty crowns at the office beside the customs house."
"""A sentence that two documents hold."""


@pytest.fixture
def store(tmp_path: Path, sqlite_db: Database, embedder: HashingEmbedder) -> ChromaStore:
    opened = open_store(load_settings({"RAGEVAL_HOME": str(tmp_path)}, tmp_path / "none.env"))
    corpora = {
        "acme": [Chunk("1", FIRST, "ferry.md"), Chunk("2", SECOND, "ferry.md"), Chunk("17", "Short.", "note.md")]
        + [Chunk(name, f"The terms of {name}. {SHARED} And so on.", f"terms-{name}.md") for name in ("b", "a")]
        + [Chunk(f"s{n}", f"{quote}. Or so. {near} And so on.", "s.md") for n, (quote, near) in enumerate(NEARLY)],
        "rival": [Chunk("1", SECRET, "secret.md"), Chunk("99", "Prices rise in June.", "p.md"), Chunk("17", "S.", "n")],
        "third": [Chunk("17", "Something else.", "other.md")],
    }
    for client, chunks in corpora.items():
        opened.ensure_client(client)
        metadatas = [{"document_id": chunk.document_id} for chunk in chunks]
        opened.upsert(client, chunks, embedder.encode([chunk.text for chunk in chunks]), metadatas)
        scan_corpus(sqlite_db, opened, client)
    return opened


def place(db: Database, store: ChromaStore, *hits: Hit, item: Item = ITEM) -> Placed:
    resolution = resolve([item], db, store, "acme")[item.item_id]
    [placed] = place_hits(db, store, "acme", [(resolution, hits)])
    return placed


def hit(text: str = "", chunk_id: str = "", document_id: str = "", rank: int = 1) -> Hit:
    return Hit(chunk_id, document_id, rank, 0.0, text)


def seen(placed: Placed) -> list[tuple[str, str, str]]:
    return [(hit.chunk_id, hit.document_id, hit.owner) for hit in placed.hits or ()]


def test_a_context_without_ids_is_the_chunk_with_its_words_whatever_the_white_space(
    sqlite_db: Database, store: ChromaStore
) -> None:
    excerpt = hit("at the red kiosk", "1")  # and so is a piece of one that it names
    for context in (hit(f"\n {FIRST.replace(' ', '  ')} "), excerpt):
        placed = place(sqlite_db, store, context)
        assert seen(placed) == [("1", "ferry.md", "own")]
        assert placed.resolution.chunks == {"1"}


def test_an_id_alone_names_the_clients_chunk_and_its_text_is_the_stores(
    sqlite_db: Database, store: ChromaStore
) -> None:
    placed = place(sqlite_db, store, hit(chunk_id="2"))
    assert seen(placed) == [("2", "ferry.md", "own")]
    assert [each.text for each in placed.hits or ()] == [SECOND]


def test_another_clients_words_are_a_leak_under_whatever_id_and_are_not_kept(
    sqlite_db: Database, store: ChromaStore
) -> None:
    piece = " ".join(SECRET.split()[2:12])
    placed = place(sqlite_db, store, hit(SECRET, "1"), hit(SECRET, "own-index-4711"), hit(SECRET), hit(piece))
    assert [each.owner for each in placed.hits or ()] == ["foreign"] * 4
    assert all(each.text == "" for each in placed.hits or ())
    assert not {each.chunk_id for each in placed.hits or ()} & {"1", "2", "17"}, (
        "an own chunk's id would count as found"
    )


@pytest.mark.parametrize("mistake", ["k = 'many'", "redact = 'nowhere:function'", "redact = 'json:loads'"])
def test_another_clients_wrong_settings_stop_nobody_elses_passages(
    sqlite_db: Database, store: ChromaStore, tmp_path: Path, mistake: str
) -> None:
    (tmp_path / "rageval.toml").write_text(f"[clients.rival]\n{mistake}\n", encoding="utf-8")
    settings = load_settings({"RAGEVAL_HOME": str(tmp_path)}, tmp_path / "none.env", tmp_path / "rageval.toml")
    placed = place(sqlite_db, open_store(settings), hit("Words of nobody, cut from a place that is not known."))
    assert [each.owner for each in placed.hits or ()] == ["unknown"]


def test_an_id_alone_is_a_leak_only_if_one_other_client_has_it(sqlite_db: Database, store: ChromaStore) -> None:
    placed = place(sqlite_db, store, hit(chunk_id="99"), hit(chunk_id="17"), hit(chunk_id="4711"))
    assert seen(placed)[0][2] == "foreign"
    assert seen(placed)[1] == ("17", "note.md", "own")
    assert seen(placed)[2] == ("4711", "4711", "unknown")


def test_words_that_nobody_has_are_unknown_and_no_chunk_of_the_client(sqlite_db: Database, store: ChromaStore) -> None:
    for nowhere in (hit("Nothing of this stands in any document of anybody here.", "1"), hit()):
        placed = place(sqlite_db, store, nowhere)
        assert [each.owner for each in placed.hits or ()] == ["unknown"]
        assert [each.chunk_id for each in placed.hits or ()] != ["1"]
        assert placed.resolution.chunks == {"1"}
    [silent] = place_hits(sqlite_db, store, "acme", [(Resolution(None, None), None)])
    assert silent.hits is None, "who does not tell what was retrieved stays silent"


def test_a_passage_cut_otherwise_is_relevant_where_it_holds_the_quote_itself(
    sqlite_db: Database, store: ChromaStore
) -> None:
    holding, other = " ".join(SENTENCES[1:3]), SENTENCES[0]
    placed = place(sqlite_db, store, hit(other, "x1"), hit(holding, "x2", rank=2))
    relevant = placed.resolution.chunks or frozenset()
    assert [each.chunk_id in relevant for each in placed.hits or ()] == [False, True]
    assert [each.document_id for each in placed.hits or ()] == ["ferry.md", "ferry.md"]
    assert [each.owner for each in placed.hits or ()] == ["own", "own"]


def test_a_passage_holds_the_quote_whatever_its_punctuation_and_case(sqlite_db: Database, store: ChromaStore) -> None:
    """Whoever strips markup puts spaces around it: `<em>file</em>.` is `file .` then."""
    passage = " ".join(SENTENCES[1:4]).replace(",", " ,").replace(".", " .").replace("red kiosk", "RED  kiosk\u2019")
    placed = place(sqlite_db, store, hit(passage, "mine-1"))
    assert seen(placed) == [("1", "ferry.md", "own")]
    assert placed.resolution.chunks == {"1"}


def test_no_two_passages_stand_for_one_chunk_so_that_each_keeps_its_rank(
    sqlite_db: Database, store: ChromaStore
) -> None:
    """Scored as one, the passages before the quote would have made its rank a better one."""
    pieces = [SENTENCES[3], SENTENCES[4], SENTENCES[5], SENTENCES[1], f"{SENTENCES[1]} {SENTENCES[2]}"]
    placed = place(sqlite_db, store, *(hit(piece, rank=rank) for rank, piece in enumerate(pieces, 1)))
    ids = [each.chunk_id for each in placed.hits or ()]
    assert len(set(ids)) == len(pieces)
    assert [name in (placed.resolution.chunks or ()) for name in ids] == [False, False, False, True, False]
    assert [each.document_id for each in placed.hits or ()] == ["ferry.md"] * len(pieces)
    # The chunk as it is stands for itself, though a piece of it came first.
    placed = place(sqlite_db, store, hit(SENTENCES[3]), hit(SECOND, rank=2), hit(SENTENCES[1], rank=3))
    assert [each.chunk_id for each in placed.hits or ()][1:] == ["2", "1"]


def test_the_document_that_a_passage_names_is_its_own_where_its_words_stand_there(
    sqlite_db: Database, store: ChromaStore
) -> None:
    for name in ("terms-a.md", "terms-b.md"):
        assert seen(place(sqlite_db, store, hit(SHARED, document_id=name)))[0][1] == name
    assert seen(place(sqlite_db, store, hit(SHARED, document_id="ferry.md")))[0][1] == "terms-a.md"
    assert seen(place(sqlite_db, store, hit(SHARED, document_id="elsewhere.md")))[0][1] == "terms-a.md"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations([*range(12)]), st.integers(1, 12))
def test_what_a_passage_is_does_not_depend_on_the_others_that_are_placed_with_it(
    sqlite_db: Database, store: ChromaStore, order: list[int], count: int
) -> None:
    texts = (SHARED, f"{SHARED} {SENTENCES[0]}", SENTENCES[2], "Words of nobody, cut from a place that is not known.")
    pool = [hit(text, document_id=name) for text in texts for name in ("terms-a.md", "terms-b.md", "")]
    asked = [(Resolution(None, None), (pool[number],)) for number in order[:count]]
    together = [seen(placed) for placed in place_hits(sqlite_db, store, "acme", asked)]
    assert together == [seen(placed) for each in asked for placed in place_hits(sqlite_db, store, "acme", [each])]


@pytest.mark.parametrize(("quote", "near"), NEARLY)
def test_a_passage_does_not_hold_what_only_looks_alike(
    sqlite_db: Database, store: ChromaStore, quote: str, near: str
) -> None:
    item = Item("What is said?", (), (Evidence("s.md", quote=quote),))
    beside = place(sqlite_db, store, hit(f"so. {near} And so on"), item=item)
    assert [each.owner for each in beside.hits or ()] == ["own"]
    assert not {each.chunk_id for each in beside.hits or ()} & (beside.resolution.chunks or set())
    itself = place(sqlite_db, store, hit(f"\u201c{quote.replace(' ', '  ').upper()}\u201d *or* so"), item=item)
    assert {each.chunk_id for each in itself.hits or ()} == itself.resolution.chunks


def test_a_passage_of_a_few_words_is_the_clients_where_its_chunks_have_it_and_never_anothers(
    sqlite_db: Database, store: ChromaStore
) -> None:
    item = Item("When does the last boat return?", ("at four",), (Evidence("ferry.md", quote="returns at four"),))
    placed = place(sqlite_db, store, hit("boat returns at four", "x1"), hit("Prices rise in", "x2", rank=2), item=item)
    assert [each.owner for each in placed.hits or ()] == ["own", "unknown"]
    [own, unknown] = [each.chunk_id for each in placed.hits or ()]
    assert own in (placed.resolution.chunks or ())
    assert unknown not in (placed.resolution.chunks or ())


def test_evidence_in_overlapping_chunks_counts_once_for_a_system_with_its_own_cut(
    sqlite_db: Database, store: ChromaStore
) -> None:
    evidence = Evidence("ferry.md", quote=QUOTE)
    resolution = Resolution(frozenset({"1", "2"}), frozenset({"ferry.md"}), (), {evidence: frozenset({"1", "2"})})
    [placed] = place_hits(sqlite_db, store, "acme", [(resolution, (hit(" ".join(SENTENCES[1:4])),))])
    found = {each.chunk_id for each in placed.hits or ()}
    assert placed.resolution.chunks == found
    assert len(found) == 1


def test_a_piece_of_anothers_chunk_changes_nothing_about_what_is_relevant(
    sqlite_db: Database, store: ChromaStore
) -> None:
    evidence = Evidence("ferry.md", quote=QUOTE)
    resolution = Resolution(frozenset({"1", "2"}), frozenset({"ferry.md"}), (), {evidence: frozenset({"1", "2"})})
    leaked = hit(" ".join(SECRET.split()[2:12]))
    [placed] = place_hits(sqlite_db, store, "acme", [(resolution, (hit(FIRST), leaked))])
    assert [each.owner for each in placed.hits or ()] == ["own", "foreign"]
    assert placed.resolution.chunks == {"1", "2"}


def test_a_system_that_names_documents_only_has_no_chunk_level(sqlite_db: Database, store: ChromaStore) -> None:
    placed = place(sqlite_db, store, hit(document_id="ferry.md"), hit(document_id="gone.md", rank=2))
    assert placed.resolution.chunks is None
    assert placed.resolution.documents == {"ferry.md"}
    assert [(each.document_id, each.owner) for each in placed.hits or ()] == [
        ("ferry.md", "own"),
        ("gone.md", "unknown"),
    ]
