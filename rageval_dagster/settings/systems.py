"""How a RAG system under test is reached: over HTTP, as a Python callable, or as recorded results."""

import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from rageval_dagster.settings.templates import checked_template, named_parameters

BUILT_IN_SYSTEMS = ("dense", "bm25", "hybrid")

HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")
"""What a header takes: one line of ASCII."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET_HEADER = re.compile(r"authorization|cookie|key|token|secret|password", re.IGNORECASE)


def _checked_path(path: str) -> str:
    try:
        jmespath.compile(path)
    except JMESPathError:
        raise ValueError("a JMESPath expression such as result.answer") from None
    return path


def _checked_names(headers: dict[str, str]) -> dict[str, str]:
    if not all(map(_HEADER_NAME.fullmatch, headers)):
        raise ValueError("names of HTTP headers such as X-Tenant")
    return headers


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    if any(_SECRET_HEADER.search(name) for name in headers):
        raise ValueError("no secrets: name the variable that holds one in auth_env or headers_env")
    if not all(map(HEADER_VALUE.fullmatch, headers.values())):
        raise ValueError("values of one line of ASCII")
    return _checked_names(headers)


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        fixed = parts.hostname and parts.port != 0 and "{" not in parts.netloc
    except ValueError:
        fixed = False
    if not fixed:
        raise ValueError("an address such as https://host:8000/path, its host and port without placeholders")
    return url


_Url = Annotated[str, Field(pattern=r"^https?://[^/\s@]+(/\S*)?$"), AfterValidator(_checked_url)]
_Version = Annotated[str, Field(min_length=1, max_length=200)]
_Path = Annotated[str, AfterValidator(_checked_path)]
_OptionalPath = Annotated[_Path | None, BeforeValidator(lambda path: None if path == "" else path)]
"""TOML has no null: the empty string says that the system does not tell it."""
_Parameters = dict[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], str | int | float | bool]
_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Table(BaseModel):
    """A table of settings: no field but those it names."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ContextFields(Table):
    """Where one context of a response keeps its parts: JMESPath expressions on the context, `@` being all of it.

    Where a context is a plain string, that is its text, unless one of these is `@`. A context needs one of text, id and
    document id.
    """

    text: _OptionalPath = "text"
    id: _OptionalPath = "id"
    document_id: _OptionalPath = "document_id"
    page: _OptionalPath = "page"
    score: _OptionalPath = "score"


class ResponseFields(Table):
    """Where a response keeps its parts: JMESPath expressions on the whole of it; "": it does not tell.

    `citations` are numbers of contexts (from 1) or ids. Without `declined` an answer declines if its words say so.
    """

    answer: _OptionalPath = "answer"
    contexts: _OptionalPath = "contexts"
    context: ContextFields = ContextFields()
    citations: _OptionalPath = None
    declined: _OptionalPath = None
    version: _OptionalPath = None
    delta: _OptionalPath = Field(default=None, description="of a streamed event: the next piece of the answer")


class HttpDefinition(Table):
    """A RAG system behind an HTTP endpoint.

    In `url` and in every string of `request`, `{question}`, `{k}`, `{history}`, `{principal}`, `{principal.NAME}`,
    `{client}` and `{param.NAME}`, a value of `params`, are replaced; a string that is nothing but one of them becomes
    its value (a number, a list, an object). What has no value is left out. `{{` and `}}` are braces. `request` is the
    JSON body of a POST, or the query of a GET. The value of the variable that `auth_env` names is sent as
    `Authorization: Bearer ...`, those of `headers_env` as headers of their own.

    `stream` says how the answer comes: `no` (one JSON value, or with answer = "@" a plain text), `sse` (events whose
    data is JSON), `lines` (JSON Lines), or `text` (all of the body is the answer, and no contexts are told).
    """

    kind: Literal["http"]
    url: Annotated[_Url, AfterValidator(checked_template)]
    method: Literal["POST", "GET"] = "POST"
    headers: Annotated[dict[str, str], AfterValidator(_checked_headers)] = {}
    auth_env: str | None = None
    headers_env: Annotated[dict[str, str], AfterValidator(_checked_names)] = {}
    request: Annotated[dict[str, Any], AfterValidator(checked_template)] = {"question": "{question}", "k": "{k}"}
    params: _Parameters = {}
    response: ResponseFields = ResponseFields()
    stream: Literal["no", "sse", "lines", "text"] = "no"
    timeout_s: _Seconds = 60
    max_attempts: Annotated[int, Field(ge=1)] = 3
    concurrency: Annotated[int, Field(ge=1, le=256)] = 4
    rate_per_s: _Seconds | None = None
    version: _Version | None = None
    version_url: _Url | None = None
    allow_plain_http: bool = False

    @model_validator(mode="after")
    def _all_have_values(self) -> Self:
        missing = (named_parameters(self.url) | named_parameters(self.request)) - set(self.params)
        if missing:
            name = min(missing)
            raise ValueError(f"a value for {{param.{name}}}: params = {{{name} = ...}}")
        return self


class CallableDefinition(Table):
    """A RAG system that is a Python function, `package.module:function`, looked for beside rageval.toml first.

    It is called with those of `question`, `k`, `history`, `principal` and `client` that it takes, and with all of
    `params`, and gives back a dict or, where it tells no contexts, the answer alone. It may be `async`.
    """

    kind: Literal["callable"]
    function: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")]
    params: _Parameters = {}
    concurrency: Annotated[int, Field(ge=1, le=256)] = 1
    version: _Version | None = None
    response: ResponseFields = ResponseFields()


class RecordedDefinition(Table):
    """What a RAG system said, from a file of JSON Lines or one JSON list, an object for each question.

    A row that has an `item_id` stands for that item, any other for the item whose question it holds, `question` being
    the JMESPath expression that finds it. Files of Ragas take `question = "user_input"` and, of the response,
    `answer = "response"` and `contexts = "retrieved_contexts"`.
    """

    kind: Literal["recorded"]
    file: str
    question: _Path = "question"
    response: ResponseFields = ResponseFields()


SystemDefinition = Annotated[HttpDefinition | CallableDefinition | RecordedDefinition, Field(discriminator="kind")]

DEFINITIONS = {"http": HttpDefinition, "callable": CallableDefinition, "recorded": RecordedDefinition}
"""The definitions by kind."""
