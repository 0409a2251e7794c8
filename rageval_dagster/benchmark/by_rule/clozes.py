"""Cloze questions: a sentence of any language with one telling thing blanked out (Lee et al. 2019)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rageval_dagster.benchmark.wording import BLANK
from rageval_dagster.languages import hangs, stop_words
from rageval_dagster.text import is_character, is_mark, word_spans

KINDS = 3

MIN_RARE_LETTERS = 5
RARE = 3
"""So many of a sentence's longest words are blanked: the longer a word, the rarer."""
MAX_NAME_WORDS = 5
MAX_ANSWER_CHARACTERS = 40

_NOUNS_HAVE_CAPITALS = frozenset(["de", "lb"])

_FIGURE = re.compile(r"(?:[A-Za-z]{1,6}-?)?\d+(?:[.,:/'’\u00a0\u202f-]\d+)*(?: ?[%‰])?")
_YEAR = re.compile(r"1\d{3}|20\d{2}")
_QUOTED = re.compile('(?<=[„“«「『《"])[^„“”«»「」『』《》"]+(?=[“”»」』》"])')
_LATIN = re.compile(r"[A-Za-z][A-Za-z0-9]+(?:[ .&+-][A-Za-z0-9]+)*")
_KATAKANA = re.compile(r"(?<![\d\u30a1-\u30fc])[\u30a1-\u30fa\u30fc]{3,}")
_WORD = re.compile(r"[^\W\d_]+(?:[-'’.][^\W\d_]+)*")
_WITHIN = re.compile(r"[\w,)] \Z")
_NAME_PARTICLES = frozenset("al bin da das de del della den der des di do dos du el la le of van von zu".split())
_HAN = re.compile(r"(?<![\u3005\u3400-\u9fff])[\u3005\u3400-\u9fff]{2,6}(?![\u3005\u3400-\u9fff])")
_CHINESE_PARTICLES = re.compile("[的了在是和与與及或被由为為于於從从到将將把这這那也都而但之其并並就不我他她它们們]")
_SPACED_RUN = re.compile(r"(?<!\S)[^\s\u3005-\u30ff\u3400-\u9fff.,!?()]{3,20}(?=[.,!?)]?(?:\s|\Z))")


@dataclass(frozen=True)
class Cloze:
    """A question with its `BLANK`, which stands for the answer."""

    question: str
    answer: str
    category: str


_Span = tuple[int, int, str]
"""Start, end, and the category of the question."""


def clozes(sentence: str, language: str | None) -> tuple[list[Cloze], ...]:
    """The cloze questions of a sentence in `KINDS` lists; none holds its answer anywhere else.

    The most telling first: figures, names of several words, and what stands in quotes or in letters of another
    script; then names of one word, where other nouns have no capitals; then long words, and in scripts that do not
    part words, what stands between particles or spaces. There are none of a sentence that points back at another.
    """
    if BLANK in sentence or hangs(sentence, language):
        return ([], [], [])
    names = list(_names(sentence, language))
    several = [span for span in names if " " in sentence[span[0] : span[1]]]
    single = [span for span in names if span not in several]
    kinds = (
        [*_figures(sentence), *several, *_set_apart(sentence)],
        [] if _may_be_noun(language) else single,
        _rare(sentence, language),
    )
    return tuple(list(_blanked(sentence, spans)) for spans in kinds)


def _may_be_noun(language: str | None) -> bool:
    """Whether a word with a capital may be any noun, no name."""
    return language is None or language in _NOUNS_HAVE_CAPITALS


def _blanked(sentence: str, spans: Iterable[_Span]) -> Iterator[Cloze]:
    for start, end, category in dict.fromkeys(spans):
        answer = sentence[start:end]
        question = f"{sentence[:start]}{BLANK}{sentence[end:]}"
        elsewhere = answer.casefold() in question.casefold()
        if len(answer) <= MAX_ANSWER_CHARACTERS and not elsewhere and _is_whole(sentence, start, end):
            yield Cloze(question, answer, category)


def _is_whole(sentence: str, start: int, end: int) -> bool:
    """Whether no word goes on beyond a span, as far as the script parts words."""
    for left, right in ((sentence[at - 1 : at], sentence[at : at + 1]) for at in (start, end)):
        of_word = all(each.isalnum() or each == "_" or is_mark(each) for each in (left, right))
        if is_mark(right) or (of_word and not is_character(left) and not is_character(right)):
            return False
    return True


def _figures(sentence: str) -> Iterator[_Span]:
    """Numbers of two characters or more, with their percent sign, and short words with digits."""
    for match in _FIGURE.finditer(sentence):
        if len(match.group()) > 1:
            yield *match.span(), "temporal" if _YEAR.fullmatch(match.group()) else "factual_lookup"


def _set_apart(sentence: str) -> Iterator[_Span]:
    """What stands in quotes, and within another script what is in Latin letters or katakana."""
    patterns = [_QUOTED, _KATAKANA]
    if 2 * sum(each.isascii() and each.isalpha() for each in sentence) < sum(map(str.isalpha, sentence)):
        patterns.append(_LATIN)
    for pattern in patterns:
        for match in pattern.finditer(sentence):
            if any(map(str.isalpha, match.group())):
                yield *match.span(), "entity_specific"


def _names(sentence: str, language: str | None) -> Iterator[_Span]:
    """Runs of words with capitals, with particles such as "von" between them; of single ones those within it."""
    without = stop_words(language)
    particles = frozenset() if _may_be_noun(language) else _NAME_PARTICLES
    run: list[re.Match[str]] = []
    for match in _WORD.finditer(sentence):
        word = match.group()
        is_named = len(word) > 1 and word[0].isupper() and word.casefold() not in without
        if run and (sentence[run[-1].end() : match.start()] != " " or not (is_named or word in particles)):
            yield from _name(sentence, run)
            run = []
        if is_named or run:
            run.append(match)
    yield from _name(sentence, run)


def _name(sentence: str, run: Sequence[re.Match[str]]) -> Iterator[_Span]:
    while run and run[-1].group() in _NAME_PARTICLES:
        run = run[:-1]
    if len(run) == 1 and not _WITHIN.search(sentence, 0, run[0].start()):
        return
    if 0 < len(run) <= MAX_NAME_WORDS:
        yield run[0].start(), run[-1].end(), "entity_specific"


def _rare(sentence: str, language: str | None) -> list[_Span]:
    """The longest of what may be a word."""
    without = stop_words(language)
    spans = [
        match.span()
        for match in word_spans(sentence)
        if len(match.group()) >= MIN_RARE_LETTERS
        and not is_character(match.group())
        and not any(map(str.isdigit, match.group()))
        and match.group().casefold() not in without
    ]
    parted = sentence if language == "ja" else _CHINESE_PARTICLES.sub(" ", sentence)
    spans += [match.span() for match in _HAN.finditer(parted)]
    spans += [match.span() for match in _SPACED_RUN.finditer(sentence) if is_character(match.group()[0])]
    longest = sorted(spans, key=lambda span: (span[0] - span[1], span))[:RARE]
    return [(start, end, "factual_lookup") for start, end in longest]
