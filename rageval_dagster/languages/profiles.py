"""The languages that are known well: their stop words, and what people and models say in them who decline."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Questions:
    """The fixed sentences that ask about a term, and about a term of a topic: a title, which stands in quotation marks,
    so that it needs no article."""

    about: str
    in_context: str

    def quoted(self, title: str) -> str:
        """A title in the language's quotation marks."""
        marks = re.search(r"(\W\s?)\{topic\}(\s?\W)", self.in_context)
        return f"{marks[1]}{title}{marks[2]}" if marks else title


@dataclass(frozen=True)
class Language:
    """What is known of one language, its words case-folded.

    `stop_words` are no keywords. A sentence says little without the one before it that starts with one of `hanging`,
    has one of `pronouns` among its first words, or one of `pointing` anywhere. Nouns stand behind `articles`, or behind
    `leading` words such as prepositions, and before `verbs`. `asked_articles` are those of a subject, each as it stands
    in the fixed questions. `declines` are phrases of who declines to answer (`…`
    stands for other words).
    """

    stop_words: frozenset[str]
    hanging: frozenset[str]
    pronouns: frozenset[str]
    pointing: frozenset[str]
    articles: frozenset[str]
    asked_articles: Mapping[str, str]
    leading: frozenset[str]
    verbs: frozenset[str]
    declines: tuple[str, ...]
    questions: Questions


def _language(declines: str, questions: str, asked_articles: str = "", **words: str) -> Language:
    phrases = (phrase.strip() for phrase in declines.replace("\n", "|").split("|"))
    lists = {name: frozenset(words.get(name, "").casefold().split()) for name in _LISTS}
    about, in_context = questions.strip().split("\n")
    asking = Questions(about, in_context)
    pairs = (each.partition(":") for each in asked_articles.split())
    asked = {subject: asked or subject for subject, _, asked in pairs}
    return Language(**lists, asked_articles=asked, declines=tuple(filter(None, phrases)), questions=asking)


_LISTS = ("stop_words", "hanging", "pronouns", "pointing", "articles", "leading", "verbs")
_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
NAMES: Mapping[str, str] = _WORDS.pop("names")
"""English names by ISO 639-1 code."""
LANGUAGES: Mapping[str, Language] = {code: _language(**words) for code, words in _WORDS.items()}
"""By ISO 639-1 code. Chinese and Japanese have no stop words: there are no spaces to find words by."""
