"""The prompted question generator: a language model writes a question, answer and quote for each chunk."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from rageval_dagster.benchmark.rules import longest_common_run, share_known
from rageval_dagster.benchmark.wording import tokens
from rageval_dagster.identity import digest
from rageval_dagster.languages import sentences
from rageval_dagster.llm.client import ChatRequest, Completion, Failure
from rageval_dagster.records import Candidate, Chunk, Evidence, Item

if TYPE_CHECKING:
    from rageval_dagster.llm.client import ChatClient

CATEGORIES = ("factual_lookup", "entity_specific", "temporal")
"""What can be asked about one chunk: multi_hop takes two documents."""

SHORTEST_QUOTE = 4
"""A quote of fewer words stands in too many chunks to prove anything."""

CONTAINED_SHARE = 0.7
"""The share of an answer's words that a sentence holds to count as the one it comes from."""


class PromptedGenerator:
    """Asks the generator role's model about each chunk (seed 004's requirements, prompt in prompts/generate.txt)."""

    def __init__(self, client: "ChatClient") -> None:
        self._client = client

    @property
    def name(self) -> str:
        return prompted_name(self._client.endpoint.model)

    def generate(self, chunks: Sequence[Chunk]) -> list[Candidate]:
        """One candidate a chunk, in the chunks' order: a pair whose quote stands in the chunk, or why there is none.

        Failure reasons: `model_failed (...)`, `nothing_to_ask`, `reply_not_understood (...)`, `quote_not_found`.

        Raises:
            LanguageModelError: the endpoint refuses, or could not be reached for any chunk.
        """
        replies = self._client.complete([_request(chunk) for chunk in chunks])
        return [self._candidate(chunk, reply) for chunk, reply in zip(chunks, replies, strict=True)]

    def _candidate(self, chunk: Chunk, reply: Completion | Failure) -> Candidate:
        item, reason = None, ""
        try:
            item = read_reply(reply, chunk)
        except _NoPairError as error:
            reason = error.reason
        return Candidate(
            chunk_key=chunk.content_key,
            generator=self.name,
            attempt=0,
            status="new" if item else "failed",
            item=item,
            reasons=() if item else (reason,),
        )


class _NoPairError(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def prompted_name(model: str) -> str:
    """Generator, prompt version and model: candidates of another prompt or model are other candidates."""
    return f"prompted/{digest(_prompt())[:8]} {model}"


@lru_cache(maxsize=1)
def _prompt() -> str:
    return (files("rageval_dagster") / "prompts" / "generate.txt").read_text(encoding="utf-8")


def _request(chunk: Chunk) -> ChatRequest:
    # Nobody can write a text that holds its own hash: so no document can close the fence and speak to the model.
    code = chunk.content_key[:16]
    passage = f"Document: {chunk.document_id}\n\n{chunk.text}" if chunk.has_document else chunk.text
    return ChatRequest(system=_prompt(), user=f"<passage {code}>\n{passage}\n</passage {code}>")


def read_reply(reply: Completion | Failure, chunk: Chunk) -> Item:
    """The item that a reply holds; `_NoPairError` says why there is none."""
    if isinstance(reply, Failure):
        raise _NoPairError(f"model_failed ({reply.reason})")
    text = _THOUGHTS.sub("", reply.text).strip()
    if text.strip("*`\"'. ").upper() == "NONE":
        raise _NoPairError("nothing_to_ask")
    fields = _fields(text)
    for name in ("question", "answer"):
        if not fields.get(name):
            raise _NoPairError(f"reply_not_understood (no {name})")
    quote = locate_quote(chunk.text, fields.get("quote", ""), fields["answer"])
    if quote is None:
        raise _NoPairError("quote_not_found")
    category = fields.get("category", "").strip("*_ .").casefold().replace(" ", "_").replace("-", "_")
    return Item(
        question=fields["question"],
        answers=(fields["answer"],),
        evidence=(Evidence(chunk.document_id, chunk.page, quote),),
        category=category if category in CATEGORIES else CATEGORIES[0],
        origin="llm",
    )


# --- reading a reply -----------------------------------------------------------------------------------------------

_NAMES = {
    "q": "question",
    "question": "question",
    "a": "answer",
    "answer": "answer",
    "quote": "quote",
    "evidence": "quote",
    "category": "category",
}
_LABEL = re.compile(rf"^[\s>#*_\-\d.)]*({'|'.join(_NAMES)})[*_\s]*[:：][*_]*\s*(.*)$", re.IGNORECASE)
_THOUGHTS = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\[[^\]]*\]|<[^>]*>")
_QUOTATION_MARKS = {'"': '"', "“": "”", "„": "“", "«": "»", "「": "」", "`": "`", "'": "'", "‘": "’"}


