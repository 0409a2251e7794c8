"""The client of language models, against a real server on loopback."""

import asyncio
import json
import logging
import traceback
from typing import Any

import pytest
import sqlalchemy as sa

from rageval_dagster.errors import LanguageModelError, SettingsError
from rageval_dagster.llm import client as client_module
from rageval_dagster.llm.client import ChatClient, ChatRequest, Completion, Failure, endpoint_of
from rageval_dagster.llm.endpoints import same_model_warning
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.tables import llm_cache, llm_calls
from tests.llm.scripted_server import Fault, Received, ScriptedServer
from tests.loopback import free_port

KEY = "sk-canary-1234567890"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "BACKOFF_S", (0.001, 0.001))


def settings(server: ScriptedServer | None, **overrides: str) -> Settings:
    values = {"RAGEVAL_ANSWER_MODEL": "small", "OPENAI_API_KEY": KEY, "RAGEVAL_LLM_TIMEOUT_S": "5"}
    if server is not None:
        values["OPENAI_BASE_URL"] = server.base_url
    return load_settings(values | overrides)


def client(server: ScriptedServer, db: Database, client_id: str = "acme", **overrides: str) -> ChatClient:
    return ChatClient(settings(server, **overrides), "answer", db, client_id, run_id="run-1")


def rows(db: Database, table: sa.Table) -> list[dict[str, Any]]:
    with db.connect() as connection:
        return [dict(row) for row in connection.execute(sa.select(table)).mappings()]


def requests(count: int) -> list[ChatRequest]:
    return [ChatRequest(f"question {number}") for number in range(count)]


def echo(body: dict[str, Any]) -> str:
    return "said: " + body["messages"][-1]["content"]


def test_what_goes_over_the_wire(sqlite_db: Database) -> None:
    with ScriptedServer() as server:
        client(server, sqlite_db).complete([ChatRequest("ask", system="be brief", seed=3)])
    (received,) = server.requests
    assert received.path == "/v1/chat/completions"
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.body == {
        "model": "small",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "ask"}],
        "temperature": 0.0,
        "seed": 3,
    }


def test_as_many_at_once_as_set_and_no_more(sqlite_db: Database) -> None:
    with ScriptedServer(gate_size=4) as server:
        client(server, sqlite_db, RAGEVAL_LLM_CONCURRENCY="4").complete(requests(13))
    assert server.most_at_once == 4


@pytest.mark.parametrize(
    "other",
    [
        {"request": ChatRequest("a", temperature=0.5)},
        {"request": ChatRequest("a", system="x")},
        {"request": ChatRequest("a", seed=1)},
        {"client_id": "other"},
        {"RAGEVAL_ANSWER_MODEL": "large"},
        {"RAGEVAL_LLM_CACHE_MAX_AGE_DAYS": "0"},
    ],
)
def test_whatever_may_change_the_reply_asks_again(sqlite_db: Database, other: dict[str, Any]) -> None:
    with ScriptedServer() as server:
        client(server, sqlite_db).complete([ChatRequest("a")])
        request = other.pop("request", ChatRequest("a"))
        client(server, sqlite_db, **other).complete([request])
    assert len(server.requests) == 2


def test_every_call_is_recorded(sqlite_db: Database) -> None:
    with ScriptedServer(faults=[Fault(status=500)]) as server:
        client(server, sqlite_db).complete([ChatRequest("a")])
        client(server, sqlite_db).complete([ChatRequest("a")])
    sent, kept = rows(sqlite_db, llm_calls)
    assert (sent["client_id"], sent["role"], sent["model"], sent["run_id"]) == ("acme", "answer", "small", "run-1")
    assert (sent["prompt_tokens"], sent["completion_tokens"], sent["retries"], sent["cache_hit"]) == (11, 7, 1, False)
    assert sent["latency_s"] > 0
    assert (kept["prompt_tokens"], kept["cache_hit"]) == (0, True)


@pytest.mark.parametrize(
    "fault",
    [
        *(Fault(status=status) for status in (408, 409, 429, 500, 502, 503)),
        Fault("disconnect"),
        Fault("broken_json"),
        Fault("cut_off"),
        Fault("empty"),
        Fault("json", message='{"error": {"message": "the model behind is gone", "code": 502}}'),
    ],
)
def test_what_can_pass_is_tried_again(sqlite_db: Database, fault: Fault) -> None:
    with ScriptedServer(faults=[fault]) as server:
        (reply,) = client(server, sqlite_db).complete([ChatRequest("a")])
    assert isinstance(reply, Completion)
    assert (reply.text, reply.retries, len(server.requests)) == ("ok", 1, 2)


