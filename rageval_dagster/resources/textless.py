"""What becomes of a body that fails: no text reaches Dagster's event log, and what only was away is tried again."""

import functools
import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import dagster as dg

from rageval_dagster.errors import DatabaseAwayError, RagevalError, StoreAwayError, place
from rageval_dagster.settings import load_settings

Body = TypeVar("Body", bound=Callable[..., Any])

FRAMES = 4

RETRIES = 6
RETRY_AFTER_S = 10
"""A step whose database or document store went away is tried again for a minute; it finds what it had stored."""


class UnexpectedError(RagevalError):
    """A mistake in this project or a library: the class of what was raised and where, but not its words."""


def without_texts(body: Body) -> Body:
    """Decorates the body of an asset, check, sensor or schedule: what it raises holds no text."""
    if inspect.isgeneratorfunction(body):

        @functools.wraps(body)
        def generate(*args: Any, **kwargs: Any) -> Iterator[Any]:
            with textless_errors():
                yield from body(*args, **kwargs)

        return generate  # pyright: ignore[reportReturnType]

    @functools.wraps(body)
    def call(*args: Any, **kwargs: Any) -> Any:
        with textless_errors():
            return body(*args, **kwargs)

    return call  # pyright: ignore[reportReturnType]


@contextmanager
def textless_errors() -> Iterator[None]:
    """Lets expected errors through alone, without the chain that led to them; of all others only class and place.

    With RAGEVAL_TEXT_IN_DAGSTER everything is let through as it is.

    Raises:
        UnexpectedError: in place of an exception whose message may hold the user's texts.
        RetryRequested: in a step, in place of the word that the database or the document store is away just now.
    """
    try:
        yield
    except (DatabaseAwayError, StoreAwayError) as error:
        if not _is_in_step():
            raise error.with_traceback(None) from None
        away = type(error)(str(error))
        raise dg.RetryRequested(max_retries=RETRIES, seconds_to_wait=RETRY_AFTER_S) from away
    except (RagevalError, dg.DagsterError) as error:
        if isinstance(error, RagevalError) and not load_settings().text_in_dagster:
            raise error.with_traceback(None) from None
        raise
    except Exception as error:
        if load_settings().text_in_dagster:
            raise
        raise UnexpectedError(_described(error)) from None


def _is_in_step() -> bool:
    """Whether a run executes this: a sensor's or a schedule's turn comes again by itself."""
    try:
        dg.OpExecutionContext.get()
    except dg.DagsterInvariantViolationError:
        return False
    return True


def _described(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    places = " > ".join(f"{place(frame.filename, frame.lineno)} {frame.name}" for frame in frames)
    return f"unexpected {type(error).__name__} at {places} (RAGEVAL_TEXT_IN_DAGSTER=true shows its message)"
