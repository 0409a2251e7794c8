"""Which questions stay when a dataset is renewed: those longest in it make room, a fifth at most, none for want."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rageval_dagster.benchmark.mix import Shares
from rageval_dagster.benchmark.rotation import Panel, renewed
from rageval_dagster.records import Candidate, Item

SHARES: Shares = {"factual_lookup": 0.3, "entity_specific": 0.2, "temporal": 0.2, "multi_hop": 0.2, "unanswerable": 0.1}
KINDS = ("factual_lookup", "multi_hop", "unanswerable")


def item(name: str, kind: str = "factual_lookup", verified: bool = False) -> Item:
    return Item(f"What is {name}?", category=kind, answerable=kind != "unanswerable", human_verified=verified)


def panel(verified: list[Item], others: list[Item], gone: int = 0, rotates: bool = True) -> Panel:
    ids = [each.item_id for each in others]
    return Panel(
        verified=verified,
        standing=[Candidate(f"key {each.item_id}", "rules", 0, "accepted", each) for each in others],
        leaving=ids if rotates else (),
        present=frozenset([*ids, *(each.item_id for each in verified), *(f"gone {number}" for number in range(gone))]),
    )


@pytest.mark.parametrize(("gone", "leave"), [(0, 2), (1, 1), (2, 0), (3, 0)])
def test_the_longest_in_it_make_room_and_what_is_gone_counts_too(gone: int, leave: int) -> None:
    old, new = [item(f"old {number}") for number in range(10 - gone)], [item(f"new {number}") for number in range(9)]
    after = renewed([*old, *new], len(old), panel([], old, gone), 10, None)
    assert after == [*old[leave:], *new[: gone + leave]]


def test_new_questions_fill_the_dataset_up_before_any_makes_room() -> None:
    old, new = [item(f"old {number}") for number in range(10)], [item(f"new {number}") for number in range(5)]
    known = panel([], old)
    assert renewed([*old, *new[:4]], 10, known, 14, None) == [*old, *new[:4]]
    assert renewed([*old, *new], 10, known, 14, None) == [*old[1:], *new]
    assert renewed(old, 10, known, 14, None) == old


def test_a_question_makes_room_for_one_of_its_kind_only() -> None:
    old = [item("hop", "multi_hop"), item("none", "unanswerable"), *(item(f"old {number}") for number in range(8))]
    known = panel([], old)
    after = renewed([*old, item("new none", "unanswerable"), item("new")], 10, known, 10, SHARES)
    assert after == [old[0], *old[3:], item("new none", "unanswerable"), item("new")]


items = st.tuples(st.sampled_from(KINDS), st.booleans())


@given(
    before=st.lists(items, max_size=25),
    gone=st.integers(0, 6),
    new=st.lists(st.sampled_from(KINDS), max_size=25),
    growth=st.integers(0, 10),
    shares=st.sampled_from([None, SHARES]),
    rotates=st.booleans(),
)
def test_whatever_there_is_a_renewal_keeps_its_promises(
    before: list[tuple[str, bool]], gone: int, new: list[str], growth: int, shares: Shares | None, rotates: bool
) -> None:
    old = [item(f"old {number}", kind, verified) for number, (kind, verified) in enumerate(before)]
    verified = [each for each in old if each.human_verified]
    others = [each for each in old if not each.human_verified]
    fresh = [item(f"new {number}", kind) for number, kind in enumerate(new)]
    known = panel(verified, others, gone, rotates)
    size = len(known.present) + growth
    after = renewed([*verified, *others, *fresh], len(old), known, size, shares)
    assert len(after) == min(size, len(old) + len(fresh))
    assert len({each.item_id for each in after}) == len(after)
    assert [each for each in after if each in verified] == verified
    lost = len(known.present) - sum(each in old for each in after)
    assert lost <= max(len(known.present) // 5, gone)
    if not rotates:
        assert lost == gone
    # Those that stay keep their order, and come before all that is new.
    assert [each for each in after if each in old] == after[: len(known.present) - lost]
    if shares is not None and not growth and not gone:
        assert Counter(each.category for each in after) == Counter(each.category for each in old)
