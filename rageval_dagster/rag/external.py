"""The user's own RAG systems, as rageval.toml defines them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from rageval_dagster.identity import digest, digest_json
from rageval_dagster.languages import declines_version
from rageval_dagster.rag.responses import ResponseReader
from rageval_dagster.rag.system import AnswerOutcome, RagSystem, Retrieval
from rageval_dagster.records import Item, Progress
from rageval_dagster.settings import CallableDefinition, HttpDefinition, RecordedDefinition, Settings, SystemDefinition

_NOT_ITSELF = {
    *("auth_env", "headers_env", "allow_plain_http", "version", "version_url", "file"),
    *("timeout_s", "max_attempts", "concurrency", "rate_per_s"),
}
"""Fields of a definition that say how to reach a system, not which one it is or what is read from it."""


class Endpoint(Protocol):
    """What a system needs of the way it is reached."""

    def declared_version(self) -> str | None:
        """The version that it says it has without being asked a question."""
        ...

    def ask(self, items: Sequence[Item], depth: int) -> list[Retrieval]: ...


class ExternalSystem:
    """A system of the user's: it is asked each question once, and gives contexts and answer together."""

    reference = False
    answers_at_once = True

    def __init__(
        self, name: str, definition_version: str, endpoint: Endpoint, names_version: bool, recorded: bool = False
    ) -> None:
        """`names_version`: where the endpoint declares no version, its responses do."""
        self.name = name
        self.recorded = recorded
        self._definition_version = definition_version
        self._endpoint = endpoint
        self._names_version = names_version
        self._declared: str | None = None
        self._version_known = False
        self._depth = 0
        self._kept: dict[tuple[str, int], Retrieval] = {}

    @property
    def version(self) -> str:
        return digest(self._definition_version, self._declared)

    retrieval_version = answer_version = version

    def declared_version(self, item: Item, depth: int) -> str | None:
        """As `RagSystem.declared_version`; it is found out once, and what was said to `item` is kept for its turn."""
        self._depth = depth
        if not self._version_known:
            self._version_known = True
            self._declared = self._endpoint.declared_version()
            if self._declared is None and self._names_version:
                (retrieval,) = self._endpoint.ask([item], depth)
                self._kept[item.item_id, depth] = retrieval
                self._declared = retrieval.version
        return self._declared

    def was_asked(self, item: Item, depth: int) -> bool:
        return (item.item_id, depth) in self._kept

    def retrieve(self, items: Sequence[Item], depth: int, progress: Progress | None = None) -> list[Retrieval]:
        """As `RagSystem.retrieve`: hits as the system told them, with its answer; errors are `kind: reason`."""
        self._depth = depth
        kept = {item.item_id: self._kept.pop((item.item_id, depth), None) for item in items}
        missing = [item for item in items if kept[item.item_id] is None]
        asked = iter(self._endpoint.ask(missing, depth) if missing else [])
        retrievals = [kept[item.item_id] or next(asked) for item in items]
        if self._names_version and self._declared is not None:
            # A response without a version, of a system whose responses have one, is of none that is known.
            retrievals = [each if each.version else replace(each, version="not told") for each in retrievals]
        if progress is not None:
            progress(len(items), len(items))
        return retrievals

    def answer(
        self, items: Sequence[Item], contexts: Sequence[Sequence[str]], progress: Progress | None = None
    ) -> list[AnswerOutcome]:
        """Asks again, at the depth of before: what it answers with is its own affair, not `contexts`."""
        depth = max(1, self._depth, *map(len, contexts))
        retrievals = self.retrieve(items, depth, progress)
        return [retrieval.answer or AnswerOutcome(error=retrieval.error) for retrieval in retrievals]


def load_external(name: str, settings: Settings, client_id: str) -> RagSystem:
    """The system that the client's settings define under this name.

    Raises:
        SettingsError: the definition names a secret, file or function that is not there or cannot be used.
    """
    definition = settings.systems[name]
    reader = ResponseReader(definition.response, settings.decline_phrases)
    names_version = definition.response.version is not None
    if isinstance(definition, HttpDefinition):
        from rageval_dagster.rag.http import HttpEndpoint

        endpoint = HttpEndpoint(name, definition, settings, client_id, reader)
        # An endpoint of its own for the version that fails leaves the system without one.
        names_version = names_version and definition.version_url is None
    elif isinstance(definition, CallableDefinition):
        from rageval_dagster.rag.callable import CallableEndpoint

        endpoint = CallableEndpoint(name, definition, settings, client_id, reader)
    else:
        from rageval_dagster.rag.recorded import RecordedResponses

        endpoint = RecordedResponses(name, definition, settings, reader)
    recorded = isinstance(definition, RecordedDefinition)
    return ExternalSystem(name, _definition_version(definition, settings), endpoint, names_version, recorded)


def check_access(name: str, settings: Settings, client_id: str) -> None:
    """Finds out, without asking it anything, whether a system behind HTTP can be asked; other systems pass.

    Raises:
        SettingsError: a secret is not set, cannot be a header, or would travel unencrypted; a host is none.
    """
    if isinstance(settings.systems.get(name), HttpDefinition):
        load_external(name, settings, client_id)


def _definition_version(definition: SystemDefinition, settings: Settings) -> str:
    """Of all that decides what the system is asked and what is made of its responses."""
    itself = definition.model_dump(mode="json", exclude=_NOT_ITSELF)
    if not itself.get("params"):
        itself.pop("params", None)  # as definitions were before they could have any
    return digest_json([itself, declines_version(settings.decline_phrases)])
