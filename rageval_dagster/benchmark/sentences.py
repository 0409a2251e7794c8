"""Prose in a chunk: headings, complete sentences with the exact text they stand in, and whether there is prose at all."""

import re
from dataclasses import dataclass

from rageval_dagster.benchmark.english import STOPWORDS

MIN_CHARACTERS = 60
MIN_LETTER_SHARE = 0.65
MIN_SENTENCE_WORDS = 5
MAX_SENTENCE_WORDS = 60

_FENCE = re.compile(r"^ {0,3}(```|~~~).*?(^ {0,3}\1|\Z)", re.DOTALL | re.MULTILINE)
_UNDERLINE = re.compile(r"^\s*([*=\-~^#+\"'`])\1{2,}\s*$")
_MARKDOWN_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$")
_NOISE = re.compile(
    r"https?://|www\.|::|\||=>|->|>>>|\]\(|\]\[|<[a-z/!]|&[a-z]+;|\.{3,}|…|[{}\\]|^\s*(?:\$|\[!|[-*•>]\s|\d+[.)]\s)|_{3,}",
    re.IGNORECASE,
)
_END = (".", "!", "。", "！", "．", "।", "۔")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True)
class Sentence:
    """One sentence: `quote` is the exact substring of the chunk, `text` the same with single spaces."""

    quote: str
    text: str
    heading: str | None
    previous: str | None


def words(text: str) -> list[str]:
    """Lower-cased words; each CJK character counts as one."""
    found: list[str] = []
    for word in _WORD.findall(text):
        if _CJK.search(word):
            found.extend(word.lower())
        else:
            found.append(word.lower())
    return found


def eligible(text: str) -> bool:
    """Whether a chunk has enough prose to ask about: some length, and mostly letters (no tables, code, badges)."""
    dense = re.sub(r"\s+", "", text)
    length = len(dense) * (2 if _CJK.search(dense) else 1)
    return length >= MIN_CHARACTERS and _letter_share(dense) >= MIN_LETTER_SHARE


def is_english(text: str) -> bool:
    """Whether at least a quarter of the words are English function words (other languages: below a tenth)."""
    found = words(text)
    return bool(found) and sum(word in STOPWORDS for word in found) / len(found) >= 0.25


def sentences(text: str) -> list[Sentence]:
    """The complete prose sentences of a chunk in order; headings, code, lists, tables and links are left out.

    Total: any text gives a list, perhaps an empty one.
    """
    found: list[Sentence] = []
    heading: str | None = None
    for block in _blocks(_FENCE.sub(lambda match: "\n" * match.group().count("\n"), _encodable(text))):
        title, body = _split_heading(block)
        heading = title or heading
        previous: str | None = None
        for segment in _segments(body):
            quote = segment.strip()
            sentence = " ".join(quote.split())
            if _is_prose(sentence) and quote in text:
                found.append(Sentence(quote, sentence, heading, previous))
            previous = sentence or previous
    return found


def clean_heading(line: str) -> str:
    return " ".join(re.sub(r"[*`#]+", "", line).split()).rstrip(":¶ ")


def _encodable(text: str) -> str:
    # The segmenter takes UTF-8: a lone surrogate, as broken PDF extraction leaves them, would stop it.
    return re.sub(r"[\ud800-\udfff]", "\n\n", text)


def _blocks(text: str) -> list[str]:
    return [block for block in re.split(r"\n[ \t]*\n", text) if block.strip()]


def _split_heading(block: str) -> tuple[str | None, str]:
    lines = block.strip("\n").split("\n")
    marked = _MARKDOWN_HEADING.match(lines[0].strip())
    if marked:
        return clean_heading(marked.group(1)), "\n".join(lines[1:])
    if len(lines) > 1 and _UNDERLINE.match(lines[1]):
        return clean_heading(lines[0]), "\n".join(lines[2:])
    if _looks_like_title(lines[0]) and (len(lines) == 1 or re.match(r"\W*[A-Z0-9]", lines[1])):
        return clean_heading(lines[0]), "\n".join(lines[1:])
    return None, block


def _looks_like_title(line: str) -> bool:
    line = line.strip()
    return (
        0 < len(line) <= 80
        and len(line.split()) <= 10
        and line[0].isupper() | line[0].isdigit()
        and not line.endswith((".", "!", "?", ",", ";", ":", "。"))
        and not _NOISE.search(line)
        and _letter_share(line.replace(" ", "")) >= MIN_LETTER_SHARE
    )


def _segments(body: str) -> list[str]:
    from sentencex import segment

    return list(segment("en", body))


def _is_prose(sentence: str) -> bool:
    count = len(words(sentence))
    return (
        MIN_SENTENCE_WORDS <= count <= MAX_SENTENCE_WORDS
        and sentence.rstrip("\"'”’)` ").endswith(_END)
        and not sentence[0].islower()
        and not _NOISE.search(sentence)
        and _letter_share(sentence.replace(" ", "")) >= MIN_LETTER_SHARE
    )


def _letter_share(dense: str) -> float:
    return sum(character.isalpha() for character in dense) / max(len(dense), 1)
