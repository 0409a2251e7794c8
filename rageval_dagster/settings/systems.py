"""How a RAG system under test is reached: over HTTP, as a Python callable, or as recorded results."""

import re
from typing import Annotated, Any, Literal

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

BUILT_IN_SYSTEMS = ("dense", "bm25", "hybrid")

_SECRET_HEADER = re.compile(r"authorization|cookie|key|token|secret|password", re.IGNORECASE)


def _checked_path(path: str) -> str:
    try:
        jmespath.compile(path)
    except JMESPathError:
        raise ValueError("a JMESPath expression such as result.answer") from None
    return path


def _without_secrets(headers: dict[str, str]) -> dict[str, str]:
    if any(_SECRET_HEADER.search(name) for name in headers):
        raise ValueError("no secrets: name the variable that holds one in auth_env or headers_env")
    return headers


Path = Annotated[str, AfterValidator(_checked_path)]
Seconds = Annotated[float, Field(gt=0)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ContextFields(_Table):
    """Where one context of a response keeps its parts: JMESPath expressions on the context, `@` being all of it.

    Where a context is a plain string, that is its text, unless one of these is `@`.
    """

    text: Path | None = "text"
    id: Path | None = "id"
    document_id: Path | None = "document_id"
    page: Path | None = "page"
    score: Path | None = "score"


class ResponseFields(_Table):
    """Where a response keeps its parts: JMESPath expressions on the whole of it; None: it does not tell."""

    answer: Path | None = "answer"
    contexts: Path | None = "contexts"
    context: ContextFields = ContextFields()
    citations: Path | None = None
    declined: Path | None = None
    version: Path | None = None
    delta: Path | None = Field(default=None, description="of a streamed event: the next piece of the answer")


class HttpDefinition(_Table):
    """A RAG system behind an HTTP endpoint.

    In `url` and in every string of `request`, `{question}`, `{k}`, `{history}`, `{principal}`, `{principal.NAME}` and
    `{client}` are replaced; a string that is nothing but one of them becomes its value (a number, a list, an object).
    `request` is the JSON body of a POST, or the query of a GET. The value of the variable that `auth_env` names is
    sent as `Authorization: Bearer ...`.
    """

    kind: Literal["http"]
    url: Annotated[str, Field(pattern=r"^https?://[^/\s@]+(/\S*)?$")]
    method: Literal["POST", "GET"] = "POST"
    headers: Annotated[dict[str, str], AfterValidator(_without_secrets)] = {}
    auth_env: str | None = None
    headers_env: dict[str, str] = {}
    request: dict[str, Any] = {"question": "{question}", "k": "{k}"}
    response: ResponseFields = ResponseFields()
    stream: Literal["no", "sse", "lines", "text"] = "no"
    timeout_s: Seconds = 60
    max_attempts: Annotated[int, Field(ge=1)] = 3
    concurrency: Annotated[int, Field(ge=1, le=256)] = 4
    rate_per_s: Seconds | None = None
    version: str | None = None
    version_url: Annotated[str, Field(pattern=r"^https?://[^/\s@]+(/\S*)?$")] | None = None
    allow_plain_http: bool = False


class CallableDefinition(_Table):
    """A RAG system that is a Python function, `package.module:function`."""

    kind: Literal["callable"]
    function: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")]
    concurrency: Annotated[int, Field(ge=1, le=256)] = 1
    version: str | None = None
    response: ResponseFields = ResponseFields()


class RecordedDefinition(_Table):
    """What a RAG system said, from a file of JSON Lines or one JSON list."""

    kind: Literal["recorded"]
    file: str
    response: ResponseFields = ResponseFields()


SystemDefinition = Annotated[HttpDefinition | CallableDefinition | RecordedDefinition, Field(discriminator="kind")]
