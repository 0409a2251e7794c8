"""Critics of drafts: a model looks for what makes a question unfit for a test, and every objection keeps its reason."""

from collections.abc import Awaitable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rageval_dagster.benchmark.exchange import passages, read_fields, read_text, read_verdict
from rageval_dagster.benchmark.wording import offers
from rageval_dagster.languages import detect, is_decline
from rageval_dagster.llm.client import Asker, ChatRequest, UnusableReplyError, together
from rageval_dagster.llm.messages import object_schema
from rageval_dagster.llm.prompts import fenced, load_prompt
from rageval_dagster.llm.replies import read_object, read_objects, without_thoughts
from rageval_dagster.metrics.answer_match import answer_match
from rageval_dagster.records import Candidate, Chunk, Item

PROMPTS = ("critic", "critic_answered", "critic_closed_book")

NOT_ANSWERABLE = "not_answerable_from_chunk"
NOT_SELF_CONTAINED = "not_self_contained"
NOT_CORRECT = "answer_not_correct"
KNOWN = "known_without_documents"
ONE_IS_ENOUGH = "answered_by_one_document"
ANSWERED = "answered_by_documents"
WRONG_LANGUAGE = "wrong_language"
UNSEEN = "not_shown_to_critics"
"""Beside the rules that a draft breaks: it was spared the critics."""
OBJECTIONS = {
    NOT_ANSWERABLE: "The passage does not answer the question.",
    NOT_SELF_CONTAINED: "The question cannot be understood without the passage.",
    NOT_CORRECT: "The answer is not right according to the passage.",
    KNOWN: "A model can answer the question without any document.",
    ONE_IS_ENOUGH: "One of the two documents alone answers the question.",
    ANSWERED: "The question is meant to have no answer, but the documents answer it.",
    WRONG_LANGUAGE: "The question is not in the language of its passage.",
    UNSEEN: "It broke a rule, so no critic read it.",
}
"""What each says, for a person."""

SAID = 0.5
"""From this `answer_match` on an answer says what another one does, as `lexical.answer_match` takes it."""

_VERDICT = object_schema("critic", answer="string", answerable="boolean", self_contained="boolean", correct="boolean")
_ANSWERED = object_schema("critic_answered", answer="string", answered="boolean", self_contained="boolean")
_NAMES = {
    "answer": "answer",
    "answerable": "answerable",
    "answered": "answered",
    "selfcontained": "self_contained",
    "correct": "correct",
}


def was_turned_down(candidate: Candidate) -> bool:
    """Whether a candidate was rejected as a draft: unlike one that critics found good, it is never judged again."""
    return candidate.status == "rejected" and not OBJECTIONS.keys().isdisjoint(candidate.reasons)


async def objections_to(asker: Asker, item: Item, chunks: Sequence[Chunk], prompts_dir: Path | None) -> tuple[str, ...]:
    """The objections to an answerable item made from one chunk, or from two; none if it is good.

    The critic answers the question from the chunks and judges the answer; without them, a model guesses it. Of two
    chunks neither alone may be enough.

    A choice between alternatives is answered right by chance half of the time: a right guess does not show that it is
    known, nor a wrong answer from one chunk that both are needed. So over two chunks nobody guesses it, and it is
    turned down where one of them is said to decide it, whichever way. About one chunk it is a question as any other.

    Raises:
        ModelFailedError: a critic gave no verdict.
    """
    alone = [chunks[number : number + 1] for number in range(len(chunks))] if len(chunks) > 1 else []
    is_choice = bool(alone) and offers(item.question, item.answers[0], detect(chunks[0].text))
    asked: list[Awaitable[Any]] = [
        _judged(asker, item, chunks, prompts_dir),
        _is_known(asker, item, is_choice, prompts_dir),
        *(_is_enough(asker, item, chunk, is_choice, prompts_dir) for chunk in alone),
    ]
    found, known, *enough = await together(*asked)
    return (*found, *([ONE_IS_ENOUGH] if any(enough) else []), *([KNOWN] if known else []))


