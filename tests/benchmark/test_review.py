"""Reviewing generated questions in a spreadsheet, and what later renewals make of what was decided."""

import csv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rageval_dagster.benchmark.due import BenchmarkSpec
from rageval_dagster.benchmark.generators import load_generator
from rageval_dagster.benchmark.renewal import renew_candidates, renew_dataset, renew_sample
from rageval_dagster.benchmark.review import COLUMNS, ReviewReport, read_review, write_review
from rageval_dagster.benchmark.validation import validate
from rageval_dagster.corpus.store import ChromaStore, open_store
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.errors import DatasetError
from rageval_dagster.evaluation.changes import scan_client
from rageval_dagster.identity import digest
from rageval_dagster.records import Candidate, Evidence, Item
from rageval_dagster.storage.benchmark import (
    Dataset,
    Sample,
    current_datasets,
    dataset_items,
    list_candidates,
    save_candidates,
    save_dataset,
    save_sample,
)
from rageval_dagster.storage.database import Database
from tests.benchmark.small_corpus import SmallCorpus, asked, chunk
from tests.pipeline.small_project import Project, documents

Row = dict[str, str]


def renew(project: Project, **choices: object) -> None:
    """The corpus and benchmark stages of a run."""
    db, settings = project.database(), project.settings
    store = open_store(settings)
    spec = replace(BenchmarkSpec.from_settings(settings), **choices)  # pyright: ignore[reportArgumentType]
    scan_client(db, store, "acme", ["dense"])
    renew_sample(db, store, "acme", spec)
    renew_candidates(db, store, "acme", spec, load_generator(settings, db, "acme", spec.seed))
    renew_dataset(db, store, "acme", spec, load_embedder(settings.embedding_model, settings))


def current(db: Database) -> tuple[Dataset, dict[str, Item]]:
    [dataset] = current_datasets(db, "acme")
    return dataset, {item.item_id: item for item in dataset_items(db, dataset.id)}


def written(db: Database, folder: Path) -> list[Row]:
    path = folder / "review.csv"
    write_review(db, "acme", path, force=True)
    with path.open(encoding="utf-8-sig", newline="") as file:
        # An id such as 24059894e2399903 is marked as text, lest a spreadsheet takes it for a number.
        return [{**row, "item_id": row["item_id"].lstrip("'")} for row in csv.DictReader(file)]


def take_over(db: Database, store: ChromaStore, folder: Path, rows: list[Row]) -> ReviewReport:
    """Reads the rows back as a spreadsheet of another country saves them."""
    path = folder / "reviewed.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(COLUMNS)
        writer.writerows([row[column] for column in COLUMNS] for row in rows)
    return read_review(db, store, "acme", path)


def test_what_was_decided_survives_every_renewal(loaded: Project) -> None:
    renew(loaded)
    before, items = current(loaded.database())
    rows = written(loaded.database(), loaded.folder)
    assert {row["item_id"] for row in rows if row["status"] == "accepted"} == items.keys()
    assert {row["decision"] for row in rows} == {""}
    accepted, edited, rejected, left = rows[:4]
    accepted["decision"] = "accept"
    rejected["decision"] = " Reject "
    edited.update(decision="edit", question="=Who was the engineer behind it?", answer="-ignore me", category="own")
    report = take_over(loaded.database(), open_store(loaded.settings), loaded.folder, rows)
    assert report.refused == []
    assert report.decided == {"accept": 1, "edit": 1, "reject": 1}
    assert report.unreviewed == len(rows) - 3

    reviewed, after = current(loaded.database())
    assert (reviewed.id, reviewed.name) == (report.dataset.id, before.name)
    assert reviewed.id != before.id
    assert after[accepted["item_id"]] == replace(items[accepted["item_id"]], human_verified=True)
    [own] = [item for item in after.values() if item.origin == "human"]
    assert own == replace(
        items[edited["item_id"]],
        question="=Who was the engineer behind it?",
        answers=("-ignore me",),
        category="own",
        origin="human",
        human_verified=True,
    )
    assert after[left["item_id"]] == items[left["item_id"]]
    assert rejected["item_id"] not in after
    assert list(after)[1] == own.item_id
    assert [row["status"] for row in written(loaded.database(), loaded.folder)[:2]] == ["reviewed", "reviewed"]

    verified = {accepted["item_id"], own.item_id}
    never_again = {edited["item_id"], rejected["item_id"]}
    for choices in ({"always": True}, {"size": 1, "exact": True}, {"strategy": "diverse", "size": 8, "exact": True}):
        renew(loaded, **choices)
        dataset, drawn = current(loaded.database())
        assert verified <= drawn.keys()
        assert not never_again & drawn.keys()
        assert len(drawn) <= max(choices.get("size", 8), 2)
        assert all(drawn[item_id].human_verified for item_id in verified)
        assert dataset.valid
    reasons = {
        candidate.item.item_id: (candidate.status, candidate.reasons)
        for candidate in list_candidates(loaded.database(), "acme")
        if candidate.item
    }
    assert reasons[edited["item_id"]] == ("rejected", ("edited_by_reviewer",))
    assert reasons[rejected["item_id"]] == ("rejected", ("rejected_by_reviewer",))


