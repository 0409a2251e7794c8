"""Builds small histories through the storage functions, as the stages of an evaluation do."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import sqlalchemy as sa

from rageval_dagster.identity import digest, digest_json
from rageval_dagster.records import Answer, Evidence, Hit, Item, Outcome
from rageval_dagster.storage import benchmark, clients, comparisons, evaluations
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.benchmark import Dataset, DatasetKind
from rageval_dagster.storage.comparisons import MetricComparison
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, Versions
from rageval_dagster.storage.results import ResultRecord, RetrievalRecord
from rageval_dagster.storage.scores import Repeated, Summary
from rageval_dagster.storage.tables import embedding_cache, llm_cache, metadata, metric_scores, reuse_keys

MRR = "retrieval.mrr"


def row_counts(db: Database) -> dict[str, int]:
    """How many rows each table has."""
    with db.connect() as connection:
        return {
            table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
        }


def make_items(count: int, prefix: str = "question") -> list[Item]:
    return [
        Item(question=f"{prefix} {n}?", answers=(f"answer {n}",), evidence=(Evidence(f"doc-{n}", None, f"quote {n}"),))
        for n in range(count)
    ]


def make_dataset(
    db: Database, client: str, items: Sequence[Item], name: str = "human", kind: DatasetKind = "imported"
) -> Dataset:
    clients.ensure_client(db, client)
    return benchmark.save_dataset(
        db, client, name, kind, items, "test", corpus_version=None, valid=True, rule_failures={}, stats={}
    )


def open_run(
    db: Database,
    dataset: Dataset,
    trigger: str,
    system: str = "dense",
    corpus: str = "corpus-1",
    k: int = 5,
    declared: str | None = "built-in",
    index: str = "index-1",
    system_version: str = "system-1",
    reference: bool = True,
) -> Evaluation:
    return evaluations.open_evaluation(
        db,
        client_id=dataset.client_id,
        dataset_id=dataset.id,
        system=system,
        trigger=trigger,
        k=k,
        depth=10,
        versions=Versions(corpus, index, dataset.dataset_version, system_version, None),
        dagster_run_id="run",
        item_ids=[item.item_id for item in benchmark.dataset_items(db, dataset.id)],
        system_reference=reference,
        system_declared=declared,
    )


def retrieval_of(item: Item, count: int = 10, error: str | None = None, salt: str = "") -> RetrievalRecord:
    hits = [
        Hit(f"chunk-{salt}{item.item_id}-{rank}", f"doc-{rank}", rank, 1 / rank, f"{salt} text {item.item_id} {rank}")
        for rank in range(1, count + 1)
    ]
    return RetrievalRecord(
        retrieval_id=digest_json([item.item_id, count, error, salt]),
        item_id=item.item_id,
        relevant_chunks=[hits[0].chunk_id] if hits else None,
        relevant_documents=["doc-1"],
        hits=hits,
        error=error,
    )


def result_of(retrieval: RetrievalRecord, answer: str = "an answer") -> ResultRecord:
    return ResultRecord(
        result_id=digest(retrieval.retrieval_id, answer),
        item_id=retrieval.item_id,
        retrieval_id=retrieval.retrieval_id,
        answer=None if retrieval.error else Answer(answer),
        context_count=len((retrieval.hits or [])[:5]),
        error=retrieval.error,
        latency_s=0.1,
    )


def retrieval_key(evaluation: Evaluation, item_id: str) -> str:
    return digest("retrieval", evaluation.system, evaluation.versions.corpus, item_id)


def answer_key(evaluation: Evaluation, item_id: str) -> str:
    return digest("answer", evaluation.system, evaluation.versions.corpus, item_id)


def work(db: Database, evaluation: Evaluation, items: Sequence[Item], batch: int = 64, salt: str = "") -> None:
    """Retrieves, answers and scores (reciprocal ranks only) what has no equal yet, as the stages do."""
    rows = {row.item_id: row for row in result_storage.run_items(db, evaluation.id)}
    keys = {item_id: retrieval_key(evaluation, item_id) for item_id, row in rows.items() if row.retrieval_id is None}
    reused = result_storage.reuse(db, evaluation, result_storage.RETRIEVAL, keys)
    missing = [item for item in items if item.item_id in keys and item.item_id not in reused]
    for start in range(0, len(missing), batch):
        records = [(retrieval_of(item, salt=salt), keys[item.item_id]) for item in missing[start : start + batch]]
        result_storage.save_retrievals(db, evaluation.id, records)
    rows = {row.item_id: row for row in result_storage.run_items(db, evaluation.id)}
    keys = {item_id: answer_key(evaluation, item_id) for item_id, row in rows.items() if row.result_id is None}
    reused = result_storage.reuse(db, evaluation, result_storage.RESULT, keys)
    retrievals = result_storage.load_retrievals(
        db, evaluation.id, [item_id for item_id in keys if item_id not in reused]
    )
    answer = f"an answer of {salt}" if salt else "an answer"
    records = [(result_of(retrieval, answer), keys[item_id]) for item_id, retrieval in retrievals.items()]
    for start in range(0, len(records), batch):
        result_storage.save_results(db, evaluation.id, records[start : start + batch])
    results = result_storage.load_results(db, evaluation.id)
    done = score_storage.scored(db, evaluation.client_id, [result_id for result_id, _ in results.values()], {MRR: "1"})
    scores = [
        (result_id, MRR, "1", Outcome.scored(1.0 if position % 2 else 0.5))
        for position, (result_id, _) in enumerate(results.values())
        if (result_id, MRR) not in done
    ]
    for start in range(0, len(scores), batch):
        score_storage.save_scores(db, evaluation.id, scores[start : start + batch])


def answer_all(db: Database, evaluation: Evaluation, items: Sequence[Item], salt: str = "") -> list[ResultRecord]:
    """Retrieves for all questions and answers them; the results in the questions' order."""
    retrievals = [retrieval_of(item, salt=salt) for item in items]
    result_storage.save_retrievals(db, evaluation.id, [(found, digest(found.item_id)) for found in retrievals])
    results = [result_of(found) for found in retrievals]
    result_storage.save_results(db, evaluation.id, [(result, digest("a", result.item_id)) for result in results])
    return results


