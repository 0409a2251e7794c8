"""Seed 000's runtime quality control: what is wrong with one answer, told without a model, and its improvement."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from rageval_dagster.languages import is_decline
from rageval_dagster.metrics.citation import CitedResult
from rageval_dagster.metrics.quality import check
from rageval_dagster.records import Answer, Hit, Item, Result
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.text import showable

logger = logging.getLogger(__name__)

ISSUES: Mapping[str, str] = {
    "answered": "the answer is empty",
    "has_context": "there is no supporting context",
    "has_citation": "the answer has no citation",
    "no_fallback_phrase": "the answer is a fallback phrase",
    "retrieval_score_above_minimum": "the best retrieval score is below the minimum",
    "list_formatted": "the question asks for a list and the answer is none",
}
"""What is said of each check that was not passed."""


class Assessment(TypedDict):
    """The checks on one answer (None: does not apply), whether all that apply passed, and what is wrong."""

    run_id: str | None
    passed: bool
    issues: list[str]
    answered: bool
    has_context: bool | None
    has_citation: bool
    no_fallback_phrase: bool
    retrieval_score_above_minimum: bool | None
    list_formatted: bool | None


Context = str | Mapping[str, Any]
"""A context's text, or a chunk with `text` and, where known, `chunk_id`, `doc_id` or `document_id`, and `page`."""


def assess_answer(
    question: str,
    answer: str | None,
    contexts: Sequence[Context] | None,
    retrieval_scores: Sequence[float] | None = None,
    run_id: str | None = None,
    *,
    settings: Settings | None = None,
) -> Assessment:
    """The checks of the quality family on one answer at run time; they call no model and load none.

    They are: the answer is not empty; there are contexts; it cites (does not count where citations are not required);
    it is no fallback phrase; the best retrieval score reaches the minimum (None where no minimum is set or no score
    given); a question that asks for a list gets one (None for others). The result is plain JSON. Whether each was
    passed is logged under `run_id`, and no text is.

    Args:
        contexts: in the order in which the answer cites them as [1], [2], ...
        retrieval_scores: of the contexts, in the retriever's own unit, higher being better.
        settings: where citation_required, minimum_retrieval_score and decline_phrases come from; by default the
            environment, `.env` and rageval.toml.

    Raises:
        TypeError: `contexts` is one text or mapping and no list, or a context is neither a text nor a mapping with one.
        SettingsError: a setting is wrong.
    """
    _check_list(contexts)
    settings = settings or load_settings()
    chunks = [_chunk(context, number) for number, context in enumerate(contexts or (), start=1)]
    scores = [float(score) for score in retrieval_scores or ()]
    scores += [float("nan")] * (len(chunks) - len(scores))
    text = answer or ""
    hits = tuple(
        Hit(
            chunk_id=str(chunk.get("chunk_id") or ""),
            document_id=str(chunk.get("document_id") or chunk.get("doc_id") or ""),
            rank=rank,
            score=score,
            text=chunk["text"] or " ",  # a hit without a text is one whose words are not known
            page=chunk.get("page") if isinstance(chunk.get("page"), int) else None,
        )
        for rank, (chunk, score) in enumerate(zip(chunks, scores, strict=False), start=1)
    )
    result = Result(
        item=Item(question),
        relevant_chunks=None,
        relevant_documents=None,
        hits=hits,
        k=max(len(hits), 1),
        answer=Answer(text, is_decline(text, settings.decline_phrases)),
        contexts=tuple(chunk["text"] for chunk in chunks),
    )
    checks = check(result, CitedResult(result), settings.minimum_retrieval_score)
    failed = checks.failed(settings.citation_required)
    assessment = Assessment(run_id=run_id, passed=not failed, issues=[ISSUES[name] for name in failed], **vars(checks))
    values = " ".join(f"{name}={value}" for name, value in vars(checks).items())
    logger.info("answer of run %s assessed: passed=%s %s", showable(str(run_id)), not failed, values)
    return assessment


def improve_answer(question: str, answer: str, contexts: Sequence[Context] | None, assessment: Assessment) -> str:
    """The answer unchanged: to write another one takes a language model, and none is asked.

    Raises:
        TypeError: `contexts` is one text or mapping and no list.
    """
    _check_list(contexts)
    return answer


def _check_list(contexts: Sequence[Context] | None) -> None:
    # A text is a sequence too, of characters.
    if isinstance(contexts, str | bytes | Mapping):
        raise TypeError(f"contexts is a list of texts or of mappings with a text, not one {type(contexts).__name__}")


def _chunk(context: Context, number: int) -> Mapping[str, Any]:
    chunk = {"text": context} if isinstance(context, str) else context
    if not isinstance(chunk, Mapping) or not isinstance(chunk.get("text"), str):
        raise TypeError(f"context {number} is neither a text nor a mapping with a text")
    return chunk
