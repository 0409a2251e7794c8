"""A generated dataset over the weeks: what is renewed for its age, while the documents drift."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from rageval_dagster.benchmark.due import BenchmarkSpec
from rageval_dagster.benchmark.renewal import StageReport
from rageval_dagster.records import Item
from rageval_dagster.storage.benchmark import Dataset, current_datasets, list_candidates, save_dataset
from tests.pipeline.small_project import PLACES, Project, documents
from tests.pipeline.test_renewal import items_of, renew

pytestmark = pytest.mark.slow

TOPICS = ("lighthouse", "castle", "harbour", "windmill", "museum", "theatre", "library", "station", "market", "abbey")


@dataclass
class Weeks:
    """A project whose clock a test moves on."""

    project: Project
    spec: BenchmarkSpec
    rows: dict[str, dict[str, str]]
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def pass_by(self, days: float) -> None:
        self.now += timedelta(days=days)

    def ingest(self) -> None:
        self.project.ingest("acme", list(self.rows.values()))

    def run(self) -> StageReport:
        return renew(self.project, self.spec, self.now)

    @property
    def dataset(self) -> Dataset:
        [dataset] = current_datasets(self.project.database(), "acme")
        return dataset

    def items(self) -> dict[str, Item]:
        return items_of(self.project)


def of_its_own(topic: str) -> list[dict[str, str]]:
    """The documents of a topic with names that stand in no other topic's, and what each defines: two questions each."""
    rows = []
    for row, place in zip(documents(topic), PLACES, strict=True):
        name = f"{place[:4]}{topic}"
        own = {part: row[part].replace(place, name) for part in ("title", "text")}
        defined = f"{name.lower()}_key\n\nOpens the northern gate of {name} at night for its keeper and nobody else."
        rows.append({**row, **own, "text": f"{own['text']}\n\n{defined}"})
    return rows


def weeks(project: Project, topics: tuple[str, ...], size: int, target: int) -> Weeks:
    spec = replace(BenchmarkSpec.from_settings(project.settings), size=size, target=target)
    rows = {row["id"]: row for topic in topics for row in of_its_own(topic)}
    made = Weeks(project, spec, rows)
    made.ingest()
    return made


def drift(made: Weeks, week: int) -> None:
    """A document goes, one comes, and two are written anew, so that a few quotes go and most stand."""
    ids = sorted(made.rows)
    del made.rows[ids[week]]
    for changed in (ids[week + 9], ids[week + 18]):
        text = made.rows[changed]["text"].replace("towers stand", "spires rise")
        made.rows[changed] = {**made.rows[changed], "text": f"{text} It was painted last year."}
    new = of_its_own(TOPICS[4 + week % 2])[week % 8]
    made.rows[new["id"]] = new
    made.ingest()


@pytest.mark.timeout(900)
def test_eight_weekly_renewals_of_a_drifting_corpus_keep_four_fifths_each(project: Project) -> None:
    made = weeks(project, TOPICS, size=15, target=40)
    made.run()
    since_the_first, sizes, retired = set(made.items()), [len(made.items())], 0
    for week in range(8):
        drift(made, week)
        before = made.items()
        made.pass_by(7.5)
        report = made.run()
        after = made.items()
        assert report.reason == "the dataset is older than 7 days"
        # The rules refuse so much of so small a corpus that it may give fewer new questions than there is room for.
        assert report.counts["stayed"] == len(before.keys() & after.keys()) >= len(before) - len(before) // 5
        assert made.dataset.valid
        retired += report.counts["retired"]
        since_the_first &= after.keys()
        sizes.append(len(after))
    # A new document may hold fewer names of its own than there is room for.
    assert sizes[:2] == [15, 30]
    assert 36 <= min(sizes[2:]) <= max(sizes[2:]) <= 40
    assert retired > 0
    assert since_the_first, "the first thirty go with their documents only"
    # In the middle of the week only what lost its quote is replaced, and nothing is due after that.
    before = made.items()
    for week in range(8, 14):
        drift(made, week)
    made.pass_by(3.5)
    repaired = made.run()
    assert 0 < repaired.counts["retired"] == len(before.keys() - made.items().keys())
    assert 36 <= len(made.items()) <= 40
    assert made.run().reason == f"dataset {made.dataset.id} is recent: kept"
    coverage = made.dataset.coverage
    assert coverage.documents == len(made.rows)
    assert 0.9 * len(made.items()) <= (coverage.documents_touched or 0) <= len(made.rows)


def test_without_anything_new_to_ask_a_dataset_keeps_its_size_and_what_a_person_verified(project: Project) -> None:
    made = weeks(project, TOPICS[:1], size=10, target=100)
    made.run()
    verified = replace(next(iter(made.items().values())), human_verified=True)
    others = [item for item in made.items().values() if item.item_id != verified.item_id]
    dataset = made.dataset
    db = project.database()
    save_dataset(db, "acme", "synthetic", "generated", [verified, *others], "", None, True, {}, dataset.stats)
    made.pass_by(8)
    made.run()
    # All that can be asked is asked: from now on every question stays.
    everything = made.items()
    assert len(everything) > 10
    assert everything[verified.item_id] == verified
    made.pass_by(8)
    report = made.run()
    assert report.reason == "the dataset is older than 7 days"
    assert (made.items(), report.counts["new"], report.counts["made_room"]) == (everything, 0, 0)
    # The document of the verified question goes, with its others: it stays all the same, until they are back.
    [document] = verified.document_ids
    row = made.rows.pop(document)
    made.ingest()
    made.pass_by(1)
    made.run()
    assert made.dataset.flagged == {verified.item_id: ["no_such_document"]}
    assert len(made.items()) < len(everything)
    reasons = {each.reasons for each in list_candidates(db, "acme") if each.status == "retired"}
    assert reasons == {("its quote is gone from its document",)}
    made.rows[document] = row
    made.ingest()
    made.pass_by(1)
    made.run()
    assert made.dataset.flagged == {}
    made.pass_by(8)
    made.run()
    assert made.items() == everything
