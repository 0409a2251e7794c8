"""The settings as one frozen object: every one with its default, its variable, and what it takes."""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PrivateAttr, SecretStr, model_validator

from rageval_dagster.errors import SettingsError, unwritable
from rageval_dagster.settings.styles import TAKES, are_styles
from rageval_dagster.settings.systems import BUILT_IN_SYSTEMS, RecordedDefinition, SystemDefinition, Table

LAUNCHER_VARIABLE = "RAGEVAL_LAUNCHER"
BROKER_VARIABLE = "RAGEVAL_BROKER_URL"
DAGSTER_DATABASE_VARIABLE = "RAGEVAL_DAGSTER_DATABASE_URL"
DEFAULT_EMBEDDING_MODEL = "sentence-transformers/all-MiniLM-L6-v2"

_PositiveInt = Annotated[int, Field(ge=1)]
_Share = Annotated[float, Field(ge=0.0, le=1.0)]
_MOST_DAYS = 36_500
_Days = Annotated[float, Field(ge=0, le=_MOST_DAYS)]
_FLAG, _COUNT, _SHARE_OF_1 = "true or false", "a whole number of at least 1", "a number from 0 to 1"
_EMBEDDER, _CHAT_MODEL = "a model's name or path", "the name of a chat model"
_CHAT_URL, _KEY = "http(s)://host/v1", "an API key"
_DAYS = f"a number of days from 0 to {_MOST_DAYS}"
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Cost = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Language = Annotated[str, Field(pattern=r"^[a-z]{2}$")]


_MODELS = ("generator_model", "answer_model", "judge_model")

_NOT_FROZEN = {
    *("enabled", "schedule", "settle_s", "rescan_hours", "fresh_hours", "alert_webhook_url"),
    *("chroma_url", "chroma_path", "chroma_token", "chroma_headers", "chroma_tenant", "chroma_database"),
    *("include", "exclude", "collection", "client_field"),
    *("llm", "redact", "retention_days_text", "retention_days_scores"),
    *("llm_concurrency", "llm_timeout_s", "llm_max_attempts", "llm_max_cost_usd", "llm_max_tokens", "budget"),
}
"""What a run takes as it is when it works, not when it was asked for: when and where things are, who is told, what may
be spent, and what protects documents."""


def _checked_styles(styles: tuple[str, ...]) -> tuple[str, ...]:
    if not are_styles(styles):
        raise ValueError(TAKES)
    return styles


