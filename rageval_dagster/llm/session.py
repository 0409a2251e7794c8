"""One call of a client: its requests in flight, tried again where that may help, and what was heard of the endpoint."""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from rageval_dagster.errors import BudgetReachedError, LanguageModelError
from rageval_dagster.llm.access import ModelAccess
from rageval_dagster.llm.budgets import cost_of
from rageval_dagster.llm.conversations import Asker, Conversation
from rageval_dagster.llm.dialects import dialect_of, forget_dialect
from rageval_dagster.llm.ledger import Ledger
from rageval_dagster.llm.limits import AdaptiveLimit
from rageval_dagster.llm.messages import ChatRequest, Completion, Failure, ModelFailedError, UnusableReplyError
from rageval_dagster.llm.tokens import estimated_tokens
from rageval_dagster.network import backoff, retry_after, with_jitter
from rageval_dagster.records import Progress
from rageval_dagster.storage.caches import LlmCall
from rageval_dagster.storage.types import storable

if TYPE_CHECKING:
    import openai

T = TypeVar("T")
S = TypeVar("S")

BACKOFF_S = (0.5, 30.0)
"""The first wait between two attempts, doubled each time, and the longest."""
LONGEST_ASKED_WAIT_S = 120.0
"""A server that asks for a longer wait (Retry-After) is not coming back within this run: the request has failed."""
FIRST_CONTACT_ATTEMPTS = 5
"""How often an endpoint that never answered is tried (about 6 s): most likely its address is wrong or it is down."""
UNUSABLE_ATTEMPTS = 5
"""How often a request is sent whose replies are empty, cut off or not what was asked for: each reply is paid for."""
SAME_REPLIES = 4
"""A model that gave the same unusable reply so often will give it again."""
TOO_LONG_REQUESTS = 3
"""So many requests that are all too long for the model, and none that was not: the model is the wrong one."""
CONVERSATIONS_A_PLACE = 16
"""Conversations that are going on for each request that may be in flight: most of them wait, which costs little."""
ENDPOINT_DOWN = 3
"""So many requests that failed for good, and not one reply to any other meanwhile: the others would fail too."""

MOST_TOKENS = 100_000_000
"""No reply takes more, whatever its endpoint says."""

_PASSING_STATUS = {408, 409, 425, 429}
_OVERLOADED_STATUS = {429, 503}
_NOT_PASSING_CODES = {"insufficient_quota", "billing_hard_limit_reached"}
_REFUSED_CONTENT_CODES = {"content_filter", "content_policy_violation"}
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context|context (length|size|window)|prompt is too long|"
    r"too many (input )?tokens|string_above_max_length",
    re.IGNORECASE,
)


