"""Conversations with a model: what is asked again, asked once, asked otherwise, and what ends them all."""

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count, pairwise
from typing import Any

import pytest
import sqlalchemy as sa

from rageval_dagster.errors import BudgetReachedError, DatabaseError, LanguageModelError, SettingsError
from rageval_dagster.llm import budgets as budgets_module
from rageval_dagster.llm import client as client_module
from rageval_dagster.llm.client import ENDPOINT_DOWN, Asker, ChatClient, ChatRequest, Failure, UnusableReplyError
from rageval_dagster.llm.limits import PUT_OFF_A_PLACE, AdaptiveLimit
from rageval_dagster.llm.replies import read_object
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.tables import llm_cache, llm_calls
from tests.llm.scripted_server import Fault, Received, ScriptedServer

SCHEMA = {
    "title": "number",
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "BACKOFF_S", (0.001, 0.01))


def client(base_url: str, db: Database, **variables: str) -> ChatClient:
    values = {"RAGEVAL_JUDGE_MODEL": "small", "OPENAI_BASE_URL": base_url, "RAGEVAL_LLM_TIMEOUT_S": "5"}
    return ChatClient(load_settings(values | variables), "judge", db, "acme", "run-1")


def number_of(text: str) -> int:
    found = read_object(text).get("n")
    if not isinstance(found, int):
        raise UnusableReplyError("no number")
    return found


async def ask_number(asker: Asker, subject: int) -> int:
    return await asker.ask(ChatRequest(f"number {subject}", schema=SCHEMA), number_of)


def says_number(body: dict[str, Any]) -> str:
    return json.dumps({"n": int(body["messages"][-1]["content"].split()[-1])})


def test_a_conversation_asks_one_question_after_the_other_and_several_at_once(sqlite_db: Database) -> None:
    async def talk(asker: Asker, subject: int) -> list[int]:
        first = await ask_number(asker, subject)
        return [first, await ask_number(asker, first + 100)]

    with ScriptedServer(says_number) as server:
        found = client(server.base_url, sqlite_db).converse(range(40), talk)
    assert found == [[number, number + 100] for number in range(40)]


def test_what_several_conversations_ask_is_sent_once(sqlite_db: Database) -> None:
    async def talk(asker: Asker, _: int) -> int:
        return await ask_number(asker, 7)

    with ScriptedServer(says_number) as server:
        assert client(server.base_url, sqlite_db).converse(range(20), talk) == [7] * 20
        assert client(server.base_url, sqlite_db).converse(range(20), talk) == [7] * 20
    [received] = server.requests
    wanted = {"name": "number", "strict": True, "schema": SCHEMA}
    assert received.body["response_format"] == {"type": "json_schema", "json_schema": wanted}


def test_an_unusable_reply_is_asked_again_and_never_kept(sqlite_db: Database) -> None:
    replies = iter(["no idea", '{"n": "many"}', '```json\n{"n": 3}\n```'])
    with ScriptedServer(lambda _: next(replies)) as server:
        assert client(server.base_url, sqlite_db).converse([3], ask_number) == [3]
        assert client(server.base_url, sqlite_db).converse([3], ask_number) == [3]
    assert len(server.requests) == 3
    with sqlite_db.connect() as connection:
        [kept] = connection.execute(sa.select(llm_cache.c.response)).scalars()
        calls = connection.execute(sa.select(llm_calls.c.prompt_tokens, llm_calls.c.retries)).all()
    assert "no idea" not in kept
    # All three were paid for.
    assert [tuple(call) for call in calls] == [(33, 2), (0, 0)]


def test_a_model_that_repeats_itself_is_not_asked_for_ever_and_fails_alone(sqlite_db: Database) -> None:
    def reply(body: dict[str, Any]) -> str:
        return "no idea" if "number 3" in str(body["messages"]) else says_number(body)

    with ScriptedServer(reply) as server:
        *others, failed = client(server.base_url, sqlite_db).converse(range(4), ask_number)
    assert others == [0, 1, 2]
    assert isinstance(failed, Failure)
    assert "no JSON object" in failed.reason
    assert len(server.requests) == 3 + client_module.SAME_REPLIES


def refuses_formats(*refused: str, fault: Fault) -> Callable[[Received], Fault | None]:
    def fault_for(received: Received) -> Fault | None:
        return fault if received.body.get("response_format", {}).get("type", "text") in refused else None

    return fault_for


