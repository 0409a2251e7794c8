"""An embedder that does not fit the store's vectors is an error, not a low score."""

import pytest

from rageval_dagster.corpus.compatibility import check_embedder
from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.errors import EmbeddingError

TEXTS = [f"chunk {number} tells about subject {number * 7}" for number in range(40)]


def test_the_embedder_that_filled_the_store_fits(store: ChromaStore, fill, embedder) -> None:
    fill(store, "acme", TEXTS)
    embedder.encoded.clear()
    check_embedder(store, "acme", embedder)
    assert 0 < len(embedder.encoded) <= 16


def test_another_dimension_names_both_numbers_before_anything_is_embedded(store: ChromaStore, fill, embedder) -> None:
    fill(store, "acme", TEXTS)
    other = type(embedder)(dimension=48)
    with pytest.raises(EmbeddingError, match=r"'acme'.* have 32 dimensions, those of hashing-48 have 48"):
        check_embedder(store, "acme", other)
    assert other.encoded == []


def test_another_model_of_the_same_dimension_is_noticed(store: ChromaStore, fill, embedder) -> None:
    fill(store, "acme", TEXTS)
    with pytest.raises(EmbeddingError, match=r"are not from hashing-32: \d+ of 16 chunks .*RAGEVAL_EMBEDDING_MODEL"):
        check_embedder(store, "acme", type(embedder)(version="2"))


def test_one_odd_vector_is_forgiven_and_an_empty_client_fits(store: ChromaStore, fill, embedder) -> None:
    chunks = fill(store, "acme", TEXTS)
    store.upsert("acme", chunks[:1], -embedder.encode(TEXTS[:1]), [{"document_id": "d"}])
    check_embedder(store, "acme", embedder)
    store.ensure_client("empty")
    check_embedder(store, "empty", embedder)
