"""The `embedding` family: cosine similarities between question, contexts, answer and reference (seed 000)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rageval_dagster.languages import sentences
from rageval_dagster.metrics.cosines import best_cosines
from rageval_dagster.metrics.interface import Columns, Metric, MetricOptions, Score, Tools, scored
from rageval_dagster.records import Outcome, Result
from rageval_dagster.text import says_something

if TYPE_CHECKING:
    import numpy as np

VERSION = "1"
HALLUCINATION_VERSION = "3"

Split = Callable[[str], Sequence[str]]

_NO_QUESTION_TEXT = Outcome.undefined("the question is empty")
_NO_ANSWER_TEXT = Outcome.undefined("the answer is empty")
_NO_SENTENCES = Outcome.undefined("the answer has no sentences")
_NO_REFERENCE_TEXT = Outcome.undefined("the reference answer is empty")


def metrics(options: MetricOptions) -> list[Metric]:
    """The family's metrics. The model's version is part of theirs."""
    sufficiency_threshold, hallucination_threshold = options.sufficiency_threshold, options.hallucination_threshold
    model = options.embedder_version or "none"
    version = f"{VERSION};model={model}"
    score = family_score(sufficiency_threshold, hallucination_threshold)
    declare = partial(Metric, version=version, score=score, source="seed 000")
    windows = "A text longer than the model's window counts by its best window. Negative cosines count as 0."
    return [
        declare(
            id="embedding.context_relevance",
            needs=frozenset({"contexts", "embedder"}),
            unanswerable="undefined",
            description="Mean cosine of the question and each context.",
            edge_cases=f"No contexts: 0; a blank one counts as 0. No question text: undefined. {windows}",
            good_value=0.5,
        ),
        declare(
            id="embedding.context_sufficiency",
            version=f"{version};threshold={sufficiency_threshold}",
            needs=frozenset({"contexts", "embedder"}),
            unanswerable="undefined",
            description=f"Share of the contexts whose cosine with the question is at least {sufficiency_threshold:g}.",
            edge_cases=f"No contexts: 0; a blank one counts as 0. No question text: undefined. {windows}",
            good_value=0.5,
        ),
        *(
            declare(
                id=f"embedding.{name}",
                needs=frozenset({"answer", "reference", "embedder"}),
                unanswerable="undefined",
                description="Cosine of the answer and the reference, the best one of several.",
                edge_cases=f"Empty answer: 0. No reference: undefined. {windows}",
                good_value=0.6,
            )
            for name in ("answer_relevance", "answer_correctness")
        ),
        declare(
            id="embedding.question_alignment",
            needs=frozenset({"answer", "embedder"}),
            unanswerable="if_answered",
            description="Cosine of the answer and the question.",
            edge_cases=f"Empty answer: 0. No question text: undefined. {windows}",
        ),
        declare(
            id="embedding.answer_hallucination",
            version=f"{HALLUCINATION_VERSION};model={model};threshold={hallucination_threshold}",
            needs=frozenset({"answer", "contexts", "embedder"}),
            unanswerable="if_answered",
            description="Share of the answer's sentences whose best cosine with any context is below "
            f"{hallucination_threshold:g}.",
            edge_cases="Empty answer: undefined. No contexts: 1. Sentences that hold only marks or citations do not "
            f"count; an answer that has no others: undefined. {windows}",
            higher_is_better=False,
            good_value=0.3,
        ),
    ]


@dataclass(frozen=True)
class _Texts:
    """The texts of one result that are compared. Blank contexts and references are left out: they resemble nothing."""

    question: str
    contexts: tuple[str, ...]
    answer: str
    references: tuple[str, ...]
    sentences: tuple[str, ...]

    @classmethod
    def of(cls, result: Result, split: Split) -> "_Texts":
        answer = result.answer.text if result.answer is not None else ""
        contexts = tuple(text for text in result.contexts if text.strip())
        return cls(
            question=result.item.question,
            contexts=contexts,
            answer=answer,
            references=tuple(text for text in result.item.answers if text.strip()),
            sentences=tuple(split(answer)) if contexts else (),
        )

    def to_embed(self) -> Iterable[str]:
        texts = (self.question, *self.contexts, self.answer, *self.references, *self.sentences)
        return (text for text in texts if text.strip())


def _said(answer: str) -> list[str]:
    """The sentences of an answer that say something."""
    return [sentence for sentence in sentences(answer) if says_something(sentence)]


def family_score(sufficiency_threshold: float, hallucination_threshold: float, split: Split = _said) -> Score:
    """The family's score at these thresholds; `split` gives an answer's sentences."""

    def score(results: Sequence[Result], tools: Tools) -> Columns:
        texts = [_Texts.of(result, split) for result in results]
        vectors = tools.embed(text for of_result in texts for text in of_result.to_embed())
        rows = [
            {
                **_context_outcomes(of_result, len(result.contexts), vectors, sufficiency_threshold),
                **_answer_outcomes(of_result, vectors),
                "answer_hallucination": _hallucination(of_result, vectors, hallucination_threshold),
            }
            for result, of_result in zip(results, texts, strict=True)
        ]
        return {name: [row[name] for row in rows] for name in _NAMES}

    return score


_NAMES = (
    "context_relevance",
    "context_sufficiency",
    "answer_relevance",
    "answer_correctness",
    "question_alignment",
    "answer_hallucination",
)


def _context_outcomes(
    texts: _Texts, context_count: int, vectors: Mapping[str, "np.ndarray"], threshold: float
) -> dict[str, Outcome]:
    if not texts.question.strip():
        return dict.fromkeys(("context_relevance", "context_sufficiency"), _NO_QUESTION_TEXT)
    if not texts.contexts:
        return dict.fromkeys(("context_relevance", "context_sufficiency"), scored(0.0))
    cosines = best_cosines(texts.contexts, [texts.question], vectors)
    return {
        "context_relevance": scored(float(cosines.sum()) / context_count),
        "context_sufficiency": scored(int((cosines >= threshold).sum()) / context_count),
    }


def _answer_outcomes(texts: _Texts, vectors: Mapping[str, "np.ndarray"]) -> dict[str, Outcome]:
    correctness, alignment = _NO_REFERENCE_TEXT, _NO_QUESTION_TEXT
    if texts.references:
        correctness = scored(float(best_cosines(texts.references, [texts.answer], vectors).max()))
    if texts.question.strip():
        alignment = scored(float(best_cosines([texts.question], [texts.answer], vectors)[0]))
    return {"answer_relevance": correctness, "answer_correctness": correctness, "question_alignment": alignment}


def _hallucination(texts: _Texts, vectors: Mapping[str, "np.ndarray"], threshold: float) -> Outcome:
    if not texts.answer.strip():
        return _NO_ANSWER_TEXT
    if not texts.contexts:
        return scored(1.0)
    if not texts.sentences:
        return _NO_SENTENCES
    best = best_cosines(texts.sentences, texts.contexts, vectors)
    return scored(int((best < threshold).sum()) / len(texts.sentences))
