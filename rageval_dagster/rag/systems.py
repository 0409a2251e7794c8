"""Which RAG systems a client has: the built-in ones (dense, bm25, hybrid), and those that rageval.toml defines."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.embedding.cache import CachedEmbedder
from rageval_dagster.embedding.models import Reranker, TransformerEmbedder, load_embedder
from rageval_dagster.errors import RagevalError
from rageval_dagster.identity import digest, digest_json
from rageval_dagster.rag.external import load_external
from rageval_dagster.rag.retrievers import (
    Bm25Retriever,
    DenseRetriever,
    FusedRetriever,
    RerankedRetriever,
    Retriever,
    dense_weights,
)
from rageval_dagster.rag.system import Answerer, AnswerOutcome, RagSystem, Retrieval
from rageval_dagster.records import Item, Progress
from rageval_dagster.redaction import Redactor
from rageval_dagster.settings import BUILT_IN_SYSTEMS, DEFAULT_EMBEDDING_MODEL, Settings
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    from rageval_dagster.llm.answering import Assess


class ReferenceSystem:
    """A retriever and an answerer under one name."""

    reference = True
    answers_at_once = False
    recorded = False

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

    def was_asked(self, item: Item, depth: int) -> bool:
        return False

    def retrieve(self, items: Sequence[Item], depth: int, progress: Progress | None = None) -> list[Retrieval]:
        rankings = self._retriever.search([item.question for item in items], depth)
        if progress is not None:
            progress(len(items), len(items))
        return [Retrieval(tuple(ranking)) for ranking in rankings]

    def answer(
        self, items: Sequence[Item], contexts: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[AnswerOutcome]:
        return self._answerer.answer(items, contexts, progress)


class RedactedSystem:
    """Another system, redacted: its versions cover the redaction, so that a changed one reuses no older answers.

    Ids of chunks and documents stay, and so do citations, which are ids.
    """

    def __init__(self, system: RagSystem, redactor: Redactor) -> None:
        self._system = system
        self._redactor = redactor
        self.name = system.name
        self.reference = system.reference
        self.answers_at_once = system.answers_at_once
        self.recorded = system.recorded

    @property
    def version(self) -> str:
        return digest(self._system.version, self._redactor.version)

    @property
    def retrieval_version(self) -> str:
        return digest(self._system.retrieval_version, self._redactor.version)

    @property
    def answer_version(self) -> str:
        return digest(self._system.answer_version, self._redactor.version)

    def declared_version(self, item: Item, depth: int) -> str | None:
        return self._system.declared_version(item, depth)

    def was_asked(self, item: Item, depth: int) -> bool:
        return self._system.was_asked(item, depth)

    def retrieve(self, items: Sequence[Item], depth: int, progress: Progress | None = None) -> list[Retrieval]:
        """As `RagSystem.retrieve`.

        Raises:
            RedactionError: the user's own redaction failed.
        """
        found = self._system.retrieve(items, depth, progress)
        # The hits of a built-in system come from the store, which has redacted them.
        return [self._retrieval(retrieval) for retrieval in found] if self.answers_at_once else found

    def answer(
        self, items: Sequence[Item], contexts: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[AnswerOutcome]:
        """As `Answerer.answer`.

        Raises:
            RedactionError: the user's own redaction failed.
        """
        return [self._outcome(outcome) for outcome in self._system.answer(items, contexts, progress)]

    def _retrieval(self, retrieval: Retrieval) -> Retrieval:
        hits = retrieval.hits and tuple(replace(hit, text=self._redactor.redact(hit.text)) for hit in retrieval.hits)
        return replace(retrieval, hits=hits, answer=retrieval.answer and self._outcome(retrieval.answer))

    def _outcome(self, outcome: AnswerOutcome) -> AnswerOutcome:
        if outcome.answer is None:
            return outcome
        return replace(outcome, answer=replace(outcome.answer, text=self._redactor.redact(outcome.answer.text)))


def check_system_name(name: str, settings: Settings) -> None:
    """Raises RagevalError, naming the systems there are, unless the name is one of them."""
    known = [*BUILT_IN_SYSTEMS, *settings.systems]
    if name not in known:
        raise RagevalError(
            f"there is no system {name!r}: choose one of {', '.join(known)}, or define it in rageval.toml"
        )


def load_system(
    name: str,
    settings: Settings,
    db: Database,
    store: ChromaStore,
    client_id: str,
    assess: "Assess",
    run_id: str | None = None,
    retriever: Retriever | None = None,
) -> RagSystem:
    """The system of that name as it serves the client whose `settings` these are.

    `store` must have been opened freshly (see there). A built-in system records its model calls under `run_id`, and
    mends once what `assess` finds wrong with an answer. `retriever` stands in for its own, which is made anew.

    Raises:
        RagevalError: there is no system of that name.
        SettingsError: its definition names a secret, file or function that is not there.
    """
    check_system_name(name, settings)
    if name in BUILT_IN_SYSTEMS:
        system: RagSystem = ReferenceSystem(
            name,
            retriever or reranked(load_retriever(name, settings, db, store, client_id), settings),
            _load_answerer(settings, db, client_id, assess, run_id),
        )
    else:
        system = load_external(name, settings, client_id)
    redactor = store.redactor(client_id)
    return system if redactor.version is None else RedactedSystem(system, redactor)


def load_retriever(name: str, settings: Settings, db: Database, store: ChromaStore, client_id: str) -> Retriever:
    """The retriever of the built-in system of that name."""
    if name == "bm25":
        return Bm25Retriever(store, client_id)
    dense = DenseRetriever(
        store, client_id, CachedEmbedder(load_embedder(settings.embedding_model, settings), db, client_id)
    )
    if name == "dense":
        return dense
    return FusedRetriever([dense, Bm25Retriever(store, client_id)], dense_weights(settings.dense_share))


def reranked(retriever: Retriever, settings: Settings) -> Retriever:
    """The retriever as the setting `reranker` has it."""
    return RerankedRetriever(retriever, Reranker(settings.reranker)) if settings.reranker else retriever


def _load_answerer(
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
