"""A RAG system of another make: its own index over its own passages, its own ids, its own JSON, behind HTTP."""

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "token-of-the-assistant"


class OtherRag:
    """Ranks passages of two sentences by shared words, and answers with the best one's sentence that shares most.

    `build` is what it says its version is, in every response. `broken` makes it return passages in the wrong order.
    `extra` are passages that it returns first, whatever is asked. `asked` holds the bodies of the requests. `trouble`
    names for single questions, by the order of asking, what goes wrong: `status`, `shape`, `redirect`, `broken` or
    `slow` (no answer until `released`).
    """

    def __init__(self, documents: Sequence[Mapping[str, str]]) -> None:
        self.passages = [
            {"ref": f"idx-{number:06}", "body": body, "source": source}
            for number, (source, body) in enumerate(_cut(documents), start=1)
        ]
        self.build: str | None = None
        self.broken = False
        self.extra: list[dict[str, str]] = []
        self.asked: list[dict[str, Any]] = []
        self.trouble: dict[int, str] = {}
        self.released = threading.Event()
        self.url = ""

    def respond(self, request: Mapping[str, Any]) -> dict[str, Any]:
        question, count = str(request["q"]), int(request["top"])
        ranked = sorted(self.passages, key=lambda passage: (-_shared(question, passage["body"]), passage["ref"]))
        if self.broken:
            ranked.reverse()
        found = [*self.extra, *ranked][:count]
        sentences = _sentences(found[0]["body"])
        best = max(sentences, key=lambda sentence: _shared(question, sentence))
        meta = {} if self.build is None else {"build": self.build}
        return {"result": {"text": f"{best} [1]", "passages": found}, "meta": meta}


@contextmanager
def serving(system: OtherRag) -> Iterator[OtherRag]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self.send_response(401)
                self.end_headers()
                return
            system.asked.append(body)
            trouble = system.trouble.get(len(system.asked))
            content = json.dumps({"result": {"text": 7}} if trouble == "shape" else system.respond(body)).encode()
            if trouble == "slow":
                system.released.wait(60)
            self.send_response({"status": 500, "redirect": 307}.get(trouble or "", 200))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content) + (9 if trouble == "broken" else 0)))
            self.send_header("Location", "http://127.0.0.2:9/elsewhere")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    system.url = f"http://127.0.0.1:{server.server_address[1]}/v1/ask"
    try:
        yield system
    finally:
        system.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _cut(documents: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    for document in documents:
        sentences = _sentences(document["text"])
        for start in range(0, len(sentences), 2):
            yield document["id"], " ".join(sentences[start : start + 2])


def _sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in re.split(r"(?<=[.!?])\s+", text) if sentence.strip()]


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.casefold()))


def _shared(question: str, text: str) -> int:
    return sum((_words(question) & _words(text)).values())
