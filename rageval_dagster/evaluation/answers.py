"""The answer stage: the system answers from the first k contexts it retrieved; answers are stored by content."""

from rageval_dagster.errors import BudgetReachedError
from rageval_dagster.evaluation.stages import BATCH, StageReport, further
from rageval_dagster.identity import digest, digest_json
from rageval_dagster.rag.system import AnswerOutcome, RagSystem
from rageval_dagster.records import Item, Progress
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage.database import Database, in_batches
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.results import ResultRecord, RetrievalRecord


def run_answers(
    db: Database,
    system: RagSystem,
    evaluation: Evaluation,
    max_age_days: float | None = None,
    progress: Progress | None = None,
) -> StageReport:
    """Answers every retrieved question that has no equal answer yet, or where `max_age_days` is given none so recent.

    The age is that of built-in answers, whose model may drift; a system that declares its version answers for itself.
    A question whose retrieval failed gets a result with that error: nothing is dropped.
    """
    items = {item.item_id: item for item in benchmark_storage.dataset_items(db, evaluation.dataset_id)}
    rows = [row for row in result_storage.run_items(db, evaluation.id) if row.result_id is None]
    # Where the system answered when it was asked, it saw all that it returned.
    seen = None if system.answers_at_once else evaluation.k
    keys = {
        row.item_id: answer_key(system, evaluation, row.retrieval_id, items[row.item_id])
        for row in rows
        if row.retrieval_id is not None
    }
    age = None if system.answers_at_once else max_age_days
    remembered = keys if evaluation.system_declared is not None else {}
    reusable = result_storage.reusable(db, evaluation.client_id, list(remembered.values()), age)
    reused = {item_id: (reusable[key], key) for item_id, key in keys.items() if key in reusable}
    result_storage.link_results(db, evaluation.id, reused)
    missing = [item_id for item_id in keys if item_id not in reused]
    retrievals = result_storage.load_retrievals(db, evaluation.id, missing) if missing else {}
    done = 0
    for batch in in_batches(missing, BATCH):
        answerable = [item_id for item_id in batch if retrievals[item_id].error is None]
        contexts = [[hit.text for hit in (retrievals[item_id].hits or ())[:seen]] for item_id in answerable]
        asked = [items[item_id] for item_id in answerable]
        try:
            answers = system.answer(asked, contexts, further(progress, done, len(missing)))
        except BudgetReachedError as error:
            left = f"{len(missing) - done} of {len(missing)} questions of this evaluation have no answer"
            raise BudgetReachedError(f"{error}; {left}") from None
        outcomes = dict(zip(answerable, answers, strict=True))
        records = [
            (result_record(items[item_id], retrievals[item_id], outcomes.get(item_id), seen), remembered.get(item_id))
            for item_id in batch
        ]
        result_storage.save_results(db, evaluation.id, records)
        done += len(batch)
        if progress is not None:
            progress(done, len(missing))
    errors = result_storage.failed_count(db, evaluation.id)
    return StageReport(total=len(items), reused=len(items) - len(missing), errors=errors)


def answer_key(system: RagSystem, evaluation: Evaluation, retrieval_id: str, item: Item) -> str:
    """The key under which an answer to an equal retrieval may be reused, for an item that is judged alike.

    A system that answers at once has one version for all it does, which the evaluation knows: it is not asked for it.
    Its answer is made from all that it returned, whatever the cutoff.
    """
    if system.answers_at_once:
        return digest(retrieval_id, evaluation.versions.system, item.marking)
    return digest(retrieval_id, system.answer_version, str(evaluation.k), item.marking)


def result_record(item: Item, retrieval: RetrievalRecord, outcome: AnswerOutcome | None, k: int | None) -> ResultRecord:
    """The result of a retrieval and its answer, from its first `k` hits or (None) all of them.

    An answer made from another client's words may repeat them: like those, it is not kept.
    """
    hits = retrieval.hits or []
    if any(hit.owner == "foreign" for hit in hits):
        outcome = None
    answer = outcome.answer if outcome else None
    error = retrieval.error or (outcome.error if outcome else None)
    context_count = len(hits[:k])
    content = {
        "retrieval": retrieval.retrieval_id,
        "marking": item.marking,
        "answer": None if answer is None else [answer.text, answer.declined, *answer.citations],
        "contexts": context_count,
        "error": error,
    }
    return ResultRecord(
        result_id=digest_json(content),
        item_id=retrieval.item_id,
        retrieval_id=retrieval.retrieval_id,
        answer=answer,
        context_count=context_count,
        error=error,
        latency_s=outcome.latency_s if outcome else None,
        made_at=outcome.made_at if outcome else None,
    )