class Session:
    """What `ChatClient.complete` and `ChatClient.converse` do, in one event loop."""

    def __init__(self, client: ModelAccess) -> None:
        self._client = client
        self._settings = client.settings
        self._dialect = dialect_of(client.endpoint)
        self._in_flight: dict[str, asyncio.Future[Completion]] = {}
        self._heard: float | None = None  # when the endpoint last said anything at all (monotonic)
        self._replied: float | None = None  # when it last gave a reply, usable or not
        self._too_long = 0
        self._failed = 0  # requests that failed since the last reply
        self._unrecorded = (0, 0)  # tokens of requests that are still to be sent again

    async def complete(self, requests: Sequence[ChatRequest]) -> list[Completion | Failure]:
        async def one(asker: Asker, request: ChatRequest) -> Completion:
            return await asker.complete(request, str)

        return await self.converse(requests, one, None)

    async def converse(
        self, subjects: Sequence[S], conversation: Conversation[S, T], progress: Progress | None
    ) -> list[T | Failure]:
        client = self._client
        self._limit = AdaptiveLimit(self._settings.llm_concurrency, client.limit)
        self._first_contact = AdaptiveLimit(1)
        self.ledger = client.memory or Ledger(client.db, client.client_id, self._settings.llm_cache_max_age_days)
        client.budgets.look(())
        results: list[Any] = [None] * len(subjects)
        waiting = iter(enumerate(subjects))
        done = 0
        reached: BudgetReachedError | None = None

        async def work() -> None:
            nonlocal done, reached
            for number, subject in waiting:
                try:
                    results[number] = await conversation(_Asker(self, number), subject)
                except ModelFailedError as error:
                    results[number] = error.failure
                except BudgetReachedError as error:
                    # Others that were asked before it was reached still get their replies.
                    reached = error
                    return
                done += 1
                if progress is not None:
                    progress(done, len(subjects))

        at_once = min(len(subjects), CONVERSATIONS_A_PLACE * self._settings.llm_concurrency)
        try:
            self._http = client.open()
            async with self._http:
                workers = [asyncio.create_task(work()) for _ in range(at_once)]
                try:
                    await asyncio.gather(*workers)
                finally:
                    for worker in workers:
                        worker.cancel()
                    await asyncio.gather(*workers, return_exceptions=True)
        finally:
            client.limit = self._limit.value
            await self.ledger.settle()
        if reached is not None:
            # With what was in flight when it was reached.
            spent = client.budgets.reached() or reached
            raise BudgetReachedError(
                f"{client.role} model {client.endpoint.model!r}: {spent}; {done} of {len(subjects)} are done, and what "
                "came is kept: run again with more, or when it is renewed, to go on"
            )
        if self._too_long and self._replied is None:
            raise self._too_long_error()
        return results

    async def outcome(self, request: ChatRequest, read: Callable[[str], T], priority: int) -> tuple[Completion, T]:
        """The reply and what it says, from the cache, from an equal request in flight, or from the endpoint."""
        key = self._client.key(request)
        kept = await self.ledger.known(key)
        if kept is not None:
            completion = Completion.from_json(kept.response, kept.made_at)
            try:
                value = read(completion.text)
            except UnusableReplyError:
                pass  # kept by an earlier version of what reads it
            else:
                self._record(completion)
                return completion, value
        if key in self._in_flight:
            completion = await asyncio.shield(self._in_flight[key])
            try:
                return completion, read(completion.text)
            except UnusableReplyError as error:
                raise ModelFailedError(Failure(error.reason)) from None
        turn: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._in_flight[key] = turn
        try:
            with ExitStack() as put_off:
                completion, value = await self._send(request, read, priority, put_off)
        except BaseException as error:
            turn.set_exception(error)
            turn.exception()  # seen, also where nobody else waits for it
            raise
        else:
            self.ledger.keep(key, self._client.endpoint.model, completion.to_json())
            turn.set_result(completion)
            return completion, value
        finally:
            del self._in_flight[key]

    async def _send(
        self, request: ChatRequest, read: Callable[[str], T], priority: int, put_off: ExitStack
    ) -> tuple[Completion, T]:
        """Sends one request until it has a usable reply, or attempts are used up.

        `put_off` holds it as put off from the first time that it has to be sent again for the endpoint's sake.
        """
        attempts = waits = unusable = 0
        is_new = True
        tokens = (0, 0)
        replies: dict[str, int] = {}
        again = float("inf")  # since when it is tried again
        reason = ""
        while True:
            attempts += 1
            try:
                reached = await self._in_turn(request, priority, is_new)
            except BudgetReachedError:
                if any(tokens):
                    self._record(Failure("the budget was spent", attempts - 1), tokens)
                raise
            if isinstance(reached, _Adapted):
                attempts -= 1
                continue
            tokens = _sum(tokens, reached.tokens)
            self._unrecorded = _sum(self._unrecorded, reached.tokens)
            self._client.budgets.spend(self._cost(reached.tokens), sum(reached.tokens))
            if isinstance(reached, Completion):
                try:
                    value = read(reached.text)
                except UnusableReplyError as error:
                    trouble = _Trouble(error.reason, paid=True, said=reached.text)
                else:
                    completion = replace(reached, retries=attempts - 1)
                    self._record(completion, tokens)
                    return completion, value
            else:
                trouble = reached
            if trouble.refusal is not None:
                self._record(Failure(trouble.reason, attempts - 1), tokens)
                raise self._client.error(*trouble.refusal)
            if is_new and not trouble.paid and not trouble.final:
                put_off.enter_context((self._limit if self._dialect.speaks else self._first_contact).put_off())
                is_new = False
            reason = trouble.reason
            unusable += trouble.paid
            if trouble.said is not None:
                replies[trouble.said] = replies.get(trouble.said, 0) + 1
            allowed = self._settings.llm_max_attempts
            if trouble.unreachable and self._heard is None:
                allowed = min(allowed, FIRST_CONTACT_ATTEMPTS)
            asked_wait = trouble.asked_wait_s or 0.0
            if asked_wait:
                wait = with_jitter(asked_wait)
            else:
                waits += not trouble.paid
                # A reply that is no use tells of no trouble that time would mend.
                wait = 0.0 if trouble.paid else backoff(waits, *BACKOFF_S)
            ends = trouble.final or unusable >= UNUSABLE_ATTEMPTS or max(replies.values(), default=0) >= SAME_REPLIES
            if ends or attempts >= allowed or asked_wait > LONGEST_ASKED_WAIT_S:
                break
            again = min(again, time.monotonic())
            await asyncio.sleep(wait)
        failure = Failure(reason + (f" after {attempts} attempts" if attempts > 1 else ""), attempts - 1)
        self._record(failure, tokens)
        if trouble.too_long:
            self._too_long += 1
            if self._too_long >= TOO_LONG_REQUESTS and self._replied is None:
                raise self._too_long_error()
        elif not trouble.final and not trouble.paid:
            self._failed += 1
            silent = (self._replied or 0) < again
            if self._heard is None or (trouble.disconnected and silent) or (silent and self._failed >= ENDPOINT_DOWN):
                what, advice = "does not answer", "see that it is up and the base URL right, then run again"
                if trouble.overloaded:
                    what, advice = "takes no more requests", "run again when its limit is renewed"
                raise self._client.error(f"{what} ({failure.reason})", f"{advice}: what came is kept")
        raise ModelFailedError(failure)

    async def _in_turn(self, request: ChatRequest, priority: int, is_new: bool) -> "Completion | _Trouble | _Adapted":
        """One attempt, when there is a place for it; alone until it is known that the endpoint speaks."""
        if not self._dialect.speaks:
            async with self._first_contact.place(priority, is_new):
                if not self._dialect.speaks:
                    self._check_budgets()
                    return await self._attempt(request)
        async with self._limit.place(priority, is_new):
            self._check_budgets()
            outcome = await self._attempt(request)
        if not isinstance(outcome, _Adapted):
            self._limit.replied(isinstance(outcome, _Trouble) and outcome.overloaded)
        return outcome

    async def _attempt(self, request: ChatRequest) -> "Completion | _Trouble | _Adapted":
        import openai

        sent = self._dialect.parameters(request)
        body = {"model": self._client.endpoint.model, "messages": request.messages, **sent}
        timeout = self._settings.llm_timeout_s
        started = time.monotonic()
        reply: Any
        try:
            # The package's own timeout starts anew with every byte that comes.
            async with asyncio.timeout(timeout):
                # Without the package's models of requests and replies, which take longer than all else done here.
                reply = await self._http.post("/chat/completions", cast_to=object, body=body)
        except (openai.APITimeoutError, TimeoutError):
            return _Trouble(f"no reply within {timeout:g} s", unreachable=True)
        except openai.APIConnectionError as error:
            # A connection that was there and broke may be this one request's fault.
            refused = "Connect" in type(error.__cause__).__name__
            reason = "cannot connect" if refused else "the connection broke"
            return _Trouble(reason, unreachable=True, disconnected=refused)
        except openai.APIStatusError as error:
            self._heard = time.monotonic()
            return self._refused(error, sent)
        except (ValueError, RecursionError):
            self._heard = self._replied = time.monotonic()
            return _Trouble("the reply is not JSON", paid=True)
        self._heard = time.monotonic()
        outcome = self._read(reply, request, time.monotonic() - started)
        if isinstance(outcome, Completion) or outcome.paid:
            self._replied, self._failed = time.monotonic(), 0
            self._dialect.heard(sent)
        return outcome

    def _read(self, reply: Any, request: ChatRequest, latency_s: float) -> "Completion | _Trouble":
        """The completion in a reply of the API; anything may have come."""
        if not isinstance(_part(reply, "choices"), list):
            # Gateways say that all is well (200), and then what went wrong behind them.
            if self._dialect.speaks or isinstance(_part(reply, "error"), dict):
                return _Trouble("the reply is no chat completion")
            advice = "give the base URL of an OpenAI-compatible API, often ending in /v1"
            return _Trouble("not a chat API", refusal=("is not a chat API", advice))
        choice = _part(reply["choices"], 0)
        text, finish = _text(_part(_part(choice, "message"), "content")), _part(choice, "finish_reason")
        told = [_told(_part(reply, "usage"), name) for name in ("prompt_tokens", "completion_tokens")]
        prompt = told[0] or estimated_tokens("".join(message["content"] for message in request.messages))
        tokens = prompt, told[1] or estimated_tokens(text)
        if finish == "content_filter":
            # What stands there is no more than a beginning.
            return _Trouble("the endpoint refused the content (content_filter)", paid=True, tokens=tokens, final=True)
        if not text.strip():
            return _Trouble("the reply is empty", paid=True, tokens=tokens, said="")
        if finish == "length":
            return _Trouble("the reply was cut off at the model's limit", paid=True, tokens=tokens, said=text)
        return Completion(storable(text), *tokens, latency_s=latency_s, counted=None not in told)

    def _refused(self, error: "openai.APIStatusError", sent: dict[str, Any]) -> "_Trouble | _Adapted":
        status, code = error.status_code, _short_code(error.code)
        said = f"{error.code} {error.type} {error.message}"
        if code in _REFUSED_CONTENT_CODES:
            return _Trouble(f"the endpoint refused the content ({code})", final=True)
        if (status in _PASSING_STATUS or status >= 500) and status != 501 and code not in _NOT_PASSING_CODES:
            wait = retry_after(error.response.headers)
            return _Trouble(f"HTTP {status}", asked_wait_s=wait, overloaded=status in _OVERLOADED_STATUS)
        if status in {400, 413, 422} and _TOO_LONG.search(said):
            return _Trouble("the request is too long for the model's context window", final=True, too_long=True)
        if self._dialect.adapt(status, error.param, error.message, sent):
            return _Adapted()
        if not self._dialect.taken:
            forget_dialect(self._client.endpoint)
        what = f"answers HTTP {status}" + (f" ({code})" if code else "")
        return _Trouble(what, refusal=(what, _advice(status, code, self._client.role)))

    def _check_budgets(self) -> None:
        budgets = self._client.budgets
        if budgets.is_stale:
            budgets.look(self.ledger.unwritten)
            budgets.spend(self._cost(self._unrecorded), sum(self._unrecorded))
        budgets.check()

    def _too_long_error(self) -> LanguageModelError:
        return self._client.error(
            "takes none of the requests: they are too long for the model's context window",
            "choose one with a larger window, smaller chunks or a smaller k",
        )

    def _cost(self, tokens: tuple[int, int]) -> float | None:
        return cost_of(self._settings, self._client.endpoint.model, *tokens)

    def _record(self, outcome: Completion | Failure, tokens: tuple[int, int] = (0, 0)) -> None:
        """`tokens` are those of all attempts."""
        client = self._client
        done = outcome if isinstance(outcome, Completion) else Completion("")
        self._unrecorded = _sum(self._unrecorded, (-tokens[0], -tokens[1]))
        self.ledger.record(
            LlmCall(
                client_id=client.client_id,
                role=client.role,
                model=client.endpoint.model,
                prompt_tokens=tokens[0],
                completion_tokens=tokens[1],
                cost_usd=0.0 if done.cache_hit else self._cost(tokens),
                latency_s=done.latency_s,
                cache_hit=done.cache_hit,
                retries=outcome.retries,
                error=outcome.reason if isinstance(outcome, Failure) else None,
                run_id=client.run_id,
            )
        )


