"""Evaluation assets: every question is asked, answered and scored; each stage reuses what was computed before."""

import dagster as dg

from rageval_dagster.assets.benchmark import validated_benchmark
from rageval_dagster.assets.columns import client_asset
from rageval_dagster.assets.progress import log_progress
from rageval_dagster.resources import (
    ClientLease,
    DocumentStore,
    EvaluationPlan,
    HistoryDatabase,
    Judging,
    RagSystems,
    RunSettings,
)


@client_asset("evaluation", "retrievals", deps=[validated_benchmark], kinds={"chroma", "sql"})
def retrieval_runs(
    context: dg.AssetExecutionContext,
    database: HistoryDatabase,
    store: DocumentStore,
    lease: ClientLease,
    plan: EvaluationPlan,
    systems: RagSystems,
) -> dg.MaterializeResult:
    """What each system retrieves for each question: ranks, scores, chunks and documents, per dataset and system."""
    from rageval_dagster.evaluation.asking import run_retrieval
    from rageval_dagster.evaluation.stages import each_evaluation, open_evaluations

    db, client_id = database.open(), database.client_of(context.partition_key)
    load = systems.loader(client_id, context.run.run_id)
    opened = open_evaluations(db, plan.request(client_id), load, context.run.run_id)
    documents = store.open()
    report = each_evaluation(
        db,
        opened,
        context.run.run_id,
        lambda evaluation: run_retrieval(
            db,
            documents,
            load(evaluation.system),
            evaluation,
            log_progress(context, "questions retrieved", database),
        ),
    )
    return dg.MaterializeResult(metadata=report)


@client_asset("evaluation", "item_results", deps=[retrieval_runs], pool="llm")
def generated_answers(
    context: dg.AssetExecutionContext,
    database: HistoryDatabase,
    lease: ClientLease,
    plan: EvaluationPlan,
    systems: RagSystems,
) -> dg.MaterializeResult:
    """What each system answers from the contexts it retrieved, with citations, or that it declines."""
    from rageval_dagster.evaluation.asking import run_answers
    from rageval_dagster.evaluation.stages import each_evaluation, evaluations_of

    db, client_id = database.open(), database.client_of(context.partition_key)
    load = systems.loader(client_id, context.run.run_id)
    report = each_evaluation(
        db,
        evaluations_of(db, plan.request(client_id)),
        context.run.run_id,
        lambda evaluation: run_answers(
            db,
            load(evaluation.system),
            evaluation,
            systems.answers_max_age_days(client_id),
            log_progress(context, "questions answered", database),
        ),
    )
    return dg.MaterializeResult(metadata=report)


@client_asset("evaluation", "metric_scores", deps=[generated_answers], pool="llm")
def metric_scores(
    context: dg.AssetExecutionContext,
    database: HistoryDatabase,
    lease: ClientLease,
    plan: EvaluationPlan,
    judging: Judging,
    settings: RunSettings,
) -> dg.MaterializeResult:
    """Every metric of every question, each with a typed outcome: scored, undefined or error, never made up."""
    from rageval_dagster.evaluation.scoring import run_scoring
    from rageval_dagster.evaluation.stages import each_evaluation, evaluations_of

    db, client_id = database.open(), database.client_of(context.partition_key)
    tools = judging.tools(client_id, context.run.run_id)
    max_age = settings.read().llm_cache_max_age_days
    report = each_evaluation(
        db,
        evaluations_of(db, plan.request(client_id)),
        context.run.run_id,
        lambda evaluation: run_scoring(
            db,
            evaluation,
            judging.metrics(client_id, evaluation.k),
            tools,
            max_age,
            log_progress(context, "outcomes computed", database),
        ),
    )
    return dg.MaterializeResult(metadata=report)
