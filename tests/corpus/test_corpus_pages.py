"""A page that evidence names without a quote: a passage of another page is no hit, where pages are known."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from rageval_dagster.corpus.evidence import resolve
from rageval_dagster.corpus.ingest import ingest
from rageval_dagster.corpus.matching import place_hits
from rageval_dagster.corpus.scanning import scan_corpus
from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.evaluation.asking import run_retrieval
from rageval_dagster.metrics.interface import MetricOptions, Tools
from rageval_dagster.metrics.registry import all_metrics, compute_scores
from rageval_dagster.rag.extractive import ExtractiveAnswerer
from rageval_dagster.rag.retrievers import Bm25Retriever
from rageval_dagster.rag.systems import ReferenceSystem
from rageval_dagster.records import Chunk, Evidence, Hit, Item, Result
from rageval_dagster.settings import Settings
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage.database import Database
from tests.storage.history_builder import make_dataset, open_run

PAGES = [
    "The pump is started with the green lever.",
    "The pump is stopped with the red lever.",
    "Oil is changed every spring.",
]


@pytest.fixture
def settings(embedded_settings: Settings) -> Settings:
    return embedded_settings


def fill(store: ChromaStore, db: Database, embedder, *pages: int | str | None, document: str = "manual.pdf") -> None:
    """A document of which each of the chunks `0`, `1`, ... says that it is of such a page."""
    chunks = [Chunk(f"{n}", f"{document} has passage number {n} about levers.", document) for n in range(len(pages))]
    store.ensure_client("acme")
    named = [{"document_id": document} | ({} if page is None else {"page": page}) for page in pages]
    store.upsert("acme", chunks, embedder.encode([chunk.text for chunk in chunks]), named)
    scan_corpus(db, store, "acme")


def about(*evidence: Evidence, question: str = "How is the pump started with a lever?") -> Item:
    return Item(question, evidence=evidence)


def found(store: ChromaStore, db: Database, item: Item, hits: Sequence[Hit]) -> Result:
    resolution = resolve([item], db, store, "acme")[item.item_id]
    return Result(item, resolution.chunks, resolution.documents, tuple(hits), k=5)


def scores(result: Result) -> dict[str, float | None]:
    metrics = [metric for metric in all_metrics(MetricOptions(5)) if metric.family == "retrieval"]
    outcomes = compute_scores(metrics, [result], Tools())
    return {name.removeprefix("retrieval."): column[0].value for name, column in outcomes.items()}


def hits_of(store: ChromaStore, *chunk_ids: str) -> list[Hit]:
    chunks = {chunk.id: chunk for chunk in store.get("acme", chunk_ids)}
    return [Hit(name, chunks[name].document_id, n, 0.0, "", chunks[name].page) for n, name in enumerate(chunk_ids, 1)]


def test_pages_of_a_pdf_are_known(store: ChromaStore, db: Database, embedder, tmp_path: Path, make_pdf) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "manual.pdf").write_bytes(make_pdf(PAGES))
    ingest(tmp_path / "docs", "acme", store, embedder)
    scan_corpus(db, store, "acme")
    by_page = {}
    for page in (1, 2, 3):
        item = about(Evidence("manual.pdf", page))
        [hits] = Bm25Retriever(store, "acme").search([item.question], 10)
        result = found(store, db, item, hits)
        assert [result.is_relevant(hit) for hit in hits] == [hit.page == page for hit in hits]
        by_page[page] = scores(result)
    assert [by_page[page]["mrr"] for page in (1, 2, 3)] == [1.0, 0.5, 0.0]
    assert [by_page[page]["document_mrr"] for page in (1, 2, 3)] == [1.0, 1.0, 1.0]


def test_each_wanted_page_counts_once(store: ChromaStore, db: Database, embedder) -> None:
    fill(store, db, embedder, 1, 3, 3, 5, 7)
    item = about(Evidence("manual.pdf", 3), Evidence("manual.pdf", 5))
    both_of_3 = scores(found(store, db, item, hits_of(store, "0", "1", "2", "4")))
    assert (both_of_3["recall_at_5"], both_of_3["precision_at_5"], both_of_3["mrr"]) == (0.5, 0.2, 0.5)
    all_of_both = found(store, db, item, hits_of(store, "2", "3", "1"))
    assert (scores(all_of_both)["recall_at_5"], scores(all_of_both)["map"]) == (1.0, 1.0)
    assert all(map(all_of_both.is_relevant, all_of_both.hits))


@pytest.mark.parametrize(
    ("pages", "wanted"),
    [
        pytest.param([None, None], 1, id="the store names no pages"),
        pytest.param([1, None], 1, id="of one chunk it is not known"),
        pytest.param(["1", "2-3"], 2, id="a chunk is of several pages"),
        pytest.param([1, 2], 9, id="no chunk is of that page"),
    ],
)
def test_where_pages_are_not_known_the_document_is_wanted(
    store: ChromaStore, db: Database, embedder, pages: list[int | str | None], wanted: int
) -> None:
    fill(store, db, embedder, *pages)
    result = found(store, db, about(Evidence("manual.pdf", wanted)), hits_of(store, "1", "0"))
    assert all(map(result.is_relevant, result.hits))
    assert (scores(result)["mrr"], scores(result)["document_mrr"]) == (None, 1.0)


def test_pages_that_a_store_counts_from_0_are_those_of_evidence_from_1(
    store: ChromaStore, db: Database, embedder
) -> None:
    fill(store, db, embedder, 0, 1, 2)
    result = found(store, db, about(Evidence("manual.pdf", 3)), hits_of(store, "1", "2"))
    assert list(map(result.is_relevant, result.hits)) == [False, True]


def test_a_page_beside_a_quote_of_its_document_is_not_wanted_twice(store: ChromaStore, db: Database, embedder) -> None:
    fill(store, db, embedder, 1, 2)
    quote = Evidence("manual.pdf", 2, "passage number 1")
    result = found(store, db, about(quote, Evidence("manual.pdf", 2)), hits_of(store, "1"))
    assert scores(result)["recall_at_5"] == 1.0


class TestSystemsOfAnotherMake:
    """Their passages are of the page that the store has for their words, else of the one that they name."""

    WANTED = about(Evidence("manual.pdf", 2))

    @pytest.fixture
    def manual(self, store: ChromaStore, db: Database, embedder) -> ChromaStore:
        fill(store, db, embedder, 1, 2, 2)
        return store

    def placed(self, store: ChromaStore, db: Database, *hits: Hit) -> Result:
        resolution = resolve([self.WANTED], db, store, "acme")[self.WANTED.item_id]
        [placed] = place_hits(db, store, "acme", [(resolution, hits)])
        return Result(self.WANTED, placed.resolution.chunks, placed.resolution.documents, placed.hits or (), k=5)

    def test_passages(self, manual: ChromaStore, db: Database) -> None:
        texts = [chunk.text for chunk in manual.get("acme", ["0", "1"])]
        as_stored = [Hit("", "", rank, 0.0, text) for rank, text in enumerate(texts, 1)]
        assert scores(self.placed(manual, db, *as_stored))["mrr"] == 0.5
        # Cut otherwise than the store's chunk.
        cut = [f"{texts[0]} Indeed, and so on.", f"{texts[1]} And so on.", f"{texts[1]} And so it ends."]
        found = scores(self.placed(manual, db, *(Hit("", "", rank, 0.0, text) for rank, text in enumerate(cut, 1))))
        assert (found["mrr"], found["recall_at_5"], found["precision_at_5"]) == (0.5, 1.0, 0.2)

    def test_documents_with_pages_and_no_words(self, manual: ChromaStore, db: Database) -> None:
        named = [Hit("", "manual.pdf", rank, 0.0, "", page) for rank, page in enumerate((7, 1, 2), 1)]
        assert scores(self.placed(manual, db, *named))["mrr"] == pytest.approx(1 / 3)
        without = scores(self.placed(manual, db, *named, Hit("", "manual.pdf", 4, 0.0)))
        assert (without["mrr"], without["document_mrr"]) == (None, 1.0)


def test_where_most_questions_know_documents_only_all_are_held_to_them(
    store: ChromaStore, db: Database, embedder
) -> None:
    """Else the headlines would be of a few questions; and no retrieval of the one dataset is the other's."""
    fill(store, db, embedder, 1, 2)
    paged = about(Evidence("manual.pdf", 2))
    others = [about(Evidence("manual.pdf"), question=f"Which lever is number {n}?") for n in range(2)]
    system = ReferenceSystem("bm25", Bm25Retriever(store, "acme"), ExtractiveAnswerer(embedder))
    relevant = []
    for night, items in enumerate(([paged], [paged, others[0]], [paged, *others], [paged])):
        evaluation = open_run(db, make_dataset(db, "acme", items, f"set {len(items)}"), f"night {night}", "bm25")
        report = run_retrieval(db, store, system, evaluation)
        record = result_storage.load_retrievals(db, evaluation.id, [paged.item_id])[paged.item_id]
        relevant.append((record.relevant_chunks is not None, record.relevant_documents, report.reused))
    assert relevant == [
        (True, ["manual.pdf"], 0),
        (True, ["manual.pdf"], 1),
        (False, ["manual.pdf"], 1),
        (True, ["manual.pdf"], 1),
    ]
