"""What records say of themselves."""

import pytest

from rageval_dagster.records import Hit, Item, Result, pace


@pytest.mark.parametrize(
    ("done", "seconds", "said"),
    [
        (8, 10.0, "0.8/s, 0:00:02 left"),
        (2, 100.0, "1.2/min, 0:06:40 left"),
        (10, 1000.0, "0.6/min"),
        (0, 10.0, "0.0/s"),
    ],
)
def test_a_slow_pace_is_told_by_the_minute(done: int, seconds: float, said: str) -> None:
    assert pace(done, 10, seconds) == said


@pytest.mark.parametrize(
    ("chunks", "documents", "relevant"),
    [
        ({"c2"}, {"a.md"}, [False, True, False]),
        (set(), {"a.md"}, [False, False, False]),
        (None, {"a.md"}, [True, True, False]),
        (None, None, [False, False, False]),
    ],
)
def test_a_hit_is_relevant_by_its_chunk_and_by_its_document_only_where_no_chunk_is_known(
    chunks: set[str] | None, documents: set[str] | None, relevant: list[bool]
) -> None:
    hits = tuple(Hit(f"c{rank}", document, rank, 0.0, "") for rank, document in enumerate(("a.md", "a.md", "b.md"), 1))
    known = [None if ids is None else frozenset(ids) for ids in (chunks, documents)]
    result = Result(Item("Where?"), known[0], known[1], hits, 5)
    assert [result.is_relevant(hit) for hit in hits] == relevant