_Styles = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: [style.strip() for style in value.split("|")] if isinstance(value, str) else value),
    AfterValidator(_checked_styles),
]
_Names = Annotated[tuple[str, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


def _setting(
    variable: str | None, default: Any, takes: str, scope: Literal["client", "file", "table", "machine"] = "client"
) -> Any:
    """A setting. Scope `client`: rageval.toml may set it for one client; `file`: for all; `machine`: not at all.

    A `table` stands in rageval.toml by itself, beside [defaults].
    """
    return Field(default=default, alias=variable, description=takes, json_schema_extra={"scope": scope})


def _of_schemes(*schemes: str) -> AfterValidator:
    def check(url: SecretStr | None) -> SecretStr | None:
        if url is not None and url.get_secret_value().partition("://")[0] not in schemes:
            raise ValueError("another kind of URL")
        return url

    return AfterValidator(check)


class Budget(Table):
    """What models may cost a day (UTC): US dollars, tokens in and out together, or both."""

    cost_usd: _Cost | None = None
    tokens: _PositiveInt | None = None


class Price(Table):
    """US dollars per million tokens sent to a model (`in`) and received from it (`out`)."""

    model_config = ConfigDict(populate_by_name=True)

    into: Annotated[_Amount, Field(alias="in")]
    out: _Amount


class JudgeWeights(Table):
    """How much each dimension of `judge.overall` counts; only their ratios matter (seed 002's by default)."""

    faithfulness: _Amount = 0.35
    answer_relevance: _Amount = 0.25
    citation_quality: _Amount = 0.20
    completeness: _Amount = 0.20
    correctness: _Amount = 0.30

    @model_validator(mode="after")
    def _any_counts(self) -> Self:
        # Correctness alone would leave nothing where there is no reference.
        if not any((self.faithfulness, self.answer_relevance, self.citation_quality, self.completeness)):
            raise ValueError("a weight above 0 for a dimension that needs no reference")
        return self


class Fleet(Table):
    """What holds for all clients together."""

    budget: Budget = Budget()


@dataclass(frozen=True)
class Setting:
    """One setting as it holds for a client: its value (of a secret only whether it is set) and where it comes from."""

    name: str
    value: Any
    source: str


class Source(Protocol):
    """Where settings come from: the layers of one working directory (`loading.SettingsSource`)."""

    config_file: Path

    @property
    def client_names(self) -> tuple[str, ...]: ...

    def settings(self, client_id: str | None = None) -> "Settings": ...

    def collections(self) -> dict[str, str]: ...

    def described(self, client_id: str | None) -> list[Setting]: ...

    def to_freeze(self, client_id: str) -> dict[str, Any]: ...

    def frozen(self, client_id: str, values: Mapping[str, Any]) -> "Settings": ...

    def secret(self, variable: str) -> SecretStr | None: ...

    def unknown_variables(self) -> list[str]: ...


class Settings(Table):
    """Every setting with its default. A field's alias is its environment variable, its description what it takes.

    In rageval.toml a setting has the field's name.
    """

    model_config = ConfigDict(populate_by_name=True)

    # When evaluations happen, and how large they are.
    enabled: bool = _setting("EVALUATION_ENABLED", True, _FLAG)
    schedule: str = _setting("EVALUATION_SCHEDULE_CRON", "0 2 * * *", "a cron expression in UTC")
    sample_size: _PositiveInt = _setting("EVALUATION_DEFAULT_SAMPLE_SIZE", 50, _COUNT)
    k: Annotated[int, Field(ge=1, le=1000)] = _setting("EVALUATION_DEFAULT_K", 5, "a whole number from 1 to 1000")
    auto_generate_datasets: bool = _setting("EVALUATION_AUTO_GENERATE_DATASETS", True, _FLAG)
    dataset_max_age_days: _Days = _setting("EVALUATION_DATASET_MAX_AGE_DAYS", 7, _DAYS)
    target_items: _PositiveInt = _setting("EVALUATION_TARGET_ITEMS", 200, _COUNT)
    settle_s: Annotated[float, Field(ge=0)] = _setting("RAGEVAL_SETTLE_S", 60, "seconds, 0 or more", "file")
    rescan_hours: Annotated[float, Field(gt=0)] = _setting("RAGEVAL_RESCAN_HOURS", 24, "hours, more than 0")

    # Answers.
    citation_required: bool = _setting("RAG__CITATION_REQUIRED", True, _FLAG)
    min_citation_coverage: _Share = _setting("RAG__MIN_CITATION_COVERAGE", 0.7, _SHARE_OF_1)

    verification_enabled: bool = _setting("RAG__VERIFICATION_ENABLED", True, _FLAG)
    answer_context_tokens: Annotated[int, Field(ge=100)] = _setting(
        "RAGEVAL_ANSWER_CONTEXT_TOKENS", 8_000, "a whole number of at least 100"
    )
    judged_answer_tokens: Annotated[int, Field(ge=100)] = _setting(
        "RAGEVAL_JUDGED_ANSWER_TOKENS", 10_000, "a whole number of at least 100"
    )
    judge_repeats: Annotated[int, Field(ge=1, le=20)] = _setting(
        "RAGEVAL_JUDGE_REPEATS", 1, "a whole number from 1 to 20"
    )

    # Generated questions: the shares of those over two documents, and of those that no document answers; who asks.
    multi_hop_share: _Share = _setting("RAGEVAL_MULTI_HOP_SHARE", 0.2, _SHARE_OF_1)
    unanswerable_share: _Share = _setting("RAGEVAL_UNANSWERABLE_SHARE", 0.1, _SHARE_OF_1)
    question_styles: _Styles | None = _setting("RAGEVAL_QUESTION_STYLES", None, f"{TAKES}; several with | between them")

    # Where things live.
    home_dir: str = _setting("RAGEVAL_HOME", ".rageval", "a folder", "machine")
    database_url_setting: SecretStr | None = _setting("RAGEVAL_DATABASE_URL", None, "a database URL", "machine")
    launcher: Literal["default", "celery", "k8s"] = _setting(
        LAUNCHER_VARIABLE, "default", "default, celery or k8s", "machine"
    )
    broker_url: Annotated[SecretStr | None, _of_schemes("redis", "rediss", "amqp", "amqps")] = _setting(
        BROKER_VARIABLE, None, "redis(s)://... or amqp(s)://...", "machine"
    )
    # Dagster's package brings psycopg2, and without a driver's name SQLAlchemy takes another.
    dagster_database_url: Annotated[SecretStr | None, _of_schemes("postgresql+psycopg2")] = _setting(
        DAGSTER_DATABASE_VARIABLE, None, "postgresql+psycopg2://...", "machine"
    )
    chroma_url: str | None = _setting("RAGEVAL_CHROMA_URL", None, "http(s)://host:port of a Chroma server", "file")
    chroma_path: str | None = _setting("RAGEVAL_CHROMA_PATH", None, "the folder of an embedded Chroma", "file")
    chroma_token: SecretStr | None = _setting("RAGEVAL_CHROMA_TOKEN", None, "the Chroma server's token", "file")
    chroma_headers: SecretStr | None = _setting(
        "RAGEVAL_CHROMA_HEADERS", None, "a JSON object of header names and values", "file"
    )
    chroma_tenant: str = _setting("RAGEVAL_CHROMA_TENANT", "default_tenant", "a Chroma tenant", "file")
    chroma_database: str = _setting("RAGEVAL_CHROMA_DATABASE", "default_database", "a Chroma database", "file")
    client_field: str | None = _setting(
        "RAGEVAL_CLIENT_FIELD", None, "the metadata field that names the client", "file"
    )
    document_field: str | None = _setting("RAGEVAL_DOCUMENT_FIELD", None, "the metadata field that names the document")
    added_at_field: str = _setting("RAGEVAL_ADDED_AT_FIELD", "added_at", "the metadata field of the time of adding")
    page_field: str = _setting("RAGEVAL_PAGE_FIELD", "page", "the metadata field of the page")

    # Which collections are clients, and what one may set for itself.
    include: _Names = _setting(None, ("*",), "patterns of collection names such as ['kb_*']", "file")
    exclude: _Names = _setting(None, (), "patterns of collection names such as ['tmp_*']", "file")
    collection: str | None = _setting(None, None, "a collection's name")
    system: Annotated[_Names, Field(min_length=1)] = _setting(
        None, ("dense",), "the name of a system, or a list of names"
    )
    systems: dict[str, SystemDefinition] = _setting(None, {}, "a table of systems by name")
    language: _Language | None = _setting(None, None, "a language's two letters (ISO 639-1)")
    decline_phrases: _Names = _setting(None, (), "phrases by which the system declines to answer")
    thresholds: dict[str, _Share] = _setting(None, {}, "good values (0 to 1) by metric id")
    redact: str | None = _setting(None, None, "the name of a preset (pii), or package.module:function")
    llm: Literal["allowed", "forbidden"] = _setting(None, "allowed", "allowed or forbidden")
    retention_days_text: _Days = _setting("RAGEVAL_RETENTION_DAYS_TEXT", 90, _DAYS)
    retention_days_scores: _Days = _setting("RAGEVAL_RETENTION_DAYS_SCORES", 730, _DAYS)

    # Models.
    embedding_model: str = _setting("RAGEVAL_EMBEDDING_MODEL", DEFAULT_EMBEDDING_MODEL, _EMBEDDER)
    dense_share: _Share = _setting("RAGEVAL_DENSE_SHARE", 0.5, _SHARE_OF_1)
    reranker: str | None = _setting("RAGEVAL_RERANKER", None, _EMBEDDER)
    metric_embedding_model: str = _setting("RAGEVAL_METRIC_EMBEDDING_MODEL", DEFAULT_EMBEDDING_MODEL, _EMBEDDER)
    openai_api_key: SecretStr | None = _setting("OPENAI_API_KEY", None, _KEY)
    openai_base_url: str | None = _setting("OPENAI_BASE_URL", None, "http(s)://host/v1 of an OpenAI-compatible API")
    generator_model: str | None = _setting("RAGEVAL_GENERATOR_MODEL", None, _CHAT_MODEL)
    generator_base_url: str | None = _setting("RAGEVAL_GENERATOR_BASE_URL", None, _CHAT_URL)
    generator_api_key: SecretStr | None = _setting("RAGEVAL_GENERATOR_API_KEY", None, _KEY)
    answer_model: str | None = _setting("RAGEVAL_ANSWER_MODEL", None, _CHAT_MODEL)
    answer_base_url: str | None = _setting("RAGEVAL_ANSWER_BASE_URL", None, _CHAT_URL)
    answer_api_key: SecretStr | None = _setting("RAGEVAL_ANSWER_API_KEY", None, _KEY)
    judge_model: str | None = _setting("RAGEVAL_JUDGE_MODEL", None, _CHAT_MODEL)
    judge_base_url: str | None = _setting("RAGEVAL_JUDGE_BASE_URL", None, _CHAT_URL)
    judge_api_key: SecretStr | None = _setting("RAGEVAL_JUDGE_API_KEY", None, _KEY)
    prompts: str | None = _setting("RAGEVAL_PROMPTS", None, "a folder of prompts of your own")
    llm_concurrency: _PositiveInt = _setting("RAGEVAL_LLM_CONCURRENCY", 16, _COUNT)
    llm_timeout_s: Annotated[float, Field(gt=0)] = _setting("RAGEVAL_LLM_TIMEOUT_S", 60, "seconds, more than 0")
    llm_max_attempts: _PositiveInt = _setting("RAGEVAL_LLM_MAX_ATTEMPTS", 10, _COUNT)
    llm_cache_max_age_days: _Days = _setting("RAGEVAL_LLM_CACHE_MAX_AGE_DAYS", 30, _DAYS, "file")

    # What models may cost: a run, a client's day, and the day of all clients together.
    llm_max_cost_usd: _Cost | None = _setting("RAGEVAL_LLM_MAX_COST_USD", None, "US dollars, more than 0")
    llm_max_tokens: _PositiveInt | None = _setting("RAGEVAL_LLM_MAX_TOKENS", None, _COUNT)
    budget: Budget = _setting(None, Budget(), "a table with cost_usd, tokens, or both, a day")
    fleet: Fleet = _setting(None, Fleet(), "a table with a budget", "table")
    prices: dict[str, Price] = _setting(
        None, {}, "by model's name, {in = ..., out = ...} in US dollars per million tokens", "table"
    )

    # Metrics.
    metrics: Annotated[_Names, Field(min_length=1)] = _setting(
        None, ("*",), "metrics to run (retrieval.*), and your own (package.module:name)"
    )
    sufficiency_threshold: _Share = _setting("RAGEVAL_SUFFICIENCY_THRESHOLD", 0.5, "a cosine from 0 to 1")
    hallucination_threshold: _Share = _setting("RAGEVAL_HALLUCINATION_THRESHOLD", 0.4, "a cosine from 0 to 1")
    citation_threshold: _Share = _setting("RAGEVAL_CITATION_THRESHOLD", 0.4, "a cosine from 0 to 1")
    minimum_retrieval_score: float | None = _setting(
        "RAGEVAL_MINIMUM_RETRIEVAL_SCORE", None, "a number in the retriever's own unit"
    )
    judge_weights: JudgeWeights = _setting(None, JudgeWeights(), "weights of 0 or more by dimension of the judge")
    overlap_compat: bool = _setting("RAGEVAL_OVERLAP_COMPAT", False, _FLAG)

    # Judging an evaluation.
    max_error_share: _Share = _setting("RAGEVAL_MAX_ERROR_SHARE", 0.05, _SHARE_OF_1)
    alpha: Annotated[float, Field(gt=0, lt=1)] = _setting("RAGEVAL_ALPHA", 0.05, "a number between 0 and 1")
    regression_tolerance: _Share = _setting("RAGEVAL_REGRESSION_TOLERANCE", 0.02, _SHARE_OF_1)
    gate: _Names = _setting(None, (), "metric ids that the gate looks at; none: hit rate, MRR, and claims.faithfulness")
    gate_effect: Annotated[float, Field(gt=0, le=1)] = _setting(
        "RAGEVAL_GATE_EFFECT", 0.25, "a drop that you want to be able to see, more than 0, at most 1"
    )
    auto_accept: Literal["never", "better"] = _setting("RAGEVAL_AUTO_ACCEPT", "never", "never or better")
    gate_severity: Literal["error", "warning"] = _setting("RAGEVAL_GATE_SEVERITY", "error", "error or warning")
    fresh_hours: Annotated[float, Field(gt=0)] = _setting("RAGEVAL_FRESH_HOURS", 36, "hours, more than 0")
    alert_webhook_url: SecretStr | None = _setting(
        "RAGEVAL_ALERT_WEBHOOK_URL", None, "http(s)://... of a Slack-compatible webhook"
    )
    serve_token: SecretStr | None = _setting("RAGEVAL_SERVE_TOKEN", None, "the token of rageval serve", "machine")
    serve_port: Annotated[int, Field(ge=1, le=65_535)] = _setting(
        "RAGEVAL_SERVE_PORT", 8000, "a port from 1 to 65535", "machine"
    )
    serve_max_body_mb: Annotated[int, Field(ge=1, le=100)] = _setting(
        "RAGEVAL_SERVE_MAX_BODY_MB", 1, "a whole number from 1 to 100", "machine"
    )
    metrics_per_client: bool = _setting("RAGEVAL_METRICS_PER_CLIENT", False, _FLAG, "machine")
    report_dir_setting: str | None = _setting(
        "RAGEVAL_REPORT_DIR", None, "a folder, or the URL of one, such as s3://bucket/reports", "machine"
    )
    report_base_url: Annotated[str, Field(pattern=r"^https?://[^\s#?\"<>()]+$")] | None = _setting(
        "RAGEVAL_REPORT_BASE_URL", None, "http(s)://... under which the folder of reports is served", "machine"
    )
    text_in_dagster: bool = _setting("RAGEVAL_TEXT_IN_DAGSTER", False, _FLAG, "machine")

    _source: Source = PrivateAttr()

    @classmethod
    def of_a_client(cls) -> list[str]:
        """The names of the settings that a client may have for itself."""
        return [name for name in cls.of_the_file() if _scope(cls, name) == "client"]

    @classmethod
    def of_the_file(cls) -> list[str]:
        """The names of the settings that [defaults] in rageval.toml may set."""
        return [name for name in cls.model_fields if _scope(cls, name) in ("client", "file")]

    @classmethod
    def of_a_run(cls) -> list[str]:
        """The names of the settings that decide what a run measures and how that is judged."""
        return [name for name in cls.of_the_file() if name not in _NOT_FROZEN]

    @classmethod
    def tables(cls) -> list[str]:
        """The names of the settings that are tables of rageval.toml, beside [defaults] and [clients.NAME]."""
        return [name for name in cls.model_fields if _scope(cls, name) == "table"]

    @property
    def source(self) -> Source:
        return self._source

    def bound(self, source: Source) -> Self:
        """These settings, knowing where they come from and what may hold for a client alone.

        Raises:
            SettingsError: they name a system that there is not, a model for documents that no model may see, or workers
                without a broker.
        """
        self._source = source
        unknown = [name for name in self.system if name not in (*BUILT_IN_SYSTEMS, *self.systems)]
        if unknown:
            raise SettingsError(
                f"system: there is no {unknown[0]!r}: define [defaults.systems.{unknown[0]}] in rageval.toml, or "
                f"choose one of {', '.join([*BUILT_IN_SYSTEMS, *self.systems])}"
            )
        if self.launcher == "celery" and self.broker_url is None:
            raise SettingsError(f"{LAUNCHER_VARIABLE}=celery needs {BROKER_VARIABLE}: where runs wait for a worker")
        taken = [name for name in self.systems if name in BUILT_IN_SYSTEMS]
        if taken:
            raise SettingsError(f"systems: {taken[0]} is the name of a built-in system; choose another")
        if self.llm == "allowed":
            self._check_prices()
            return self
        for name in ("embedding_model", "metric_embedding_model"):
            if getattr(self, name).startswith("openai:"):
                raise SettingsError(f"llm is forbidden, and {name} is a model behind an endpoint: name a local one")
        return self.model_copy(update=dict.fromkeys(_MODELS))

    def _check_prices(self) -> None:
        """A limit on cost cannot hold where nobody said what a model costs."""
        limits = {
            "RAGEVAL_LLM_MAX_COST_USD": self.llm_max_cost_usd,
            "budget.cost_usd": self.budget.cost_usd,
            "[fleet] budget.cost_usd": self.fleet.budget.cost_usd,
        }
        limit = next((name for name, value in limits.items() if value is not None), None)
        models = [getattr(self, name) for name in _MODELS]
        unpriced = [model for model in models if model is not None and model not in self.prices]
        if limit is not None and unpriced:
            raise SettingsError(
                f"{limit} limits what models may cost, and the price of {unpriced[0]!r} is not known: say it under "
                f'[prices] in rageval.toml ("{unpriced[0]}" = {{in = ..., out = ...}}, USD per million tokens), or '
                "limit the tokens instead"
            )

    def for_client(self, client_id: str) -> "Settings":
        """The settings of one client: its own table in rageval.toml over what holds for all."""
        return self._source.settings(client_id)

    def for_client_or_default(self, client_id: str) -> "Settings":
        """As `for_client`, but where the client's table is wrong, what holds for all."""
        try:
            return self.for_client(client_id)
        except SettingsError:
            return self

    def without_caches(self) -> "Settings":
        """These settings, but nothing that a model said before counts."""
        return self.model_copy(update={"llm_cache_max_age_days": 0})

    @property
    def recorded(self) -> frozenset[str]:
        """The systems whose answers stand in a file."""
        return frozenset(name for name, each in self.systems.items() if isinstance(each, RecordedDefinition))

    def secret(self, variable: str) -> SecretStr:
        """The secret in a variable that rageval.toml names, or in the file that NAME_FILE names.

        Raises:
            SettingsError: neither is set.
        """
        found = self._source.secret(variable)
        if found is None:
            raise SettingsError(f"rageval.toml names {unset(variable)}")
        return found

    def path(self, name: str) -> Path:
        """A path that rageval.toml names, relative to the folder where that stands."""
        return self._source.config_file.parent / Path(name).expanduser()

    @property
    def prompts_dir(self) -> Path | None:
        """The folder of the user's own prompts, relative to where rageval.toml stands."""
        return None if self.prompts is None else self.path(self.prompts)

    @cached_property
    def home(self) -> Path:
        """The project's own folder, absolute."""
        return Path(self.home_dir).expanduser().absolute()

    @property
    def dagster_home(self) -> Path:
        return self.home / "dagster"

    @property
    def database_url(self) -> SecretStr:
        """The history database's URL; may hold a password."""
        return self.database_url_setting or SecretStr(f"sqlite:///{self.home / 'rageval.sqlite3'}")

    @property
    def embedded_chroma_path(self) -> Path:
        if self.chroma_path is not None:
            return Path(self.chroma_path).expanduser().absolute()
        return self.home / "chroma"

    @property
    def report_dir(self) -> Path:
        """The folder of the HTML reports: absolute, or behind a URL, see `folder_of_url`.

        Raises:
            SettingsError: the URL is of no file system that there is a package for, or holds a password.
        """
        if self.report_dir_setting is None:
            return self.home / "reports"
        if "://" in self.report_dir_setting:
            from rageval_dagster.settings.folders import folder_of_url

            return folder_of_url("RAGEVAL_REPORT_DIR", self.report_dir_setting)
        return Path(self.report_dir_setting).expanduser().absolute()

    def ensure_home(self) -> Path:
        """Makes RAGEVAL_HOME, readable by its owner only (SECURITY.md line 10)."""
        try:
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.home.chmod(0o700)
            self.dagster_home.mkdir(exist_ok=True, mode=0o700)
            self.dagster_home.chmod(0o700)
            with tempfile.TemporaryFile(dir=self.home):
                pass
        except OSError as error:
            what = f"RAGEVAL_HOME: the folder {self.home} cannot be written"
            raise SettingsError(unwritable(what, error, "name one that can")) from None
        return self.home


def _scope(settings: type[Settings], name: str) -> str:
    extra: Any = settings.model_fields[name].json_schema_extra
    return extra["scope"]


def unset(variable: str) -> str:
    """What is said of a variable that is not set: not its name where a secret may have been put in the name's place."""
    if re.fullmatch(r"[A-Z_][A-Z0-9_]{0,63}", variable):
        return f"the variable {variable!r}, which is not set (nor is {variable}_FILE)"
    return "a variable that is not set (it is named if its name is in capitals: a secret itself never stands here)"
