"""The `judge` family: a language model scores each dimension of an answer, with its reasons (seed 002)."""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import islice, zip_longest
from typing import Any

from rageval_dagster.identity import digest_json
from rageval_dagster.llm.messages import UnusableReplyError, object_schema
from rageval_dagster.llm.prompts import Prompt, fenced, load_prompt
from rageval_dagster.llm.replies import read_object
from rageval_dagster.metrics.interface import (
    EMPTY_ANSWER,
    EMPTY_QUESTION,
    EMPTY_REFERENCE,
    Judge,
    Metric,
    MetricOptions,
    Need,
    Unanswerable,
)
from rageval_dagster.metrics.judge_model import fences, judge_request, judged_version, shown_question
from rageval_dagster.records import Hit, Outcome, Result
from rageval_dagster.settings import JudgeWeights
from rageval_dagster.storage.types import storable

VERSION = "1"

DIMENSIONS: Mapping[str, str] = {
    "faithfulness": "unsupported_claims",
    "answer_relevance": "missing_aspects",
    "citation_quality": "issues",
    "completeness": "missing_info",
    "correctness": "differences",
}
"""Each dimension, and the name of the list that goes with its score."""

OVERALL = "overall"

_NO_CONTEXTS = Outcome.undefined("there are no contexts to use")
_NOTHING_APPLIES = Outcome.undefined("no dimension with a weight applies")

_SCALE = (
    "The scale of every dimension: 1 for all, 0.8 to 0.9 for most, 0.5 to 0.7 for some, up to 0.4 for little. A "
    "reply without a number from 0 to 1 is requested again; after the last attempt, the result is an error. Scores are "
    "not clamped."
)
_SEE = "See judge.faithfulness for the scale and the replies."


def metrics(options: MetricOptions) -> list[Metric]:
    """The family's metrics. Judge model and prompts are part of their versions, of `overall` the weights too."""
    prompts = {name: load_prompt(f"judge_{name}", options.prompts_dir) for name in DIMENSIONS}
    declared = partial(_dimension, options, prompts)
    dimensions = [
        declared(
            "faithfulness",
            needs=["contexts"],
            missing=_empty_is_undefined,
            description="How far the contexts support all claims of the answer.",
            edge_cases="An empty answer: undefined. No contexts: the judge still scores the answer, but nothing is "
            f"supported. An answer that claims nothing, such as a decline: nothing is unsupported. {_SCALE}",
            good_value=0.9,
        ),
        declared(
            "answer_relevance",
            needs=[],
            missing=lambda result: _empty_scores_0(result) if result.item.question.strip() else EMPTY_QUESTION,
            description="How directly the answer addresses the question.",
            edge_cases=f"Question text unknown: undefined. An empty answer: 0, without asking the judge. {_SEE}",
            good_value=0.8,
        ),
        declared(
            "citation_quality",
            needs=["contexts"],
            missing=_empty_is_undefined,
            description="How accurate and well formed the answer's citations are: [n], [doc], [doc:page], (source: "
            "doc), and those that the system returned separately.",
            edge_cases="Claims without citations lower the score, whether or not citations are required. An empty "
            f"answer: undefined. {_SEE}",
        ),
        declared(
            "completeness",
            needs=["contexts"],
            missing=lambda result: _empty_scores_0(result) if result.contexts else _NO_CONTEXTS,
            description="How far the answer uses all relevant information in the contexts.",
            edge_cases="No contexts: undefined. An empty answer: 0, without asking the judge. If the question's "
            f"text is unknown, information about the answer's subject counts as relevant. {_SEE}",
        ),
        declared(
            "correctness",
            needs=["reference"],
            unanswerable="undefined",
            missing=lambda result: _empty_scores_0(result) if result.references else EMPTY_REFERENCE,
            description="How far the answer means the same as the reference. Of several references, each is right.",
            edge_cases="No reference, or an empty one: undefined. An empty answer: 0, without asking the judge. "
            f"{_SEE}",
        ),
    ]
    return [*dimensions, _overall(options, dimensions, prompts)]


def positive_weights(weights: JudgeWeights) -> dict[str, float]:
    """The weight in `overall` of each dimension that has one above 0."""
    return {name: weight for name in DIMENSIONS if (weight := getattr(weights, name)) > 0}


def _dimension(
    options: MetricOptions,
    prompts: Mapping[str, Prompt],
    name: str,
    *,
    description: str,
    edge_cases: str,
    needs: Collection[Need],
    missing: Callable[[Result], Outcome | None],
    unanswerable: Unanswerable = "if_answered",
    good_value: float | None = None,
) -> Metric:
    """A metric of one request a result; `missing` gives the outcome of a result about which nothing is to be asked."""
    prompt = prompts[name]
    texts = {"type": "array", "items": {"type": "string"}}
    # The reasons come before the score that they are the reasons for.
    score = {"type": "number", "description": "from 0 to 1"}
    schema = object_schema(name, reasoning="string", **{DIMENSIONS[name]: texts}, score=score)

    async def judged(result: Result, judge: Judge) -> Outcome:
        known = missing(result)
        if known is not None:
            return known
        request = judge_request(
            prompt,
            schema,
            question=shown_question(result),
            contexts=_contexts(result),
            answer=_answer(result),
            references=_references(result),
        )
        return await judge.ask(request, partial(_read, DIMENSIONS[name]))

    return Metric(
        id=f"judge.{name}",
        version=judged_version(options, VERSION, prompt),
        needs=frozenset({"answer", "judge", *needs}),
        unanswerable=unanswerable,
        description=description,
        edge_cases=edge_cases,
        source="seed 002",
        good_value=good_value,
        judged=judged,
    )


