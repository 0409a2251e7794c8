"""The `lexical` family: an answer compared with the reference by its words, keywords and numbers (seed 003)."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache, partial

from rageval_dagster import languages
from rageval_dagster.metrics.answer_match import LETTERS, answer_match
from rageval_dagster.metrics.answer_match import VERSION as MATCH_VERSION
from rageval_dagster.metrics.interface import Metric, MetricOptions, Rows, Tools, scored
from rageval_dagster.metrics.numbers import numbers
from rageval_dagster.records import Outcome, Result
from rageval_dagster.text import character_pairs, is_character, is_latin, normalised, separate_characters, word_spans

VERSION = "1"
KEYWORDS_VERSION = "2"
"""The version of what compares keywords."""

SOURCE_INDICATORS = ("source:", "table:", "page", "document", "pdf", "according to", "based on", "from")
"""Words that point to a source, as seed 003 lists them."""

FULL_CITATION = 3
"""Distinct source indicators that give the full score."""

_SQUAD_ARTICLE = re.compile(r"\b(a|an|the)\b")
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_FRACTION = re.compile(r"[.,']\d")
_LONGEST_PHRASE = 6
"""Words after which a run of capitalised words is cut, so that a text in capitals stays many phrases."""

_NO_KEYWORDS = Outcome.undefined("the reference has no keywords")
_NO_WORDS = Outcome.undefined("the reference has no words")
_NO_NUMBERS = Outcome.undefined("the reference has no numbers")


def metrics(_options: MetricOptions) -> list[Metric]:
    declare = partial(
        Metric, version=VERSION, score=_score, needs=frozenset({"answer", "reference"}), unanswerable="undefined"
    )
    best = "Of several references, the best counts."
    marks = "Citation marks such as [1] count as words of the answer."
    return [
        declare(
            id="lexical.exact_match",
            description="1 if the answer equals the reference, ignoring case and whitespace; else 0.",
            edge_cases=f"{marks} {best}",
            source="seed 003",
        ),
        declare(
            id="lexical.keyword_coverage",
            version=KEYWORDS_VERSION,
            description="Share of the reference's keywords that are in the answer. Keywords are capitalised phrases, "
            "numbers, and words of four or more letters that are not stop words of the reference's language. In "
            "scripts without spaces, pairs of characters are keywords.",
            edge_cases=f"Numbers are compared as in number_match. No keywords in the reference: undefined. {best}",
            source="seed 003",
        ),
        declare(
            id="lexical.number_match",
            description="Share of the reference's distinct numbers that are in the answer, compared as numbers.",
            edge_cases="$604 equals 604.00, and 1,234 equals 1234. Digits may be of any script. Minus and percent "
            f"signs count. No numbers in the reference: undefined. {best}",
            source="seed 003",
        ),
        declare(
            id="lexical.answer_completeness",
            version=KEYWORDS_VERSION,
            description="Mean of keyword_coverage and min(words of the answer / words of the reference, 1).",
            edge_cases=f"No keywords in the reference: undefined. {best}",
            source="seed 003",
        ),
        declare(
            id="lexical.source_citation",
            needs=frozenset({"answer"}),
            unanswerable="if_answered",
            description=f"min(distinct source indicators / {FULL_CITATION}, 1). The indicators are "
            + ", ".join(f"'{indicator}'" for indicator in SOURCE_INDICATORS)
            + ".",
            edge_cases="Empty answer: 0.",
            source="seed 003",
        ),
        declare(
            id="lexical.token_f1",
            description="Harmonic mean of precision and recall of the answer's tokens against the reference's, after "
            "SQuAD's normalisation.",
            edge_cases="In scripts without spaces, each character is a token. Both texts empty after normalisation: "
            f"1. Only one empty: 0. {marks} {best}",
            source="SQuAD 2.0 (Rajpurkar et al. 2018)",
        ),
        declare(
            id="lexical.answer_match",
            version=MATCH_VERSION,
            score=lambda results, _tools: [{"answer_match": _answer_match(result)} for result in results],
            description="Whether the answer says what a short reference says: the share of the reference's words and "
            "numbers that are in the answer. Stop words and words of the question do not count. A score of 0.5 or "
            "more counts as right, which agrees with people on 80 % of the answers in NQ301.",
            edge_cases=f"Words that begin with the same {LETTERS} letters count as equal. Accents and possessives are "
            "ignored. English number words below a hundred are numbers (seventh = 7). Initials match the words that "
            "they stand for (DMV). In scripts without spaces, pairs of characters are compared. Contradictory numbers "
            "(each side has a number that the other lacks): 0. Empty answer: 0. No word or number in the reference: "
            f"undefined. If the reference has only words of the question, these words count. {best}",
            source="own; words cut to five letters as in McNamee & Mayfield (2004)",
        ),
    ]


def _score(results: Sequence[Result], _tools: Tools) -> Rows:
    # The answers of several systems to one question, and one reference to several questions, tend to stand together.
    reference_of = lru_cache(maxsize=4096)(_Text)
    return [_outcomes(result, reference_of) for result in results]


def _answer_match(result: Result) -> Outcome:
    value = answer_match(result.item.question, result.item.answers, result.answer_text)
    return _NO_WORDS if value is None else scored(value)


def _outcomes(result: Result, reference_of: Callable[[str], "_Text"]) -> dict[str, Outcome]:
    answer = _Text(result.answer_text)
    indicators = sum(indicator in answer.normalised for indicator in SOURCE_INDICATORS)
    row = {"source_citation": scored(min(indicators / FULL_CITATION, 1.0))}
    references = [reference_of(text) for text in result.item.answers]
    if references:
        coverages = [_keyword_coverage(answer, reference) for reference in references]
        completeness = [
            None if coverage is None else (min(answer.word_count / reference.word_count, 1.0) + coverage) / 2
            for reference, coverage in zip(references, coverages, strict=True)
        ]
        matches = [
            len(reference.numbers & answer.numbers) / len(reference.numbers)
            for reference in references
            if reference.numbers
        ]
        row |= {
            "exact_match": scored(float(any(answer.normalised == each.normalised for each in references))),
            "keyword_coverage": best_of(coverages, _NO_KEYWORDS),
            "number_match": best_of(matches, _NO_NUMBERS),
            "answer_completeness": best_of(completeness, _NO_KEYWORDS),
            "token_f1": scored(max(token_f1(answer.squad_tokens, each.squad_tokens) for each in references)),
        }
    return row


def best_of(values: Iterable[float | None], otherwise: Outcome) -> Outcome:
    """The highest of the values that are defined; `otherwise` where none is."""
    best = max((value for value in values if value is not None), default=None)
    return otherwise if best is None else scored(best)


def _keyword_coverage(answer: "_Text", reference: "_Text") -> float | None:
    expected = len(reference.numbers) + sum(map(len, reference.keywords.values()))
    if not expected:
        return None
    found = sum(len(phrases & answer.phrases(length)) for length, phrases in reference.keywords.items())
    return (found + len(reference.numbers & answer.numbers)) / expected


def token_f1(ours: Counter[str], theirs: Counter[str]) -> float:
    """F1 of the tokens of two texts, as SQuAD 2.0 computes it."""
    if not ours or not theirs:
        return float(ours == theirs)
    common = sum(min(count, ours[token]) for token, count in theirs.items() if token in ours)
    return 2 * common / (ours.total() + theirs.total())


def squad_tokens(text: str) -> list[str]:
    """The tokens that SQuAD's evaluation compares: lower case, without punctuation and articles, cut at spaces.

    Beyond SQuAD, which knows ASCII punctuation alone: characters of scripts without spaces are single tokens, and in
    texts with letters beyond Latin all Unicode punctuation goes, as in MLQA (Lewis et al. 2020).
    """
    if not is_latin(text):
        text = "".join(character for character in text.lower() if not _is_punctuation(character))
        text = separate_characters(text)
    return plain_squad_tokens(text)


def plain_squad_tokens(text: str) -> list[str]:
    """The tokens exactly as SQuAD's own evaluation has them, whatever the script."""
    return _SQUAD_ARTICLE.sub(" ", text.lower().translate(_ASCII_PUNCTUATION)).split()


