"""How text is cut: sentences by a real segmenter, and words in any script."""

import itertools
import math
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal

# Scripts without spaces between words, and Hangul, whose words carry their particles: in them a character is a token,
# as in the evaluation scripts of the Chinese, Japanese and Korean question answering sets.
CHARACTER_SCRIPTS = (
    "\u0e01-\u0e4e\u0e81-\u0ece"  # Thai, Lao
    "\u1000-\u103f\u1050-\u108f\u109a-\u109f\u1780-\u17d3"  # Myanmar, Khmer
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff\uffa0-\uffdc"  # Hangul
    "\u3005-\u3007\u3021-\u3029\u3041-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\uff66-\uff9f"  # kana, bopomofo
    "\u2e80-\u2fd5\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)

WORD_STARTS = rf"(?<!(?![{CHARACTER_SCRIPTS}])\w)"
WORD_ENDS = rf"(?!(?![{CHARACTER_SCRIPTS}])\w)"
"""For regular expressions: no word goes on here, but in scripts that put no spaces between words."""

_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
_CITATION = re.compile(r"\[[^\[\]]{1,200}\]")
_BEYOND_LATIN = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]")
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
_BLOCK = 2_000
"""Characters given to the segmenter at once: on a megabyte of unclosed quotes it takes minutes (quadratic)."""

_BEFORE_DIGIT = re.compile(r"(?<=[。！？])(?=\d)")
"""The segmenter takes a digit after these marks for the rest of a number; only the ASCII full stop is within one."""

_PILE = re.compile(r"[^\w\s]{64}")
"""So many characters in a row that are no letters may be marks piled up on one: Unicode's own limit is 30."""

_WORD_CHARACTER = re.compile(r"[^\W_]")

TURNS_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that make others be shown in another order than they stand."""

_LINE_BREAK = re.compile("[\t-\r\x85\u2028\u2029]")
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def normalised(text: str, form: Literal["NFC", "NFKC", "NFD", "NFKD"] = "NFC") -> str:
    """The text in a Unicode normal form, in linear time also where marks are piled up without end.

    Such piles are cut, as in the Stream-Safe Text Format of Unicode's Annex 15: sorting a whole one is quadratic.
    """
    if text.isascii():
        return text
    cuts = [0, *(match.end() for match in _PILE.finditer(text)), len(text)]
    return "".join(unicodedata.normalize(form, text[start:end]) for start, end in itertools.pairwise(cuts))


def sentences(text: str, language: str = "en") -> list[str]:
    """The sentences of a text, without those that hold only marks and citations; the text itself if none is left.

    Full stops of CJK and Indic scripts end a sentence in every language; `language` decides the abbreviations.
    """
    found = [sentence.strip() for sentence in segments(text, language)]
    return [sentence for sentence in found if says_something(sentence)] or ([text.strip()] if text.strip() else [])


def segments(text: str, language: str = "en") -> Iterator[str]:
    """The segmenter's pieces with their white space: joined, they are as long as the text, character by character.

    Long texts go through it block by block, a block's last piece again with the next.
    """
    from sentencex import segment  # pyright: ignore[reportAttributeAccessIssue]

    # The segmenter takes UTF-8, so no lone surrogates, and crashes on spaces of more than one byte after an initial.
    if not text.isascii():
        text = _WIDE_SPACE.sub(" ", text).encode("utf-8", "replace").decode("utf-8")
    start = 0
    while start < len(text):
        block = text[start : start + _BLOCK]
        pieces = segment(language, block)
        if start + _BLOCK < len(text) and len(pieces) > 1:
            pieces = pieces[:-1]
        for piece in pieces:
            yield from _BEFORE_DIGIT.split(piece)
        start += sum(map(len, pieces))


def says_something(sentence: str) -> bool:
    """Whether a text holds more than marks and what stands in square brackets."""
    return _WORD_CHARACTER.search(sentence if "[" not in sentence else _CITATION.sub("", sentence)) is not None


def showable(text: str) -> str:
    """The text on one line, without anything that a terminal obeys or that is shown elsewhere than it stands."""
    return TURNS_DIRECTION.sub("?", CONTROL.sub("?", _LINE_BREAK.sub(" ", text)))


def normalise_whitespace(text: str) -> str:
    """Every run of white space as one blank, none at the ends: how quotes and chunks are compared."""
    return " ".join(text.split())


def finite_number(text: str) -> float | None:
    """The number that a text is; None where it is none, or no finite one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def plural(count: int, noun: str) -> str:
    """`1 question`, `2,000 questions`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def named(names: Sequence[str], most: int = 10) -> str:
    """The first of several names, showable, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(showable, names[:most])) + more


def word_spans(text: str) -> Iterator[re.Match[str]]:
    """The words of a text; each character (with its marks) is a word in scripts that put no spaces between words."""
    return (_ASCII_WORD if text.isascii() else _word_pattern()).finditer(text)


def separate_characters(text: str) -> str:
    """The text with spaces around each character of the scripts that put no spaces between words."""
    return text if text.isascii() else " ".join(_captured_character().split(text))


def is_character(word: str) -> bool:
    """Whether a word is one character of a script that puts no spaces between words."""
    return not word.isascii() and _character_pattern().match(word) is not None


def character_pairs(words: Iterable[re.Match[str]]) -> set[tuple[str, ...]]:
    """Neighbouring characters of scripts without spaces, two by two; one that stands alone is its own keyword."""
    found: set[tuple[str, ...]] = set()
    previous, end, paired = "", -1, True
    for match in words:
        character = match.group() if is_character(match.group()) else ""
        if previous and character and match.start() == end:
            found.add((previous, character))
            paired = True
        else:
            if not paired:
                found.add((previous,))
            paired = not character
        previous, end = character, match.end()
    if not paired:
        found.add((previous,))
    return found


def is_latin(text: str) -> bool:
    """Whether a text has no letters but Latin ones."""
    return text.isascii() or _BEYOND_LATIN.search(text) is None


def letter_share(text: str) -> float:
    """The share of letters, with their marks, among the characters that are not blank; 0 where there are none."""
    dense = "".join(text.split())
    return sum(character.isalpha() or is_mark(character) for character in dense) / max(len(dense), 1)


def is_mark(character: str) -> bool:
    """Whether a character belongs to the letter before it; the vowels of many scripts do."""
    return not character.isascii() and unicodedata.category(character)[0] == "M"


@lru_cache(maxsize=1)
def _word_pattern() -> re.Pattern[str]:
    """A word: a character of the scripts without spaces, or a run of letters and digits of the others, with marks."""
    marks = _marks()
    return re.compile(rf"{_character_pattern().pattern}|(?:(?![{CHARACTER_SCRIPTS}])[^\W_][{marks}]*)+")


@lru_cache(maxsize=1)
def _character_pattern() -> re.Pattern[str]:
    return re.compile(rf"(?=[^\W\d_])[{CHARACTER_SCRIPTS}][{_marks()}]*")


@lru_cache(maxsize=1)
def _captured_character() -> re.Pattern[str]:
    return re.compile(f"({_character_pattern().pattern})")


@lru_cache(maxsize=1)
def _marks() -> str:
    """All combining marks and joiners, as the inside of a character class: `\\w` does not hold them."""
    ranges: list[list[int]] = []
    for code in (code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M"):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "\u200c\u200d" + "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def json_kind(value: object) -> str:
    """What a JSON value is, in words, for errors that must not show it."""
    kinds: dict[type, str] = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }
    return kinds.get(type(value)) or f"of the type {type(value).__name__}"
