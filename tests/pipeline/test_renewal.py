"""When a generated dataset is renewed, and what becomes of questions whose quote goes and comes back."""

import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from rageval_dagster.benchmark.due import BenchmarkSpec, Renewal, renewal_due
from rageval_dagster.benchmark.generators import load_generator
from rageval_dagster.benchmark.importing import import_dataset
from rageval_dagster.benchmark.renewal import (
    StageReport,
    renew_candidates,
    renew_dataset,
    renew_sample,
    shortage,
)
from rageval_dagster.corpus.store import open_store
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.errors import DatasetError
from rageval_dagster.evaluation.changes import scan_client
from rageval_dagster.records import Item
from rageval_dagster.storage.benchmark import current_datasets, dataset_items, list_candidates
from rageval_dagster.storage.clients import get_client
from tests.pipeline.small_project import Project, documents


def spec_of(project: Project, **choices: object) -> BenchmarkSpec:
    return replace(BenchmarkSpec.from_settings(project.settings), **choices)  # pyright: ignore[reportArgumentType]


def renew(project: Project, spec: BenchmarkSpec, now: datetime | None = None) -> StageReport:
    """The corpus and benchmark stages of a run."""
    db, settings = project.database(), project.settings
    store = open_store(settings)
    scan_client(db, store, "acme", ["dense"])
    renew_sample(db, store, "acme", spec, now)
    renew_candidates(db, store, "acme", spec, load_generator(settings, db, "acme", spec.seed), now=now)
    return renew_dataset(db, store, "acme", spec, load_embedder(settings.embedding_model, settings), now=now)


def items_of(project: Project) -> dict[str, Item]:
    [dataset] = current_datasets(project.database(), "acme")
    return {item.item_id: item for item in dataset_items(project.database(), dataset.id)}


def test_documents_that_change_every_day_do_not_keep_a_dataset_young(loaded: Project) -> None:
    spec = spec_of(loaded)
    renew(loaded, spec)
    [drawn] = current_datasets(loaded.database(), "acme")
    # A new document: every quote still stands.
    loaded.ingest("acme", [*documents("lighthouse"), *documents("castle", count=1)])
    renew(loaded, spec)
    [kept] = current_datasets(loaded.database(), "acme")
    assert (kept.id, kept.checked_at) == (drawn.id, drawn.checked_at)
    # Two documents gone: their questions are replaced, the others stay.
    loaded.ingest("acme", [*documents("lighthouse")[2:], *documents("castle", count=3)])
    renew(loaded, spec)
    [replaced] = current_datasets(loaded.database(), "acme")
    assert replaced.id != drawn.id
    assert renewal_due(loaded.database(), "acme", spec) is None
    week_later = drawn.checked_at + timedelta(days=spec.max_age_days, microseconds=1)
    assert week_later < replaced.checked_at + timedelta(days=spec.max_age_days)
    due = renewal_due(loaded.database(), "acme", spec, week_later)
    assert due == Renewal("the dataset is older than 7 days", "rotate", 16)


def test_what_was_asked_for_by_hand_is_so_after_a_renewal_too(loaded: Project) -> None:
    db, spec = loaded.database(), spec_of(loaded, size=2, target=2)
    renew(loaded, replace(spec, size=4, exact=True))
    first = items_of(loaded)
    assert len(first) == 4
    for choices in ({}, {"always": True}):
        loaded.ingest("acme", [*documents("lighthouse"), *documents("castle", count=1 + len(choices))])
        renew(loaded, replace(spec, **choices))
        assert len(items_of(loaded)) == 4
    assert renewal_due(db, "acme", replace(spec, size=4, exact=True)) is None
    renew(loaded, replace(spec, exact=True))
    assert len(items_of(loaded)) == 2


def test_a_chunk_drawn_once_that_two_documents_hold_is_not_asked_about(loaded: Project) -> None:
    shared = "The night ferry leaves the harbour of Larvik at nine, and the crew checks every ticket on board."
    rows = [{"id": name, "text": shared} for name in ("tickets", "timetable")]
    loaded.ingest("acme", [*documents("lighthouse"), *rows])
    renew(loaded, spec_of(loaded, always=True))
    asked = {document for item in items_of(loaded).values() for document in item.document_ids}
    assert asked
    assert not asked & {"tickets", "timetable"}
    reasons = [candidate.reasons for candidate in list_candidates(loaded.database(), "acme")]
    assert reasons.count(("stands_elsewhere",)) == 1


def test_a_passage_is_asked_about_once_no_other_document_holds_its_sentences(loaded: Project) -> None:
    spec, rows = spec_of(loaded), documents("lighthouse")
    copies = [{**row, "id": f"copy of {row['id']}"} for row in rows]
    loaded.ingest("acme", [*rows, *copies])
    report = renew(loaded, spec)
    assert current_datasets(loaded.database(), "acme") == []
    none = "of 24 drafts none became a question (16 have only sentences that are in other documents, too; 8 have too"
    assert none in report.reason
    told = loaded.evaluate("acme", "night 1").message or ""
    assert none in told
    assert "import questions, or name a model that writes them" in told
    loaded.ingest("acme", rows)
    renew(loaded, spec)
    assert items_of(loaded)


def test_a_retired_question_is_asked_again_once_its_quote_is_back(loaded: Project) -> None:
    spec = spec_of(loaded, always=True)
    renew(loaded, spec)
    before = items_of(loaded)
    victim = min(item.evidence[0].document_id for item in before.values())
    loaded.ingest("acme", [row for row in documents("lighthouse") if row["id"] != victim])
    renew(loaded, spec)
    retired = {
        candidate.item.item_id
        for candidate in list_candidates(loaded.database(), "acme")
        if candidate.status == "retired" and candidate.item
    }
    assert retired == {id for id, item in before.items() if item.evidence[0].document_id == victim}
    loaded.ingest("acme", documents("lighthouse"))
    renew(loaded, spec)
    assert items_of(loaded) == before
    assert all(candidate.status != "retired" for candidate in list_candidates(loaded.database(), "acme"))


def test_a_size_that_was_asked_for_stays_until_another_is(loaded: Project) -> None:
    db = loaded.database()
    renew(loaded, spec_of(loaded))
    [first] = current_datasets(db, "acme")
    renew(loaded, spec_of(loaded, size=4, exact=True))
    [small] = current_datasets(db, "acme")
    assert (first.qa_count, small.qa_count) == (8, 4)
    renew(loaded, spec_of(loaded))
    [kept] = current_datasets(db, "acme")
    assert (kept.id, kept.checked_at) == (small.id, small.checked_at)
    # Nor does it grow with age.
    later = kept.renewed_at + timedelta(days=8)
    assert renewal_due(db, "acme", spec_of(loaded), later) == Renewal("the dataset is older than 7 days", "rotate", 4)
    renew(loaded, spec_of(loaded, size=8, exact=True))
    [again] = current_datasets(db, "acme")
    assert again.id == first.id
    # As many as there were by themselves are asked for, too.
    assert renewal_due(db, "acme", spec_of(loaded, size=20)) is None


def test_a_named_dataset_is_the_client_s_recent_one(loaded: Project) -> None:
    """Seed 004's own request names one: no second one is drawn beside it, and it lives as any other does."""
    db = loaded.database()
    renew(loaded, spec_of(loaded, name="my-test-dataset", size=4, exact=True, every=False, always=True))
    renew(loaded, spec_of(loaded))
    [dataset] = current_datasets(db, "acme")
    assert (dataset.name, dataset.qa_count) == ("my-test-dataset", 4)
    # A question whose quote goes is replaced.
    [gone, *_] = items_of(loaded).values()
    loaded.ingest("acme", [row for row in documents("lighthouse") if row["id"] not in gone.document_ids])
    renew(loaded, spec_of(loaded))
    [repaired] = current_datasets(db, "acme")
    assert (repaired.name, repaired.qa_count) == ("my-test-dataset", 4)
    assert gone.item_id not in items_of(loaded)
    report = renew(loaded, spec_of(loaded), repaired.renewed_at + timedelta(days=8))
    assert report.reason == "the dataset is older than 7 days"


def test_each_of_several_generated_datasets_is_renewed(loaded: Project) -> None:
    db = loaded.database()
    for name, size in (("small", 3), ("large", 5)):
        renew(loaded, spec_of(loaded, name=name, size=size, exact=True, every=False, always=True))
    loaded.ingest("acme", documents("lighthouse")[3:])
    report = renew(loaded, spec_of(loaded))
    assert report.reason == "large: the documents changed; small: the documents changed"
    for dataset in current_datasets(db, "acme"):
        assert dataset.stats["corpus_version"] == get_client(db, "acme").corpus_version
        assert not dataset.flagged
        assert dataset.qa_count == {"small": 3, "large": 5}[dataset.name]
    # A size without a name may be meant for either.
    with pytest.raises(DatasetError, match=r"several generated datasets .large, small.*--name DATASET"):
        renew(loaded, spec_of(loaded, size=5, exact=True))


def test_a_dataset_that_lacks_questions_grows_when_documents_are_added(loaded: Project) -> None:
    spec = spec_of(loaded, size=40)
    renew(loaded, spec)
    [short] = current_datasets(loaded.database(), "acme")
    said = shortage(loaded.database(), short) or ""
    assert f"gave {short.qa_count} of the 40 questions wanted" in said
    assert "every passage was tried: add documents" in said
    before = items_of(loaded)
    added = [*documents("lighthouse"), *documents("castle")]
    # What stands "below" something may be told below.
    loaded.ingest("acme", [{**each, "text": each["text"].replace(" below ", " under ")} for each in added])
    renew(loaded, spec)
    assert before.keys() < items_of(loaded).keys()


def test_generated_and_imported_datasets_do_not_take_each_others_names(loaded: Project) -> None:
    path = loaded.folder / "human.jsonl"
    path.write_text(json.dumps(Item("Who keeps the lighthouse of Avonlea?").to_dict()), encoding="utf-8")
    with pytest.raises(DatasetError, match="'synthetic' is the name of client 'acme'"):
        import_dataset(loaded.database(), "acme", "synthetic", path, "native")
    import_dataset(loaded.database(), "acme", "human", path, "native")
    with pytest.raises(DatasetError, match="'human' is the name of an imported dataset"):
        renew(loaded, spec_of(loaded, name="human", every=False, always=True))
