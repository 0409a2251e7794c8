"""A scripted OpenAI-compatible endpoint in a process of its own: it waits before each reply, and counts.

Started as `python endpoint.py SECONDS [FAULTS]`; prints its address, and serves until its input ends. FAULTS is a JSON
object of shares of requests: `busy` (429, Retry-After 1), `failing` (500), `hanging` (no reply), `broken` (half of the
JSON), `cut` (half of it, and it says so), `short` (one verdict too few); and `most`, the number of requests that may be
open at once before all others are answered 429.
"""

import asyncio
import hashlib
import json
import random
import re
import sys
from collections.abc import Callable
from typing import Any

DIMENSION = 64
SEED = 11
FOREVER = 3600.0
REFUSALS = {"busy": 429, "failing": 500}
RAGAS_SCHEMA = "following schema as specified in JSON Schema:\n"
RAGAS_INPUT = "Now perform the same with the following input\ninput: "


class UnknownPromptError(Exception):
    """A request that nobody has written a reply for."""


class RefusedError(Exception):
    """A request that is answered with a status alone."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def sentences(text: str) -> list[str]:
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+", text.strip()) if sentence]


def follows(statement: str, context: str) -> int:
    return int(statement.strip().rstrip(".") in context)


RAGAS_REPLIES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "StatementGeneratorOutput": lambda given: {"statements": sentences(given["answer"])},
    "NLIStatementOutput": lambda given: {
        "statements": [
            {
                "statement": statement,
                "reason": "It is or is not in the context.",
                "verdict": follows(statement, given["context"]),
            }
            for statement in given["statements"]
        ]
    },
    "ResponseRelevanceOutput": lambda given: {
        "question": f"What is said of {' '.join(given['response'].split()[:5])}?",
        "noncommittal": 0,
    },
    "Verification": lambda given: {
        "reason": "A sentence of the answer is or is not in the context.",
        "verdict": max(follows(sentence, given["context"]) for sentence in sentences(given["answer"])),
    },
    "ContextRecallClassifications": lambda given: {
        "classifications": [
            {
                "statement": sentence,
                "reason": "It is or is not in the context.",
                "attributed": follows(sentence, given["context"]),
            }
            for sentence in sentences(given["answer"])
        ]
    },
}
"""By the title of the schema that a prompt of ragas 0.4.3 asks for; given is the prompt's input."""


def reply(body: dict[str, Any]) -> str:
    """What the model says: the one place that knows whose prompt it is."""
    text = "\n".join(message["content"] for message in body["messages"])
    if RAGAS_SCHEMA in text:
        read = json.JSONDecoder().raw_decode
        schema, _ = read(text, text.index(RAGAS_SCHEMA) + len(RAGAS_SCHEMA))
        given, _ = read(text, text.rindex(RAGAS_INPUT) + len(RAGAS_INPUT))
        if schema["title"] not in RAGAS_REPLIES:
            raise UnknownPromptError(schema["title"])
        return json.dumps(RAGAS_REPLIES[schema["title"]](given))
    wanted = body.get("response_format", {}).get("json_schema", {}).get("name")
    if wanted is None:
        return "ok"
    if wanted not in OUR_REPLIES:
        raise UnknownPromptError(wanted)
    return json.dumps(OUR_REPLIES[wanted](body["messages"][-1]["content"]))


def fences(text: str, tag: str) -> list[tuple[int, str]]:
    """What stands between the tags, with its number (0: it has none)."""
    found = re.finditer(rf'<({tag}-\d+)(?: number="(\d+)")?>\n(.*?)\n</\1>', text, re.DOTALL)
    return [(int(fence[2] or 0), fence[3]) for fence in found]


