"""Reading what an external system gave back, whole or as a stream: answer, contexts, citations, version, as mapped."""

import math
import re
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import jmespath

from rageval_dagster.corpus.fields import read_whole_number
from rageval_dagster.languages import is_decline
from rageval_dagster.network import MAX_BYTES, TooDeepError, TooLargeError, parsed_json
from rageval_dagster.rag.system import AnswerOutcome, Retrieval
from rageval_dagster.records import Answer, Hit
from rageval_dagster.settings import ResponseFields
from rageval_dagster.text import json_kind

LONGEST_VERSION = 200
MOST_CONTEXTS = 1_000
"""In one response, as many as a cutoff may be; so many citations, too."""
LONGEST_TEXT = 1_000_000
"""Characters of one context or answer: a book. Together they have at most `MAX_BYTES`, whatever they came as."""
LONGEST_ID = 10_000
MOST_EVENTS = 100_000
"""In one stream: more than a model's longest answer has tokens."""
_ALL = "@"


class _WrongShapeError(Exception):
    """What is not where the definition says, or of another type; it quotes nothing of the response."""


class ResponseReader:
    """Reads responses of any origin by one mapping. Whatever comes, the outcome is a retrieval or one with an error."""

    def __init__(self, fields: ResponseFields, decline_phrases: Sequence[str]) -> None:
        self._answer_is_all = fields.answer == _ALL
        self._decline_phrases = tuple(decline_phrases)
        self._paths = {name: path and jmespath.compile(path) for name, path in fields if name != "context"}
        self._context_paths = {name: path and jmespath.compile(path) for name, path in fields.context}
        self._context_is_text = _ALL not in dict(fields.context).values()

    def read(self, body: Any) -> Retrieval:
        """What a JSON value, or a Python one that is like it, says."""
        if self._answer_is_all and isinstance(body, str):
            return self.read_text(body)
        return self._read([body], streamed=False)

    def read_events(self, events: Sequence[Any]) -> Retrieval:
        """What the events of a stream say together: the last one that has a part holds for it, but `delta`s add up."""
        return self._read(events, streamed=True)

    def read_text(self, text: str) -> Retrieval:
        """What a response says that is an answer and nothing else."""
        try:
            _short(text, "answer", LONGEST_TEXT)
        except TooLargeError as error:
            return Retrieval(error=f"too_large: {error}")
        return Retrieval(None, answer=AnswerOutcome(Answer(text, is_decline(text, self._decline_phrases))))

    def version(self, body: Any) -> str | None:
        """The version that a response names; None where it names none, or none that can be used."""
        try:
            return usable_version(self._find("version", [body]))
        except _WrongShapeError:
            return None

    def _read(self, bodies: Sequence[Any], streamed: bool) -> Retrieval:
        try:
            hits, answer = self._hits(bodies), self._answer(bodies, streamed)
            version = usable_version(self._find("version", bodies))
        except _WrongShapeError as error:
            return Retrieval(error=f"wrong_shape: {error}")
        except TooLargeError as error:
            return Retrieval(error=f"too_large: {error}")
        size = sum(len(hit.text) + len(hit.chunk_id) + len(hit.document_id) for hit in hits or ())
        if size + len(answer.text if answer else "") > MAX_BYTES:
            return Retrieval(error=f"too_large: the texts have more than {MAX_BYTES:,} characters together")
        return Retrieval(hits, answer=AnswerOutcome(answer), version=version)

    def _find(self, name: str, bodies: Sequence[Any]) -> Any:
        found = (_search(self._paths[name], body, name) for body in reversed(bodies))
        return next((value for value in found if value is not None), None)

    def _hits(self, bodies: Sequence[Any]) -> tuple[Hit, ...] | None:
        if self._paths["contexts"] is None:
            return None
        contexts = self._find("contexts", bodies)
        if contexts is None:
            raise _WrongShapeError("contexts is missing")
        return tuple(self._hit(context, rank) for rank, context in enumerate(_list(contexts, "contexts"), start=1))

    def _hit(self, context: Any, rank: int) -> Hit:
        where = f"of context {rank}"
        if isinstance(context, str) and self._context_is_text:
            return Hit("", "", rank, 0.0, _text(context, f"text {where}"))
        found = {name: _search(path, context, f"{name} {where}") for name, path in self._context_paths.items()}
        if found["text"] is None and found["id"] is None and found["document_id"] is None:
            raise _WrongShapeError(f"context {rank} has neither text nor id nor document id")
        return Hit(
            chunk_id=_identifier(found["id"], f"id {where}"),
            document_id=_identifier(found["document_id"], f"document_id {where}"),
            rank=rank,
            score=_score(found["score"], f"score {where}"),
            text="" if found["text"] is None else _text(found["text"], f"text {where}"),
            page=read_whole_number(found["page"]),
        )

    def _answer(self, bodies: Sequence[Any], streamed: bool) -> Answer | None:
        if self._paths["answer"] is None and not (streamed and self._paths["delta"]):
            return None
        declined = self._find("declined", bodies)
        if declined is not None and not isinstance(declined, bool):
            raise _WrongShapeError(f"declined is {json_kind(declined)}, not true or false")
        text = self._answer_text(bodies, streamed)
        if text is None:
            if not declined:
                raise _WrongShapeError("answer is missing")
            text = ""
        citations = self._find("citations", bodies)
        cited = [] if citations is None else _list(citations, "citations")
        return Answer(
            text,
            is_decline(text, self._decline_phrases) if declined is None else declined,
            tuple(_identifier(each, f"citation {number}") for number, each in enumerate(cited, start=1)),
        )

    def _answer_text(self, bodies: Sequence[Any], streamed: bool) -> str | None:
        if streamed and self._paths["delta"]:
            deltas = [_search(self._paths["delta"], body, "delta") for body in bodies]
            pieces = [_text(delta, "delta") for delta in deltas if delta is not None]
            if pieces:
                return _short("".join(pieces), "answer", LONGEST_TEXT)
        text = self._find("answer", bodies)
        return None if text is None else _text(text, "answer")


