"""What clients of endpoints need: an event loop of their own, waits between attempts, libraries that log nothing."""

import asyncio
import ipaddress
import logging
import random
import ssl
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

_CHATTY = ("httpx", "httpcore", "httpx2", "httpcore2", "openai")
"""The libraries that carry questions and documents; which two of them openai uses depends on its version."""

_T = TypeVar("_T")


def silence_libraries(libraries: Sequence[str] = _CHATTY) -> None:
    """Keeps texts, secrets and URLs out of logs of any level; to be called once the libraries are imported."""
    # Their modules may have levels of their own.
    for name in [*libraries, *logging.root.manager.loggerDict]:
        if name.partition(".")[0] in libraries:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def is_loopback(host: str) -> bool:
    """Whether what is sent to a host stays on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_certificate_error(error: BaseException | None) -> bool:
    """Whether an error came of a certificate that is not trusted."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def retry_after(headers: Any) -> float | None:
    """The seconds that a Retry-After header asks for, as a number or a date; None without a readable one."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def backoff(attempts: int, first: float, longest: float) -> float:
    """The seconds to wait after so many failed attempts: doubled each time, with jitter."""
    # Full range of the upper half: those that failed together do not come back together.
    return min(first * 2 ** (attempts - 1), longest) * random.uniform(0.5, 1.0)  # noqa: S311


def with_jitter(wait: float) -> float:
    return wait * random.uniform(1.0, 1.25)  # noqa: S311


def run_apart(work: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine in an event loop of its own, in a thread of its own: Dagster's process may have one running.

    An interruption of the caller (Ctrl-C) cancels the work.
    """
    result: Future[_T] = Future()
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)

    def run() -> None:
        try:
            result.set_result(loop.run_until_complete(task))
        except BaseException as error:  # noqa: BLE001  (handed to the caller)
            result.set_exception(error)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    thread = threading.Thread(target=run, name="network", daemon=True)
    thread.start()
    try:
        return result.result()
    except BaseException:
        if thread.is_alive() and not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        thread.join(timeout=5)