@dataclass(frozen=True)
class _Asker:
    """The asker of one conversation; its number is its place in the queue."""

    session: Session
    number: int

    async def ask(self, request: ChatRequest, read: Callable[[str], T]) -> T:
        _, value = await self.session.outcome(request, read, self.number)
        return value

    async def complete(self, request: ChatRequest, read: Callable[[str], Any]) -> Completion:
        completion, _ = await self.session.outcome(request, read, self.number)
        return completion


class _Adapted:
    """The endpoint does not take the request as it was said; it is to be sent again, said otherwise."""


@dataclass(frozen=True)
class _Trouble:
    """An attempt without a usable reply. `paid`: a reply came; `final`: another attempt would end the same.

    `said` is that reply and `tokens` what it took. `unreachable`: nothing came; `disconnected`: there is no connection.
    `overloaded`: the endpoint has too much to do; `too_long`: this one request is too long. `refusal`: any other
    request would end the same, too: what the endpoint says, and what to do. It is raised where nothing is at hand that
    quotes the reply, which may quote the prompt or the key.
    """

    reason: str
    asked_wait_s: float | None = None
    paid: bool = False
    said: str | None = None
    tokens: tuple[int, int] = (0, 0)
    final: bool = False
    unreachable: bool = False
    disconnected: bool = False
    overloaded: bool = False
    too_long: bool = False
    refusal: tuple[str, str] | None = None


