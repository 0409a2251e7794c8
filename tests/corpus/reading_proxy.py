"""A proxy before a Chroma server that lets nothing through that writes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection

from tests.loopback import LoopbackServer, Quiet

_READS = re.compile(r"/api/v2/tenants/[^/]+/databases/[^/]+/collections/[^/]+/(get|query)")


@dataclass
class ReadingProxy:
    """Its address, what it let through and what it refused: "METHOD path", and the headers of the last request."""

    url: str
    passed: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)


@contextmanager
def reading_proxy(server_url: str) -> Iterator[ReadingProxy]:
    host, port = server_url.removeprefix("http://").split(":")

    class Handler(Quiet):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.forward()

        def do_POST(self) -> None:
            self.forward()

        do_PUT = do_PATCH = do_DELETE = do_POST

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            said = f"{self.command} {self.path}"
            proxy.headers = dict(self.headers.items())
            if self.command != "GET" and not (self.command == "POST" and _READS.fullmatch(self.path.partition("?")[0])):
                proxy.refused.append(said)
                self.answer(403, b'{"error": "Forbidden", "message": "this proxy refuses writes"}', "application/json")
                return
            proxy.passed.append(said)
            behind = HTTPConnection(host, int(port))
            try:
                headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                behind.request(self.command, self.path, body, headers)
                answer = behind.getresponse()
                self.answer(answer.status, answer.read(), answer.headers.get("Content-Type", ""))
            finally:
                behind.close()

        def answer(self, status: int, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with LoopbackServer(Handler) as listening:
        proxy = ReadingProxy(listening.origin)
        yield proxy
