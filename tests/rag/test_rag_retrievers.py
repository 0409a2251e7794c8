"""The built-in retrievers over a real store, against rankings worked out by hand or by brute force."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.embedding.models import Reranker, load_embedder
from rageval_dagster.errors import EmbeddingError, RagevalError
from rageval_dagster.identity import digest_json
from rageval_dagster.metrics.assessment import assess_answer
from rageval_dagster.rag.retrievers import Bm25Retriever, DenseRetriever, RerankedRetriever, dense_weights, fuse
from rageval_dagster.rag.systems import check_system_name, load_retriever, load_system
from rageval_dagster.records import Chunk, Hit, Item
from rageval_dagster.settings import BUILT_IN_SYSTEMS, DEFAULT_EMBEDDING_MODEL, Settings, load_settings
from rageval_dagster.storage.database import Database
from tests.rag.tiny_reranker import tiny_reranker

TEXTS = {
    "c1": "Tomatoes came to Europe from Mexico in the sixteenth century.",
    "c2": "A diesel engine ignites its fuel by compression alone.",
    "c3": "The tomato plant wants sun, and water at its root.",
    "c4": "Cats sleep for most of the day.",
    "c5": "番茄原产于南美洲。",
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings({"RAGEVAL_HOME": str(tmp_path / "home")})


@pytest.fixture
def store(settings: Settings) -> ChromaStore:
    return filled(settings, TEXTS)


def filled(settings: Settings, texts: Mapping[str, str]) -> ChromaStore:
    settings.ensure_home()
    writing = open_store(settings)
    writing.ensure_client("acme")
    chunks = [Chunk(chunk_id, text, f"doc-{chunk_id}") for chunk_id, text in texts.items()]
    vectors = load_embedder(DEFAULT_EMBEDDING_MODEL, settings).encode(list(texts.values()))
    writing.upsert("acme", chunks, vectors, [{"document_id": chunk.document_id} for chunk in chunks])
    return open_store(settings)


def ids(ranking: list[Hit]) -> list[str]:
    return [hit.chunk_id for hit in ranking]


def test_bm25_finds_stems_and_nothing_without_a_shared_word(store: ChromaStore) -> None:
    (tomatoes, nothing, chinese) = Bm25Retriever(store, "acme").search(["tomato in Europe", "the is of", "南美"], 5)
    assert ids(tomatoes) == ["c1", "c3"]
    assert [hit.rank for hit in tomatoes] == [1, 2]
    assert tomatoes[0].score > tomatoes[1].score > 0
    assert (tomatoes[0].text, tomatoes[0].document_id) == (TEXTS["c1"], "doc-c1")
    assert nothing == []
    assert ids(chinese) == ["c5"]


@pytest.mark.parametrize("depth", [1, 3, 5])
def test_equal_bm25_scores_stand_in_the_order_of_their_ids(settings: Settings, depth: int) -> None:
    store = filled(settings, dict.fromkeys("mzakb", "the same tomato again") | {"t": "tomato"})
    (ranking,) = Bm25Retriever(store, "acme").search(["tomato"], depth)
    assert ids(ranking) == ["t", "a", "b", "k", "m"][:depth]


def test_bm25_without_chunks_or_words(settings: Settings) -> None:
    store = filled(settings, {"c1": "...", "c2": "!!!"})
    assert Bm25Retriever(store, "acme").search(["tomato", ""], 5) == [[], []]


def test_dense_ranks_by_cosine(store: ChromaStore, settings: Settings) -> None:
    embedder = load_embedder(DEFAULT_EMBEDDING_MODEL, settings)
    questions = ["Where do tomatoes come from?", "How does an engine start to burn?"]
    rankings = DenseRetriever(store, "acme", embedder).search(questions, 4)
    exact = embedder.encode(questions) @ embedder.encode(list(TEXTS.values())).T
    for ranking, cosines in zip(rankings, exact, strict=True):
        best = np.argsort(-cosines)[:4]
        assert ids(ranking) == [list(TEXTS)[row] for row in best]
        assert [hit.score for hit in ranking] == pytest.approx(list(cosines[best]), abs=1e-4)


def test_dense_refuses_vectors_of_another_model(store: ChromaStore, settings: Settings) -> None:
    chunks = store.get("acme", list(TEXTS))
    vectors = np.random.default_rng(0).normal(size=(len(chunks), 384)).astype(np.float32)
    open_store(settings).upsert("acme", chunks, vectors, [{"document_id": chunk.id} for chunk in chunks])
    embedder = load_embedder(DEFAULT_EMBEDDING_MODEL, settings)
    with pytest.raises(EmbeddingError, match="not from"):
        DenseRetriever(open_store(settings), "acme", embedder).search(["a question"], 2)


def hit(chunk_id: str, rank: int) -> Hit:
    return Hit(chunk_id, f"doc-{chunk_id}", rank, 1.0 / rank)


def test_fusion_by_hand() -> None:
    fused = fuse([[hit("a", 1), hit("b", 2)], [hit("b", 1), hit("c", 2), hit("d", 3)]], depth=3)
    assert ids(fused) == ["b", "a", "c"]
    assert [one.rank for one in fused] == [1, 2, 3]
    assert [one.score for one in fused] == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])
    assert ids(fuse([[hit("z", 1)], [hit("b", 1)], [hit("k", 1)]], depth=5)) == ["b", "k", "z"]


def test_rankings_count_by_their_weights() -> None:
    rankings = [[hit("a", 1), hit("b", 2)], [hit("b", 1), hit("c", 2)]]
    assert ids(fuse(rankings, 3, [1.8, 0.2])) == ["b", "a", "c"]
    assert ids(fuse(rankings, 3, [1.98, 0.02])) == ["a", "b", "c"]
    assert [one.score for one in fuse(rankings, 1, [1.8, 0.2])] == pytest.approx([1.8 / 62 + 0.2 / 61])
    assert ids(fuse(rankings, 3, [2.0, 0.0])) == ["a", "b"]
    assert fuse(rankings, 3, dense_weights(0.5)) == fuse(rankings, 3)


def test_a_share_of_the_dense_ranking_that_is_not_half_is_another_system(
    store: ChromaStore, settings: Settings, sqlite_db: Database
) -> None:
    def version(share: float) -> str:
        own = settings.model_copy(update={"dense_share": share})
        return load_system("hybrid", own, sqlite_db, store, "acme", assess_answer).retrieval_version

    plain = load_system("hybrid", settings, sqlite_db, store, "acme", assess_answer).retrieval_version
    assert version(0.5) == plain
    assert version(0.7) != plain


@pytest.mark.parametrize("name", BUILT_IN_SYSTEMS)
def test_a_system_retrieves_and_answers(name: str, store: ChromaStore, settings: Settings, sqlite_db: Database) -> None:
    system = load_system(name, settings, sqlite_db, store, "acme", assess_answer)
    items = [Item("When did tomatoes come to Europe?"), Item("How does a diesel engine ignite its fuel?")]
    hits = [list(retrieval.hits or ()) for retrieval in system.retrieve(items, 10)]
    if name == "hybrid":
        parts = [
            load_retriever(part, settings, sqlite_db, store, "acme").search([item.question for item in items], 10)
            for part in ("dense", "bm25")
        ]
        assert hits == [fuse(each, 10) for each in zip(*parts, strict=True)]
    assert [own[0].chunk_id for own in hits] == ["c1", "c2"]
    assert [hit.rank for hit in hits[0]] == list(range(1, len(hits[0]) + 1))
    outcomes = system.answer(items, [[hit.text for hit in own] for own in hits])
    answers = [outcome.answer for outcome in outcomes]
    assert [answer.text for answer in answers if answer] == [
        "Tomatoes came to Europe from Mexico in the sixteenth century [1].",
        "A diesel engine ignites its fuel by compression alone [1].",
    ]
    assert system.reference
    assert system.name == name


def test_versions_tell_what_changed(store: ChromaStore, settings: Settings, sqlite_db: Database) -> None:
    dense, bm25, hybrid = (
        load_system(name, settings, sqlite_db, store, "acme", assess_answer) for name in BUILT_IN_SYSTEMS
    )
    again = load_system("dense", settings, sqlite_db, store, "acme", assess_answer)
    assert len({dense.retrieval_version, bm25.retrieval_version, hybrid.retrieval_version}) == 3
    assert dense.answer_version == bm25.answer_version
    assert (again.version, again.retrieval_version) == (dense.version, dense.retrieval_version)
    modelled = settings.model_copy(update={"answer_model": "small", "openai_base_url": "http://127.0.0.1:9/v1"})
    prompted = load_system("dense", modelled, sqlite_db, store, "acme", assess_answer)
    assert prompted.retrieval_version == dense.retrieval_version
    assert prompted.answer_version != dense.answer_version
    assert prompted.version != dense.version


def test_an_unknown_system_is_one_clear_line(settings: Settings) -> None:
    with pytest.raises(RagevalError, match="dense, bm25, hybrid"):
        check_system_name("colbert", settings)


def test_a_reranker_orders_anew_what_another_retriever_finds_deeper(tmp_path: Path, settings: Settings) -> None:
    from sentence_transformers import CrossEncoder

    texts = {f"c{number:02}": f"tomato {'again ' * number}{word}" for number, word in enumerate("abcdefghijkl" * 2)}
    store = filled(settings, texts)
    model = tiny_reranker(tmp_path / "tiny", list(texts.values()))
    plain = Bm25Retriever(store, "acme")
    found = RerankedRetriever(plain, Reranker(str(model)))
    [ranking] = found.search(["tomato again"], 5)
    seen = ids(plain.search(["tomato again"], 20)[0])
    scores = CrossEncoder(str(model)).predict([("tomato again", texts[chunk_id]) for chunk_id in seen])
    by_hand = [chunk_id for _, chunk_id in sorted(zip(-scores, seen, strict=True))]
    assert ids(ranking) == by_hand[:5] != seen[:5]
    assert [hit.rank for hit in ranking] == [1, 2, 3, 4, 5]
    assert sorted((hit.score for hit in ranking), reverse=True) == [hit.score for hit in ranking]
    assert len(found.search(["tomato"], 24)[0]) == len(texts)
    assert found.search(["nothing"], 5) == [[]]


def test_a_reranker_is_loaded_only_where_one_is_named_and_its_weights_are_part_of_the_version(
    tmp_path: Path, store: ChromaStore, settings: Settings, db: Database
) -> None:
    def version(reranker: str | None) -> str:
        own = settings.model_copy(update={"reranker": reranker})
        return load_system("bm25", own, db, store, "acme", assess_answer).retrieval_version

    models = [str(tiny_reranker(tmp_path / str(seed) / "tiny", list(TEXTS.values()), seed=seed)) for seed in (1, 2)]
    assert version(None) == version("") == digest_json(dict(Bm25Retriever(store, "acme").parameters))
    assert len({version(None), *map(version, models)}) == 3


def test_a_reranker_that_is_none_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="no model in the folder"):
        Reranker(str(tmp_path))
    classes = Reranker(str(tiny_reranker(tmp_path / "three", ["a b"], classes=3)))
    with pytest.raises(EmbeddingError, match="it sorts into 3 classes and gives no score"):
        classes.scores("a", ["b"])
    (tmp_path / "three" / "model.safetensors").write_bytes(b"x")
    with pytest.raises(EmbeddingError, match="its folder is damaged"):
        Reranker(str(shutil.copytree(tmp_path / "three", tmp_path / "damaged"))).scores("a", ["b"])


def test_a_reranker_without_numbers_is_an_error_and_orders_nothing(tmp_path: Path) -> None:
    import torch
    from transformers import BertForSequenceClassification

    folder = tiny_reranker(tmp_path / "tiny", ["a b"])
    model = BertForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        model.classifier.weight.fill_(float("nan"))
    model.save_pretrained(folder)
    with pytest.raises(EmbeddingError, match="gives no number for 2 of 2 texts"):
        Reranker(str(folder)).scores("a", ["b", "a b"])