def formats(server: ScriptedServer) -> list[str]:
    return [request.body.get("response_format", {}).get("type", "text") for request in server.requests]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=400, param="response_format", message="not supported"),
        Fault(status=400, message="Invalid parameter: 'response_format' of type 'json_schema' is not supported"),
        Fault(status=422, message="extra inputs are not permitted"),
    ],
)
def test_an_endpoint_is_held_to_a_schema_as_far_as_it_can_be(sqlite_db: Database, fault: Fault) -> None:
    with ScriptedServer(says_number, fault_for=refuses_formats("json_schema", fault=fault)) as server:
        assert client(server.base_url, sqlite_db).converse(range(3), ask_number) == [0, 1, 2]
        assert client(server.base_url, sqlite_db).converse([9], ask_number) == [9]
    assert formats(server) == ["json_schema"] + ["json_object"] * 4
    with ScriptedServer(says_number, fault_for=refuses_formats("json_schema", "json_object", fault=fault)) as server:
        assert client(server.base_url, sqlite_db).converse(range(3), ask_number) == [0, 1, 2]
    assert formats(server) == ["json_schema", "json_object", "text", "text", "text"]


def test_formats_that_were_tried_in_vain_are_tried_again(sqlite_db: Database) -> None:
    def refuse(received: Received) -> Fault | None:
        return Fault(status=400) if "number 3" in received.text else None

    with ScriptedServer(says_number, fault_for=refuse) as server:
        chat = client(server.base_url, sqlite_db)
        chat.complete([ChatRequest("number 1")])
        with pytest.raises(LanguageModelError, match="HTTP 400"):
            chat.converse([3], ask_number)
        assert chat.converse([4], ask_number) == [4]
    assert formats(server) == ["text", "json_schema", "json_object", "text", "json_schema"]


def test_parameters_that_a_model_does_not_know_are_left_out(sqlite_db: Database) -> None:
    def like_newer_models(received: Received) -> Fault | None:
        if "seed" in received.body:
            return Fault(status=400, message="Unsupported parameter: 'seed' is not supported with this model.")
        if "temperature" in received.body:
            return Fault(status=400, code="unsupported_value", param="temperature")
        return None

    with ScriptedServer("ok", fault_for=like_newer_models) as server:
        chat = client(server.base_url, sqlite_db)
        chat.complete([ChatRequest("a", seed=9)])
        chat.complete([ChatRequest("b", seed=9)])
    assert len(server.requests) == 4
    assert all(not request.body.keys() & {"seed", "temperature"} for request in server.requests[-2:])


def test_what_several_requests_learn_at_once_is_learned_once(sqlite_db: Database) -> None:
    def refuse(received: Received) -> Fault | None:
        return Fault(status=400, param="seed") if "seed" in received.body else None

    with ScriptedServer("ok", fault_for=refuse, gate_size=4) as server:
        chat = client(server.base_url, sqlite_db, RAGEVAL_LLM_CONCURRENCY="4")
        [first, *rest] = chat.complete([ChatRequest("first"), *(ChatRequest(str(n), seed=n) for n in range(4))])
    assert not any(isinstance(reply, Failure) for reply in (first, *rest))
    assert len(server.requests) == 1 + 4 + 4


def test_one_request_that_is_too_long_fails_alone(sqlite_db: Database) -> None:
    def too_long(received: Received) -> Fault | None:
        message = "This model's maximum context length is 8192 tokens, 'max_tokens' included"
        return Fault(status=400, message=message) if "number 1" in received.text else None

    with ScriptedServer(says_number, fault_for=too_long) as server:
        first, long, *others = client(server.base_url, sqlite_db).converse(range(4), ask_number)
    assert [first, *others] == [0, 2, 3]
    assert isinstance(long, Failure)
    assert "too long" in long.reason
    assert len(server.requests) == 4


class Outage:
    """Connections break once so many requests came, until so many of them broke, or for good."""

    def __init__(self, after: int, lasts: int | None = None) -> None:
        self.after, self.lasts = after, lasts
        self.came = self.broke = 0
        self.lock = threading.Lock()

    def __call__(self, received: Received) -> Fault | None:
        with self.lock:
            self.came += 1
            if self.came <= self.after or (self.lasts is not None and self.broke >= self.lasts):
                return None
            self.broke += 1
            return Fault("disconnect")


def test_an_outage_that_passes_costs_nothing_but_time(sqlite_db: Database) -> None:
    with ScriptedServer(says_number, fault_for=Outage(after=20, lasts=10)) as server:
        chat = client(server.base_url, sqlite_db, RAGEVAL_LLM_CONCURRENCY="4")
        assert chat.converse(range(60), ask_number) == list(range(60))