@lru_cache(maxsize=65_536)
def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] == "P"


class _Text:
    """One text with what the measures read of it, each computed when first asked for."""

    def __init__(self, text: str) -> None:
        self.text = normalised(text)
        self._phrases: dict[int, set[str]] = {}

    @cached_property
    def normalised(self) -> str:
        return " ".join(self.text.casefold().split())

    @cached_property
    def numbers(self) -> frozenset[str]:
        return numbers(self.text)

    @cached_property
    def word_count(self) -> int:
        return len(separate_characters(self.text).split())

    @cached_property
    def squad_tokens(self) -> Counter[str]:
        return Counter(squad_tokens(self.text))

    @cached_property
    def keywords(self) -> dict[int, set[str]]:
        """The keywords that are not numbers, in lower case, by their number of words."""
        words = list(word_spans(self.text))
        stop_words = languages.stop_words(languages.detect(self.text))
        found: dict[int, set[str]] = {}
        distinct = {match.group().casefold() for match in words} - stop_words
        long_words = [(word,) for word in distinct if _letters(word) >= 4 and not is_character(word)]
        for phrase in (*long_words, *character_pairs(words), *_capitalised(self.text, words, stop_words)):
            found.setdefault(len(phrase), set()).add(" ".join(phrase))
        return found

    def phrases(self, length: int) -> set[str]:
        """All that stands in the text as so many words in a row."""
        if length not in self._phrases:
            rows = (self._words[first:] for first in range(length))
            self._phrases[length] = set(self._words if length == 1 else map(" ".join, zip(*rows, strict=False)))
        return self._phrases[length]

    @cached_property
    def _words(self) -> list[str]:
        return [match.group().casefold() for match in word_spans(self.text)]


def _letters(word: str) -> int:
    return len(word) if word.isalpha() else sum(not character.isdigit() for character in word)


def _capitalised(text: str, words: Sequence[re.Match[str]], stop_words: frozenset[str]) -> set[tuple[str, ...]]:
    """Runs of capitalised words, and of numbers after one (`Rule C-1`, `Territory 118`), without outer stop words."""
    found: set[tuple[str, ...]] = set()
    run: list[str] = []
    end = -1
    for match in words:
        word = match.group()
        if run and text[end : match.start()] not in (" ", "-", "\u00a0"):
            found |= _phrases_of_run(run, stop_words)
            run = []
        end = match.end()
        if word[0].isupper() or (run and word.isdecimal() and not _FRACTION.match(text, end)):
            run.append(word.casefold())
        elif run:
            found |= _phrases_of_run(run, stop_words)
            run = []
    return found | _phrases_of_run(run, stop_words)


def _phrases_of_run(run: list[str], stop_words: frozenset[str]) -> set[tuple[str, ...]]:
    first, last = 0, len(run)
    while first < last and run[first] in stop_words:
        first += 1
    while last > first and run[last - 1] in stop_words:
        last -= 1
    return {tuple(run[at : min(at + _LONGEST_PHRASE, last)]) for at in range(first, last, _LONGEST_PHRASE)}
