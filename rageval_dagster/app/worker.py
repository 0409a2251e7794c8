"""A use case in a process of its own: a server gets its memory back, and opens the document store freshly each time."""

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Concatenate, ParamSpec, TypeVar

from rageval_dagster.app.opening import open_all
from rageval_dagster.errors import RagevalError
from rageval_dagster.settings import Settings
from rageval_dagster.storage.database import Database

P = ParamSpec("P")
Result = TypeVar("Result")


class WorkerDiedError(RagevalError):
    """The process that worked on a request was killed, or crashed."""


def in_worker(
    use_case: Callable[Concatenate[Settings, Database, P], Result], *args: P.args, **kwargs: P.kwargs
) -> Result:
    """What a use case gives, with settings and database that the process opens itself.

    The process is started afresh, never forked from this one and its threads, and ends with this one.

    Raises:
        RagevalError: what the use case raises; an unexpected error by its class and place only.
        WorkerDiedError: the process ended before the use case did.
    """
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh, initializer=_end_with_parent) as pool:
        try:
            return pool.submit(_call, use_case, *args, **kwargs).result()
        except BrokenProcessPool:
            raise WorkerDiedError(
                "the process that worked on this died, perhaps for lack of memory; ask again"
            ) from None


def _call(use_case: Callable[Concatenate[Settings, Database, P], Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    from rageval_dagster.resources.textless import textless_errors

    try:
        with textless_errors():  # the server logs what it does not know
            return use_case(*open_all(), *args, **kwargs)
    except KeyboardInterrupt:  # Ctrl-C reaches the server's workers, too
        raise RagevalError("interrupted; ask again") from None


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
