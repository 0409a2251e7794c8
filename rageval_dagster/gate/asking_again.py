"""Asking a few questions of an evaluation once more, past every cache, to see whether they fail again."""

from collections.abc import Sequence

from rageval_dagster.corpus.evidence import names_pages, resolve
from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.evaluation.asking import placed_hits, with_owners
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.metrics.registry import compute_scores
from rageval_dagster.rag.system import RagSystem
from rageval_dagster.records import UNKEPT, Hit, Item, Outcome, Result
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
    retrievals = system.retrieve(items, evaluation.depth)
    found = [(resolutions[item.item_id], retrieval.hits) for item, retrieval in zip(items, retrievals, strict=True)]
    placed = placed_hits(db, store, system, evaluation.client_id, found)
    # Where the system answered when it was asked, it saw all that it returned.
    seen = None if system.answers_at_once else evaluation.k
    contexts = [[hit.text for hit in (place.hits or ())[:seen]] for place in placed]
    said = (
        with_owners(db, store, evaluation.client_id, [each.answer for each in retrievals])
        if system.answers_at_once
        else system.answer(items, contexts)
    )
    results: list[Result] = []
    for item, place, answer, retrieval in zip(items, placed, said, retrievals, strict=True):
        hits: tuple[Hit, ...] = tuple(place.hits or ())
        chunks, documents = place.resolution.chunks, place.resolution.documents
        # What was made from another client's words is nobody's to judge.
        own = all(owner not in UNKEPT for owner in (answer and answer.owner, *(hit.owner for hit in hits)))
        results.append(
            Result(
                item=item,
                relevant_chunks=None if chunks is None else frozenset(chunks),
                relevant_documents=None if documents is None else frozenset(documents),
                hits=hits,
                k=evaluation.k,
                answer=answer.answer if answer is not None and own else None,
                contexts=tuple(hit.text for hit in hits[:seen]),
                error=retrieval.error or (answer and answer.error),
                tells_contexts=place.hits is not None,
            )
        )
    outcomes = compute_scores(metrics, results, tools)
    return {
        metric_id: {item.item_id: outcome for item, outcome in zip(items, column, strict=True)}
        for metric_id, column in outcomes.items()
    }
