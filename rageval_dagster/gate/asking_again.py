"""Asking a few questions of an evaluation once more, past every cache, to see whether they fail again."""

from collections.abc import Sequence

from rageval_dagster.corpus.evidence import names_pages, resolve
from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.evaluation.asking import ask_once
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.metrics.registry import compute_scores
from rageval_dagster.rag.system import RagSystem
from rageval_dagster.records import Item, Outcome
from rageval_dagster.storage.benchmark import dataset_items
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation


def ask_again(
    db: Database,
    store: ChromaStore,
    system: RagSystem,
    evaluation: Evaluation,
    items: Sequence[Item],
    metrics: Sequence[Metric],
    tools: Tools,
) -> dict[str, dict[str, Outcome]]:
    """{metric id: {item id: outcome}} of items that were retrieved, answered and scored once more; nothing is stored.

    `system` and `tools` are to read no cache: an answer or a verdict that is only repeated tells nothing.

    Raises:
        LanguageModelError: as `compute_scores`.
    """
    by_page = names_pages(dataset_items(db, evaluation.dataset_id))
    resolutions = resolve(items, db, store, evaluation.client_id, by_page)
    asked = ask_once(db, store, system, evaluation.client_id, items, evaluation.k, evaluation.depth, resolutions)
    results = [each.result for each in asked]
    outcomes = compute_scores(metrics, results, tools)
    return {
        metric_id: {item.item_id: outcome for item, outcome in zip(items, column, strict=True)}
        for metric_id, column in outcomes.items()
    }
