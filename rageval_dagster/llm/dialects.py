"""What an endpoint takes of the API: how it can be held to a JSON schema, and which parameters it does not know."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rageval_dagster.llm.endpoints import Endpoint
from rageval_dagster.llm.messages import ChatRequest

Mode = Literal["json_schema", "json_object", "text"]

_NEXT: Mapping[Mode, Mode] = {"json_schema": "json_object", "json_object": "text"}
_FORMAT = re.compile(r"response_?format|json_?schema|json_?object|json mode|structured output|grammar", re.IGNORECASE)
_NOT_TAKEN = re.compile(r"unsupported|not support|unrecognized|unknown|not permitted", re.IGNORECASE)
_REFUSING_STATUS = {400, 404, 415, 422, 501}


@dataclass
class Dialect:
    """What is known of an endpoint's model; it is learned from what is refused, once a process.

    `speaks` is true once a reply came that was no refusal, `taken` holds the modes in which one did.
    """

    mode: Mode = "json_schema"
    speaks: bool = False
    taken: set[Mode] = field(default_factory=set)
    without: set[str] = field(default_factory=set)

    def parameters(self, request: ChatRequest) -> dict[str, Any]:
        """The request's parameters as this endpoint takes them."""
        asked = {name: value for name, value in request.parameters.items() if name not in self.without}
        if request.schema is None or self.mode == "text":
            return asked
        if self.mode == "json_object":
            return asked | {"response_format": {"type": "json_object"}}
        name = str(request.schema.get("title", "reply"))
        schema = {"name": name, "strict": True, "schema": dict(request.schema)}
        return asked | {"response_format": {"type": "json_schema", "json_schema": schema}}

    def heard(self, sent: Mapping[str, Any]) -> None:
        """A reply came to a request with these parameters."""
        self.speaks = True
        if "response_format" in sent:
            self.taken.add(sent["response_format"]["type"])

    def adapt(self, status: int, parameter: str | None, message: str, sent: Mapping[str, Any]) -> bool:
        """Learns from a refusal; whether the request may be sent once more, said otherwise.

        `parameter` and `message` are the endpoint's own words on what it refuses, `sent` the parameters of the request.
        Other requests may have learned the same meanwhile.
        """
        if status not in _REFUSING_STATUS:
            return False
        not_taken = parameter is None and _NOT_TAKEN.search(message)
        for name in sent.keys() - {"response_format"}:
            if parameter == name or (not_taken and re.search(rf"['\"`]{name}['\"`]", message)):
                self.without.add(name)
                return True
        form = sent.get("response_format")
        if form is None:
            return False
        blamed = (parameter or "").startswith("response_format") or bool(_FORMAT.search(message))
        # Some servers refuse what they do not know without saying what it is.
        if not blamed and (status not in {400, 422, 501} or parameter is not None or form["type"] in self.taken):
            return False
        if form["type"] == self.mode and self.mode in _NEXT:
            self.mode = _NEXT[self.mode]
        return True


_KNOWN: dict[tuple[str, str], Dialect] = {}


def dialect_of(endpoint: Endpoint) -> Dialect:
    """What this process knows of an endpoint's model."""
    return _KNOWN.setdefault((endpoint.base_url, endpoint.model), Dialect())


def forget_dialect(endpoint: Endpoint) -> None:
    """Unlearns what was tried in vain: another cause may have been behind it."""
    _KNOWN.pop((endpoint.base_url, endpoint.model), None)
