"""What a corpus has to do with the datasets: how much of it they touch, and which questions lost their evidence."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rageval_dagster.benchmark.coverage import note_corpus
from rageval_dagster.benchmark.importing import import_dataset
from rageval_dagster.benchmark.renewal import renew_dataset
from rageval_dagster.corpus.store import open_store
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.records import Evidence, Item
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.benchmark import Coverage, clusters_of, current_datasets
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.views import read_view
from tests.benchmark.small_corpus import SPEC, SmallCorpus, asked, chunk

CHUNKS = [chunk(number) for number in range(18)]
THREE_TOPICS = [number % 3 for number in range(18)]


@pytest.fixture
def corpus(sqlite_db: Database, tmp_path: Path) -> SmallCorpus:
    made = SmallCorpus.in_folder(sqlite_db, tmp_path)
    made.hold(*CHUNKS, directions=THREE_TOPICS)
    return made


def note(corpus: SmallCorpus) -> None:
    note_corpus(corpus.db, corpus.store, "acme", current_datasets(corpus.db, "acme"))


def test_coverage_counts_the_documents_and_topics_that_questions_touch(corpus: SmallCorpus) -> None:
    corpus.imported([asked(CHUNKS[0]), asked(CHUNKS[3]), asked(CHUNKS[1]), Item("Who asks?")])
    corpus.generated([asked(CHUNKS[number]) for number in range(3)])
    note(corpus)
    assert corpus.dataset("own").coverage == Coverage(18, 3, 3, 2)
    assert corpus.dataset("synthetic").coverage == Coverage(18, 3, 3, 3)
    rows = {row["dataset_name"]: row for row in read_view(corpus.db, "dataset_overview")}
    names = ("documents", "documents_touched", "topics", "topics_touched")
    assert [rows["own"][name] for name in names] == [18, 3, 3, 2]
    assert corpus.dataset("own").coverage.metadata("own/") == {
        "own/documents": 18,
        "own/documents_touched": 3,
        "own/topics": 3,
        "own/topics_touched": 2,
        "own/document_coverage": pytest.approx(1 / 6),
        "own/topic_coverage": pytest.approx(2 / 3),
    }


def test_questions_about_one_part_of_a_long_document_hang_together(corpus: SmallCorpus) -> None:
    """As one cluster, a page that half of all questions are about could never show a difference."""
    long = [replace(each, document_id="manual.html", position=place) for place, each in enumerate(CHUNKS, start=45)]
    corpus.hold(*long)
    nowhere = Item("Who sailed?", ("Ann",), (Evidence("manual.html", None, "Ann sailed to the moon."),))
    items = [*map(asked, long), nowhere, Item("Who asks?")]
    dataset = corpus.imported(items)
    note(corpus)
    clusters = clusters_of(corpus.db, [dataset.id])
    first, second = ({clusters[asked(each).item_id] for each in part} for part in (long[:5], long[5:]))
    assert (len(first), len(second), len(first | second)) == (1, 1, 2)
    assert clusters[nowhere.item_id] in first, "where nothing is known of its place, as if the document were short"
    corpus.imported(items)  # once more
    assert clusters_of(corpus.db, [dataset.id]) == clusters


def test_an_imported_question_is_flagged_while_the_corpus_lacks_its_evidence(corpus: SmallCorpus) -> None:
    edited, deleted, kept = (asked(each) for each in CHUNKS[:3])
    broken = {kept.item_id: ["question_not_yes_no"], deleted.item_id: ["question_not_yes_no"]}
    before = corpus.imported([edited, deleted, kept], flagged=broken)
    spec = replace(SPEC, automatic=False)
    embedder = load_embedder(corpus.settings.embedding_model, corpus.settings)

    def stages() -> dict[str, list[str]]:
        renew_dataset(corpus.db, corpus.store, "acme", spec, embedder)
        return corpus.dataset("own").flagged

    assert stages() == broken
    corpus.hold(chunk(0, "The harbour 0 was closed."), *CHUNKS[2:])
    assert stages() == {
        edited.item_id: ["quote_not_found"],
        deleted.item_id: ["question_not_yes_no", "no_such_document"],
        kept.item_id: ["question_not_yes_no"],
    }
    assert corpus.dataset("own").coverage.documents_touched == 1
    corpus.hold(*CHUNKS)
    assert stages() == broken
    after = corpus.dataset("own")
    assert (after.id, after.dataset_version, after.checked_at) == (before.id, before.dataset_version, before.checked_at)


def test_what_is_imported_shows_its_coverage_at_once_where_the_documents_are_known(
    corpus: SmallCorpus, tmp_path: Path
) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(json.dumps(asked(CHUNKS[number]).to_dict()) for number in range(3)), encoding="utf-8")
    import_dataset(corpus.db, "acme", "own", path, "native", store=corpus.store)
    assert corpus.dataset("own").coverage == Coverage(18, 3, 3, 3)
    # Not where they changed since the last scan: the next one will tell.
    corpus.store.delete("acme", ["c0"])
    import_dataset(corpus.db, "acme", "later", path, "native", store=corpus.store)
    assert corpus.dataset("later").coverage == Coverage()
    assert corpus.dataset("later").flagged == {asked(CHUNKS[0]).item_id: ["no_such_document"]}


def test_what_no_renewal_cares_for_is_flagged_too(corpus: SmallCorpus) -> None:
    """As a dataset of another name than the one that runs renew; and one document that may be several."""
    gone = replace(asked(CHUNKS[0]), human_verified=True)
    unclear = Item("Where?", evidence=(Evidence("a/harbour.md"),))
    corpus.generated([gone, asked(CHUNKS[1])], flagged={asked(CHUNKS[1]).item_id: ["its quote is gone"]})
    quoteless = Item("Why?", evidence=(Evidence("4.md"), Evidence("5.md"), Evidence("nowhere.md")))
    corpus.imported([unclear, quoteless], flagged={unclear.item_id: ["ambiguous_document"]})
    corpus.hold(*CHUNKS[1:])
    note(corpus)
    assert corpus.dataset("synthetic").flagged == {gone.item_id: ["no_such_document"]}
    own = corpus.dataset("own")
    assert own.flagged == {unclear.item_id: ["ambiguous_document"], quoteless.item_id: ["no_such_document"]}
    assert own.coverage == Coverage(17, 2, 3, None), "without a quote no topic is known"


def test_where_nothing_changed_the_documents_are_not_looked_at(corpus: SmallCorpus, tmp_path: Path) -> None:
    corpus.imported([asked(CHUNKS[0]), asked(CHUNKS[6])])
    note(corpus)
    assert corpus.dataset("own").coverage == Coverage(18, 2, 3, 1)
    elsewhere = open_store(load_settings({"RAGEVAL_HOME": str(tmp_path / "none")}, env_file=tmp_path / "none.env"))
    note_corpus(corpus.db, elsewhere, "acme", current_datasets(corpus.db, "acme"))
    # New vectors of the same texts are about other topics.
    corpus.hold(*CHUNKS, directions=[number // 6 for number in range(18)])
    note(corpus)
    assert corpus.dataset("own").coverage == Coverage(18, 2, 3, 2)
