"""Topics of a corpus: clusters of its chunks' vectors by their direction (spherical k-means)."""

from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

MOST_TOPICS = 50
_ROUNDS = 50


def topic_count(chunks: int) -> int:
    """How many topics so many chunks are taken to have: about sqrt(chunks / 2), as is usual, but no more than 50."""
    return min(max(round(sqrt(chunks / 2)), 1), MOST_TOPICS, chunks)


def cluster(vectors: "np.ndarray", count: int) -> "np.ndarray":
    """The centres of up to `count` clusters, float32 [clusters, d], each of length 1; every one is nearest to some row.

    The same rows give the same ones. The first are drawn far apart (k-means++, Arthur and Vassilvitskii 2007). Fewer
    clusters come of rows that have fewer directions.

    Args:
        vectors: float [n, d], at least one.
        count: of clusters, at least 1.
    """
    import numpy as np

    rows = _directions(vectors)
    random = np.random.default_rng(0)
    chosen = [0]
    similarity = rows @ rows[0]
    while len(chosen) < count:
        distances = 1.0 - similarity.astype(np.float64)
        # Rounding leaves a little between equal rows.
        distances[distances < 1e-6] = 0.0
        if not distances.sum():
            break
        chosen.append(int(random.choice(len(rows), p=distances / distances.sum())))
        similarity = np.maximum(similarity, rows @ rows[chosen[-1]])
    centres = rows[chosen]
    nearest = np.argmax(rows @ centres.T, axis=1)
    for _ in range(_ROUNDS):
        # A centre that nothing is near to any more is dropped.
        centres = _directions(np.stack([rows[nearest == number].sum(axis=0) for number in np.unique(nearest)]))
        before, nearest = nearest, np.argmax(rows @ centres.T, axis=1)
        if np.array_equal(before, nearest):
            break
    return centres[np.unique(nearest)]


def nearest_topics(vectors: "np.ndarray", centres: "np.ndarray") -> set[int]:
    """The numbers of the centres that some row is nearest to."""
    import numpy as np

    return {int(number) for number in np.argmax(_directions(vectors) @ centres.T, axis=1)} if len(vectors) else set()


def _directions(vectors: "np.ndarray") -> "np.ndarray":
    import numpy as np

    rows = np.asarray(vectors, dtype=np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
