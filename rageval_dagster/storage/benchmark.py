"""Samples of chunks, generated candidates, and frozen datasets with their items."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from rageval_dagster.errors import DatasetError, TextsDeletedError
from rageval_dagster.identity import digest, digest_json
from rageval_dagster.records import Candidate, Item
from rageval_dagster.storage import tables
from rageval_dagster.storage.clients import check_name
from rageval_dagster.storage.database import Database, in_batches, retried, same, upsert
from rageval_dagster.storage.tables import (
    NAME_LENGTH,
    benchmark_items,
    chunk_samples,
    evaluation_datasets,
    qa_candidates,
)
from rageval_dagster.storage.types import utc_now

DatasetKind = Literal["generated", "imported"]


@dataclass(frozen=True)
class Sample:
    """The chunks drawn from one version of a client's corpus, in the order drawn."""

    sample_id: str
    client_id: str
    corpus_version: str
    strategy: str
    seed: int
    size: int
    chunk_keys: tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """How much of a corpus a dataset touches: of its documents, and of the topics that they are about.

    None where that is not known; `topics_touched` also where no question quotes anything.
    """

    documents: int | None = None
    documents_touched: int | None = None
    topics: int | None = None
    topics_touched: int | None = None

    def metadata(self, prefix: str = "") -> dict[str, int | float]:
        """What is known, and the shares (0 to 1) that are touched."""
        known = {name: count for name, count in asdict(self).items() if count is not None}
        shares = {
            f"{name}_coverage": known[f"{name}s_touched"] / known[f"{name}s"]
            for name in ("document", "topic")
            if known.get(f"{name}s") and f"{name}s_touched" in known
        }
        return {f"{prefix}{name}": value for name, value in (known | shares).items()}


@dataclass(frozen=True)
class Dataset:
    """A frozen dataset without its items.

    `rule_failures` counts the offending items by quality rule; `valid` is False where a blocking rule failed. The four
    fields before the last are its `coverage`; `retired_at` is since when it is not evaluated any more.
    """

    id: int
    name: str
    client_id: str
    kind: DatasetKind
    dataset_version: str
    qa_count: int
    created_at: datetime
    created_by: str
    corpus_version: str | None
    valid: bool
    rule_failures: dict[str, int]
    checked_at: datetime
    stats: dict[str, Any]
    documents: int | None = None
    documents_touched: int | None = None
    topics: int | None = None
    topics_touched: int | None = None
    retired_at: datetime | None = None

    @property
    def coverage(self) -> Coverage:
        return Coverage(self.documents, self.documents_touched, self.topics, self.topics_touched)

    @property
    def flagged(self) -> dict[str, list[str]]:
        """Why a person should look at an item, by item id: rules that it breaks, or what the corpus lacks of it."""
        return self.stats.get("flagged", {})

    @property
    def renewed_at(self) -> datetime:
        """When a generated one was drawn, or last renewed for its age; to repair it does not make it younger."""
        noted = self.stats.get("renewed_at")
        return self.created_at if noted is None else datetime.fromisoformat(noted)


_SAMPLE_COLUMNS = [chunk_samples.c[name] for name in Sample.__dataclass_fields__]
_DATASET_COLUMNS = [evaluation_datasets.c[name] for name in Dataset.__dataclass_fields__]
_CANDIDATE_COLUMNS = [
    qa_candidates.c[name] for name in ("chunk_key", "generator", "attempt", "status", "item", "reasons", "difficulty")
]


def save_sample(db: Database, sample: Sample) -> None:
    """Stores a sample, in place of the one of its id."""
    row = {**asdict(sample), "chunk_keys": list(sample.chunk_keys), "drawn_at": utc_now()}
    db.upsert(chunk_samples, [row], update=["chunk_keys", "drawn_at"])


def get_sample(db: Database, client_id: str, sample_id: str) -> Sample | None:
    """A sample of the client, None where there is none of this id (any more)."""
    is_this = sa.and_(chunk_samples.c.client_id == client_id, chunk_samples.c.sample_id == sample_id)
    for row in db.rows(sa.select(*_SAMPLE_COLUMNS).where(is_this)):
        return Sample(**{**row._mapping, "chunk_keys": tuple(row.chunk_keys)})
    return None


