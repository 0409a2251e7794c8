"""The client of OpenAI-compatible chat endpoints, as the rest of the project uses it."""

from collections.abc import Sequence
from typing import TypeVar

from rageval_dagster.llm.access import ModelAccess
from rageval_dagster.llm.conversations import Asker, Conversation, together
from rageval_dagster.llm.endpoints import Role, endpoint_of
from rageval_dagster.llm.messages import ChatRequest, Completion, Failure, ModelFailedError, UnusableReplyError
from rageval_dagster.llm.session import Session
from rageval_dagster.network import run_apart
from rageval_dagster.records import Progress

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


class ChatClient(ModelAccess):
    """Sends a role's requests to its endpoint, for one client's data; plain calls, also inside a running event loop.

    What an equal request of this client got before, and is young enough, comes from the cache of `db` (None: nothing is
    kept beyond the life of this object); failures are never kept. `run_id` is what its calls are recorded under.
    """

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion | Failure]:
        """A completion or a failure for each request, in their order; equal requests are sent once.

        Raises:
            LanguageModelError: as `converse`.
        """
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
        return run_apart(Session(self).converse(subjects, conversation, progress)) if subjects else []
