"""What one client's requests to a role's model go by: its endpoint, what may be spent, and what is known already."""

from typing import TYPE_CHECKING

from rageval_dagster.errors import LanguageModelError, SettingsError
from rageval_dagster.identity import digest_json
from rageval_dagster.llm.budgets import Budgets
from rageval_dagster.llm.endpoints import Role, endpoint_of
from rageval_dagster.llm.ledger import Ledger
from rageval_dagster.llm.messages import ChatRequest
from rageval_dagster.network import silence_libraries
from rageval_dagster.settings import Settings
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    import openai


class ModelAccess:
    """A role's model as one client's data is sent to it; `run_id` is what its calls are recorded under.

    What was said is kept in `db`, or without one in `memory`, for the life of this object.
    """

    def __init__(
        self, settings: Settings, role: Role, db: Database | None, client_id: str, run_id: str | None = None
    ) -> None:
        # The settings of such a client name no model. Should they once: nothing of it is sent all the same.
        if settings.llm == "forbidden":
            raise LanguageModelError(f"client {client_id!r}: llm is forbidden, so the {role} model is not asked")
        endpoint = endpoint_of(settings, role)
        if endpoint is None:
            raise SettingsError(f"RAGEVAL_{role.upper()}_MODEL is not set: name the chat model to use")
        self.endpoint = endpoint
        self.settings = settings
        self.role: Role = role
        self.client_id = client_id
        self.run_id = run_id
        self.memory = Ledger(None, client_id, 0.0) if db is None else None
        self.db = db
        self.budgets = Budgets(settings, db, client_id, run_id)
        self.limit = float(settings.llm_concurrency)
        """How many may be in flight, as the last session left it."""

    @property
    def version(self) -> str:
        """Changes when another model, or the same one at another address, would answer."""
        return self.endpoint.version

    def key(self, request: ChatRequest) -> str:
        """All that determines the reply."""
        return digest_json([self.endpoint.base_url, self.endpoint.model, *request.identity])

    def error(self, what: str, advice: str) -> LanguageModelError:
        return LanguageModelError(f"{self.role} model {self.endpoint.model!r}: {self.endpoint.host} {what}; {advice}")

    def open(self) -> "openai.AsyncOpenAI":
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        silence_libraries()
        key, timeout = self.endpoint.api_key, self.settings.llm_timeout_s
        return AsyncOpenAI(
            base_url=self.endpoint.base_url,
            # A local endpoint needs no key, but the package wants one.
            api_key=key.get_secret_value() if key else "none",
            timeout=timeout,
            max_retries=0,
            # Prompts and keys go to the host that the user named, and to no other.
            http_client=DefaultAsyncHttpxClient(follow_redirects=False, timeout=timeout),
        )