def save_candidates(db: Database, client_id: str, candidates: Sequence[Candidate]) -> None:
    """Stores candidates by their id; of one that is there, status, reasons and difficulty change.

    An item once stored stays; a candidate that failed before may get its item now, and is then as new.
    """
    now = utc_now()
    rows = [
        {
            "client_id": client_id,
            "candidate_id": candidate.candidate_id,
            "chunk_key": candidate.chunk_key,
            "generator": candidate.generator,
            "attempt": candidate.attempt,
            "status": candidate.status,
            "item_id": None if candidate.item is None else candidate.item.item_id,
            "item": None if candidate.item is None else candidate.item.to_dict(),
            "reasons": list(candidate.reasons),
            "difficulty": candidate.difficulty,
            "created_at": now,
        }
        for candidate in candidates
    ]

    def changes(proposed: Any) -> Mapping[str, Any]:
        kept = qa_candidates.c
        return {
            # Before the item is set: a MySQL server reads what it set before.
            "created_at": sa.case((kept.item.is_(None), proposed.created_at), else_=kept.created_at),
            "status": proposed.status,
            "reasons": proposed.reasons,
            "difficulty": proposed.difficulty,
            "item_id": sa.func.coalesce(qa_candidates.c.item_id, proposed.item_id),
            "item": sa.func.coalesce(qa_candidates.c.item, proposed.item),
        }

    db.upsert(qa_candidates, rows, update=changes)


def failed_before(db: Database, client_id: str, generator: str, moment: datetime, reason: str) -> set[str]:
    """The chunk keys of a generator's candidates that failed for this reason before a moment, and not again since."""
    columns = qa_candidates.c
    query = sa.select(columns.chunk_key, columns.reasons).where(
        columns.client_id == client_id,
        columns.generator == generator,
        columns.status == "failed",
        columns.created_at < moment,
    )
    return {row.chunk_key for row in db.rows(query) if reason in row.reasons}


def list_candidates(
    db: Database, client_id: str, chunk_keys: Iterable[str] | None = None, generator: str | None = None
) -> list[Candidate]:
    """A client's candidates, of these chunks and this generator where given, by chunk key, generator and attempt."""
    query = sa.select(*_CANDIDATE_COLUMNS).where(qa_candidates.c.client_id == client_id)
    if generator is not None:
        query = query.where(qa_candidates.c.generator == generator)
    rows = db.rows(query) if chunk_keys is None else db.rows_in(query, qa_candidates.c.chunk_key, chunk_keys)
    candidates = [
        Candidate(**{**row._mapping, "item": row.item and Item.from_dict(row.item), "reasons": tuple(row.reasons)})
        for row in rows
    ]
    return sorted(candidates, key=lambda candidate: (candidate.chunk_key, candidate.generator, candidate.attempt))


def dataset_version(items: Iterable[Item]) -> str:
    """64 hex digits over the items and all that scoring reads of them, whatever their order.

    Of items with the same id only the first counts, as in `save_dataset`.
    """
    return digest_json(
        sorted(
            digest_json(
                {
                    "item_id": item.item_id,
                    "answers": list(item.answers),
                    "evidence": [asdict(evidence) for evidence in item.evidence],
                    "checks": [dict(check) for check in item.checks],
                    "category": item.category,
                    "answerable": item.answerable,
                }
            )
            for item in _distinct(items)
        )
    )


