"""The dataset that a baseline was measured on, evaluated once more where the current one shares too little with it."""

import sqlalchemy as sa

from rageval_dagster.errors import TextsDeletedError
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.comparisons import find_baseline
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import get_evaluation
from rageval_dagster.storage.tables import dataset_items

LEAST_SHARED = 30
"""With fewer questions shared with the baseline, its dataset is evaluated once more beside the new one."""


def dataset_before(db: Database, dataset: Dataset, system: str) -> Dataset | None:
    """The dataset to evaluate beside this one, so that a system can still be held against its baseline; mostly None.

    Where its questions were deleted, having not been used for longer than texts are kept, there is none either.
    """
    baseline = find_baseline(db, dataset.client_id, dataset.name, system)
    if baseline is None:
        return None
    before = get_evaluation(db, baseline.evaluation_id).dataset_id
    old = len(_item_ids(db, before))
    if before == dataset.id or shared_count(db, before, dataset.id) >= min(LEAST_SHARED, old):
        return None
    try:
        benchmark_storage.dataset_items(db, before)
    except TextsDeletedError:
        return None
    return benchmark_storage.get_dataset(db, before)


def shared_count(db: Database, dataset_id: int, other_id: int) -> int:
    """How many questions two datasets share."""
    return len(_item_ids(db, dataset_id) & _item_ids(db, other_id))


def _item_ids(db: Database, dataset_id: int) -> set[str]:
    query = sa.select(dataset_items.c.item_id).where(dataset_items.c.dataset_id == dataset_id)
    with db.connect() as connection:
        return set(connection.execute(query).scalars())
