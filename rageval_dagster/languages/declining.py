"""Whether an answer declines, in any of the languages that are known well."""

import re
from collections.abc import Sequence
from functools import lru_cache

from rageval_dagster.identity import digest_json
from rageval_dagster.languages.profiles import LANGUAGES
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

_EDGES = " .,;:!…。！*_\"'“”„()-–—"

_CITATION = re.compile(r"\[[^\[\]]{1,200}\](?!\()|\(source:", re.IGNORECASE)
_SOURCE_LINE = re.compile(r"^[^\w\n]*(?:[^\W\d_]+ ?[:：]\s*)?\[[^\[\]\n]{1,200}\](?!\().*$", re.MULTILINE)

_WHOLE = re.compile(
    r"n/a|unknown|unspecified|not (?:mentioned|stated|specified|available)"
    r"|unbekannt|nicht (?:bekannt|angegeben|erwähnt|genannt)|inconnue?|non (?:précisé|mentionné)e?"
    r"|desconocid[oa]|no (?:especificad|mencionad)[oa]|sconosciut[oa]|non specificat[oa]|onbekend|niet vermeld"
    r"|desconhecid[oa]|não (?:especificad|mencionad|informad)[oa]|brak danych|不明(?:です)?|未知|不详|不詳"
)
"""What declines where an answer says nothing else."""

_SOURCE = (
    r"(?:(?:the|these|this) )?(?:(?:provided|given|available|retrieved|supplied) )?"
    r"(?:context|document|passage|text|source|material|excerpt)s?(?: provided)?"
)
_QUELLE = (
    r"(?:(?:d(?:ie|er|en|em|as)|diese[rnms]?) )?"
    r"(?:(?:vorliegend|bereitgestellt|gegeben|angegeben|verfügbar|vorhanden)e[nrms]? )?"
    r"(?:kontexte?[ns]?|dokument(?:e[ns]?)?|unterlagen|texte?[ns]?|quellen?|passagen?|auszüge?n?)"
)
_KEINE = r"\bkeine (?:\w+en )?(?:angaben?|informationen)\b"
_START = re.compile(
    rf"\W*(?:(?:i'm|i am|we're|we are) )?(?:but )?(?:(?:based on|according to|in) {_SOURCE}, )?(?:"
    rf"{_SOURCE} (?:do|does|did)(?: not|n't)(?: explicitly)? (?:mention|say|specify|state)\b"
    r"|there (?:is|was) no mention (?:of|about)\b"
    r"|(?:there (?:is|was) )?no information(?: is| was)? (?:available|found)"
    rf"(?: (?:on|about|regarding) [^.!?]*| in {_SOURCE})?(?:[.!]|$)"
    rf"|(?:(?:it|this|that)(?: is|'s) )?not (?:mentioned|stated|specified|provided|given|found) (?:in|by) {_SOURCE}\b"
    r"|(?:ich (?:finde|habe)|(?:(?:da|hier)zu )?(?:finde|habe) ich|(?:dazu|hierzu) (?:gibt es|liegen))"
    rf" (?:[^.!?,]{{0,{GAP}}} )?{_KEINE}"
    rf"|(?:zu [^.!?,]{{1,{GAP}}} )?(?:{_QUELLE} (?:enthalten|enthält|machen|macht)"
    rf"|(?:enthalten|enthält|machen|macht) {_QUELLE}) (?:(?:dazu|hierzu|darüber) )?{_KEINE}"
    rf"|(?:aus|in|im) {_QUELLE} (?:geht|wird|ist) (?:[^.!?,]{{0,{GAP}}} )?nicht (?:hervor|erwähnt|genannt|angegeben)\b"
    rf"|keine angaben?(?: (?:dazu|hierzu|darüber))?(?: (?:vorhanden|verfügbar))?(?: in {_QUELLE})?(?:[.!]|$)"
    r")(?![^.!?]*, (?:so|hence|therefore|thus|daher|deshalb|also|sodass|weshalb)\b)"
)
"""How answers begin that decline, in English and German; not one that concludes something from what is not said."""


def is_decline(text: str, extra_phrases: Sequence[str] = ()) -> bool:
    """Whether an answer declines to answer, whatever the language it does so in.

    It does if one of `extra_phrases`, the words that its own system declines with, stands anywhere in it; or if one
    of the phrases known of any language stands within its first `OPENING` characters, or it begins as those who
    decline do, or says nothing but "unknown" or "n/a" in one of them; and no sentence cites a source.
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
    own_words = _SOURCE_LINE.sub("", text)
    known = (
        any(_stands_in(phrase, opening) for first, phrase in _by_first_part() if first in opening)
        or _START.match(opening) is not None
        or _WHOLE.fullmatch(_REGRETS.sub("", plain(own_words[:OPENING])).strip(_EDGES)) is not None
    )
    return known and not _CITATION.search(own_words)


def declines_version(extra_phrases: Sequence[str] = ()) -> str:
    """64 hex digits over the phrases by which `is_decline` tells: other ones, other answers that decline."""
    return digest_json([OPENING, GAP, _START.pattern, _WHOLE.pattern, list(_known_declines()), list(extra_phrases)])


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
