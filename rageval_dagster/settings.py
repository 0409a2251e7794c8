"""Settings: environment variables and `.env`, read once into one frozen object."""

import os
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from rageval_dagster.errors import SettingsError

DEFAULT_EMBEDDING_MODEL = "sentence-transformers/all-MiniLM-L6-v2"

_PositiveInt = Annotated[int, Field(ge=1)]
_Share = Annotated[float, Field(ge=0.0, le=1.0)]


def _setting(variable: str, default: Any, takes: str) -> Any:
    return Field(default=default, alias=variable, description=takes)


class Settings(BaseModel):
    """Every setting with its default. A field's alias is its environment variable, its description what it takes."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, extra="forbid")

    # When evaluations happen, and how large they are.
    enabled: bool = _setting("EVALUATION_ENABLED", True, "true or false")
    schedule_cron: str = _setting("EVALUATION_SCHEDULE_CRON", "0 2 * * *", "a cron expression in UTC")
    sample_size: _PositiveInt = _setting("EVALUATION_DEFAULT_SAMPLE_SIZE", 50, "a whole number of at least 1")
    k: _PositiveInt = _setting("EVALUATION_DEFAULT_K", 5, "a whole number of at least 1")
    auto_generate_datasets: bool = _setting("EVALUATION_AUTO_GENERATE_DATASETS", True, "true or false")
    dataset_max_age_days: float = Field(
        default=7, alias="EVALUATION_DATASET_MAX_AGE_DAYS", ge=0, description="a number of days, 0 or more"
    )

    # Answers.
    citation_required: bool = _setting("RAG__CITATION_REQUIRED", True, "true or false")

    # Where things live.
    home_dir: str = _setting("RAGEVAL_HOME", ".rageval", "a folder")
    database_url_setting: SecretStr | None = _setting("RAGEVAL_DATABASE_URL", None, "a database URL")
    chroma_url: str | None = _setting("RAGEVAL_CHROMA_URL", None, "http(s)://host:port of a Chroma server")
    chroma_path: str | None = _setting("RAGEVAL_CHROMA_PATH", None, "the folder of an embedded Chroma")
    chroma_token: SecretStr | None = _setting("RAGEVAL_CHROMA_TOKEN", None, "the Chroma server's token")
    chroma_tenant: str = _setting("RAGEVAL_CHROMA_TENANT", "default_tenant", "a Chroma tenant")
    chroma_database: str = _setting("RAGEVAL_CHROMA_DATABASE", "default_database", "a Chroma database")
    client_field: str | None = _setting("RAGEVAL_CLIENT_FIELD", None, "the metadata field that names the client")
    document_field: str | None = _setting("RAGEVAL_DOCUMENT_FIELD", None, "the metadata field that names the document")
    added_at_field: str = _setting("RAGEVAL_ADDED_AT_FIELD", "added_at", "the metadata field of the time of adding")
    page_field: str = _setting("RAGEVAL_PAGE_FIELD", "page", "the metadata field of the page")

    # Models.
    embedding_model: str = _setting("RAGEVAL_EMBEDDING_MODEL", DEFAULT_EMBEDDING_MODEL, "a model's name or path")
    metric_embedding_model: str = _setting(
        "RAGEVAL_METRIC_EMBEDDING_MODEL", DEFAULT_EMBEDDING_MODEL, "a model's name or path"
    )
    openai_api_key: SecretStr | None = _setting("OPENAI_API_KEY", None, "an API key")
    openai_base_url: str | None = _setting("OPENAI_BASE_URL", None, "http(s)://host/v1 of an OpenAI-compatible API")
    generator_model: str | None = _setting("RAGEVAL_GENERATOR_MODEL", None, "the name of a chat model")
    generator_base_url: str | None = _setting("RAGEVAL_GENERATOR_BASE_URL", None, "http(s)://host/v1")
    generator_api_key: SecretStr | None = _setting("RAGEVAL_GENERATOR_API_KEY", None, "an API key")
    answer_model: str | None = _setting("RAGEVAL_ANSWER_MODEL", None, "the name of a chat model")
    answer_base_url: str | None = _setting("RAGEVAL_ANSWER_BASE_URL", None, "http(s)://host/v1")
    answer_api_key: SecretStr | None = _setting("RAGEVAL_ANSWER_API_KEY", None, "an API key")
    llm_concurrency: _PositiveInt = _setting("RAGEVAL_LLM_CONCURRENCY", 16, "a whole number of at least 1")
    llm_timeout_s: float = Field(default=60, alias="RAGEVAL_LLM_TIMEOUT_S", gt=0, description="seconds, more than 0")
    llm_max_attempts: _PositiveInt = _setting("RAGEVAL_LLM_MAX_ATTEMPTS", 10, "a whole number of at least 1")
    llm_cache_max_age_days: float = Field(
        default=30, alias="RAGEVAL_LLM_CACHE_MAX_AGE_DAYS", ge=0, description="a number of days, 0 or more"
    )

    # Judging an evaluation.
    max_error_share: _Share = _setting("RAGEVAL_MAX_ERROR_SHARE", 0.05, "a number from 0 to 1")
    settle_s: float = Field(default=60, alias="RAGEVAL_SETTLE_S", ge=0, description="seconds, 0 or more")
    text_in_dagster: bool = _setting("RAGEVAL_TEXT_IN_DAGSTER", False, "true or false")

    @cached_property
    def home(self) -> Path:
        """The project's own folder, absolute."""
        return Path(self.home_dir).expanduser().absolute()

    @property
    def dagster_home(self) -> Path:
        return self.home / "dagster"

    @property
    def database_url(self) -> str:
        """The history database's URL; may hold a password, so it is never logged as it is."""
        if self.database_url_setting is not None:
            return self.database_url_setting.get_secret_value()
        return f"sqlite:///{self.home / 'rageval.sqlite3'}"

    @property
    def embedded_chroma_path(self) -> Path:
        if self.chroma_path is not None:
            return Path(self.chroma_path).expanduser().absolute()
        return self.home / "chroma"

    def ensure_home(self) -> Path:
        """Makes RAGEVAL_HOME, readable by its owner only (SECURITY.md line 10)."""
        try:
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.home.chmod(0o700)
            self.dagster_home.mkdir(exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=self.home):
                pass
        except OSError as error:
            raise SettingsError(
                f"RAGEVAL_HOME: the folder {self.home} cannot be written ({error.strerror}); name one that can"
            ) from None
        return self.home