def test_a_verified_question_whose_quote_is_gone_is_flagged_and_stays(loaded: Project) -> None:
    renew(loaded)
    rows = written(loaded.database(), loaded.folder)
    rows[0]["decision"] = "accept"
    take_over(loaded.database(), open_store(loaded.settings), loaded.folder, rows)
    _, items = current(loaded.database())
    victim = items[rows[0]["item_id"]]
    others = [row for row in documents("lighthouse") if row["id"] not in victim.document_ids]
    loaded.ingest("acme", others)
    renew(loaded)
    dataset, after = current(loaded.database())
    assert after[victim.item_id] == victim
    assert list(dataset.stats["flagged"]) == [victim.item_id]
    renew(loaded, always=True)
    dataset, after = current(loaded.database())
    assert victim.item_id in after
    assert list(dataset.stats["flagged"]) == [victim.item_id]
    loaded.ingest("acme", documents("lighthouse"))
    renew(loaded)
    dataset, after = current(loaded.database())
    assert after[victim.item_id] == victim
    assert dataset.stats["flagged"] == {}


@dataclass
class Benchmark:
    """A generated dataset of eight questions, and a ninth that the rules kept out; made without a generator."""

    db: Database
    store: ChromaStore
    folder: Path
    items: dict[str, Item]
    kept_out: Item

    def written(self) -> list[Row]:
        return written(self.db, self.folder)

    def take_over(self, *rows: Row) -> ReviewReport:
        return take_over(self.db, self.store, self.folder, list(rows))

    def now(self) -> dict[str, Item]:
        return current(self.db)[1]


@pytest.fixture
def benchmark(sqlite_db: Database, tmp_path: Path) -> Benchmark:
    chunks = [chunk(number) for number in range(9)]
    corpus = SmallCorpus.in_folder(sqlite_db, tmp_path)
    corpus.hold(*chunks)
    candidates = [
        Candidate(chunk.content_key, "rules 1", 0, "accepted", replace(asked(chunk), origin="extractive"))
        for chunk in chunks
    ]
    candidates[-1] = replace(candidates[-1], status="rejected", reasons=("no_noise (licence)",))
    save_candidates(sqlite_db, "acme", candidates)
    keys = tuple(digest(chunk.id) for chunk in chunks)
    save_sample(sqlite_db, Sample("s1", "acme", "corpus", "random", 0, 8, keys))
    *items, kept_out = [candidate.item for candidate in candidates if candidate.item]
    generated(sqlite_db, "synthetic", items)
    return Benchmark(sqlite_db, corpus.store, tmp_path, {item.item_id: item for item in items}, kept_out)


def generated(db: Database, name: str, items: list[Item], kind: Any = "generated") -> Dataset:
    stats = {"generator": "rules 1", "sample_size": 8, "sample_id": "s1", "flagged": {}}
    return save_dataset(db, "acme", name, kind, items, "rules 1", "corpus", True, {}, stats)


