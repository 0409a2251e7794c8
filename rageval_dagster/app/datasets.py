"""Benchmarks: generated from documents, imported from files, reviewed, and taken out of use."""

import uuid
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rageval_dagster.app.clients import meant_instead
from rageval_dagster.app.evaluate import Plan, run_job
from rageval_dagster.app.opening import Tell, untold
from rageval_dagster.benchmark.due import BenchmarkSpec, specs_of
from rageval_dagster.benchmark.formats import ReadOptions
from rageval_dagster.benchmark.importing import ImportReport, import_dataset
from rageval_dagster.benchmark.renewal import no_question
from rageval_dagster.benchmark.review import ReviewReport, read_review
from rageval_dagster.corpus.store import open_store
from rageval_dagster.errors import DatasetError, RagevalError
from rageval_dagster.settings import Settings
from rageval_dagster.storage.benchmark import Dataset, current_datasets, list_datasets, retire_dataset
from rageval_dagster.storage.clients import get_client
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.leases import keep_lease, lease_holder
from rageval_dagster.storage.run_requests import freeze


def generate_dataset(
    settings: Settings,
    db: Database,
    client: str,
    name: str,
    sample_size: int = 0,
    strategy: str = "",
    styles: Sequence[str] = (),
    tell: Tell = untold,
) -> Dataset:
    """Writes a new version of a generated dataset, without evaluating anything.

    Without a size, a strategy or styles, a dataset of that name keeps its own, and a new one has those of the settings.

    Raises:
        RagevalError: there is no such client, the run failed, or no question came of it: why.
    """
    from rageval_dagster.automation.jobs import BENCHMARK_JOB

    if not name.strip():
        raise DatasetError("a dataset needs a name: give one with --name, or leave that out")
    open_store(settings).probe(client)  # says so where the store does not know the client
    plan = Plan(dataset_name=name, sample_size=sample_size, strategy=strategy, styles=list(styles), renew=True)
    own = settings.for_client(client)
    spec = BenchmarkSpec.from_settings(own, name, size=sample_size, strategy=strategy, styles=styles)
    [spec] = specs_of(db, client, spec)
    before = {(dataset.id, dataset.checked_at) for dataset in current_datasets(db, client)}
    trigger = f"command:{uuid.uuid4()}"
    freeze(db, settings, {client: trigger}, asdict(plan))
    launched = run_job(settings, client, trigger, plan, tell, BENCHMARK_JOB)
    if launched.failure is not None:
        raise RagevalError(f"{client}: {launched.failure}")
    for dataset in current_datasets(db, client):
        if dataset.name == name and (dataset.id, dataset.checked_at) not in before:
            return dataset
    raise RagevalError(f"{client}: no dataset was written: {no_question(db, client, spec.generator)}")


def import_questions(
    settings: Settings,
    db: Database,
    client: str,
    file: Path,
    format_name: str = "native",
    name: str | None = None,
    options: ReadOptions | None = None,
    document_pattern: str | None = None,
) -> tuple[ImportReport, Dataset | None, str | None]:
    """Imports a file as a dataset, see `import_dataset`, its evidence looked for in the document store.

    Without a name it is called as the file, or the folder, without its endings.

    Returns:
        What came of it, the version of that name before, and the known client that may be meant by a new one.
    """
    if name is None:
        path = file.resolve()
        name = path.name.split(".")[0] if file.is_file() else path.name
    before = next((each for each in current_datasets(db, client) if each.name == name), None)
    meant = meant_instead(settings, db, client)
    report = import_dataset(db, client, name, file, format_name, options, open_store(settings), document_pattern)
    return report, before if before is not None and before.id != report.dataset.id else None, meant


def take_review_over(
    settings: Settings, db: Database, client: str, file: Path, dataset_id: int | None = None
) -> ReviewReport:
    """Takes the decisions of a reviewed file over, see `read_review`."""
    get_client(db, client)
    # A run that renews the dataset meanwhile would not know of the review.
    with keep_lease(db, client, lease_holder("review")):
        return read_review(db, open_store(settings), client, file, dataset_id)


def retire(settings: Settings, db: Database, client: str, name: str, undo: bool = False) -> None:
    """Stops evaluating a dataset, in whatever version, or takes that back.

    Raises:
        RagevalError: there is no such dataset, or the next evaluation would write another.
    """
    versions = list_datasets(db, client)
    dataset = next((each for each in versions if each.name == name), None)
    if dataset is None:
        known = ", ".join(sorted({each.name for each in versions})) or "none"
        raise RagevalError(f"client {client!r} has no dataset {name!r}; it has: {known}")
    others = [each for each in current_datasets(db, client) if each.kind == "generated" and each.name != name]
    automatic = settings.for_client(client).auto_generate_datasets
    if dataset.kind == "generated" and automatic and not others and not undo:
        raise RagevalError(
            f"{name!r} is the only generated one, and the next evaluation would write another: first set "
            f"auto_generate_datasets = false under [clients.{client}] in rageval.toml"
        )
    retire_dataset(db, dataset, retired=not undo)
