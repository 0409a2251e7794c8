"""The `embedding` family: cosine similarities between question, contexts, answer and reference (seed 000)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from rageval_dagster.languages import sentences
from rageval_dagster.metrics.interface import (
    EMPTY_ANSWER,
    EMPTY_QUESTION,
    EMPTY_REFERENCE,
    Metric,
    MetricOptions,
    Rows,
    Score,
    Tools,
    scored,
)
from rageval_dagster.records import Outcome, Result
from rageval_dagster.text import says_something

if TYPE_CHECKING:
    import numpy as np

VERSION = "1"
HALLUCINATION_VERSION = "4"

Split = Callable[[str], Sequence[str]]

COSINES_AT_ONCE = 4_000_000
"""Cosines held in memory at once when a very long answer meets very many contexts (16 MB)."""

_NO_SENTENCES = Outcome.undefined("the answer has no sentences")


def metrics(options: MetricOptions) -> list[Metric]:
    """The family's metrics. The model's version is part of theirs."""
    sufficiency_threshold, hallucination_threshold = options.sufficiency_threshold, options.hallucination_threshold
    model = options.embedder_version or "none"
    version = f"{VERSION};model={model}"
    score = family_score(sufficiency_threshold, hallucination_threshold)
    declare = partial(Metric, version=version, score=score, source="seed 000")
    windows = "For a text longer than the model's window, the best window counts. Negative cosines count as 0."
    return [
        declare(
            id="embedding.context_relevance",
            needs=frozenset({"contexts", "embedder"}),
            unanswerable="undefined",
            description="Mean cosine between the question and each context.",
            edge_cases=f"No contexts: 0. A blank context counts as 0. No question text: undefined. {windows}",
            good_value=0.5,
        ),
        declare(
            id="embedding.context_sufficiency",
            version=f"{version};threshold={sufficiency_threshold}",
            needs=frozenset({"contexts", "embedder"}),
            unanswerable="undefined",
            description=f"Share of the contexts whose cosine with the question is at least {sufficiency_threshold:g}.",
            edge_cases=f"No contexts: 0. A blank context counts as 0. No question text: undefined. {windows}",
            good_value=0.5,
        ),
        *(
            declare(
                id=f"embedding.{name}",
                needs=frozenset({"answer", "reference", "embedder"}),
                unanswerable="undefined",
                description="Cosine between the answer and the reference. Of several references, the best counts.",
                edge_cases=f"Empty answer: 0. No reference: undefined. {windows}",
                good_value=0.6,
            )
            for name in ("answer_relevance", "answer_correctness")
        ),
        declare(
            id="embedding.question_alignment",
            needs=frozenset({"answer", "embedder"}),
            unanswerable="if_answered",
            description="Cosine between the answer and the question.",
            edge_cases=f"Empty answer: 0. No question text: undefined. {windows}",
        ),
        declare(
            id="embedding.answer_hallucination",
            version=f"{HALLUCINATION_VERSION};model={model};threshold={hallucination_threshold}",
            needs=frozenset({"answer", "contexts", "embedder"}),
            unanswerable="if_answered",
            of_claims=True,
            description="Share of the answer's sentences whose highest cosine with any context is below "
            f"{hallucination_threshold:g}.",
            edge_cases="Empty answer, or a decline: undefined. No contexts: 1. Sentences with only punctuation or "
            f"citations do not count. An answer without other sentences: undefined. {windows}",
            higher_is_better=False,
            good_value=0.3,
        ),
    ]


def _telling_sentences(answer: str) -> list[str]:
    return [sentence for sentence in sentences(answer) if says_something(sentence)]


def family_score(
    sufficiency_threshold: float, hallucination_threshold: float, split: Split = _telling_sentences
) -> Score:
    """The family's score at these thresholds; `split` gives an answer's sentences."""

    def score(results: Sequence[Result], tools: Tools) -> Rows:
        # Blank contexts resemble nothing, and sentences are compared with contexts alone.
        contexts = [[text for text in result.contexts if text.strip()] for result in results]
        said = [
            split(result.answer_text) if of_result else () for result, of_result in zip(results, contexts, strict=True)
        ]
        read = list(zip(results, contexts, said, strict=True))
        vectors = tools.embed(
            text
            for result, of_result, own in read
            for text in (result.item.question, *of_result, result.answer_text, *result.references, *own)
            if text.strip()
        )
        return [
            {
                **_context_outcomes(result, of_result, vectors, sufficiency_threshold),
                **_answer_outcomes(result, vectors),
                "answer_hallucination": _hallucination(
                    result.answer_text, of_result, own, vectors, hallucination_threshold
                ),
            }
            for result, of_result, own in read
        ]

    return score


def _context_outcomes(
    result: Result, contexts: Sequence[str], vectors: Mapping[str, "np.ndarray"], threshold: float
) -> dict[str, Outcome]:
    question = result.item.question
    if not question.strip() or not contexts:
        outcome = scored(0.0) if question.strip() else EMPTY_QUESTION
        return {"context_relevance": outcome, "context_sufficiency": outcome}
    cosines = best_cosines(contexts, [question], vectors)
    return {
        "context_relevance": scored(float(cosines.sum()) / len(result.contexts)),
        "context_sufficiency": scored(int((cosines >= threshold).sum()) / len(result.contexts)),
    }


def _answer_outcomes(result: Result, vectors: Mapping[str, "np.ndarray"]) -> dict[str, Outcome]:
    question, answer = result.item.question, result.answer_text
    correctness, alignment = EMPTY_REFERENCE, EMPTY_QUESTION
    if result.references:
        correctness = scored(float(best_cosines(result.references, [answer], vectors).max()))
    if question.strip():
        alignment = scored(float(best_cosines([question], [answer], vectors)[0]))
    return {"answer_relevance": correctness, "answer_correctness": correctness, "question_alignment": alignment}


def _hallucination(
    answer: str, contexts: Sequence[str], said: Sequence[str], vectors: Mapping[str, "np.ndarray"], threshold: float
) -> Outcome:
    if not answer.strip():
        return EMPTY_ANSWER
    if not contexts:
        return scored(1.0)
    if not said:
        return _NO_SENTENCES
    return scored(int((best_cosines(said, contexts, vectors) < threshold).sum()) / len(said))


def stacked(texts: Sequence[str], vectors: Mapping[str, "np.ndarray"]) -> "tuple[np.ndarray, list[int]]":
    """The windows of all the texts (at least one) one below the other, and the row where each text begins."""
    import numpy as np

    found = [vectors[text] for text in texts]
    return np.concatenate(found), [0, *accumulate(len(each) for each in found[:-1])]


def cosine_blocks(rows: "np.ndarray", columns: "np.ndarray") -> Iterator["np.ndarray"]:
    """The cosines of rows and columns, both of length 1, so many rows at a time as `COSINES_AT_ONCE` allows."""
    at_once = max(1, COSINES_AT_ONCE // len(columns))
    for first in range(0, len(rows), at_once):
        yield rows[first : first + at_once] @ columns.T


def best_cosines(texts: Sequence[str], others: Sequence[str], vectors: Mapping[str, "np.ndarray"]) -> "np.ndarray":
    """For each of the texts its best cosine with any of the others, over all windows of both, in [0, 1].

    0 where the other side is one blank text (an empty answer).
    """
    import numpy as np

    if not any(text.strip() for text in others):
        return np.zeros(len(texts), dtype=np.float32)
    rows, starts = stacked(texts, vectors)
    columns, _ = stacked(others, vectors)
    best = [block.max(axis=1) for block in cosine_blocks(rows, columns)]
    return np.clip(np.maximum.reduceat(np.concatenate(best), starts), 0.0, 1.0)
