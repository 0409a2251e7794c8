"""Drafts: what a model is asked to write about one or two chunks, and the item that its reply makes."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rageval_dagster.benchmark.exchange import Fields, passages, read_fields, read_text, read_texts, says_none
from rageval_dagster.benchmark.mix import SINGLE, QuestionKind
from rageval_dagster.benchmark.rules import GROUNDED, longest_common_run, share_known
from rageval_dagster.benchmark.wording import content_tokens, offers, tokens
from rageval_dagster.identity import digest
from rageval_dagster.languages import detect, language_name, sentences
from rageval_dagster.llm.client import ChatRequest, UnusableReplyError
from rageval_dagster.llm.messages import object_schema
from rageval_dagster.llm.prompts import fenced, load_prompt
from rageval_dagster.records import Chunk, Evidence, Item
from rageval_dagster.settings.styles import PLAIN, told

PROMPTS = ("generate", "generate_multi_hop", "generate_unanswerable")

NOT_UNDERSTOOD = "reply_not_understood"
NOTHING_TO_ASK = "nothing_to_ask"
QUOTE_NOT_FOUND = "quote_not_found"

RELATIONS = ("comparison", "bridge")
"""What a question over two chunks makes of them: it compares them, or goes from the one to the other."""

OTHER_TEMPERATURE = 0.7
"""Of every draft but the first, which would else be the same again."""

SHORTEST_QUOTE = 4
"""A quote of fewer words stands in too many chunks to prove anything."""

MOST_OTHERS = 3
"""Wordings of an answer beside the first."""

CONTAINED_SHARE = 0.7
"""The share of an answer's words that a sentence holds to count as the one it comes from."""

_LOOKALIKES = ('"“”„«»', "'‘’`´", "-‐‑‒–—−")

_NAMES = {
    "q": "question",
    "question": "question",
    "a": "answer",
    "answer": "answer",
    "quote": "quote_1",
    "evidence": "quote_1",
    "quote1": "quote_1",
    "quote2": "quote_2",
    "category": "category",
    "alsoright": "also_right",
}


