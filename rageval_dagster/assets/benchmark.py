"""Benchmark assets: a sample of chunks, questions written about them, and those that pass the rules as a dataset."""

import dagster as dg

from rageval_dagster.assets.checks import rule_check_specs, rule_results
from rageval_dagster.assets.columns import client_asset
from rageval_dagster.assets.corpus import corpus_version
from rageval_dagster.assets.progress import log_progress
from rageval_dagster.resources import (
    ClientLease,
    DocumentStore,
    Embedding,
    EvaluationPlan,
    HistoryDatabase,
    QuestionGenerator,
)


@client_asset("benchmark", "chunk_samples", deps=[corpus_version])
def chunk_sample(
    context: dg.AssetExecutionContext,
    database: HistoryDatabase,
    store: DocumentStore,
    lease: ClientLease,
    plan: EvaluationPlan,
) -> dg.MaterializeResult:
    """The chunks that questions are written about: seeded, consistent, with a quota per document."""
    from rageval_dagster.benchmark.renewal import renew_sample

    client_id = database.client_of(context.partition_key)
    renewal = renew_sample(database.open(), store.open(), client_id, plan.benchmark(client_id))
    context.log.info(renewal.reason)
    return dg.MaterializeResult(metadata=renewal.metadata())


@client_asset("benchmark", "qa_candidates", deps=[chunk_sample], pool="llm")
def synthetic_qa(
    context: dg.AssetExecutionContext,
    database: HistoryDatabase,
    store: DocumentStore,
    lease: ClientLease,
    plan: EvaluationPlan,
    generator: QuestionGenerator,
) -> dg.MaterializeResult:
    """A question and answer for each sampled chunk, with the quote that proves it, or the reason why there is none."""
    from rageval_dagster.benchmark.renewal import renew_candidates

    client_id = database.client_of(context.partition_key)
    report = renew_candidates(
        database.open(),
        store.open(),
        client_id,
        plan.benchmark(client_id),
        generator.open(client_id, context.run.run_id),
        log_progress(context, "chunks asked about", database),
    )
    usage = generator.usage(client_id, context.run.run_id)
    return dg.MaterializeResult(metadata=report.metadata() | usage)


@client_asset(
    "benchmark",
    "benchmark_items",
    deps=[synthetic_qa],
    kinds={"greatexpectations", "sql"},
    check_specs=rule_check_specs("validated_benchmark"),
)
def validated_benchmark(
    context: dg.AssetExecutionContext,
    database: HistoryDatabase,
    store: DocumentStore,
    lease: ClientLease,
    plan: EvaluationPlan,
    embedding: Embedding,
) -> dg.MaterializeResult:
    """The pairs that pass the quality rules, frozen as a dataset version; the others keep their reasons."""
    from rageval_dagster.benchmark.renewal import renew_dataset

    client_id = database.client_of(context.partition_key)
    report = renew_dataset(
        database.open(),
        store.open(),
        client_id,
        plan.benchmark(client_id),
        embedding.for_metrics(client_id),
    )
    context.log.info(report.made or report.reason)
    return dg.MaterializeResult(metadata=report.metadata(), check_results=rule_results(report.rules))
