"""Settings: environment variables, `.env` and `rageval.toml`, read into one frozen object for each client."""

from rageval_dagster.settings.loading import CONFIG_FILE, describe, load_settings
from rageval_dagster.settings.model import DEFAULT_EMBEDDING_MODEL, JudgeWeights, Setting, Settings
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
    "BUILT_IN_SYSTEMS",
    "CONFIG_FILE",
    "DEFAULT_EMBEDDING_MODEL",
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
