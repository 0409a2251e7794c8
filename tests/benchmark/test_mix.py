"""Which kinds of questions are asked for and drawn, and how many of each."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rageval_dagster.benchmark.mix import KINDS, SINGLE, QuestionKind, Shares, chosen, kind_of, plan, question_shares
from rageval_dagster.benchmark.related import Related
from rageval_dagster.errors import SettingsError
from rageval_dagster.records import Chunk, Evidence, Item
from rageval_dagster.settings import Settings

CHUNKS = [
    Chunk(
        f"c{n}", f"The ferry {chr(97 + n // 10)}{chr(97 + n % 10)}vik leaves Bremnes at dawn for Sortland.", f"{n}.md"
    )
    for n in range(100)
]
RELATED = Related(CHUNKS, "en")


def shares(multi_hop: float, unanswerable: float) -> Shares:
    return question_shares(Settings(RAGEVAL_MULTI_HOP_SHARE=multi_hop, RAGEVAL_UNANSWERABLE_SHARE=unanswerable))  # pyright: ignore[reportCallIssue]


def item(number: int, kind: QuestionKind) -> Item:
    if kind == "unanswerable":
        return Item(f"Question {number}?", answerable=False)
    return Item(f"Question {number}?", ("yes",), (Evidence("d"),), kind)


def test_every_start_of_a_plan_has_the_shares() -> None:
    wanted = shares(0.2, 0.1)
    kinds = plan(CHUNKS, {}, wanted, RELATED)
    for number in (10, 50, 100):
        counts = Counter(kinds[:number])
        assert all(abs(counts[kind] - wanted[kind] * number) <= 1 for kind in KINDS)


def test_what_is_lacking_is_asked_for_first_but_not_alone() -> None:
    written: dict[QuestionKind, int] = {"factual_lookup": 50, "entity_specific": 40, "temporal": 50}
    kinds = Counter(plan(CHUNKS[:20], written, shares(0.2, 0.1), RELATED))
    assert kinds == {"multi_hop": 8, "unanswerable": 4, "entity_specific": 8}


def test_without_related_documents_there_are_no_questions_over_two() -> None:
    alone = [Chunk(str(n), chunk.text, "one.md") for n, chunk in enumerate(CHUNKS)]
    assert set(plan(alone, {}, shares(1, 0), Related(alone, "en"))) == set(SINGLE)
    assert set(plan(alone, {}, shares(0.5, 0), Related(alone, "en"))) == set(SINGLE)


def test_shares_beyond_the_whole_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"RAGEVAL_MULTI_HOP_SHARE \(0.8\) and RAGEVAL_UNANSWERABLE_SHARE \(0.3\)"):
        shares(0.8, 0.3)


@given(
    st.lists(st.sampled_from(KINDS), max_size=40),
    st.integers(0, 30),
    st.integers(0, 10),
    st.sampled_from([(0.2, 0.1), (0.0, 0.0), (0.5, 0.5), (1.0, 0.0)]),
)
def test_a_dataset_is_as_large_as_it_can_be_and_as_mixed(
    kinds: list[QuestionKind], size: int, staying: int, wanted: tuple[float, float]
) -> None:
    items = [item(number, kind) for number, kind in enumerate(kinds)]
    staying = min(staying, len(items))
    drawn = chosen(items, size, staying, shares(*wanted))
    assert drawn[:staying] == items[:staying]
    assert [each for each in items if each in drawn] == drawn
    assert len(drawn) == min(len(items), max(size, staying))
    counts, available = Counter(map(kind_of, drawn)), Counter(kinds)
    for kind, share in zip(("multi_hop", "unanswerable"), wanted, strict=True):
        if not staying:
            assert counts[kind] >= min(available[kind], int(share * size))
