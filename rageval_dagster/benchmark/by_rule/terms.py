"""What a sentence names, in any language with words: identifiers, names, years, and words that carry its meaning."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

from rageval_dagster.languages import articles, stop_words
from rageval_dagster.text import CHARACTER_SCRIPTS, is_character, word_spans

MIN_CHARACTERS = 3
MIN_NAME_LETTERS = 5
"""Of a name of one word that is not written in capitals alone."""
MAX_CHARACTERS = 60
MAX_NAME_WORDS = 5
MAX_RUN = 8
AGAIN = 2
"""So often a passage says what it is about, or more, unless it is short."""
SHORT_SENTENCES = 3
"""A passage of no more says everything but once."""

_EDGES = "\"'`*_.,;:!?()[]\u2018\u2019\u201a\u201c\u201d\u201e"
_CODE = re.compile(r"`+([\w.@/-][\w.@/-]*(?: [\w.@/-]+)?(?:\(\))?)`+")
_QUOTED = re.compile('[“„«「『《"]([^“”„«»「」『』《》"]{3,60})[”“»」』》"]')
_IDENTIFIER = re.compile(
    r"(?:\w[\w.-]*)?(?:[^\W\d_]{2}[_.][^\W\d_]{2}|[a-z]{2}[A-Z]|[^\W\d_]{2}\d(?![^\W\d_]{3})|[^\W\d_]-\d)[\w.-]*(?:\(\))?"
    r"|\w{3,}\(\)"
)
_PLACEHOLDER = re.compile(r"foo|bar(?![^\W_])|baz|example|xxx|yyy", re.IGNORECASE)
"""What programmers write where anything may stand."""
_YEAR = re.compile(r"1[5-9]\d\d|20\d\d")
_WORD = re.compile(r"[^\W\d_]+(?:[-'’.&][^\W\d_]+)*")
_POSSESSIVE = re.compile(r"['’]s?$")
_PARTICLES = frozenset("al bin da das de del della den der des di do dos du el la le of van von zu".split())
_LATIN = re.compile(r"[A-Za-z][A-Za-z0-9]+(?:[ .&+-][A-Za-z0-9]+)*")
_KATAKANA = re.compile(r"(?<![\u30a1-\u30fc])[\u30a1-\u30fa\u30fc]{3,}")
_RUN = re.compile(f"[{CHARACTER_SCRIPTS}]{{2,}}")
_PARTICLE_CHARACTERS = frozenset(
    "的了在是和与與及或被由为為于於從从到将將把这這那也都而但之其并並就不我他她它们們以有对對中上下等はがをにのとでもへや"
)


@dataclass(frozen=True)
class Term:
    """What a sentence names, as it stands there from `start` on."""

    text: str
    kind: Literal["identifier", "name", "year", "word"]
    start: int


@dataclass(frozen=True)
class Surroundings:
    """What stands around a sentence: its passage's text, and how often that says what it is about; of the corpus the
    words that somewhere stand in lower case, and those that somewhere stand behind an article: such words are hardly
    verbs.
    """

    text: str
    language: str | None
    least: int = AGAIN
    in_lower_case: Collection[str] = ()
    behind_articles: Collection[str] = ()

    @cached_property
    def stems(self) -> Counter[str]:
        """How often the passage has each word that carries meaning (`content_words`)."""
        return Counter(content_words(self.text, self.language))


def terms(sentence: str, around: Surroundings) -> list[Term]:
    """The terms of a sentence in its order, none within another; identifiers first, then names, years and words.

    A name of one word is a name only where the passage says it again: else it may stand there by the way.
    """
    found: list[Term] = []
    taken: list[tuple[int, int]] = []
    for term in _candidates(sentence, around):
        span = (term.start, term.start + len(term.text))
        least = MIN_CHARACTERS - 1 if is_character(term.text[:1]) else MIN_CHARACTERS
        is_free = all(span[1] <= start or end <= span[0] for start, end in taken)
        if least <= len(term.text) <= MAX_CHARACTERS and is_free and not _PLACEHOLDER.search(term.text):
            found.append(term)
            taken.append(span)
    return sorted(found, key=lambda term: term.start)


def _candidates(sentence: str, around: Surroundings) -> Iterator[Term]:
    without = stop_words(around.language)
    for match in _CODE.finditer(sentence):
        if any(map(str.isalpha, match.group(1))):
            yield Term(match.group(1), "identifier", match.start(1))
    for match in _QUOTED.finditer(sentence):
        quoted = [word.group() for word in _WORD.finditer(match.group(1)) if word.group().casefold() not in without]
        if quoted and all(word[0].isupper() or is_character(word[0]) for word in quoted):
            yield Term(match.group(1).strip(",. "), "name", match.start(1))
    for match in re.finditer(r"\S+", sentence):
        word = match.group().strip(_EDGES)
        if word and _IDENTIFIER.fullmatch(word) and not _RUN.search(word):
            yield Term(word, "identifier", match.start() + match.group().index(word))
    yield from _names(sentence, around)
    yield from _years(sentence, around)
    if 2 * sum(map(is_character, sentence)) > sum(map(str.isalpha, sentence)):
        yield from _unspaced(sentence, around)
    else:
        yield from _words(sentence, around)


def _words(sentence: str, around: Surroundings) -> Iterator[Term]:
    """Words that may be nouns; first those of two that the passage has side by side again."""
    without = stop_words(around.language)
    has_articles = bool(articles(around.language))
    found: list[re.Match[str]] = []
    for match in _WORD.finditer(sentence):
        word = match.group().casefold()
        # The first word of a sentence is a word of its passage where that says it again: else "Sometimes" is one.
        is_said = any(map(str.isalnum, sentence[: match.start()])) or around.stems[word[:STEM]] >= around.least
        is_noun = not has_articles or word in around.behind_articles
        if word not in without and word.replace("-", "").isalpha() and is_said and is_noun:
            found.append(match)
    for left, right in pairwise(found):
        pair = sentence[left.start() : right.end()]
        if left.end() + 1 == right.start() and around.text.count(pair) >= around.least:
            yield Term(pair, "word", left.start())
    for match in found:
        yield Term(match.group(), "word", match.start())


def _names(sentence: str, around: Surroundings) -> Iterator[Term]:
    """Runs of words with capitals, with particles such as "von" between them; in German they may be any nouns."""
    if around.language in (None, "de", "lb"):
        return
    without = stop_words(around.language)
    runs: list[list[re.Match[str]]] = [[]]
    for match in _WORD.finditer(sentence):
        word = match.group()
        opens = not any(map(str.isalnum, sentence[: match.start()]))
        is_named = (
            len(word) > 1
            and word[0].isupper()
            and word.casefold() not in without
            and not (opens and word.casefold() in around.in_lower_case)
        )
        goes_on = runs[-1] and sentence[runs[-1][-1].end() : match.start()] in (" ", "' ", "’ ")
        if runs[-1] and not (goes_on and (is_named or word in _PARTICLES)):
            runs.append([])
        if is_named or runs[-1]:
            runs[-1].append(match)
    for run in runs:
        while run and run[-1].group() in _PARTICLES:
            run.pop()
        if 1 < len(run) <= MAX_NAME_WORDS or (len(run) == 1 and _is_name(sentence, run[0], around)):
            text = _POSSESSIVE.sub("", sentence[run[0].start() : run[-1].end()])
            # What is torn at an abbreviation is no name.
            if not re.match(r"\. [^\W\d_]", sentence[run[-1].end() :]):
                yield Term(text, "name", run[0].start())


def _is_name(sentence: str, word: re.Match[str], around: Surroundings) -> bool:
    """Whether a single word with a capital is a name: not the first of its sentence, no part of a date or number, and
    not what sort the following noun is of."""
    before, after = sentence[: word.start()], sentence[word.end() :]
    following = _WORD.match(after, 1) if after.startswith(" ") else None
    return (
        (len(word.group()) >= MIN_NAME_LETTERS or word.group().isupper())
        and any(map(str.isalnum, before))
        and not re.search(r"\d[\w.]* ?$", before)
        and not re.match(r",? ?\d|/", after)
        and (following is None or following.group().casefold() in stop_words(around.language))
        and around.stems[word.group().casefold()[:STEM]] >= around.least
    )


def _years(sentence: str, around: Surroundings) -> Iterator[Term]:
    """Numbers that read as years: nothing is counted or measured by them."""
    without = stop_words(around.language)
    found = list(re.finditer(r"\S+", sentence))
    for place, match in enumerate(found):
        number = match.group().strip("(),.;:")
        if not _YEAR.fullmatch(number):
            continue
        following = found[place + 1].group().strip(_EDGES).casefold() if place + 1 < len(found) else ""
        if match.group() != number or not following or following in without:
            yield Term(number, "year", match.start() + match.group().index(number))


def _unspaced(sentence: str, around: Surroundings) -> Iterator[Term]:
    """In scripts that do not part words: words in other letters, and the longest runs that the passage has again."""
    for pattern in (_LATIN, _KATAKANA):
        for match in pattern.finditer(sentence):
            yield Term(match.group(), "name", match.start())
    for run in _RUN.finditer(sentence):
        start = run.start()
        while start < run.end():
            length = min(MAX_RUN, run.end() - start)
            while length > 1 and around.text.count(sentence[start : start + length]) < around.least:
                length -= 1
            text = sentence[start : start + max(length, 1)]
            if length > 1 and not any(character in _PARTICLE_CHARACTERS for character in text):
                yield Term(text, "word", start)
            start += max(length, 1)


STEM = 5
"""Words that begin with so many letters alike are taken for inflections of one."""


def content_words(text: str, language: str | None) -> list[str]:
    """The words of a text that carry meaning, case-folded and cut to `STEM` letters."""
    without = stop_words(language)
    found = [match.group().casefold() for match in word_spans(text)]
    return [word[:STEM] for word in found if word not in without]
