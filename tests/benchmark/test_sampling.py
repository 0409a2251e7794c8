"""Samples are seeded, consistent, fair to short documents, and `diverse` spreads over topics."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rageval_dagster.benchmark.sampling import STRATEGIES, draw_sample
from rageval_dagster.errors import SettingsError
from rageval_dagster.identity import digest
from rageval_dagster.storage.corpus import ManifestEntry

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def entry(text: str, document: str = "d", added_at: datetime | None = None, chunk_id: str | None = None):
    chunk_id = chunk_id or f"{document}/{text}"
    return ManifestEntry(
        chunk_key=digest(chunk_id),
        chunk_id=chunk_id,
        document_id=document,
        page=None,
        position=None,
        text_hash=digest(text),
        words_hash=digest(text),
        vector_hash=None,
        added_at=added_at,
        first_seen=DAY,
    )


def corpus(documents: int, chunks: int) -> list[ManifestEntry]:
    return [entry(f"text {d} {c}", f"doc{d}") for d in range(documents) for c in range(chunks)]


def random_vectors(entries):
    """A vector that depends on the entry's text alone."""
    seeds = [int(entry.text_hash[:8], 16) for entry in entries]
    return np.stack([np.random.default_rng(seed).standard_normal(8) for seed in seeds]).astype(np.float32)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_seed_gives_the_same_sample_in_any_order_of_the_manifest(strategy: str) -> None:
    entries = corpus(20, 10)
    sample = draw_sample(entries, 30, strategy, 1, random_vectors)
    assert draw_sample(entries[::-1], 30, strategy, 1, random_vectors) == sample
    assert len(set(sample)) == 30
    assert draw_sample(entries, 30, strategy, 2, random_vectors) != sample


def test_changing_one_percent_of_the_chunks_keeps_98_percent_of_a_random_sample() -> None:
    kept = []
    for seed in range(20):
        entries = corpus(40, 50)
        before = draw_sample(entries, 100, "random", seed)
        rng = np.random.default_rng(seed)
        for index in rng.choice(len(entries), len(entries) // 100, replace=False):
            entries[index] = replace(entries[index], text_hash=digest(f"new text {seed} {index}"))
        kept.append(len(set(before) & set(draw_sample(entries, 100, "random", seed))) / 100)
    assert mean(kept) >= 0.98


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("documented", [True, False])
def test_new_ids_for_the_same_texts_keep_the_sample(strategy: str, documented: bool) -> None:
    def with_ids(prefix: str) -> list[ManifestEntry]:
        entries = [replace(e, chunk_id=f"{prefix}{digest(prefix, e.chunk_id)}") for e in corpus(10, 30)]
        entries = [e if documented else replace(e, document_id=e.chunk_id) for e in entries]
        return sorted((replace(e, chunk_key=digest(e.chunk_id)) for e in entries), key=lambda e: e.chunk_key)

    drawn = []
    for entries in (with_ids("old"), with_ids("new")):
        texts = {e.chunk_key: e.text_hash for e in entries}
        drawn.append([texts[key] for key in draw_sample(entries, 40, strategy, 3, random_vectors)])
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_long_document_does_not_fill_the_sample(strategy: str) -> None:
    entries = [entry(f"long {n}", "long", DAY + timedelta(days=9)) for n in range(900)] + corpus(30, 5)
    document = {e.chunk_key: e.document_id for e in entries}
    sample = draw_sample(entries, 50, strategy, 0, random_vectors)
    assert Counter(document[key] for key in sample)["long"] <= 5


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_quota_gives_way_when_the_other_documents_are_too_small(strategy: str) -> None:
    entries = [*corpus(1, 100), entry("a", "small"), entry("b", "small")]
    sample = draw_sample(entries, 50, strategy, 0, random_vectors)
    assert len(sample) == 50
    assert {entries[-1].chunk_key, entries[-2].chunk_key} <= set(sample)


def test_diverse_takes_one_chunk_of_every_topic_and_random_does_not() -> None:
    centres = np.eye(12, dtype=np.float32)
    sizes = [200, *[5] * 11]
    topics = [topic for topic, size in enumerate(sizes) for _ in range(size)]
    entries = [entry(f"text {n}", f"doc{n}") for n in range(len(topics))]
    noise = np.random.default_rng(0).normal(0, 0.05, (len(topics), 12))
    rows = {e.chunk_key: centres[topic] + noise[n] for n, (e, topic) in enumerate(zip(entries, topics, strict=True))}
    topic_of = {e.chunk_key: topic for e, topic in zip(entries, topics, strict=True)}

    def vectors(some):
        return np.stack([rows[e.chunk_key] for e in some])

    diverse = {topic_of[key] for key in draw_sample(entries, 14, "diverse", 0, vectors)}
    random = {topic_of[key] for key in draw_sample(entries, 14, "random", 0)}
    assert len(diverse) == 12
    assert len(random) < 12


def test_diverse_asks_for_the_vectors_of_a_bounded_part_of_a_large_corpus() -> None:
    asked = []

    def vectors(some):
        asked.append(len(some))
        return random_vectors(some)

    assert len(draw_sample(corpus(100, 80), 20, "diverse", 0, vectors)) == 20
    assert asked == [4000]


def test_diverse_without_vectors_is_refused() -> None:
    with pytest.raises(ValueError, match="vectors"):
        draw_sample(corpus(5, 5), 2, "diverse", 0)
    with pytest.raises(SettingsError, match="random, diverse, recent, not 'newest'"):
        draw_sample(corpus(1, 1), 1, "newest", 0)


def test_recent_takes_the_newest_by_added_at_else_by_first_seen() -> None:
    old = [entry(f"old {n}", f"doc{n}") for n in range(20)]
    new = [entry(f"new {n}", f"doc{n}", DAY + timedelta(days=1)) for n in range(5)]
    naive = entry("naive", "doc20", datetime(2026, 2, 1))
    sample = draw_sample([*old, *new, naive], 6, "recent", 0)
    assert sample[0] == naive.chunk_key
    assert set(sample[1:]) == {e.chunk_key for e in new}


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8)), max_size=40),
    st.integers(0, 20),
    st.sampled_from(STRATEGIES),
    st.integers(0, 3),
)
def test_any_corpus_gives_distinct_chunks_and_as_many_as_asked_for(chunks, size, strategy, seed) -> None:
    entries = [
        entry(f"text {text}", f"doc{document}", chunk_id=f"{number}") for number, (document, text) in enumerate(chunks)
    ]
    sample = draw_sample(entries, size, strategy, seed, random_vectors)
    texts = {e.chunk_key: e.text_hash for e in entries}
    assert len({texts[key] for key in sample}) == len(sample) == min(size, len({e.text_hash for e in entries}))