def test_an_outage_that_lasts_ends_it_with_one_line_and_what_came_is_kept(sqlite_db: Database) -> None:
    outage = Outage(after=20)
    variables = {"RAGEVAL_LLM_CONCURRENCY": "4", "RAGEVAL_LLM_MAX_ATTEMPTS": "3"}
    with ScriptedServer(says_number, fault_for=outage) as server:
        with pytest.raises(LanguageModelError, match="does not answer") as raised:
            client(server.base_url, sqlite_db, **variables).converse(range(60), ask_number)
        assert "\n" not in str(raised.value)
        assert len(server.requests) < 60
        kept, asked = len(rows(sqlite_db)), len(server.requests)
        assert 16 <= kept <= 20  # four at once may be on their way when it ends
        outage.lasts = outage.broke
        assert client(server.base_url, sqlite_db, **variables).converse(range(60), ask_number) == list(range(60))
        assert len(server.requests) - asked == 60 - kept


def rows(db: Database) -> list[Any]:
    with db.connect() as connection:
        return list(connection.execute(sa.select(llm_cache)))


@pytest.mark.parametrize("spoke", [False, True])
def test_an_endpoint_in_trouble_is_not_stormed(sqlite_db: Database, spoke: bool) -> None:
    def fault_for(received: Received) -> Fault | None:
        return None if spoke and received.text == "number 0" else Fault(status=500)

    with ScriptedServer(says_number, fault_for=fault_for) as server:
        chat = client(server.base_url, sqlite_db, RAGEVAL_LLM_MAX_ATTEMPTS="5", RAGEVAL_LLM_CONCURRENCY="4")
        with pytest.raises(LanguageModelError, match="does not answer"):
            chat.converse(range(500), ask_number)
    # Others are begun as those end that were begun before.
    asked = {request.text for request in server.requests}
    assert len(asked) <= PUT_OFF_A_PLACE * (4 if spoke else 1) + 4 + ENDPOINT_DOWN


def test_nothing_more_is_paid_for_once_the_database_takes_no_replies(sqlite_db: Database) -> None:
    with sqlite_db.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER full BEFORE INSERT ON llm_cache WHEN (SELECT count(*) FROM llm_cache) >= 5 "
            "BEGIN INSERT INTO no_such_table VALUES (1); END"
        )
    with ScriptedServer(says_number) as server, pytest.raises(DatabaseError):
        client(server.base_url, sqlite_db, RAGEVAL_LLM_CONCURRENCY="2").converse(range(300), ask_number)
    assert len(server.requests) < 60


# --- budgets ---------------------------------------------------------------------------------------------------------

TOKENS = 18
"""That the scripted server counts for each reply."""


def priced(tmp_path: Any, base_url: str, toml: str = "", **variables: str) -> Settings:
    # 1 USD a token: 11 in, 7 out.
    config = tmp_path / "rageval.toml"
    config.write_text(f"[prices]\nsmall = {{ in = 1e6, out = 1e6 }}\n{toml}")
    values = {"RAGEVAL_JUDGE_MODEL": "small", "OPENAI_BASE_URL": base_url, "RAGEVAL_LLM_CONCURRENCY": "4"}
    return load_settings(values | variables, config_file=config)


@pytest.mark.parametrize(
    "limit", [{"RAGEVAL_LLM_MAX_TOKENS": str(20 * TOKENS)}, {"RAGEVAL_LLM_MAX_COST_USD": str(20 * TOKENS)}]
)
def test_a_budget_of_half_the_cost_stops_there_says_so_and_another_run_goes_on(
    sqlite_db: Database, tmp_path: Any, limit: dict[str, str]
) -> None:
    with ScriptedServer(says_number) as server:
        own = priced(tmp_path, server.base_url, **limit)
        with pytest.raises(BudgetReachedError) as raised:
            ChatClient(own, "judge", sqlite_db, "acme", "run-1").converse(range(40), ask_number)
        assert 20 <= len(server.requests) < 20 + 4
        assert next(iter(limit)) in str(raised.value)
        assert "of 40 are done" in str(raised.value)
        # The same run has nothing left, another one has its own.
        with pytest.raises(BudgetReachedError):
            ChatClient(own, "judge", sqlite_db, "acme", "run-1").converse(range(40), ask_number)
        # But what is kept costs nothing.
        assert ChatClient(own, "judge", sqlite_db, "acme", "run-1").converse(range(5), ask_number) == list(range(5))
        found = ChatClient(own, "judge", sqlite_db, "acme", "run-2").converse(range(40), ask_number)
    assert found == list(range(40))
    assert len(server.requests) == 40


