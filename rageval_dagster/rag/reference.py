"""The built-in reference systems: dense, bm25 and hybrid retrieval, each with the built-in answerer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.embedding.cache import CachedEmbedder
from rageval_dagster.embedding.models import TransformerEmbedder, load_embedder
from rageval_dagster.identity import digest, digest_json
from rageval_dagster.rag.retrievers import Bm25Retriever, DenseRetriever, FusedRetriever, Retriever
from rageval_dagster.rag.system import Answerer, AnswerOutcome, Retrieval
from rageval_dagster.records import Item, Progress
from rageval_dagster.settings import DEFAULT_EMBEDDING_MODEL, Settings
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    from rageval_dagster.llm.answering import Assess


class ReferenceSystem:
    """A retriever and an answerer under one name."""

    reference = True
    answers_at_once = False

    def __init__(self, name: str, retriever: Retriever, answerer: Answerer) -> None:
        self.name = name
        self._retriever = retriever
        self._answerer = answerer

    @property
    def version(self) -> str:
        return digest(self.retrieval_version, self.answer_version)

    @property
    def retrieval_version(self) -> str:
        return digest_json(dict(self._retriever.parameters))

    @property
    def answer_version(self) -> str:
        return self._answerer.version

    def declared_version(self, item: Item, depth: int) -> str:
        return "built-in"

    def retrieve(self, items: Sequence[Item], depth: int, progress: Progress | None = None) -> list[Retrieval]:
        rankings = self._retriever.search([item.question for item in items], depth)
        if progress is not None:
            progress(len(items), len(items))
        return [Retrieval(tuple(ranking)) for ranking in rankings]

    def answer(
        self, items: Sequence[Item], contexts: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[AnswerOutcome]:
        return self._answerer.answer(items, contexts, progress)


def load_reference(
    name: str,
    settings: Settings,
    db: Database,
    store: ChromaStore,
    client_id: str,
    assess: "Assess",
    run_id: str | None = None,
) -> ReferenceSystem:
    """A built-in system over one client's chunks in `store`, which must have been opened freshly (see there)."""
    retriever = load_retriever(name, settings, db, store, client_id)
    return ReferenceSystem(name, retriever, load_answerer(settings, db, client_id, assess, run_id))


def load_retriever(name: str, settings: Settings, db: Database, store: ChromaStore, client_id: str) -> Retriever:
    """The retriever of the built-in system of that name."""
    if name == "bm25":
        return Bm25Retriever(store, client_id)
    dense = DenseRetriever(
        store, client_id, CachedEmbedder(load_embedder(settings.embedding_model, settings), db, client_id)
    )
    return dense if name == "dense" else FusedRetriever([dense, Bm25Retriever(store, client_id)])


def load_answerer(
    settings: Settings, db: Database, client_id: str, assess: "Assess", run_id: str | None = None
) -> Answerer:
    """Answers by the model of RAGEVAL_ANSWER_MODEL where it is set, else extracted from the contexts.

    The model is told what `assess` finds wrong with its answer.
    """
    if settings.answer_model is not None:
        from rageval_dagster.llm.client import ChatClient
        from rageval_dagster.rag.prompted import PromptedAnswerer

        chat = ChatClient(settings, "answer", db, client_id, run_id)
        return PromptedAnswerer(chat, settings, assess)
    from rageval_dagster.rag.extractive import ExtractiveAnswerer

    # Its constants were chosen for this model, whatever embeds for retrieval.
    return ExtractiveAnswerer(TransformerEmbedder(DEFAULT_EMBEDDING_MODEL))
