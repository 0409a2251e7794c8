"""A RAG system of another make: its own index over its own passages, its own ids, its own JSON, behind HTTP."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.rag.rag_server import Asked, RagServer, Reply, redirect

TOKEN = "token-of-the-assistant"

FOREIGN = (
    "The board of Orinoco Shipping will vote on the merger with Parana Holdings in the second week of May. "
    "Until then nobody but the two chairmen may speak about the price of eleven crowns a share."
)
"""What another client's document says."""


class OtherRag:
    """Ranks passages of two sentences by shared words, and answers with the best one's sentence that shares most.

    `build` is what it says its version is, in every response. `broken` makes it return passages in the wrong order.
    `extra` are passages that it returns first, whatever is asked. `says` is its answer to all, if any. `asked` holds
    the bodies of the requests. `trouble` names for single questions, by the order of asking, what goes wrong:
    `status`, `shape`, `redirect`, `broken` or `slow` (no answer at all).
    """

    def __init__(self, documents: Sequence[Mapping[str, str]]) -> None:
        self.passages = [
            {"ref": f"idx-{number:06}", "body": body, "source": source}
            for number, (source, body) in enumerate(_cut(documents), start=1)
        ]
        self.build: str | None = None
        self.broken = False
        self.extra: list[dict[str, str]] = []
        self.says: str | None = None
        self.asked: list[dict[str, Any]] = []
        self.trouble: dict[int, str] = {}
        self.url = ""

    def reply(self, asked: Asked) -> Reply:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return Reply(status=401)
        self.asked.append(asked.body)
        whole = Reply(self.respond(asked.body))
        trouble = {
            "status": replace(whole, status=500),
            "shape": Reply({"result": {"text": 7}}),
            "redirect": redirect("http://127.0.0.2:9/elsewhere"),
            "broken": replace(whole, fault="cut"),
            "slow": Reply(fault="hang"),
        }
        return trouble.get(self.trouble.get(len(self.asked), ""), whole)

    def respond(self, request: Mapping[str, Any]) -> dict[str, Any]:
        question, count = str(request["q"]), int(request["top"])
        ranked = sorted(self.passages, key=lambda passage: (-_shared(question, passage["body"]), passage["ref"]))
        if self.broken:
            ranked.reverse()
        found = [*self.extra, *ranked][:count]
        sentences = _sentences(found[0]["body"])
        best = max(sentences, key=lambda sentence: _shared(question, sentence))
        meta = {} if self.build is None else {"build": self.build}
        text = f"{best} [1]" if self.says is None else self.says
        return {"result": {"text": text, "passages": found}, "meta": meta}


@contextmanager
def serving(system: OtherRag) -> Iterator[OtherRag]:
    with RagServer(system.reply) as server:
        system.url = f"{server.url}/v1/ask"
        yield system


def _cut(documents: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    for document in documents:
        sentences = _sentences(document["text"])
        for start in range(0, len(sentences), 2):
            yield document["id"], " ".join(sentences[start : start + 2])


def _sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in re.split(r"(?<=[.!?])\s+", text) if sentence.strip()]


def _words(text: str) -> Counter[str]:
    # As search engines do, without the short words that every text has.
    return Counter(re.findall(r"\w{4,}", text.casefold()))


def _shared(question: str, text: str) -> int:
    return sum((_words(question) & _words(text)).values())
