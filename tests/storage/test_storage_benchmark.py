"""Samples, candidates and frozen datasets: saved by content, and the same when saved again."""

from dataclasses import replace

from history_builder import make_dataset, make_items, row_counts
from hypothesis import given
from hypothesis import strategies as st

from rageval_dagster.identity import digest
from rageval_dagster.records import Candidate, Evidence, Item
from rageval_dagster.storage import benchmark
from rageval_dagster.storage.benchmark import Coverage, Sample
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.types import utc_now


def test_a_sample_is_found_by_its_id_and_drawn_anew_in_place(db: Database) -> None:
    first = Sample("s1", "acme", "corpus 1", "random", 2**40, 2, (digest("b"), digest("a")))
    second = replace(first, sample_id="s2", corpus_version="corpus 2")
    anew = replace(first, chunk_keys=(digest("c"),))
    for sample in (first, second, anew):
        benchmark.save_sample(db, sample)
    assert row_counts(db)["chunk_samples"] == 2
    assert benchmark.get_sample(db, "acme", "s1") == anew
    assert benchmark.get_sample(db, "acme", "s2") == second
    assert benchmark.get_sample(db, "other", "s1") is None


def test_a_candidate_gets_its_item_once_and_changes_its_verdict_only(db: Database) -> None:
    item, other = make_items(2)
    failed = Candidate(digest("chunk"), "extractive 1", 0, "failed", None, ("no sentence",))
    made = replace(failed, status="new", item=item, reasons=())
    rejected = replace(made, status="rejected", item=other, reasons=("copies its chunk",), difficulty=3)
    for saved, kept in ((failed, failed), (made, made), (rejected, replace(rejected, item=item))):
        benchmark.save_candidates(db, "acme", [saved])
        assert benchmark.list_candidates(db, "acme") == [kept]


def test_candidates_are_found_by_chunk_and_generator(db: Database) -> None:
    candidates = [
        Candidate(digest(chunk), generator, attempt, "failed", None, ("no sentence",))
        for chunk in ("a", "b", "c")
        for generator in ("extractive 1", "extractive 2")
        for attempt in (0, 1)
    ]
    benchmark.save_candidates(db, "acme", candidates)
    assert len(benchmark.list_candidates(db, "acme")) == 12
    found = benchmark.list_candidates(db, "acme", [digest("a"), digest("b"), digest("z")], "extractive 2")
    assert {(candidate.chunk_key, candidate.attempt) for candidate in found} == {
        (digest(chunk), attempt) for chunk in "ab" for attempt in (0, 1)
    }
    assert benchmark.list_candidates(db, "acme", []) == []
    assert benchmark.list_candidates(db, "other") == []


def test_what_failed_is_asked_about_again_once_after_each_change(db: Database) -> None:
    ensure_client(db, "acme")
    failed = Candidate("k1", "rules", 0, "failed", reasons=("stands_elsewhere",))
    item = make_items(1)[0]
    benchmark.save_candidates(db, "acme", [failed, Candidate("k2", "rules", 0, "new", item)])
    changed = utc_now()
    assert benchmark.failed_before(db, "acme", "rules", changed, "stands_elsewhere") == {"k1"}
    assert benchmark.failed_before(db, "acme", "rules", changed, "no_question") == set()
    assert benchmark.failed_before(db, "acme", "others", changed, "stands_elsewhere") == set()
    benchmark.save_candidates(db, "acme", [failed, Candidate("k2", "rules", 0, "rejected", item)])
    assert benchmark.failed_before(db, "acme", "rules", changed, "stands_elsewhere") == set()
    benchmark.save_candidates(db, "acme", [replace(failed, status="new", item=make_items(2)[1], reasons=())])
    assert benchmark.failed_before(db, "acme", "rules", utc_now(), "stands_elsewhere") == set()


def test_a_dataset_saved_again_is_the_same_one_with_a_new_verdict(db: Database) -> None:
    items = make_items(3)
    first = make_dataset(db, "acme", items)
    failures, stats = {"unique": 2}, {"categories": {"x": 3}}
    again = benchmark.save_dataset(
        db, "acme", "human", "generated", items[::-1], "someone", "corpus", False, failures, stats
    )
    assert again == replace(first, valid=False, rule_failures=failures, stats=stats, checked_at=again.checked_at)
    assert again.checked_at > first.checked_at
    assert benchmark.dataset_items(db, first.id) == items
    assert benchmark.get_dataset(db, first.id) == again
    assert (row_counts(db)["evaluation_datasets"], row_counts(db)["benchmark_items"]) == (1, 3)


def test_who_verified_an_item_is_renewed_without_a_new_version(db: Database) -> None:
    items = make_items(3)
    first = make_dataset(db, "acme", items)
    verified = [replace(items[0], human_verified=True), *items[1:]]
    assert make_dataset(db, "acme", verified).id == first.id
    assert benchmark.dataset_items(db, first.id) == verified


