"""Cosines of texts by their windows: the vectors of many texts as one matrix, multiplied in blocks."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

COSINES_AT_ONCE = 4_000_000
"""Cosines held in memory at once when a very long answer meets very many contexts (16 MB)."""


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