def _overall(options: MetricOptions, dimensions: Sequence[Metric], prompts: Mapping[str, Prompt]) -> Metric:
    weights = positive_weights(options.judge_weights)
    weighted = [metric for metric in dimensions if metric.name in weights]

    async def judged(result: Result, judge: Judge) -> Outcome:
        scores: dict[str, float] = {}
        for metric in weighted:
            assert metric.judged is not None  # noqa: S101  (for the type checker)
            outcome = metric.inapplicable(result) or await metric.judged(result, judge)
            if outcome.value is not None:
                scores[metric.name] = outcome.value
        if not scores:
            return _NOTHING_APPLIES
        used = {name: weights[name] for name in scores}
        mean = math.fsum(weight * scores[name] for name, weight in used.items()) / math.fsum(used.values())
        return Outcome.scored(mean, {"scores": scores, "weights": used})

    spoken = ", ".join(f"{name} {weight:g}" for name, weight in weights.items())
    return Metric(
        id=f"judge.{OVERALL}",
        version=judged_version(
            options, f"{VERSION};weights={digest_json(weights)[:8]}", *(prompts[name] for name in weights)
        ),
        needs=frozenset[Need]({"answer", "judge"}),
        unanswerable="if_answered",
        description="Weighted mean of the dimensions that apply to the question; the setting judge_weights holds the "
        f"weights ({spoken}).",
        edge_cases="Weights are normalised over the dimensions that are not undefined. Correctness counts only with "
        "a reference. The judge is not asked about a dimension of weight 0. If any dimension is an error, the mean is "
        "an error too. This metric makes no calls of its own.",
        source="seed 002",
        judged=judged,
        asks=frozenset(f"judge.{name}" for name in weights),
    )


# --- what is asked ----------------------------------------------------------------------------------------------------


def _contexts(result: Result) -> str:
    """The numbered contexts, each with the document and page that it is from, where they are known."""
    if not result.contexts:
        return "There are no contexts."
    parts: list[str] = []
    # As `Retrieved` takes them: the first hits are the contexts.
    pairs = islice(zip_longest(result.contexts, result.hits), len(result.contexts))
    for number, (text, hit) in enumerate(pairs, start=1):
        if hit is not None and hit.document_id:
            parts.append(fenced("source", _source(hit, result), number))
        parts.append(fenced("context", text, number))
    return "\n\n".join(parts)


def _source(hit: Hit, result: Result) -> str:
    """`terms.pdf, page 3`; with the chunk's own id where the answer cites by it."""
    answer = result.answer
    cites_chunk = answer is not None and (hit.chunk_id in answer.citations or f"[{hit.chunk_id}]" in answer.text)
    page = "" if hit.page is None else f", page {hit.page}"
    return f"{hit.document_id}{page}" + (f", chunk {hit.chunk_id}" if cites_chunk else "")


def _answer(result: Result) -> str:
    answer = result.answer
    if answer is None:
        return ""
    parts = [fenced("answer", answer.text)]
    if answer.citations:
        parts.append(fenced("citations", "\n".join(f"[{citation}]" for citation in answer.citations)))
    return "\n\n".join(parts)


def _references(result: Result) -> str:
    if len(result.references) == 1:
        return fenced("reference", result.references[0])
    return fences("reference", dict(enumerate(result.references, start=1)))


def _empty_is_undefined(result: Result) -> Outcome | None:
    return None if result.answer_text.strip() else EMPTY_ANSWER


def _empty_scores_0(result: Result) -> Outcome | None:
    return None if result.answer_text.strip() else Outcome.scored(0.0, {"reasoning": "the answer is empty"})


# --- what is replied --------------------------------------------------------------------------------------------------


def _read(list_name: str, reply: str) -> Outcome:
    verdict = read_object(reply)
    reasoning = verdict.get("reasoning")
    detail = {
        "reasoning": storable(reasoning) if isinstance(reasoning, str) else "",
        list_name: _texts(verdict.get(list_name)),
    }
    return Outcome.scored(_score(verdict.get("score")), detail)


def _score(value: Any) -> float:
    """The score of a reply: a number from 0 to 1, which may be written as a text.

    Raises:
        UnusableReplyError: it is anything else; one out of the range may be on another scale.
    """
    try:
        score = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not 0.0 <= score <= 1.0:
        raise UnusableReplyError("the score is no number from 0 to 1")
    return score


def _texts(value: Any) -> list[str]:
    """The entries of a reply's list; a single text is one entry, and an object becomes its JSON."""
    entries = value if isinstance(value, list) else [] if value is None else [value]
    texts = [entry if isinstance(entry, str) else json.dumps(entry, ensure_ascii=False) for entry in entries]
    return [storable(text) for text in texts if text.strip()]
