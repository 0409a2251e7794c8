"""A scripted model that writes questions and judges them: what it says to each kind of request can be set."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from rageval_dagster.benchmark.by_model import PromptedGenerator
from rageval_dagster.llm.client import ChatClient
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.database import Database
from tests.llm.scripted_model import fences
from tests.llm.scripted_server import Received, ScriptedServer

Says = str | Mapping[str, Any] | Callable[[str], str | Mapping[str, Any]]
"""A reply, an object to reply, or a function that gives one for the user's message."""

FINE: Mapping[str, Any] = {"answer": "", "answerable": True, "self_contained": True, "correct": True}
NOT_ANSWERED: Mapping[str, Any] = {"answer": "", "answered": False, "self_contained": True}

_KINDS = {
    ("also_right", "answer", "category", "question", "quote"): "single",
    ("also_right", "answer", "question", "quote_1", "quote_2"): "multi_hop",
    ("category", "question"): "unanswerable",
    ("answer", "answerable", "correct", "self_contained"): "critic",
    ("answer", "answered", "self_contained"): "answered",
}


def kind_of(body: Mapping[str, Any]) -> str:
    """What a request is for, told by the schema of the reply that it wants."""
    if "response_format" not in body:
        return "closed_book"
    return _KINDS[tuple(sorted(body["response_format"]["json_schema"]["schema"]["properties"]))]


def user_of(body: Mapping[str, Any]) -> str:
    return body["messages"][-1]["content"]


def passages_of(text: str) -> list[str]:
    """The texts that a message shows of passages, without their documents' names."""
    return [re.sub(r"^Document: .*\n\n", "", passage) for passage in fences(text, "passage").values()]


class QuestionModel:
    """What a scripted server replies: good verdicts, unless something else is said."""

    def __init__(self, **says: Says) -> None:
        self._says: dict[str, Says] = {"critic": FINE, "answered": NOT_ANSWERED, "closed_book": "UNKNOWN", **says}

    def __call__(self, body: dict[str, Any]) -> str:
        said = self._says[kind_of(body)]
        reply = said(user_of(body)) if callable(said) else said
        return reply if isinstance(reply, str) else json.dumps(reply)


def settings(server: ScriptedServer, **others: str) -> Settings:
    return load_settings(
        {
            "RAGEVAL_GENERATOR_MODEL": "writer",
            "OPENAI_BASE_URL": server.base_url,
            "RAGEVAL_LLM_MAX_ATTEMPTS": "2",
            "RAGEVAL_LLM_TIMEOUT_S": "30",
            **others,
        }
    )


def generator(server: ScriptedServer, db: Database, **others: str) -> PromptedGenerator:
    return PromptedGenerator(ChatClient(settings(server, **others), "generator", db, "acme"))


def sent(server: ScriptedServer, kind: str) -> list[Received]:
    """The requests of a kind, in the order in which they came."""
    return [received for received in server.requests if kind_of(received.body) == kind]
