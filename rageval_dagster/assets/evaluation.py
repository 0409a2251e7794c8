"""Evaluation assets: every question is asked, answered and scored; each stage reuses what was computed before."""

from rageval_dagster.assets.benchmark import renew_left_out, validated_benchmark
from rageval_dagster.assets.corpus import corpus_version
from rageval_dagster.assets.step import Metadata, Step, client_asset
from rageval_dagster.resources import (
    DocumentStore,
    Embedding,
    EvaluationPlan,
    Judging,
    QuestionGenerator,
    RagSystems,
    RunSettings,
)


# After the scan also in a run that leaves the benchmark out; one that ends at the scan ends before this.
# In the pool, since a run that left the benchmark out may write questions here, and the user's systems ask models.
@client_asset(
    "evaluation", "retrievals", deps=[corpus_version, validated_benchmark], kinds={"chroma", "sql"}, pool="llm"
)
def retrieval_runs(
    step: Step,
    store: DocumentStore,
    plan: EvaluationPlan,
    systems: RagSystems,
    generator: QuestionGenerator,
    embedding: Embedding,
) -> Metadata:
    """What each system retrieves for each question: ranks, scores, chunks and documents, per dataset and system."""
    from rageval_dagster.evaluation.asking import run_retrieval
    from rageval_dagster.evaluation.stages import each_evaluation, open_evaluations

    renew_left_out(step, store, plan, generator, embedding)
    load = systems.loader(step.client_id, step.run_id)
    opened = open_evaluations(step.db, plan.request(step.client_id), load, step.run_id)
    documents = store.open()
    return each_evaluation(
        step.db,
        opened,
        step.run_id,
        lambda evaluation: run_retrieval(
            step.db, documents, load(evaluation.system), evaluation, step.progress("questions retrieved")
        ),
        step.context.log.warning,
    )


@client_asset("evaluation", "item_results", deps=[retrieval_runs], pool="llm")
def generated_answers(step: Step, store: DocumentStore, plan: EvaluationPlan, systems: RagSystems) -> Metadata:
    """What each system answers from the contexts it retrieved, with citations, or that it declines."""
    from rageval_dagster.evaluation.asking import run_answers
    from rageval_dagster.evaluation.stages import each_evaluation, evaluations_of

    load = systems.loader(step.client_id, step.run_id)
    return each_evaluation(
        step.db,
        evaluations_of(step.db, plan.request(step.client_id)),
        step.run_id,
        lambda evaluation: run_answers(
            step.db,
            store.open,
            load(evaluation.system),
            evaluation,
            systems.answers_max_age_days(step.client_id),
            step.progress("questions answered"),
        ),
    )


@client_asset("evaluation", "metric_scores", deps=[generated_answers], pool="llm")
def metric_scores(step: Step, plan: EvaluationPlan, judging: Judging, settings: RunSettings) -> Metadata:
    """Every metric of every question, each with a typed outcome: scored, undefined or error, never made up."""
    from rageval_dagster.evaluation.scoring import run_scoring
    from rageval_dagster.evaluation.stages import each_evaluation, evaluations_of

    tools = judging.tools(step.client_id, step.run_id)
    max_age = settings.read().llm_cache_max_age_days
    return each_evaluation(
        step.db,
        evaluations_of(step.db, plan.request(step.client_id)),
        step.run_id,
        lambda evaluation: run_scoring(
            step.db,
            evaluation,
            judging.metrics(step.client_id, evaluation.k),
            tools,
            max_age,
            step.progress("outcomes computed"),
        ),
    )
