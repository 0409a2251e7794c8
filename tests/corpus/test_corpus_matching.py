"""Whose chunk is it that an external system returned, and which: by words, by id, by passages cut otherwise."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rageval_dagster.corpus.evidence import Resolution, resolve
from rageval_dagster.corpus.fields import LEFT_OUT_FIELD
from rageval_dagster.corpus.matching import Placed, place_hits, stray_owners
from rageval_dagster.corpus.scanning import scan_corpus
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.records import Chunk, Evidence, Hit, Item
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.forgetting import delete_rows, rows_of
from rageval_dagster.storage.word_hashes import hash_key, holder_of
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
ITEM = Item("Where are tickets sold?", ("at the red kiosk",), (Evidence("ferry.md", quote=SENTENCES[1]),))
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


Place = Callable[..., Placed]


@pytest.fixture
def place(sqlite_db: Database, store: ChromaStore) -> Place:
    """Tells whose chunks these are that a system returned for an item, or for what is known of one."""

    def placing(*hits: Hit, item: Item = ITEM, known: Resolution | None = None) -> Placed:
        resolution = known or resolve([item], sqlite_db, store, "acme")[item.item_id]
        [placed] = place_hits(sqlite_db, store, "acme", [(resolution, hits)])
        return placed

    return placing


def hit(text: str = "", chunk_id: str = "", document_id: str = "", rank: int = 1) -> Hit:
    return Hit(chunk_id, document_id, rank, 0.0, text)


def owners(placed: Placed) -> list[str]:
    return [hit.owner for hit in placed.hits or ()]


def ids(placed: Placed) -> list[str]:
    return [hit.chunk_id for hit in placed.hits or ()]


def seen(placed: Placed) -> list[tuple[str, str, str]]:
    return [(hit.chunk_id, hit.document_id, hit.owner) for hit in placed.hits or ()]


def test_a_context_without_ids_is_the_chunk_with_its_words_whatever_the_white_space(place: Place) -> None:
    excerpt = hit("at the red kiosk", "1")  # and so is a piece of one that it names
    for context in (hit(f"\n {FIRST.replace(' ', '  ')} "), excerpt):
        placed = place(context)
        assert seen(placed) == [("1", "ferry.md", "own")]
        assert placed.resolution.chunks == {"1"}


def test_an_id_alone_names_the_clients_chunk_and_its_text_is_the_stores(place: Place) -> None:
    placed = place(hit(chunk_id="2"))
    assert seen(placed) == [("2", "ferry.md", "own")]
    assert [each.text for each in placed.hits or ()] == [SECOND]


def test_another_clients_words_are_a_leak_under_whatever_id_and_are_not_kept(place: Place) -> None:
    piece = " ".join(SECRET.split()[2:])
    placed = place(hit(SECRET, "1"), hit(SECRET, "own-index-4711"), hit(SECRET), hit(piece))
    assert owners(placed) == ["foreign"] * 4
    assert all(each.text == "" for each in placed.hits or ())
    assert not set(ids(placed)) & {"1", "2", "17"}, "an own chunk's id would count as found"


@pytest.mark.parametrize("mistake", ["k = 'many'", "redact = 'nowhere:function'", "redact = 'json:loads'"])
def test_another_clients_wrong_settings_stop_nobody_elses_passages(
    sqlite_db: Database, store: ChromaStore, tmp_path: Path, mistake: str
) -> None:
    (tmp_path / "rageval.toml").write_text(f"[clients.rival]\n{mistake}\n", encoding="utf-8")
    settings = load_settings({"RAGEVAL_HOME": str(tmp_path)}, tmp_path / "none.env", tmp_path / "rageval.toml")
    nobodys = hit("Words of nobody, cut from a place that is not known.")
    [placed] = place_hits(sqlite_db, open_store(settings), "acme", [(Resolution(None, None), (nobodys,))])
    assert owners(placed) == ["unknown"]


def test_an_id_alone_is_a_leak_only_if_one_other_client_has_it(place: Place) -> None:
    placed = place(hit(chunk_id="99"), hit(chunk_id="17"), hit(chunk_id="4711"))
    assert seen(placed)[0][2] == "foreign"
    assert seen(placed)[1] == ("17", "note.md", "own")
    assert seen(placed)[2] == ("4711", "4711", "unknown")


def test_words_that_nobody_has_are_unknown_and_no_chunk_of_the_client(place: Place) -> None:
    for nowhere in (hit("Nothing of this stands in any document of anybody here.", "1"), hit()):
        placed = place(nowhere)
        assert owners(placed) == ["unknown"]
        assert ids(placed) != ["1"]
        assert placed.resolution.chunks == {"1"}


def test_a_passage_cut_otherwise_is_relevant_where_it_holds_the_quote_itself(place: Place) -> None:
    holding, other = " ".join(SENTENCES[1:3]), SENTENCES[0]
    placed = place(hit(other, "x1"), hit(holding, "x2", rank=2))
    assert [name in (placed.resolution.chunks or ()) for name in ids(placed)] == [False, True]
    assert [each.document_id for each in placed.hits or ()] == ["ferry.md", "ferry.md"]
    assert owners(placed) == ["own", "own"]


def test_a_passage_holds_the_quote_whatever_its_punctuation_and_case(place: Place) -> None:
    """Whoever strips markup puts spaces around it: `<em>file</em>.` is `file .` then."""
    passage = " ".join(SENTENCES[1:4]).replace(",", " ,").replace(".", " .").replace("red kiosk", "RED  kiosk\u2019")
    placed = place(hit(passage, "mine-1"))
    assert seen(placed) == [("1", "ferry.md", "own")]
    assert placed.resolution.chunks == {"1"}


def test_no_two_passages_stand_for_one_chunk_so_that_each_keeps_its_rank(place: Place) -> None:
    """Scored as one, the passages before the quote would have made its rank a better one."""
    pieces = [SENTENCES[3], SENTENCES[4], SENTENCES[5], SENTENCES[1], f"{SENTENCES[1]} {SENTENCES[2]}"]
    placed = place(*(hit(piece, rank=rank) for rank, piece in enumerate(pieces, 1)))
    assert len(set(ids(placed))) == len(pieces)
    assert [name in (placed.resolution.chunks or ()) for name in ids(placed)] == [False, False, False, True, False]
    assert [each.document_id for each in placed.hits or ()] == ["ferry.md"] * len(pieces)
    # The chunk as it is stands for itself, though a piece of it came first.
    placed = place(hit(SENTENCES[3]), hit(SECOND, rank=2), hit(SENTENCES[1], rank=3))
    assert ids(placed)[1:] == ["2", "1"]


def test_the_document_that_a_passage_names_is_its_own_where_its_words_stand_there(place: Place) -> None:
    for name in ("terms-a.md", "terms-b.md"):
        assert seen(place(hit(SHARED, document_id=name)))[0][1] == name
    assert seen(place(hit(SHARED, document_id="ferry.md")))[0][1] == "terms-a.md"
    assert seen(place(hit(SHARED, document_id="elsewhere.md")))[0][1] == "terms-a.md"


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
def test_a_passage_does_not_hold_what_only_looks_alike(place: Place, quote: str, near: str) -> None:
    item = Item("What is said?", (), (Evidence("s.md", quote=quote),))
    beside = place(hit(f"so. {near} And so on"), item=item)
    assert owners(beside) == ["own"]
    assert not set(ids(beside)) & (beside.resolution.chunks or set())
    itself = place(hit(f"\u201c{quote.replace(' ', '  ').upper()}\u201d *or* so"), item=item)
    assert set(ids(itself)) == itself.resolution.chunks


def test_a_passage_of_a_few_words_is_the_clients_where_its_chunks_have_it_and_never_anothers(place: Place) -> None:
    item = Item("When does the last boat return?", ("at four",), (Evidence("ferry.md", quote="returns at four"),))
    placed = place(hit("boat returns at four", "x1"), hit("Prices rise in", "x2", rank=2), item=item)
    assert owners(placed) == ["own", "unknown"]
    [own, unknown] = ids(placed)
    assert own in (placed.resolution.chunks or ())
    assert unknown not in (placed.resolution.chunks or ())


BOTH = frozenset({"1", "2"})
OVERLAPPING = Resolution(BOTH, frozenset({"ferry.md"}), (), {ITEM.evidence[0]: BOTH})
"""The quote as it is resolved where two overlapping chunks hold it."""


def test_evidence_in_overlapping_chunks_counts_once_for_a_system_with_its_own_cut(place: Place) -> None:
    placed = place(hit(" ".join(SENTENCES[1:4])), known=OVERLAPPING)
    assert placed.resolution.chunks == set(ids(placed))
    assert len(ids(placed)) == 1


def test_a_piece_of_anothers_chunk_changes_nothing_about_what_is_relevant(place: Place) -> None:
    placed = place(hit(FIRST), hit(" ".join(SECRET.split()[2:])), known=OVERLAPPING)
    assert owners(placed) == ["own", "foreign"]
    assert placed.resolution.chunks == BOTH


def test_who_does_not_tell_what_was_retrieved_stays_silent(sqlite_db: Database, store: ChromaStore) -> None:
    [silent] = place_hits(sqlite_db, store, "acme", [(OVERLAPPING, None)])
    assert silent.hits is None


def test_a_system_that_names_documents_only_has_no_chunk_level(place: Place) -> None:
    placed = place(hit(document_id="ferry.md"), hit(document_id="gone.md", rank=2))
    assert placed.resolution.chunks is None
    assert placed.resolution.documents == {"ferry.md"}
    assert [each.document_id for each in placed.hits or ()] == ["ferry.md", "gone.md"]
    assert owners(placed) == ["own", "unknown"]


def test_an_own_id_or_own_words_hide_no_words_of_another_client(place: Place) -> None:
    own_and_foreign = f"{FIRST} {SECRET}"
    few_foreign = f"{FIRST} {SECOND} {SECRET}"
    placed = place(hit(own_and_foreign, "1"), hit(own_and_foreign), hit(few_foreign), hit(f"Short. {SECRET}", "17"))
    assert owners(placed) == ["foreign"] * 4
    assert not any(each.text for each in placed.hits or ())
    assert not set(ids(placed)) & {"1", "2", "17"}


def test_an_own_chunk_is_a_part_of_a_passage_by_whole_words_only(place: Place) -> None:
    assert owners(place(hit("Shortest ways to the moon are long.", "17"))) == ["unknown"]
    assert owners(place(hit("This is the short. And this is quite another long matter of nobody.", "17"))) == [
        "unknown"
    ]
    assert seen(place(hit("Note: Short.", "17")))[0] == ("17", "note.md", "own")


@pytest.mark.parametrize(
    "reword",
    [
        str.upper,
        lambda text: text.replace(" ", " \n  "),
        lambda text: text.replace(" ", ", "),
        lambda text: text.replace("e", "e\u200b").replace("Parana", "\uff30arana"),
    ],
    ids=["case", "spacing", "punctuation", "letters"],
)
def test_another_clients_sentence_is_found_however_it_is_set(place: Place, reword: Callable[[str], str]) -> None:
    assert owners(place(hit(f"As the record says: {reword(SECRET)} That is all."))) == ["foreign"]


@pytest.fixture
def fleet(sqlite_db: Database, tmp_path: Path) -> Callable[[dict[str, list[str]]], ChromaStore]:
    """Makes clients of these passages."""

    def making(corpora: dict[str, list[str]]) -> ChromaStore:
        opened = open_store(load_settings({"RAGEVAL_HOME": str(tmp_path / "fleet")}, tmp_path / "none.env"))
        for client, texts in corpora.items():
            opened.ensure_client(client)
            chunks = [Chunk(f"{client}-{number}", text, "d") for number, text in enumerate(texts)]
            vectors = np.ones((len(chunks), 4), dtype=np.float32)
            opened.upsert(client, chunks, vectors, [{"document_id": "d"} for _ in chunks])
            scan_corpus(sqlite_db, opened, client)
        return opened

    return making


TEMPLATE = (
    "The customer may cancel the contract in writing within fourteen days from the day on which it was signed, and "
    "gets back whatever was paid until then, less what was used."
)


@pytest.mark.parametrize(("holders", "owner"), [(1, "foreign"), (2, "shared"), (3, "unknown")])
def test_what_several_clients_hold_is_shared_and_what_many_hold_is_nobodys(
    sqlite_db: Database, fleet: Callable[[dict[str, list[str]]], ChromaStore], holders: int, owner: str
) -> None:
    # Which runs are kept is by chance: many, so that those at an edge are among them.
    templates = [
        TEMPLATE.replace("fourteen", f"{n} working").replace("signed", f"signed by {n * n}") for n in range(60)
    ]
    others = {
        f"c{client}": [
            f"Sheet {n} of {client * 7 + n + 100}: {each} Terms {client}." for n, each in enumerate(templates)
        ]
        for client in range(holders)
    }
    store = fleet({"acme": ["A text of its own about boats."], **others})
    passages = [f"So it is said in {n}: {each} And more." for n, each in enumerate(templates)]
    hits = tuple(map(hit, passages))
    [placed] = place_hits(sqlite_db, store, "acme", [(Resolution(None, None), hits)])
    kept = [(owner, each if owner == "unknown" else "") for each in passages]
    assert [(each.owner, each.text) for each in placed.hits or ()] == kept
    strays = {} if owner == "unknown" else dict.fromkeys(passages, owner)
    assert whose(sqlite_db, store, "acme", passages) == strays


def whose(db: Database, store: ChromaStore, client: str, texts: list[str]) -> dict[str, str]:
    return {text: stray.owner for text, stray in stray_owners(db, store, client, texts).items()}


def test_whose_words_they_are_is_known_where_one_client_has_them(
    sqlite_db: Database, fleet: Callable[[dict[str, list[str]]], ChromaStore]
) -> None:
    other = "The harbour master of Brightwater burns the tide tables of the year before on the last night of May."
    store = fleet({"acme": ["A text of its own."], "bank": [SECRET, TEMPLATE], "club": [other, TEMPLATE]})
    found = stray_owners(sqlite_db, store, "acme", [SECRET, f"{SECRET} {other}", TEMPLATE])
    bank, club = (holder_of(hash_key(sqlite_db), client) for client in ("bank", "club"))
    assert found[SECRET].holders == (bank,)
    assert found[f"{SECRET} {other}"].holders == tuple(sorted((bank, club)))
    assert (found[TEMPLATE].owner, found[TEMPLATE].holders) == ("shared", ())


def test_words_that_stand_in_an_own_chunk_are_nobody_elses(
    sqlite_db: Database, fleet: Callable[[dict[str, list[str]]], ChromaStore]
) -> None:
    store = fleet({"acme": [f"Part one. {TEMPLATE}"], "bank": [TEMPLATE, f"{TEMPLATE} Fee: 7 crowns for the bank."]})
    filled = f"{TEMPLATE} Fee: 7 crowns for the bank."
    assert whose(sqlite_db, store, "acme", [TEMPLATE, f"We say: {TEMPLATE}", filled]) == {filled: "foreign"}


def test_what_a_pages_reader_left_out_is_the_clients_own_when_a_system_returns_it(
    sqlite_db: Database, fleet: Callable[[dict[str, list[str]]], ChromaStore]
) -> None:
    """A menu in one client's page may be another's sentence, and a system that indexed it made nothing up."""
    menu = "Home Our teas How to steep them Opening hours of the shop Contact and imprint Careers at the tea house"
    store = fleet({"acme": ["The harbour has no lights."], "bank": [menu, SECRET]})
    leaking = f"{menu} {SECRET}"
    place = partial(place_hits, sqlite_db, store, "acme")
    asked = (hit(menu), hit(leaking))
    assert owners(*place([(Resolution(None, None), asked)])) == ["foreign", "foreign"]
    store.update_metadata("acme", {"acme-0": {LEFT_OUT_FIELD: f"Menu {menu}"}})
    [placed] = place([(Resolution(None, None), asked)])
    assert owners(placed) == ["own", "foreign"]
    assert [each.document_id for each in placed.hits or () if each.owner == "own"] == ["d"]
    assert whose(sqlite_db, store, "acme", [f"Our menu says: {menu}", leaking]) == {leaking: "foreign"}


def test_a_menu_that_is_kept_with_another_page_does_not_tell_which_page_a_passage_is_of(
    place: Place, store: ChromaStore
) -> None:
    menu = "Home Our ferries Their times of the year What tickets cost Opening hours of the office Contact and imprint"
    store.update_metadata("acme", {"17": {LEFT_OUT_FIELD: menu}})
    for document_id in ("ferry.md", ""):
        placed = place(hit(f"{menu} {SENTENCES[1]}", document_id=document_id))
        assert [(each.document_id, each.owner) for each in placed.hits or ()] == [("ferry.md", "own")]


def test_a_passage_of_a_menu_alone_is_of_the_page_that_the_system_names(place: Place, store: ChromaStore) -> None:
    menu = "Home Our ferries Their times of the year What tickets cost Opening hours of the office Contact and imprint"
    store.update_metadata("acme", {"17": {LEFT_OUT_FIELD: menu}})
    placed = place(*(hit(menu, document_id=name) for name in ("ferry.md", "note.md", "", "no-such.md")))
    told = [(each.document_id, each.owner) for each in placed.hits or ()]
    assert told == [(name, "own") for name in ("ferry.md", "note.md", "note.md", "note.md")]


def test_a_long_passage_over_many_short_chunks_stays_with_their_document_whatever_is_named(
    sqlite_db: Database, fleet: Callable[[dict[str, list[str]]], ChromaStore]
) -> None:
    store = fleet({"acme": SENTENCES})
    note = Chunk("n", "A note about nothing that anybody would call a ferry.", "note.md")
    store.upsert("acme", [note], np.ones((1, 4), dtype=np.float32), [{"document_id": "note.md"}])
    scan_corpus(sqlite_db, store, "acme")
    [placed] = place_hits(
        sqlite_db, store, "acme", [(Resolution(None, None), (hit(" ".join(SENTENCES[:4]), document_id="note.md"),))]
    )
    assert [each.document_id for each in placed.hits or ()] == ["d"]


def test_what_a_client_does_not_hold_any_more_is_not_its_own(
    sqlite_db: Database, fleet: Callable[[dict[str, list[str]]], ChromaStore]
) -> None:
    store = fleet({"acme": ["A text of its own."], "bank": [TEMPLATE, SECRET, f"{SECRET} Again."]})
    store.delete("bank", ["bank-0", "bank-1"])
    scan_corpus(sqlite_db, store, "bank")
    assert whose(sqlite_db, store, "acme", [TEMPLATE, SECRET]) == {SECRET: "foreign"}
    store.upsert("bank", [Chunk("bank-2", TEMPLATE, "d")], np.ones((1, 4), dtype=np.float32), [{"document_id": "d"}])
    scan_corpus(sqlite_db, store, "bank")
    assert whose(sqlite_db, store, "acme", [TEMPLATE, SECRET]) == {TEMPLATE: "foreign"}
    delete_rows(sqlite_db, "bank")
    assert whose(sqlite_db, store, "acme", [TEMPLATE, SECRET]) == {}
    assert set(rows_of(sqlite_db, "bank")) == {"clients"}


def test_another_clients_words_are_found_in_ids_too_and_not_kept(place: Place) -> None:
    placed = place(hit("Nobody said this.", SECRET), hit("Nor that.", document_id=SECRET), hit(chunk_id=SECRET))
    assert owners(placed) == ["foreign"] * 3
    assert len(set(ids(placed))) == 3
    assert not any("Orinoco" in part for each in placed.hits or () for part in (each.chunk_id, each.document_id))


def test_a_whole_chunk_is_its_clients_though_most_of_it_is_boilerplate(
    sqlite_db: Database, fleet: Callable[[dict[str, list[str]]], ChromaStore]
) -> None:
    filled = f"Deposit of Orinoco: 7 crowns. {TEMPLATE}"
    many = {f"c{number}": [f"{TEMPLATE} Terms {number}."] for number in range(4)}
    store = fleet({"acme": ["A text of its own."], "bank": [filled], **many})
    assert whose(sqlite_db, store, "acme", [filled, TEMPLATE]) == {filled: "foreign"}


def test_short_own_chunks_and_short_chunks_of_others_make_no_leak(
    sqlite_db: Database, fleet: Callable[[dict[str, list[str]]], ChromaStore]
) -> None:
    store = fleet({"acme": [TEMPLATE, "Fees in 2026"], "bank": [f"{TEMPLATE} Fees in 2026", "Yes", "Contact us"]})
    assert whose(sqlite_db, store, "acme", [f"{TEMPLATE} Fees in 2026", "Yes", "Contact us"]) == {}


def test_a_first_scan_that_was_interrupted_and_looked_at_meanwhile_misses_nothing(
    sqlite_db: Database, fleet: Callable[[dict[str, list[str]]], ChromaStore]
) -> None:
    texts = [
        f"Rule {n} of the {n * 7919} says that item {n * 31} is kept in hall {n * 17} by day {n}." for n in range(1200)
    ]
    store = fleet({"acme": ["A text of its own."]})
    store.ensure_client("bank")
    chunks = [Chunk(f"b{n}", text, "d") for n, text in enumerate(texts)]
    store.upsert("bank", chunks, np.ones((len(chunks), 4), dtype=np.float32), [{"document_id": "d"} for _ in chunks])

    def stop(done: int, total: int) -> None:
        if done < total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan_corpus(sqlite_db, store, "bank", stop)
    assert set(stray_owners(sqlite_db, store, "acme", texts)) == set(texts)
    scan_corpus(sqlite_db, store, "bank")
    assert set(stray_owners(sqlite_db, store, "acme", texts)) == set(texts)
    store.delete("bank", ["b0"])
    scan_corpus(sqlite_db, store, "bank")
    assert set(stray_owners(sqlite_db, store, "acme", texts)) == set(texts[1:])