def _fields(text: str) -> dict[str, str]:
    """Question, answer, quote and category of a reply, those that it has.

    Takes labelled lines (Q:, A:, with or without Markdown) and JSON. Of several pairs the first one counts.
    """
    found = _json_fields(text) or _labelled_fields(text)
    return {name: _unwrapped(value) for name, value in found.items()}


def _labelled_fields(text: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.splitlines():
        label = _LABEL.match(line)
        if label:
            name = _NAMES[label.group(1).casefold()]
            if name in found:
                break
            current = found.setdefault(name, [label.group(2)])
        elif current is not None and not line.strip().startswith("```"):
            current.append(line)
    return {name: " ".join(" ".join(lines).split()) for name, lines in found.items()}


def _json_fields(text: str) -> dict[str, str]:
    start = min((place for place in (text.find("{"), text.find("[")) if place >= 0), default=-1)
    if start < 0:
        return {}
    try:
        value, _ = json.JSONDecoder().raw_decode(text[start:])
    except (ValueError, RecursionError):
        return {}
    return _named(_first_object(value))


def _first_object(value: Any) -> Mapping[str, Any]:
    while isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return {}
    # Some models wrap the pair: {"qa": {...}} or {"pairs": [{...}]}.
    inner = next((entry for entry in value.values() if isinstance(entry, dict | list)), None)
    return value if _named(value) or inner is None else _first_object(inner)


def _named(value: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, entry in value.items():
        known = _NAMES.get(str(name).casefold())
        if known and isinstance(entry, str | int | float) and not isinstance(entry, bool):
            found.setdefault(known, str(entry))
    return found


def _unwrapped(value: str) -> str:
    """A field without the quotation marks or Markdown around it; empty if it only repeats the template."""
    value = value.replace("\0", "").strip()
    while len(value) >= 2 and (value[:2] == value[-2:] == "**" or _is_quoted(value)):
        width = 2 if value.startswith("**") else 1
        value = value[width:-width].strip()
    return "" if _PLACEHOLDER.fullmatch(value) else value


def _is_quoted(value: str) -> bool:
    closing = _QUOTATION_MARKS.get(value[0])
    return closing is not None and value[-1] == closing and value[0] not in value[1:-1]


# --- finding the quote ---------------------------------------------------------------------------------------------

_LOOKALIKES = ('"“”„«»', "'‘’`´", "-‐‑‒–—−")


def locate_quote(text: str, quote: str, answer: str) -> str | None:
    """The words of the text that prove the answer, exactly as they stand there, or None.

    The model's quote, if it stands in the text (white space, case and typographic marks aside) and is no mere word
    or two; otherwise the sentence that holds the answer, or most of its words and all its numbers.
    """
    if len(tokens(quote)) >= SHORTEST_QUOTE:
        found = _find(text, quote)
        if found is not None:
            return found
    best = max(sentences(text), key=lambda sentence: _containment(sentence, answer), default="")
    return _find(text, best) if _containment(best, answer) >= CONTAINED_SHARE else None


def _find(text: str, quote: str) -> str | None:
    words = quote.split()
    if not words:
        return None
    match = re.search(r"\s+".join(re.escape(word) for word in words), text)
    if match is None:
        pattern = r"\s+".join("".join(_tolerant(character) for character in word) for word in words)
        match = re.search(pattern, text, re.IGNORECASE)
    return match.group() if match else None


def _tolerant(character: str) -> str:
    group = next((group for group in _LOOKALIKES if character in group), None)
    return f"[{re.escape(group)}]" if group else re.escape(character)


def _containment(sentence: str, answer: str) -> float:
    """2 for a sentence that holds the answer word for word, else the share of its words that it holds."""
    held, wanted = tokens(sentence), tokens(answer)
    if wanted and longest_common_run(wanted, held) == len(wanted):
        return 2.0
    return share_known(answer, set(held))
