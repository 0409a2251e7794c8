"""The one Dagster `Definitions` of the project: what exists, when it runs, what it talks to."""

import dagster as dg

from rageval_dagster.assets import benchmark, corpus, evaluation, experiments, history
from rageval_dagster.automation.alerts import alert_sensor
from rageval_dagster.automation.dead_runs import dead_run_sensor
from rageval_dagster.automation.experiments import experiment_open_job, experiment_sensor
from rageval_dagster.automation.jobs import benchmark_job, evaluation_job, experiment_copies_job, experiment_job
from rageval_dagster.automation.progress import PROGRESS_LOGGER, progress_logger
from rageval_dagster.automation.retention import retention_job, retention_schedule
from rageval_dagster.automation.schedules import evaluation_schedules
from rageval_dagster.automation.sensors import document_store_sensor
from rageval_dagster.resources import (
    PREFIX,
    ClientLease,
    DocumentStore,
    Embedding,
    EvaluationPlan,
    HistoryDatabase,
    Judging,
    QuestionGenerator,
    RagSystems,
    RunSettings,
)

_database = HistoryDatabase()
_settings = RunSettings(database=_database)
_store = DocumentStore(settings=_settings)
_embedding = Embedding(database=_database, settings=_settings)

defs = dg.Definitions(
    assets=dg.load_assets_from_modules([corpus, benchmark, evaluation, history, experiments]),
    jobs=[
        *(evaluation_job, benchmark_job, retention_job),
        *(experiment_open_job, experiment_copies_job, experiment_job),
    ],
    schedules=[*evaluation_schedules(), retention_schedule],
    sensors=[document_store_sensor(), dead_run_sensor(), alert_sensor(), experiment_sensor()],
    resources={
        f"{PREFIX}database": _database,
        f"{PREFIX}settings": _settings,
        f"{PREFIX}store": _store,
        f"{PREFIX}lease": ClientLease(database=_database),
        f"{PREFIX}plan": EvaluationPlan(settings=_settings),
        f"{PREFIX}embedding": _embedding,
        f"{PREFIX}judging": Judging(database=_database, settings=_settings, embedding=_embedding),
        f"{PREFIX}generator": QuestionGenerator(database=_database, settings=_settings),
        f"{PREFIX}systems": RagSystems(database=_database, store=_store, settings=_settings),
    },
    # With Dagster's own as it is, and no executor for all: both would hold for whatever these are merged with.
    loggers={"console": dg.colored_console_logger, PROGRESS_LOGGER: progress_logger},
)
