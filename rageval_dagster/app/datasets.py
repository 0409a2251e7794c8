"""Benchmarks: generated from documents, imported from files, reviewed, and taken out of use."""

import uuid

from rageval_dagster.app.evaluate import Plan, run_job
from rageval_dagster.app.opening import Tell, untold
from rageval_dagster.benchmark.due import BenchmarkSpec
from rageval_dagster.benchmark.renewal import no_question
from rageval_dagster.corpus.store import open_store
from rageval_dagster.errors import RagevalError
from rageval_dagster.settings import Settings
from rageval_dagster.storage.benchmark import Dataset, current_datasets
from rageval_dagster.storage.database import Database


def generate_dataset(
    settings: Settings,
    db: Database,
    client: str,
    name: str,
    sample_size: int = 0,
    strategy: str = "",
    tell: Tell = untold,
) -> Dataset:
    """Writes a new version of a generated dataset, without evaluating anything.

    Without a size or a strategy, a dataset of that name keeps its own, and a new one has those of the settings.

    Raises:
        RagevalError: there is no such client, the run failed, or no question came of it: why.
    """
    from rageval_dagster.automation.jobs import BENCHMARK_JOB

    open_store(settings).probe(client)  # says so where the store does not know the client
    plan = Plan(dataset_name=name, sample_size=sample_size, strategy=strategy, renew=True)
    spec = BenchmarkSpec.from_settings(settings.for_client(client), size=sample_size, strategy=strategy)
    before = {(dataset.id, dataset.checked_at) for dataset in current_datasets(db, client)}
    launched = run_job(settings, client, f"command:{uuid.uuid4()}", plan, tell, BENCHMARK_JOB)
    if launched.failure is not None:
        raise RagevalError(f"{client}: {launched.failure}")
    for dataset in current_datasets(db, client):
        if dataset.name == name and (dataset.id, dataset.checked_at) not in before:
            return dataset
    raise RagevalError(f"{client}: no dataset was written: {no_question(db, client, spec.generator)}")
