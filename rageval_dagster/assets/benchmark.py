"""Benchmark assets: a sample of chunks, questions written about them, and those that pass the rules as a dataset."""

import dagster as dg

from rageval_dagster.assets.checks import rules_check_spec, rules_result
from rageval_dagster.assets.corpus import corpus_version
from rageval_dagster.assets.step import Step, client_asset
from rageval_dagster.resources import DocumentStore, Embedding, EvaluationPlan, QuestionGenerator


@client_asset("benchmark", "chunk_samples", deps=[corpus_version])
def chunk_sample(step: Step, store: DocumentStore, plan: EvaluationPlan) -> dg.MaterializeResult:
    """The chunks that questions are written about: seeded, consistent, with a quota per document."""
    return _draw(step, store, plan)


def _draw(step: Step, store: DocumentStore, plan: EvaluationPlan) -> dg.MaterializeResult:
    from rageval_dagster.benchmark.renewal import renew_sample

    renewal = renew_sample(step.db, store.open(), step.client_id, plan.benchmark(step.client_id))
    step.context.log.info(renewal.reason)
    return dg.MaterializeResult(metadata=renewal.metadata())


@client_asset("benchmark", "qa_candidates", deps=[chunk_sample], pool="llm")
def synthetic_qa(
    step: Step, store: DocumentStore, plan: EvaluationPlan, generator: QuestionGenerator
) -> dg.MaterializeResult:
    """A question and answer for each sampled chunk, with the quote that proves it, or the reason why there is none."""
    return _write(step, store, plan, generator)


def _write(
    step: Step, store: DocumentStore, plan: EvaluationPlan, generator: QuestionGenerator
) -> dg.MaterializeResult:
    from rageval_dagster.benchmark.renewal import renew_candidates

    report = renew_candidates(
        step.db,
        store.open(),
        step.client_id,
        plan.benchmark(step.client_id),
        generator.open(step.client_id, step.run_id),
        step.progress("chunks asked about"),
    )
    return dg.MaterializeResult(metadata=report.metadata() | generator.usage(step.client_id, step.run_id))


@client_asset(
    "benchmark",
    "benchmark_items",
    deps=[synthetic_qa],
    kinds={"greatexpectations", "sql"},
    check_specs=[rules_check_spec("validated_benchmark")],
)
def validated_benchmark(
    step: Step, store: DocumentStore, plan: EvaluationPlan, embedding: Embedding
) -> dg.MaterializeResult:
    """The pairs that pass the quality rules, frozen as a dataset version; the others keep their reasons."""
    return _validate(step, store, plan, embedding)


def _validate(step: Step, store: DocumentStore, plan: EvaluationPlan, embedding: Embedding) -> dg.MaterializeResult:
    from rageval_dagster.benchmark.renewal import renew_dataset

    report = renew_dataset(
        step.db,
        store.open(),
        step.client_id,
        plan.benchmark(step.client_id),
        embedding.for_metrics(step.client_id),
    )
    step.context.log.info(report.made or report.reason)
    return dg.MaterializeResult(metadata=report.metadata(), check_results=[rules_result(report.rules)])


def renew_left_out(
    step: Step, store: DocumentStore, plan: EvaluationPlan, generator: QuestionGenerator, embedding: Embedding
) -> None:
    """Makes the benchmark's assets in a run that left them out, where its scan found that one is due all the same.

    Whoever asked for the run knew of no change. Dagster is told as if each asset had been made by a step of its own.

    Raises:
        DatasetError: a blocking rule does not hold.
    """
    from rageval_dagster.benchmark.due import fresh_clients

    if not plan.renewal_left_out:
        return
    if fresh_clients(step.db, {step.client_id: plan.benchmark(step.client_id)}):
        return
    step.materialized(chunk_sample.key, _draw(step, store, plan))
    step.materialized(synthetic_qa.key, _write(step, store, plan, generator))
    step.materialized(validated_benchmark.key, _validate(step, store, plan, embedding))
