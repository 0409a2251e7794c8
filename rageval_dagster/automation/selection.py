"""Which assets a run of the evaluation job makes: all of them, or without those of the benchmark, where none is due."""

from collections.abc import Iterable, Mapping
from typing import Any

from rageval_dagster.benchmark.due import BenchmarkSpec, fresh_clients
from rageval_dagster.errors import SettingsError
from rageval_dagster.settings import Settings
from rageval_dagster.storage.clients import list_clients
from rageval_dagster.storage.database import Database

_OF_THE_BENCHMARK = {"sample_size", "strategy", "styles", "dataset_name", "renew"}
"""What a plan may say of the datasets that are generated: then it is for the benchmark's assets to do."""


def without_benchmark(
    db: Database, settings: Settings, client_ids: Iterable[str], plan: Mapping[str, Any] | None = None
) -> set[str]:
    """The clients whose run needs no asset of the benchmark, by what the database knows of their documents.

    A run that finds at its scan that it needs them all the same makes them then (`renew_left_out`).
    """
    plan = plan or {}
    if any(plan.get(name) for name in _OF_THE_BENCHMARK):
        return set()
    # A change that is known of most likely makes something due.
    settled = {each.client_id for each in list_clients(db) if each.evaluated_seq == each.change_seq}
    specs: dict[str, BenchmarkSpec] = {}
    for client_id in settled.intersection(client_ids):
        try:
            own = settings.for_client(client_id)
            specs[client_id] = BenchmarkSpec.from_settings(own, automatic=not plan.get("dataset_ids"))
        except SettingsError:
            continue  # its run fails, and says why
    return fresh_clients(db, specs)