async def objections_to_unanswerable(
    asker: Asker, item: Item, chunks: Sequence[Chunk], prompts_dir: Path | None
) -> tuple[str, ...]:
    """The objections to a question that none of these chunks should answer; none if it is good.

    Raises:
        ModelFailedError: the critic gave no verdict.
    """
    verdict = await asker.ask(_answered_request(item, chunks, prompts_dir), _read_answered)
    return _objections({ANSWERED: verdict["answered"], NOT_SELF_CONTAINED: not verdict["self_contained"]})


async def _judged(asker: Asker, item: Item, chunks: Sequence[Chunk], prompts_dir: Path | None) -> tuple[str, ...]:
    prompt = load_prompt("critic", prompts_dir)
    numbers = range(1, len(item.answers) + 1) if item.answers[1:] else [None]
    request = ChatRequest(
        user=prompt.fill(
            "user",
            passages=passages(chunks),
            question=fenced("question", item.question),
            answer="\n\n".join(
                fenced("answer", answer, number) for answer, number in zip(item.answers, numbers, strict=True)
            ),
        ),
        system=prompt.fill("system"),
        schema=_VERDICT,
    )
    verdict = await asker.ask(request, partial(_read_verdicts, ("answerable", "self_contained", "correct")))
    own, answerable = verdict["answer"], verdict["answerable"]
    # The verdict says whether they mean the same: a critic may say it in other words, but hardly in none of them, nor
    # with other numbers.
    shares = [answer_match(item.question, item.answers, own), answer_match(item.question, [own], item.answers[0])]
    wrong = not verdict["correct"] or (own and not any(share is None or share > 0 for share in shares))
    return _objections(
        {
            NOT_ANSWERABLE: not answerable,
            NOT_SELF_CONTAINED: not verdict["self_contained"],
            NOT_CORRECT: answerable and bool(wrong),
        }
    )


async def _is_known(asker: Asker, item: Item, is_choice: bool, prompts_dir: Path | None) -> bool:
    """Whether a model guesses the answer that has only the question; of a choice it is not asked."""
    if is_choice:
        return False
    prompt = load_prompt("critic_closed_book", prompts_dir)
    request = ChatRequest(
        user=prompt.fill("user", question=fenced("question", item.question)), system=prompt.fill("system")
    )
    return _says(item, await asker.ask(request, _read_guess))


async def _is_enough(
    asker: Asker, item: Item, chunks: Sequence[Chunk], is_choice: bool, prompts_dir: Path | None
) -> bool:
    """Whether these chunks alone give the item's answer, or, of a choice, any."""
    verdict = await asker.ask(_answered_request(item, chunks, prompts_dir), _read_answered)
    return verdict["answered"] and (is_choice or not verdict["answer"] or _says(item, verdict["answer"]))


def _answered_request(item: Item, chunks: Sequence[Chunk], prompts_dir: Path | None) -> ChatRequest:
    prompt = load_prompt("critic_answered", prompts_dir)
    user = prompt.fill("user", passages=passages(chunks), question=fenced("question", item.question))
    return ChatRequest(user=user, system=prompt.fill("system"), schema=_ANSWERED)


def _objections(found: dict[str, bool]) -> tuple[str, ...]:
    return tuple(reason for reason, holds in found.items() if holds)


def _says(item: Item, answer: str) -> bool:
    return not is_decline(answer) and (answer_match(item.question, item.answers, answer) or 0.0) >= SAID


def _read_verdicts(names: Sequence[str], text: str) -> dict[str, Any]:
    """The critic's own answer and these verdicts; of several objects that differ, one may be quoted from the prompt."""
    if len(read_objects(text)) > 1:
        read_object(text)  # raises where they differ
    fields = read_fields(text, _NAMES)
    return {"answer": read_text(fields, "answer"), **{name: read_verdict(fields, name) for name in names}}


_read_answered = partial(_read_verdicts, ("answered", "self_contained"))


def _read_guess(text: str) -> str:
    guess = without_thoughts(text)
    if not guess:
        raise UnusableReplyError("guess_not_understood (empty)")
    return guess
