"""What one small question finds out about an endpoint."""

import json
from typing import Any

import pytest
from pydantic import SecretStr

from rageval_dagster.errors import LanguageModelError
from rageval_dagster.llm.probing import probe
from rageval_dagster.settings import Settings
from tests.llm.scripted_server import Fault, Received, ScriptedServer

KEY = "sk-canary-1234567890"


def settings(base_url: str, **overrides: Any) -> Settings:
    return Settings(judge_model="small", openai_base_url=base_url, openai_api_key=SecretStr(KEY), **overrides)


def takes(*forms: str) -> Any:
    """Refuses the formats of a reply that are not named."""

    def fault_for(received: Received) -> Fault | None:
        form = received.body.get("response_format", {}).get("type")
        if form is None or form in forms:
            return None
        return Fault(status=400, param="response_format", message=f"{form} is not supported")

    return fault_for


@pytest.mark.parametrize(
    ("forms", "says", "requests"),
    [
        (("json_schema", "json_object"), "takes JSON schemas, ", 1),
        (("json_object",), "takes JSON mode and no schemas, ", 2),
        ((), "takes neither JSON schemas nor JSON mode, ", 3),
    ],
)
def test_which_format_of_replies_an_endpoint_takes(forms: tuple[str, ...], says: str, requests: int) -> None:
    with ScriptedServer('{"sum": 5}', fault_for=takes(*forms)) as server:
        found = probe(settings(server.base_url), "judge").finding
    assert says in found
    assert found.startswith("answers in 0.")
    assert found.endswith("tells the tokens")
    assert len(server.requests) == requests
    assert len({json.dumps(received.body["messages"]) for received in server.requests}) == 1


def test_replies_that_are_no_json_and_tokens_that_are_not_told() -> None:
    with ScriptedServer("It is five.", counts=False) as server:
        found = probe(settings(server.base_url), "judge").finding
    assert "takes JSON schemas, and replied no JSON, does not tell the tokens, which are estimated" in found


def test_a_parameter_that_is_not_taken_is_named() -> None:
    def refuse(received: Received) -> Fault | None:
        return Fault(status=400, param="temperature") if "temperature" in received.body else None

    with ScriptedServer('{"sum": 5}', fault_for=refuse) as server:
        assert probe(settings(server.base_url), "judge").finding.endswith("does not take temperature")


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault(status=401), "HTTP 401; see that OPENAI_API_KEY or RAGEVAL_JUDGE_API_KEY is valid"),
        (Fault(status=404, code="model_not_found"), "RAGEVAL_JUDGE_MODEL"),
        (Fault(status=503), r"gives no usable reply \(HTTP 503\); see what its server says"),
        (Fault(status=429, headers={"Retry-After": "60"}), "HTTP 429"),
        (Fault(kind="web_page"), "is not a chat API"),
        (Fault(kind="empty"), "the reply is empty"),
        (Fault(kind="hang"), "no reply within 0.3 s"),
    ],
)
def test_what_goes_wrong_is_one_line_and_asked_once(fault: Fault, says: str) -> None:
    with ScriptedServer(fault_for=lambda _: fault) as server, pytest.raises(LanguageModelError, match=says) as caught:
        probe(settings(server.base_url, llm_timeout_s=0.3 if fault.kind == "hang" else 30), "judge")
    assert len(server.requests) == 1
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_where_models_are_forbidden_nothing_is_asked() -> None:
    with ScriptedServer() as server, pytest.raises(LanguageModelError, match="llm is forbidden"):
        probe(settings(server.base_url, llm="forbidden"), "judge")
    assert server.requests == []
