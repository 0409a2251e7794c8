"""Numbers in running text, in any script's digits, in a canonical form in which equal numbers are equal strings."""

import re

from rageval_dagster.text import CHARACTER_SCRIPTS

# What is written differently and means the same: full-width forms, Arabic separators and percent, minus and dash signs,
# the apostrophe and the narrow spaces that group digits.
_PLAIN = str.maketrans(
    {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | dict.fromkeys(map(ord, "٪﹪"), "%")
    | dict.fromkeys(map(ord, "−–﹣"), "-")
    | dict.fromkeys(map(ord, "\u00a0\u2009\u202f"), "\u00a0")
    | {ord("٫"): ".", ord("٬"): ",", ord("’"): "'"}
)

_NUMBER = re.compile(r"\.?\d+(?:[.,'\u00a0]\d+)*(?P<unit>[\u00a0 ]?(?:%|‰|per ?cent\b))?", re.IGNORECASE)

# What stands before a number, up to a currency sign. A hyphen is a sign only where a number may begin: not in "C-1",
# "10-20" or "2020-05-12". Scripts that put no space between words have the sign right after a letter.
_SIGN = re.compile(rf"(?:(?<![\w\-)\]%])|(?<=[{CHARACTER_SCRIPTS}]))-(?:[^\w\s.\-][\u00a0 ]?)?\Z")

_GROUPED = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|[1-9]\d?(?:,\d\d)+,\d{3}(?:\.\d+)?")
_GROUPED_OTHERWISE = re.compile(r"[1-9]\d{0,2}(?:['\u00a0]\d{3})+(?:[.,]\d+)?")
_GROUPED_BY_DOTS = re.compile(r"[1-9]\d{0,2}(?:(?:\.\d{3}){2,}(?:,\d+)?|\.\d{3},\d+)")
_DECIMAL = re.compile(r"\d*[.,]\d+")
_SEPARATORS = re.compile(r"[.,'\u00a0]")


def numbers(text: str) -> frozenset[str]:
    """The distinct numbers of a text, each as sign, digits and unit: `604`, `-0.133%`, `1234.5`.

    Currency signs, leading and trailing zeros and the grouping of digits do not count; sign, `%` and `‰` do.
    `1,234` is a thousand and more, `0,305` and `3,5` have a decimal comma, `1.234.567` has dots that group; what has
    several separators and is none of these (a version, a date, a list) gives its parts.
    """
    if not text.isascii():
        text = text.translate(_PLAIN)
    found: set[str] = set()
    for match in _NUMBER.finditer(text):
        start, unit = match.start(), match["unit"] or ""
        body = match.group()[: len(match.group()) - len(unit)]
        if not body.isascii():
            body = "".join(str(int(each)) if each.isdecimal() else each for each in body)
        if body[0] == "." and start and (text[start - 1].isalnum() or text[start - 1] == "."):
            body = body[1:]
        parts = _values(body)
        if unit:
            parts[-1] += "‰" if unit.endswith("‰") else "%"
        if parts[0] != "0" and "-" in text[max(0, start - 3) : start] and _SIGN.search(text, max(0, start - 4), start):
            parts[0] = "-" + parts[0]
        found.update(parts)
    return frozenset(found)


def _values(body: str) -> list[str]:
    if not body.isdecimal():
        if _GROUPED.fullmatch(body):
            body = body.replace(",", "")
        elif _GROUPED_BY_DOTS.fullmatch(body):
            body = body.replace(".", "").replace(",", ".")
        elif _GROUPED_OTHERWISE.fullmatch(body):
            body = body.replace("'", "").replace("\u00a0", "").replace(",", ".")
        elif _DECIMAL.fullmatch(body):
            body = body.replace(",", ".")
        else:
            return [part.lstrip("0") or "0" for part in _SEPARATORS.split(body) if part]
    # Strings, not numbers: a megabyte of digits stays linear.
    whole, _, fraction = body.partition(".")
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    return [f"{whole}.{fraction}" if fraction else whole]
