"""What corpus/chroma_internals.py relies on, held against the installed Chroma; scripts/contracts.sh tries others."""

import sqlite3
import urllib.request
from contextlib import closing
from pathlib import Path

import chromadb
import httpx
import numpy as np
import pytest
from chromadb.api import ClientAPI
from chromadb.config import DEFAULT_DATABASE as DATABASE
from chromadb.config import DEFAULT_TENANT as TENANT
from chromadb.errors import ChromaError
from pydantic import SecretStr

from rageval_dagster.corpus.chroma_internals import (
    DATABASE_FILE,
    HEARTBEAT,
    Catalogue,
    FieldValue,
    distance_space,
    embedded,
    open_client,
    server,
    translated,
)
from rageval_dagster.errors import StoreAwayError, StoreError
from tests.corpus.conftest import new_server_database


@pytest.fixture
def client(tmp_path: Path) -> ClientAPI:
    return open_client(TENANT, DATABASE, lambda: embedded(tmp_path))


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    return Catalogue(tmp_path, TENANT, DATABASE)


@pytest.fixture
def collection(client: ClientAPI) -> chromadb.Collection:
    made = client.create_collection(
        "acme", metadata={"word": "w", "count": 3, "share": 0.5}, embedding_function=None,
        configuration={"hnsw": {"space": "cosine", "ef_search": 400}},
    )  # fmt: skip
    made.upsert(
        ids=["a", "b", "c"],
        embeddings=np.eye(3, 8, dtype=np.float32),
        documents=["one", "two", "three"],
        metadatas=[{"tenant": "7"}, {"tenant": 7}, {"tenant": 7.5}],
    )
    return made


def test_the_file_has_the_tables_and_columns_that_are_read(client: ClientAPI, tmp_path: Path) -> None:
    columns = {
        "collections": {"id", "name", "database_id", "dimension"},
        "databases": {"id", "name", "tenant_id"},
        "collection_metadata": {"collection_id", "key", "str_value", "int_value", "float_value"},
        "segments": {"id", "scope", "collection"},
        "max_seq_id": {"segment_id", "seq_id"},
        "embeddings": {"id", "segment_id", "seq_id"},
        "embedding_metadata": {"id", "key", "string_value", "int_value", "float_value"},
    }
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as file:
        for table, wanted in columns.items():
            assert wanted <= {row[1] for row in file.execute(f"PRAGMA table_info({table})")}, table


def test_the_file_says_of_collections_what_chroma_says(catalogue: Catalogue, collection: chromadb.Collection) -> None:
    [found] = catalogue.collections()
    assert (found.id, found.name, found.metadata) == (str(collection.id), "acme", collection.metadata)
    assert catalogue.count(found.id) == collection.count() == 3
    assert Catalogue(catalogue.path, TENANT, "another").collections() == []


def test_values_are_counted_by_type(catalogue: Catalogue, collection: chromadb.Collection) -> None:
    found = {(type(value.value), value.value): value.chunks for value in catalogue.values(str(collection.id), "tenant")}
    assert found == {(str, "7"): 1, (int, 7): 1, (float, 7.5): 1}


def test_every_kind_of_write_moves_revision_state_and_value(
    catalogue: Catalogue, collection: chromadb.Collection
) -> None:
    def look() -> tuple[int, str, list[FieldValue]]:
        identity = str(collection.id)
        return catalogue.revisions()[identity], catalogue.state(), catalogue.values(identity, "tenant")

    seen = [look()]
    for write in (
        lambda: collection.upsert(ids=["a"], embeddings=np.eye(1, 8, dtype=np.float32), documents=["edited"]),
        lambda: collection.update(ids=["b"], metadatas=[{"page": 2}]),
        lambda: collection.delete(ids=["c"]),
    ):
        write()
        seen.append(look())
    assert sorted(revision for revision, _, _ in seen) == [revision for revision, _, _ in seen]
    assert len({revision for revision, _, _ in seen}) == len({state for _, state, _ in seen}) == 4
    assert seen[1][2] != seen[0][2]


def test_the_space_and_the_batch_size_are_told(client: ClientAPI, collection: chromadb.Collection) -> None:
    assert distance_space(collection) == "cosine"
    assert distance_space(client.get_collection("acme", embedding_function=None)) == "cosine"
    assert distance_space(client.create_collection("plain", embedding_function=None)) == "l2"
    assert client.get_max_batch_size() > 100


def test_a_database_that_there_is_not_is_refused(client: ClientAPI, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere"), translated("here"):
        open_client(TENANT, "nowhere", lambda: embedded(tmp_path))


def test_what_chroma_refuses_is_one_of_its_errors(client: ClientAPI) -> None:
    with pytest.raises(ChromaError):
        client.get_collection("nowhere", embedding_function=None)
    with pytest.raises(StoreError, match=r"the Chroma store at here refused: .*nowhere"), translated("here"):
        client.get_collection("nowhere", embedding_function=None)


class TestServer:
    def test_it_says_that_it_is_one(self, chroma_server: str) -> None:
        path, word = HEARTBEAT
        assert word in urllib.request.urlopen(chroma_server + path).read().decode()

    def test_a_client_has_its_headers_pages_and_ids(self, chroma_server: str) -> None:
        host, port = chroma_server.removeprefix("http://").split(":")
        headers = {"X-Api-Key": SecretStr("secret")}
        database = new_server_database(chroma_server)
        client = open_client(TENANT, database, lambda: server(host, int(port), False, headers))
        made = [client.create_collection(name, embedding_function=None) for name in ("one", "two")]
        pages = [client.list_collections(limit=1, offset=offset) for offset in (0, 1, 2)]
        assert [len(page) for page in pages] == [1, 1, 0]
        assert {each.id for page in pages for each in page} == {each.id for each in made}

    @pytest.mark.parametrize("status", [502, 503, 504])
    def test_one_that_is_away_is_told_from_one_that_refuses(
        self, status: int, chroma_server: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host, port = chroma_server.removeprefix("http://").split(":")
        client = open_client(TENANT, DATABASE, lambda: server(host, int(port), False, {}))

        def answer(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
            return httpx.Response(status, text="<html>away</html>", request=request)

        monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)
        with pytest.raises(StoreAwayError), translated("there"):
            client.list_collections()
