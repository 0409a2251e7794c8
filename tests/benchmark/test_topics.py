"""Topics of a corpus: clusters of vectors by direction, found alike every time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rageval_dagster.benchmark.coverage import cluster, nearest_topics, topic_count


def around(directions: np.ndarray, each: int, seed: int = 0) -> np.ndarray:
    """Vectors of different lengths that point nearly where one of the directions does."""
    random = np.random.default_rng(seed)
    rows = np.repeat(directions, each, axis=0)
    rows = rows + 0.05 * random.standard_normal(rows.shape)
    return (rows * random.uniform(0.1, 9, (len(rows), 1))).astype(np.float32)


def test_directions_that_lie_apart_are_topics_whatever_the_vectors_lengths() -> None:
    rows = around(np.eye(12), each=20)
    centres = cluster(rows, 12)
    assert centres.shape == (12, 12)
    assert np.allclose(np.linalg.norm(centres, axis=1), 1, atol=1e-5)
    topics = [nearest_topics(rows[start : start + 20], centres) for start in range(0, 240, 20)]
    assert all(len(topic) == 1 for topic in topics)
    assert len(set.union(*topics)) == 12
    assert np.array_equal(centres, cluster(rows, 12))


@given(
    rows=st.lists(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=3, max_size=3), min_size=1, max_size=30),
    count=st.integers(1, 8),
)
def test_each_topic_has_a_chunk_and_there_are_no_more_than_directions(rows: list[list[float]], count: int) -> None:
    vectors = np.array(rows, dtype=np.float32)
    centres = cluster(vectors, count)
    assert np.isfinite(centres).all()
    assert nearest_topics(vectors, centres) == set(range(len(centres)))
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = {tuple(np.round(row, 4) + 0.0) for row in vectors / np.maximum(lengths, 1e-12)}
    assert 1 <= len(centres) <= min(count, len(directions))


@pytest.mark.parametrize(("chunks", "topics"), [(1, 1), (2, 1), (8, 2), (18, 3), (200, 10), (4_000, 45), (90_000, 50)])
def test_there_are_more_topics_the_more_chunks_up_to_fifty(chunks: int, topics: int) -> None:
    assert topic_count(chunks) == topics


def test_nothing_touches_no_topic() -> None:
    assert nearest_topics(np.empty((0, 3), dtype=np.float32), np.eye(3, dtype=np.float32)) == set()
