"""The client of OpenAI-compatible chat endpoints, as the rest of the project uses it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from rageval_dagster.errors import LanguageModelError, SettingsError
from rageval_dagster.identity import digest_json
from rageval_dagster.llm.budgets import Budgets
from rageval_dagster.llm.endpoints import Role, endpoint_of
from rageval_dagster.llm.ledger import Ledger
from rageval_dagster.llm.messages import ChatRequest, Completion, Failure, ModelFailedError, UnusableReplyError
from rageval_dagster.network import run_apart, silence_libraries
from rageval_dagster.records import Progress
from rageval_dagster.settings import Settings
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    import openai

__all__ = [
    "Asker",
    "ChatClient",
    "ChatRequest",
    "Completion",
    "Conversation",
    "Failure",
    "ModelFailedError",
    "Role",
    "UnusableReplyError",
    "endpoint_of",
    "together",
]

T = TypeVar("T")
S = TypeVar("S")


class Asker(Protocol):
    """What a conversation is given: it asks the model, one question after the other or several at once."""

    async def ask(self, request: ChatRequest, read: Callable[[str], T]) -> T:
        """What `read` makes of the reply.

        `read` raises UnusableReplyError for a reply that it cannot use: the model is asked again, and only usable
        replies are kept.

        Raises:
            ModelFailedError: no usable reply came, however often it was asked.
        """
        ...

    async def complete(self, request: ChatRequest, read: Callable[[str], object]) -> Completion:
        """As `ask`, but the reply itself and what it took, once `read` can use it."""
        ...


Conversation = Callable[[Asker, S], Awaitable[T]]


async def together(*asked: Awaitable[T]) -> list[T]:
    """What several requests, sent at once, come to; a failure is raised once all have ended, so that none is lost."""
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    # What ends the whole run comes before what one request met.
    failures.sort(key=lambda failure: isinstance(failure, ModelFailedError))
    if failures:
        raise failures[0]
    return outcomes  # pyright: ignore[reportReturnType]


class ChatClient:
    """Sends a role's requests to its endpoint, for one client's data; plain calls, also inside a running event loop.

    What an equal request of this client got before, and is young enough, comes from the cache of `db` (None: nothing is
    kept beyond the life of this object); failures are never kept. `run_id` is what its calls are recorded under.
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

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion | Failure]:
        """A completion or a failure for each request, in their order; equal requests are sent once.

        Raises:
            LanguageModelError: as `converse`.
        """
        from rageval_dagster.llm.session import Session

        return run_apart(Session(self).complete(requests)) if requests else []

    def converse(
        self, subjects: Sequence[S], conversation: Conversation[S, T], progress: Progress | None = None
    ) -> list[T | Failure]:
        """What a conversation about each subject came to, in their order; a Failure where it raised ModelFailedError.

        Conversations about many subjects go on at once; where they wait for a place in flight, the earlier subject goes
        first. Equal requests are sent once, whatever conversation they are of.

        Raises:
            LanguageModelError: the endpoint refuses (wrong key, unknown model, malformed requests, no chat endpoint at
                all), gives no reply any more, or takes none of the requests because they are too long.
            BudgetReachedError: a limit is reached; what came until then is kept.
        """
        from rageval_dagster.llm.session import Session

        return run_apart(Session(self).converse(subjects, conversation, progress)) if subjects else []

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
