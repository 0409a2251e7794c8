"""Which language a text is in, and how its sentences end and which of its words say nothing there."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from rageval_dagster import text as text_rules
from rageval_dagster.languages.profiles import LANGUAGES, Questions
from rageval_dagster.text import CHARACTER_SCRIPTS, is_character

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

MIN_LETTERS = 20
"""A text of fewer letters has no language; one of the scripts without spaces counts as three."""
MIN_LETTER_SHARE = 0.6
MAX_CODE_SHARE = 0.06
"""Marks of code a character that is not blank: 9 in 10 pieces of source code have more, hardly any prose has."""
MIN_PROBABILITY = 0.5
READ = 4_000
"""Characters that are read of a text."""

OPENING_WORDS = 4
"""A pronoun after these may stand for something before it in its sentence."""

UNKNOWN = ""

_CHARACTER = re.compile(f"[{CHARACTER_SCRIPTS}]")
_CODE = re.compile(r"[{}\[\]<>=_|\\@^$+]|\w\(|\w\.[a-z]|;$", re.MULTILINE)
_VARIETIES = {"wuu": "zh", "yue": "zh", "arz": "ar", "ary": "ar", "nn": "no"}
"""Labels of the identifier that are varieties of a language written alike."""


@lru_cache(maxsize=4096)
def detect(text: str) -> str | None:
    """The language of a text as its two letters (ISO 639-1); None where there is too little of it to tell.

    Code, tables, lists of numbers and noise have none. The same text always gives the same.
    """
    text = text[:READ]
    if not _is_prose(text):
        return None
    probabilities: Counter[str] = Counter()
    for label, probability in _identifier().rank(text):
        probabilities[_VARIETIES.get(label, label)] += probability  # pyright: ignore[reportArgumentType]
    (label, probability), *_ = probabilities.most_common(1)
    # Labels of three letters are languages without a code of two, or none at all (`zxx`).
    return label if probability >= MIN_PROBABILITY and len(label) == 2 else None


def language_shares(texts: Iterable[str], language: str | None = None) -> dict[str, float]:
    """The share of the texts in each language, the largest first; `UNKNOWN` stands for those without one.

    A `language` that is given holds for all of them.
    """
    counts = Counter(language or detect(text) or UNKNOWN for text in texts)
    shares = {found: count / counts.total() for found, count in counts.items()}
    return dict(sorted(shares.items(), key=lambda share: (-share[1], share[0])))


def sentences(text: str, language: str | None = None) -> list[str]:
    """As `text.sentences`, by the rules of the language given or detected; of English where there is none."""
    return text_rules.sentences(text, language or detect(text) or "en")


def stop_words(language: str | None) -> frozenset[str]:
    """The words of a language that are no keywords, case-folded; those of English where none are known.

    English ones do no harm elsewhere, and a short English text may not be known as such.
    """
    return LANGUAGES.get(language or "en", LANGUAGES["en"]).stop_words


def hangs(sentence: str, language: str | None, below: bool = False) -> bool:
    """Whether a sentence points back at another one, as far as the language's words tell.

    Args:
        below: it is the first below its heading, which "this" and "it" stand for; only "above" points elsewhere.
    """
    known = LANGUAGES.get(language or "")
    if known is None:
        return False
    folded = sentence.casefold()
    words = [match.group() for match in text_rules.word_spans(folded)]
    if not words:
        return False
    if below:
        elsewhere = known.pointing - known.hanging
        return any(word in folded if is_character(word) else word in words for word in elsewhere)
    if is_character(words[0]):  # without spaces a word is where it stands
        return folded.startswith(tuple(known.hanging)) or any(word in folded for word in known.pointing)
    return (
        words[0] in known.hanging
        or not known.pronouns.isdisjoint(words[:OPENING_WORDS])
        or not known.pointing.isdisjoint(words)
    )


def pronouns(language: str | None) -> frozenset[str]:
    """The words, case-folded, that open a sentence and stand for what was told of before: "it", "this"."""
    known = LANGUAGES.get(language or "")
    return known.hanging & (known.pronouns | known.pointing) if known else frozenset()


def asked_articles(language: str | None) -> Mapping[str, str]:
    """The articles of a subject, each as it stands in the fixed questions of a language."""
    known = LANGUAGES.get(language or "")
    return known.asked_articles if known else {}


def articles(language: str | None) -> frozenset[str]:
    """The words that nouns stand behind, case-folded; none where the language has none, or is not known well."""
    known = LANGUAGES.get(language or "")
    return known.articles if known else frozenset()


def leading(language: str | None) -> frozenset[str]:
    """Prepositions and the like that nouns stand behind, case-folded; none where the language is not known well, or
    tells its nouns by capitals."""
    known = LANGUAGES.get(language or "")
    return known.leading if known else frozenset()


def verbs(language: str | None) -> frozenset[str]:
    """Finite verbs, case-folded, that many sentences have behind what they say something of; none where the language
    is not known well."""
    known = LANGUAGES.get(language or "")
    return known.verbs if known else frozenset()


def fixed_questions(language: str | None) -> Questions | None:
    """The fixed sentences that ask a question; None where the language is not known well."""
    known = LANGUAGES.get(language or "")
    return known.questions if known else None


def _is_prose(text: str) -> bool:
    letters = sum(map(str.isalpha, text)) + 2 * len(_CHARACTER.findall(text))
    return (
        letters >= MIN_LETTERS
        and text_rules.letter_share(text) >= MIN_LETTER_SHARE
        and len(_CODE.findall(text)) <= MAX_CODE_SHARE * len("".join(text.split()))
    )


@lru_cache(maxsize=1)
def _identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
