"""The languages that are known well: their stop words, and what people and models say in them who decline."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Language:
    """What is known of one language, its words case-folded.

    `stop_words` are no keywords; a sentence that starts with one of `hanging` says little without the one before it;
    `declines` are phrases of who declines to answer (`…` stands for other words).
    """

    stop_words: frozenset[str]
    hanging: tuple[str, ...]
    declines: tuple[str, ...]


def _language(stop_words: str, hanging: str, declines: str) -> Language:
    phrases = (phrase.strip() for phrase in declines.replace("\n", "|").split("|"))
    return Language(
        frozenset(stop_words.casefold().split()), tuple(hanging.casefold().split()), tuple(filter(None, phrases))
    )


_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
NAMES: Mapping[str, str] = _WORDS.pop("names")
"""English names by ISO 639-1 code."""
LANGUAGES: Mapping[str, Language] = {code: _language(**words) for code, words in _WORDS.items()}
"""By ISO 639-1 code. Chinese and Japanese have no stop words: there are no spaces to find words by."""
