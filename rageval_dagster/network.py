"""What clients of endpoints need: an event loop of their own, waits between attempts, libraries that log nothing.

And what is read of strangers: bodies of a bounded size, and JSON of a bounded depth.
"""

import asyncio
import ipaddress
import json
import logging
import random
import re
import ssl
import threading
import time
import zlib
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from email.utils import parsedate_to_datetime
from itertools import accumulate
from typing import Any, TypeVar

_CHATTY = ("httpx", "httpcore", "httpx2", "httpcore2", "openai")
"""The libraries that carry questions and documents; which two of them openai uses depends on its version."""

_T = TypeVar("_T")

MAX_BYTES = 10_000_000
"""Of a response, unpacked: a thousand contexts of 10,000 characters. As JSON values they may be 25 times as large."""
MAX_DEPTH = 100
"""Of JSON from elsewhere: no API nests a tenth of it."""

_PIECE = 64 * 1024
_COMPRESSED = {"gzip", "x-gzip", "deflate"}
_AUTOMATIC = 32 + zlib.MAX_WBITS
_OTHER_THAN_BRACKETS = re.compile(r'"[^"]*"?|[^\[\]{}"]+')
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}


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


class TooLargeError(Exception):
    """A response is over `MAX_BYTES`, or how large it is cannot be told in time; the message says which."""


class TooDeepError(ValueError):
    """JSON is nested deeper than `MAX_DEPTH`."""


async def bound_response(response: Any) -> None:
    """For `event_hooks` of an asynchronous httpx client, or of openai's own; `bound_response_sync` for the others.

    A body ends with TooLargeError at its limit. A compressed one counts as what it unpacks to, and is unpacked in small
    pieces: httpx would make 64 MB of a piece of 64 kB before anybody could count them, and other encodings more.
    """
    stream, bound = response.stream, _Bound(response.headers.pop("content-encoding", ""))

    async def pieces(self: Any) -> AsyncIterator[bytes]:
        async for packed in stream:
            for piece in bound.pieces(packed):
                yield piece
        bound.end()

    async def close(self: Any) -> None:
        await stream.aclose()

    _replace_stream(response, "AsyncByteStream", {"__aiter__": pieces, "aclose": close})


def bound_response_sync(response: Any) -> None:
    """As `bound_response`, of a client that waits."""
    stream, bound = response.stream, _Bound(response.headers.pop("content-encoding", ""))

    def pieces(self: Any) -> Iterator[bytes]:
        for packed in stream:
            yield from bound.pieces(packed)
        bound.end()

    _replace_stream(response, "SyncByteStream", {"__iter__": pieces, "close": lambda self: stream.close()})


def _replace_stream(response: Any, base: str, methods: dict[str, Any]) -> None:
    # The package that the stream is of looks for its own class.
    owner = next(each for each in type(response.stream).__mro__ if each.__name__ == base)
    response.stream = type("Bounded", (owner,), methods)()


class _Bound:
    """Unpacks a body piece by piece and counts what comes of it."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding.strip().lower()
        self._decoder = zlib.decompressobj(_AUTOMATIC) if self._encoding in _COMPRESSED else None
        self._size = 0

    def pieces(self, packed: bytes) -> Iterator[bytes]:
        if self._decoder is None and self._encoding not in ("", "identity"):
            raise TooLargeError("compressed by a method that was not asked for")
        while packed:
            piece = self._decoder.decompress(packed, _PIECE) if self._decoder else packed
            self._size += len(piece)
            if self._size > MAX_BYTES:
                raise TooLargeError(f"more than {MAX_BYTES // 1_000_000} MB")
            yield piece
            packed = self._decoder.unconsumed_tail if self._decoder else b""

    def end(self) -> None:
        if self._decoder and not self._decoder.eof:
            raise zlib.error("cut off")


def parsed_json(body: str | bytes) -> Any:
    """The value of a JSON text that somebody else wrote.

    Its depth is counted before it is parsed. Python's parser gives up somewhere (RecursionError), but where depends on
    its version, on how deep the caller's own stack is, and on limits that a library may have changed; and what it still
    takes can be too deep for all that walks through the value later, by recursion, where nobody expects an error.

    Raises:
        TooDeepError: it is nested too deeply.
        ValueError: it is not JSON.
    """
    text = body if isinstance(body, str) else body.decode(json.detect_encoding(body), "surrogatepass")
    if is_deep(text):
        raise TooDeepError(f"nested deeper than {MAX_DEPTH} levels")
    return json.loads(text)


def is_deep(text: str) -> bool:
    """Whether a JSON text is nested too deeply, in linear time; of other texts it may say either."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    # Without escapes, what stands between two quotes is a string. A wrong closing bracket ends the parser, too.
    plain = text.replace("\\\\", "").replace('\\"', "")
    brackets = _OTHER_THAN_BRACKETS.sub("", plain)
    return next(filter(MAX_DEPTH.__lt__, accumulate(map(_STEP.__getitem__, brackets))), None) is not None