def test_replies_that_are_no_use_count_as_they_come(sqlite_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    # Others may have spent something at any time.
    monkeypatch.setattr(budgets_module, "LOOKED_AT_EVERY_S", 0.0)
    numbers = count()
    with ScriptedServer(lambda _: f"no idea, for the {next(numbers)}th time") as server:
        chat = client(server.base_url, sqlite_db, RAGEVAL_LLM_MAX_TOKENS=str(6 * TOKENS), RAGEVAL_LLM_CONCURRENCY="2")
        with pytest.raises(BudgetReachedError):
            chat.converse(range(40), ask_number)
    assert 6 <= len(server.requests) < 6 + 2
    with sqlite_db.connect() as connection:
        spent = connection.execute(sa.select(sa.func.sum(llm_calls.c.prompt_tokens + llm_calls.c.completion_tokens)))
        assert spent.scalar_one() == len(server.requests) * TOKENS


def test_a_day_s_budget_is_a_client_s_own_and_the_fleet_s_is_everybody_s(sqlite_db: Database, tmp_path: Any) -> None:
    toml = f"[fleet.budget]\ntokens = {30 * TOKENS}\n[defaults.budget]\ntokens = {20 * TOKENS}\n"
    with ScriptedServer(says_number) as server:
        own = priced(tmp_path, server.base_url, toml)
        with pytest.raises(BudgetReachedError, match="today's budget of client 'acme'"):
            ChatClient(own, "judge", sqlite_db, "acme", "run-1").converse(range(40), ask_number)
        with pytest.raises(BudgetReachedError, match="today's budget of client 'acme'"):
            ChatClient(own, "judge", sqlite_db, "acme", "run-2").converse([99], ask_number)
        with pytest.raises(BudgetReachedError, match="all clients"):
            ChatClient(own, "judge", sqlite_db, "other", "run-3").converse(range(40), ask_number)
    assert 30 <= len(server.requests) < 30 + 2 * 4


def test_a_limit_on_cost_needs_the_price_of_every_model(tmp_path: Any) -> None:
    with pytest.raises(SettingsError, match=r"RAGEVAL_LLM_MAX_COST_USD.*'large'.*\[prices\]"):
        priced(tmp_path, "http://x/v1", RAGEVAL_LLM_MAX_COST_USD="1", RAGEVAL_ANSWER_MODEL="large")
    with pytest.raises(SettingsError, match="fleet"):
        priced(tmp_path, "http://x/v1", "[fleet.budget]\ncost_usd = 1.0\n", RAGEVAL_ANSWER_MODEL="large")
    assert priced(tmp_path, "http://x/v1", RAGEVAL_LLM_MAX_TOKENS="1", RAGEVAL_ANSWER_MODEL="large")


# --- how many at once ------------------------------------------------------------------------------------------------


def test_refusals_that_come_whatever_is_in_flight_do_not_slow_down() -> None:
    limit = AdaptiveLimit(16)
    for number in range(2000):
        limit.replied(refused=number % 5 == 0)
    assert limit.value == 16


def test_an_overloaded_endpoint_is_asked_less_and_then_step_by_step_more() -> None:
    limit = AdaptiveLimit(16)
    for _ in range(100):
        limit.replied(refused=True)
    assert limit.value == 1
    values = []
    for _ in range(400):
        limit.replied(refused=False)
        values.append(limit.value)
    assert values[-1] == 16
    assert all(after - before in (0, 1) for before, after in pairwise(values))


def test_what_was_refused_comes_before_anything_new_and_too_much_of_it_alone() -> None:
    async def in_turn() -> list[str]:
        limit, came = AdaptiveLimit(1), []

        async def take(name: str, is_new: bool) -> None:
            async with limit.place(0, is_new):
                came.append(name)

        with ExitStack() as put_off:
            for _ in range(PUT_OFF_A_PLACE):
                put_off.enter_context(limit.put_off())
            new = asyncio.create_task(take("new", is_new=True))
            await asyncio.sleep(0)
            await take("refused before", is_new=False)
            assert not new.done()
        await new
        return came

    assert asyncio.run(in_turn()) == ["refused before", "new"]
