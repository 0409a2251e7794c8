"""The interface of a RAG system under test: what it is asked, what it gives back, and what its version says."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from rageval_dagster.records import Answer, Hit, Item, Owner, Progress


@dataclass(frozen=True)
class AnswerOutcome:
    """What was said to one question, or why nothing was. `latency_s` is None where it was not measured alone.

    `made_at` is when the oldest reply of a model came that the answer is made of; None: just now. `tokens` are those
    sent to a model for it, and those that came, also where it is one of before; None where no model is known to be
    asked. `owner` says whether it holds words of other clients, and `holders` of which; then it is not kept.
    """

    answer: Answer | None = None
    error: str | None = None
    latency_s: float | None = None
    made_at: datetime | None = None
    tokens: tuple[int, int] | None = None
    owner: Owner = "own"
    holders: tuple[int, ...] = ()


@dataclass(frozen=True)
class Retrieval:
    """What came back for one question: hits in the system's own order, or why there are none.

    `hits` is None where the system does not tell what it retrieved. A hit of an external system has an empty chunk id,
    document id or text where it told none. `answer` is set by systems that answer in the same call, `version` by those
    that name theirs in the response. `attempts` is how often it was asked until it answered.
    """

    hits: tuple[Hit, ...] | None = ()
    error: str | None = None
    answer: AnswerOutcome | None = None
    version: str | None = None
    attempts: int = 1


class Answerer(Protocol):
    """Writes answers from contexts. `version` changes whenever its answers to the same input may."""

    @property
    def version(self) -> str: ...

    def answer(
        self, items: Sequence[Item], contexts: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[AnswerOutcome]:
        """One outcome an item, in order; `contexts[i]` are the texts for `items[i]`, cited as [1], [2], ..."""
        ...


class RagSystem(Answerer, Protocol):
    """A RAG system as it serves one client.

    Retrievals and answers are reused apart: a new answer model asks no retriever again. `version` covers both.
    `reference` is true for the built-in systems, `answers_at_once` for those whose `retrieve` answers too: their hits
    are theirs, and have to be matched to the client's chunks. `recorded` is true where all answers stand in a file.
    """

    @property
    def name(self) -> str: ...

    @property
    def retrieval_version(self) -> str: ...

    @property
    def answer_version(self) -> str: ...

    @property
    def reference(self) -> bool: ...

    @property
    def answers_at_once(self) -> bool: ...

    @property
    def recorded(self) -> bool: ...

    def declared_version(self, item: Item, depth: int) -> str | None:
        """The version that the system says it has, for which it may have to be asked `item`.

        None: it says none; nothing it said may be reused, and it may have changed unnoticed. To be called before the
        other versions are read: they hold it.
        """
        ...

    def was_asked(self, item: Item, depth: int) -> bool:
        """Whether it has been asked `item` for its version: its response of today is at hand."""
        ...

    def retrieve(self, items: Sequence[Item], depth: int, progress: Progress | None = None) -> list[Retrieval]:
        """The `depth` best chunks for each item's question, or fewer, in the order of the items."""
        ...
