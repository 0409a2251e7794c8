"""The jobs: the whole chain for one client, and its part that makes a benchmark."""

from types import ModuleType

import dagster as dg

from rageval_dagster.assets import benchmark, corpus, evaluation, history

EVALUATION_JOB = "rageval_evaluation"
BENCHMARK_JOB = "rageval_benchmark"


def _materializable(*modules: ModuleType) -> list[dg.AssetKey]:
    """Keys, not groups: a deployment may have other assets in groups of the same names."""
    assets = dg.load_assets_from_modules(modules)
    return [key for each in assets if isinstance(each, dg.AssetsDefinition) for key in sorted(each.keys)]


_BENCHMARK_KEYS = _materializable(corpus, benchmark)
_EVALUATION_KEYS = [*_BENCHMARK_KEYS, *_materializable(evaluation, history)]

ASSET_KEYS = [corpus.document_store.key, *_EVALUATION_KEYS]
"""Of all assets of this project."""

evaluation_job = dg.define_asset_job(
    EVALUATION_JOB,
    selection=dg.AssetSelection.assets(*_EVALUATION_KEYS),
    description="Scans a client's documents, renews its benchmark where due, evaluates and scores its RAG system.",
    # Models load once: one process a run. Parallelism is across clients.
    executor_def=dg.in_process_executor,
)

benchmark_job = dg.define_asset_job(
    BENCHMARK_JOB,
    selection=dg.AssetSelection.assets(*_BENCHMARK_KEYS),
    description="Scans a client's documents and renews its benchmark, without evaluating anything.",
    executor_def=dg.in_process_executor,
)
