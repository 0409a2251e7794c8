"""The answerer that asks a language model, over numbered and fenced contexts."""

from collections.abc import Sequence
from typing import Protocol

from rageval_dagster.identity import digest_json
from rageval_dagster.languages import declines_version, is_decline
from rageval_dagster.llm.client import ChatRequest, Completion, Failure
from rageval_dagster.llm.prompts import fenced, load_prompt
from rageval_dagster.rag.system import AnswerOutcome
from rageval_dagster.records import Answer, Item, Progress

DECLINE_SENTENCE = "The contexts do not answer this question."


class Chat(Protocol):
    """What the answerer needs of the client of language models."""

    @property
    def version(self) -> str: ...

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion | Failure]: ...


class PromptedAnswerer:
    """Answers by a language model; it cites contexts as [n], and declines where they do not hold the answer.

    `decline_phrases` are phrases by which this model declines, beside those that `languages.is_decline` knows.
    """

    def __init__(self, chat: Chat, citation_required: bool = True, decline_phrases: Sequence[str] = ()) -> None:
        self._chat = chat
        self._citations = "citations required" if citation_required else "citations optional"
        self._decline_phrases = tuple(decline_phrases)
        self._prompt = load_prompt("answer")

    @property
    def version(self) -> str:
        declines = declines_version(self._decline_phrases)
        return digest_json(["prompted", self._chat.version, self._prompt.version, self._citations, declines])

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
        return AnswerOutcome(Answer(text, is_decline(text, self._decline_phrases)), latency_s=reply.latency_s)