class NoDraftError(Exception):
    """A reply came that makes no item; `reason` says why, without a word of it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Form:
    """The form of one kind of draft: its prompt, and the fields of the reply."""

    prompt: str
    chunks: str
    """What the prompt calls the chunks."""
    schema: Mapping[str, Any]
    needed: tuple[str, ...]
    """The fields without which there is no item."""


_TEXTS = {"type": "array", "items": {"type": "string"}}
_SINGLE = Form(
    "generate",
    "passage",
    object_schema("draft", question="string", answer="string", also_right=_TEXTS, quote="string", category="string"),
    ("question", "answer"),
)
_MULTI_HOP = Form(
    "generate_multi_hop",
    "passages",
    object_schema("draft", question="string", answer="string", also_right=_TEXTS, quote_1="string", quote_2="string"),
    ("question", "answer"),
)
_UNANSWERABLE = Form(
    "generate_unanswerable", "passage", object_schema("draft", question="string", category="string"), ("question",)
)


def form_of(kind: QuestionKind) -> Form:
    return {"multi_hop": _MULTI_HOP, "unanswerable": _UNANSWERABLE}.get(kind, _SINGLE)


def draft_request(
    kind: QuestionKind,
    chunks: Sequence[Chunk],
    language: str | None,
    attempt: int,
    prompts_dir: Path | None,
    seed: int = 0,
    style: str = PLAIN,
) -> ChatRequest:
    """The request for a question of a kind about one chunk, or about two.

    `language` is that of the chunks, None where it is not known; `attempt` tells the drafts apart (0: the first).
    Which of the two relations is asked for, the seed draws; where the first draft was turned down, it is the other.
    `style` is who asks, and how.
    """
    form = form_of(kind)
    prompt = load_prompt(form.prompt, prompts_dir)
    spoken = None if language is None else language_name(language)
    values = {
        form.chunks: passages(chunks),
        "language": prompt.fill("its language")
        if spoken is None or spoken == language
        else prompt.fill("language", language=spoken),
        "again": prompt.fill("again") if attempt else "",
        "style": prompt.fill("style", style=fenced("style", told(style))) if told(style) else "",
    }
    if kind in SINGLE:
        values["category"] = prompt.fill(kind.replace("_", " "))
    if kind == "multi_hop":
        values["relation"] = prompt.fill(drawn(RELATIONS, seed, chunks[0], attempt))
    return ChatRequest(
        user=prompt.fill("user", **values).strip(),
        system=prompt.fill("system"),
        schema=form.schema,
        temperature=OTHER_TEMPERATURE if attempt else 0.0,
        seed=attempt or None,
    )


def drawn(options: Sequence[str], seed: int, chunk: Chunk, further: int = 0) -> str:
    """One of some options, the same each time for a chunk; or the one that stands so many places further."""
    place = int(digest(str(seed), chunk.content_key, *options)[:8], 16)
    return options[(place + further) % len(options)]


def reader_of(kind: QuestionKind) -> Callable[[str], Fields]:
    """What reads a draft of a kind: its fields, none where the model says that there is nothing to ask.

    It raises UnusableReplyError for a reply in which it finds no question, or no answer where there has to be one.
    """

    def read(text: str) -> Fields:
        if says_none(text):
            return {}
        fields = read_fields(text, _NAMES)
        needed = form_of(kind).needed
        if all(fields.get(name) == "" for name in needed):
            return {}
        for name in needed:
            if not read_text(fields, name):
                raise UnusableReplyError(f"{NOT_UNDERSTOOD} (no {name})")
        return fields

    return read


def item_of(fields: Fields, kind: QuestionKind, chunks: Sequence[Chunk]) -> Item:
    """The item of a draft about one chunk, or about two.

    Raises:
        NoDraftError: there was nothing to ask, or a chunk does not hold its quote.
    """
    if not fields:
        raise NoDraftError(NOTHING_TO_ASK)
    question, answer = read_text(fields, "question"), read_text(fields, "answer")
    if kind == "unanswerable":
        return Item(question, category=_category(fields), answerable=False, origin="llm")
    quotes = [read_text(fields, "quote_1"), read_text(fields, "quote_2")][: len(chunks)]
    evidence = _evidence(chunks, quotes, answer) or _evidence(chunks, quotes[::-1], answer)
    if evidence is None:
        raise NoDraftError(QUOTE_NOT_FOUND)
    category = "multi_hop" if kind == "multi_hop" else _category(fields)
    answers = (answer, *_also_right(fields, question, answer, chunks))
    return Item(question, answers, evidence, category, origin="llm")


def _also_right(fields: Fields, question: str, answer: str, chunks: Sequence[Chunk]) -> list[str]:
    """Other wordings of the answer: none that the chunks do not hold as they have to hold the answer, nor one that the
    question says. Of a choice each says the answer, too: else it may be the other alternative.
    """
    language = detect(chunks[0].text)
    needed = set(content_tokens(answer, language)) if offers(question, answer, language) else set[str]()
    known = {token for chunk in chunks for token in tokens(chunk.text)}
    asked = tokens(question)
    found = {tuple(tokens(answer)): answer}
    for text in read_texts(fields, "also_right"):
        words = tokens(text)
        is_asked = longest_common_run(asked, words) == len(words)
        if words and not is_asked and needed.issubset(words) and share_known(text, known, language) >= GROUNDED:
            found.setdefault(tuple(words), text)
    return list(found.values())[1 : MOST_OTHERS + 1]


def _evidence(chunks: Sequence[Chunk], quotes: Sequence[str], answer: str) -> tuple[Evidence, ...] | None:
    found: list[Evidence] = []
    for chunk, quote in zip(chunks, quotes, strict=True):
        located = locate_quote(chunk.text, quote, answer)
        if located is None:
            return None
        found.append(Evidence(chunk.document_id, chunk.page, located))
    return tuple(found)


def _category(fields: Fields) -> str:
    named = read_text(fields, "category").strip("*_ .").casefold().replace(" ", "_").replace("-", "_")
    return named if named in SINGLE else SINGLE[0]


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
        pattern = r"\s+".join("".join(map(_tolerant, word)) for word in words)
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