def test_nothing_is_logged_of_keys_and_prompts_and_no_row_has_the_key(
    sqlite_db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (None, "openai", "httpx", "httpcore", "httpx2", "httpcore2", "asyncio"):
        caplog.set_level(logging.DEBUG, name)
    with ScriptedServer(
        "canary reply", faults=[Fault(status=500, message=KEY), Fault("disconnect"), Fault("broken_json")]
    ) as server:
        client(server, sqlite_db, OPENAI_BASE_URL=f"{server.base_url}?canary").complete([ChatRequest("canary")])
        chat = client(server, sqlite_db)
        chat.complete([ChatRequest("canary")])
    logging.getLogger("asyncio").debug("this is logged")
    assert len(server.requests) > 1
    assert "this is logged" in caplog.text
    assert "canary" not in caplog.text
    assert KEY not in str(rows(sqlite_db, llm_cache)) + str(rows(sqlite_db, llm_calls)) + repr(chat.endpoint)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault("hang"), "no reply within 0.2 s"),
        (Fault(status=400, code="content_filter"), "the endpoint refused the content (content_filter)"),
    ],
)
def test_a_request_that_hangs_or_is_refused_fails_alone(sqlite_db: Database, fault: Fault, reason: str) -> None:
    def fault_for(received: Received) -> Fault | None:
        return fault if "question 1" in received.text else None

    once = {"RAGEVAL_LLM_TIMEOUT_S": "0.2" if fault.kind == "hang" else "5", "RAGEVAL_LLM_MAX_ATTEMPTS": "1"}
    with ScriptedServer(fault_for=fault_for) as server:
        replies = client(server, sqlite_db, **once).complete(requests(3))
    assert replies[1] == Failure(reason)
    assert [isinstance(reply, Completion) for reply in replies] == [True, False, True]


@pytest.mark.parametrize("seconds", [7, 119])
def test_the_server_says_how_long_to_wait(sqlite_db: Database, monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    waits: list[float] = []
    real_sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        waits.append(seconds)
        await real_sleep(0)

    monkeypatch.setattr(client_module.asyncio, "sleep", note)
    with ScriptedServer(faults=[Fault(status=429, headers={"Retry-After": str(seconds)})]) as server:
        client(server, sqlite_db).complete([ChatRequest("a")])
    assert [wait for wait in waits if wait >= seconds] == [pytest.approx(1.125 * seconds, rel=0.125)]


def test_a_server_that_asks_for_no_wait_gets_one_that_grows(
    sqlite_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []

    def note(attempts: int, *_: float) -> float:
        waits.append(attempts)
        return 0.0

    monkeypatch.setattr(client_module, "backoff", note)
    with ScriptedServer(faults=[Fault(status=429, headers={"Retry-After": "0"})] * 3) as server:
        client(server, sqlite_db).complete([ChatRequest("a")])
    assert waits == [1, 2, 3]


def test_failures_say_why_and_are_never_kept(sqlite_db: Database) -> None:
    with ScriptedServer(faults=[Fault(status=503)] * 3) as server:
        (failed,) = client(server, sqlite_db, RAGEVAL_LLM_MAX_ATTEMPTS="3").complete([ChatRequest("a")])
        (passed,) = client(server, sqlite_db).complete([ChatRequest("a")])
    assert failed == Failure("HTTP 503 after 3 attempts", retries=2)
    assert isinstance(passed, Completion)
    assert [call["error"] for call in rows(sqlite_db, llm_calls)] == ["HTTP 503 after 3 attempts", None]
    assert len(rows(sqlite_db, llm_cache)) == 1


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault(status=400), "HTTP 400"),
        (Fault(status=400, code="context_length_exceeded"), "smaller k"),
        (Fault(status=401, message=f"Incorrect API key provided: {KEY}"), "RAGEVAL_ANSWER_API_KEY"),
        (Fault(status=402), "no credit"),
        (Fault(status=403), "HTTP 403"),
        (Fault(status=404, code="model_not_found"), "RAGEVAL_ANSWER_MODEL"),
        (Fault(status=429, code="insufficient_quota"), "no credit"),
        (Fault(status=307, headers={"Location": "http://127.0.0.1:9/elsewhere"}), "redirects"),
        (Fault(status=429, headers={"Retry-After": "3600"}), "run again when its limit is renewed"),
        (Fault(status=501), "HTTP 501"),
        (Fault("web_page"), "/v1"),
        (Fault("json", message='{"error": "Unexpected endpoint. Returning 200 anyway"}'), "/v1"),
        (Fault("json", message="[]"), "/v1"),
    ],
)
def test_what_cannot_pass_stops_with_one_clear_line(sqlite_db: Database, fault: Fault, says: str) -> None:
    with ScriptedServer(fault_for=lambda _: fault) as server, pytest.raises(LanguageModelError) as raised:
        client(server, sqlite_db, RAGEVAL_LLM_CONCURRENCY="2").complete(requests(30))
    message = str(raised.value)
    assert says in message
    assert "127.0.0.1:" in message
    assert "\n" not in message
    assert KEY not in "".join(traceback.format_exception(raised.value))
    assert len(server.requests) <= 4


def test_a_web_page_in_between_is_asked_again(sqlite_db: Database) -> None:
    with ScriptedServer(faults=[None, Fault("web_page")]) as server:
        replies = client(server, sqlite_db).complete(requests(3))
    assert all(isinstance(reply, Completion) for reply in replies)
    assert len(server.requests) == 4


