"""The `checks` family: lists, facts and calculations that a question declares of its answer (seed 003)."""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, lru_cache, partial
from typing import Any

from rageval_dagster.metrics.interface import Metric, MetricOptions, Rows, Tools
from rageval_dagster.metrics.numbers import numbers
from rageval_dagster.metrics.patterns import PatternError, Patterns
from rageval_dagster.records import Outcome, Result
from rageval_dagster.text import WORD_STARTS, is_character, is_mark, normalised

VERSION = "1"

MOST_ITEMS = 10_000
"""Items of a list: each is looked for in the whole answer."""

Check = Mapping[str, Any]

_INABILITY = tuple(
    f"{unable} {verb}"
    for unable in ("cannot", "can not", "can't", "could not", "couldn't", "unable to", "not able to", "not possible to")
    for verb in ("calculate", "compute", "determine")
) + tuple(f"{unable} be {verb}" for unable in ("cannot", "can't") for verb in ("calculated", "computed", "determined"))
"""What forbids a calculation to be correct where its check does not say what does."""

_STEPS = re.compile(
    r"[×✕⋅÷]|\\times|\\cdot|(?<=[^\s*])[ \t]*\*[ \t]*(?=[^\s*])|\d[ \t]*[x/+][ \t]*\$?\d|\b(?:multipl[yi]|times\b)",
    re.IGNORECASE,
)
"""Signs of a calculation that is shown; a `*` that begins a line is none."""

# The emphasis of Markdown: its marks stand at the edge of a word. `2 * 3`, `2*3` and `a_b` keep theirs.
_EMPHASIS = re.compile(r"(?<![\w*`~])[*_`~]++(?=\S)|(?<=[^\s*_`~])[*_`~]++(?!\w)")
_WORD_START = re.compile(rf"{WORD_STARTS}\w")
_BULLET = re.compile(r"^[ \t]*(?:[*+•‣▪–-]|\d{1,3}[.)])[ \t]+(\S.*)$", re.MULTILINE)
_SAME = str.maketrans(dict.fromkeys("‐‑‒–−", "-") | dict.fromkeys("‘’", "'") | dict.fromkeys("“”", '"'))
_NUMBER_CHARACTERS = frozenset(" .,'’+-−–%‰٪％\u00a0\u202f\u2009")


def metrics(_options: MetricOptions) -> list[Metric]:
    declare = partial(
        Metric,
        version=VERSION,
        score=_score,
        needs=frozenset({"answer", "checks"}),
        unanswerable="undefined",
        source="seed 003",
    )
    how = (
        "Texts are matched as whole words, ignoring case, whitespace, emphasis and the kind of dash. Numbers are "
        "compared as in lexical.number_match. Patterns are regular expressions that ignore case. "
    )
    common = "Empty answer: 0. The detail holds the result of each check. A pattern that takes too long: an error."
    return [
        declare(
            id="checks.list_coverage",
            description="Share of the items of an expected list that are in the answer. The items are those of "
            "`expect`. Without `expect`, they are the matches of `pattern` in the reference and the entries of the "
            f"reference's bulleted or numbered lists. {how}".rstrip(),
            edge_cases="Repeated items count once. If `pattern` matches within an entry, the match is the item. "
            "`any_of` is one item, found if any of its texts is found. Of several references, the one that is covered "
            f"best counts. More than {MOST_ITEMS:,} items: an error. Several lists: the mean. No list declared, or an "
            f"empty list: undefined. {common}",
        ),
        declare(
            id="checks.fact_score",
            description="Share of the facts (checks of the kinds `fact` and `number`) that pass: the answer has all "
            f"of `expect`, one of `any_of`, or a match of `pattern`. {how}".rstrip(),
            edge_cases="A check of the kind `number` looks for the numbers in its texts. A `fact` whose text is only "
            f"a number looks for that number. No fact declared: undefined. {common}",
        ),
        declare(
            id="checks.calculation_correct",
            description="1 if the answer has the result of every calculation (matched as in a check of the kind "
            "`number`) and none of the forbidden phrases, else 0.",
            edge_cases="The forbidden phrases are those of `forbid`. Without `forbid`, they are English phrases that "
            "say that something cannot be calculated, computed or determined. Intermediate results and shown steps "
            f"are in the detail and do not count. No calculation declared: undefined. {common}",
        ),
    ]


