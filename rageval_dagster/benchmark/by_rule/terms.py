"""What a sentence names, in any language with words: identifiers, names and years; and which words carry meaning."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from rageval_dagster.languages import stop_words
from rageval_dagster.text import CHARACTER_SCRIPTS, is_character, word_spans

MIN_CHARACTERS = 3
MIN_NAME_LETTERS = 5
"""Of a name of one word that is not written in capitals alone."""
MAX_CHARACTERS = 60
MAX_NAME_WORDS = 5
AGAIN = 2
"""So often a passage says what it is about, or more."""

CAPITALISED = frozenset({"de", "lb"})
"""The languages in which any noun has a capital."""

QUOTES = "\"'`\u2018\u2019\u201a\u201c\u201d\u201e«»"
EDGES = f"{QUOTES}*_.,;:!?()[]"
_CODE = re.compile(r"`+([\w.@/-][\w.@/-]*(?: [\w.@/-]+)?(?:\(\))?)`+")
_QUOTED = re.compile('[“„«「『《"]([^“”„«»「」『』《》"]{3,60})[”“»」』》"]')
IDENTIFIER = re.compile(
    r"(?!(?:[A-Z][a-z]+)+[A-Z]{2,}$)(?:\w[\w.-]*)?(?:[^\W\d_]{2}[_.][^\W\d_]{2}|[a-z]{2}[A-Z]|[^\W\d_]{2}\d(?![^\W\d_]{3})|[^\W\d_]-\d)[\w.-]*(?:\(\))?"
    r"|\w{3,}\(\)"
)
"""What code names. A word as "PostgreSQL" is written so by all."""
PLACEHOLDER = re.compile(
    r"(?<![^\W_])(?:my|your)[_-]|(?-i:(?<![^\W_])[Mm]y[A-Z][a-z])|foo|bar(?![^\W_])|baz|example|xxx|yyy", re.IGNORECASE
)
"""What programmers write where anything may stand."""
_YEAR = re.compile(r"1[5-9]\d\d|20\d\d")
_WORD = re.compile(r"[^\W\d_]+(?:[-'’.&][^\W\d_]+)*")
_POSSESSIVE = re.compile(r"['’]s?$")
PARTICLES = frozenset("al bin da das de del della den der des di do dos du el la le of van von zu".split())
_WHERE = frozenset("in at from near im am aus à en em".split())
"""Of no longer name: "the University in East Lansing"."""
CHARACTER_PARTICLES = frozenset(
    "的了在是和与與及或被由为為于於從从到将將把这這那也都而但之其并並就不我他她它们們以有对對中上下等如所最はがをにのとでもへや"
)
"""Of Chinese and Japanese: no name or noun has them."""
NOTED = 5
"""A word of so many letters with a capital is one with a footnote's number rather than a name that ends with one."""
MIN_LETTERS = 4
"""Of a plain word that people search by."""
ADVERB = re.compile(r"\w{2}(?:ly|mente)$")
"""In English, Italian, Portuguese and Spanish; what is none, such as "assembly", is left out as well."""
_MEASURE = re.compile(r"\d[^_]*|.*-\d+[^\W\d_]{1,2}")
"""As 64-by-1, 1e-6 and mid-18th: no identifier."""
_LEFT = re.compile(r"(?=(?<=\w )([^\W\d_a-z]\w+)((?: [^\W\d_]+){1,2}) $)")
_RIGHT = re.compile(r"((?: [^\W\d_]+){1,2}?| \() ?([^\W\d_a-z]\w+)")
"""The word beyond one or two words, or beyond an opening parenthesis."""
_CUT_BEFORE = re.compile(r"(?:(?<!\w)[^\W\d_a-z]\w{0,2}\. ?|\w ?- ?|\d(?:st|nd|rd|th) )$")
_CUT_AFTER = re.compile(r"\. [^\W\d_]| ?- ?\w| \d| ?['’]s? ?[^\W\d_a-zß-ÿ]")
"""What stands beside a part of a name: "T. T. Tsui", "St. Lawrence River", "Koh-i-Noor", "25th Brigade", "Hot 100"."""
_RUN = re.compile(f"[{CHARACTER_SCRIPTS}]{{2,}}")
_CHARACTERS = re.compile(f"(?:(?![{''.join(sorted(CHARACTER_PARTICLES))}])[{CHARACTER_SCRIPTS}]){{2,8}}")