def test_items_keep_every_field_and_their_order(db: Database) -> None:
    items = [
        Item(
            question="wie heißt \x00 das?\ud83d",
            answers=("a\x00", "", "𝔘"),
            evidence=(Evidence("d'oc\"\\", 3, "the \u2028 quote"), Evidence("other")),
            category="multi_hop",
            answerable=False,
            origin="human",
            human_verified=True,
            history=({"role": "user", "content": "hello"},),
            principal={"groups": ["a", "b"]},
            checks=({"name": "n", "kind": "number", "expect": 1.5},),
        ),
        *make_items(3),
    ]
    dataset = make_dataset(db, "acme", items)
    read = benchmark.dataset_items(db, dataset.id)
    assert read == items
    assert [item.item_id for item in read] == [item.item_id for item in items]


def test_the_same_question_in_another_category_is_another_version_and_both_stay(db: Database) -> None:
    items = make_items(2)
    changed = [replace(items[0], category="temporal"), items[1]]
    first, second = make_dataset(db, "acme", items), make_dataset(db, "acme", changed)
    assert first.id != second.id
    assert benchmark.dataset_items(db, first.id) == items
    assert benchmark.dataset_items(db, second.id) == changed
    assert row_counts(db)["benchmark_items"] == 3


def test_the_dataset_checked_last_is_the_current_one_of_its_name(db: Database) -> None:
    old = make_dataset(db, "acme", make_items(2), "synthetic")
    new = make_dataset(db, "acme", make_items(3), "synthetic")
    human = make_dataset(db, "acme", make_items(1), "human")
    make_dataset(db, "other", make_items(1), "human")
    assert [dataset.id for dataset in benchmark.current_datasets(db, "acme")] == [human.id, new.id]
    make_dataset(db, "acme", make_items(2), "synthetic")
    assert [dataset.id for dataset in benchmark.current_datasets(db, "acme")] == [human.id, old.id]
    assert len(benchmark.list_datasets(db, "acme")) == 3
    assert len(benchmark.list_datasets(db)) == 4


def test_what_any_version_of_a_dataset_has_or_had_is_used(db: Database) -> None:
    items = make_items(4)
    make_dataset(db, "acme", items[:2])
    make_dataset(db, "acme", items[1:3])
    make_dataset(db, "acme", items[3:], name="other")
    make_dataset(db, "beta", items[3:])
    assert benchmark.used_items(db, "acme", "human") == {item.item_id for item in items[:3]}
    assert benchmark.used_items(db, "acme", "none") == set()


def test_coverage_is_noted_without_the_dataset_counting_as_checked_again(db: Database) -> None:
    first = make_dataset(db, "acme", make_items(2))
    assert first.coverage == Coverage()
    benchmark.save_stats(db, first.id, {"flagged": {"a": ["b"]}}, Coverage(4, 2, 3, None))
    noted = benchmark.get_dataset(db, first.id)
    assert (noted.coverage, noted.flagged) == (Coverage(4, 2, 3, None), {"a": ["b"]})
    assert noted.checked_at == first.checked_at
    benchmark.save_stats(db, first.id, {})
    assert benchmark.get_dataset(db, first.id).coverage == Coverage(4, 2, 3, None)


def test_a_question_that_comes_twice_counts_once(db: Database) -> None:
    items = make_items(2)
    doubled = make_dataset(db, "acme", [*items, items[0]])
    assert doubled.qa_count == 2
    assert doubled.dataset_version == benchmark.dataset_version(items)


_ITEMS = st.lists(
    st.builds(
        Item,
        question=st.text(st.characters(exclude_categories=()), max_size=20),
        answers=st.lists(st.text(max_size=5), max_size=2).map(tuple),
        category=st.sampled_from(["factual_lookup", "temporal"]),
        answerable=st.booleans(),
    ),
    unique_by=lambda item: item.item_id,
    max_size=5,
)


@given(_ITEMS, st.randoms())
def test_the_version_does_not_depend_on_the_order(items: list[Item], random) -> None:
    shuffled = items[:]
    random.shuffle(shuffled)
    assert benchmark.dataset_version(shuffled) == benchmark.dataset_version(items)


@given(_ITEMS.filter(bool))
def test_the_version_depends_on_all_that_scoring_reads(items: list[Item]) -> None:
    version = benchmark.dataset_version(items)
    first = items[0]
    for changed in (
        replace(first, category="another"),
        replace(first, answerable=not first.answerable),
        replace(first, checks=({"name": "n", "kind": "fact", "expect": "x"},)),
        replace(first, evidence=(Evidence("another document"),)),
        replace(first, answers=(*first.answers, "one more")),
    ):
        assert benchmark.dataset_version([changed, *items[1:]]) != version
    assert benchmark.dataset_version([replace(first, origin="human", human_verified=True), *items[1:]]) == version
