"""The one client of OpenAI-compatible chat endpoints: bounded concurrency, retries, a cache, and a record of calls."""

import asyncio
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from rageval_dagster.errors import LanguageModelError, SettingsError
from rageval_dagster.identity import digest_json
from rageval_dagster.network import backoff, retry_after, run_apart, silence_libraries, with_jitter
from rageval_dagster.settings import Settings
from rageval_dagster.storage.caches import LlmCall, llm_get, llm_put, record_calls
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    import openai

Role = Literal["generator", "answer"]

DEFAULT_BASE_URL = "https://api.openai.com/v1"
BACKOFF_S = (0.5, 30.0)
"""The first wait between two attempts, doubled each time, and the longest."""
LONGEST_ASKED_WAIT_S = 120.0
"""A server that asks for a longer wait (Retry-After) is not coming back within this run: the request has failed."""
FIRST_CONTACT_ATTEMPTS = 5
"""How often an endpoint that never answered is tried (about 6 s): most likely its address is wrong or it is down."""
UNUSABLE_ATTEMPTS = 3
"""How often a request is sent whose replies are empty, cut off or no JSON: each reply is paid for."""

_PASSING_STATUS = {408, 409, 425, 429}
_NOT_PASSING_CODES = {"insufficient_quota", "billing_hard_limit_reached"}
_REFUSED_CONTENT_CODES = {"content_filter", "content_policy_violation"}


@dataclass(frozen=True)
class ChatRequest:
    """One question to a model. `seed` tells apart requests that are otherwise equal (several drafts of one thing)."""

    user: str
    system: str | None = None
    temperature: float = 0.0
    max_tokens: int | None = None
    seed: int | None = None

    @property
    def messages(self) -> list[dict[str, str]]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": self.user}]

    @property
    def parameters(self) -> dict[str, Any]:
        optional = {"max_tokens": self.max_tokens, "seed": self.seed}
        return {"temperature": self.temperature} | {key: value for key, value in optional.items() if value is not None}


@dataclass(frozen=True)
class Completion:
    """A usable reply. `latency_s` is the time of the attempt that succeeded; 0 from the cache."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    retries: int = 0
    cache_hit: bool = False


@dataclass(frozen=True)
class Failure:
    """A request that got no usable reply, and why, without any text of it."""

    reason: str
    retries: int = 0


@dataclass(frozen=True)
class Endpoint:
    """Where a role's model is. `host` is what messages name; the URL itself may hold a password."""

    model: str
    base_url: str = field(repr=False)
    api_key: SecretStr | None

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc.rpartition("@")[2]


def endpoint_of(settings: Settings, role: Role) -> Endpoint | None:
    """The endpoint of a role; None where no model is set for it.

    Raises:
        SettingsError: a model is set, but neither a key nor an address.
    """
    own = {name: getattr(settings, f"{role}_{name}") for name in ("model", "base_url", "api_key")}
    if own["model"] is None:
        return None
    base_url, api_key = own["base_url"] or settings.openai_base_url, own["api_key"] or settings.openai_api_key
    if base_url is None and api_key is None:
        raise SettingsError(
            f"RAGEVAL_{role.upper()}_MODEL has no endpoint: set OPENAI_API_KEY, or OPENAI_BASE_URL for a local one"
        )
    return Endpoint(own["model"], base_url or DEFAULT_BASE_URL, api_key)


