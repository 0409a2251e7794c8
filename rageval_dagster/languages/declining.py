"""Whether an answer declines, in any of the languages that are known well."""

import re
from collections.abc import Sequence
from functools import lru_cache

from rageval_dagster.identity import digest_json
from rageval_dagster.languages.known import LANGUAGES
from rageval_dagster.text import is_character, normalised

OPENING = 300
"""Characters within which a declining answer declines: what comes later is a caveat to an answer."""

GAP = 80
"""Characters that may stand in the gap of a phrase."""

_REGRETS = re.compile(
    r",? ?\b(?:sorry|unfortunately|currently|leider|bedauerlicherweise|derzeit|malheureusement|désolée?|lamentablemente"
    r"|desafortunadamente|purtroppo|mi dispiace|helaas|infelizmente|lamentavelmente|niestety)\b,?"
)
"""What may stand anywhere in a phrase."""

_CITATION = re.compile(r"\[[^\[\]]{1,200}\](?!\()|\(source:", re.IGNORECASE)
_SOURCE_LINE = re.compile(r"^[^\w\n]*(?:[^\W\d_]+ ?[:：]\s*)?\[[^\[\]\n]{1,200}\](?!\().*$", re.MULTILINE)


def is_decline(text: str, extra_phrases: Sequence[str] = ()) -> bool:
    """Whether an answer declines to answer, whatever the language it does so in.

    It does if one of `extra_phrases`, the words that its own system declines with, stands anywhere in it; or if one
    of the phrases known of any language stands within its first `OPENING` characters and no sentence cites a source.
    An answer that says what one source states and what the others leave open cites that one, and is an answer. This
    holds for systems of any make, because many add a list of all they have read to whatever they say: lines that
    begin with a citation (`[1] handbook.pdf`, `Sources: [1], [2]`) are that list and do not count as citing, and
    neither do citations given apart from the text.

    Phrases match as whole words, whatever their case, white space and kind of apostrophe; `…` in a phrase stands for
    up to `GAP` characters of the same sentence.
    """
    whole = plain(text)
    if any(_stands_in(phrase, whole) for phrase in map(plain, extra_phrases)):
        return True
    opening = _REGRETS.sub("", whole[:OPENING])
    known = any(_stands_in(phrase, opening) for first, phrase in _by_first_part() if first in opening)
    return known and not _CITATION.search(_SOURCE_LINE.sub("", text))


def declines_version(extra_phrases: Sequence[str] = ()) -> str:
    """64 hex digits over the phrases by which `is_decline` tells: other ones, other answers that decline."""
    return digest_json([OPENING, GAP, list(_known_declines()), list(extra_phrases)])


@lru_cache(maxsize=1)
def _known_declines() -> tuple[str, ...]:
    return tuple(plain(phrase) for language in LANGUAGES.values() for phrase in language.declines)


@lru_cache(maxsize=1)
def _by_first_part() -> tuple[tuple[str, str], ...]:
    """Each phrase after what stands before its gap: nearly all of them are ruled out by that alone."""
    return tuple((phrase.split(" … ")[0], phrase) for phrase in _known_declines())


def _stands_in(phrase: str, text: str) -> bool:
    # Nearly all phrases end here, without a pattern.
    parts = phrase.split(" … ")
    return phrase != "" and all(part in text for part in parts) and _whole_words(phrase).search(text) is not None


@lru_cache(maxsize=1024)
def _whole_words(phrase: str) -> re.Pattern[str]:
    """No word goes on at the ends of its parts, but in scripts that put no spaces between words."""
    parts = []
    for part in phrase.split(" … "):
        before = r"(?<!\w)" if part[0].isalnum() and not is_character(part[0]) else ""
        after = r"(?!\w)" if part[-1].isalnum() and not is_character(part[-1]) else ""
        parts.append(f"{before}{re.escape(part)}{after}")
    return re.compile(rf"[^.!?。！？]{{0,{GAP}}}?".join(parts))


def plain(text: str) -> str:
    """The text case-folded, with single spaces and straight apostrophes, as phrases are compared."""
    return " ".join(normalised(text).casefold().replace("’", "'").split())
