"""A RAG system behind an HTTP endpoint: each question is one request, retried, limited, and never trusted."""

import asyncio
import json
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import SecretStr

from rageval_dagster.errors import SettingsError
from rageval_dagster.network import (
    TooDeepError,
    TooLargeError,
    backoff,
    bound_response,
    is_certificate_error,
    is_loopback,
    parsed_json,
    retry_after,
    run_apart,
    silence_libraries,
    with_jitter,
)
from rageval_dagster.rag.responses import (
    BrokenStreamError,
    ResponseReader,
    is_done,
    line_events,
    sse_events,
    usable_version,
)
from rageval_dagster.rag.system import Retrieval
from rageval_dagster.records import Item
from rageval_dagster.settings import HttpDefinition, Settings
from rageval_dagster.settings.systems import HEADER_VALUE
from rageval_dagster.settings.templates import OF_PARAMETERS, OF_PRINCIPAL, fill, fill_url, spoken

if TYPE_CHECKING:
    import httpx

BACKOFF_S = (0.5, 30.0)
"""The first wait between two attempts, doubled each time, and the longest."""
CONNECT_TIMEOUT_S = 10.0
"""Who takes no connection within it, or within half the timeout, is not there, however long its answers may take."""
MAX_REDIRECTS = 3
UNREACHABLE_QUESTIONS = 5
"""So many that could not even connect, and none before that could: the others would only wait for the same."""

_PASSING_STATUS = {408, 425, 429}


@dataclass(frozen=True)
class _Reply:
    """A whole response that succeeded. `latency_s` is the time of the last of the `attempts`, which got it."""

    body: bytes
    content_type: str
    charset: str
    latency_s: float = 0.0
    attempts: int = 1


@dataclass(eq=False)
class _TroubleError(Exception):
    """Why an attempt got no whole response: `kind: reason`, without anything of request or response.

    `passing`: another attempt may end better; `unreached`: it could not even connect.
    """

    error: str
    passing: bool = False
    unreached: bool = False
    asked_wait_s: float | None = None


