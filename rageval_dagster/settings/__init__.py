"""Settings: environment variables, `.env` and `rageval.toml`, read into one frozen object for each client."""

from rageval_dagster.settings.loading import CONFIG_FILE, describe, load_settings
from rageval_dagster.settings.model import (
    BROKER_VARIABLE,
    DAGSTER_DATABASE_VARIABLE,
    DEFAULT_EMBEDDING_MODEL,
    LAUNCHER_VARIABLE,
    JudgeWeights,
    Setting,
    Settings,
)
from rageval_dagster.settings.systems import (
    BUILT_IN_SYSTEMS,
    CallableDefinition,
    ContextFields,
    HttpDefinition,
    RecordedDefinition,
    ResponseFields,
    SystemDefinition,
)

__all__ = [
    "BROKER_VARIABLE",
    "BUILT_IN_SYSTEMS",
    "CONFIG_FILE",
    "DAGSTER_DATABASE_VARIABLE",
    "DEFAULT_EMBEDDING_MODEL",
    "LAUNCHER_VARIABLE",
    "CallableDefinition",
    "ContextFields",
    "HttpDefinition",
    "JudgeWeights",
    "RecordedDefinition",
    "ResponseFields",
    "Setting",
    "Settings",
    "SystemDefinition",
    "describe",
    "load_settings",
]