def _score(results: Sequence[Result], _tools: Tools) -> Rows:
    patterns = Patterns()
    return [
        {name: _outcome(name, result.item.checks, answer) for name in _MEASURES}
        for result in results
        for answer in [_Answer(result.answer_text, result.item.answers, patterns)]
    ]


def _outcome(metric: str, checks: Sequence[Check], answer: "_Answer") -> Outcome:
    """The outcome over the checks of the metric's kinds."""
    kinds, undeclared, measure, summed = _MEASURES[metric]
    declared = [check for check in checks if check["kind"] in kinds]
    if not declared:
        return undeclared
    values: dict[str, float] = {}
    details: dict[str, dict[str, Any]] = {}
    for check in declared:
        name = check["name"]
        try:
            value, detail = measure(check, answer)
        except PatternError as error:
            return Outcome.error(f"the pattern of the check {name!r} {error}")
        except _TooManyItemsError:
            return Outcome.error(f"the check {name!r} expects more than {MOST_ITEMS:,} items")
        if value is not None:
            values[name] = value
        for key, entry in detail.items():
            details.setdefault(key, {})[name] = entry
    if not values:
        return _NOTHING_EXPECTED
    return Outcome.scored(summed(list(values.values())), {"checks": values, **details})


Measured = tuple[float | None, Mapping[str, Any]]
"""The value of one check, None where it counts for nothing, and what else is told of it, by its place in the detail."""


class _TooManyItemsError(Exception):
    """A list has more than `MOST_ITEMS` items."""


def _list_coverage(check: Check, answer: "_Answer") -> Measured:
    found, expected = _covered(check, answer)
    if expected > MOST_ITEMS:
        raise _TooManyItemsError
    return found / expected if expected else None, {"counts": {"found": found, "expected": expected}}


def _fact_score(check: Check, answer: "_Answer") -> Measured:
    return float(_holds(check, answer, as_number=check["kind"] == "number")), {}


def _calculation_correct(check: Check, answer: "_Answer") -> Measured:
    has_result = _holds(check, answer, as_number=True)
    forbid = check.get("forbid")
    forbidden = any(answer.has(phrase) for phrase in (_INABILITY if forbid is None else _listed(forbid)))
    reported = {
        "has_result": has_result,
        "has_forbidden_phrase": forbidden,
        "shows_steps": answer.shows_steps,
        "intermediates": {
            key: all(answer.has(value, as_number=True) for value in _listed(values))
            for key, values in (check.get("intermediates") or {}).items()
        },
    }
    return float(has_result and not forbidden), {"reported": reported}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


_NOTHING_EXPECTED = Outcome.undefined("nothing is expected of the list")
_MEASURES: Mapping[
    str,
    tuple[Sequence[str], Outcome, Callable[[Check, "_Answer"], Measured], Callable[[Sequence[float]], float]],
] = {
    "list_coverage": (("list",), Outcome.undefined("the question declares no list"), _list_coverage, _mean),
    "fact_score": (("fact", "number"), Outcome.undefined("the question declares no facts"), _fact_score, _mean),
    "calculation_correct": (
        ("calculation",),
        Outcome.undefined("the question declares no calculation"),
        _calculation_correct,
        min,
    ),
}


def _holds(check: Check, answer: "_Answer", as_number: bool) -> bool:
    expected = _listed(check.get("expect"))
    if expected and all(answer.has(value, as_number) for value in expected):
        return True
    if any(answer.has(value, as_number) for value in _listed(check.get("any_of"))):
        return True
    pattern = check.get("pattern")
    return pattern is not None and answer.matches(pattern)


def _covered(check: Check, answer: "_Answer") -> tuple[int, int]:
    """How many items of a list are found, and how many are expected."""
    expected, any_of = _listed(check.get("expect")), _listed(check.get("any_of"))
    if not expected and not any_of:
        pattern = check.get("pattern")
        counts = [_found(answer.entries(reference, pattern), answer) for reference in answer.references]
        return max(counts, key=lambda count: (count[0] / max(count[1], 1), count[1]), default=(0, 0))
    found, total = _found(expected, answer)
    if any_of:
        found, total = found + any(answer.has(value) for value in any_of), total + 1
    return found, total