def test_accepting_alone_keeps_the_dataset_and_its_version(benchmark: Benchmark) -> None:
    """Nothing changed that is scored: the history goes on."""
    before, _ = current(benchmark.db)
    rows = benchmark.written()
    assert [(row["status"], row["reasons"]) for row in rows] == [("accepted", "")] * 8 + [
        (
            "rejected",
            "no_noise (licence): Question, answer and source are text: no boilerplate, licence, table of contents or "
            "extraction noise.",
        )
    ]
    report = benchmark.take_over(*(row | {"decision": "accept"} for row in rows[:8]))
    after, verified = current(benchmark.db)
    assert (after.id, after.dataset_version) == (before.id, before.dataset_version)
    assert verified == {item_id: replace(item, human_verified=True) for item_id, item in benchmark.items.items()}
    assert report.decided["accept"] == 8
    assert benchmark.take_over(*benchmark.written()).decided == {"accept": 0, "edit": 0, "reject": 0}
    # What the rules rejected is another matter: it is let in.
    benchmark.take_over(rows[8] | {"decision": "accept"})
    assert list(benchmark.now().values()) == [*verified.values(), replace(benchmark.kept_out, human_verified=True)]
    assert current(benchmark.db)[0].valid


def test_rows_that_cannot_be_taken_over_are_named_and_the_rest_is(benchmark: Benchmark) -> None:
    first, *others = written_rows = benchmark.written()
    unknown = {"item_id": "0" * 16}
    report = benchmark.take_over(
        first | {"question": "Changed without a decision?"},
        others[0] | {"decision": "accept", "answer": "changed"},
        others[1] | {"decision": "edit"},
        others[2] | {"decision": "edit", "quote": "nobody says so"},
        others[3] | {"decision": "edit", "document_id": "no-such-document", "quote": ""},
        others[4] | {"decision": "edit", "question": " "},
        others[5] | {"decision": "perhaps"},
        others[6] | {"decision": "edit", "answerable": "yes"},
        first | unknown | {"decision": "accept"},
        first | unknown,
        first | {"decision": "accept"},
        first | {"decision": "reject"},
    )
    assert [(refusal.row, refusal.field) for refusal in report.refused] == [
        (2, "question"),
        (3, "answer"),
        (4, "decision"),
        (5, "quote"),
        (6, "document_id"),
        (7, "question"),
        (8, "decision"),
        (9, "answerable"),
        (10, "item_id"),
        (13, "item_id"),
    ]
    assert "the decision is empty: say edit" in report.refused[0].reason
    assert "the decision is accept: say edit" in report.refused[1].reason
    assert (report.decided["accept"], report.unreviewed) == (1, 1)
    assert benchmark.now().keys() == benchmark.items.keys()
    assert [item_id for item_id, item in benchmark.now().items() if item.human_verified] == [written_rows[0]["item_id"]]


def test_questions_that_a_person_judged_are_not_asked_again(benchmark: Benchmark) -> None:
    """Nor in other capitals, by another generator, of another chunk."""
    candidates = [
        replace(each, generator="rules 2", status="new", item=each.item and replace(each.item, category="temporal"))
        for each in list_candidates(benchmark.db, "acme")
    ]
    verified, refused, *_ = benchmark.items.values()
    shouted = replace(refused, question=refused.question.upper(), answers=("another",))
    texts = {each.chunk_key: each.item.evidence[0].quote or "" for each in candidates if each.item}
    report = validate(candidates, texts, verified=[verified], refused=[shouted])
    assert report.items[0] is verified
    assert [item.question for item in report.items].count(verified.question) == 1
    assert refused.question not in [item.question for item in report.items]
    repeated = {each.item.question: each.reasons for each in report.rejected if each.item}
    assert repeated[verified.question] == (f"question_unique (repeats {verified.item_id})",)
    assert repeated[refused.question] == (f"question_unique (repeats {shouted.item_id})",)


def test_all_of_a_dataset_can_be_rejected(benchmark: Benchmark) -> None:
    benchmark.take_over(*(row | {"decision": "reject", "question": "whatever"} for row in benchmark.written()))
    dataset, items = current(benchmark.db)
    assert items == {}
    assert not dataset.valid
    assert {candidate.reasons for candidate in list_candidates(benchmark.db, "acme")} == {("rejected_by_reviewer",)}