def usable_version(value: Any) -> str | None:
    """A version as text: at most 200 printable characters; anything else is none."""
    if isinstance(value, bool) or not isinstance(value, str | Real):
        return None
    try:
        text = str(value).strip()
    except ValueError:  # thousands of digits
        return None
    return text if text and len(text) <= LONGEST_VERSION and text.isprintable() else None


def _search(path: Any, value: Any, name: str) -> Any:
    if path is None:
        return None
    try:
        return path.search(value)
    except Exception:  # noqa: BLE001  (the user's expression, on anything; the error may quote what it failed on)
        raise _WrongShapeError(f"the expression for {name} fails on the response") from None


def _expected(value: Any, name: str, kind: Any, wanted: str) -> Any:
    """The value, unless it is of another kind; true and false are no numbers."""
    if isinstance(value, bool) or not isinstance(value, kind):
        raise _WrongShapeError(f"{name} is {json_kind(value)}, not {wanted}")
    return value


def _list(value: Any, name: str) -> Sequence[Any]:
    found = _expected(value, name, list | tuple, "a list")
    if len(found) > MOST_CONTEXTS:
        raise TooLargeError(f"{len(found):,} {name}, more than {MOST_CONTEXTS:,}")
    return found


def _text(value: Any, name: str) -> str:
    return _short(_expected(value, name, str, "a string"), name, LONGEST_TEXT)


def _short(text: str, name: str, most: int) -> str:
    if len(text) > most:
        raise TooLargeError(f"{name} has {len(text):,} characters, more than {most:,}")
    return text


def _identifier(value: Any, name: str) -> str:
    """Texts and whole numbers, as text; empty where there is none."""
    if value is None:
        return ""
    try:
        return _short(str(_expected(value, name, str | Integral, "a string or a whole number")), name, LONGEST_ID)
    except ValueError:
        raise _WrongShapeError(f"{name} is too long a number") from None


def _score(value: Any, name: str) -> float:
    """0 where there is none that is finite: the order of the hits is the ranking, whatever their scores."""
    if value is None:
        return 0.0
    try:
        score = float(_expected(value, name, Real, "a number"))
    except OverflowError:
        return 0.0
    return score if math.isfinite(score) else 0.0


_DONE_LINE = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\][\r\n]")


class BrokenStreamError(Exception):
    """Why a stream is not a whole one; quotes nothing of it."""


def is_done(body: bytearray, new: int) -> bool:
    """Whether the last `new` bytes brought the line after which nothing counts, even if the connection stays open."""
    return _DONE_LINE.search(body, max(0, len(body) - new - len("\ndata: [DONE]"))) is not None


def sse_events(body: bytes) -> list[Any]:
    """The JSON values of server-sent events, up to `[DONE]` where that comes.

    Raises:
        BrokenStreamError: an event is no JSON, most likely cut off; the stream reports an error, or holds nothing.
        TooLargeError: there are more than `MOST_EVENTS`.
    """
    import httpx
    from httpx_sse import EventSource

    # A last event without the blank line that ends it still counts, if it is whole.
    whole = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=_decoded(body) + "\n\n")
    found: list[str] = []
    for event in EventSource(whole).iter_sse():
        if event.event == "error":
            raise BrokenStreamError("the stream reports an error")
        if event.data == "[DONE]" or len(found) > MOST_EVENTS:
            break
        found.append(event.data)
    return _parsed(found)


def line_events(body: bytes) -> list[Any]:
    """The JSON values of lines, as `sse_events`."""
    return _parsed(_decoded(body).split("\n"))


def _decoded(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BrokenStreamError("the stream is not UTF-8") from None


def _parsed(texts: Iterable[str]) -> list[Any]:
    held = [text for text in texts if text.strip()]
    if len(held) > MOST_EVENTS:
        raise TooLargeError(f"more than {MOST_EVENTS:,} events")
    try:
        events = [parsed_json(text) for text in held]
    except TooDeepError as error:
        raise BrokenStreamError(f"an event is {error}") from None
    except ValueError:
        raise BrokenStreamError("an event is not whole JSON") from None
    if not events:
        raise BrokenStreamError("the stream holds no event")
    return events
