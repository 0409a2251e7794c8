"""What the HTTP servers of the tests share: a real server on loopback while a `with` block lasts."""

import random
import socket
import ssl
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


def free_port() -> int:
    """A port on loopback where nobody listens, and that no server of another test is given by chance.

    The system gives servers that ask for any port one above these.
    """
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class LoopbackServer:
    """Serves with its handler while the `with` block lasts.

    A `port` is that of a server that is back after it was stopped; with `tls` it speaks https. A handler that keeps a
    request waiting waits for `stopping`.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.stopping = threading.Event()
        self._server = _Server(("127.0.0.1", port), handler)
        self._scheme = "https" if tls else "http"
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def origin(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()


class Quiet(BaseHTTPRequestHandler):
    """A handler that prints no line for a request."""

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # clients that hang up are part of the tests
            super().handle_error(request, client_address)
