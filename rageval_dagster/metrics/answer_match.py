"""How much of a short reference an answer says, words and numbers compared as people would (`lexical.answer_match`).

On the 1,490 answers to 301 Natural Questions that people judged in NQ301 (OpenQA-eval) it agrees with them on 80.4 % at
a threshold of 0.5, and on 80.9 % at thresholds chosen on other questions; BEM, a trained model, does on 80.5 %.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rageval_dagster import languages
from rageval_dagster.metrics.numbers import numbers
from rageval_dagster.text import character_pairs, is_character, normalised, word_spans

VERSION = "1"

LETTERS = 5
"""Words that begin with as many letters count as one: McNamee & Mayfield (2004) found five to serve as well as
stemmers do, in eight languages."""

_LONGEST_ACRONYM = 5

_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_ORDINALS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: number for words in (_UNITS, _ORDINALS) for number, word in enumerate(words.split())}
_LARGE = {
    word: number
    for number, tens in zip(range(20, 100, 10), _TENS.split(), strict=True)
    for word in (tens, f"{tens[:-1]}ieth")
}

_ACCENT = re.compile("[\u0300-\u036f]")
_POSSESSIVE = re.compile(r"['’]s\b")
_INITIALS = re.compile(r"\b[^\W\d_](?:\.\s?[^\W\d_]\b)+\.?")
_DIGITS = re.compile(r"\d+(?:st|nd|rd|th|s)?")


@dataclass(frozen=True)
class Words:
    """What a text says: `order` its words, cut to five letters, in their order; `numbers` in their canonical form.

    `pairs` are those of neighbouring characters in scripts without spaces.
    """

    order: tuple[str, ...]
    numbers: frozenset[str]
    pairs: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.numbers.union(self.pairs, self.order)


@lru_cache(maxsize=4096)
def words_of(text: str, language: str | None) -> Words:
    """The words and numbers of a text without stop words; with them where there is nothing else."""
    text = normalised(_ACCENT.sub("", normalised(text.casefold(), "NFKD")), "NFKC")
    text = _POSSESSIVE.sub("", text)
    initials = [re.sub(r"[.\s]", "", match.group()) for match in _INITIALS.finditer(text)]
    matches = list(word_spans(_INITIALS.sub(" ", text)))
    spoken, plain = _spoken_numbers(match.group() for match in matches if not is_character(match.group()))
    stop_words = languages.stop_words(language)
    pairs = frozenset("".join(pair) for pair in character_pairs(matches))
    found = frozenset(spoken) | {number.strip("-%‰") for number in numbers(text)}
    content = [word for word in plain if word not in stop_words]
    if not (content or found or initials or pairs):
        content = plain
    return Words(tuple(word[:LETTERS] for word in (*initials, *content)), found, pairs)


def answer_match(question: str, references: Sequence[str], answer: str) -> float | None:
    """The share of a reference's words and numbers that the answer says, of the best reference, in [0, 1].

    Words of the question count only where the reference has no others. 0 where the answer's numbers contradict: each
    side has some that the other has not. None where no reference has a word or number.
    """
    language = languages.detect(question)
    asked = words_of(question, language).all
    said = words_of(answer, language)
    shares = [_share(words_of(reference, language), said, asked) for reference in references]
    return max((share for share in shares if share is not None), default=None)


def _share(expected: Words, said: Words, asked: frozenset[str]) -> float | None:
    if not expected.all:
        return None
    needed, given = expected.numbers - asked, said.numbers - asked
    if needed - given and given - needed:
        return 0.0
    told = expected.all - asked or expected.all
    found = (expected.all & said.all) | _spelled_out(expected.order, said.all) | _spelled_out(said.order, expected.all)
    return len(told & found) / len(told)


def _spelled_out(order: Sequence[str], others: Collection[str]) -> set[str]:
    """Runs of words whose initials are one of the other words, with that word: `depar motor vehic`, `dmv`."""
    found: set[str] = set()
    for first in range(len(order)):
        acronym = order[first][0]
        for last in range(first + 1, min(len(order), first + _LONGEST_ACRONYM)):
            acronym += order[last][0]
            if acronym in others:
                found.update((acronym, *order[first : last + 1]))
    return found


def _spoken_numbers(words: Iterable[str]) -> tuple[set[str], list[str]]:
    """The numbers among the words that are spelled out in English, and the words that are no numbers."""
    found: set[str] = set()
    plain: list[str] = []
    tens = 0
    for word in words:
        small, large = _SMALL.get(word), _LARGE.get(word)
        if tens and not (small and small < 10):
            found.add(str(tens))
            tens = 0
        if small is not None:
            found.add(str(tens + small))
            tens = 0
        elif large is not None:
            tens = large
        elif not _DIGITS.fullmatch(word):
            plain.append(word)
    if tens:
        found.add(str(tens))
    return found, plain
