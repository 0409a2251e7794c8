"""Taking personal data out of texts before anything is stored or sent to a model."""

import inspect
import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from rageval_dagster.errors import RedactionError, SettingsError
from rageval_dagster.functions import load_function
from rageval_dagster.identity import digest
from rageval_dagster.text import CHARACTER_SCRIPTS, WORD_ENDS, WORD_STARTS

PRESET = "pii"

_BEFORE = 16
"""Characters before a candidate that are looked at."""

_NATIONAL_DIGITS = 9
"""The fewest of a whole number with the 0 that is dialled first: dates of eight digits are shorter."""

_SPACE = r" \u00a0\u2009\u202f"
_DASH = r"\-\u2010-\u2013"
_BETWEEN = rf"(?:[{_SPACE}{_DASH}/]{{1,3}}|\.)"
_IN_IBAN = rf"[{_SPACE}{_DASH}]?[A-Za-z0-9]"
_IN_CARD = rf"[{_SPACE}{_DASH}]?\d"

_CONTINUED = re.compile(rf"\d[.,/{_DASH}]$")
_ISBN = re.compile(r"ISBN(?:-?1[03])?[:\s]*$", re.IGNORECASE)
_DATE = r"(?!\d\d?[./-]\d\d?[./-](?:19|20)\d\d(?!\d)|(?:19|20)\d\d[./-]\d\d?[./-]\d\d?(?!\d))"
_NO_DATE = rf"{_DATE}(?!\d\d?[./-](?:19|20)\d\d(?!\d))" + "".join(
    rf"(?!\d\d?[{mark}]\d\d?[{mark}]\d\d(?![\d{mark}]))" for mark in "./-"
)
_PHONE_WORDS = (
    "tel|tél|telefon|telefono|teléfono|telephone|téléphone|telefoon|telefonnummer|rufnummer|mobilnummer|phone|fax|"
    "faxnummer|mobil|mobile|cell|handy|handynummer|whatsapp"
)
_LOCAL = rf"(?![{CHARACTER_SCRIPTS}])[\w.+%-]"
"""A character before the @ of an address: no script that is written without spaces, lest the sentence goes with it."""


class _Kind(NamedTuple):
    """What is looked for: a candidate (group 1 of the pattern), and how much of it is meant.

    `length` gets the candidate and the text right before it, and gives how many of its characters to replace.
    """

    placeholder: str
    pattern: re.Pattern[str]
    length: Callable[[str, str], int]


class Redactor:
    """Replaces what may not be stored or sent to a model.

    `version` changes whenever the texts that come out may; it is None where nothing is redacted. `count` are the
    replacements made so far (by the user's own function: the texts that it changed).
    """

    def __init__(self, version: str | None = None, replace: Callable[[str], tuple[str, int]] | None = None) -> None:
        self.version = version
        self.count = 0
        self._replace = replace

    def redact(self, text: str) -> str:
        """The text without personal data.

        Raises:
            RedactionError: the user's function failed, or gave back no text.
        """
        if self._replace is None or not text:
            return text
        redacted, count = self._replace(text)
        self.count += count
        return redacted


def load_redactor(name: str | None, folder: Path) -> Redactor:
    """The redaction of that name: `pii`, the user's function `package.module:function`, or (None) none at all.

    The function takes a text and gives one back. It should leave what it gave back before as it is: answers made from
    redacted contexts go through it, too. Its module is looked for in `folder` first.

    Raises:
        SettingsError: there is no such preset or function.
    """
    if name is None:
        return Redactor()
    if name == PRESET:
        parts = [part for kind in _kinds() for part in (kind.placeholder, kind.pattern.pattern)]
        return Redactor(f"{PRESET}@{digest(*parts)[:12]}", _without_personal_data)
    if ":" not in name:
        raise SettingsError(f"redact takes {PRESET}, or package.module:function, not {name!r}")
    function = load_function(name, folder)
    return Redactor(f"{name}@{_source_digest(function)}", lambda text: _by_function(name, function, text))


def _by_function(name: str, function: Callable[[str], object], text: str) -> tuple[str, int]:
    redacted, trouble = None, None
    try:
        redacted = function(text)
    except Exception as error:  # noqa: BLE001 - whatever the user's function does; its words may quote the text
        trouble = f"raised {type(error).__name__}"
    if trouble is None and not isinstance(redacted, str):
        trouble = f"gave back {type(redacted).__name__}, not a text"
    if trouble is not None or not isinstance(redacted, str):
        # Raised here, where no exception that knows the text is its context.
        raise RedactionError(f"redact: {name} {trouble}; the text was neither stored nor sent")
    return redacted, int(redacted != text)


def _source_digest(function: Callable[..., object]) -> str:
    """12 hex digits over the file of a function: its texts may change when that does."""
    try:
        return digest(Path(inspect.getsourcefile(inspect.unwrap(function)) or "").read_bytes())[:12]
    except (TypeError, OSError):
        return "unknown"


def _without_personal_data(text: str) -> tuple[str, int]:
    """Until nothing is found any more: what stood right beside something personal may be so itself."""
    total, found = 0, 1
    while found:
        found = 0
        for kind in _kinds():
            text, count = _replaced(text, kind)
            found += count
        total += found
    return text, total