def load_settings(environment: Mapping[str, str] | None = None, env_file: Path | None = None) -> Settings:
    """Reads the settings from the environment, then `.env` of the working directory.

    An empty value counts as not set. A secret may come from a file: NAME_FILE names it.

    Raises:
        SettingsError: naming the variable, its value unless secret, and what it takes.
    """
    values = _read_env_file(env_file or Path(".env"))
    values.update(os.environ if environment is None else environment)
    chosen: dict[str, str] = {}
    for field in Settings.model_fields.values():
        variable = str(field.alias)
        file_name = values.get(f"{variable}_FILE")
        if values.get(variable):
            chosen[variable] = values[variable].strip()
        elif file_name and _is_secret(field.annotation):
            chosen[variable] = _read_secret(variable, file_name)
    try:
        return Settings.model_validate(chosen)
    except ValidationError as error:
        raise SettingsError("; ".join(_explain(entry["loc"][0], chosen) for entry in error.errors())) from None


def _is_secret(annotation: Any) -> bool:
    return annotation == (SecretStr | None)


def _explain(variable: Any, chosen: Mapping[str, str]) -> str:
    field = next(field for field in Settings.model_fields.values() if field.alias == variable)
    given = "" if _is_secret(field.annotation) else f", not {chosen[variable]!r}"
    return f"{variable} takes {field.description}{given}"


def _read_env_file(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    from dotenv import dotenv_values

    return {name: value for name, value in dotenv_values(path).items() if value is not None}


def _read_secret(variable: str, file_name: str) -> str:
    try:
        return Path(file_name).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingsError(f"{variable}_FILE: cannot read {file_name} ({error.strerror})") from None
