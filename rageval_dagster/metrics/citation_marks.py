"""How answers cite: the marks in a text, and which of the retrieved contexts each of them names."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from rageval_dagster.records import Hit, Result

WIDEST_RANGE = 50
"""Contexts that `[a-b]` may name; a wider range is no list of sources, and one citation of nothing."""

LONGEST_GIVEN = 2_000
"""Characters of a citation given apart that are read; a longer one that is no id is one citation of nothing."""

SOURCE_WORDS = (
    "sources?|references?|citations?|quellen?|fuentes?|références?|fontes?|fonti?|bron(?:nen)?|źródł[oa]|источники?"
    "|المصدر|المصادر|स्रोत|来源|來源|参考|參考|参考文献|參考文獻|出典|출처"
)
"""Words that name a source, or open a list of them, as the inside of a group; to be matched in any case."""

_MARK = re.compile(
    r"[\[【［](?P<bracket>[^\[\]【】［］\n]{1,200})[\]】］]"
    rf"|[(（][ \t]{{0,3}}(?:{SOURCE_WORDS})[ \t]{{0,3}}[:：]"
    r"(?P<source>(?:[^()（）\n]|\([^()\n]{0,100}\)){1,200})[)）]",
    re.IGNORECASE,
)
_LABEL = re.compile(rf"\s{{0,3}}(?:{SOURCE_WORDS})\s{{0,3}}[:：]", re.IGNORECASE)
_LINK_TARGET = re.compile(r"\([^()\s]{0,2000}\)")
_NUMBERS = re.compile(
    r"(?:(?P<word>(?:context|source|citation|document|doc|passage|chunk|reference|ref)s?)[ :]{1,2})?"
    r"(?P<first>\d{1,200})(?:\s?[-–—]\s?(?P<last>\d{1,200}))?(?:†.*)?",  # more digits Python takes for no number
    re.IGNORECASE,
)
_PAGE_WORD = r"(?:pages?|pp?|pg|seiten?|s|páginas?|pág|pagina|strona|str|стр|ページ|页|頁|第)\.?\s?"
_SEPARATOR = re.compile(rf"[,;，；、](?!\s?{_PAGE_WORD}\d)", re.IGNORECASE)
_PAGE = re.compile(
    rf"(?:(?<![:：])\s?[:：#]\s?(?:{_PAGE_WORD})?|[,;，]?\s?\b{_PAGE_WORD})"
    r"(?P<first>\d{1,9})(?:\s?[-–—]\s?(?P<last>\d{1,9}))?\s?(?:页|頁|ページ)?$",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"https?://\S+"
    r"|.*[^\s.]\.(?:pdf|docx?|txt|md|rst|html?|csv|tsv|xlsx?|pptx?|jsonl?|xml|ya?ml|rtf|odt|epub|tex|eml|msg|log|png"
    r"|jpe?g|tiff?)(?:[:#].*)?"
    r"|(?=\S*[^\W\d_])\S+:\d+(?:[-–]\d+)?",
    re.IGNORECASE,
)
_PATH_SEPARATOR = re.compile(r"[/\\]")
_EXTENSION = re.compile(r"\.\w{1,5}$")
_INLINE_CODE = re.compile(r"`[^`\n]+`")
_FENCE = re.compile(r"^[ \t]{0,8}(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)$", re.MULTILINE)
_TEXT_FENCES = ("markdown", "md")
_NOT_BLANK = re.compile(r"[^\n]")


class Citation(NamedTuple):
    """One citation: the contexts it names, by their places from 0 (none: never retrieved), and the name it uses."""

    contexts: tuple[int, ...]
    name: str


class Mark(NamedTuple):
    """What stands between two brackets of a text, its place there, and the citations that it is."""

    start: int
    end: int
    citations: Sequence[Citation]


class Retrieved:
    """What was retrieved for one question, as an answer may name it.

    `[n]` names the n-th context. A name in brackets is a chunk id, a document id, or the last part of one that is a
    path, with or without its extension, in any case.
    """

    def __init__(self, context_count: int, hits: Sequence[Hit]) -> None:
        self._count = context_count
        self._hits = hits[:context_count]

    @classmethod
    def of(cls, result: Result) -> "Retrieved":
        return cls(len(result.contexts), result.hits)

    def marks(self, text: str) -> Iterator[Mark]:
        """The citations in a text, in order. Code (`without_code`), links, task boxes and asides such as `[sic]` have
        none."""
        if "`" in text:
            text = _INLINE_CODE.sub(_blank, text)
        for match in _MARK.finditer(text):
            content, start, end = match["bracket"], match.start(), match.end()
            if content is None:
                yield Mark(start, end, self._read(match["source"], certain=True))
                continue
            link = _LINK_TARGET.match(text, end)
            if content.isdecimal():
                citations = [self._number(content)]
            elif link is None:
                citations = self._read(content)
            else:
                known = self._named(content)
                citations = [Citation(known, _folded(content))] if known and text[start - 1 : start] != "!" else []
            if citations:
                yield Mark(start, end if link is None else link.end(), citations)

    def given(self, names: Sequence[str]) -> list[Citation]:
        """The citations that a system gave apart from its text: ids, or numbers of contexts; ids come first."""
        found: list[Citation] = []
        for name in names:
            if known := self._named(name):
                found.append(Citation(known, _folded(name)))
            elif len(name) > LONGEST_GIVEN:
                found.append(Citation((), _folded(name)))
            elif name.strip():
                found.extend(self._read(name, certain=True))
        return found

    def _read(self, content: str, certain: bool = False) -> list[Citation]:
        """The citations in the inside of a bracket; where it is `certain` that it cites, there is at least one."""
        label = _LABEL.match(content)
        if label is not None and not self._named(content):
            content, certain = content[label.end() :], True
        content = content.strip(" \t[]【】［］")
        whole = self._reference(content)
        if whole is not None and (whole.contexts or not _SEPARATOR.search(content)):
            return [whole]
        found: list[Citation] = []
        document = ""
        for part in filter(None, map(str.strip, _SEPARATOR.split(content))):
            if document and part.isdecimal():  # [doc:3, 5]
                reference = self._reference(f"{document}:{part}")
                found.append(reference or Citation((), part))
                continue
            if numbers := self._numbers(part):
                found.extend(numbers)
            elif (reference := self._reference(part)) is not None:
                found.append(reference)
                page = _PAGE.search(part)
                document = part[: page.start()] if page else ""
        if not found and whole is not None:
            return [whole]
        return found or ([Citation((), _folded(content))] if certain else [])

    def _numbers(self, part: str) -> list[Citation]:
        match = _NUMBERS.fullmatch(part)
        if match is None:
            return []
        if match["word"] and (known := self._named(part)):
            return [Citation(known, _folded(part))]
        if match["last"] is None:
            return [self._number(match["first"])]
        first, last = int(match["first"]), int(match["last"])
        if not first <= last < first + WIDEST_RANGE:
            return [Citation((), part)]
        return [self._number(str(number)) for number in range(first, last + 1)]

    def _number(self, digits: str) -> Citation:
        number = int(digits)
        contexts = (number - 1,) if 1 <= number <= self._count else self._named(digits)
        return Citation(contexts, str(number))

    def _reference(self, part: str) -> Citation | None:
        """A document, or a page of one, if that is what is written."""
        if known := self._named(part):
            return Citation(known, _folded(part))
        page = _PAGE.search(part)
        name = part if page is None else part[: page.start()]
        if page is not None and (known := self._named(name)):
            first, last = int(page["first"]), int(page["last"] or page["first"])
            there = tuple(
                place for place in known if (page_of := self._hits[place].page) is None or first <= page_of <= last
            )
            return Citation(there, _folded(part))
        return Citation((), _folded(part)) if _REFERENCE.fullmatch(part) or _REFERENCE.fullmatch(name) else None

    def _named(self, name: str) -> tuple[int, ...]:
        return self._names.get(_folded(name), ()) if self._hits else ()

    @cached_property
    def _names(self) -> dict[str, tuple[int, ...]]:
        places: dict[str, list[int]] = {}
        for place, hit in enumerate(self._hits):
            last_part = _PATH_SEPARATOR.split(hit.document_id)[-1]
            names = (hit.chunk_id, hit.document_id, last_part, _EXTENSION.sub("", last_part))
            for name in filter(None, dict.fromkeys(map(_folded, names))):
                places.setdefault(name, []).append(place)
        return {name: tuple(found) for name, found in places.items()}


def without_code(text: str) -> str:
    """The text with its fenced blocks of code blank, as long as before; a block that is Markdown loses its fences."""
    if "```" not in text and "~~~" not in text:
        return text
    kept: list[str] = []
    done = 0
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = match
            kept += [text[done : match.start()], _blank(match)]
            done = match.end()
        elif match["fence"].startswith(opened["fence"]) and not match["info"].strip():
            kept += [_inside(text[done : match.start()], opened), _blank(match)]
            done, opened = match.end(), None
    kept.append(text[done:] if opened is None else _inside(text[done:], opened))
    return "".join(kept)


def _inside(block: str, opened: re.Match[str]) -> str:
    return block if opened["info"].strip().casefold() in _TEXT_FENCES else _NOT_BLANK.sub(" ", block)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()