@retried
def save_dataset(
    db: Database,
    client_id: str,
    name: str,
    kind: DatasetKind,
    items: Sequence[Item],
    created_by: str,
    corpus_version: str | None,
    valid: bool,
    rule_failures: Mapping[str, int],
    stats: Mapping[str, Any],
) -> Dataset:
    """Freezes a dataset; of items with the same id the first is kept.

    One with the same client, name and version is returned as it is, but for its verdict (`valid`, `rule_failures`,
    `stats`), `checked_at`, and what scoring does not read of its items (origin, human-verified), which are renewed; if
    it was retired, it counts again.

    Raises:
        RagevalError: the name is too long, or has a space at an end or a control character.
    """
    check_name("dataset name", name, NAME_LENGTH)
    distinct = _distinct(items)
    version = dataset_version(distinct)
    now = utc_now()
    verdict = {
        "valid": valid,
        "rule_failures": dict(rule_failures),
        "stats": dict(stats),
        "checked_at": now,
        "retired_at": None,
    }
    is_this = sa.and_(
        evaluation_datasets.c.client_id == client_id,
        evaluation_datasets.c.name == name,
        evaluation_datasets.c.dataset_version == version,
    )
    contents = [item.to_dict() for item in distinct]
    hashes = [digest_json(content) for content in contents]
    with db.begin() as connection:
        if not connection.execute(sa.update(evaluation_datasets).where(is_this).values(**verdict)).rowcount:
            row = {
                "client_id": client_id,
                "name": name,
                "kind": kind,
                "dataset_version": version,
                "qa_count": len(distinct),
                "created_at": now,
                "created_by": created_by,
                "corpus_version": corpus_version,
                **verdict,
            }
            upsert(connection, evaluation_datasets, [row], key=["client_id", "name", "dataset_version"])
        saved = Dataset(**connection.execute(sa.select(*_DATASET_COLUMNS).where(is_this)).one()._mapping)
        upsert(
            connection,
            benchmark_items,
            [
                {"client_id": client_id, "item_hash": item_hash, "item_id": item.item_id, "item": content}
                for item_hash, item, content in zip(hashes, distinct, contents, strict=True)
            ],
        )
        upsert(
            connection,
            tables.dataset_items,
            [
                {
                    "dataset_id": saved.id,
                    "client_id": client_id,
                    "item_id": item.item_id,
                    "item_hash": item_hash,
                    "category": item.category,
                    "grading_key": item.grading_key,
                    "cluster_key": digest(item.cluster()),
                    "position": position,
                }
                for position, (item, item_hash) in enumerate(zip(distinct, hashes, strict=True))
            ],
            update=["item_hash", "category", "grading_key"],
        )
    return saved


def save_stats(db: Database, dataset_id: int, stats: Mapping[str, Any], coverage: Coverage | None = None) -> None:
    """Notes new figures about a dataset, and its coverage where given; when it was checked stays as it was."""
    values = {"stats": dict(stats), **({} if coverage is None else asdict(coverage))}
    db.execute(sa.update(evaluation_datasets).where(evaluation_datasets.c.id == dataset_id).values(**values))


def note_clusters(db: Database, dataset_id: int, clusters: Mapping[str, str]) -> None:
    """Notes what each question of a dataset hangs together with, by item id, once its place in the corpus is known."""
    members = tables.dataset_items.c
    known = clusters_of(db, [dataset_id])
    keys = {item_id: digest(cluster) for item_id, cluster in clusters.items()}
    new = [{"of_item": item_id, "key": key} for item_id, key in keys.items() if known.get(item_id) != key]
    if new:
        here = (members.dataset_id == dataset_id, members.item_id == sa.bindparam("of_item"))
        db.execute(sa.update(tables.dataset_items).where(*here).values(cluster_key=sa.bindparam("key")), new)


def used_items(db: Database, client_id: str, name: str) -> set[str]:
    """The ids of the items that any version of the client's dataset of this name has or had."""
    members = tables.dataset_items.c
    query = (
        sa.select(members.item_id)
        .distinct()
        .join(evaluation_datasets, evaluation_datasets.c.id == members.dataset_id)
        .where(evaluation_datasets.c.client_id == client_id, evaluation_datasets.c.name == name)
    )
    return set(db.scalars(query))


def list_datasets(
    db: Database, client_id: str | None = None, limit: int | None = None, offset: int = 0
) -> list[Dataset]:
    """All datasets, or one client's, by client, name and id; at most so many after the first `offset` of them."""
    of = evaluation_datasets.c
    query = sa.select(*_DATASET_COLUMNS).order_by(of.client_id, of.name, of.id).limit(limit)
    if client_id is not None:
        query = query.where(of.client_id == client_id)
    return [Dataset(**row._mapping) for row in db.rows(query.offset(offset) if offset else query)]


def get_dataset(db: Database, dataset_id: int) -> Dataset:
    """Raises DatasetError for a number that no dataset has."""
    rows = db.rows(sa.select(*_DATASET_COLUMNS).where(evaluation_datasets.c.id == dataset_id))
    if not rows:
        raise DatasetError(f"there is no dataset {dataset_id}; `rageval datasets list` shows those there are")
    return Dataset(**rows[0]._mapping)


def current_datasets(db: Database, client_id: str) -> list[Dataset]:
    """The version of each of the client's datasets that was checked last, by name; without those that are retired."""
    return current_datasets_of(db, [client_id])


