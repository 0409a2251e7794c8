"""The answerer that asks a language model, over numbered and fenced contexts."""

import re
from collections.abc import Sequence
from typing import Protocol

from rageval_dagster.identity import digest_json
from rageval_dagster.llm.client import ChatRequest, Completion, Failure
from rageval_dagster.llm.prompts import fenced, load_prompt
from rageval_dagster.rag.system import AnswerOutcome
from rageval_dagster.records import Answer, Item, Progress

DECLINE_SENTENCE = "The contexts do not answer this question."
DECLINE_PHRASES = (
    DECLINE_SENTENCE.rstrip("."),
    "do not answer the question",
    "does not answer the question",
    "do not contain the answer",
    "does not contain the answer",
    "cannot be answered from the contexts",
    "no information about this",
    "not enough information",
    "I cannot answer",
    "I can't answer",
    "I don't know",
    "I do not know",
)
"""What models say in place of, or around, the sentence that the prompt asks for."""

_CITATION = re.compile(r"\[\d+\]")


class Chat(Protocol):
    """What the answerer needs of the client of language models."""

    @property
    def version(self) -> str: ...

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion | Failure]: ...


class PromptedAnswerer:
    """Answers by a language model; it cites contexts as [n], and declines where they do not hold the answer."""

    def __init__(
        self, chat: Chat, citation_required: bool = True, decline_phrases: Sequence[str] = DECLINE_PHRASES
    ) -> None:
        self._chat = chat
        self._citations = "citations required" if citation_required else "citations optional"
        self._decline_phrases = tuple(decline_phrases)
        self._prompt = load_prompt("answer")

    @property
    def version(self) -> str:
        return digest_json(
            ["prompted", self._chat.version, self._prompt.version, self._citations, list(self._decline_phrases)]
        )

    def answer(
        self, items: Sequence[Item], contexts: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[AnswerOutcome]:
        """As `Answerer.answer`; an item that the model failed on has an error.

        Raises:
            LanguageModelError: the endpoint refuses, or cannot be reached.
        """
        requests = [self._request(item, own) for item, own in zip(items, contexts, strict=True)]
        outcomes = [self._outcome(reply) for reply in self._chat.complete(requests)]
        if progress is not None:
            progress(len(items), len(items))
        return outcomes

    def _request(self, item: Item, contexts: Sequence[str]) -> ChatRequest:
        system = self._prompt.fill("system", citations=self._prompt.fill(self._citations), decline=DECLINE_SENTENCE)
        numbered = [fenced("context", text, number) for number, text in enumerate(contexts, start=1)]
        user = self._prompt.fill(
            "user",
            contexts="\n\n".join(numbered) or "There are no contexts.",
            question=fenced("question", item.question),
        )
        return ChatRequest(user=user, system=system)

    def _outcome(self, reply: Completion | Failure) -> AnswerOutcome:
        if isinstance(reply, Failure):
            return AnswerOutcome(error=reply.reason)
        text = reply.text.strip()
        return AnswerOutcome(Answer(text, declines(text, self._decline_phrases)), latency_s=reply.latency_s)


def declines(text: str, phrases: Sequence[str] = DECLINE_PHRASES) -> bool:
    """Whether an answer declines: it holds one of the phrases and cites nothing.

    An answer that says what one context states and what the others leave open cites that one, and is an answer.
    """
    folded = text.casefold().replace("’", "'")
    return not _CITATION.search(text) and any(phrase.casefold() in folded for phrase in phrases)