class HttpEndpoint:
    """Asks an endpoint questions for one client; plain calls, also inside a running event loop."""

    def __init__(
        self, name: str, definition: HttpDefinition, settings: Settings, client_id: str, reader: ResponseReader
    ) -> None:
        """
        Raises:
            SettingsError: a secret is not set, cannot be a header, or would travel unencrypted; a host is none.
        """
        self._definition = definition
        self._client_id = client_id
        self._reader = reader
        self._secrets = _secret_headers(name, definition, settings)
        self._next_start = 0.0
        self._reached = False
        self._unreached = 0
        for url in filter(None, (definition.url, definition.version_url)):
            _check_address(name, url, may_be_plain=definition.allow_plain_http or not self._secrets)

    def declared_version(self) -> str | None:
        """The version that is defined, or what `version_url` says; None where it fails."""
        if self._definition.version is not None or self._definition.version_url is None:
            return usable_version(self._definition.version)
        return run_apart(self._fetch_version(self._definition.version_url))

    def ask(self, items: Sequence[Item], depth: int) -> list[Retrieval]:
        """What came back for each item, in their order; one that fails stops no other."""
        return run_apart(self._ask_all(items, depth))

    async def _ask_all(self, items: Sequence[Item], depth: int) -> list[Retrieval]:
        retrievals = [Retrieval()] * len(items)
        waiting = iter(enumerate(items))

        async def work(client: "httpx.AsyncClient") -> None:
            for position, item in waiting:
                retrievals[position] = await self._ask(client, item, depth)

        async with self._open(self._definition.url) as client, asyncio.TaskGroup() as group:
            for _ in range(min(self._definition.concurrency, len(items))):
                group.create_task(work(client))
        return retrievals

    async def _ask(self, client: "httpx.AsyncClient", item: Item, depth: int) -> Retrieval:
        if not self._reached and self._unreached >= UNREACHABLE_QUESTIONS:
            return Retrieval(error=f"not_asked: {self._unreached} questions before could not connect")
        try:
            request = self._request(client, item, depth)
        except ValueError:
            return Retrieval(error="not_asked: the question does not fit into the address")
        try:
            reply = await self._exchange(client, request)
        except _TroubleError as trouble:
            self._unreached += trouble.unreached
            self._reached |= not trouble.unreached
            return Retrieval(error=trouble.error)
        self._reached = True
        retrieval = replace(self._read(reply), attempts=reply.attempts)
        if retrieval.answer is None:
            return retrieval
        return replace(retrieval, answer=replace(retrieval.answer, latency_s=reply.latency_s))

    async def _fetch_version(self, url: str) -> str | None:
        async with self._open(url) as client:
            try:
                reply = await self._exchange(client, client.build_request("GET", url, headers={"Accept": "*/*"}))
                text = reply.body.decode(reply.charset)
            except (_TroubleError, ValueError, LookupError):
                return None
        try:
            said = parsed_json(text)
        except ValueError:
            return usable_version(text)
        return self._reader.version(said) if isinstance(said, dict | list) else usable_version(said)

    async def _exchange(self, client: "httpx.AsyncClient", request: "httpx.Request") -> _Reply:
        """The response to a request, after as many attempts as it takes.

        Raises:
            _TroubleError: that of the last attempt.
        """
        attempts = 0
        while True:
            attempts += 1
            await self._wait_for_turn()
            started = time.monotonic()
            try:
                reply = await self._attempt(client, request)
                return replace(reply, latency_s=time.monotonic() - started, attempts=attempts)
            except _TroubleError as trouble:
                if not trouble.passing or attempts >= self._definition.max_attempts:
                    if attempts > 1:
                        trouble.error += f" after {attempts} attempts"
                    raise
                asked = trouble.asked_wait_s
            longest = self._definition.timeout_s
            await asyncio.sleep(backoff(attempts, *BACKOFF_S) if asked is None else with_jitter(min(asked, longest)))

    async def _wait_for_turn(self) -> None:
        """Starts as far apart as the rate limit says, those of other attempts included."""
        if self._definition.rate_per_s is None:
            return
        now = time.monotonic()
        start = max(now, self._next_start)
        self._next_start = start + 1 / self._definition.rate_per_s
        await asyncio.sleep(start - now)

    async def _attempt(self, client: "httpx.AsyncClient", request: "httpx.Request") -> _Reply:
        import httpx

        try:
            # Of the whole attempt: a body that drips in for ever is none.
            async with asyncio.timeout(self._definition.timeout_s):
                response = await self._send(client, request)
                try:
                    return await self._receive(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise _TroubleError(
                f"timeout: no whole response within {self._definition.timeout_s:g} s", passing=True
            ) from None
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, UnicodeError) as error:
            if is_certificate_error(error):
                raise _TroubleError("connection: the certificate is not trusted", unreached=True) from None
            raise _TroubleError("connection: cannot connect", passing=True, unreached=True) from None
        except (httpx.HTTPError, httpx.InvalidURL):
            raise _TroubleError("connection: closed without a valid response", passing=True) from None

    async def _send(self, client: "httpx.AsyncClient", request: "httpx.Request") -> "httpx.Response":
        """The response, its body not yet read. Redirects are followed where they stay with the same server."""
        origin = _origin(request.url)
        for _ in range(MAX_REDIRECTS + 1):
            response = await client.send(request, stream=True)
            if response.next_request is None:
                return response
            await response.aclose()
            if _origin(response.next_request.url) != origin:
                raise _TroubleError("redirect_refused: to another scheme, host or port")
            if response.status_code == 303:
                request = response.next_request
            else:  # not a GET, as browsers do: the question would be lost
                request = client.build_request(
                    request.method, response.next_request.url, content=request.content, headers=request.headers
                )
        raise _TroubleError(f"redirect_refused: more than {MAX_REDIRECTS} in a row")

    async def _receive(self, response: "httpx.Response") -> _Reply:
        import httpx

        status = response.status_code
        if not response.is_success:
            raise _TroubleError(
                f"http_status: {status}",
                passing=status in _PASSING_STATUS or status >= 500,
                asked_wait_s=retry_after(response.headers),
            )
        body = bytearray()
        try:
            async for piece in response.aiter_bytes():
                body += piece
                if self._definition.stream == "sse" and is_done(body, len(piece)):
                    break
        except TooLargeError as error:
            raise _TroubleError(f"too_large: {error}") from None
        except (httpx.HTTPError, zlib.error):
            raise _TroubleError("broken_stream: the connection closed before the end", passing=True) from None
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        return _Reply(bytes(body), content_type, response.charset_encoding or "utf-8")

    def _read(self, reply: _Reply) -> Retrieval:
        kind = self._definition.stream
        is_text = reply.content_type == "text/plain" and self._definition.response.answer == "@"
        try:
            if kind == "sse":
                return self._reader.read_events(sse_events(reply.body))
            if kind == "lines":
                return self._reader.read_events(line_events(reply.body))
            if kind == "text" or is_text:
                return self._reader.read_text(reply.body.decode(reply.charset))
            return self._reader.read(parsed_json(reply.body))
        except BrokenStreamError as error:
            return Retrieval(error=f"broken_stream: {error}")
        except TooLargeError as error:
            return Retrieval(error=f"too_large: {error}")
        except TooDeepError as error:
            return Retrieval(error=f"wrong_shape: the body is {error}")
        except (ValueError, LookupError):
            return Retrieval(error=f"wrong_shape: the body is no {'text' if kind == 'text' or is_text else 'JSON'}")

    def _request(self, client: "httpx.AsyncClient", item: Item, depth: int) -> "httpx.Request":
        """
        Raises:
            ValueError: something of the question cannot stand in the URL.
        """
        import httpx

        principal = item.principal or {}
        values = {
            "question": item.question,
            "k": depth,
            "history": [dict(turn) for turn in item.history],
            "principal": dict(principal) or None,
            "client": self._client_id,
            **{OF_PRINCIPAL + name: value for name, value in principal.items()},
            **{OF_PARAMETERS + name: value for name, value in self._definition.params.items()},
        }
        content = fill(self._definition.request, values)
        try:
            url = httpx.URL(fill_url(self._definition.url, values))
            if self._definition.method == "GET":
                return client.build_request(
                    "GET", url.copy_merge_params({name: spoken(value) for name, value in content.items()})
                )
        except httpx.InvalidURL:
            raise ValueError("no URL") from None
        # In ASCII, so that half a surrogate pair, legal in JSON, can be sent too.
        return client.build_request("POST", url, content=json.dumps(content, default=str).encode())

    def _open(self, url: str) -> "httpx.AsyncClient":
        """A client for `url`: with the secrets where that is of the system's own scheme, host and port."""
        import httpx

        silence_libraries()
        # Nothing compressed: a little of it can be a lot.
        headers = httpx.Headers({"Accept-Encoding": "identity"})
        if self._definition.method == "POST":
            headers["Content-Type"] = "application/json"
        if self._definition.stream == "sse":
            headers["Accept"] = "text/event-stream"
        headers.update(self._definition.headers)
        if _origin(httpx.URL(url)) == _origin(httpx.URL(self._definition.url)):
            headers.update({name: secret.get_secret_value() for name, secret in self._secrets.items()})
        host = urlsplit(self._definition.url).hostname or ""
        return httpx.AsyncClient(
            headers=headers,
            follow_redirects=False,
            timeout=httpx.Timeout(None, connect=min(CONNECT_TIMEOUT_S, self._definition.timeout_s / 2)),
            # Each question stands for itself: no session goes from one to the next.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            event_hooks={"response": [bound_response]},
            # A proxy for the way out has nothing to do with this machine's own services.
            mounts={f"all://{host}": None} if is_loopback(host) else None,
        )


def _secret_headers(name: str, definition: HttpDefinition, settings: Settings) -> dict[str, SecretStr]:
    variables = dict(definition.headers_env)
    if definition.auth_env is not None:
        variables["Authorization"] = definition.auth_env
    secrets = {header: settings.secret(variable) for header, variable in variables.items()}
    for header, secret in secrets.items():
        if not HEADER_VALUE.fullmatch(secret.get_secret_value()):
            raise SettingsError(
                f"system {name!r}: {variables[header]} cannot be sent as {header}: a header takes one line of ASCII"
            )
    if definition.auth_env is not None:
        secrets["Authorization"] = SecretStr(f"Bearer {secrets['Authorization'].get_secret_value()}")
    return secrets


def _check_address(name: str, url: str, may_be_plain: bool) -> None:
    import httpx

    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL:
        raise SettingsError(f"system {name!r}: {urlsplit(url).hostname!r} is no host") from None
    if parts.scheme == "http" and not may_be_plain and not is_loopback(parts.host):
        raise SettingsError(
            f"system {name!r}: {parts.host} would get secrets without encryption; give an https:// address, or set "
            "allow_plain_http = true where the network is trusted"
        )


def _origin(url: "httpx.URL") -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
