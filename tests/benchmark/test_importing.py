"""Importing questions for a client: their ids found in its corpus, what is not there listed, nothing half done."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from rageval_dagster.benchmark.importing import ImportReport, import_dataset
from rageval_dagster.corpus.evidence import resolve
from rageval_dagster.corpus.scanning import scan_corpus
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.errors import DatasetError, RagevalError
from rageval_dagster.records import Chunk, Evidence, Item
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.benchmark import dataset_items, list_datasets
from rageval_dagster.storage.clients import list_clients
from rageval_dagster.storage.database import Database

FIRST = "The lighthouse of Avonlea was founded in 1801. It is known for its seven towers."
SECOND = "A ticket is sold for twelve crowns at the gate near the river."
CHUNKS = [
    Chunk("a::0", FIRST, "docs/avonlea.md"),
    Chunk("a::1", SECOND, "docs/avonlea.md"),
    Chunk("b::0", "The castle of Dunmore is closed in winter.", "docs/dunmore.md"),
    Chunk("c::0", "The castle of Dunmore has a museum.", "old/dunmore.md"),
]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = load_settings({"RAGEVAL_HOME": str(tmp_path / "home")}, env_file=tmp_path / "none.env")
    found.ensure_home()
    return found


def fill(settings: Settings, chunks: Iterable[Chunk], with_document: bool = True) -> ChromaStore:
    """The store with these chunks as all that the client `acme` has."""
    store, chunks = open_store(settings), list(chunks)
    store.ensure_client("acme")
    store.delete("acme", [chunk.id for page in store.scan("acme", with_vectors=False) for chunk in page.chunks])
    metadatas = [{"document_id": chunk.document_id} if with_document else {"kind": "text"} for chunk in chunks]
    store.upsert("acme", chunks, np.eye(len(chunks), 8, dtype=np.float32), metadatas)
    return open_store(settings)


@pytest.fixture
def store(settings: Settings) -> ChromaStore:
    return fill(settings, CHUNKS)


def write(folder: Path, value: object) -> Path:
    path = folder / "questions.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def ai4rag(folder: Path, *document_ids: list[str]) -> Path:
    """A question for each list of ids."""
    rows = [
        {"question": f"What about number {number}?", "correct_answers": ["Yes."], "correct_answer_document_ids": ids}
        for number, ids in enumerate(document_ids)
    ]
    return write(folder, rows)


def imported(db: Database, report: ImportReport) -> list[Item]:
    return dataset_items(db, report.dataset.id)


def test_the_id_of_a_chunk_becomes_a_quote_that_survives_splitting_anew(
    sqlite_db: Database, settings: Settings, store: ChromaStore, tmp_path: Path
) -> None:
    path = ai4rag(tmp_path, ["a::1"], ["docs/dunmore.md"], ["a::0", "a::1"])
    report = import_dataset(sqlite_db, "acme", "own", path, "ai4rag", store=store)
    items = imported(sqlite_db, report)
    assert [item.evidence for item in items] == [
        (Evidence("docs/avonlea.md", None, SECOND),),
        (Evidence("docs/dunmore.md"),),
        (Evidence("docs/avonlea.md", None, FIRST), Evidence("docs/avonlea.md", None, SECOND)),
    ]
    assert report.checked
    assert report.unresolved == []
    halves = [
        Chunk(f"new{n}", text, "docs/avonlea.md") for n, text in enumerate([FIRST + " " + SECOND[:30], SECOND[30:]])
    ]
    store = fill(settings, [*halves, *CHUNKS[2:]])
    scan_corpus(sqlite_db, store, "acme")
    resolved = resolve(items, sqlite_db, store, "acme")
    assert [resolved[item.item_id].chunks for item in items] == [{"new1"}, None, {"new0", "new1"}]


def test_a_pair_is_evidence_of_its_chunk_if_that_is_there_else_of_its_document(
    sqlite_db: Database, store: ChromaStore, tmp_path: Path
) -> None:
    rows = [
        {"question": "Where is the ticket sold?", "chunk_id": "a::1", "document_id": "avonlea"},
        {"question": "When is it closed?", "chunk_id": "gone", "document_id": "docs/dunmore.md"},
        {"question": "Which towers are there?", "chunk_id": "a::0"},
        {"question": "Who knows?", "chunk_id": "gone"},
    ]
    report = import_dataset(sqlite_db, "acme", "pairs", write(tmp_path, rows), "qa-pairs", store=store)
    assert [item.evidence for item in imported(sqlite_db, report)] == [
        (Evidence("docs/avonlea.md", None, SECOND),),
        (Evidence("docs/dunmore.md"),),
        (Evidence("docs/avonlea.md", None, FIRST),),
        (Evidence("gone"),),
    ]
    assert [(each.document_id, each.reason) for each in report.unresolved] == [("gone", "no_such_document")]


def test_chunks_without_a_document_are_quoted_and_found_under_new_ids(
    sqlite_db: Database, settings: Settings, tmp_path: Path
) -> None:
    store = fill(settings, CHUNKS, with_document=False)
    report = import_dataset(sqlite_db, "acme", "own", ai4rag(tmp_path, ["a::1"]), "ai4rag", store=store)
    [item] = imported(sqlite_db, report)
    assert item.evidence == (Evidence("a::1", None, SECOND),)
    renewed = fill(settings, [Chunk(f"tonight-{chunk.id}", chunk.text, "") for chunk in CHUNKS], with_document=False)
    native = tmp_path / "native.jsonl"
    quotes = [{"document_id": "a::1", "quote": SECOND}, {"document_id": "a::1", "quote": "nobody says so"}]
    native.write_text(json.dumps({"question": "Where is it sold?", "evidence": quotes}), encoding="utf-8")
    again = import_dataset(sqlite_db, "acme", "own again", native, "native", store=renewed)
    assert [each.reason for each in again.unresolved] == ["no_such_document"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"([^/]+)\.md$", ["docs/avonlea.md", "https://wiki/dunmore.md", "https://wiki/elsewhere.md", "???"]),
        (r"(nothing)?", ["https://wiki/avonlea.md", "https://wiki/dunmore.md", "https://wiki/elsewhere.md", "???"]),
    ],
)
def test_documents_are_matched_by_what_their_ids_have_in_common(
    sqlite_db: Database, store: ChromaStore, tmp_path: Path, pattern: str, found: list[str]
) -> None:
    """One that several documents may be, or none, stays as it is and is listed."""
    path = ai4rag(
        tmp_path,
        ["https://wiki/avonlea.md"],
        ["https://wiki/dunmore.md"],
        ["https://wiki/elsewhere.md"],
        ["???"],
        ["old/dunmore.md"],
    )
    report = import_dataset(sqlite_db, "acme", "own", path, "ai4rag", store=store, document_pattern=pattern)
    assert [item.evidence[0].document_id for item in imported(sqlite_db, report)] == [*found, "old/dunmore.md"]
    unresolved = {each.document_id: (each.reason, each.nearest) for each in report.unresolved}
    assert unresolved.keys() == {each for each in found if not each.startswith("docs/")}
    if pattern.startswith("(["):
        expected = ("ambiguous_document", ["docs/dunmore.md", "old/dunmore.md"])
        assert unresolved["https://wiki/dunmore.md"] == expected
    else:
        assert unresolved["https://wiki/avonlea.md"] == ("no_such_document", ["docs/avonlea.md"])


def test_rows_that_become_the_same_item_are_named(sqlite_db: Database, store: ChromaStore, tmp_path: Path) -> None:
    rows = [
        {"question": "When is it closed?", "correct_answers": ["On Monday."], "correct_answer_document_ids": [id]}
        for id in ("x/avonlea.md", "avonlea.md")
    ]
    report = import_dataset(
        sqlite_db, "acme", "own", write(tmp_path, rows), "ai4rag", store=store, document_pattern=r"\w+\.md$"
    )
    assert report.dataset.qa_count == 1
    assert [(refusal.row, refusal.reason) for refusal in report.refused] == [(2, "is the same item as row 1")]


def test_a_quote_finds_its_document_under_another_name(sqlite_db: Database, store: ChromaStore, tmp_path: Path) -> None:
    [lit] = [chunk for chunk in CHUNKS if chunk.id == "a::1"]
    rows = [
        {"title": "Avonlea_(lighthouse)", "context": lit.text, "question": "What of it?", "answers": lit.text[:10]},
        {"title": "Elsewhere", "context": "Nothing of it stands here.", "question": "And there?", "answers": "Nothing"},
    ]
    report = import_dataset(sqlite_db, "acme", "own", write(tmp_path, rows), "squad", store=store)
    [first, second] = imported(sqlite_db, report)
    assert [each.document_id for each in first.evidence] == [lit.document_id]
    assert [(each.item_id, each.reason) for each in report.unresolved] == [(second.item_id, "no_such_document")]


def test_quotes_that_their_document_does_not_hold_are_listed_with_the_chunks_most_alike(
    sqlite_db: Database, store: ChromaStore, tmp_path: Path
) -> None:
    path = tmp_path / "native.jsonl"
    quotes = ["was founded\n in 1801", "A ticket is sold for thirteen crowns at the gate"]
    rows = [{"question": f"{q[:9]}?", "evidence": [{"document_id": "docs/avonlea.md", "quote": q}]} for q in quotes]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    report = import_dataset(sqlite_db, "acme", "own", path, "native", store=store)
    [unresolved] = report.unresolved
    second = imported(sqlite_db, report)[1]
    assert unresolved.to_dict() == {
        "item_id": second.item_id,
        "question": second.question,
        "document_id": "docs/avonlea.md",
        "reason": "quote_not_found",
        "nearest": ["a::1", "a::0"],
    }
    assert "quote_not_found" in report.dataset.stats["flagged"][second.item_id]


def test_without_the_clients_documents_everything_is_imported_as_it_is(
    sqlite_db: Database, settings: Settings, tmp_path: Path
) -> None:
    report = import_dataset(sqlite_db, "acme", "own", ai4rag(tmp_path, ["a::1"]), "ai4rag", store=open_store(settings))
    assert (report.checked, report.unresolved) == (False, [])
    assert [item.evidence for item in imported(sqlite_db, report)] == [(Evidence("a::1"),)]


@pytest.mark.parametrize(
    ("client", "name", "pattern", "words"),
    [
        ("acme", "own", "(", "--map-document '(' is not a regular expression"),
        ("acme", "synthetic", None, "'synthetic' is the name of client 'acme'"),
        ("a" * 1_000_000, "own", None, "client name takes 1 to 200 characters, not 1000000"),
        ("\u202eacme", "own", None, "direction of writing"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing_behind(
    sqlite_db: Database, store: ChromaStore, tmp_path: Path, client: str, name: str, pattern: str | None, words: str
) -> None:
    with pytest.raises(RagevalError) as caught:
        import_dataset(sqlite_db, client, name, ai4rag(tmp_path, ["a"]), "ai4rag", None, store, pattern)
    assert words in str(caught.value)
    with pytest.raises(DatasetError, match=r"no row that can be imported; the first: questions.json, row 1, field"):
        import_dataset(sqlite_db, "acme", "own", write(tmp_path, [{"question": ""}]), "ai4rag")
    assert list_datasets(sqlite_db) == []
    assert list_clients(sqlite_db) == []
