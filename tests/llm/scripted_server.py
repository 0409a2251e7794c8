"""A real HTTP server on loopback that speaks the OpenAI API as far as the project uses it, with faults set per test."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rageval_dagster.llm import dialects
from tests.loopback import LoopbackServer, Quiet

Reply = Callable[[dict[str, Any]], str]
"""What the model says to a request body."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request.

    `kind`: `status` (an error reply with `status`, `code` and headers), `disconnect` (closes without a reply), `hang`
    (no reply until the server stops), `broken_json`, `cut_off` (finish_reason length), `empty`, `web_page`, `json`
    (200, with `message` as it is).
    """

    kind: str = "status"
    status: int = 500
    code: str | None = None
    param: str | None = None
    message: str = "scripted fault"
    headers: dict[str, str] = field(default_factory=lambda: {"Retry-After": "0"})


@dataclass(frozen=True)
class Received:
    """One request as it came over the wire; header names are in lower case."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def text(self) -> str:
        """All message texts, joined."""
        return "\n".join(message["content"] for message in self.body.get("messages", []))


class ScriptedServer(LoopbackServer):
    """Answers chat and embedding requests while the `with` block lasts.

    `reply` is the model's answer, or a function of the request's body. `faults` are used up by the first requests, one
    each (None: no fault); `fault_for` decides by the request itself. With `gate_size` n, replies after the first one
    (by which a client learns that somebody is there) wait until n requests are there at once. One that does not
    `counts` tells no tokens. `vectors` are the embeddings of texts whose cosines a test works out by hand.
    """

    def __init__(
        self,
        reply: str | Reply = "ok",
        faults: Iterable[Fault | None] = (),
        fault_for: Callable[[Received], Fault | None] | None = None,
        gate_size: int = 1,
        dimension: int = 8,
        counts: bool = True,
        vectors: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        self.requests: list[Received] = []
        self.most_at_once = 0
        self._reply: Reply = reply if callable(reply) else lambda _: reply
        self._faults = list(faults)
        self._fault_for = fault_for
        self._dimension = dimension
        self._counts = counts
        self._vectors = vectors or {}
        self._at_once = 0
        self._lock = threading.Lock()
        self._gate = threading.Barrier(gate_size) if gate_size > 1 else None
        super().__init__(self._handler())
        # Ports are given out again: what this process learned of an earlier server there is of another one.
        for known in [known for known in dialects._KNOWN if known[0] == self.base_url]:
            del dialects._KNOWN[known]

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"

    def _take(self, received: Received) -> Fault | None:
        with self._lock:
            self.requests.append(received)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            if self._faults:
                return self._faults.pop(0)
        return self._fault_for(received) if self._fault_for else None

    def _done(self) -> None:
        with self._lock:
            self._at_once -= 1

    def _payload(self, received: Received, fault: Fault | None) -> dict[str, Any]:
        model = received.body.get("model")
        if received.path.endswith("/embeddings"):
            texts = received.body["input"]
            rows = [
                {"object": "embedding", "index": index, "embedding": self._vector(text)}
                for index, text in enumerate(texts)
            ]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            return {
                "object": "list",
                "model": model,
                "data": rows[::-1],
                "usage": usage,
            }  # in any order, as the API may
        text = "" if fault and fault.kind == "empty" else self._reply(received.body)
        finish = "length" if fault and fault.kind == "cut_off" else "stop"
        message = {"role": "assistant", "content": text}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        } | ({"usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}} if self._counts else {})

    def _vector(self, text: str) -> Sequence[float]:
        """Not of length 1, so that normalising shows."""
        return self._vectors.get(text) or [
            byte / 8 for byte in hashlib.sha256(text.encode()).digest()[: self._dimension]
        ]

    def _handler(self) -> type[Quiet]:
        server = self

        class Handler(Quiet):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if server.stopping.is_set():  # on a connection that is still open
                    self.close_connection = True
                    return
                received = Received(self.path, body, {name.lower(): value for name, value in self.headers.items()})
                fault = server._take(received)
                try:
                    self._answer(received, fault)
                finally:
                    server._done()

            def _answer(self, received: Received, fault: Fault | None) -> None:
                if server._gate is not None and len(server.requests) > 1:
                    server._gate.wait(timeout=60)
                kind = fault.kind if fault else None
                if kind == "hang":
                    server.stopping.wait()
                if kind in {"hang", "disconnect"}:
                    self.close_connection = True
                    return
                if fault and kind == "status":
                    said = {"message": fault.message, "type": "scripted", "code": fault.code, "param": fault.param}
                    self._send(fault.status, json.dumps({"error": said}), "application/json", fault.headers)
                elif kind == "web_page":
                    self._send(200, "<html><body>Welcome</body></html>", "text/html")
                elif fault and kind == "json":
                    self._send(200, fault.message, "application/json")
                elif kind == "broken_json":
                    self._send(200, '{"choices": [{"mess', "application/json")
                else:
                    self._send(200, json.dumps(server._payload(received, fault)), "application/json")

            def _send(self, status: int, text: str, content_type: str, headers: dict[str, str] | None = None) -> None:
                data = text.encode()
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        return Handler
