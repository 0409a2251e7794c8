"""Endpoints that answer what no model would: a conversation fails, or the endpoint is refused, by a typed error."""

import gzip
import json
from typing import Any

import pytest

from rageval_dagster.errors import LanguageModelError
from rageval_dagster.llm import client as client_module
from rageval_dagster.llm.client import ChatClient, ChatRequest, Failure
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.database import Database
from tests.rag.hostile_responses import JSON, MB, Hostile, HostileServer, bomb, endless, once


def completion(content: Any) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}).encode()


def nested(depth: int, inside: bytes = b"1") -> bytes:
    return b"[" * depth + inside + b"]" * depth


def parts(depth: int) -> Any:
    return [{"text": parts(depth - 1)}] if depth else "yes"


GZIP = {**JSON, "Content-Encoding": "gzip"}
LARGE = "the reply is too large (more than 10 MB)"
DEEP = "the reply is nested deeper than 100 levels after 2 attempts"
HOSTILE = {
    "no end": (endless(b" " * 65_536), 200, JSON, LARGE),
    "no end of an error": (endless(b"x" * 65_536), 500, JSON, LARGE),
    "a gzip bomb": (bomb(1), 200, GZIP, LARGE),
    "a gzip bomb in an error": (bomb(1), 400, GZIP, LARGE),
    "brotli": (once(b"x"), 200, {**JSON, "Content-Encoding": "br"}, "the reply is too large (compressed by"),
    "half of gzip": (once(gzip.compress(completion("yes"))[:-9]), 200, GZIP, "the connection broke"),
    "deep": (once(nested(4 * MB)), 200, JSON, DEEP),
    "deep parts": (once(completion(parts(200))), 200, JSON, DEEP),
    "deep usage": (once(completion("yes")[:-1] + b', "usage": ' + nested(500) + b"}"), 200, JSON, DEEP),
    "a deep error": (once(b'{"error": {"message": "no", "code": ' + nested(900) + b"}}"), 400, JSON, "HTTP 400"),
    "cut off": (once(b"{"), 200, {**JSON, "Content-Length": "500"}, "the connection broke"),
    "no JSON": (once(b"{"), 200, JSON, "the reply is not JSON after 2 attempts"),
    "a long number": (once(b'{"choices": ' + b"9" * 5_000 + b"}"), 200, JSON, "the reply is not JSON after 2 attempts"),
    "a list": (once(b"[]"), 200, JSON, "is not a chat API"),
    "a page": (once(b"<html>"), 200, {"Content-Type": "text/html"}, "is not a chat API"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_reply_that_is_none_is_a_typed_error(sqlite_db: Database, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(client_module, "BACKOFF_S", (0.001, 0.001))
    body, status, headers, expected = HOSTILE[name]
    with HostileServer([Hostile(body, None, headers, status)]) as server:
        variables = {
            "OPENAI_BASE_URL": f"{server.origin}/0",
            "RAGEVAL_ANSWER_MODEL": "small",
            "RAGEVAL_LLM_MAX_ATTEMPTS": "2",
        }
        client = ChatClient(load_settings(variables), "answer", sqlite_db, "acme")
        try:
            (found,) = client.complete([ChatRequest("Is it?")])
        except LanguageModelError as error:  # of the endpoint, which is the same whatever is asked
            found = Failure(str(error))
    assert isinstance(found, Failure)
    assert expected in found.reason
