"""A real HTTP server on loopback that takes what is sent to a webhook, with faults set per test."""

import json
import ssl
from typing import Any

from tests.loopback import LoopbackServer, Quiet


class WebhookServer(LoopbackServer):
    """Takes messages while the `with` block lasts, at an address with a secret in it.

    `status` is what it answers with, for a redirect to `location`. One that `hangs` answers nothing until it stops.
    """

    def __init__(
        self,
        port: int = 0,
        status: int = 200,
        location: str = "",
        hangs: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.messages: list[dict[str, Any]] = []
        self.status = status
        self._location = location
        self._hangs = hangs
        super().__init__(self._handler(), port, tls)

    @property
    def url(self) -> str:
        return f"{self.origin}/services/T0/B0/s3cret-webhook"

    @property
    def texts(self) -> list[str]:
        return [message["text"] for message in self.messages]

    @property
    def headlines(self) -> list[str]:
        return [text.splitlines()[0] for text in self.texts]

    def _handler(self) -> type[Quiet]:
        server = self

        class Handler(Quiet):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if server._hangs:
                    server.stopping.wait()
                    return
                if 200 <= server.status < 300:
                    server.messages.append(body)
                self.send_response(server.status)
                if server._location:
                    self.send_header("Location", server._location)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

        return Handler
