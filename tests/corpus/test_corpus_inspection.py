"""What a store holds is found out by looking, whoever made it, and nothing of it is changed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rageval_dagster.corpus.backends import open_backend
from rageval_dagster.corpus.inspection import CollectionReport, inspect_store
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.errors import EmbeddingError, StoreError
from rageval_dagster.settings import Settings
from tests.corpus.conftest import HashingEmbedder, new_server_database, settings_of

ENGLISH = "The harbour of {} serves ferries to the islands every morning, and the fare is paid on board."
GERMAN = "Der Hafen von {} dient den Fähren zu den Inseln, und der Fahrpreis wird an Bord bezahlt."

Add = Callable[..., None]


@pytest.fixture
def settings(embedded_settings: Settings) -> Settings:
    return embedded_settings


@pytest.fixture
def add(settings: Settings, embedder: HashingEmbedder) -> Add:
    return adding(settings, embedder)


def adding(settings: Settings, embedder: HashingEmbedder) -> Add:
    """Makes collections as somebody else would."""
    client = open_backend(settings).client(write=True)

    def add(
        name: str, texts: Sequence[str | None], metadatas: Sequence[Any] | None = None, vectors: Any = None
    ) -> None:
        collection = client.create_collection(name, embedding_function=None)
        if texts:
            collection.add(
                ids=[f"{name}-{n}" for n in range(len(texts))],
                documents=list(texts) if any(texts) else None,  # pyright: ignore[reportArgumentType]
                metadatas=list(metadatas) if metadatas else None,
                embeddings=embedder.encode([text or "" for text in texts]) if vectors is None else vectors,
            )

    return add


def look(settings: Settings, embedder: Any = None) -> dict[str, CollectionReport]:
    return {report.name: report for report in inspect_store(settings, embedder).collections}


def named(prefix: str, count: int, sentence: str = ENGLISH) -> list[str]:
    return [sentence.format(f"{prefix} {n}") for n in range(count)]


def test_what_looks_like_a_client_and_what_does_not(settings: Settings, add: Add) -> None:
    clients = ("acme", "again", "contest", "delta", "gamma")
    for name in clients:
        add(name, named(name, 8))
    add("beta", named("again", 8))
    add("empty", [])
    add("vectors", [None, None])
    add("single", named("Single", 1))
    add("acme-backup", named("Acme", 7))
    add("sparse", named("Sparse", 5), vectors=np.eye(5, 8, dtype=np.float32))
    add("x" * 210, named("Long", 5))
    reasons = {name: report.not_a_client for name, report in look(settings).items()}
    assert {name for name, reason in reasons.items() if reason is None} == {*clients}
    assert {name: reasons[name] for name in ("beta", "empty", "vectors", "single", "acme-backup", "sparse")} == {
        "beta": "it has the same chunks as 'again'",
        "empty": "it is empty",
        "vectors": "its chunks have no text",
        "single": "it has a single chunk",
        "acme-backup": "its name says 'backup'",
        "sparse": "its vectors have 8 dimensions, those of the others 32",
    }
    assert "200 characters" in (reasons["x" * 210] or "")


def test_a_collection_shared_by_clients(settings: Settings, add: Add) -> None:
    rows = [
        {"url": f"u{n // 2}", "customer": str(n // 10) if n % 4 else n // 10, "department": f"d{n % 3}"}
        for n in range(100)
    ]
    for missing in (3, 13, 23, 33):
        del rows[missing]["customer"]
    add("knowledge", named("Place", 100), rows)
    add("empty", [])
    report = inspect_store(settings, None)
    assert report.shared is not None
    shared = report.shared.shared_by
    assert shared is not None
    assert (shared.name, shared.clients, shared.without) == ("customer", 10, pytest.approx(0.04))
    assert set(shared.types) == {"text", "number"}


def test_a_server_is_looked_at_as_a_folder_is(chroma_server: str, home: Path, embedder: HashingEmbedder) -> None:
    database = new_server_database(chroma_server)
    settings = settings_of(home, RAGEVAL_CHROMA_URL=chroma_server, RAGEVAL_CHROMA_DATABASE=database)
    with pytest.raises(StoreError, match="no collection"):
        inspect_store(settings, None)
    add = adding(settings, embedder)
    add("docs", named("Place", 40), [{"file": f"f{n // 4}", "tenant": n // 20} for n in range(40)])
    add("vectors", [None, None])
    report = inspect_store(settings, embedder)
    assert (report.location, report.is_foreign) == (chroma_server, False)
    assert report.shared is not None
    assert report.shared.shared_by is not None
    assert report.shared.shared_by.clients == 2
    assert report.shared.vectors.made_by_model is True
    assert report.shared.document is not None
    assert (report.shared.document.name, report.shared.documents) == ("file", 10)


class BrokenEmbedder(HashingEmbedder):
    def encode(self, texts: Sequence[str]) -> np.ndarray:
        raise EmbeddingError("the weights are damaged")


def test_whether_the_model_made_the_vectors(settings: Settings, add: Add, embedder: HashingEmbedder) -> None:
    add("ours", named("Ours", 30))
    add("theirs", named("Theirs", 30), vectors=HashingEmbedder(version="2").encode(named("Theirs", 30)))
    add("wide", named("Wide", 30), vectors=HashingEmbedder(64).encode(named("Wide", 30)))
    found = look(settings, embedder)
    assert found["ours"].vectors.made_by_model is True
    assert (found["ours"].vectors.dimension, found["ours"].vectors.space) == (32, "l2")
    assert found["theirs"].vectors.made_by_model is False
    assert "embedded again differ" in (found["theirs"].vectors.problem or "")
    assert found["wide"].vectors.made_by_model is False
    assert "64 dimensions" in (found["wide"].vectors.problem or "")
    broken = look(settings, BrokenEmbedder())["ours"].vectors
    assert (broken.made_by_model, broken.problem) == (False, "the weights are damaged")


def test_how_the_texts_are(settings: Settings, add: Add) -> None:
    banner = "We use cookies to improve your experience. Accept all of them to go on."
    texts = [
        *named("Nord", 20),
        *named("Süd", 10, GERMAN),
        *[banner + " " * n for n in range(6)],  # white space alone makes no other text
        *[
            f"Menu of our site: home, products, prices, imprint.\nContact us by telephone or letter. {n}"
            for n in range(8)
        ],
        "T h e   n o t i c e   p e r i o d   i s   l o n g",
        None,
    ]
    metadatas = [{"document_id": f"d{n // 3}"} for n in range(len(texts))]
    add("docs", texts, metadatas)
    report = look(settings)["docs"]
    assert (report.chunks, report.read, report.without_text) == (46, 46, 1)
    found = report.texts
    assert found is not None
    assert found.languages["en"] > found.languages["de"] == pytest.approx(10 / 45)
    assert found.duplicates.share == pytest.approx(5 / 45)
    assert found.duplicates.examples == tuple(f"docs-{n}" for n in range(31, 36))
    assert found.in_other_documents == pytest.approx(3 / 45)
    assert found.boilerplate.share == pytest.approx(8 / 45)
    assert found.boilerplate.examples == tuple(f"docs-{n}" for n in range(36, 41))
    assert (found.noise.examples, found.noise_kinds) == (("docs-44",), {"lone letters": pytest.approx(1 / 45)})
    assert found.characters.longest == max(len(text or "") for text in texts)
    assert found.tokens is None
    assert banner not in repr(report)


def test_tokens_against_the_window_of_the_model(settings: Settings, add: Add) -> None:
    add("docs", ["a short text", "word " * 300])
    found = look(settings, load_embedder(settings.embedding_model, settings))["docs"].texts
    assert found is not None
    assert found.tokens is not None
    assert (found.tokens.longest, found.window, found.too_long) == (300, 254, 0.5)


def test_only_the_largest_clients_are_looked_at_closely(settings: Settings, add: Add) -> None:
    for number in range(8):
        count = 5 + number
        add(f"client-{number}", named(f"Place {number} of", count), [{"doc_id": str(n)} for n in range(count)])
    found = look(settings)
    closely = sorted(name for name, report in found.items() if report.texts is not None)
    assert closely == [f"client-{number}" for number in range(3, 8)]
    assert all(report.document is not None and report.document.name == "doc_id" for report in found.values())


def test_the_store_is_empty(settings: Settings, add: Add) -> None:
    open_backend(settings).client(write=True)
    with pytest.raises(StoreError, match=r"no collection in tenant 'default_tenant'"):
        inspect_store(settings, None)
    add("empty", [])
    with pytest.raises(StoreError, match="no chunk in any collection"):
        inspect_store(settings, None)
