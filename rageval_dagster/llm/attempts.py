"""One attempt to get a reply from an OpenAI-compatible endpoint: what came of it, and whether another may do better."""

import asyncio
import re
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rageval_dagster.llm.contexts import estimated_tokens
from rageval_dagster.llm.dialects import Dialect, forget_dialect
from rageval_dagster.llm.endpoints import Endpoint
from rageval_dagster.llm.messages import ChatRequest, Completion
from rageval_dagster.network import TooDeepError, TooLargeError, parsed_json, retry_after
from rageval_dagster.storage.types import storable

if TYPE_CHECKING:
    import openai

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


class Adapted:
    """The endpoint does not take the request as it was said; it is to be sent again, said otherwise."""


@dataclass(frozen=True)
class Trouble:
    """An attempt without a usable reply. `paid`: a reply came; `final`: another attempt would end the same.

    `said` is that reply and `tokens` what it took. `unreachable`: nothing came; `disconnected`: there is no connection.
    `overloaded`: the endpoint has too much to do; `too_long`: this one request is too long. `refusal`: any other
    request would end the same, too: what the endpoint says, and what to do, with {role} for the role's name. It is
    raised where nothing is at hand that quotes the reply, which may quote the prompt or the key.
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


async def attempt(
    http: "openai.AsyncOpenAI", endpoint: Endpoint, dialect: Dialect, request: ChatRequest, timeout_s: float
) -> Completion | Trouble | Adapted:
    """Sends a request once, as the endpoint takes it by what is known of its dialect, which learns from the reply."""
    import httpx
    import openai

    sent = dialect.parameters(request)
    body = {"model": endpoint.model, "messages": request.messages, **sent}
    started = time.monotonic()
    try:
        # The package's own timeout starts anew with every byte that comes.
        async with asyncio.timeout(timeout_s):
            # Without the package's models of requests and replies, which take longer than all else done here.
            response = await http.post("/chat/completions", cast_to=httpx.Response, body=body)
    except (openai.APITimeoutError, TimeoutError):
        return Trouble(f"no reply within {timeout_s:g} s", unreachable=True)
    except openai.APIConnectionError as error:
        # A connection that was there and broke may be this one request's fault.
        refused = "Connect" in type(error.__cause__).__name__
        return Trouble("cannot connect" if refused else "the connection broke", unreachable=True, disconnected=refused)
    except TooLargeError as error:
        return Trouble(f"the reply is too large ({error})", paid=True, final=True)
    except zlib.error:
        return Trouble("the connection broke", unreachable=True)
    except openai.APIStatusError as error:
        return _refused(error, endpoint, dialect, sent)
    try:
        # What is no JSON and does not claim to be is most likely a page.
        claims = response.headers.get("content-type", "json").partition(";")[0].strip().endswith("json")
        reply = parsed_json(response.content) if claims else None
    except TooDeepError as error:
        return Trouble(f"the reply is {error}", paid=True)
    except ValueError:
        return Trouble("the reply is not JSON", paid=True)
    outcome = _read(reply, request, time.monotonic() - started, dialect.speaks)
    if isinstance(outcome, Completion) or outcome.paid:
        dialect.heard(sent)
    return outcome


def _read(reply: Any, request: ChatRequest, latency_s: float, speaks: bool) -> Completion | Trouble:
    """The completion in a reply of the API; anything may have come."""
    if not isinstance(_part(reply, "choices"), list):
        # Gateways say that all is well (200), and then what went wrong behind them.
        if speaks or isinstance(_part(reply, "error"), dict):
            return Trouble("the reply is no chat completion")
        advice = "give the base URL of an OpenAI-compatible API, often ending in /v1"
        return Trouble("not a chat API", refusal=("is not a chat API", advice))
    choice = _part(reply["choices"], 0)
    text, finish = _text(_part(_part(choice, "message"), "content")), _part(choice, "finish_reason")
    told = [_part(_part(reply, "usage"), name) for name in ("prompt_tokens", "completion_tokens")]
    # What the endpoint does not count, or cannot have counted, is estimated, so that limits hold there too.
    told = [count if isinstance(count, int) and 0 < count <= MOST_TOKENS else None for count in told]
    prompt = told[0] or estimated_tokens("".join(message["content"] for message in request.messages))
    tokens = prompt, told[1] or estimated_tokens(text)
    if finish == "content_filter":
        # What stands there is no more than a beginning.
        return Trouble("the endpoint refused the content (content_filter)", paid=True, tokens=tokens, final=True)
    if not text.strip():
        return Trouble("the reply is empty", paid=True, tokens=tokens, said="")
    if finish == "length":
        return Trouble("the reply was cut off at the model's limit", paid=True, tokens=tokens, said=text)
    return Completion(storable(text), *tokens, latency_s=latency_s, counted=None not in told)


def _refused(
    error: "openai.APIStatusError", endpoint: Endpoint, dialect: Dialect, sent: dict[str, Any]
) -> Trouble | Adapted:
    status = error.status_code
    # A code that is no plain identifier might quote what was sent.
    code = error.code if isinstance(error.code, str) and re.fullmatch(r"[a-z][a-z_]{2,40}", error.code) else None
    said = f"{error.code} {error.type} {error.message}"
    if code in _REFUSED_CONTENT_CODES:
        return Trouble(f"the endpoint refused the content ({code})", final=True)
    if (status in _PASSING_STATUS or status >= 500) and status != 501 and code not in _NOT_PASSING_CODES:
        wait = retry_after(error.response.headers)
        return Trouble(f"HTTP {status}", asked_wait_s=wait, overloaded=status in _OVERLOADED_STATUS)
    if status in {400, 413, 422} and _TOO_LONG.search(said):
        return Trouble("the request is too long for the model's context window", final=True, too_long=True)
    if dialect.adapt(status, error.param, error.message, sent):
        return Adapted()
    if not dialect.taken:
        forget_dialect(endpoint)
    what = f"answers HTTP {status}" + (f" ({code})" if code else "")
    if status == 402 or code in _NOT_PASSING_CODES:
        advice = "the account has no credit left: see its billing, then run again"
    elif status in {401, 403}:
        advice = "see that OPENAI_API_KEY or RAGEVAL_{role}_API_KEY is valid for this endpoint and model"
    elif status == 404:
        advice = "see that the model exists there (RAGEVAL_{role}_MODEL) and that the base URL is right"
    elif 300 <= status < 400:
        advice = "redirects are not followed: give the address that it redirects to"
    else:
        advice = "the endpoint does not take the request: see that RAGEVAL_{role}_MODEL is a chat model"
    return Trouble(what, refusal=(what, advice))


def _text(content: Any) -> str:
    """The text of a message; some endpoints give it in parts, beside what the model thought."""
    if isinstance(content, list):
        return "".join(map(_text, (_part(part, "text") for part in content)))
    return content if isinstance(content, str) else ""


def _part(value: Any, key: str | int) -> Any:
    """The part of a reply under a key or at a place; None where it is not of that shape."""
    if isinstance(key, str):
        return value.get(key) if isinstance(value, dict) else None
    return value[key] if isinstance(value, list) and len(value) > key else None