def said(content: Any, finish_reason: str = "stop", **fields: Any) -> Fault:
    """A reply of the API in which anything may stand."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish_reason}
    return Fault("json", message=json.dumps({"choices": [choice], **fields}))


@pytest.mark.parametrize(
    ("fault", "says", "asked"),
    [
        (said(None), "the reply is empty", 4),
        (said([{"type": "image"}, None, 3]), "the reply is empty", 4),
        (Fault("json", message='{"choices": []}'), "the reply is empty", 4),
        (Fault("cut_off"), "cut off", client_module.SAME_REPLIES),
        (said("It is not said whe", finish_reason="content_filter"), "refused the content", 1),
    ],
)
def test_odd_replies_are_failures_with_their_reason(sqlite_db: Database, fault: Fault, says: str, asked: int) -> None:
    with ScriptedServer(fault_for=lambda _: fault) as server:
        (reply,) = client(server, sqlite_db).complete([ChatRequest("a")])
    assert isinstance(reply, Failure)
    assert says in reply.reason
    assert len(server.requests) == asked


@pytest.mark.parametrize("count", [0, -1, 10**30, 2.5, "7", None])
def test_tokens_that_cannot_be_are_estimated(sqlite_db: Database, count: Any) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count}
    parts = [
        {"type": "thinking", "thinking": "?"},
        {"type": "text", "text": "a reply "},
        {"type": "text", "text": "of some words"},
    ]
    with ScriptedServer(faults=[said(parts, usage=usage)]) as server:
        (reply,) = client(server, sqlite_db).complete([ChatRequest("a question of some words")])
    assert isinstance(reply, Completion)
    assert (reply.text, reply.counted) == ("a reply of some words", False)
    [call] = rows(sqlite_db, llm_calls)
    assert (call["prompt_tokens"], call["completion_tokens"]) == (6, 6)


def test_a_server_that_is_not_there(sqlite_db: Database) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    chat = ChatClient(settings(None, OPENAI_BASE_URL=url), "answer", sqlite_db, "acme")
    with pytest.raises(LanguageModelError, match="does not answer"):
        chat.complete(requests(20))


def test_it_works_inside_a_running_event_loop(sqlite_db: Database) -> None:
    async def within() -> list[Completion | Failure]:
        return client(server, sqlite_db).complete([ChatRequest("a")])

    with ScriptedServer() as server:
        (reply,) = asyncio.run(within())
    assert isinstance(reply, Completion)


def test_the_endpoint_of_a_role() -> None:
    assert endpoint_of(load_settings({"OPENAI_API_KEY": KEY}), "answer") is None
    own = endpoint_of(
        load_settings(
            {
                "RAGEVAL_ANSWER_MODEL": "m",
                "OPENAI_BASE_URL": "http://shared/v1",
                "RAGEVAL_ANSWER_BASE_URL": "http://user:word@own:8/v1",
            }
        ),
        "answer",
    )
    assert own is not None
    assert (own.model, own.host, own.api_key) == ("m", "own:8", None)
    with pytest.raises(SettingsError, match="RAGEVAL_ANSWER_MODEL"):
        endpoint_of(load_settings({"RAGEVAL_ANSWER_MODEL": "m"}), "answer")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("nowhere", r"takes http\(s\)://host"),
        ("localhost:8080/v1", r"takes http\(s\)://host"),
        ("http://", r"takes http\(s\)://host"),
        ("http://host:port/v1", r"takes http\(s\)://host"),
        ("http://host:99999/v1", r"takes http\(s\)://host"),
        ("http://[::1/v1", r"takes http\(s\)://host"),
        ("http://host/v1/chat/completions", "takes the base URL, without /chat/completions"),
        ("http://host/v1/chat/completions/", "takes the base URL, without /chat/completions"),
    ],
)
def test_an_address_that_is_none_is_a_settings_error(address: str, said: str) -> None:
    with pytest.raises(SettingsError, match=f"OPENAI_BASE_URL.* {said}"):
        endpoint_of(settings(None, OPENAI_BASE_URL=address), "answer")


@pytest.mark.parametrize("key", ["\u201csk-canary\u201d", "sk-canary\u200b1", "sk-canary\nsk-2"])
def test_a_key_that_no_header_can_hold_is_a_settings_error(key: str) -> None:
    with pytest.raises(SettingsError, match="OPENAI_API_KEY") as raised:
        endpoint_of(settings(None, OPENAI_API_KEY=key), "answer")
    assert "canary" not in "".join(traceback.format_exception(raised.value))


def test_a_model_that_judges_itself_is_warned_of() -> None:
    own = {"RAGEVAL_JUDGE_MODEL": "m", "RAGEVAL_JUDGE_BASE_URL": "http://own/v1"}
    assert same_model_warning(load_settings(own)) is None
    # Nobody asks the answer model of a system that answers itself.
    assert same_model_warning(load_settings(own | {"RAGEVAL_ANSWER_MODEL": "other"})) is None
    same = own | {"RAGEVAL_ANSWER_MODEL": "m", "OPENAI_BASE_URL": "http://shared/v1"}
    assert same_model_warning(load_settings(same)) is None
    assert "RAGEVAL_JUDGE_MODEL" in str(same_model_warning(load_settings(same | {"OPENAI_BASE_URL": "http://own/v1"})))