class ChatClient:
    """Sends a role's requests to its endpoint, for one client's data; plain calls, also inside a running event loop."""

    def __init__(
        self, settings: Settings, role: Role, db: Database, client_id: str, dagster_run_id: str | None = None
    ) -> None:
        # The settings of such a client name no model. Should they once: nothing of it is sent all the same.
        if settings.llm == "forbidden":
            raise LanguageModelError(f"client {client_id!r}: llm is forbidden, so the {role} model is not asked")
        endpoint = endpoint_of(settings, role)
        if endpoint is None:
            raise SettingsError(f"RAGEVAL_{role.upper()}_MODEL is not set: name the chat model to use")
        self.endpoint = endpoint
        self._settings = settings
        self._role = role
        self._db = db
        self._client_id = client_id
        self._dagster_run_id = dagster_run_id
        self._last_reply: float | None = None  # when the endpoint last said anything at all (monotonic)

    @property
    def version(self) -> str:
        """Changes when another model, or the same one at another address, would answer."""
        return digest_json([self.endpoint.model, self.endpoint.base_url])

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion | Failure]:
        """A completion or a failure for each request, in their order; equal requests are sent once.

        What an equal request got before, and is young enough, comes from the cache; failures are never kept.

        Raises:
            LanguageModelError: the endpoint refuses (wrong key, unknown model, malformed or too long a request,
                no chat endpoint at all), or could not be reached for any request.
        """
        if not requests:
            return []
        distinct = {self._key(request): request for request in requests}
        outcomes = run_apart(self._complete_all(distinct))
        return [outcomes[self._key(request)] for request in requests]

    def _key(self, request: ChatRequest) -> str:
        """All that determines the reply."""
        return digest_json([self.endpoint.base_url, self.endpoint.model, request.messages, request.parameters])

    async def _complete_all(self, requests: dict[str, ChatRequest]) -> dict[str, Completion | Failure]:
        outcomes: dict[str, Completion | Failure] = {}
        try:
            for key in requests:
                if (kept := self._from_cache(key)) is not None:
                    outcomes[key] = kept
            missing = {key: request for key, request in requests.items() if key not in outcomes}
            if missing:
                async with self._open() as client:
                    await self._send_all(client, missing, outcomes)
        finally:
            record_calls(self._db, [self._record(outcome) for outcome in outcomes.values()])
        return outcomes

    async def _send_all(
        self, client: "openai.AsyncOpenAI", requests: dict[str, ChatRequest], outcomes: dict[str, Completion | Failure]
    ) -> None:
        waiting = iter(requests.items())

        async def work() -> None:
            for key, request in waiting:
                outcome = await self._send(client, request)
                outcomes[key] = outcome
                if isinstance(outcome, Completion):
                    # Stored as it comes: a process that is killed pays again for nothing that it has received.
                    llm_put(self._db, self._client_id, key, self.endpoint.model, _to_cache(outcome))

        workers = [asyncio.create_task(work()) for _ in range(min(self._settings.llm_concurrency, len(requests)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _send(self, client: "openai.AsyncOpenAI", request: ChatRequest) -> Completion | Failure:
        """Sends one request until it has a usable reply, or attempts are used up."""
        attempts = unusable = 0
        began = time.monotonic()
        while True:
            attempts += 1
            started = time.monotonic()
            outcome = await self._attempt(client, request)
            if isinstance(outcome, Completion):
                return replace(outcome, latency_s=time.monotonic() - started, retries=attempts - 1)
            if outcome.refusal is not None:
                raise self._error(*outcome.refusal)
            unusable += outcome.paid
            allowed = self._settings.llm_max_attempts
            if outcome.unreachable and self._last_reply is None:
                allowed = min(allowed, FIRST_CONTACT_ATTEMPTS)
            asked = outcome.asked_wait_s
            wait = backoff(attempts, *BACKOFF_S) if asked is None else with_jitter(asked)
            if outcome.final or attempts >= allowed or unusable >= UNUSABLE_ATTEMPTS or wait > LONGEST_ASKED_WAIT_S:
                if outcome.unreachable and (self._last_reply or 0) < began:
                    raise self._error("does not answer", "see that it is up and the base URL right, then run again")
                return Failure(outcome.reason + (f" after {attempts} attempts" if attempts > 1 else ""), attempts - 1)
            await asyncio.sleep(wait)

    async def _attempt(self, client: "openai.AsyncOpenAI", request: ChatRequest) -> "Completion | _Trouble":
        import openai

        messages: Any = request.messages
        reply: Any
        try:
            reply = await client.chat.completions.create(
                model=self.endpoint.model, messages=messages, **request.parameters
            )
        except openai.APITimeoutError:
            return _Trouble(f"no reply within {self._settings.llm_timeout_s:g} s")
        except openai.APIConnectionError:
            return _Trouble("cannot connect", unreachable=True)
        except openai.APIStatusError as error:
            self._last_reply = time.monotonic()
            status, code, wait = error.status_code, _short_code(error.code), retry_after(error.response.headers)
            return self._status_trouble(status, code, wait)
        except (openai.APIResponseValidationError, ValueError):
            self._last_reply = time.monotonic()
            return _Trouble("the reply is not JSON", paid=True)
        self._last_reply = time.monotonic()
        return self._read(reply)

    def _read(self, reply: Any) -> "Completion | _Trouble":
        """The completion in a reply of the API; anything may have come."""
        if isinstance(reply, str):
            advice = "give the base URL of an OpenAI-compatible API, often ending in /v1"
            return _Trouble("not a chat API", refusal=("is not a chat API", advice))
        choices = getattr(reply, "choices", None)
        choice = choices[0] if isinstance(choices, list) and choices else None
        text = getattr(getattr(choice, "message", None), "content", None)
        if not isinstance(text, str) or not text.strip():
            return _Trouble("the reply is empty", paid=True)
        if getattr(choice, "finish_reason", None) == "length":
            return _Trouble("the reply was cut off at the model's limit", paid=True)
        usage = getattr(reply, "usage", None)
        return Completion(
            text,
            prompt_tokens=getattr(usage, "prompt_tokens", None) or 0,
            completion_tokens=getattr(usage, "completion_tokens", None) or 0,
        )

    def _status_trouble(self, status: int, code: str | None, asked_wait_s: float | None) -> "_Trouble":
        if code in _REFUSED_CONTENT_CODES:
            return _Trouble(f"the endpoint refused the content ({code})", final=True)
        if (status in _PASSING_STATUS or status >= 500) and code not in _NOT_PASSING_CODES:
            return _Trouble(f"HTTP {status}", asked_wait_s=asked_wait_s)
        said = f"answers HTTP {status}" + (f" ({code})" if code else "")
        return _Trouble(said, refusal=(said, _advice(status, code, self._role)))

    def _error(self, what: str, advice: str) -> LanguageModelError:
        return LanguageModelError(f"{self._role} model {self.endpoint.model!r}: {self.endpoint.host} {what}; {advice}")

    def _open(self) -> "openai.AsyncOpenAI":
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        silence_libraries()
        key = self.endpoint.api_key
        return AsyncOpenAI(
            base_url=self.endpoint.base_url,
            # A local endpoint needs no key, but the package wants one.
            api_key=key.get_secret_value() if key else "none",
            timeout=self._settings.llm_timeout_s,
            max_retries=0,
            # Prompts and keys go to the host that the user named, and to no other.
            http_client=DefaultAsyncHttpxClient(follow_redirects=False, timeout=self._settings.llm_timeout_s),
        )

    def _from_cache(self, key: str) -> Completion | None:
        kept = llm_get(self._db, self._client_id, key, self._settings.llm_cache_max_age_days)
        return None if kept is None else Completion(**json.loads(kept), cache_hit=True)

    def _record(self, outcome: Completion | Failure) -> LlmCall:
        done = outcome if isinstance(outcome, Completion) else Completion("")
        return LlmCall(
            client_id=self._client_id,
            role=self._role,
            model=self.endpoint.model,
            prompt_tokens=0 if done.cache_hit else done.prompt_tokens,
            completion_tokens=0 if done.cache_hit else done.completion_tokens,
            cost_usd=None,
            latency_s=done.latency_s,
            cache_hit=done.cache_hit,
            retries=outcome.retries,
            error=outcome.reason if isinstance(outcome, Failure) else None,
            dagster_run_id=self._dagster_run_id,
        )


@dataclass(frozen=True)
class _Trouble:
    """An attempt without a usable reply. `paid`: a reply came; `final`: another attempt would end the same.

    `refusal`: so would any other request: what the endpoint says, and what to do. It is raised where nothing is at hand
    that quotes the reply, which may quote the prompt or the key.
    """

    reason: str
    asked_wait_s: float | None = None
    paid: bool = False
    final: bool = False
    unreachable: bool = False
    refusal: tuple[str, str] | None = None


def _advice(status: int, code: str | None, role: str) -> str:
    name = role.upper()
    if code in _NOT_PASSING_CODES:
        return "the account has no credit left: see its billing, then run again"
    if status in {401, 403}:
        return f"see that OPENAI_API_KEY or RAGEVAL_{name}_API_KEY is valid for this endpoint and model"
    if status == 404:
        return f"see that the model exists there (RAGEVAL_{name}_MODEL) and that the base URL is right"
    if code == "context_length_exceeded":
        return "the contexts are too long for the model: choose one with a larger window, smaller chunks or a smaller k"
    if 300 <= status < 400:
        return "redirects are not followed: give the address that it redirects to"
    return f"the endpoint does not take the request: see that RAGEVAL_{name}_MODEL is a chat model"


def _short_code(code: Any) -> str | None:
    """The error code a reply gives, if it is a plain identifier: anything else might quote what was sent."""
    return code if isinstance(code, str) and re.fullmatch(r"[a-z][a-z_]{2,40}", code) else None


def _to_cache(completion: Completion) -> str:
    return json.dumps(
        {
            "text": completion.text,
            "prompt_tokens": completion.prompt_tokens,
            "completion_tokens": completion.completion_tokens,
        },
        ensure_ascii=False,
    )
