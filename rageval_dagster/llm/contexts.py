"""Contexts as prompts show them: numbered and fenced, as many as fit a number of (estimated) tokens."""

import re
import string
from bisect import bisect_right
from collections.abc import Sequence

from rageval_dagster.llm.prompts import fenced
from rageval_dagster.text import is_character, segments

_TAG = "context"
_LAST_WORD = re.compile(r"(?<=\s)\S+\Z")
_LETTERS = (string.ascii_letters + string.whitespace).encode()
_ASCII = bytes(range(128))


def numbered_contexts(contexts: Sequence[str], most_tokens: int) -> str:
    """The contexts in their order, numbered from 1, until (about) so many tokens are used.

    The one that does not fit any more is cut, see `cut_to`; those after it are left out. Empty where there is none.
    """
    shown: list[str] = []
    room = most_tokens
    for number, text in enumerate(contexts, start=1):
        whole = fenced(_TAG, text, number)
        needed = estimated_tokens(f"{whole}\n\n")
        if needed > room:
            rest = cut_to(text, room - estimated_tokens(f"{fenced(_TAG, '', number)}\n\n"))
            if rest:
                shown.append(fenced(_TAG, rest, number))
            break
        shown.append(whole)
        room -= needed
    return "\n\n".join(shown)


def cut_to(text: str, most_tokens: int) -> str:
    """The beginning of a text, of at most so many estimated tokens.

    It ends where a sentence does, or where that would lose half of it, a word; empty if nothing fits.
    """
    if estimated_tokens(text) <= most_tokens:
        return text
    beginning = text[: 4 * max(most_tokens, 0) + 1]
    lengths = range(len(beginning) + 1)
    fitting = bisect_right(lengths, most_tokens, key=lambda length: estimated_tokens(beginning[:length])) - 1
    if fitting <= 0:
        return ""
    end = 0
    for piece in segments(beginning):
        if end + len(piece.rstrip()) > fitting:
            break
        end += len(piece)
    if end < fitting / 2:
        cut = beginning[:fitting]
        goes_on = fitting < len(beginning) and not beginning[fitting].isspace() and not is_character(beginning[fitting])
        return (_LAST_WORD.sub("", cut) if goes_on else cut).rstrip()
    return beginning[:end].rstrip()


def estimated_tokens(text: str) -> int:
    """About the tokens of a text: one for 4 letters or spaces of ASCII, 2 of its other characters, 3 bytes of UTF-8.

    So a Chinese character is a token, two Cyrillic or Arabic letters are a little more than one, and tables of numbers
    have more than prose of the same length. A model that knows only English needs more for other languages.
    """
    data = text.encode("utf-8", "surrogatepass")
    marks_and_others = len(data.translate(None, _LETTERS))
    others = len(data.translate(None, _ASCII))
    letters, marks = len(data) - marks_and_others, marks_and_others - others
    return -(-(3 * letters + 6 * marks + 4 * others) // 12)
