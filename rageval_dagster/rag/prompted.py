"""The answerer that asks a language model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rageval_dagster.identity import digest_json
from rageval_dagster.languages import declines_version, is_decline
from rageval_dagster.llm.answering import Answering, Assess
from rageval_dagster.llm.client import Asker, Completion, Failure
from rageval_dagster.rag.system import AnswerOutcome
from rageval_dagster.records import Answer, Item, Progress
from rageval_dagster.settings import Settings

if TYPE_CHECKING:
    from rageval_dagster.llm.client import ChatClient

_REVISION = 2


class PromptedAnswerer:
    """Answers by a language model; it cites contexts as [n], and declines where they do not hold the answer.

    The model sees as many contexts as fit RAGEVAL_ANSWER_CONTEXT_TOKENS. What `assess` finds wrong with an answer it
    may mend once, see `Answering.improve`.
    """

    def __init__(self, chat: "ChatClient", settings: Settings, assess: Assess) -> None:
        self._chat = chat
        self._decline_phrases = settings.decline_phrases
        self._answering = Answering(settings, assess)

    @property
    def version(self) -> str:
        declines = declines_version(self._decline_phrases)
        return digest_json(["prompted", _REVISION, self._chat.version, self._answering.version, declines])

    def answer(
        self, items: Sequence[Item], contexts: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[AnswerOutcome]:
        """As `Answerer.answer`; an item that the model failed on has an error.

        Raises:
            LanguageModelError: the endpoint refuses, or cannot be reached, or the budget is spent.
        """

        async def one(asker: Asker, asked: tuple[Item, Sequence[str]]) -> Completion:
            item, own = asked
            return await self._answering.answer(asker, item.question, own)

        outcomes: list[AnswerOutcome] = []
        for said in self._chat.converse(list(zip(items, contexts, strict=True)), one, progress):
            if isinstance(said, Failure):
                outcomes.append(AnswerOutcome(error=said.reason))
            else:
                answer = Answer(said.text, is_decline(said.text, self._decline_phrases))
                outcomes.append(
                    AnswerOutcome(answer, latency_s=said.latency_s, made_at=said.made_at, tokens=said.tokens)
                )
        return outcomes
