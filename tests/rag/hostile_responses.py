"""What a broken or hostile RAG system sends: over 40 responses, byte by byte, from a server on loopback.

`python -m tests.rag.hostile_responses` serves them until it is stopped; /NAME is the address of each.
"""

import gzip
import json
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle, repeat
from typing import Any

from tests.loopback import LoopbackServer, Quiet

MB = 1_000_000
JSON = {"Content-Type": "application/json"}
SSE = {"Content-Type": "text/event-stream"}


@dataclass(frozen=True)
class Hostile:
    """A response: its pieces as they go over the wire, and what the question that got it comes to.

    `expected` is how the error begins, None where an answer is expected. Without a Content-Length among `headers` the
    end of the connection is the end of the body. `stream` is how the system is defined.
    """

    body: Callable[[], Iterator[bytes]]
    expected: str | None
    headers: Mapping[str, str] = field(default_factory=lambda: dict(JSON))
    status: int = 200
    stream: str | None = None
    pause_s: float = 0.0


def once(body: bytes | str) -> Callable[[], Iterator[bytes]]:
    return lambda: iter([body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")])


def _said(expected: str | None, body: Any, **rest: Any) -> Hostile:
    return Hostile(once(body if isinstance(body, bytes | str) else json.dumps(body)), expected, **rest)


def _contexts(contexts: Any) -> dict[str, Any]:
    return {"answer": "yes", "contexts": contexts}


def bomb(levels: int, size: int = 1_000 * MB) -> Callable[[], Iterator[bytes]]:
    """Blanks of `size` bytes, compressed so often. One block is compressed and repeated: nobody reads to the end."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    first, again = (packer.compress(b" " * MB) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    packed = first + again * (size // MB - 1)
    for _ in range(levels - 1):
        packed = gzip.compress(packed)
    return once(packed)


def endless(piece: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: repeat(piece)


FINE = json.dumps(_contexts(["a passage"]))
NOT_JSON = "wrong_shape: the body is no JSON"
DEEP = "wrong_shape: the body is nested deeper than 100 levels"
LARGE = "too_large: more than 10 MB"
CUT = "broken_stream"


def responses() -> dict[str, Hostile]:
    """The responses by name."""
    lines = {"stream": "lines", "headers": {"Content-Type": "application/x-ndjson"}}
    sse = {"stream": "sse", "headers": SSE}
    return {
        # Status and headers.
        "status 204": _said("wrong_shape", "", status=204),
        "status 500 without end": Hostile(endless(b"x" * 65_536), "http_status: 500", status=500),
        "status 999": _said("", FINE, status=999),
        "status of no number": Hostile(once(FINE), "connection", {"": "raw HTTP/1.1 two hundred\r\n\r\n"}),
        "no status line": Hostile(once(FINE), "connection", {"": "raw \x00\x01\x02\r\n\r\n"}),
        "a header without end": Hostile(endless(b"x" * 65_536), "connection", {"": "raw HTTP/1.1 200 OK\r\nX-Long: "}),
        "a thousand headers": _said(
            "connection", FINE, headers={**JSON, **{f"X-{n}": "y" * 200 for n in range(1_000)}}
        ),
        "redirected to itself": _said("redirect_refused", "", status=307, headers={"Location": "SELF"}),
        "redirected elsewhere": _said(
            "redirect_refused", "", status=302, headers={"Location": "http://169.254.169.254/"}
        ),
        "redirected to a file": _said("redirect_refused", "", status=302, headers={"Location": "file:///etc/passwd"}),
        "asked to wait for a year": _said("http_status: 429", "", status=429, headers={"Retry-After": "31536000"}),
        "asked to wait for ever": _said("http_status: 503", "", status=503, headers={"Retry-After": "9" * 400}),
        "a page": _said(NOT_JSON, "<html>Sign in</html>", headers={"Content-Type": "text/html"}),
        "JSON called a picture": _said(None, FINE, headers={"Content-Type": "image/png"}),
        "an unknown charset": _said(None, FINE, headers={"Content-Type": "application/json; charset=klingon"}),
        # Lengths.
        "too short a length": _said(NOT_JSON, FINE, headers={**JSON, "Content-Length": "5"}),
        "too long a length": _said(CUT, FINE, headers={**JSON, "Content-Length": "5000"}),
        "a length below nothing": _said("connection", FINE, headers={**JSON, "Content-Length": "-1"}),
        "a broken chunk": _said(CUT, "zz\r\nabc", headers={**JSON, "Transfer-Encoding": "chunked"}),
        "a chunk of an exabyte": _said(CUT, "fffffffffffffff\r\nabc", headers={**JSON, "Transfer-Encoding": "chunked"}),
        # Sizes.
        "no end": Hostile(endless(b" " * 65_536), LARGE),
        "a byte now and then": Hostile(endless(b" "), "timeout", pause_s=0.05),
        "a gzip bomb": Hostile(bomb(1), LARGE, {**JSON, "Content-Encoding": "gzip"}),
        "a gzip bomb called deflate": Hostile(bomb(1), LARGE, {**JSON, "Content-Encoding": "deflate"}),
        "a gzip bomb in gzip": Hostile(bomb(2), "too_large: compressed", {**JSON, "Content-Encoding": "gzip, gzip"}),
        "brotli": _said("too_large: compressed", b"\x8b", headers={**JSON, "Content-Encoding": "br"}),
        "no gzip": _said(CUT, FINE, headers={**JSON, "Content-Encoding": "gzip"}),
        "half of gzip": _said(CUT, gzip.compress(FINE.encode())[:-12], headers={**JSON, "Content-Encoding": "gzip"}),
        "whole gzip": _said(None, gzip.compress(FINE.encode()), headers={**JSON, "Content-Encoding": "gzip"}),
        # JSON.
        "nothing": _said(NOT_JSON, ""),
        "deep lists": _said(DEEP, "[" * 4 * MB),
        "deep objects": _said(DEEP, '{"answer":' * 600 + "1" + "}" * 600),
        "deep contexts": _said(DEEP, f'{{"answer": "a", "contexts": {"[" * 400 + "]" * 400}}}'),
        "millions of lists": _said("too_large: 2,400,000 contexts", _contexts([[]] * 2_400_000)),
        "NaN": _said(NOT_JSON[:12], _contexts(float("nan"))),
        "infinite scores": _said(None, _contexts([{"text": "a passage", "score": float("inf")}])),
        "a number of a million digits": _said(NOT_JSON, '{"answer": "a", "contexts": [' + "9" * MB + "]}"),
        "a number of 4,000 digits": _said("wrong_shape", f'{{"answer": {"9" * 4_000}, "contexts": []}}'),
        "keys twice": _said(None, '{"answer": 1, "answer": "a", "contexts": [], "contexts": ["b"]}'),
        "a comma too many": _said(NOT_JSON, '{"answer": "a",}'),
        "two values": _said(NOT_JSON, FINE + FINE),
        "cut off": _said(NOT_JSON, FINE[:-10]),
        "no UTF-8": _said(NOT_JSON, b'{"answer": "\xff\xfe", "contexts": []}'),
        "UTF-16": _said(None, FINE.encode("utf-16")),
        # Texts.
        "a NUL": _said(None, _contexts(["a\x00b"]) | {"answer": "\x00"}),
        "half a surrogate pair": _said(None, r'{"answer": "\ud800", "contexts": ["\udfff x", {"id": "\ud800"}]}'),
        "controls": _said(None, _contexts(["\x1b[2J\x07\u202e"]) | {"answer": "\x1b]0;title\x07"}),
        "an answer of 2 MB": _said("too_large: answer has", {"answer": "a " * MB, "contexts": []}),
        "a context of 2 MB": _said("too_large: text of context 1 has", _contexts(["a " * MB])),
        "an id of 100 kB": _said("too_large: id of context 1 has", _contexts([{"id": "a" * 100_000}])),
        "60,000 contexts": _said("too_large: 60,000 contexts, more than 1,000", _contexts(["a passage"] * 60_000)),
        "1,000 contexts": _said(None, _contexts([f"passage {n} about nothing" for n in range(1_000)])),
        # Shapes.
        "contexts are a text": _said("wrong_shape", _contexts("a passage")),
        "contexts are an object": _said("wrong_shape", _contexts({"0": "a passage"})),
        "contexts are numbers": _said("wrong_shape", _contexts([1, 2.5, None])),
        "a list": _said("wrong_shape", [1, 2, 3]),
        "a text": _said("wrong_shape", '"yes"'),
        "null": _said("wrong_shape", "null"),
        "the answer is a list": _said("wrong_shape", {"answer": ["yes"], "contexts": []}),
        # Streams.
        "events without end": Hostile(endless(b'data: {"answer": "a", "contexts": []}\n\n'), LARGE, **sse),
        "an event without end": Hostile(endless(b"data: " + b"x" * 65_530), LARGE, **sse),
        "comments now and then": Hostile(endless(b": still here\n\n"), "timeout", pause_s=0.05, **sse),
        "a million events": _said("too_large: more than 100,000 events", "data: 1\n\n" * MB, **sse),
        "events that are no JSON": _said(CUT, "data: hello\n\n" * 5, **sse),
        "a deep event": _said(CUT, "data: " + "[" * 5_000 + "\n\n", **sse),
        "an event of an error": _said(CUT, "event: error\ndata: {}\n\n", **sse),
        "no events": _said(CUT, "\x00\xff garbage: \r\r\n\n", **sse),
        "lines without end": Hostile(endless(b'{"answer": "a"}\n' * 1_000), LARGE, **lines),
        "a million lines": _said("too_large: more than 100,000 events", "1\n" * MB, **lines),
        "a deep line": _said(CUT, "[" * 5_000 + "\n", **lines),
        "a text without end": Hostile(endless(b"yes " * 16_000), LARGE, stream="text"),
        "a text of 2 MB": _said("too_large: answer has", "yes " * 500_001, stream="text"),
    }


class HostileServer(LoopbackServer):
    """Serves the responses while the `with` block lasts, each at /NUMBER and below, and in turn at /next."""

    def __init__(self, all_of_them: list[Hostile]) -> None:
        server, turns = self, cycle(all_of_them)

        class Handler(Quiet):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.close_connection = True
                name = self.path.split("/")[1]
                hostile = next(turns) if name == "next" else all_of_them[int(name)]
                with suppress(OSError):  # whoever asked has seen enough
                    self._head(hostile)
                    for piece in hostile.body():
                        self.wfile.write(piece)
                        if hostile.pause_s and server.stopping.wait(hostile.pause_s):
                            break

            do_GET = do_POST

            def _head(self, hostile: Hostile) -> None:
                raw = hostile.headers.get("", "")
                if raw:
                    self.wfile.write(raw.removeprefix("raw ").encode())
                    return
                self.send_response(hostile.status)
                for name, value in hostile.headers.items():
                    self.send_header(name, self.path if value == "SELF" else value)
                self.end_headers()

        super().__init__(Handler)


if __name__ == "__main__":
    with HostileServer(list(responses().values())) as serving:
        for number, name in enumerate(responses()):
            print(f"{serving.origin}/{number}  {name}")
        while True:
            time.sleep(60)
