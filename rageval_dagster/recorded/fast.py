"""The fast mode: answers that were recorded earlier, scored anew by all that needs no contexts and no model.

It asks no system, opens no document store, loads no model and writes no history.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rageval_dagster.evaluation.request import chosen_datasets, make_request
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.metrics.registry import metrics_of
from rageval_dagster.rag.external import load_external
from rageval_dagster.rag.systems import RedactedSystem, check_system_name
from rageval_dagster.recorded.formats import NOT_RECORDED, Output
from rageval_dagster.recorded.scoring import score_outputs, shape_of
from rageval_dagster.records import Item, Result
from rageval_dagster.redaction import load_redactor
from rageval_dagster.settings import Settings
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage.clients import get_client
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import list_evaluations
from rageval_dagster.storage.results import load_results

_NOT_FAST = frozenset({"evidence", "hits", "contexts", "embedder", "judge"})
"""What a metric of the fast mode does not need."""


@dataclass(frozen=True)
class FastReport:
    """What the fast mode found for one dataset and system; `shape` is as `result_shape` gives it."""

    client_id: str
    dataset_id: int
    dataset_name: str
    system: str
    not_recorded: int
    shape: Mapping[str, Any]


def evaluate_fast(
    db: Database,
    settings: Settings,
    client_id: str,
    dataset_ids: Sequence[int] = (),
    systems: Sequence[str] = (),
    k: int | None = None,
) -> list[FastReport]:
    """Scores the recorded answers of a client's systems to its datasets; `settings` are the client's.

    An answer is that of the newest complete evaluation of the system that asked the question, whatever has changed
    since in the dataset or in what the question is judged by; of a system of kind `recorded` it stands in its file. A
    question without one is an error, never dropped.

    Raises:
        RagevalError: an unknown client, dataset or system, or a recorded system's file that cannot be used.
    """
    get_client(db, client_id)
    request = make_request(settings, client_id, trigger="fast", k=k, systems=systems, dataset_ids=dataset_ids)
    for name in request.systems:
        check_system_name(name, settings)
    metrics = [metric for metric in metrics_of(settings, request.k) if not metric.needs & _NOT_FAST]
    return [
        _report(db, settings, client_id, dataset, name, request.k, metrics)
        for dataset in chosen_datasets(db, request)
        for name in request.systems
    ]


def _report(
    db: Database,
    settings: Settings,
    client_id: str,
    dataset: benchmark_storage.Dataset,
    system: str,
    k: int,
    metrics: Sequence[Metric],
) -> FastReport:
    items = benchmark_storage.dataset_items(db, dataset.id)
    if system in settings.recorded:
        found = _from_file(settings, client_id, system, items, k)
    else:
        found = _from_history(db, client_id, system, items)
    missing = Result(Item(""), None, None, (), k, error=NOT_RECORDED, tells_contexts=False)
    outputs = [Output(item.item_id, replace(found.get(item.item_id, missing), item=item, k=k)) for item in items]
    shape = shape_of(outputs, metrics, score_outputs(outputs, metrics, Tools()))
    return FastReport(client_id, dataset.id, dataset.name, system, len(items) - len(found), shape)


def _from_history(db: Database, client_id: str, system: str, items: Sequence[Item]) -> dict[str, Result]:
    """The newest result of each item from a complete evaluation, unless its answer was deleted since."""
    wanted = {item.item_id for item in items}
    found: dict[str, Result] = {}
    for evaluation in list_evaluations(db, client_id, status="complete", limit=None):
        if evaluation.system != system or not wanted - found.keys():
            continue
        for item_id, (_, result) in load_results(db, evaluation.id).items():
            if item_id in wanted and item_id not in found and not result.texts_deleted:
                found[item_id] = result
    return found


def _from_file(settings: Settings, client_id: str, system: str, items: Sequence[Item], k: int) -> dict[str, Result]:
    recorded = load_external(system, settings, client_id)
    redactor = load_redactor(settings.redact, settings.path("."))
    if redactor.version is not None:
        recorded = RedactedSystem(recorded, redactor)
    found: dict[str, Result] = {}
    for item, retrieval in zip(items, recorded.retrieve(items, k), strict=True):
        if retrieval.error is None:
            hits, said = retrieval.hits or (), retrieval.answer
            found[item.item_id] = Result(
                item=item,
                relevant_chunks=None,
                relevant_documents=None,
                hits=hits,
                k=k,
                answer=None if said is None else said.answer,
                contexts=tuple(hit.text for hit in hits),
                error=None if said is None else said.error,
                tells_contexts=retrieval.hits is not None,
            )
    return found
