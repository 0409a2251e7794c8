"""Finding questions that say almost the same as an earlier one: by embedding, or by their words where there is none."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import TYPE_CHECKING

from rageval_dagster.benchmark.wording import content_tokens, tokens
from rageval_dagster.text import is_latin

if TYPE_CHECKING:
    from rageval_dagster.embedding.models import Embedder

COSINE_LIMIT = 0.95
"""With all-MiniLM-L6-v2 what lies above it among 1,190 human questions (XQuAD) are rephrasings of each other."""

JACCARD_LIMIT = Fraction(4, 5)
"""An exact fraction: rounding up 0.8 * n in floating point would now and then overshoot."""

_ASKED_FOR = frozenset("who whom whose when where why how".split())
_BLOCK = 512


def find_near_duplicates(questions: Sequence[str], embedder: "Embedder | None" = None) -> list[int | None]:
    """For each question the index of an earlier one that it nearly repeats, or None.

    Compared only with earlier questions that are no duplicates themselves, so that of any group the first stays.
    Questions that ask for something else (who, when) or whose numbers differ ("in 2020", "in 2021") are never
    duplicates of each other, however similar.

    With an embedder: cosine of at least `COSINE_LIMIT`; of questions beyond the Latin script also similar words, since
    a model that does not know a script reads all its sentences alike. Without one: Jaccard similarity of the token
    sets, and of those of the content words alone, of at least `JACCARD_LIMIT`, found by prefix and position filtering
    (Bayardo et al. 2007; Xiao et al. 2008): questions meet only over their rarest words, so that time grows almost
    linearly, for questions cut from one pattern too.
    """
    token_sets = [frozenset(tokens(question)) for question in questions]
    if embedder is None:
        return _by_tokens(token_sets, [frozenset(content_tokens(question)) for question in questions])
    return _by_embedding(questions, token_sets, embedder)


def _signature(token_set: frozenset[str]) -> frozenset[str]:
    """The words in which duplicates agree exactly: numbers, and what is asked for."""
    return frozenset(
        token for token in token_set if token in _ASKED_FOR or any(character.isdigit() for character in token)
    )


def _by_tokens(token_sets: Sequence[frozenset[str]], contents: Sequence[frozenset[str]]) -> list[int | None]:
    frequency = Counter(token for token_set in token_sets for token in token_set)
    kept: dict[tuple, list[int]] = defaultdict(list)
    result: list[int | None] = []
    for index, token_set in enumerate(token_sets):
        size, signature = len(token_set), _signature(token_set)
        rarest_first = sorted(token_set, key=lambda token: (frequency[token], token))
        prefix = rarest_first[: _prefix_length(size)]
        similar = (
            other
            for position, token in enumerate(prefix)
            for other_size, other_position in _possible_meetings(size, position)
            for other in kept.get((signature, token, other_size, other_position), ())
            if _are_similar(token_set, token_sets[other]) and _are_similar(contents[index], contents[other])
        )
        found = min(similar, default=None)
        result.append(found)
        if found is None:
            for position, token in enumerate(prefix):
                kept[signature, token, size, position].append(index)
    return result


def _are_similar(left: frozenset[str], right: frozenset[str]) -> bool:
    return len(left & right) >= JACCARD_LIMIT * len(left | right)


@lru_cache(maxsize=4096)
def _prefix_length(size: int) -> int:
    """How many of its rarest tokens a set shares at least one of with every set similar to it."""
    return size - ceil(JACCARD_LIMIT * size) + 1 if size else 0


@lru_cache(maxsize=4096)
def _possible_meetings(size: int, position: int) -> tuple[tuple[int, int], ...]:
    """The sizes and positions at which a similar set can have the token at `position` as the first shared one."""
    meetings = []
    for other_size in range(ceil(JACCARD_LIMIT * size), floor(size / JACCARD_LIMIT) + 1):
        needed = ceil(JACCARD_LIMIT / (1 + JACCARD_LIMIT) * (size + other_size))
        for other_position in range(_prefix_length(other_size)):
            if min(size - position, other_size - other_position) >= needed:
                meetings.append((other_size, other_position))
    return tuple(meetings)


def _by_embedding(
    questions: Sequence[str], token_sets: Sequence[frozenset[str]], embedder: "Embedder"
) -> list[int | None]:
    import numpy as np

    if not questions:
        return []
    vectors = embedder.encode(list(questions))
    signatures = [_signature(token_set) for token_set in token_sets]
    latin = list(map(is_latin, questions))
    result: list[int | None] = [None] * len(questions)
    for start in range(0, len(questions), _BLOCK):
        # In blocks, so that memory stays linear in the number of questions.
        block = vectors[start : start + _BLOCK]
        similar = np.argwhere(block @ vectors[: start + len(block)].T >= COSINE_LIMIT)
        for row, earlier in similar.tolist():
            index = start + row
            if (
                earlier < index
                and result[index] is None
                and result[earlier] is None
                and signatures[index] == signatures[earlier]
                and (latin[index] or _are_similar(token_sets[index], token_sets[earlier]))
            ):
                result[index] = earlier
    return result
