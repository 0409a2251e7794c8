"""Seed 000's functions: its five metrics of one answer, what is wrong with one (without a model), its improvement."""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from rageval_dagster.errors import LanguageModelError
from rageval_dagster.languages import is_decline
from rageval_dagster.llm.answering import Answering
from rageval_dagster.llm.client import Asker, ChatClient, Completion, Failure
from rageval_dagster.metrics.cited_answers import CitedResult
from rageval_dagster.metrics.embedding import family_score
from rageval_dagster.metrics.interface import Tools
from rageval_dagster.metrics.quality import check
from rageval_dagster.records import Answer, Hit, Item, Result
from rageval_dagster.redaction import load_redactor
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


def improve_answer(
    question: str,
    answer: str,
    contexts: Sequence[Context] | None,
    assessment: Assessment,
    *,
    settings: Settings | None = None,
) -> str:
    """A better answer by the model of RAGEVAL_ANSWER_MODEL, asked once with what the assessment says is wrong.

    The answer comes back unchanged where no such model is set, where it passed, is a decline, or has no contexts from
    which to mend it, and where the model's one fails more checks. So it does where the model fails or its endpoint is
    down, since there is an answer to give: the log then has a warning with the reason. Nothing is kept of what is asked
    and said. What `redact` takes out of texts the model does not see, and its answer does not have.

    Args:
        contexts: as for `assess_answer`; the model sees as many as fit RAGEVAL_ANSWER_CONTEXT_TOKENS.
        assessment: what `assess_answer` gave.
        settings: by default the environment, `.env` and rageval.toml.

    Raises:
        TypeError: as `assess_answer`.
        SettingsError: a setting is wrong, or the model has no endpoint.
        RedactionError: the user's own redaction failed.
    """
    _check_list(contexts)
    material = [
        question,
        answer or "",
        *(_chunk(each, number)["text"] for number, each in enumerate(contexts or (), 1)),
    ]
    settings = settings or load_settings()
    # Another answer changes nothing about what was retrieved.
    issues = [issue for issue in assessment["issues"] if issue != ISSUES["retrieval_score_above_minimum"]]
    if settings.answer_model is None or not issues:
        return answer
    if settings.redact is not None:
        redactor = load_redactor(settings.redact, settings.path("."))
        material = [redactor.redact(text) for text in material]
    asked, first, *texts = material
    answering = Answering(settings, assess_answer)
    # Somebody is waiting: no attempt after the first.
    chat = ChatClient(settings.model_copy(update={"llm_max_attempts": 1}), "answer", None, "improve_answer")

    async def improve(asker: Asker, question: str) -> Completion:
        return await answering.improve(asker, question, first, texts, issues)

    try:
        [said] = chat.converse([asked], improve)
    except LanguageModelError as error:
        said = Failure(str(error))
    if isinstance(said, Failure):
        logger.warning("answer of run %s not improved: %s", showable(str(assessment["run_id"])), said.reason)
        return answer
    return answer if said.text == first else said.text


def _check_list(contexts: Sequence[Context] | None) -> None:
    # A text is a sequence too, of characters.
    if isinstance(contexts, str | bytes | Mapping):
        raise TypeError(f"contexts is a list of texts or of mappings with a text, not one {type(contexts).__name__}")


def _chunk(context: Context, number: int) -> Mapping[str, Any]:
    chunk = {"text": context} if isinstance(context, str) else context
    if not isinstance(chunk, Mapping) or not isinstance(chunk.get("text"), str):
        raise TypeError(f"context {number} is neither a text nor a mapping with a text")
    return chunk


NAMES = ("context_relevance", "context_sufficiency", "answer_relevance", "answer_correctness", "answer_hallucination")


def evaluate_all(
    question: str,
    answer: str,
    reference: str | None,
    contexts: Sequence[str],
    model_name: str = "all-MiniLM-L6-v2",
    thresholds: tuple[float, float] = (0.5, 0.4),
) -> dict[str, float | None]:
    """The embedding metrics of one answer, each in [0, 1], None where it is undefined.

    `context_relevance` is the mean cosine of question and contexts, `context_sufficiency` the share of contexts with at
    least the first threshold, `answer_relevance` and `answer_correctness` the cosine of answer and reference, and
    `answer_hallucination` (lower is better) the share of the answer's sentences whose best cosine with a context is
    below the second. Sentences end at every `.`, `!` and `?`, as in seed 000, whose values these are wherever it has
    one, no cosine is negative (here it counts as 0) and no text is longer than the model's window (here its best window
    counts). No contexts: 0, 0 and a hallucination of 1. An empty answer: 0, and no hallucination. Many answers are
    scored faster by `score`.

    Raises:
        TypeError: question or answer is no text, reference neither a text nor None, or `contexts` no list of texts.
        EmbeddingError: the model cannot be loaded.
    """
    for name, text in {
        "question": question,
        "answer": answer,
        "reference": "" if reference is None else reference,
    }.items():
        if not isinstance(text, str):
            raise TypeError(f"{name} is a text, not {type(text).__name__}")
    # A text is a sequence too, of characters.
    if isinstance(contexts, str | None) or not all(isinstance(context, str) for context in contexts):
        raise TypeError("contexts is a list of texts; one text stands in a list too, and none is an empty list")

    from rageval_dagster.embedding.models import load_embedder

    result = Result(
        item=Item(question, answers=() if reference is None else (reference,)),
        relevant_chunks=None,
        relevant_documents=None,
        hits=(),
        k=1,
        answer=Answer(answer),
        contexts=tuple(contexts),
    )
    score = family_score(*thresholds, split=_plain_sentences)
    [outcomes] = score([result], Tools(load_embedder(model_name, load_settings())))
    return {name: None if (outcome := outcomes.get(name)) is None else outcome.value for name in NAMES}


def _plain_sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in re.split(r"[.!?]", text) if sentence.strip()]