def _found(items: Iterable[Any], answer: "_Answer") -> tuple[int, int]:
    distinct = {_wanted(_written(item), False) for item in items}
    if len(distinct) > MOST_ITEMS:
        return 0, len(distinct)
    return sum(answer.has_wanted(wanted) for wanted in distinct), len(distinct)


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


class _Answer:
    """An answer with what the checks read of it, each computed when first asked for."""

    def __init__(self, text: str, references: Sequence[str], patterns: Patterns) -> None:
        self.references = references
        self._text = _without_emphasis(text)
        self._original = text
        self._patterns = patterns

    @cached_property
    def shows_steps(self) -> bool:
        return _STEPS.search(self._text) is not None

    @cached_property
    def _folded_text(self) -> str:
        return _folded(self._text)

    @cached_property
    def _numbers(self) -> frozenset[str]:
        return numbers(self._text)

    def has(self, value: Any, as_number: bool = False) -> bool:
        """Whether a text or number is found; with `as_number`, the numbers of a text that has any."""
        return self.has_wanted(_wanted(_written(value), as_number))

    def has_wanted(self, wanted: "_Wanted") -> bool:
        return wanted <= self._numbers if isinstance(wanted, frozenset) else _stands_in(wanted, self._folded_text)

    def matches(self, pattern: str) -> bool:
        return self._patterns.found(pattern, self._text) or (
            self._text != self._original and self._patterns.found(pattern, self._original)
        )

    def entries(self, reference: str, pattern: str | None) -> list[str]:
        """What a reference lists: what the pattern finds in it, and its bullets in which the pattern finds nothing."""
        reference = _without_emphasis(reference)
        bullets = [bullet.rstrip(" \t\r.,;:") for bullet in _BULLET.findall(reference)]
        if pattern is None:
            return bullets
        found = self._patterns.all(pattern, reference)
        return found + [bullet for bullet in bullets if not self._patterns.found(pattern, bullet)]


_Wanted = frozenset[str] | str
"""What is looked for: numbers as `numbers` writes them, or a text in plain form."""


@lru_cache(maxsize=4096)
def _wanted(text: str, as_number: bool) -> _Wanted:
    text = _without_emphasis(text)
    found = numbers(text)
    if found and (as_number or (len(found) == 1 and _is_number(text))):
        return found
    return _folded(text)


def _is_number(text: str) -> bool:
    """Whether a text is nothing but a number, with its sign, currency sign and percent sign."""
    return all(
        character.isdecimal() or character in _NUMBER_CHARACTERS or unicodedata.category(character) == "Sc"
        for character in text
    )


def _written(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return format(Decimal(repr(value)), "f")
    return str(value)


def _without_emphasis(text: str) -> str:
    return _EMPHASIS.sub("", text)


def _folded(text: str) -> str:
    """The text as texts are compared: folded, with single spaces, plain dashes and plain quotation marks."""
    if not text.isascii():
        text = normalised(text).translate(_SAME)
    return " ".join(text.casefold().split())


def _stands_in(phrase: str, text: str) -> bool:
    """Whether a phrase stands in a text as whole words and numbers."""
    at = text.find(phrase) if phrase else -1
    while at >= 0:
        if not _goes_on(text, at) and not _goes_on(text, at + len(phrase)):
            return True
        after = at + 1
        if _in_word(phrase[0]):
            # Not character by character: in a long run of one letter, all places but the first are within the word.
            start = _WORD_START.search(text, after)
            after = start.start() if start else len(text)
        at = text.find(phrase, after)
    return False


def _goes_on(text: str, at: int) -> bool:
    """Whether a word or a number goes on over the place before a character."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if is_mark(after) or (_in_word(before) and _in_word(after)):
        return True
    if after in ".,":
        return before.isdecimal() and text[at + 1 : at + 2].isdecimal()
    return before in ".," and after.isdecimal() and at > 1 and text[at - 2].isdecimal()


def _in_word(character: str) -> bool:
    return (character.isalnum() or character == "_" or is_mark(character)) and not is_character(character)
