"""The interface of a RAG system under test: what it is asked, what it gives back, and what its version says."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rageval_dagster.records import Answer, Hit, Item, Progress


@dataclass(frozen=True)
class Retrieval:
    """What came back for one question: hits in the system's own order, or why there are none."""

    hits: tuple[Hit, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class AnswerOutcome:
    """What was said to one question, or why nothing was. `latency_s` is None where it was not measured alone."""

    answer: Answer | None = None
    error: str | None = None
    latency_s: float | None = None


class Answerer(Protocol):
    """Writes answers from contexts. `version` changes whenever its answers to the same input may."""

    @property
    def version(self) -> str: ...

    def answer(
        self, items: Sequence[Item], contexts: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[AnswerOutcome]:
        """One outcome an item, in order; `contexts[i]` are the texts for `items[i]`, cited as [1], [2], ..."""
        ...


class RagSystem(Protocol):
    """A RAG system as it serves one client.

    Retrievals and answers are reused apart: a new answer model asks no retriever again. `version` covers both.
    `reference` is true for the built-in systems.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def retrieval_version(self) -> str: ...

    @property
    def answer_version(self) -> str: ...

    @property
    def reference(self) -> bool: ...

    def retrieve(self, items: Sequence[Item], depth: int, progress: Progress | None = None) -> list[Retrieval]:
        """The `depth` best chunks for each item's question, or fewer, in the order of the items."""
        ...

    def answer(
        self, items: Sequence[Item], contexts: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[AnswerOutcome]:
        """As `Answerer.answer`."""
        ...
