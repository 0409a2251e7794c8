"""The document store, embedded and on a server: the same behaviour on both."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rageval_dagster.corpus.backends import open_backend
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.errors import SettingsError, StoreError
from rageval_dagster.records import Chunk
from rageval_dagster.settings import Settings
from tests.corpus.conftest import settings_of, their_collection

TEXTS = ["red apples fall", "green pears hang", "blue plums roll", "old trees stand", "new seeds grow"]


def test_an_empty_store_has_no_clients(store: ChromaStore) -> None:
    assert store.clients() == []
    assert store.probes() == {}
    with pytest.raises(StoreError, match=r"has no client 'acme' among its 0; .*`rageval ingest"):
        store.count("acme")


def test_what_is_written_is_read_back(store: ChromaStore, settings: Settings, fill, embedder) -> None:
    chunks = fill(store, "acme", TEXTS)
    again = open_store(settings)
    assert again.clients() == ["acme"]
    assert again.count("acme") == 5
    assert again.dimension("acme") == embedder.dimension
    assert again.get("acme", ["c3", "nowhere", "c0", "c3"]) == [chunks[3], chunks[0], chunks[3]]
    assert again.get("acme", []) == []
    np.testing.assert_allclose(again.vectors("acme", ["c2", "c1"]), embedder.encode([TEXTS[2], TEXTS[1]]), atol=1e-6)
    assert again.vectors("acme", []).shape == (0, embedder.dimension)
    with pytest.raises(StoreError, match="1 of 2 chunks are no longer"):
        again.vectors("acme", ["c2", "gone"])


def test_a_scan_gives_every_chunk_once_in_pages(store: ChromaStore, fill) -> None:
    chunks = fill(store, "acme", TEXTS)
    pages = list(store.scan("acme", page_size=2))
    assert [len(page.chunks) for page in pages] == [2, 2, 1]
    assert [chunk for page in pages for chunk in page.chunks] == chunks
    assert [chunk for page in store.scan("acme", with_vectors=False, page_size=5) for chunk in page.chunks] == chunks
    assert all(page.vectors is not None and page.vectors.dtype == np.float32 for page in pages)


def test_chunks_without_text_are_counted_and_left_out(store: ChromaStore, settings: Settings, fill, embedder) -> None:
    fill(store, "acme", TEXTS[:2])
    collection = their_collection(settings, "acme")
    collection.upsert(ids=["bare"], embeddings=embedder.encode(["bare"]), metadatas=[{"source": 5}])
    collection.upsert(ids=["plain"], embeddings=embedder.encode(["plain"]), documents=["plain"])
    [page] = open_store(settings).scan("acme")
    assert [chunk.id for chunk in page.chunks] == ["c0", "c1", "plain"]
    assert page.without_text == 1
    assert page.vectors is not None
    np.testing.assert_allclose(page.vectors[2], embedder.encode(["plain"])[0], atol=1e-6)
    assert store.get("acme", ["bare", "plain"])[0].document_id == "plain"


def test_a_query_ranks_by_cosine(store: ChromaStore, fill, embedder) -> None:
    fill(store, "acme", TEXTS)
    vectors = embedder.encode(["green pears", "new seeds grow"])
    first, second = store.query("acme", vectors, depth=3)
    assert [hit.rank for hit in first] == [1, 2, 3]
    assert first[0].chunk_id == "c1"
    assert first[0].text == TEXTS[1]
    assert second[0].score == pytest.approx(1.0, abs=1e-5)
    stored = embedder.encode(TEXTS)
    for hits, vector in zip((first, second), vectors, strict=True):
        for hit in hits:
            assert hit.score == pytest.approx(float(stored[int(hit.chunk_id[1:])] @ vector), abs=1e-5)
    assert [len(hits) for hits in store.query("acme", vectors, depth=50)] == [5, 5]


@pytest.mark.parametrize("space", ["l2", "ip"])
def test_scores_are_cosines_in_collections_of_another_space(embedded_settings: Settings, embedder, space: str) -> None:
    vectors = embedder.encode(TEXTS) * np.arange(1, 6, dtype=np.float32)[:, None]
    theirs = their_collection(embedded_settings, metadata={"hnsw:space": space})
    theirs.upsert(ids=[f"c{n}" for n in range(5)], embeddings=vectors, documents=TEXTS)
    query = embedder.encode(["old trees"])
    [hits] = open_store(embedded_settings).query("theirs", query, depth=5)
    cosines = embedder.encode(TEXTS) @ query[0]
    assert {hit.chunk_id: round(hit.score, 4) for hit in hits} == {
        f"c{n}": round(float(cosine), 4) for n, cosine in enumerate(cosines)
    }


def test_equal_distances_are_ranked_by_chunk_id(store: ChromaStore, embedder) -> None:
    store.ensure_client("acme")
    chunks = [Chunk(name, "the same words", "d") for name in ("z", "m", "a")]
    vectors = embedder.encode([chunk.text for chunk in chunks])
    store.upsert("acme", chunks, vectors, [{"document_id": "d"}] * 3)
    [hits] = store.query("acme", vectors[:1], depth=3)
    assert [hit.chunk_id for hit in hits] == ["a", "m", "z"]


def test_clients_keep_their_own_names(store: ChromaStore, settings: Settings, fill) -> None:
    names = ["Müller & Söhne", "ab", "a/b", "plain-name"]
    for name in names:
        fill(store, name, TEXTS[:1])
    others = [f"client-{number:03d}" for number in range(97)]  # together more than a page of Chroma's
    client = open_backend(settings).client(write=True)
    for name in others:
        client.create_collection(name, embedding_function=None)
    again = open_store(settings)
    assert again.clients() == sorted(names + others)
    assert again.get("a/b", ["c0"])[0].text == TEXTS[0]
    assert not again.is_made_by_us("client-007")
    assert (again.count("client-007"), list(again.scan("client-007")), again.dimension("client-007")) == (0, [], None)


class TestProbes:
    def test_a_probe_moves_with_added_and_deleted_chunks_of_its_client_alone(self, settings, store, fill) -> None:
        fill(store, "acme", TEXTS)
        fill(store, "other", TEXTS)
        seen = [open_store(settings).probes()]
        fill(store, "acme", ["one more"], first=5)
        seen.append(open_store(settings).probes())
        store.delete("acme", ["c0", "c1"])
        seen.append(open_store(settings).probes())
        assert len({probes["acme"] for probes in seen}) == 3
        assert len({probes["other"] for probes in seen}) == 1
        assert open_store(settings).probe("acme") == seen[-1]["acme"]

    def test_embedded_an_edit_in_place_moves_it(self, embedded_settings: Settings, fill) -> None:
        store = open_store(embedded_settings)
        fill(store, "acme", TEXTS)
        before = open_store(embedded_settings).probe("acme")
        fill(store, "acme", ["edited"])
        edited = open_store(embedded_settings).probe("acme")
        store.update_metadata("acme", {"c1": {"position": 9}})
        assert len({before, edited, open_store(embedded_settings).probe("acme")}) == 3

    def test_a_collection_deleted_and_made_again_is_another(self, store, settings, fill) -> None:
        fill(store, "acme", TEXTS)
        before = open_store(settings).probe("acme")
        open_backend(settings).client(write=True).delete_collection("acme")
        again = open_store(settings)
        fill(again, "acme", TEXTS)
        assert open_store(settings).probe("acme") != before


WRITER = """
import sys, numpy as np, chromadb
from chromadb.config import Settings
client = chromadb.PersistentClient(sys.argv[1], settings=Settings(anonymized_telemetry=False))
collection = client.get_collection("acme", embedding_function=None)
vectors = np.tile(np.eye(32, dtype="float32")[7], (500, 1)) + np.random.default_rng(0).normal(0, .01, (500, 32))
collection.upsert(ids=[f"n{i}" for i in range(500)], embeddings=vectors, documents=["new"] * 500)
collection.upsert(ids=["c1"], embeddings=np.eye(32)[9:10], documents=["edited"])
collection.delete(ids=["c0"])
"""


def test_an_open_store_process_sees_what_another_process_wrote(embedded_settings: Settings, fill) -> None:
    store = open_store(embedded_settings)
    fill(store, "acme", TEXTS)
    target = np.eye(32, dtype=np.float32)
    assert len(store.query("acme", target[7:8], depth=10)[0]) == 5  # the index is now in this process
    subprocess.run([sys.executable, "-c", WRITER, str(embedded_settings.embedded_chroma_path)], check=True)
    again = open_store(embedded_settings)
    [new, edited] = again.query("acme", target[[7, 9]], depth=10)
    assert {hit.chunk_id[0] for hit in new} == {"n"}
    assert (edited[0].chunk_id, edited[0].text) == ("c1", "edited")
    assert again.count("acme") == 504
    assert again.get("acme", ["c0"]) == []


def test_probing_an_embedded_store_does_not_open_chroma(embedded_settings: Settings, fill) -> None:
    fill(open_store(embedded_settings), "acme", TEXTS)
    program = (
        "import sys; from rageval_dagster.settings import load_settings;"
        "from rageval_dagster.corpus.store import open_store;"
        "print(list(open_store(load_settings()).probes()), 'chromadb' in sys.modules)"
    )
    environment = {"RAGEVAL_HOME": str(embedded_settings.home)}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['acme'] False"


def test_several_collections_are_none_that_clients_share(store: ChromaStore, settings: Settings) -> None:
    for client in ("one", "two"):
        store.ensure_client(client)
    with pytest.raises(StoreError, match=r"RAGEVAL_CLIENT_FIELD needs a store with one collection, .* has 2"):
        open_store(settings.model_copy(update={"client_field": "tenant"})).clients()


class TestTrouble:
    def test_a_server_without_the_database(self, home: Path, chroma_server: str) -> None:
        settings = settings_of(home, RAGEVAL_CHROMA_URL=chroma_server, RAGEVAL_CHROMA_DATABASE="nowhere")
        with pytest.raises(StoreError, match="nowhere"):
            open_store(settings).clients()

    def test_a_server_that_is_down(self, home: Path) -> None:
        settings = settings_of(home, RAGEVAL_CHROMA_URL="http://127.0.0.1:9")
        with pytest.raises(StoreError, match=r"no Chroma server answers at http://127.0.0.1:9 \(ConnectError\)"):
            open_store(settings).clients()

    @pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://user:pw@x:1", "http://x:1/path"])
    def test_an_unusable_address(self, home: Path, url: str) -> None:
        settings = settings_of(home, RAGEVAL_CHROMA_URL=url)
        with pytest.raises(SettingsError, match="RAGEVAL_CHROMA_URL takes") as caught:
            open_store(settings)
        assert "pw" not in str(caught.value)

    def test_a_file_that_is_not_chromas(self, embedded_settings: Settings) -> None:
        embedded_settings.embedded_chroma_path.mkdir(parents=True)
        (embedded_settings.embedded_chroma_path / "chroma.sqlite3").write_text("nonsense" * 1000)
        with pytest.raises(StoreError, match=r"cannot be read \(file is not a database\)"):
            open_store(embedded_settings).clients()

    def test_no_embedding_function_of_chroma_is_ever_called(
        self, embedded_settings: Settings, embedder, monkeypatch
    ) -> None:
        from chromadb.api.types import DefaultEmbeddingFunction

        def refuse(self: object, input: object) -> None:
            raise AssertionError("Chroma's default embedding function was called")

        monkeypatch.setattr(DefaultEmbeddingFunction, "__call__", refuse)
        collection = open_backend(embedded_settings).client(write=True).create_collection("theirs")
        collection.upsert(ids=["x"], embeddings=embedder.encode(["x"]), documents=["x"])
        store = open_store(embedded_settings)
        assert store.query("theirs", embedder.encode(["x"]), depth=1)[0][0].chunk_id == "x"
        store.upsert("theirs", [Chunk("y", "y", "d")], embedder.encode(["y"]), [{"document_id": "d"}])
        assert len(list(store.scan("theirs"))) == 1
