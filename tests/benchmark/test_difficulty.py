"""How hard questions are: what the store does not return counts as harder than all that it returns."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rageval_dagster.benchmark.coverage import DIFFICULTY_DEPTH, difficulty_stats, with_difficulty
from rageval_dagster.errors import EmbeddingError
from rageval_dagster.records import NOT_RETURNED, Candidate, Evidence, Hit, Item


def candidate(n: int, difficulty: int | None = None) -> Candidate:
    item = Item(f"question {n}?", (f"answer {n}",), (Evidence("a.md", None, f"quote {n}"),))
    return Candidate(f"chunk {n}", "extractive", 0, "accepted", item, difficulty=difficulty)


@pytest.mark.parametrize(
    ("difficulties", "median", "measured"),
    [
        ([], None, 0),
        ([None, None], None, 0),
        ([1, 3, 2, None], 2, 3),
        ([1, 3, NOT_RETURNED], 3, 3),
        ([2, 1, NOT_RETURNED, NOT_RETURNED], 2, 4),
        ([1, NOT_RETURNED, NOT_RETURNED], None, 3),
        ([NOT_RETURNED], None, 1),
    ],
)
def test_the_median_is_over_all_that_were_measured(
    difficulties: list[int | None], median: int | None, measured: int
) -> None:
    assert difficulty_stats(candidate(n, each) for n, each in enumerate(difficulties)) == {
        "median_difficulty": median,
        "difficulty_measured": measured,
        "difficulty_depth": DIFFICULTY_DEPTH,
    }


def test_a_question_whose_passage_is_not_returned_was_measured_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    hits = [Hit("x", "a.md", 1, 0.9, "other"), Hit("y", "a.md", 2, 0.8, "before quote  1 after")]
    store = SimpleNamespace(query=lambda client_id, vectors, depth: [hits for _ in vectors])
    embedder = SimpleNamespace(encode=list)
    questions = [candidate(1), candidate(2), candidate(3, 7), replace(candidate(4), item=None)]

    def measured() -> list[int | None]:
        found = with_difficulty(cast(Any, store), "acme", questions, cast(Any, embedder))
        return [each.difficulty for each in found]

    checked = "rageval_dagster.corpus.compatibility.check_embedder"
    monkeypatch.setattr(checked, lambda *_: None)
    assert measured() == [2, NOT_RETURNED, 7, None]

    def refuse(*_: object) -> None:
        raise EmbeddingError("of another model")

    monkeypatch.setattr(checked, refuse)
    assert measured() == [None, None, 7, None]