@dataclass(frozen=True)
class Term:
    """What a sentence names, as it stands there from `start` on."""

    text: str
    kind: Literal["identifier", "name", "year", "noun"]
    start: int


@dataclass(frozen=True)
class Surroundings:
    """What stands around a sentence: its passage's text; of the corpus the words that somewhere stand in lower case,
    and those, case-folded, that so many chunks have that they tell nothing.
    """

    text: str
    language: str | None
    in_lower_case: Collection[str] = ()
    common: Collection[str] = ()

    @cached_property
    def folded(self) -> str:
        return self.text.casefold()

    @cached_property
    def stems(self) -> Counter[str]:
        """How often the passage has each word that carries meaning (`content_words`)."""
        return Counter(content_words(self.text, self.language))


def in_lower_case(phrase: str, text: str, language: str | None, names: Iterable[str] = ()) -> str:
    """A phrase that opens a line, with its first letter in lower case where the text has that very phrase so.

    Not where its first word is part of one of the names, or, in a language that tells nouns by capitals, a noun.
    """
    opening, lower = phrase.split(" ", maxsplit=1)[0], phrase[:1].lower() + phrase[1:]
    is_noun = language in CAPITALISED and re.search(rf"(?<=[\w,;] ){re.escape(opening)}(?!\w)", text)
    is_name = any(opening in name.split() for name in names)
    is_said = re.search(rf"(?<!\w){re.escape(lower)}(?!\w)", text)
    return lower if is_said and not is_noun and not is_name else phrase


def terms(sentence: str, around: Surroundings) -> list[Term]:
    """The terms of a sentence in its order, none within another; identifiers first, then names and years.

    A name of one word is a name only where the passage says it again: else it may stand there by the way.
    """
    found: list[Term] = []
    taken: list[tuple[int, int]] = []
    for term in _candidates(sentence, around):
        span = (term.start, term.start + len(term.text))
        least = MIN_CHARACTERS - 1 if is_character(term.text[:1]) else MIN_CHARACTERS
        is_free = all(span[1] <= start or end <= span[0] for start, end in taken)
        if least <= len(term.text) <= MAX_CHARACTERS and is_free and not PLACEHOLDER.search(term.text):
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
        opens = not any(map(str.isalnum, sentence[: match.start()]))
        is_word = len(quoted) == 1 and opens and quoted[0].casefold() in around.in_lower_case
        if quoted and not is_word and all(word[0].isupper() or is_character(word[0]) for word in quoted):
            text = match.group(1).strip(",. ")
            yield Term(text, "name", match.start(1) + match.group(1).index(text))
    for match in re.finditer(r"\S+", sentence):
        word = match.group().strip(EDGES)
        # The number of a footnote is no part of a word: use98, Protanopia9.
        plain = word.rstrip("0123456789")
        is_noted = word != plain and (plain in around.in_lower_case or (plain.istitle() and len(plain) >= NOTED))
        is_identifier = word and IDENTIFIER.fullmatch(word) and not _MEASURE.fullmatch(word)
        # "National LambdaRail"
        is_part = word.isalpha() and _goes_on(sentence[: match.start()], sentence[match.end() :])
        if is_identifier and not _RUN.search(word) and not is_noted and not is_part:
            yield Term(word, "identifier", match.start() + match.group().index(word))
    yield from _names(sentence, around)
    yield from _years(sentence, around)


