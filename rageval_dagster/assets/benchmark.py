"""Benchmark assets: a sample of chunks, questions written about them, and those that pass the rules as a dataset."""

import dagster as dg

from rageval_dagster.assets.checks import rule_check_specs, rule_results
from rageval_dagster.assets.columns import SCHEMA, table_schema
from rageval_dagster.assets.corpus import corpus_version
from rageval_dagster.assets.partitions import OWNERS, clients_partitions
from rageval_dagster.assets.progress import log_progress
from rageval_dagster.resources import (
    ClientLease,
    DocumentStore,
    Embedding,
    EvaluationPlan,
    HistoryDatabase,
    QuestionGenerator,
)
from rageval_dagster.resources.textless import without_texts


@dg.asset(
    group_name="benchmark",
    kinds={"python", "sql"},
    owners=OWNERS,
    deps=[corpus_version],
    partitions_def=clients_partitions,
    metadata={SCHEMA: table_schema("chunk_samples")},
)
@without_texts
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


@dg.asset(
    group_name="benchmark",
    kinds={"python", "sql"},
    owners=OWNERS,
    deps=[chunk_sample],
    partitions_def=clients_partitions,
    pool="llm",
    metadata={SCHEMA: table_schema("qa_candidates")},
)
@without_texts
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
        log_progress(context, "chunks asked about", database, client_id),
    )
    usage = generator.usage(client_id, context.run.run_id)
    return dg.MaterializeResult(metadata=report.metadata() | usage)


@dg.asset(
    group_name="benchmark",
    kinds={"greatexpectations", "sql"},
    owners=OWNERS,
    deps=[synthetic_qa],
    partitions_def=clients_partitions,
    check_specs=rule_check_specs("validated_benchmark"),
    metadata={SCHEMA: table_schema("benchmark_items")},
)
@without_texts
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
    context.log.info(report.reason)
    return dg.MaterializeResult(metadata=report.metadata(), check_results=rule_results(report.rules))
