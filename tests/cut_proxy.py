"""A TCP proxy before a server, which a test can cut: what goes through it breaks off, and nobody gets through."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

_SIZE = 65_536


class CutProxy:
    """Passes on every connection to `host`:`port` until it is cut; `port` is where it listens itself."""

    def __init__(self, host: str, port: int, on_bytes: Callable[[bytes], None] = lambda _: None) -> None:
        self._behind = (host, port)
        self._on_bytes = on_bytes
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listening: socket.socket | None = None
        self.port = 0
        self.restore()

    def __enter__(self) -> "CutProxy":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()

    def cut(self) -> None:
        """Breaks off all connections and refuses new ones."""
        with self._lock:
            listening, self._listening = self._listening, None
            connections, self._open = self._open, set()
        for each in [*connections, *([listening] if listening is not None else [])]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def restore(self) -> None:
        """Lets connections through, at the same port as before."""
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self.port))
        listening.listen(100)
        self.port = listening.getsockname()[1]
        self._listening = listening
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                near, _ = listening.accept()
                far = socket.create_connection(self._behind)
            except OSError:
                return
            with self._lock:
                if self._listening is not listening:
                    near.close()
                    far.close()
                    return
                self._open |= {near, far}
            threading.Thread(target=self._pass_on, args=(near, far, self._on_bytes), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(far, near, lambda _: None), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, on_bytes: Callable[[bytes], None]) -> None:
        with suppress(OSError):
            while data := source.recv(_SIZE):
                on_bytes(data)
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        with self._lock:
            self._open -= {source, target}
