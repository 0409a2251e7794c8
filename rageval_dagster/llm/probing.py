"""One small question to a role's model: whether it answers, and what its endpoint takes and tells."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from rageval_dagster.llm.client import ChatClient, ChatRequest, Failure, Role, UnusableReplyError
from rageval_dagster.llm.dialects import Mode, dialect_of
from rageval_dagster.llm.messages import object_schema
from rageval_dagster.llm.replies import read_object
from rageval_dagster.settings import Settings

_QUESTION = ChatRequest(
    user='What is 2 + 3? Reply with one JSON object and nothing else, of this form: {"sum": 7}',
    schema=object_schema("sum", sum="integer"),
)

_TAKES: Mapping[Mode, str] = {
    "json_schema": "takes JSON schemas",
    "json_object": "takes JSON mode and no schemas",
    "text": "takes neither JSON schemas nor JSON mode",
}


@dataclass(frozen=True)
class Probed:
    """What is said of a model, and whether its reply was JSON, without which no reply of it can be used."""

    finding: str
    in_json: bool


def probe(settings: Settings, role: Role) -> Probed:
    """What the role's model made of one question that is nobody's: how fast, in which format, whether tokens are told.

    It is sent once, and once more for each thing that the endpoint does not take. Nothing is kept.

    Raises:
        LanguageModelError: there is no usable reply; the message says what came, and what to do.
        SettingsError: the role has no model, or that has no endpoint.
    """
    chat = ChatClient(settings.model_copy(update={"llm_max_attempts": 1}), role, None, "doctor")
    [reply] = chat.complete([_QUESTION])
    if isinstance(reply, Failure):
        raise chat.error(f"gives no usable reply ({reply.reason})", "see what its server says, or try again later")
    in_json = False
    with suppress(UnusableReplyError):
        read_object(reply.text)
        in_json = True
    dialect = dialect_of(chat.endpoint)
    found = [f"answers in {reply.latency_s:.2f} s", _TAKES[dialect.mode]]
    if not in_json:
        found.append("and replied no JSON")
    found.append("tells the tokens" if reply.counted else "does not tell the tokens, which are estimated")
    if dialect.without:
        found.append(f"does not take {' and '.join(sorted(dialect.without))}")
    return Probed(", ".join(found), in_json)