def score_all(
    db: Database,
    evaluation: Evaluation,
    results: Sequence[ResultRecord],
    metric_id: str,
    outcomes: Sequence[Outcome],
    version: str = "1",
) -> None:
    """Gives each result its outcome."""
    pairs = zip(results, outcomes, strict=True)
    score_storage.save_scores(
        db, evaluation.id, [(result.result_id, metric_id, version, outcome) for result, outcome in pairs]
    )


def summary(metric_id: str, mean: float | None, n: int = 10, version: str = "1", errors: int = 0) -> Summary:
    return Summary(
        metric_id=metric_id,
        n=n,
        n_scored=n - errors if mean is not None else 0,
        n_undefined=0 if mean is not None else n - errors,
        n_error=errors,
        mean=mean,
        ci_low=mean,
        ci_high=mean,
        min=mean,
        max=mean,
        worst_low=mean,
        worst_high=mean,
        ceiling=None,
        metric_version=version,
    )


def hold_against(db: Database, evaluation: Evaluation, baseline: Evaluation) -> None:
    """What the gate stores of an evaluation: the mean reciprocal rank fell a little."""
    row = MetricComparison(
        metric_id=MRR,
        metric_version="1",
        higher_is_better=True,
        baseline_id=baseline.id,
        gated=True,
        n_shared=2,
        baseline_mean=0.8,
        mean=0.75,
        difference=-0.05,
        ci_low=-0.1,
        ci_high=0.0,
        smallest_drop=None,
        decision="passed",
    )
    comparisons.save_baseline(db, baseline, "first")
    comparisons.save_comparisons(db, evaluation.id, [row])
    score_storage.save_night_scores(db, evaluation.client_id, "1", {(baseline.id, MRR): {}, (evaluation.id, MRR): {}})
    score_storage.save_repeated(db, evaluation, {"item": Repeated(evaluation.id, "result", {MRR: [1.0] * 3}, None)})


def finish(
    db: Database,
    evaluation: Evaluation,
    means: Mapping[str, float | None],
    foreign: int | None = 0,
    unknown: int = 0,
    failed: int = 0,
    errors: Mapping[str, int] | None = None,
) -> None:
    """Ends an evaluation whose system failed on so many questions, with so many errors of each metric, of 10."""
    errors = errors or {}
    summaries = [summary(metric_id, mean, errors=errors.get(metric_id, 0)) for metric_id, mean in means.items()]
    score_storage.save_summaries(db, evaluation.id, summaries)
    evaluations.finish_evaluation(
        db,
        evaluation.id,
        "complete",
        dict(means),
        duration_s=1.0,
        error_count=failed,
        judge_version="judge-1",
        foreign_chunks=foreign,
        unknown_chunks=unknown,
    )


def make_older(db: Database, by: timedelta) -> None:
    """Lets so much time go by for all that can be reused."""
    with db.begin() as connection:
        for time in (reuse_keys.c.made_at, llm_cache.c.made_at, embedding_cache.c.made_at, metric_scores.c.created_at):
            for moment in connection.execute(sa.select(time).distinct().order_by(time)).scalars().all():
                connection.execute(sa.update(time.table).where(time == moment).values({time.name: moment - by}))
