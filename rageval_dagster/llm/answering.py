"""A model's answers from contexts: what it is asked, and once more where its answer fails the checks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from rageval_dagster.identity import digest_json
from rageval_dagster.languages import is_decline
from rageval_dagster.llm.client import Asker, ChatRequest, Completion, ModelFailedError, UnusableReplyError
from rageval_dagster.llm.contexts import numbered_contexts
from rageval_dagster.llm.prompts import Prompt, fenced, load_prompt
from rageval_dagster.llm.replies import without_thoughts
from rageval_dagster.settings import Settings
from rageval_dagster.storage.types import storable

DECLINE_SENTENCE = "The contexts do not answer this question."


class Assess(Protocol):
    """Checks an answer without a model, as `assess_answer` does; `issues` of what it gives says what is wrong."""

    def __call__(
        self, question: str, answer: str, contexts: Sequence[str], *, settings: Settings
    ) -> Mapping[str, Any]: ...


class Answering:
    """How a model is asked for answers, and for better ones, as a client's settings say."""

    def __init__(self, settings: Settings, assess: Assess) -> None:
        self._settings = settings
        self._assess = assess
        self._answer = load_prompt("answer", settings.prompts_dir)
        self._improve = load_prompt("improve", settings.prompts_dir)
        citations = "citations required" if settings.citation_required else "citations optional"
        self._rules = {"citations": self._answer.fill(citations), "decline": DECLINE_SENTENCE}

    @property
    def version(self) -> str:
        """Changes when a model would be asked otherwise."""
        improve = self._improve.version if self._settings.verification_enabled else None
        return digest_json([self._answer.version, improve, self._rules, self._settings.answer_context_tokens])

    async def answer(self, asker: Asker, question: str, contexts: Sequence[str]) -> Completion:
        """The model's answer, improved where that is due and RAG__VERIFICATION_ENABLED is set.

        Its latency and its tokens are those of both replies; `made_at` is when the older of them came.

        Raises:
            ModelFailedError: it gave no usable reply.
        """
        reply = await asker.complete(self._request(self._answer, question, contexts), read_answer)
        first = replace(reply, text=read_answer(reply.text))
        if not self._settings.verification_enabled:
            return first
        issues = self._issues(question, first.text, contexts)
        try:
            better = await self.improve(asker, question, first.text, contexts, issues)
        except ModelFailedError:
            return first
        made_at = min(filter(None, (first.made_at, better.made_at)), default=None)
        return Completion(
            better.text,
            prompt_tokens=first.prompt_tokens + better.prompt_tokens,
            completion_tokens=first.completion_tokens + better.completion_tokens,
            latency_s=first.latency_s + better.latency_s,
            made_at=made_at,
        )

    async def improve(
        self, asker: Asker, question: str, answer: str, contexts: Sequence[str], issues: Sequence[str]
    ) -> Completion:
        """The answer, or what the model makes of it when it is told the issues, once.

        The answer stays where it is a decline, has no issues, or no contexts from which to mend them, and where the
        other one fails more checks.

        Raises:
            ModelFailedError: as `answer`.
        """
        declined = is_decline(answer, self._settings.decline_phrases)
        if declined or not issues or not any(text.strip() for text in contexts):
            return Completion(answer)
        named = "\n".join(f"- {issue}" for issue in issues)
        request = self._request(self._improve, question, contexts, answer=fenced("answer", answer), issues=named)
        reply = await asker.complete(request, read_answer)
        better = read_answer(reply.text)
        worse = len(self._issues(question, better, contexts)) > len(self._issues(question, answer, contexts))
        return replace(reply, text=answer if worse else better)

    def _issues(self, question: str, answer: str, contexts: Sequence[str]) -> Sequence[str]:
        return self._assess(question, answer, contexts, settings=self._settings)["issues"]

    def _request(self, prompt: Prompt, question: str, contexts: Sequence[str], **material: str) -> ChatRequest:
        shown = numbered_contexts(contexts, self._settings.answer_context_tokens)
        user = prompt.fill(
            "user", contexts=shown or "There are no contexts.", question=fenced("question", question), **material
        )
        return ChatRequest(user=storable(user), system=prompt.fill("system", **self._rules))


def read_answer(reply: str) -> str:
    """The answer in a reply, without what a model thought aloud before it.

    Raises:
        UnusableReplyError: there is none.
    """
    text = without_thoughts(reply)
    if not text:
        raise UnusableReplyError("the reply holds no answer")
    return text
