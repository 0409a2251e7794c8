"""The jobs: the whole chain for one client, its part that makes a benchmark, and those of experiments."""

from types import ModuleType

import dagster as dg

from rageval_dagster.assets import benchmark, corpus, evaluation, experiments, history

EVALUATION_JOB = "rageval_evaluation"
BENCHMARK_JOB = "rageval_benchmark"
EXPERIMENT_COPIES_JOB = "rageval_experiment_copies"
EXPERIMENT_JOB = "rageval_experiments"


def _materializable(*modules: ModuleType) -> list[dg.AssetKey]:
    """Keys, not groups: a deployment may have other assets in groups of the same names."""
    assets = dg.load_assets_from_modules(modules)
    made = [each for each in assets if isinstance(each, dg.AssetsDefinition) and each.is_materializable]
    return [key for each in made for key in sorted(each.keys)]


_BENCHMARK_KEYS = _materializable(corpus, benchmark)
_EVALUATION_KEYS = [*_BENCHMARK_KEYS, *_materializable(evaluation, history)]

_EXPERIMENT_KEYS = _materializable(experiments)

UNDUE_KEYS = [
    corpus.corpus_version.key,
    *(evaluation.retrieval_runs.key, evaluation.generated_answers.key, evaluation.metric_scores.key),
    *(history.evaluation_runs.key, history.evaluation_report.key),
]
"""What the evaluation job makes of a client of which no dataset is due: all but the benchmark."""

ASSET_KEYS = [corpus.document_store.key, *_EVALUATION_KEYS, *history.history_views.keys, *_EXPERIMENT_KEYS]
"""Of all assets of this project."""

evaluation_job = dg.define_asset_job(
    EVALUATION_JOB,
    selection=dg.AssetSelection.assets(*_EVALUATION_KEYS),
    description="Scans a client's documents, renews its benchmark if due, evaluates and scores its RAG system.",
    # Models load once: one process a run. Parallelism is across clients.
    executor_def=dg.in_process_executor,
)

benchmark_job = dg.define_asset_job(
    BENCHMARK_JOB,
    selection=dg.AssetSelection.assets(*_BENCHMARK_KEYS),
    description="Scans a client's documents and renews its benchmark, without evaluating anything.",
    executor_def=dg.in_process_executor,
)

experiment_copies_job = dg.define_asset_job(
    EXPERIMENT_COPIES_JOB,
    selection=dg.AssetSelection.assets(experiments.experiment_copies),
    description="Makes the copies of a client's documents that an experiment searches.",
    executor_def=dg.in_process_executor,
)

experiment_job = dg.define_asset_job(
    EXPERIMENT_JOB,
    selection=dg.AssetSelection.assets(experiments.experiment_trials),
    description="Tries one configuration of an experiment on some questions; several configurations are tried at once.",
    executor_def=dg.in_process_executor,
)
