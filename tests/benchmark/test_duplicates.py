"""Near-duplicate questions: found as a comparison of all pairs would find them, without making it."""

import time
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rageval_dagster.benchmark.duplicates import COSINE_LIMIT, JACCARD_LIMIT, find_near_duplicates
from rageval_dagster.benchmark.wording import content_tokens, tokens

words = st.sampled_from("who what when is the of capital norway sweden oslo fjord ship 1905 1906 river long".split())
questions = st.lists(st.lists(words, max_size=8).map(" ".join), max_size=25)


class _Directions:
    """An embedder whose vectors are given: what is tested is what becomes of them."""

    name = version = "given"
    dimension = 2

    def __init__(self, angles: dict[str, float]) -> None:
        self._angles = angles

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        angles = np.array([self._angles[text] for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    def windows(self, text: str) -> list[str]:
        return [text]


def _similar(left: str, right: str) -> bool:
    def jaccard(a: set[str], b: set[str]) -> bool:
        return len(a & b) >= JACCARD_LIMIT * len(a | b)

    exact = set("who whom whose when where why how 1905 1906".split())
    first, second = set(tokens(left)), set(tokens(right))
    return (
        bool(first)
        and first & exact == second & exact
        and jaccard(first, second)
        and jaccard(set(content_tokens(left)), set(content_tokens(right)))
    )


@settings(deadline=None)
@given(questions)
def test_the_first_similar_question_is_found_as_by_comparing_all(asked: list[str]) -> None:
    expected: list[int | None] = []
    for index, question in enumerate(asked):
        kept = (other for other in range(index) if expected[other] is None)
        expected.append(next((other for other in kept if _similar(asked[other], question)), None))
    assert find_near_duplicates(asked) == expected


def test_rephrasings_are_found_and_other_questions_are_not() -> None:
    asked = [
        "Who was the captain of the ship Fram in 1911?",
        "Who was captain of the ship Fram in 1911?",
        "Who was the captain of the ship Fram in 1912?",
        "When was the captain of the ship Fram in 1911?",
        "Regarding exceptions, what is said about context and cause?",
        "Regarding exceptions, what is said about context and notes?",
    ]
    assert find_near_duplicates(asked) == [None, 0, None, None, None, None]


def test_an_embedder_decides_where_there_is_one() -> None:
    near, far = 0.9 * np.arccos(COSINE_LIMIT), 1.1 * np.arccos(COSINE_LIMIT)
    # It is compared with questions that stay: what is near to ships alone stays, too.
    angles = {
        "boats": 0.0,
        "ships": near,
        "barges": 2 * near,
        "cars": 2 * near + far,
        "boats of 1905": 0.01,
        "who sails": 0.02,
    }
    assert find_near_duplicates(list(angles), _Directions(angles)) == [None, 0, None, None, None, None]


def test_sixteen_thousand_questions_of_one_pattern_are_not_compared_pair_by_pair() -> None:
    names = (name.translate(str.maketrans("0123456789", "abcdefghij")) for name in map(str, range(16_000)))
    asked = [f"What is said about the meaning of word{name} in the manual of part{name}?" for name in names]
    started = time.process_time()
    assert not any(find_near_duplicates(asked))
    assert time.process_time() - started < 30  # under a second; 128 million pairs take minutes


def test_a_model_that_reads_a_script_all_alike_finds_only_what_has_the_same_words() -> None:
    first, other, again = "ผู้จัดการอนุมัติคำขอเดินทาง", "เจ้าหน้าที่คลังนับสินค้าทุกสัปดาห์", "ผู้จัดการอนุมัติคำขอเดินทาง!"
    alike = _Directions(dict.fromkeys((first, other, again), 0.0))
    assert find_near_duplicates([first, other, again], alike) == [None, None, 0]
