"""The retrieval stage: every question of an evaluation is asked, and what came back is stored by content."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rageval_dagster.corpus.evidence import Resolution, resolve
from rageval_dagster.corpus.matching import MATCHING_REVISION, Placed, place_hits
from rageval_dagster.corpus.store import ChromaStore
from rageval_dagster.evaluation.answers import answer_key, result_record
from rageval_dagster.evaluation.stages import BATCH, StageReport
from rageval_dagster.identity import digest, digest_json
from rageval_dagster.rag.system import RagSystem, Retrieval
from rageval_dagster.records import Hit, Item, Progress
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage.database import Database, in_batches
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.results import RetrievalRecord


def run_retrieval(
    db: Database,
    store: ChromaStore,
    system: RagSystem,
    evaluation: Evaluation,
    progress: Progress | None = None,
) -> StageReport:
    """Asks the system every question that has no equal retrieval yet, in batches, and stores hits with their ranks.

    A retrieval is reused where question, system, corpus and index are the same; one that failed never is, and none of
    a system that declares no version. A system that answers at once has its answers stored here too.
    """
    items = {item.item_id: item for item in benchmark_storage.dataset_items(db, evaluation.dataset_id)}
    keys = (
        {item_id: _retrieval_key(evaluation, system, item_id) for item_id in items}
        if evaluation.system_declared is not None
        else {}
    )
    rows = {row.item_id: row for row in result_storage.run_items(db, evaluation.id)}
    pending = [item_id for item_id, row in rows.items() if row.retrieval_id is None and item_id in items]
    reusable = result_storage.reusable(db, evaluation.client_id, [keys[item_id] for item_id in pending if keys])
    reused = {item_id: (reusable[keys[item_id]], keys[item_id]) for item_id in pending if keys.get(item_id) in reusable}
    result_storage.link_retrievals(db, evaluation.id, reused)
    missing = [item_id for item_id in pending if item_id not in reused]
    asked = [items[item_id] for item_id in missing]
    resolutions = resolve(asked, db, store, evaluation.client_id) if missing else {}
    errors = done = 0
    for batch in in_batches(missing, BATCH):
        retrievals = dict(
            zip(batch, system.retrieve([items[item_id] for item_id in batch], evaluation.depth), strict=True)
        )
        found = [(resolutions[item_id], retrievals[item_id].hits) for item_id in batch]
        placed = placed_hits(db, store, system, evaluation.client_id, found)
        records = [
            _record(evaluation.client_id, item_id, retrievals[item_id], place)
            for item_id, place in zip(batch, placed, strict=True)
        ]
        # What answered under another version, because the system was replaced meanwhile, stands for nobody's.
        for item_id, retrieval in retrievals.items():
            if retrieval.version not in (None, evaluation.system_declared):
                keys.pop(item_id, None)
        result_storage.save_retrievals(db, evaluation.id, [(record, keys.get(record.item_id)) for record in records])
        if system.answers_at_once:
            _save_answers(db, system, evaluation, items, records, retrievals, keys)
        errors += sum(record.error is not None for record in records)
        done += len(batch)
        if progress is not None:
            progress(done, len(missing))
    return StageReport(total=len(items), reused=len(items) - len(missing), errors=errors)


def placed_hits(
    db: Database,
    store: ChromaStore,
    system: RagSystem,
    client_id: str,
    found: Sequence[tuple[Resolution, tuple[Hit, ...] | None]],
) -> list[Placed]:
    """What came back for each question with what is relevant for it: a system of another make's hits are matched."""
    if system.answers_at_once:
        return place_hits(db, store, client_id, found)
    return [Placed(hits, resolution) for resolution, hits in found]


def _save_answers(
    db: Database,
    system: RagSystem,
    evaluation: Evaluation,
    items: Mapping[str, Item],
    records: Sequence[RetrievalRecord],
    retrievals: Mapping[str, Retrieval],
    keys: Mapping[str, str],
) -> None:
    results = []
    for record in records:
        item = items[record.item_id]
        key = answer_key(system, evaluation, record.retrieval_id, item) if record.item_id in keys else None
        results.append((result_record(item, record, retrievals[record.item_id].answer, None), key))
    result_storage.save_results(db, evaluation.id, results)


def _retrieval_key(evaluation: Evaluation, system: RagSystem, item_id: str) -> str:
    return digest(
        item_id,
        system.retrieval_version,
        evaluation.versions.corpus,
        evaluation.versions.index,
        str(evaluation.depth),
        *([f"matching {MATCHING_REVISION}"] if system.answers_at_once else []),
    )


def _record(client_id: str, item_id: str, retrieval: Retrieval, placed: Placed) -> RetrievalRecord:
    chunks = None if placed.resolution.chunks is None else sorted(placed.resolution.chunks)
    documents = None if placed.resolution.documents is None else sorted(placed.resolution.documents)
    content = {
        "client": client_id,
        "item": item_id,
        "chunks": chunks,
        "documents": documents,
        "hits": None if placed.hits is None else [asdict(hit) for hit in placed.hits],
        "error": retrieval.error,
    }
    return RetrievalRecord(
        retrieval_id=digest_json(content),
        item_id=item_id,
        relevant_chunks=chunks,
        relevant_documents=documents,
        hits=None if placed.hits is None else list(placed.hits),
        error=retrieval.error,
    )
