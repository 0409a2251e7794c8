"""A RAG system that is a Python function of the user's."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from time import monotonic
from typing import Any

from rageval_dagster.errors import SettingsError
from rageval_dagster.functions import load_function
from rageval_dagster.rag.responses import ResponseReader, usable_version
from rageval_dagster.rag.system import Retrieval
from rageval_dagster.records import Item
from rageval_dagster.settings import CallableDefinition, Settings

PARAMETERS = ("question", "k", "history", "principal", "client")


class CallableEndpoint:
    """Asks a function questions for one client, as many at once as defined."""

    def __init__(
        self, name: str, definition: CallableDefinition, settings: Settings, client_id: str, reader: ResponseReader
    ) -> None:
        """
        Raises:
            SettingsError: there is no such function, or it takes no question or more than is known of one.
        """
        self._definition = definition
        self._client_id = client_id
        self._reader = reader
        self._function = load_function(definition.function, settings.path("."))
        where = f"system {name!r}: {definition.function}"
        self._takes = _parameters(where, self._function, tuple(definition.params))

    def declared_version(self) -> str | None:
        """The version that is defined, or that the function has as `__rageval_version__` or `version`."""
        named = (getattr(self._function, name, None) for name in ("__rageval_version__", "version"))
        versions = (usable_version(version) for version in (self._definition.version, *named))
        return next((version for version in versions if version is not None), None)

    def ask(self, items: Sequence[Item], depth: int) -> list[Retrieval]:
        """What came back for each item, in their order; one that fails stops no other."""
        with ThreadPoolExecutor(self._definition.concurrency, thread_name_prefix="rag-system") as pool:
            return list(pool.map(lambda item: self._ask(item, depth), items))

    def _ask(self, item: Item, depth: int) -> Retrieval:
        given = {
            "question": item.question,
            "k": depth,
            "history": [dict(turn) for turn in item.history],
            "principal": None if item.principal is None else dict(item.principal),
            "client": self._client_id,
        }
        started = monotonic()
        try:
            said = self._function(**{name: given[name] for name in self._takes}, **self._definition.params)
            if inspect.isawaitable(said):
                said = asyncio.run_coroutine_threadsafe(_result(said), _event_loop()).result()
        except (Exception, SystemExit) as raised:  # noqa: BLE001  (whatever the user's function does)
            error = raised.__cause__ if isinstance(raised, _EndedError) else raised
            return Retrieval(error=f"raised: {type(error).__name__}")
        latency_s = monotonic() - started
        retrieval = self._reader.read_text(said) if isinstance(said, str) else self._reader.read(said)
        if retrieval.answer is None:
            return retrieval
        return replace(retrieval, answer=replace(retrieval.answer, latency_s=latency_s))


def _parameters(where: str, function: Callable[..., Any], own: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the known parameters that the function takes beside the system's `own`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise SettingsError(f"{where} does not say what it takes: wrap it in a function of your own") from None
    named = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    unknown = [
        each.name
        for each in parameters
        if each.default is each.empty and each.name not in (*PARAMETERS, *own) and each.kind not in _COLLECTING
    ]
    if unknown:
        raise SettingsError(f"{where} needs {unknown[0]!r}, but is given {', '.join((*PARAMETERS, *own))} only")
    reserved = [name for name in own if name in PARAMETERS]
    if reserved:
        raise SettingsError(f"{where}: params cannot have {reserved[0]!r}, which each question has its own of")
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return PARAMETERS
    names = {each.name for each in named}
    strange = [name for name in own if name not in names]
    if strange:
        raise SettingsError(f"{where} takes no {strange[0]!r}, which params has: give it a parameter of that name")
    taken = tuple(name for name in PARAMETERS if name in names)
    if "question" not in taken:
        raise SettingsError(f"{where} takes no 'question': give it a parameter of that name")
    return taken


_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


_STARTING = threading.Lock()


class _EndedError(Exception):
    """Raised from what an async function ends the process with: as itself that would end the loop of all questions."""


async def _result(said: Awaitable[Any]) -> Any:
    try:
        return await said
    except (SystemExit, KeyboardInterrupt) as error:
        raise _EndedError from error


def _event_loop() -> asyncio.AbstractEventLoop:
    """The one loop that all async functions run in: what they keep open between questions belongs to a loop."""
    with _STARTING:  # questions are asked by several threads, and a cache alone may call twice
        return _started_loop()


@lru_cache(maxsize=1)
def _started_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="rag-system-loop", daemon=True).start()
    return loop
