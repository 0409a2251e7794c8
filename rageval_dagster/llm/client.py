"""The client of OpenAI-compatible chat endpoints: many conversations at once, and requests tried again."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from rageval_dagster.errors import BudgetReachedError, LanguageModelError, SettingsError
from rageval_dagster.identity import digest_json
from rageval_dagster.llm.attempts import Adapted, Trouble, attempt
from rageval_dagster.llm.budgets import Budgets, cost_of
from rageval_dagster.llm.dialects import dialect_of
from rageval_dagster.llm.endpoints import Role, endpoint_of
from rageval_dagster.llm.ledger import Ledger
from rageval_dagster.llm.limits import AdaptiveLimit
from rageval_dagster.llm.messages import ChatRequest, Completion, Failure, ModelFailedError, UnusableReplyError
from rageval_dagster.network import backoff, bound_response, run_apart, silence_libraries, with_jitter
from rageval_dagster.records import Progress
from rageval_dagster.settings import Settings
from rageval_dagster.storage.caches import LlmCall
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    import openai

__all__ = [
    "Asker",
    "ChatClient",
    "ChatRequest",
    "Completion",
    "Failure",
    "ModelFailedError",
    "Role",
    "UnusableReplyError",
    "endpoint_of",
    "together",
]

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


class ChatClient:
    """Sends a role's requests to its endpoint, for one client's data; plain calls, also inside a running event loop.

    What an equal request of this client got before, and is young enough, comes from the cache of `db` (None: nothing is
    kept beyond the life of this object); failures are never kept. `run_id` is what its calls are recorded under.
    """

    def __init__(
        self, settings: Settings, role: Role, db: Database | None, client_id: str, run_id: str | None = None
    ) -> None:
        # The settings of such a client name no model. Should they once: nothing of it is sent all the same.
        if settings.llm == "forbidden":
            raise LanguageModelError(f"client {client_id!r}: llm is forbidden, so the {role} model is not asked")
        endpoint = endpoint_of(settings, role)
        if endpoint is None:
            raise SettingsError(f"RAGEVAL_{role.upper()}_MODEL is not set: name the chat model to use")
        self.endpoint = endpoint
        self.settings = settings
        self.role: Role = role
        self.client_id = client_id
        self.run_id = run_id
        self.memory = Ledger(None, client_id, 0.0) if db is None else None
        self.db = db
        self.budgets = Budgets(settings, db, client_id, run_id)
        self.limit = float(settings.llm_concurrency)
        """How many may be in flight, as the last session left it."""

    @property
    def version(self) -> str:
        """Changes when another model, or the same one at another address, would answer."""
        return self.endpoint.version

    def complete(self, requests: Sequence[ChatRequest]) -> list[Completion | Failure]:
        """A completion or a failure for each request, in their order; equal requests are sent once.

        Raises:
            LanguageModelError: as `converse`.
        """

        async def one(asker: "Asker", request: ChatRequest) -> Completion:
            return await asker.complete(request, str)

        return self.converse(requests, one)

    def converse(
        self,
        subjects: Sequence[S],
        conversation: Callable[["Asker", S], Awaitable[T]],
        progress: Progress | None = None,
    ) -> list[T | Failure]:
        """What a conversation about each subject came to, in their order; a Failure where it raised ModelFailedError.

        Conversations about many subjects go on at once; where they wait for a place in flight, the earlier subject goes
        first. Equal requests are sent once, whatever conversation they are of.

        Raises:
            LanguageModelError: the endpoint refuses (wrong key, unknown model, malformed requests, no chat endpoint at
                all), gives no reply any more, or takes none of the requests because they are too long.
            BudgetReachedError: a limit is reached; what came until then is kept.
        """
        return run_apart(_Session(self).converse(subjects, conversation, progress)) if subjects else []

    def error(self, what: str, advice: str) -> LanguageModelError:
        return LanguageModelError(f"{self.role} model {self.endpoint.model!r}: {self.endpoint.host} {what}; {advice}")

    def open(self) -> "openai.AsyncOpenAI":
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        silence_libraries()
        key, timeout = self.endpoint.api_key, self.settings.llm_timeout_s
        return AsyncOpenAI(
            base_url=self.endpoint.base_url,
            # A local endpoint needs no key, but the package wants one.
            api_key=key.get_secret_value() if key else "none",
            timeout=timeout,
            max_retries=0,
            # Prompts and keys go to the host that the user named, and to no other.
            http_client=DefaultAsyncHttpxClient(
                follow_redirects=False, timeout=timeout, event_hooks={"response": [bound_response]}
            ),
        )


@dataclass(frozen=True)
class Asker:
    """What a conversation is given: it asks the model, one question after the other or several at once."""

    session: "_Session"
    number: int
    """Of the conversation: its place in the queue."""

    async def ask(self, request: ChatRequest, read: Callable[[str], T]) -> T:
        """What `read` makes of the reply.

        `read` raises UnusableReplyError for a reply that it cannot use: the model is asked again, and only usable
        replies are kept.

        Raises:
            ModelFailedError: no usable reply came, however often it was asked.
        """
        return (await self.session.outcome(request, read, self.number))[1]

    async def complete(self, request: ChatRequest, read: Callable[[str], Any]) -> Completion:
        """As `ask`, but the reply itself and what it took, once `read` can use it."""
        return (await self.session.outcome(request, read, self.number))[0]


async def together(*asked: Awaitable[T]) -> list[T]:
    """What several requests, sent at once, come to; a failure is raised once all have ended, so that none is lost."""
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if failures:
        # What ends the whole run comes before what one request met.
        raise min(failures, key=lambda failure: isinstance(failure, ModelFailedError))
    return outcomes  # pyright: ignore[reportReturnType]


class _Session:
    """One `ChatClient.converse`, in one event loop: its requests in flight, and what was heard of the endpoint."""

    def __init__(self, client: ChatClient) -> None:
        self._client = client
        self._settings = client.settings
        self._dialect = dialect_of(client.endpoint)
        self._in_flight: dict[str, asyncio.Future[Completion]] = {}
        self._heard: float | None = None  # when the endpoint last said anything at all (monotonic)
        self._replied: float | None = None  # when it last gave a reply, usable or not
        self._too_long = 0
        self._failed = 0  # requests that failed since the last reply
        self._unrecorded = (0, 0)  # tokens of requests that are still to be sent again

    async def converse(
        self, subjects: Sequence[S], conversation: Callable[[Asker, S], Awaitable[T]], progress: Progress | None
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
                    results[number] = await conversation(Asker(self, number), subject)
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
        endpoint = self._client.endpoint
        # All that determines the reply.
        key = digest_json([endpoint.base_url, endpoint.model, *request.identity])
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
            self.ledger.keep(key, endpoint.model, completion.to_json())
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
        replies: Counter[str] = Counter()
        again = float("inf")  # since when it is tried again
        while True:
            attempts += 1
            try:
                reached = await self._in_turn(request, priority, is_new)
            except BudgetReachedError:
                if any(tokens):
                    self._record(Failure("the budget was spent", attempts - 1), tokens)
                raise
            if isinstance(reached, Adapted):
                attempts -= 1
                continue
            tokens = _sum(tokens, reached.tokens)
            self._unrecorded = _sum(self._unrecorded, reached.tokens)
            self._client.budgets.spend(self._cost(reached.tokens), sum(reached.tokens))
            if isinstance(reached, Completion):
                try:
                    value = read(reached.text)
                except UnusableReplyError as error:
                    trouble = Trouble(error.reason, paid=True, said=reached.text)
                else:
                    completion = replace(reached, retries=attempts - 1)
                    self._record(completion, tokens)
                    return completion, value
            else:
                trouble = reached
            if trouble.refusal is not None:
                self._record(Failure(trouble.reason, attempts - 1), tokens)
                what, advice = trouble.refusal
                raise self._client.error(what, advice.format(role=self._client.role.upper()))
            if is_new and not trouble.paid and not trouble.final:
                put_off.enter_context((self._limit if self._dialect.speaks else self._first_contact).put_off())
                is_new = False
            unusable += trouble.paid
            if trouble.said is not None:
                replies[trouble.said] += 1
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
        failure = Failure(trouble.reason + (f" after {attempts} attempts" if attempts > 1 else ""), attempts - 1)
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

    async def _in_turn(self, request: ChatRequest, priority: int, is_new: bool) -> Completion | Trouble | Adapted:
        """One attempt, when there is a place for it; alone until it is known that the endpoint speaks."""
        if not self._dialect.speaks:
            async with self._first_contact.place(priority, is_new):
                if not self._dialect.speaks:
                    return await self._attempt(request)
        async with self._limit.place(priority, is_new):
            outcome = await self._attempt(request)
        if not isinstance(outcome, Adapted):
            self._limit.replied(isinstance(outcome, Trouble) and outcome.overloaded)
        return outcome

    async def _attempt(self, request: ChatRequest) -> Completion | Trouble | Adapted:
        client, budgets = self._client, self._client.budgets
        if budgets.is_stale:
            budgets.look(self.ledger.unwritten)
            budgets.spend(self._cost(self._unrecorded), sum(self._unrecorded))
        if (reached := budgets.reached()) is not None:
            raise BudgetReachedError(reached)
        outcome = await attempt(self._http, client.endpoint, self._dialect, request, self._settings.llm_timeout_s)
        now = time.monotonic()
        if not (isinstance(outcome, Trouble) and outcome.unreachable):
            self._heard = now
        if isinstance(outcome, Completion) or (isinstance(outcome, Trouble) and outcome.paid):
            self._replied, self._failed = now, 0
        return outcome

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


def _sum(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]
