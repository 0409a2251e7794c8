"""How many chunks that are not the client's a system returned, and that nobody knows where it does not tell."""

from rageval_dagster.evaluation.leaks import stray_count
from rageval_dagster.records import Hit, Item, Result


def result(*hits: Hit, tells: bool = True) -> Result:
    return Result(Item("Q?"), None, None, hits, 5, tells_contexts=tells)


def test_each_chunk_counts_once() -> None:
    own, board = Hit("c1", "d", 1, 1.0), Hit("board", "d", 2, 0.5, owner="foreign")
    stale = Hit("old", "d", 3, 0.2, owner="unknown")
    results = [result(own, board), result(board, stale), result(tells=False)]
    assert (stray_count(results, "foreign"), stray_count(results, "unknown")) == (1, 1)
    assert stray_count([result(own)], "foreign") == 0


def test_a_system_that_does_not_tell_is_not_known_to_leak_nothing() -> None:
    assert stray_count([result(tells=False)], "foreign") is None
    assert stray_count([], "foreign") is None