def _advice(status: int, code: str | None, role: str) -> str:
    name = role.upper()
    if status == 402 or code in _NOT_PASSING_CODES:
        return "the account has no credit left: see its billing, then run again"
    if status in {401, 403}:
        return f"see that OPENAI_API_KEY or RAGEVAL_{name}_API_KEY is valid for this endpoint and model"
    if status == 404:
        return f"see that the model exists there (RAGEVAL_{name}_MODEL) and that the base URL is right"
    if 300 <= status < 400:
        return "redirects are not followed: give the address that it redirects to"
    return f"the endpoint does not take the request: see that RAGEVAL_{name}_MODEL is a chat model"


def _short_code(code: Any) -> str | None:
    """The error code a reply gives, if it is a plain identifier: anything else might quote what was sent."""
    return code if isinstance(code, str) and re.fullmatch(r"[a-z][a-z_]{2,40}", code) else None


def _sum(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


def _text(content: Any) -> str:
    """The text of a message; some endpoints give it in parts, beside what the model thought."""
    if isinstance(content, list):
        return "".join(map(_text, (_part(part, "text") for part in content)))
    return content if isinstance(content, str) else ""


def _told(usage: Any, name: str) -> int | None:
    """The tokens that an endpoint says it counted; None where it says none, or what cannot be.

    They are estimated then, so that limits hold there too.
    """
    said = _part(usage, name)
    return said if isinstance(said, int) and 0 < said <= MOST_TOKENS else None


def _part(value: Any, key: str | int) -> Any:
    """The part of a reply under a key or at a place; None where it is not of that shape."""
    if isinstance(key, str):
        return value.get(key) if isinstance(value, dict) else None
    return value[key] if isinstance(value, list) and len(value) > key else None
