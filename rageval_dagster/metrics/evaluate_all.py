"""Seed 000's five metrics of one answer under their own names, its sentences split as the seed splits them."""

import re
from collections.abc import Sequence

from rageval_dagster.metrics.embedding import family_score
from rageval_dagster.metrics.interface import Tools
from rageval_dagster.records import Answer, Item, Result

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
    from rageval_dagster.settings import load_settings

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
    columns = score([result], Tools(load_embedder(model_name, load_settings())))
    outcomes = {name: columns[name][0] for name in NAMES}
    return {name: None if outcome is None else outcome.value for name, outcome in outcomes.items()}


def _plain_sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in re.split(r"[.!?]", text) if sentence.strip()]
