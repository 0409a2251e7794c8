"""Which questions of a dataset stand in the documents as they are now, and in which turn the others make room."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rageval_dagster.benchmark.due import Renewal, renewal_due
from rageval_dagster.benchmark.renewal import renew_sample
from rageval_dagster.benchmark.rotation import panel_of
from rageval_dagster.records import Candidate, Chunk, Evidence, Item
from rageval_dagster.storage.benchmark import dataset_items, save_candidates
from rageval_dagster.storage.database import Database
from tests.benchmark.small_corpus import SPEC, SmallCorpus, asked, chunk

CHUNKS = [chunk(number) for number in range(10)]
ANCHORS = [chunk(number) for number in range(10, 41)]
AGED = Renewal("it is old", "rotate", 20)


@pytest.fixture
def corpus(sqlite_db: Database, tmp_path: Path) -> SmallCorpus:
    return SmallCorpus.in_folder(sqlite_db, tmp_path)


def test_what_the_sample_lacks_makes_room_first_then_what_was_there_longest(corpus: SmallCorpus) -> None:
    corpus.hold(*ANCHORS, *CHUNKS)
    anchors, items = [asked(each) for each in ANCHORS], [asked(each) for each in CHUNKS]
    items[3] = replace(items[3], human_verified=True)
    items[7] = Item("Who owns harbour 7?", answerable=False)
    dataset = corpus.generated([*anchors, *items], [*ANCHORS, *CHUNKS])
    # The text around the quote of 1 was changed, 2 has lost its quote.
    edited = chunk(1, "A fair is held every summer. " + CHUNKS[1].text)
    now = [CHUNKS[0], edited, chunk(2, "It burned down."), *CHUNKS[3:]]
    # An anchor has lost its quote, too: 29 others and the verified question are thirty.
    corpus.hold(*ANCHORS[:20], *ANCHORS[21:], *now)
    sampled = [now[number] for number in (1, 2, 3, 4, 7, 9)]
    panel = panel_of(corpus.db, corpus.store, "acme", dataset, SPEC, AGED, sampled)
    assert panel.verified == [items[3]]
    assert [each.item for each in panel.retiring] == [anchors[20], items[2]]
    standing = [*anchors[:20], *anchors[21:], *(items[number] for number in (0, 1, 4, 5, 6, 7, 8, 9))]
    assert [each.item for each in panel.standing] == standing
    anchor, *left = panel.leaving
    assert anchor == anchors[30].item_id, "the youngest of 31"
    assert left == [items[number].item_id for number in (0, 5, 6, 8, 1, 4, 7, 9)]
    assert panel.rotating(len(panel.staying)) == 41 // 5 - 2
    assert {each.item_id for each in panel.remaining()} > {each.item_id for each in [*anchors[:20], *anchors[21:30]]}
    repaired = panel_of(corpus.db, corpus.store, "acme", dataset, SPEC, Renewal("", "repair", 10), sampled)
    assert (repaired.standing, repaired.remaining()) == (panel.standing, panel.staying)
    drawn = panel_of(corpus.db, corpus.store, "acme", dataset, SPEC, Renewal("", "draw", 10), sampled)
    assert drawn.staying == [items[3]]


def test_what_earlier_rules_wrote_stays_after_an_upgrade(corpus: SmallCorpus) -> None:
    """Drawn anew, no question would lead back to the baseline."""
    corpus.hold(*CHUNKS)
    items, earlier, now = [asked(each) for each in CHUNKS], "extractive/1 seed 0", datetime.now(UTC)
    dataset = corpus.generated(items, CHUNKS, generator=earlier)
    written = [Candidate(each.content_key, earlier, 0, "accepted", asked(each)) for each in CHUNKS]
    save_candidates(corpus.db, "acme", written)
    later, other = (replace(SPEC, generator=name) for name in ("extractive/2 seed 0", "extractive/2 seed 1"))
    assert renewal_due(corpus.db, "acme", later, now) is None
    assert renewal_due(corpus.db, "acme", other, now) == Renewal("the question generator changed", "draw", 10)
    repair = Renewal("", "repair", 10)
    assert panel_of(corpus.db, corpus.store, "acme", dataset, later, repair).staying == items
    assert panel_of(corpus.db, corpus.store, "acme", dataset, other, repair).staying == []


def test_a_dataset_grows_with_its_age_and_keeps_its_size_when_repaired(corpus: SmallCorpus) -> None:
    corpus.hold(*CHUNKS)
    items, now = [asked(each) for each in CHUNKS], datetime.now(UTC)
    corpus.generated(items, CHUNKS)
    later = now + timedelta(days=7, minutes=1)
    for stats, due in (
        ({}, Renewal("the dataset is older than 7 days", "rotate", 20)),
        ({"planned": 22}, Renewal("the dataset is older than 7 days", "rotate", 22)),
        ({"planned": 40}, Renewal("the dataset is older than 7 days", "rotate", 40)),
        ({"renewed_at": later.isoformat()}, None),
        ({"renewed_at": later.isoformat(), "corpus_version": "b", "planned": 22}, "repair"),
    ):
        corpus.generated(items, CHUNKS, **stats)
        expected = Renewal("the documents changed", "repair", 22) if due == "repair" else due
        assert renewal_due(corpus.db, "acme", SPEC, later) == expected
    # It is never as large as the documents cannot make it: 10 questions grow to 20, then to what is wanted.
    corpus.generated(items, CHUNKS)
    assert renewal_due(corpus.db, "acme", replace(SPEC, size=11), later) == Renewal(
        "11 questions are wanted, 10 were before", "draw", 11
    )
    # What somebody drew larger by hand stays so, whatever else changes, until somebody draws it smaller.
    corpus.generated(items, CHUNKS, planned=30)
    assert renewal_due(corpus.db, "acme", SPEC, now) is None
    other = renewal_due(corpus.db, "acme", replace(SPEC, generator="other"), now)
    assert other == Renewal("the question generator changed", "draw", 30)
    assert renewal_due(corpus.db, "acme", replace(SPEC, always=True), now) == Renewal("asked for", "draw", 30)
    smaller = renewal_due(corpus.db, "acme", replace(SPEC, size=5, exact=True), now)
    assert smaller == Renewal("5 questions are wanted, 30 were before", "draw", 5)
    corpus.generated([*items, *(Item(f"What is {n}?") for n in range(10))])
    assert renewal_due(corpus.db, "acme", SPEC, later) == Renewal("the dataset is older than 7 days", "rotate", 25)
    assert renewal_due(corpus.db, "acme", replace(SPEC, target=5), later) == Renewal(
        "the dataset is older than 7 days", "rotate", 10
    )


@dataclass(frozen=True)
class Document:
    """How a document is written and cut anew around its quote, which is cut once at most."""

    before: list[str]
    after: list[str]
    cut: float | None
    others: list[float]

    def chunks(self, number: int, quote: str, generation: int, named: bool) -> list[Chunk]:
        before, after = " ".join(self.before), " ".join(self.after)
        text = "  \n".join(part for part in (before, quote, after) if part)
        start = text.index(quote)
        places = {int(share * (start if share < 0.5 else len(text))) for share in self.others}
        places = {place for place in places if not start < place < start + len(quote)}
        if self.cut is not None:
            places.add(start + 1 + int(self.cut * (len(quote) - 2)))
        edges = [0, *sorted(places), len(text)]
        parts = [text[left:right] for left, right in pairwise(edges)]
        ids = [f"v{generation}-{number}-{position}" for position in range(len(parts))]
        return [
            Chunk(id, part, f"{number}.md" if named else id)
            for id, part in zip(ids, parts, strict=True)
            if part.strip()
        ]


words = st.lists(st.sampled_from("storm rope anchor keeper 1801 harbour opened lamp".split()), max_size=15)
rewritten = st.builds(
    Document, before=words, after=words, cut=st.none() | st.floats(0, 1), others=st.lists(st.floats(0, 1), max_size=3)
)


@pytest.mark.slow
@given(versions=st.lists(st.lists(rewritten, min_size=3, max_size=3), min_size=1, max_size=2), named=st.booleans())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_questions_stay_however_the_text_around_their_quotes_is_edited_renamed_or_cut(
    corpus: SmallCorpus, versions: list[list[Document]], named: bool
) -> None:
    quotes = [
        "The harbour of Avonlea was opened by the mayor in 1801.",
        "Ferries leave for Brightwater at noon, except on Sundays when the lock is closed.",
        "Caldera pays 12 crowns.",
    ]
    first = [
        Chunk(f"c{number}", quote, f"{number}.md" if named else f"c{number}") for number, quote in enumerate(quotes)
    ]
    corpus.hold(*first)
    items = [
        Item(f"Q{number}?", evidence=(Evidence(each.document_id, None, each.text),))
        for number, each in enumerate(first)
    ]
    spec = replace(SPEC, size=len(items))
    before = corpus.generated(items, first, sample_size=spec.size)
    for generation, documents in enumerate(versions):
        chunks = [
            each
            for number, document in enumerate(documents)
            for each in document.chunks(number, quotes[number], generation, named)
        ]
        corpus.hold(*chunks)
        renew_sample(corpus.db, corpus.store, "acme", spec)
        # Nothing is due any more: no question has to be replaced.
        assert renewal_due(corpus.db, "acme", spec) is None
        dataset = corpus.dataset("synthetic")
        assert dataset.id == before.id
        assert dataset_items(corpus.db, dataset.id) == items