def _names(sentence: str, around: Surroundings) -> Iterator[Term]:
    """Runs of words with capitals, with particles such as "von" between them. In German, where any noun has one, two
    or more words without particles, none of which opens its sentence."""
    if around.language is None:
        return
    is_capitalised = around.language in CAPITALISED
    without = stop_words(around.language)
    runs: list[list[re.Match[str]]] = [[]]
    for match in _WORD.finditer(sentence):
        word = match.group()
        opens = not any(map(str.isalnum, sentence[: match.start()]))
        is_named = (
            len(word) > 1
            and word[0].isupper()
            and word.casefold() not in without
            and not (opens and (is_capitalised or word.casefold() in around.in_lower_case or ADVERB.search(word)))
        )
        goes_on = runs[-1] and sentence[runs[-1][-1].end() : match.start()] in (" ", "' ", "’ ")
        if runs[-1] and not (goes_on and (is_named or (word in PARTICLES and not is_capitalised))):
            runs.append([])
        if is_named or runs[-1]:
            runs[-1].append(match)
    for run in runs:
        while run and run[-1].group() in PARTICLES:
            run.pop()
        is_name = len(run) == 1 and not is_capitalised and _is_name(sentence, run[0], around)
        if 1 < len(run) <= MAX_NAME_WORDS or is_name:
            text = _POSSESSIVE.sub("", sentence[run[0].start() : run[-1].end()])
            # What is torn at an abbreviation or a hyphen is no name, nor what goes on: "No Child Left Behind".
            before, after = sentence[: run[0].start()], sentence[run[-1].end() :]
            is_cut = _CUT_BEFORE.search(before) or _CUT_AFTER.match(after)
            is_torn = is_cut or (not is_capitalised and _is_torn(before, after, around))
            if not is_torn and not _goes_on(before, after):
                yield Term(text, "name", run[0].start())


def _goes_on(before: str, after: str) -> bool:
    """Whether a word with a capital stands beside a name, though no name begins or ends with such a word alone."""
    following = re.match(r" ([^\W\d_]\w*)", after)
    leading = re.search(r"(?<=\w[ ,])([^\W\d_]\w*) $", before)
    return any(word is not None and word.group(1)[0].isupper() for word in (following, leading))


def _is_torn(before: str, after: str, around: Surroundings) -> bool:
    """Whether a name is part of a longer one: "Ministry of Gender and Child Affairs". What stands beyond one or two
    function words, or an opening parenthesis, has a capital here and none elsewhere."""
    right, without = _RIGHT.match(after), stop_words(around.language)
    beyond = [(left.group(1), left.group(2)) for left in _LEFT.finditer(before)]
    beyond = [(word, joined) for word, joined in beyond if joined.strip() not in _WHERE]
    beyond += [(right.group(2), right.group(1))] if right else []
    return any(
        word[0].isupper() and word.casefold() in around.in_lower_case and without.issuperset(joined.strip(" (").split())
        for word, joined in beyond
    )


def _is_name(sentence: str, word: re.Match[str], around: Surroundings) -> bool:
    """Whether a single word with a capital is a name: not the first of its sentence, no part of a date or number, and
    not what sort the following noun is of."""
    before, after = sentence[: word.start()], sentence[word.end() :]
    following = _WORD.match(after, 1) if after.startswith(" ") else None
    return (
        (len(word.group()) >= MIN_NAME_LETTERS or word.group().isupper())
        and not re.search(r"\d[\w.]* ?$", before)
        and not re.match(r",? ?\d|/", after)
        and (following is None or following.group().casefold() in stop_words(around.language))
        and around.stems[word.group().casefold()[:STEM]] >= AGAIN
    )


def _years(sentence: str, around: Surroundings) -> Iterator[Term]:
    """Numbers that read as years: nothing is counted or measured by them."""
    without = stop_words(around.language)
    found = list(re.finditer(r"\S+", sentence))
    for place, match in enumerate(found):
        number = match.group().strip("(),.;:")
        if not _YEAR.fullmatch(number):
            continue
        following = found[place + 1].group().strip(EDGES).casefold() if place + 1 < len(found) else ""
        if match.group() != number or not following or following in without:
            yield Term(number, "year", match.start() + match.group().index(number))


def plain_words(text: str) -> Iterator[Term]:
    """The words of a text that are no more than words, compounds whole; in scripts without spaces, what stands between
    signs and particles."""
    for match in re.finditer(r"\S+", text):
        word = match.group().strip(EDGES)
        if _RUN.search(word):
            for part in _CHARACTERS.finditer(match.group()):
                yield Term(part.group(), "noun", match.start() + part.start())
        elif len(plain := _POSSESSIVE.sub("", word)) >= MIN_LETTERS and plain.replace("-", "").isalpha():
            yield Term(plain, "noun", match.start() + match.group().index(plain))


STEM = 5
"""Words that begin with so many letters alike are taken for inflections of one."""


def content_words(text: str, language: str | None) -> list[str]:
    """The words of a text that carry meaning, case-folded and cut to `STEM` letters."""
    without = stop_words(language)
    found = [match.group().casefold() for match in word_spans(text)]
    return [word[:STEM] for word in found if word not in without]