def our_verdicts(asked: str) -> dict[str, Any]:
    """Claims and statements are supported by what holds them, contexts useful where they hold a part of the answer."""
    things = fences(asked, "claim") or fences(asked, "statement")
    if things:
        sources = " ".join(text for _, text in fences(asked, "source") + fences(asked, "context"))
        verdicts = [(number, "supported", bool(follows(text, sources))) for number, text in things]
    else:
        parts = [part for _, answer in fences(asked, "answer") for part in sentences(answer)]
        verdicts = [
            (number, "useful", any(follows(part, text) for part in parts)) for number, text in fences(asked, "context")
        ]
    reason = "A sentence is or is not in it."
    return {"verdicts": [{"number": number, "reason": reason, name: holds} for number, name, holds in verdicts]}


OUR_REPLIES: dict[str, Callable[[str], dict[str, Any]]] = {
    "claims": lambda asked: {"claims": sentences(fences(asked, "text")[0][1])},
    "verdicts": our_verdicts,
    "questions": lambda asked: {
        "evasive": False,
        "questions": [
            f"What is said of {' '.join(fences(asked, 'answer')[0][1].split()[:count])}?" for count in (4, 5, 6)
        ],
    },
}
"""By the name of the schema that a prompt of this project asks for; given is the user's message."""


class Endpoint:
    """Answers `/chat/completions` after the wait, `/embeddings` at once, and `/counts` with what was asked so far."""

    def __init__(self, wait: float, faults: dict[str, float]) -> None:
        self.wait = wait
        self.most = faults.pop("most", float("inf"))
        self.faults = faults
        self.draw = random.Random(SEED)
        self.chat = self.embeddings = self.at_once = self.most_at_once = 0

    async def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path.endswith("/counts"):
            counts = {"chat": self.chat, "embeddings": self.embeddings, "most_at_once": self.most_at_once}
            self.most_at_once = 0
            return counts
        if path.endswith("/embeddings"):
            self.embeddings += 1
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            rows = [
                {"object": "embedding", "index": index, "embedding": vector(text)} for index, text in enumerate(texts)
            ]
            return {"object": "list", "model": body["model"], "data": rows, "usage": usage(prompt=len(texts), reply=0)}
        self.chat += 1
        if self.at_once >= self.most:
            raise RefusedError(429)
        fault = next(
            iter(self.draw.choices([*self.faults, None], [*self.faults.values(), 1 - sum(self.faults.values())]))
        )
        if fault in REFUSALS:
            raise RefusedError(REFUSALS[fault])
        text = reply(body)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(FOREVER if fault == "hanging" else self.wait)
        finally:
            self.at_once -= 1
        if fault in {"broken", "cut"}:
            text = text[: len(text) // 2]
        if fault == "short" and '"verdicts"' in text:
            text = json.dumps({"verdicts": json.loads(text)["verdicts"][:-1]})
        message = {"role": "assistant", "content": text}
        count = body.get("n") or 1
        return {
            "id": f"chatcmpl-{self.chat}",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [
                {"index": index, "message": message, "finish_reason": "length" if fault == "cut" else "stop"}
                for index in range(count)
            ],
            "usage": usage(prompt=100, reply=20 * count),
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, which is kept open."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = re.search(r"\r\ncontent-length: *(\d+)", head)
                body = json.loads(await reader.readexactly(int(length[1]))) if length else {}
                status = "200 OK"
                try:
                    found = await self.answer(head.split(" ", 2)[1], body)
                except UnknownPromptError as error:
                    status = "400 Bad Request"
                    found = {"error": {"message": f"no reply is written for {error}", "type": "invalid_request_error"}}
                except RefusedError as error:
                    status = (
                        f"{error.status} Refused\r\nRetry-After: 1" if error.status == 429 else f"{error.status} Failed"
                    )
                    found = {"error": {"message": "scripted", "type": "scripted"}}
                data = json.dumps(found).encode()
                head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
                writer.write(head.encode() + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def vector(text: str) -> list[float]:
    return [byte / 128 for byte in hashlib.shake_256(text.encode()).digest(DIMENSION)]


def usage(prompt: int, reply: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": reply, "total_tokens": prompt + reply}


async def main() -> None:
    endpoint = Endpoint(float(sys.argv[1]), json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0, backlog=1024, limit=2**20)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
