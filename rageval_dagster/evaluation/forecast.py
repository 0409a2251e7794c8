"""What an evaluation would do, without doing it: questions asked, and answers and model calls at the most."""

from collections.abc import Sequence
from typing import Any

from rageval_dagster.benchmark.renewal import SAMPLE_SHARE, BenchmarkSpec, renewal_due
from rageval_dagster.evaluation.request import chosen_datasets, make_request
from rageval_dagster.settings import BUILT_IN_SYSTEMS, Settings
from rageval_dagster.storage.clients import get_client
from rageval_dagster.storage.database import Database


def forecast(
    db: Database,
    settings: Settings,
    client_id: str,
    probe: str,
    dataset_ids: Sequence[int] = (),
    systems: Sequence[str] = (),
    k: int = 0,
    sample_size: int = 0,
    strategy: str = "",
) -> dict[str, Any]:
    """The upper bound of a run's work for one client; nothing is scanned or asked.

    `probe` is the document store's present one: where it moved since the last scan, the documents may have changed.
    """
    spec = BenchmarkSpec.from_settings(settings, size=sample_size, strategy=strategy)
    request = make_request(settings, client_id, "forecast", k or None, systems, dataset_ids)
    built_in = [name for name in request.systems if name in BUILT_IN_SYSTEMS]
    due = renewal_due(db, client_id, spec)
    if due is None and spec.automatic and _moved(db, client_id, probe):
        due = "perhaps: the documents changed since the last scan"
    datasets = chosen_datasets(db, request) if not due or dataset_ids else _known(db, client_id, spec)
    questions = sum(dataset.qa_count for dataset in datasets) + (spec.size if due and not dataset_ids else 0)
    return {
        "client": client_id,
        "new dataset": due or "no",
        "questions": questions,
        "systems": ", ".join(request.systems),
        "retrievals": questions * len(built_in),
        "system calls": questions * (len(request.systems) - len(built_in)),
        "generator calls": spec.size * SAMPLE_SHARE if due and settings.generator_model else 0,
        "answer calls": questions * len(built_in) if settings.answer_model else 0,
    }


def _moved(db: Database, client_id: str, probe: str) -> bool:
    client = get_client(db, client_id)
    return client.probe != probe or client.change_seq > client.scanned_seq


def _known(db: Database, client_id: str, spec: BenchmarkSpec) -> list[Any]:
    from rageval_dagster.storage.benchmark import current_datasets

    return [dataset for dataset in current_datasets(db, client_id) if dataset.name != spec.name]
