"""Which runs of words are kept: the same wherever they stand, and one of every thirteen words."""

from hypothesis import given
from hypothesis import strategies as st

from rageval_dagster.corpus.word_runs import RUN_WORDS, SURE_WORDS, RunHasher

WORDS = st.lists(st.sampled_from("the keeper of a lighthouse lights lamp at dusk and so on in every year".split()))
KEYS = st.binary(min_size=8, max_size=8)


@given(KEYS, WORDS, WORDS, WORDS)
def test_a_run_is_kept_by_all_texts_that_hold_it_or_by_none(
    key: bytes, before: list[str], shared: list[str], after: list[str]
) -> None:
    hasher = RunHasher(key)
    alone = {(run.start, run.hash) for run in hasher.runs(shared)}
    within = {
        (run.start - len(before), run.hash)
        for run in hasher.runs([*before, *shared, *after])
        if len(before) <= run.start <= len(before) + len(shared) - RUN_WORDS
    }
    assert alone == within


@given(KEYS, st.lists(st.text("ab", max_size=2), min_size=SURE_WORDS, max_size=4 * SURE_WORDS))
def test_of_every_thirteen_words_a_run_is_kept(key: bytes, found: list[str]) -> None:
    hasher = RunHasher(key)
    starts = [run.start for run in hasher.runs(found)]
    for first in range(len(found) - SURE_WORDS + 1):
        assert any(first <= start <= first + SURE_WORDS - RUN_WORDS for start in starts)
