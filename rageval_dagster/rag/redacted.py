"""A RAG system whose contexts and answers are redacted before anything reads or stores them."""

from collections.abc import Sequence
from dataclasses import replace

from rageval_dagster.identity import digest
from rageval_dagster.rag.system import AnswerOutcome, RagSystem, Retrieval
from rageval_dagster.records import Item, Progress
from rageval_dagster.redaction import Redactor


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
