"""What is wrong with a passage as text: what its extraction spoilt, and lines that stand in many others too."""

import re
from array import array
from collections import Counter
from math import ceil

from rageval_dagster.text import is_character

LOOKED_AT = 20_000
"""Characters of a passage that are looked at: a megabyte in one chunk says no more than its beginning."""

MIN_REPEATS = 5
MIN_REPEATING_SHARE = 1 / 500
"""A line is repeated if at least so many passages, and so large a share of them, hold it."""

_MOSTLY = 0.5
_LONE_SHARE = 0.4
_MIN_WORDS = 10
_MIN_LINE = 12
_SHORT_LINE = 40

# UTF-8 read as Latin-1 or Windows-1252, characters that could not be read at all, and those of a PDF's own fonts.
_UNREADABLE = re.compile(
    r"[ÃÂÐÑ][\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|â€|ï¿½|\ufffd|[\ue000-\uf8ff]|\(cid:\d+\)|[\x00-\x08\x0e-\x1f]"
)
_LIGATURE = re.compile(r"[\ufb00-\ufb06]")
# "Vor- und Nachteile" is no broken word.
_BROKEN_WORD = re.compile(r"[^\W\d_]{2,}-\s+(?!(?:und|oder|bzw|bis|and|or|to|en|of|et|ou|y|o|e)\b)[^\W\d_]{2,}")
_PIECE_END = re.compile(r"[\r\n]+|(?<=[.!?])\s+")
_DIGITS = re.compile(r"\d+")


def noise_kinds(text: str) -> list[str]:
    """What a passage suffers from, of: unreadable characters, ligatures, broken words, lone letters, few letters."""
    text = text[:LOOKED_AT]
    words = text.split()
    solid = sum(map(len, words))
    lone = sum(len(word) == 1 and word.isalpha() and not is_character(word) for word in words)
    found = {
        "unreadable characters": len(_UNREADABLE.findall(text)) >= 2 or "\ufffd" in text,
        "ligatures": _LIGATURE.search(text) is not None,
        "broken words": len(_BROKEN_WORD.findall(text)) >= max(2, len(words) / 100),
        "lone letters": len(words) >= _MIN_WORDS and lone > _LONE_SHARE * len(words),
        "few letters": solid >= 2 * _MIN_WORDS and sum(map(str.isalpha, text)) < _MOSTLY * solid,
    }
    return [kind for kind, present in found.items() if present]


class RepeatedLines:
    """Finds passages that mostly consist of lines (or sentences) standing in many passages: headers, banners, menus.

    Texts are not kept, only a number for each line.
    """

    def __init__(self) -> None:
        self._frequency: Counter[int] = Counter()
        self._passages: dict[str, tuple[array[int], array[int], int]] = {}

    def add(self, passage_id: str, text: str) -> None:
        pieces = [" ".join(piece.split()) for piece in _PIECE_END.split(text[:LOOKED_AT])]
        lines = {_line_number(piece): len(piece) for piece in pieces if len(piece) >= _MIN_LINE}
        self._frequency.update(lines.keys())
        self._passages[passage_id] = array("q", lines.keys()), array("q", lines.values()), sum(map(len, pieces))

    def mostly_repeated(self) -> list[str]:
        """The ids of the passages of which at least half are repeated lines."""
        often = max(MIN_REPEATS, ceil(MIN_REPEATING_SHARE * len(self._passages)))
        return [
            passage_id
            for passage_id, (lines, lengths, total) in self._passages.items()
            if sum(length for line, length in zip(lines, lengths, strict=True) if self._frequency[line] >= often)
            >= max(_MOSTLY * total, 1)
        ]


def _line_number(line: str) -> int:
    """Equal for lines that differ only in case, and short ones (page 3 of 17) in their numbers."""
    return hash(_DIGITS.sub("0", line.casefold()) if len(line) <= _SHORT_LINE else line.casefold())
