"""A RAG system behind a real HTTP server on loopback, which answers, streams and misbehaves as a test says."""

import json
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from tests.loopback import LoopbackServer, Quiet


@dataclass(frozen=True)
class Asked:
    """One request as it came over the wire; header names are in lower case, `body` is None where it is no JSON."""

    method: str
    target: str
    headers: dict[str, str]
    raw: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.target).query, True).items()}

    @property
    def body(self) -> Any:
        return json.loads(self.raw) if self.raw else None

    @property
    def question(self) -> str:
        """Where it stands in the default request, or else in the query."""
        return (self.body or {}).get("question") or self.query.get("question", "")


@dataclass(frozen=True)
class Reply:
    """What the server does with a request.

    `body` is sent as JSON, unless it is bytes or a text; a list of bytes is sent piece by piece, chunked. What goes
    wrong: `disconnect` closes without a reply, `hang` sends nothing, `drip` a byte now and then, both until the server
    stops; `cut` closes before the end of the body, `open` sends all of it but never says that it is the end.
    """

    body: Any = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Literal["disconnect", "hang", "drip", "cut", "open"] | None = None


Behaviour = Reply | Callable[[Asked], Reply]


def answering(text: str = "fine", contexts: Iterable[Any] = ("one passage",), **rest: Any) -> Reply:
    """A reply of the shape that definitions expect by default."""
    return Reply({"answer": text, "contexts": list(contexts), **rest})


def redirect(location: str, status: int = 307) -> Reply:
    return Reply(status=status, headers={"Location": location})


def sse(*events: Any) -> bytes:
    """Server-sent events: values as JSON, texts as they are."""
    return "".join(f"data: {each if isinstance(each, str) else json.dumps(each)}\n\n" for each in events).encode()


class RagServer(LoopbackServer):
    """Serves while the `with` block lasts. `first` replies are used up by the first requests, then `behaviour` holds.

    With `at_once` n, no request is answered before n of them are there.
    """

    def __init__(
        self,
        behaviour: Behaviour | None = None,
        first: Iterable[Reply] = (),
        at_once: int = 1,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.asked: list[Asked] = []
        self.most_at_once = 0
        self._behaviour = behaviour or answering()
        self._first = list(first)
        self._now = 0
        self._lock = threading.Lock()
        self._gate = threading.Barrier(at_once) if at_once > 1 else None
        super().__init__(self._handler(), tls=tls)

    @property
    def url(self) -> str:
        return self.origin

    @property
    def questions(self) -> list[str]:
        return [asked.question for asked in self.asked]

    def _reply(self, asked: Asked) -> Reply:
        with self._lock:
            self.asked.append(asked)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            first = self._first.pop(0) if self._first else None
        if self._gate is not None:
            self._gate.wait(timeout=60)
        with self._lock:
            self._now -= 1
        if first is not None:
            return first
        return self._behaviour(asked) if callable(self._behaviour) else self._behaviour

    def _handler(self) -> type[Quiet]:
        server = self

        class Handler(Quiet):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                self._send(server._reply(Asked(self.command, self.path, headers, raw)))

            do_GET = do_POST

            def _send(self, reply: Reply) -> None:
                if reply.fault == "hang":
                    server.stopping.wait()
                if reply.fault in ("hang", "disconnect"):
                    self.close_connection = True
                    return
                pieces = reply.body if isinstance(reply.body, list) and _all_bytes(reply.body) else None
                data = b"" if pieces is not None else _encoded(reply.body)
                self.send_response(reply.status)
                headers = {"Content-Type": "application/json", **reply.headers}
                if pieces is None:
                    headers.setdefault("Content-Length", str(len(data) + (1000 if reply.fault else 0)))
                else:
                    headers["Transfer-Encoding"] = "chunked"
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    self._send_body(pieces, data, reply.fault)
                except OSError:  # the client has gone
                    self.close_connection = True

            def _send_body(self, pieces: list[bytes] | None, data: bytes, fault: str | None) -> None:
                for piece in pieces or []:
                    self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                    self.wfile.flush()
                self.wfile.write(data)
                while fault == "drip" and not server.stopping.wait(0.01):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                if fault == "open":
                    server.stopping.wait()
                if fault is not None:
                    self.close_connection = True
                elif pieces is not None:
                    self.wfile.write(b"0\r\n\r\n")

        return Handler


def _all_bytes(body: list[Any]) -> bool:
    return bool(body) and all(isinstance(piece, bytes) for piece in body)


def _encoded(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()
