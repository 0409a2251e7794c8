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
LANGUAGES: Mapping[str, Language] = {code: _language(**words) for code, words in _WORDS.items()}
"""By ISO 639-1 code. Chinese and Japanese have no stop words: there are no spaces to find words by."""

_NAMES = """
af Afrikaans|am Amharic|ar Arabic|as Assamese|az Azerbaijani|be Belarusian|bg Bulgarian|bn Bengali|bs Bosnian
ca Catalan|cs Czech|cy Welsh|da Danish|de German|el Greek|en English|eo Esperanto|es Spanish|et Estonian
eu Basque|fa Persian|fi Finnish|fr French|ga Irish|gl Galician|gu Gujarati|ha Hausa|he Hebrew|hi Hindi
hr Croatian|hu Hungarian|hy Armenian|id Indonesian|is Icelandic|it Italian|ja Japanese|ka Georgian|kk Kazakh
km Khmer|kn Kannada|ko Korean|ku Kurdish|la Latin|lb Luxembourgish|lo Lao|lt Lithuanian|lv Latvian|mk Macedonian
ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese|my Burmese|ne Nepali|nl Dutch|no Norwegian|or Odia
pa Punjabi|pl Polish|ps Pashto|pt Portuguese|ro Romanian|ru Russian|si Sinhala|sk Slovak|sl Slovenian|so Somali
sq Albanian|sr Serbian|sv Swedish|sw Swahili|ta Tamil|te Telugu|th Thai|tl Tagalog|tr Turkish|uk Ukrainian
ur Urdu|uz Uzbek|vi Vietnamese|yo Yoruba|zh Chinese|zu Zulu
"""
NAMES: Mapping[str, str] = {
    code: name
    for code, _, name in (entry.strip().partition(" ") for entry in _NAMES.replace("\n", "|").split("|"))
    if code
}
"""English names by ISO 639-1 code."""