def current_datasets_of(db: Database, client_ids: Iterable[str]) -> list[Dataset]:
    """The current datasets of several clients, by client and name: older versions, which are many, are not read."""
    of = evaluation_datasets.c
    age = sa.func.row_number().over(partition_by=(of.client_id, of.name), order_by=(of.checked_at.desc(), of.id.desc()))
    found: list[Dataset] = []
    with db.connect() as connection:
        for batch in in_batches(client_ids):
            versions = sa.select(of.id, age.label("age")).where(of.client_id.in_(batch)).subquery()
            newest = evaluation_datasets.join(versions, versions.c.id == of.id)
            query = sa.select(*_DATASET_COLUMNS).select_from(newest)
            rows = connection.execute(query.where(versions.c.age == 1, of.retired_at.is_(None)))
            found += [Dataset(**row._mapping) for row in rows]
    return sorted(found, key=lambda dataset: (dataset.client_id, dataset.name))


def newest_versions(datasets: Iterable[Dataset]) -> list[Dataset]:
    """Of several versions of a client's dataset the one that was checked last, in the order of the datasets."""
    newest: dict[tuple[str, str], Dataset] = {}
    for dataset in datasets:
        of = dataset.client_id, dataset.name
        known = newest.get(of)
        if known is None or (dataset.checked_at, dataset.id) > (known.checked_at, known.id):
            newest[of] = dataset
    return list(newest.values())


def retire_dataset(db: Database, dataset: Dataset, retired: bool = True) -> None:
    """Keeps all versions of a dataset from being evaluated from now on, or no longer; their history stays."""
    rows = evaluation_datasets.c
    here = sa.and_(rows.client_id == dataset.client_id, rows.name == dataset.name)
    db.execute(sa.update(evaluation_datasets).where(here).values(retired_at=utc_now() if retired else None))


def dataset_items(db: Database, dataset_id: int) -> list[Item]:
    """The items of a dataset in the order in which they were saved.

    Raises:
        TextsDeletedError: it was not used for so long that its questions were deleted.
    """
    items = _items(db, dataset_id)
    kept = [item for item in items if item is not None]
    if len(kept) < len(items):
        raise TextsDeletedError(
            f"the questions of dataset {dataset_id} were deleted: it was not used for longer than texts are kept "
            "(RAGEVAL_RETENTION_DAYS_TEXT); its scores stay"
        )
    return kept


def remaining_items(db: Database, dataset_id: int) -> list[Item]:
    """The items of a dataset whose questions were not deleted, in the order in which they were saved."""
    return [item for item in _items(db, dataset_id) if item is not None]


@dataclass(frozen=True)
class Asked:
    """A question as later nights know it, whether its text is kept or not.

    `key` is the same for the same question judged alike, `cluster` for those of one part of a document.
    """

    item_id: str
    key: str
    cluster: str


def questions_asked(db: Database, dataset_ids: Iterable[int]) -> dict[int, dict[str, Asked]]:
    """The questions of datasets, by dataset and item id; the newest dataset is the last."""
    members = tables.dataset_items.c
    columns = (members.dataset_id, members.item_id, members.grading_key, members.cluster_key)
    found: dict[int, dict[str, Asked]] = {}
    for dataset_id, item_id, grading_key, cluster in db.rows_in(sa.select(*columns), members.dataset_id, dataset_ids):
        key = item_id if grading_key is None else f"{item_id}:{grading_key}"
        found.setdefault(dataset_id, {})[item_id] = Asked(item_id, key, cluster)
    return dict(sorted(found.items()))


def clusters_of(db: Database, dataset_ids: Iterable[int]) -> dict[str, str]:
    """What each question of the datasets hangs together with, by item id: equal for those that may fail as one."""
    asked = questions_asked(db, dataset_ids)
    return {item_id: each.cluster for items in asked.values() for item_id, each in items.items()}


def _items(db: Database, dataset_id: int) -> list[Item | None]:
    members = tables.dataset_items
    query = (
        sa.select(benchmark_items.c.item)
        .select_from(members.outerjoin(benchmark_items, same(benchmark_items, members, "client_id", "item_hash")))
        .where(members.c.dataset_id == dataset_id)
        .order_by(members.c.position)
    )
    return [None if row.item is None else Item.from_dict(row.item) for row in db.rows(query)]


def _distinct(items: Iterable[Item]) -> list[Item]:
    first: dict[str, Item] = {}
    for item in items:
        first.setdefault(item.item_id, item)
    return list(first.values())