def _replaced(text: str, kind: _Kind) -> tuple[str, int]:
    pieces: list[str] = []
    kept = position = 0
    while (match := kind.pattern.search(text, position)) is not None:
        start = match.start(1)
        length = kind.length(match[1], text[max(kept, start - _BEFORE) : start])
        position = start + max(length, 1)
        if length:
            pieces += [text[kept:start], kind.placeholder]
            kept = position
    return "".join([*pieces, text[kept:]]), len(pieces) // 2


def _iban_length(candidate: str, _before: str) -> int:
    from stdnum.iso7064 import mod_97_10

    return _longest(candidate, lambda number: 15 <= len(number) <= 34 and mod_97_10.is_valid(number[4:] + number[:4]))


def _card_length(candidate: str, before: str) -> int:
    """Decimals and ISBNs are no cards."""
    from stdnum import isbn, luhn

    def is_card(number: str) -> bool:
        return 13 <= len(number) <= 19 and luhn.is_valid(number) and not isbn.is_valid(number)

    return 0 if _CONTINUED.search(before) else _longest(candidate, is_card)


def _longest(candidate: str, is_one: Callable[[str], bool]) -> int:
    """Another word or number may follow what is meant."""
    return next((end for end, number in reversed(list(_prefixes(candidate))) if is_one(number)), 0)


def _phone_length(candidate: str, before: str, least: int, most: int) -> int:
    """Of the longest part with so many digits, up to where another number begins; parts of other numbers are none."""
    if _CONTINUED.search(before) or _ISBN.search(before):
        return 0
    prefixes = list(_prefixes(candidate))
    total = len(prefixes[-1][1])
    length = digits = 0
    for end, number in prefixes:
        if length and number[digits] == "0" and total - digits >= _NATIONAL_DIGITS:
            break
        digits = len(number)
        if least <= digits <= most:
            length = end
    return length


def _prefixes(candidate: str) -> Iterator[tuple[int, str]]:
    """(end, digits and letters up to there) for each end of a group of digits and letters."""
    number = ""
    for match in re.finditer(r"[^\W_]+", candidate):
        number += match[0].upper()
        yield match.end(), number


@lru_cache(maxsize=1)
def _kinds() -> tuple[_Kind, ...]:
    """What the preset looks for, in this order."""
    return (
        _Kind(
            "[email]",
            re.compile(rf"(?<!{_LOCAL})((?:{_LOCAL})++@(?:[\w-]+\.)+(?:[A-Za-z]{{2,}}|[^\W\d_]{{2,}}))"),
            lambda candidate, _before: len(candidate),
        ),
        _Kind(
            "[iban]",
            re.compile(rf"{WORD_STARTS}([A-Za-z]{{2}}\d\d(?:{_IN_IBAN}{{4}}){{2,7}}(?:{_IN_IBAN}{{1,3}})?){WORD_ENDS}"),
            _iban_length,
        ),
        _Kind(
            "[card]",
            re.compile(
                rf"{WORD_STARTS}([1-9]\d{{3}}(?:(?:{_IN_CARD}{{4}}){{2,3}}(?:{_IN_CARD}{{1,4}})?|{_IN_CARD}{{6}}{_IN_CARD}{{4,5}})){WORD_ENDS}"
            ),
            _card_length,
        ),
        # With the country's code.
        _Kind(
            "[phone]",
            re.compile(
                rf"{WORD_STARTS}((?:\+|00)[1-9](?:\d|(?:[{_SPACE}{_DASH}/()]{{1,3}}|\.){_DATE}\d){{6,20}}){WORD_ENDS}"
            ),
            partial(_phone_length, least=8, most=17),
        ),
        # With the 0 that many countries dial first.
        _Kind(
            "[phone]",
            re.compile(rf"{WORD_STARTS}{_NO_DATE}(0[1-9]\d{{0,10}}(?:{_BETWEEN}{_DATE}\d{{2,8}}){{0,10}}){WORD_ENDS}"),
            partial(_phone_length, least=_NATIONAL_DIGITS, most=13),
        ),
        _Kind(
            "[phone]",
            re.compile(
                rf"(\(0[1-9]\d{{0,4}}\)[{_SPACE}{_DASH}/]{{0,3}}\d{{2,8}}(?:{_BETWEEN}{_DATE}\d{{2,8}}){{0,6}}){WORD_ENDS}"
            ),
            partial(_phone_length, least=7, most=13),
        ),
        # In North America: three, three, four.
        _Kind(
            "[phone]",
            re.compile(
                rf"({WORD_STARTS}(?:1[{_SPACE}.-]?)?(?:\([2-9]\d\d\)[{_SPACE}]?\d{{3}}[{_SPACE}.-]|[1-9]\d\d-\d{{3}}-|[1-9]\d\d\.\d{{3}}\.|"
                rf"[2-9]\d\d[{_SPACE}][2-9]\d\d[{_SPACE}-])\d{{4}}){WORD_ENDS}(?![.,/-]\d)"
            ),
            partial(_phone_length, least=10, most=11),
        ),
        # Any other, where a word says what it is.
        _Kind(
            "[phone]",
            re.compile(
                rf"{WORD_STARTS}(?:{_PHONE_WORDS})(?:\s?(?:no|nr|number))?[\s.:#-]{{0,4}}"
                rf"{_NO_DATE}(?!(?:19|20)\d\d\b)(\(?\d(?:\d|[{_SPACE}{_DASH}/()]{{1,3}}{_DATE}\d){{5,14}}){WORD_ENDS}",
                re.IGNORECASE,
            ),
            lambda candidate, _before: len(candidate),
        ),
    )
