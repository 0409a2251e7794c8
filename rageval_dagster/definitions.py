"""The one Dagster `Definitions` of the project: what exists, when it runs, what it talks to."""

import warnings

import dagster as dg

# Checks with partitions_def are a preview of Dagster 1.13: known, pinned, and needed (one status per client).
warnings.filterwarnings("ignore", category=dg.PreviewWarning)
warnings.filterwarnings("ignore", category=dg.BetaWarning)

from rageval_dagster.assets import benchmark, checks, corpus, evaluation, history  # noqa: E402
from rageval_dagster.automation.jobs import benchmark_job, evaluation_job  # noqa: E402
from rageval_dagster.automation.progress import progress_logger  # noqa: E402
from rageval_dagster.automation.retention import retention_job, retention_schedule  # noqa: E402
from rageval_dagster.automation.schedules import evaluation_schedules  # noqa: E402
from rageval_dagster.automation.sensors import document_store_sensor  # noqa: E402
from rageval_dagster.resources import (  # noqa: E402
    ClientLease,
    DocumentStore,
    Embedding,
    EvaluationPlan,
    HistoryDatabase,
    Judging,
    QuestionGenerator,
    RagSystems,
)

_database = HistoryDatabase()
_store = DocumentStore()
_embedding = Embedding(database=_database)

defs = dg.Definitions(
    assets=dg.load_assets_from_modules([corpus, benchmark, evaluation, history]),
    asset_checks=checks.asset_checks(),
    jobs=[evaluation_job, benchmark_job, retention_job],
    schedules=[*evaluation_schedules(), retention_schedule],
    sensors=[document_store_sensor()],
    resources={
        "database": _database,
        "store": _store,
        "lease": ClientLease(database=_database),
        "plan": EvaluationPlan.configure_at_launch(),
        "embedding": _embedding,
        "judging": Judging(database=_database, embedding=_embedding),
        "generator": QuestionGenerator(database=_database),
        "systems": RagSystems(database=_database, store=_store),
    },
    loggers={"console": dg.colored_console_logger.configured({"log_level": "INFO"}), "progress": progress_logger},
    # Models load once: one process a run. Parallelism is across clients.
    executor=dg.in_process_executor,
)