def test_an_edited_row_can_be_taken_over_twice_and_become_what_another_is(benchmark: Benchmark) -> None:
    first, second, *_ = benchmark.written()
    same = {name: second[name] for name in ("question", "answer", "document_id", "quote", "category")}
    for _ in range(2):
        assert benchmark.take_over(first | same | {"decision": "edit"}).refused == []
        assert benchmark.now().keys() == benchmark.items.keys() - {first["item_id"]}
        assert benchmark.now()[second["item_id"]].human_verified


def test_several_answers_and_pieces_of_evidence(benchmark: Benchmark) -> None:
    first, second, *_ = benchmark.written()
    both = f'["{first["document_id"]}", "{second["document_id"]}"]'
    changes = {"decision": "edit", "answer": '["one", "[two]"]', "document_id": both, "quote": ""}
    assert benchmark.take_over(first | changes).refused == []
    [edited] = [item for item in benchmark.now().values() if item.origin == "human"]
    assert edited.answers == ("one", "[two]")
    assert edited.evidence == (Evidence(first["document_id"]), Evidence(second["document_id"]))
    [row] = [row for row in benchmark.written() if row["item_id"] == edited.item_id]
    assert benchmark.take_over(row | {"decision": "accept"}).decided["accept"] == 1
    for name, cell in [("answer", "[one"), ("answer", "[1]"), ("quote", '["just one", "two", "three"]')]:
        report = benchmark.take_over(row | {"decision": "edit", name: cell})
        assert [refusal.field for refusal in report.refused] == [name]


def test_a_spreadsheets_own_line_breaks_and_capitals_are_no_changes(benchmark: Benchmark) -> None:
    [first, *others] = benchmark.items.values()
    multiline = replace(first, question="When was it opened?\r\nI mean the harbour.", answerable=False)
    generated(benchmark.db, "synthetic", [multiline, *others])
    row = benchmark.written()[0]
    assert row["question"] == multiline.question
    saved = row | {"question": multiline.question.replace("\r\n", "\n"), "answerable": "FALSE", "decision": "accept"}
    assert benchmark.take_over(saved).refused == []
    assert benchmark.now()[multiline.item_id].human_verified


def test_what_cannot_be_reviewed_is_one_clear_line(benchmark: Benchmark) -> None:
    items = list(benchmark.items.values())
    generated(benchmark.db, "human", items, kind="imported")
    generated(benchmark.db, "second", items)
    path = benchmark.folder / "review.csv"
    for client, place, dataset, words in (
        ("nobody", path, None, "'nobody' has no generated dataset to review"),
        ("nobody", path, 1, "dataset 1 is not a generated dataset of client 'nobody'"),
        ("acme", path, 99, "there is no dataset 99"),
        ("acme", path, 2, "dataset 2 is not a generated dataset of client 'acme'"),
        ("acme", path / "no" / "folder.csv", 1, "is not a folder"),
        ("acme", path.parent, 1, "is a folder"),
        ("acme", path, None, "has several generated datasets: name one with --dataset"),
    ):
        with pytest.raises(DatasetError, match=words):
            write_review(benchmark.db, client, place, dataset)
    with pytest.raises(DatasetError, match="cannot be read"):
        read_review(benchmark.db, benchmark.store, "acme", path, 1)


def test_a_review_in_progress_is_not_overwritten_and_only_a_review_is_read(benchmark: Benchmark) -> None:
    path = benchmark.folder / "review.csv"
    assert write_review(benchmark.db, "acme", path) == 9
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(DatasetError, match=r"review.csv is there already: --force replaces it"):
        write_review(benchmark.db, "acme", path)
    path.write_text("item_id,question\n1,Who?\n", encoding="utf-8")
    with pytest.raises(
        DatasetError, match="none of the 2 columns of its first row is 'decision': write the file to review"
    ):
        read_review(benchmark.db, benchmark.store, "acme", path)
    assert [file.name for file in benchmark.folder.iterdir() if file.name.startswith(".rageval")] == []
