"""Benchmark assets: a sample of chunks, questions written about them, and those that pass the rules as a dataset."""

import dagster as dg

from rageval_dagster.assets.checks import rule_check_specs, rule_results
from rageval_dagster.assets.corpus import corpus_version
from rageval_dagster.assets.step import Metadata, Step, client_asset
from rageval_dagster.resources import DocumentStore, Embedding, EvaluationPlan, QuestionGenerator


@client_asset("benchmark", "chunk_samples", deps=[corpus_version])
def chunk_sample(step: Step, store: DocumentStore, plan: EvaluationPlan) -> Metadata:
    """The chunks that questions are written about: seeded, consistent, with a quota per document."""
    from rageval_dagster.benchmark.renewal import renew_sample

    renewal = renew_sample(step.db, store.open(), step.client_id, plan.benchmark(step.client_id))
    step.context.log.info(renewal.reason)
    return renewal.metadata()


@client_asset("benchmark", "qa_candidates", deps=[chunk_sample], pool="llm")
def synthetic_qa(step: Step, store: DocumentStore, plan: EvaluationPlan, generator: QuestionGenerator) -> Metadata:
    """A question and answer for each sampled chunk, with the quote that proves it, or the reason why there is none."""
    from rageval_dagster.benchmark.renewal import renew_candidates

    report = renew_candidates(
        step.db,
        store.open(),
        step.client_id,
        plan.benchmark(step.client_id),
        generator.open(step.client_id, step.run_id),
        step.progress("chunks asked about"),
    )
    return report.metadata() | generator.usage(step.client_id, step.run_id)


@client_asset(
    "benchmark",
    "benchmark_items",
    deps=[synthetic_qa],
    kinds={"greatexpectations", "sql"},
    check_specs=rule_check_specs("validated_benchmark"),
)
def validated_benchmark(
    step: Step, store: DocumentStore, plan: EvaluationPlan, embedding: Embedding
) -> dg.MaterializeResult:
    """The pairs that pass the quality rules, frozen as a dataset version; the others keep their reasons."""
    from rageval_dagster.benchmark.renewal import renew_dataset

    report = renew_dataset(
        step.db,
        store.open(),
        step.client_id,
        plan.benchmark(step.client_id),
        embedding.for_metrics(step.client_id),
    )
    step.context.log.info(report.made or report.reason)
    return dg.MaterializeResult(metadata=report.metadata(), check_results=rule_results(report.rules))
