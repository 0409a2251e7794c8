"""Which collections, or values of the client field, are clients: as rageval.toml and the environment say."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rageval_dagster.corpus.backends import open_backend
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.errors import SettingsError, StoreError
from rageval_dagster.records import Chunk
from rageval_dagster.settings import Settings
from tests.corpus.conftest import settings_of, their_collection
from tests.corpus.reading_proxy import reading_proxy


def fill_collection(settings: Settings, name: str, metadatas: Sequence[Any]) -> None:
    """Chunks `0`, `1`, ... with these metadata, by somebody else's hand."""
    collection = their_collection(settings, name)
    for number, metadata in enumerate(metadatas):
        collection.upsert(
            ids=[f"{number}"], embeddings=[[1.0, number]], documents=[f"text {number}"], metadatas=metadata
        )


def make_collections(settings: Settings, *names: str) -> None:
    for name in names:
        fill_collection(settings, name, [{"n": 1}])


class TestCollections:
    def test_patterns_choose_and_what_is_left_out_says_why(self, home: Path) -> None:
        settings = settings_of(home, 'defaults = {include = ["kb_*", "wiki"], exclude = ["*_old"]}')
        make_collections(settings, "kb_acme", "kb_acme_old", "wiki", "tmp")
        store = open_store(settings)
        assert store.clients() == list(store.probes()) == ["kb_acme", "wiki"]
        assert store.left_out() == [
            ("kb_acme_old", "exclude has '*_old'"),
            ("tmp", "include has only 'kb_*', 'wiki'"),
        ]
        with pytest.raises(StoreError, match=r"no client 'tmp' among its 2 \(include has only"):
            store.count("tmp")

    def test_a_client_goes_by_the_name_that_the_file_gives_its_collection(self, home: Path) -> None:
        settings = settings_of(
            home, 'defaults = {exclude = ["kb_*"]}\n[clients.acme]\ncollection = "kb_17"\n[clients.beta]\nk = 3'
        )
        make_collections(settings, "kb_17", "beta", "acme")
        store = open_store(settings)
        assert store.clients() == ["acme", "beta"]
        assert store.left_out() == [("acme", "client 'acme' is the collection 'kb_17'")]
        assert [chunk.text for page in store.scan("acme") for chunk in page.chunks] == ["text 0"]
        with pytest.raises(StoreError, match=r"no client 'kb_17' among its 2 \(it is client 'acme'\)"):
            store.probe("kb_17")

    def test_a_collection_that_only_the_file_knows(self, home: Path) -> None:
        settings = settings_of(home, '[clients.acme]\ncollection = "kb_17"')
        make_collections(settings, "other")
        with pytest.raises(StoreError, match=r"has no collection 'kb_17', which rageval\.toml names for client 'acme'"):
            open_store(settings).count("acme")

    def test_what_is_loaded_for_a_client_goes_where_the_file_says_and_nowhere_else(self, home: Path, embedder) -> None:
        settings = settings_of(
            home, 'defaults = {exclude = ["tmp*"]}\n[clients.acme]\ncollection = "kb_17"\n[clients.beta]\nk = 3'
        )
        store = open_store(settings)
        store.ensure_client("acme")
        store.upsert("acme", [Chunk("c", "text", "d")], embedder.encode(["text"]), [{"document_id": "d"}])
        assert [each.name for each in open_backend(settings).collections()] == ["kb_17"]
        assert open_store(settings).get("acme", ["c"])[0].text == "text"
        with pytest.raises(StoreError, match=r"'tmp1' is left out by the settings \(exclude has 'tmp\*'\)"):
            store.ensure_client("tmp1")
        with pytest.raises(StoreError, match=r"'kb_17' is not free for client 'kb_17' \(it is client 'acme'\)"):
            store.ensure_client("kb_17")

    def test_names_that_no_database_keeps_apart_are_left_out(self, home: Path) -> None:
        settings = settings_of(home)
        make_collections(settings, "a" * 201, "b" * 200)
        store = open_store(settings)
        assert store.clients() == ["b" * 200]
        assert store.left_out() == [("a" * 201, "a client name takes 1 to 200 characters, not 201")]

    def test_fields_of_each_client(self, home: Path) -> None:
        toml = 'defaults = {document_field = "file"}\n[clients.beta]\ndocument_field = "url"\npage_field = "p"'
        settings = settings_of(home, toml)
        both = [{"file": "a.md", "url": "https://x/y", "p": "3", "page": 8}]
        fill_collection(settings, "acme", both)
        fill_collection(settings, "beta", both)
        store = open_store(settings)
        [acme], [beta] = (store.get(client, ["0"]) for client in ("acme", "beta"))
        assert (acme.document_id, acme.page) == ("a.md", 8)
        assert (beta.document_id, beta.page) == ("https://x/y", 3)
        [[hit]] = store.query("beta", store.vectors("beta", ["0"]), depth=1)
        assert (hit.document_id, hit.page) == ("https://x/y", 3)


