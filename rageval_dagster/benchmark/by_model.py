"""The prompted question generator: a language model drafts questions about chunks, and critics judge the drafts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from rageval_dagster.benchmark import critics, drafts
from rageval_dagster.benchmark.critics import (
    NOT_CORRECT,
    UNSEEN,
    WRONG_LANGUAGE,
    objections_to,
    objections_to_unanswerable,
)
from rageval_dagster.benchmark.drafts import NOT_UNDERSTOOD, QUOTE_NOT_FOUND, NoDraftError
from rageval_dagster.benchmark.mix import MODEL_FAILED, SINGLE, QuestionKind, Task, styled_name
from rageval_dagster.benchmark.related import Related
from rageval_dagster.benchmark.rules import Pair, broken_rules, measure
from rageval_dagster.identity import digest_json
from rageval_dagster.languages import detect
from rageval_dagster.llm.client import Asker, ModelFailedError
from rageval_dagster.llm.prompts import load_prompt
from rageval_dagster.records import Candidate, Chunk, Item, Progress
from rageval_dagster.settings import Settings
from rageval_dagster.settings.styles import PLAIN
from rageval_dagster.text import normalise_whitespace

if TYPE_CHECKING:
    from rageval_dagster.llm.client import ChatClient

VERSION = "2"
"""Of what this code makes of replies."""

DRAFTS = 2
"""So often a chunk is asked about at most."""

NEAREST = 4
"""Other chunks that should not answer an unanswerable question either."""

_WORTH_ANOTHER = (NOT_UNDERSTOOD, QUOTE_NOT_FOUND)
"""Failures that another draft may mend, beside rejections."""

_ALIKE = ({"da", "no", "sv"}, {"bs", "hr", "sr"}, {"id", "ms"}, {"gl", "pt", "es", "ca"}, {"cs", "sk"}, {"bg", "mk"})
"""Languages that a single question does not tell apart for sure."""


def prompted_name(settings: Settings, seed: int) -> str:
    """Generator, prompts and model: candidates of other prompts, or of another model, are other candidates."""
    prompts = [load_prompt(name, settings.prompts_dir).version for name in (*drafts.PROMPTS, *critics.PROMPTS)]
    version = digest_json([VERSION, prompts, settings.language, seed])
    return f"prompted/{version[:8]} {settings.generator_model}"


class PromptedGenerator:
    """Asks the generator role's model for questions, and again as their critic (prompts: generate*.txt, critic*.txt).

    Each chunk is one conversation, and many go on at once. What the rules or the critics reject, or what cannot be
    read, is followed by one other draft.
    """

    def __init__(self, client: "ChatClient", seed: int = 0, styles: Sequence[str] = ()) -> None:
        self._client = client
        self._seed = seed
        self._styles = styles
        self.name = styled_name(prompted_name(client.settings, seed), styles)

    def in_styles(self, styles: Sequence[str]) -> Self:
        return type(self)(self._client, self._seed, styles)

    def generate(self, tasks: Sequence[Task], related: Related, progress: Progress | None = None) -> list[Candidate]:
        """One candidate or two for each task, in the tasks' order; the last one of each is good, or says why not.

        Rejected candidates name what critics object to (`critics.OBJECTIONS`) or the rules that they break. Failure
        reasons: `model_failed (...)`, `nothing_to_ask`, `reply_not_understood (...)`, `quote_not_found`.

        Raises:
            LanguageModelError: the endpoint refuses, or does not answer (BudgetReachedError: the budget is spent).
        """

        async def conversation(asker: Asker, task: Task) -> list[Candidate]:
            style = drafts.drawn(self._styles, self._seed, task.chunk) if self._styles else PLAIN
            return await _Conversation(
                asker, self._client.settings, self._seed, style, self.name, task, related
            ).candidates()

        written = self._client.converse(tasks, conversation, progress)
        return [candidate for found in written if isinstance(found, list) for candidate in found]


@dataclass(frozen=True)
class _Conversation:
    """What is asked about one chunk."""

    asker: Asker
    settings: Settings
    seed: int
    style: str
    generator: str
    task: Task
    related: Related

    async def candidates(self) -> list[Candidate]:
        found: list[Candidate] = []
        for attempt in range(self.task.attempt, DRAFTS):
            found.append(await self._candidate(attempt))
            status, reasons = found[-1].status, found[-1].reasons
            if status != "rejected" and not (status == "failed" and reasons[0].startswith(_WORTH_ANOTHER)):
                break
        return found

    async def _candidate(self, attempt: int) -> Candidate:
        """A draft and what was found against it."""
        kind, chunks = self._material(attempt)
        item, reasons = None, ()
        try:
            language = self.related.language(self.task.chunk)
            request = drafts.draft_request(
                kind, chunks, language, attempt, self.settings.prompts_dir, self.seed, self.style
            )
            item = drafts.item_of(await self.asker.ask(request, drafts.reader_of(kind)), kind, chunks)
            reasons = self._faults(item, chunks) or await self._objections(kind, item, chunks)
            if reasons == (NOT_CORRECT,) and len(item.answers) > 1:
                # It may be another wording that is wrong.
                item = replace(item, answers=item.answers[:1])
                reasons = await self._objections(kind, item, chunks)
        except NoDraftError as error:
            item, reasons = None, (error.reason,)
        except ModelFailedError as error:
            reason = error.failure.reason
            # What the reader of drafts could not use would fail again; what else the model failed at is asked again.
            item, reasons = None, (reason if reason.startswith(NOT_UNDERSTOOD) else f"{MODEL_FAILED} ({reason})",)
        return Candidate(
            chunk_key=self.task.chunk.content_key,
            generator=self.generator,
            attempt=attempt,
            status="failed" if item is None else "rejected" if reasons else "new",
            item=item,
            reasons=reasons,
        )

    def _material(self, attempt: int) -> tuple[QuestionKind, list[Chunk]]:
        """The kind of question, and the chunks that it is about; the second draft takes another second document."""
        kind, chunk = self.task.kind, self.task.chunk
        if kind != "multi_hop":
            return kind, [chunk]
        partners = self.related.partners(chunk)
        return (kind, [chunk, partners[attempt % len(partners)]]) if partners else (SINGLE[0], [chunk])

    def _faults(self, item: Item, chunks: Sequence[Chunk]) -> tuple[str, ...]:
        """What needs no model to be seen."""
        elsewhere = [normalise_whitespace(chunk.text) for chunk in chunks[1:]]
        broken = broken_rules(measure(Pair("draft", item, "generated", chunks[0].text, elsewhere)))
        found = list(broken.values())
        if _is_in_another(item.question, self.related.language(self.task.chunk)):
            found.append(WRONG_LANGUAGE)
        return (*found, UNSEEN) if found else ()

    async def _objections(self, kind: QuestionKind, item: Item, chunks: Sequence[Chunk]) -> tuple[str, ...]:
        prompts_dir = self.settings.prompts_dir
        if kind != "unanswerable":
            return await objections_to(self.asker, item, chunks, prompts_dir)
        nearest = self.related.nearest(item.question, NEAREST, but=chunks[0])
        return await objections_to_unanswerable(self.asker, item, [*chunks, *nearest], prompts_dir)


def _is_in_another(question: str, language: str | None) -> bool:
    """Whether a question is surely not in a language."""
    found = detect(question)
    if found is None or language is None or found == language:
        return False
    return not any({found, language} <= alike for alike in _ALIKE)
