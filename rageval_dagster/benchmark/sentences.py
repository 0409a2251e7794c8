"""Prose in a chunk: its headings, and its complete sentences with the exact text they stand in."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rageval_dagster.benchmark.english import STOPWORDS
from rageval_dagster.benchmark.wording import word_count
from rageval_dagster.text import is_character, letter_share, segments, word_spans

MIN_CHARACTERS = 60
MIN_LETTER_SHARE = 0.65
MIN_FUNCTION_WORDS = 0.15
MIN_SENTENCE_WORDS = 5
MAX_SENTENCE_WORDS = 60
MAX_CASELESS_TITLE_WORDS = 8
"""A longer first line in a script without capitals is the first line of a paragraph."""

_FENCE = re.compile(r"^ {0,3}(?:```|~~~)(.*)$")
_UNDERLINE = re.compile(r"^\s*([*=\-~^#+\"'`])\1{2,}\s*$")
_MARKDOWN_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$")
_NOISE = re.compile(
    r"https?://|www\.|::|\||=>|->|>>>|\]\(|\]\[|<[a-z/!]|&[a-z]+;|\.{3,}|…|[{}\\]|(?:^|\s)[#>]\s|^\s*(?:\$|\[!|[-*•>]\s|\d+[.)]\s)|_{3,}|`_|\w=[\"']",
    re.IGNORECASE,
)
_END = (".", "!", "。", "！", "．", "।", "॥", "۔", "።", "။", "។")
_NO_TITLE_END = (*_END, "?", ",", ";", ":", "？", "，", "、", "：", "；", "؟", "،", "؛")
_NUMBERING = re.compile(
    r"\s*(?:(?i:chapter|section|part|appendix) "
    r"(?:\d{1,3}|[IVXLC]+|[A-Z]|(?i:one|two|three|four|five|six|seven|eight|nine|ten))[.:]? +"
    r"|\d{1,2}(?:\.\d{1,2})*\. +|\d{1,2}(?:\.\d{1,2})+ +)(?!\W*[a-z])"
)
"""A chapter's or section's number; before a word in lower case it is a part of the heading ("2.0 release notes")."""

_SITE_NAME = re.compile(r"\s(?:[|·»–—-]|::)\s")
_MANUAL_PAGE = re.compile(r"(?:#+ )?([\w.:+-]*[^\W\d][\w.:+-]*)\([1-9][a-z]{0,4}\)(?!\S)(?![^\n]*[.,:;!?]\s*(?:\n|\Z))")
_MANUAL_NAME = re.compile(
    r"(?:#+ )?(?i:name)[ \t]*\n(?:[-=]+[ \t]*\n)?\s*([\w.:+-]*[^\W\d][\w.:+-]*)(?:, [\w.:+, -]+?)? (?:--?|—|–) +\S"
)
"""How manual pages open, in lower case mostly: "git-config(1) Manual Page", or "NAME" and "git-config - Get options".
"""

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?:.*\n)*?---[ \t]*(?:\n|\Z)")
_LIST_ITEM = re.compile(r"( *)(?:[-*+•]|\d{1,3}[.)])[ \t]+\S")
_TABLE_ROW = re.compile(r"\s*\|.*\|\s*$|.*\S \| \S.* \| \S")
_FIELD = re.compile(r"\s*[A-Z][\w ()-]{1,30}:[ \t]+\S.{0,60}$")
"""A line such as "Default: null": it states a value, and no sentence goes on after it."""

_NO_BOUNDARY = re.compile(r"(?<![\w`])`(?![\s`])[^`\n]{1,100}(?<!\s)`(?![\w`])|(?<!\w)\.+(?=[\w/])")
"""Code spans, and the dots that a path or a file name starts with ("./src", ".npmrc"): no sentence ends there."""

_UNMARKED = re.compile("[\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u109f\u1780-\u17d3]")
"""Thai, Lao, Burmese and Khmer: spaces stand between clauses there, and often no mark ends a sentence."""
_CLAUSES = re.compile(r"(?<!\S)\S(?:.{0,98}\S)?(?!\S)", re.DOTALL)


@dataclass(frozen=True)
class Sentence:
    """One sentence: `quote` is the exact substring of the chunk, `text` the same with single spaces."""

    quote: str
    text: str
    heading: str | None
    previous: str | None


def words(text: str) -> list[str]:
    """Lower-cased words; a character each in scripts that put no spaces between words."""
    return [match.group().lower() for match in word_spans(text)]


def eligible(text: str) -> bool:
    """Whether a chunk has enough prose to ask about: some length, and mostly letters (no tables, code, badges)."""
    dense = re.sub(r"\s+", "", text)
    # A character of the scripts without spaces says as much as two or three letters.
    length = sum(2 if is_character(character) else 1 for character in dense)
    return length >= MIN_CHARACTERS and letter_share(dense) >= MIN_LETTER_SHARE


def is_english(text: str) -> bool:
    """Whether enough of the words are English function words (other languages: below a tenth)."""
    found = words(text)
    return bool(found) and sum(word in STOPWORDS for word in found) / len(found) >= MIN_FUNCTION_WORDS


def sentences(text: str, language: str | None = None) -> list[Sentence]:
    """The complete prose sentences of a chunk in order; headings, code, lists, tables and links are left out.

    Of scripts that do not mark the end of sentences, runs of clauses. `language` decides the abbreviations; without it
    they are English. Total: any text gives a list, perhaps an empty one.
    """
    found: list[Sentence] = []
    heading: str | None = None
    for number, block in enumerate(_blocks(_running_text(text))):
        title, body = _split_heading(block)
        heading = title or heading
        previous: str | None = None
        for quote in _pieces(body, language or "en"):
            sentence = " ".join(quote.split())
            # The first block may be the rest of a sentence.
            is_anew = _ends(previous) if previous else number > 0
            begins = not sentence[:1].islower() or (is_anew and _may_open_low(sentence, language))
            if begins and _is_prose(sentence) and quote in text:
                found.append(Sentence(quote, sentence, heading, previous))
            previous = sentence or previous
    return found


def without_number(heading: str) -> str:
    """A heading without the number of its chapter or section."""
    numbering = _NUMBERING.match(heading)
    return heading[numbering.end() :] if numbering else heading


def title(text: str) -> str | None:
    """The heading that a document opens with, without the name of its site; None where it opens with prose.

    Args:
        text: the beginning of a document.
    """
    manual = _MANUAL_PAGE.match(text.lstrip()) or _MANUAL_NAME.match(text.lstrip())
    if manual:
        return manual.group(1)
    # With its number it would look like the item of a list.
    for block in _blocks(_running_text(without_number(text))):
        heading, body = _split_heading(block)
        if heading:
            return _SITE_NAME.split(heading)[0].strip() or None
        if _ends(body):
            return None
    return None


def _pieces(body: str, language: str) -> Iterator[str]:
    start = 0
    # As long as what it stands for, since the pieces are told by their lengths.
    masked = _NO_BOUNDARY.sub(lambda match: "x" * len(match.group()), body)
    for piece in segments(masked, language):
        quote = body[start : start + len(piece)].strip()
        start += len(piece)
        if _UNMARKED.search(quote):
            yield from _CLAUSES.findall(quote)
        else:
            yield quote


def clean_heading(line: str) -> str:
    """A line as the heading that it may be: without markup."""
    line = line.strip()
    if " " not in line:
        line = line.replace("_", " ")  # as in the names of wiki pages
    return " ".join(re.sub(r"[*`#]+", "", line).split()).rstrip(":¶ ")


def _without_code(text: str) -> str:
    """The text with empty lines in place of fenced code; a chunk may start or end within it."""
    lines = text.split("\n")
    fences = [match.group(1).strip() for match in map(_FENCE.match, lines) if match]
    # A closing fence is bare: a bare one that has no partner closes what began before the chunk.
    in_code = len(fences) % 2 == 1 and not fences[0]
    kept: list[str] = []
    for line in lines:
        is_fence = _FENCE.match(line) is not None
        kept.append("" if in_code or is_fence else line)
        in_code = in_code != is_fence
    return "\n".join(kept)


def _running_text(text: str) -> str:
    """The text with empty lines in place of front matter, fenced code, list items, table rows and lines of fields.

    What a list item or a cell says is said of something that stands elsewhere: a column, the sentence above the list.
    """
    text = _FRONT_MATTER.sub(lambda match: "\n" * match.group().count("\n"), text)
    lines = _without_code(text).split("\n")
    kept: list[str] = []
    item_indent: int | None = None
    after_blank = False
    for number, line in enumerate(lines):
        item = _LIST_ITEM.match(line)
        if item:
            item_indent = len(item.group(1))
        elif line.strip() and after_blank and item_indent is not None and _indent(line) <= item_indent:
            item_indent = None
        after_blank = not line.strip()
        following = lines[number + 1] if number + 1 < len(lines) else ""
        left_out = item_indent is not None or _TABLE_ROW.match(line) or _is_field(line, following)
        kept.append("" if left_out else line)
    return "\n".join(kept)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_field(line: str, following: str) -> bool:
    ends = not following.strip() or _starts_anew(following) or _LIST_ITEM.match(following) is not None
    return ends and _FIELD.match(line) is not None and not line.rstrip().endswith(_NO_TITLE_END)


def _blocks(text: str) -> list[str]:
    return [block for block in re.split(r"\n[ \t]*\n", text) if block.strip()]


def _split_heading(block: str) -> tuple[str | None, str]:
    lines = block.strip("\n").split("\n")
    marked = _MARKDOWN_HEADING.match(lines[0].strip())
    if marked:
        return clean_heading(marked.group(1)), "\n".join(lines[1:])
    if len(lines) > 1 and _UNDERLINE.match(lines[1]):
        return clean_heading(lines[0]), "\n".join(lines[2:])
    if _looks_like_title(lines[0]) and (len(lines) == 1 or _starts_anew(lines[1])):
        return clean_heading(lines[0]), "\n".join(lines[1:])
    return None, block


def _starts_anew(line: str) -> bool:
    first = re.search(r"\w", line)
    return first is not None and first.group().isalnum() and not first.group().islower()


def _looks_like_title(line: str) -> bool:
    line = line.strip()
    return (
        0 < len(line) <= 80
        and len(line.split()) <= 10
        and (line[0].isupper() or line[0].isdigit() or _is_short_and_caseless(line))
        and not line.endswith(_NO_TITLE_END)
        and not _NOISE.search(line)
        and letter_share(line) >= MIN_LETTER_SHARE
    )


def _is_short_and_caseless(line: str) -> bool:
    has_case = line[0].lower() != line[0].upper()
    return line[0].isalpha() and not has_case and word_count(words(line)) <= MAX_CASELESS_TITLE_WORDS


def _is_prose(sentence: str) -> bool:
    return (
        MIN_SENTENCE_WORDS <= word_count(words(sentence)) <= MAX_SENTENCE_WORDS
        and (_ends(sentence) or _UNMARKED.search(sentence) is not None)
        and _is_whole(sentence)
        and not _NOISE.search(sentence)
        and letter_share(sentence) >= MIN_LETTER_SHARE
    )


def _ends(sentence: str | None) -> bool:
    return sentence is not None and sentence.rstrip("\"'”’“»」』）)` ").endswith(_END)


def _may_open_low(sentence: str, language: str | None) -> bool:
    """Whether an English sentence may begin with a name in lower case ("npm reads it"): with a function word, it
    would be the rest of another one."""
    return language == "en" and words(sentence)[0] not in STOPWORDS


def _is_whole(sentence: str) -> bool:
    """Whether code spans and brackets are closed where they open, so that the sentence is no torn piece."""
    return sentence.count("`") % 2 == 0 and all(sentence.count(a) == sentence.count(b) for a, b in ("()", "[]"))