class TestClientField:
    VALUES = ("7", 7, 7.0, 7.5, "acme", "acme", True, ["acme"], None, "", "bad\nname")

    @pytest.fixture
    def shared(self, settings: Settings) -> ChromaStore:
        """Chunks whose field `tenant` has the values above, in their order, embedded and on a server."""
        metadatas = [{"n": 1} if value is None else {"tenant": value, "n": 1} for value in self.VALUES]
        fill_collection(settings, "all", metadatas)
        return open_store(settings.model_copy(update={"client_field": "tenant"}))

    def test_a_client_has_all_its_chunks_whatever_type_its_name_has(self, shared: ChromaStore) -> None:
        assert shared.clients() == ["7", "acme"]
        assert shared.count("7") == 3
        assert [chunk.id for page in shared.scan("7", page_size=2) for chunk in page.chunks] == ["0", "1", "2"]
        vectors = shared.vectors("7", ["0"])
        assert sorted(hit.chunk_id for hit in shared.query("7", vectors, depth=20)[0]) == ["0", "1", "2"]
        assert shared.get("7", ["0", "3", "4"])[0].id == "0"
        assert len(shared.get("7", ["0", "3", "4"])) == 1
        found = [each for page in shared.metadata("7", "n", [1]) for each in page]  # pyright: ignore[reportArgumentType]
        assert found == ["0", "1", "2"]

    def test_chunks_that_name_nobody_are_counted(self, shared: ChromaStore) -> None:
        # A truth value, a list, no field, an empty one: nobody's. Names that nobody can have are named instead.
        assert shared.without_client() == 4
        assert shared.left_out() == [
            ("7.5", "a number with a fraction is not a name"),
            ("bad\nname", "the client name 'bad\\nname' has a space at an end or a control character; rename it"),
        ]

    def test_the_probe_moves_with_a_chunk_of_any_of_its_types(self, shared: ChromaStore, settings: Settings) -> None:
        before = shared.probes()
        assert shared.probe("7") == before["7"]
        their_collection(settings, "all").upsert(
            ids=["new"], embeddings=[[1.0, 99]], documents=["new"], metadatas=[{"tenant": 7.0}]
        )
        after = open_store(settings.model_copy(update={"client_field": "tenant"})).probes()
        assert {client for client in after if after[client] != before[client]} == {"7"}

    def test_what_is_added_for_a_client_is_found_again(self, shared: ChromaStore, settings: Settings) -> None:
        import numpy as np

        for client in ("7", "new"):
            shared.ensure_client(client)
            shared.upsert(client, [Chunk(f"added {client}", "x", "d")], np.ones((1, 2), np.float32), [{"n": 1}])
        again = open_store(settings.model_copy(update={"client_field": "tenant"}))
        assert {client: again.count(client) for client in ("7", "new")} == {"7": 4, "new": 1}

    def test_the_file_names_the_shared_collection_and_clients_beside_it(self, home: Path) -> None:
        settings = settings_of(
            home,
            'defaults = {client_field = "tenant", collection = "all", exclude = ["t*"]}\n'
            '[clients.big]\ncollection = "kb_big"\n[clients.one]\ncollection = "all"',
        )
        fill_collection(settings, "all", [{"tenant": "one"}, {"tenant": "two"}, {"tenant": "big"}, {"other": 1}])
        make_collections(settings, "kb_big", "else")
        store = open_store(settings)
        assert store.clients() == ["big", "one"]
        assert [store.count(client) for client in store.clients()] == [1, 1]
        assert [chunk.id for page in store.scan("one") for chunk in page.chunks] == ["0"]
        assert store.left_out() == [
            ("big", "client 'big' is the collection 'kb_big'"),
            ("else", "it is not the collection that the clients share"),
            ("two", "exclude has 't*'"),
        ]
        assert store.without_client() == 1
        missing = settings_of(home, 'defaults = {client_field = "tenant", collection = "al"}')
        with pytest.raises(StoreError, match=r"names the collection 'al', which .* does not have"):
            open_store(missing).clients()


class TestHeaders:
    def test_they_go_with_every_request(self, home: Path, chroma_server: str) -> None:
        with reading_proxy(chroma_server) as proxy:
            settings = settings_of(
                home,
                RAGEVAL_CHROMA_URL=proxy.url,
                RAGEVAL_CHROMA_HEADERS='{"X-Api-Key": "k1"}',
                RAGEVAL_CHROMA_TOKEN="t",
            )
            open_store(settings).clients()
        assert proxy.headers["X-Api-Key"] == "k1"
        assert proxy.headers["Authorization"] == "Bearer t"

    @pytest.mark.parametrize("value", ["sesame", "[1]", '{"A": 1}', '{"A b": "c"}', '{"A": "sesame\\nB: c"}'])
    def test_what_is_none_is_one_clear_error_without_the_secret(self, home: Path, value: str) -> None:
        settings = settings_of(home, RAGEVAL_CHROMA_URL="http://127.0.0.1:9", RAGEVAL_CHROMA_HEADERS=value)
        with pytest.raises(SettingsError, match="RAGEVAL_CHROMA_HEADERS takes a JSON object") as caught:
            open_store(settings)
        assert "sesame" not in str(caught.value)
