"""Stores as other people fill them: any id, any text, any metadata is handled."""

import pytest

from rageval_dagster.corpus.evidence import resolve
from rageval_dagster.corpus.scanning import scan_corpus
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.records import Evidence, Item
from rageval_dagster.settings import Settings
from rageval_dagster.storage.corpus import iter_manifest
from rageval_dagster.storage.database import Database
from tests.corpus.conftest import their_collection

HOSTILE = [
    "7f1c9a34-0f4e-4c4b-9c39-1a2b3c4d5e6f",
    "17",
    "https://example.org/a?b=c&d=%20#e",
    "x" * 2000,
    "😀 ключ 钥匙",
    "\u202egnp.exe\u202c",
    "a\nb\tc\x1b[31m",
    "../../../etc/passwd",
    "'; DROP TABLE corpus_chunks; --",
    " ",
    "{{7*7}} <script>alert(1)</script>",
]


@pytest.fixture
def hostile(embedded_settings: Settings) -> ChromaStore:
    """Chunks whose id, text and document are hostile; the first half has no document."""
    collection = their_collection(embedded_settings)
    for number, name in enumerate(HOSTILE):
        collection.upsert(
            ids=[name],
            embeddings=[[1.0, number]],
            documents=[f"The text of {name} says number {number}."],
            metadatas=[{"document_id": name * 2} if number > 5 else {"n": 1}],
        )
    collection.upsert(ids=["long"], embeddings=[[1.0, 99]], documents=["A megabyte of words. " * 50_000])
    return open_store(embedded_settings)


def test_hostile_ids_documents_and_texts_are_handled(hostile: ChromaStore, any_db: Database) -> None:
    report = scan_corpus(any_db, hostile, "theirs")
    assert (report.chunk_count, report.without_text) == (len(HOSTILE) + 1, 0)
    again = scan_corpus(any_db, hostile, "theirs")
    assert (again.added, again.changed, again.removed, again.reembedded) == (0, 0, 0, 0)
    assert again.corpus_version == report.corpus_version
    stored = {entry.chunk_id for page in iter_manifest(any_db, "theirs") for entry in page}
    assert stored == {*HOSTILE, "long"}
    assert [chunk.id for chunk in hostile.get("theirs", HOSTILE)] == HOSTILE
    assert hostile.vectors("theirs", HOSTILE).shape == (len(HOSTILE), 2)
    items = [
        Item("q", evidence=(Evidence(name * 2 if number > 5 else name, quote=f"{name} says number {number}."),))
        for number, name in enumerate(HOSTILE)
    ]
    found = resolve(items, any_db, hostile, "theirs")
    assert [found[item.item_id].chunks for item in items] == [{name} for name in HOSTILE]


def test_what_no_database_keeps_apart_is_left_out_and_counted(embedded_settings: Settings, any_db: Database) -> None:
    texts = [None, "", " \n\t ", "\u00a0\u2003", "words", "words with \0 in them"]
    collection = their_collection(embedded_settings)
    for number, text in enumerate(texts):
        collection.upsert(
            ids=[f"{number}"], embeddings=[[1.0, number]], **({} if text is None else {"documents": [text]})
        )
    collection.upsert(ids=["an id\0"], embeddings=[[1.0, 9]], documents=["words"])
    store = open_store(embedded_settings)
    report = scan_corpus(any_db, store, "theirs")
    assert (report.chunk_count, report.without_text, store.count("theirs")) == (2, 5, 7)
    again = scan_corpus(any_db, store, "theirs")
    assert (again.added, again.changed, again.removed) == (0, 0, 0)
