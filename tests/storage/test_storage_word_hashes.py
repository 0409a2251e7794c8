"""Who holds a run of words: counted with the manifest, by client, and deleted with it."""

from collections.abc import Mapping

import pytest

from rageval_dagster.storage import corpus
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.forgetting import delete_rows, rows_of
from rageval_dagster.storage.word_hashes import Holders, hash_key, holder_of, holders_of
from tests.storage.test_storage_corpus import entry

LARGEST = 2**48 - 1


def write(db: Database, client: str, hashes: Mapping[str, list[int]]) -> None:
    entries = [entry(name) for name in hashes]
    by_key = {each.chunk_key: hashes[each.chunk_id] for each in entries}
    corpus.upsert_manifest(db, client, entries, hashes=by_key)


@pytest.fixture
def holders(db: Database) -> Mapping[str, Mapping[int, Holders]]:
    class Of(dict[str, Mapping[int, Holders]]):
        def __missing__(self, client: str) -> Mapping[int, Holders]:
            return holders_of(db, holder_of(hash_key(db), client), [1, 2, 3, LARGEST])

    return Of()


def nobody_else() -> Holders:
    return Holders(0, True, None)


def other(db: Database, client: str, own: bool = False) -> Holders:
    return Holders(1, own, holder_of(hash_key(db), client))


def test_a_run_is_held_as_long_as_some_chunk_has_it(db: Database, holders: Mapping[str, Mapping[int, Holders]]) -> None:
    write(db, "acme", {"a": [1, 1, 2], "b": [2, LARGEST]})
    write(db, "bank", {"a": [2, 3]})
    assert holders["acme"] == {
        1: nobody_else(),
        2: other(db, "bank", own=True),
        3: other(db, "bank"),
        LARGEST: nobody_else(),
    }
    write(db, "acme", {"a": [3]})
    assert holders["bank"] == {
        2: other(db, "acme", own=True),
        3: other(db, "acme", own=True),
        LARGEST: other(db, "acme"),
    }
    write(db, "acme", {"a": [3]})
    corpus.delete_manifest(db, "acme", [entry("a").chunk_key])
    assert holders["bank"] == {2: other(db, "acme", own=True), 3: nobody_else(), LARGEST: other(db, "acme")}
    write(db, "bank", {"a": []})
    assert holders["bank"] == {2: other(db, "acme"), LARGEST: other(db, "acme")}


def test_who_is_forgotten_holds_nothing(db: Database, holders: Mapping[str, Mapping[int, Holders]]) -> None:
    write(db, "acme", {"a": [1, LARGEST]})
    write(db, "bank", {"a": [1, 2]})
    assert rows_of(db, "acme")["word_hashes"] == 2
    delete_rows(db, "acme")
    assert rows_of(db, "acme") == {}
    assert holders["acme"] == {1: other(db, "bank"), 2: other(db, "bank")}


def test_of_several_others_none_is_the_one(db: Database, holders: Mapping[str, Mapping[int, Holders]]) -> None:
    write(db, "bank", {"a": [1]})
    write(db, "club", {"a": [1]})
    assert holders["acme"] == {1: Holders(2, False, None)}
