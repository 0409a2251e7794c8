"""What records say of themselves."""

import pytest

from rageval_dagster.records import Evidence, Hit, Item, Pace, Result


@pytest.mark.parametrize(
    ("done", "seconds", "said"),
    [
        (8, 4.0, "2.0/s, 0:00:01 left"),
        (8, 10.0, "48.0/min, 0:00:02 left"),
        (2, 100.0, "1.2/min, 0:06:40 left"),
        (10, 1000.0, "0.6/min"),
        (0, 10.0, "none yet"),
    ],
)
def test_a_slow_pace_is_told_by_the_minute(done: int, seconds: float, said: str) -> None:
    assert Pace().describe(done, 10, seconds) == said


def test_one_work_is_told_in_one_unit() -> None:
    slow, fast = Pace(), Pace()
    assert [slow.describe(done, 100, 10.0) for done in (0, 1, 50)] == [
        "none yet",
        "6.0/min, 0:16:30 left",
        "300.0/min, 0:00:10 left",
    ]
    assert [fast.describe(20, 100, seconds) for seconds in (10.0, 40.0)] == [
        "2.0/s, 0:00:40 left",
        "0.5/s, 0:02:40 left",
    ]


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


@pytest.mark.parametrize(
    ("pages", "together"),
    [
        ((1, 20), True),
        ((20, 21), False),
        ((21, 40), True),
        ((None, None), True),
        ((None, 3), True),
        ((None, 21), False),
    ],
)
def test_questions_of_one_document_hang_together_and_of_a_long_one_with_pages_those_of_twenty(
    pages: tuple[int | None, int | None], together: bool
) -> None:
    one, other = (Item("Where?", evidence=(Evidence("a.pdf", page, "here"),)).cluster() for page in pages)
    assert (one == other) == together
    assert one != Item("Where?", evidence=(Evidence("b.pdf", pages[0], "here"),)).cluster()
