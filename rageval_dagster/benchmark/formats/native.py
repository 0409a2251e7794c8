"""The native format: JSON Lines, one item a line with every field."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rageval_dagster.benchmark.formats.rows import (
    ReadOptions,
    ReadReport,
    Row,
    RowError,
    boolean_field,
    json_lines,
    list_field,
    nonblank,
    object_value,
    only_fields,
    question_field,
    read_items,
    text_field,
    texts_field,
    write_json_lines,
)
from rageval_dagster.errors import DatasetError
from rageval_dagster.metrics.numbers import numbers
from rageval_dagster.metrics.patterns import PatternError, compile_pattern
from rageval_dagster.records import Evidence, Item

CHECK_KINDS = ("list", "fact", "number", "calculation")

FIELDS = (
    *("item_id", "question", "answers", "evidence", "category", "answerable", "origin", "human_verified"),
    *("history", "principal", "checks"),
)
_EVIDENCE_FIELDS = frozenset(["document_id", "page", "quote"])
_TURN_FIELDS = frozenset(["role", "content"])
_CHECK_FIELDS = frozenset(["name", "kind", "expect", "any_of", "pattern", "forbid", "intermediates"])


def read(path: Path, options: ReadOptions) -> ReadReport:
    """Reads a file strictly: an unknown field or a wrong type refuses its row, so that no typing error is lost.

    Only `question` is required. `item_id` is computed from the item; one in the file is not used.

    Raises:
        DatasetError: the file cannot be read or is empty.
    """
    if path.is_dir():
        raise DatasetError(f"{path} is a folder; the native format is a file of JSON Lines")
    return read_items(path, json_lines(path), item_from_row, options)


def write(items: Iterable[Item], path: Path) -> None:
    """Writes a file that `read` gives back as equal items."""
    write_json_lines(path, (item.to_dict() for item in items))


def item_from_row(row: Row) -> Item:
    """The item of a row.

    Raises:
        RowError: naming the field that is wrong.
    """
    only_fields(row, frozenset(FIELDS))
    if row.get("item_id") is not None:
        text_field(row, "item_id")
    category = row.get("category")
    origin = row.get("origin")
    principal = row.get("principal")
    return Item(
        question=question_field(row, "question"),
        answers=texts_field(row, "answers"),
        evidence=tuple(_evidence(row)),
        category="factual_lookup" if category is None else nonblank(category, "category"),
        answerable=boolean_field(row, "answerable", default=True),
        origin="imported" if origin is None else nonblank(origin, "origin"),
        human_verified=boolean_field(row, "human_verified", default=False),
        history=tuple(_history(row)),
        principal=None if principal is None else object_value(principal, "principal"),
        checks=read_checks(row),
    )


def _evidence(row: Row) -> Iterator[Evidence]:
    for index, value in enumerate(list_field(row, "evidence")):
        field = f"evidence[{index}]"
        entry = object_value(value, field)
        only_fields(entry, _EVIDENCE_FIELDS, f"{field}.")
        page, quote = entry.get("page"), entry.get("quote")
        yield Evidence(
            document_id=text_field(entry, "document_id", f"{field}.document_id"),
            page=None if page is None else page_number(page, f"{field}.page"),
            quote=None if quote is None else nonblank(quote, f"{field}.quote"),
        )


def page_number(value: Any, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**31:
        raise RowError(field, "takes a whole number of at least 1")
    return value


def _history(row: Row) -> Iterator[dict[str, str]]:
    for index, value in enumerate(list_field(row, "history")):
        field = f"history[{index}]"
        turn = object_value(value, field)
        only_fields(turn, _TURN_FIELDS, f"{field}.")
        yield {name: text_field(turn, name, f"{field}.{name}") for name in ("role", "content")}


def read_checks(row: Row) -> tuple[dict[str, Any], ...]:
    """The checks of a row.

    Raises:
        RowError: naming the field that is wrong.
    """
    return tuple(_checks(row))


def _checks(row: Row) -> Iterator[dict[str, Any]]:
    names: set[str] = set()
    for index, value in enumerate(list_field(row, "checks")):
        field = f"checks[{index}]"
        check = object_value(value, field)
        only_fields(check, _CHECK_FIELDS, f"{field}.")
        name = text_field(check, "name", f"{field}.name")
        if name in names:
            raise RowError(f"{field}.name", "names two checks of the item")
        names.add(name)
        if text_field(check, "kind", f"{field}.kind") not in CHECK_KINDS:
            raise RowError(f"{field}.kind", f"takes {', '.join(CHECK_KINDS)}")
        _check_expectation(check, field)
        yield check


def _check_expectation(check: Row, field: str) -> None:
    """What a check looks for: `expect`, or for its want one of several texts or a pattern.

    A list may have none of them: then it is the one that the reference's bullets make.
    """
    if check["kind"] != "list" and all(check.get(name) in (None, []) for name in ("expect", "any_of", "pattern")):
        raise RowError(f"{field}.expect", "is empty" if check.get("expect") == [] else "is missing")
    as_number = check["kind"] in ("number", "calculation")
    _check_expected(check.get("expect"), f"{field}.expect", as_number)
    for index, value in enumerate(list_field(check, "any_of", f"{field}.any_of")):
        _check_single(value, f"{field}.any_of[{index}]", as_number)
    texts_field(check, "forbid", f"{field}.forbid")
    if check.get("pattern") is not None:
        try:
            compile_pattern(text_field(check, "pattern", f"{field}.pattern"))
        except PatternError as error:
            raise RowError(f"{field}.pattern", str(error)) from None
    if check.get("intermediates") is not None:
        intermediates = object_value(check["intermediates"], f"{field}.intermediates")
        for name, value in intermediates.items():
            _check_expected(value, f"{field}.intermediates.{name}")


def _check_expected(value: Any, field: str, as_number: bool = False) -> None:
    if isinstance(value, list):
        for index, entry in enumerate(value):
            _check_single(entry, f"{field}[{index}]", as_number)
    elif value is not None:
        _check_single(value, field, as_number)


def _check_single(value: Any, field: str, as_number: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RowError(field, "takes a text or a number")
    if isinstance(value, str):
        nonblank(value, field)
        if as_number and not numbers(value):
            raise RowError(field, "has no number in digits; a text is looked for by a check of the kind fact")
