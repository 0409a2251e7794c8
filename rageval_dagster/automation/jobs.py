"""The evaluation job: the whole chain for one client."""

import dagster as dg

EVALUATION_JOB = "evaluation"
BENCHMARK_JOB = "benchmark"

evaluation_job = dg.define_asset_job(
    EVALUATION_JOB,
    selection=dg.AssetSelection.groups("corpus", "benchmark", "evaluation", "history").materializable(),
    description="Scans a client's documents, renews its benchmark where due, evaluates and scores its RAG system.",
)

benchmark_job = dg.define_asset_job(
    BENCHMARK_JOB,
    selection=dg.AssetSelection.groups("corpus", "benchmark").materializable(),
    description="Scans a client's documents and renews its benchmark, without evaluating anything.",
)
