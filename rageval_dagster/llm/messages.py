"""What is asked of a model and what comes back: requests, completions, failures, and what a reader refuses."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class ChatRequest:
    """One question to a model. `seed` tells apart requests that are otherwise equal (several drafts of one thing), and
    so does `repeat`, of which the model is told nothing: the very same question, asked again.

    `schema` is the JSON schema of the object that is wanted as the reply; None: free text. It is a help for endpoints
    that can be held to one: the prompt has to describe the object too. Its `title` (letters, digits, _ and -) is the
    name that it goes by.
    """

    user: str
    system: str | None = None
    schema: Mapping[str, Any] | None = None
    temperature: float = 0.0
    seed: int | None = None
    repeat: int = 0

    @property
    def messages(self) -> list[dict[str, str]]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": self.user}]

    @property
    def parameters(self) -> dict[str, Any]:
        return {"temperature": self.temperature} | ({} if self.seed is None else {"seed": self.seed})

    @property
    def identity(self) -> list[Any]:
        """All of it that determines the reply."""
        schema = [] if self.schema is None else [dict(self.schema)]
        return [self.messages, self.parameters, *schema, *([{"repeat": self.repeat}] if self.repeat else [])]


def object_schema(title: str, **fields: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """The JSON schema of an object that has these fields, all of them and no others; each a JSON type or a schema."""
    return {
        "title": title,
        "type": "object",
        "properties": {name: {"type": field} if isinstance(field, str) else field for name, field in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }


@dataclass(frozen=True)
class Completion:
    """A usable reply. `latency_s` is the time of the attempt that succeeded; 0 from the cache.

    Tokens are those of this reply alone; what unusable replies before it took is in the record of calls. `counted` is
    false where they are an estimate, because the endpoint did not say them. `made_at` is when a reply from the cache
    came; None: just now.
    """

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    retries: int = 0
    cache_hit: bool = False
    counted: bool = True
    made_at: datetime | None = None

    @property
    def tokens(self) -> tuple[int, int]:
        """Those sent, and those that came."""
        return self.prompt_tokens, self.completion_tokens

    def to_json(self) -> str:
        """What the cache keeps of it."""
        kept = {name: value for name, value in asdict(self).items() if name in _KEPT}
        return json.dumps(kept, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, made_at: datetime | None = None) -> "Completion":
        return cls(**json.loads(text), cache_hit=True, made_at=made_at)


_KEPT = ("text", "prompt_tokens", "completion_tokens")


@dataclass(frozen=True)
class Failure:
    """A request that got no usable reply, and why, without any text of it."""

    reason: str
    retries: int = 0


class UnusableReplyError(Exception):
    """A reply came that says nothing usable. The reason holds no word of the reply.

    A reader raises it; the model is then asked again.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ModelFailedError(Exception):
    """A request got no usable reply, however often it was sent; other requests may still."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure
