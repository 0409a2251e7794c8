"""The item of a row, by a map from the file's names of fields to ours; what is wrong is said by the file's names."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rageval_dagster.benchmark.formats.rows import (
    Row,
    RowError,
    boolean_field,
    each_of,
    identifier,
    json_rows,
    json_value,
    list_field,
    nonblank,
    object_field,
    objects_field,
    only_fields,
    optional_text,
    page_field,
    page_number,
    question_field,
    some_text,
    some_texts,
    text_field,
    texts_field,
    within,
)
from rageval_dagster.errors import DatasetError
from rageval_dagster.metrics.numbers import numbers
from rageval_dagster.metrics.patterns import PatternError, compile_pattern
from rageval_dagster.records import Evidence, Item

CHECK_KINDS = ("list", "fact", "number", "calculation")
ID_FIELDS = ("query_id", "question_id", "id", "_id")

FIELDS = (
    *("item_id", "question", "answers", "evidence", "category", "answerable", "origin", "human_verified"),
    *("history", "principal", "checks"),
)
"""The fields of the native format. `item_id` is computed from the item; one in a file is not used."""

_OTHER_NAMES = {"correct_answer_document_ids": "correct_answer_document_keys"}
_CHECK_FIELDS = ("name", "kind", "expect", "any_of", "pattern", "forbid", "intermediates")


def item_of(row: Row, fields: Mapping[str, str], question: Callable[[Row, str], str] = question_field) -> Item:
    """The item of a row by a format's fields (the file's name -> ours), read in their order; others are passed over.

    `question` reads its question.

    Raises:
        RowError: naming the field that is wrong.
    """
    values: dict[str, Any] = {}
    for name, ours in fields.items():
        if ours == "question":
            values[ours] = question(row, name)
        elif ours in _FIELDS:
            attribute, read = _FIELDS[ours]
            values[attribute] = read(row, name)
    return Item(**{name: value for name, value in values.items() if value is not None})


def native_item(row: Row) -> Item:
    """The item of a row of the native format, read strictly: an unknown field is refused, so that no typing error is
    lost.

    Raises:
        RowError: naming the field that is wrong.
    """
    only_fields(row, FIELDS)
    some_text(row, "item_id")
    return item_of(row, dict(zip(FIELDS, FIELDS, strict=True)))


def one_answer(row: Row, name: str) -> tuple[str, ...]:
    """The text of a field as the only answer; none where it is missing or blank."""
    answer = optional_text(row, name)
    return () if answer is None else (answer,)


def _evidence(entry: Row) -> Evidence:
    return Evidence(text_field(entry, "document_id"), page_field(entry, "page"), some_text(entry, "quote"))


def _documents(document_ids: Iterable[str]) -> tuple[Evidence, ...]:
    return tuple(map(Evidence, dict.fromkeys(document_ids)))


def _present(row: Row, name: str) -> str:
    other = _OTHER_NAMES.get(name, name)
    return other if row.get(name) is None and row.get(other) is not None else name


def _document_or_chunk(row: Row, name: str) -> tuple[Evidence, ...]:
    chunk_id = optional_text(row, "chunk_id")
    source = optional_text(row, name) or chunk_id
    return _documents([source] if source else [])


def _pages(row: Row, name: str) -> tuple[Evidence, ...]:
    """The evidence of {document id: [pages]}."""
    found: list[Evidence] = []
    for document_id, pages in (object_field(row, name) or {}).items():
        numbered = [page_number(page, name) for page in list_field({name: pages}, name)]
        found += [Evidence(nonblank(document_id, name), page) for page in dict.fromkeys(numbered) or [None]]
    return tuple(found)


def _turn(turn: Row) -> dict[str, str]:
    return {name: text_field(turn, name) for name in ("role", "content")}


# --- checks ----------------------------------------------------------------------------------------------------------


def _checks(row: Row, name: str) -> tuple[dict[str, Any], ...]:
    names: set[str] = set()

    def checked(check: Row) -> dict[str, Any]:
        if text_field(check, "name") in names:
            raise RowError("name", "names two checks of the item")
        names.add(check["name"])
        if text_field(check, "kind") not in CHECK_KINDS:
            raise RowError("kind", f"takes {', '.join(CHECK_KINDS)}")
        _check_expectation(check)
        return dict(check)

    return objects_field(row, name, checked, _CHECK_FIELDS)


def _checks_or_json(row: Row, name: str) -> tuple[dict[str, Any], ...]:
    declared = row.get(name) or None
    return _checks({name: json_value(declared, name) if isinstance(declared, str) else declared}, name)


def _check_expectation(check: Row) -> None:
    """What a check looks for: `expect`, or for its want one of several texts or a pattern.

    A list may have none of them: then it is the one that the reference's bullets make.
    """
    if check["kind"] != "list" and all(check.get(name) in (None, []) for name in ("expect", "any_of", "pattern")):
        raise RowError("expect", "is empty" if check.get("expect") == [] else "is missing")
    in_digits = check["kind"] in ("number", "calculation")
    _check_expected(check, "expect", in_digits)
    each_of(check, "any_of", partial(_check_single, in_digits=in_digits))
    texts_field(check, "forbid")
    if check.get("pattern") is not None:
        try:
            compile_pattern(text_field(check, "pattern"))
        except PatternError as error:
            raise RowError("pattern", str(error)) from None
    intermediates = object_field(check, "intermediates") or {}
    with within("intermediates"):
        for name in intermediates:
            _check_expected(intermediates, name)


def _check_expected(row: Row, name: str, in_digits: bool = False) -> None:
    if isinstance(row.get(name), list):
        each_of(row, name, partial(_check_single, in_digits=in_digits))
    elif row.get(name) is not None:
        _check_single(row[name], name, in_digits)


def _check_single(value: Any, field: str, in_digits: bool) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RowError(field, "takes a text or a number")
    if isinstance(value, str) and nonblank(value, field) and in_digits and not numbers(value):
        raise RowError(field, "has no number in digits; a text is looked for by a check of the kind fact")


# Our name of a field -> what it is of an item, and how it is read.
_FIELDS: Mapping[str, tuple[str, Callable[[Row, str], Any]]] = {
    "reference": ("answers", one_answer),
    "answers": ("answers", texts_field),
    "evidence": ("evidence", partial(objects_field, read=_evidence, known=("document_id", "page", "quote"))),
    "some answers": ("answers", some_texts),
    "documents": ("evidence", lambda row, name: _documents(texts_field(row, name))),
    "some documents": ("evidence", lambda row, name: _documents(some_texts(row, _present(row, name)))),
    "document ids": ("evidence", lambda row, name: _documents(each_of(row, name, identifier))),
    "document or chunk": ("evidence", _document_or_chunk),
    "pages": ("evidence", _pages),
    "category": ("category", some_text),
    "optional category": ("category", optional_text),
    "answerable": ("answerable", partial(boolean_field, default=True)),
    "impossible": ("answerable", lambda row, name: not boolean_field(row, name)),
    "origin": ("origin", some_text),
    "human_verified": ("human_verified", boolean_field),
    "history": ("history", partial(objects_field, read=_turn, known=("role", "content"))),
    "principal": ("principal", object_field),
    "checks": ("checks", _checks),
    "checks or JSON": ("checks", _checks_or_json),
}


# --- questions that a file names by id -------------------------------------------------------------------------------


class Queries:
    """The texts of questions by id, from the file that the user names, if any: `{id: text}`, `{id: {query}}`, or
    objects with id and query in a list or a line each.
    """

    def __init__(self, path: Path | None) -> None:
        """
        Raises:
            DatasetError: the file cannot be read, or holds no question with an id.
        """
        self._is_named = path is not None
        self._texts: dict[str, str] = {}
        for _, row in json_rows(path, key="id") if path is not None else ():
            if not isinstance(row, RowError):
                query_id = row_id(row)
                text = next(
                    (row[name] for name in ("query", "question", "text") if isinstance(row.get(name), str)), None
                )
                for name, value in (row if query_id is None else {query_id: text}).items():
                    if isinstance(value, str):
                        self._texts.setdefault(name, value)
        if self._is_named and not self._texts:
            raise DatasetError(
                f"{path} has no questions by id: it takes {{id: text}}, or objects with an id and a query"
            )

    def known(self, row: Row, name: str, query_id: str | None) -> str | None:
        """The question in the row's field, else the one under the id, if there is one; an id itself is no question."""
        if optional_text(row, name) is not None:
            return question_field(row, name)
        return None if query_id is None else self._texts.get(query_id)

    def required(self, row: Row, name: str) -> str:
        """The question in the row's field, else the one under the row's id."""
        text = self.known(row, name, row_id(row))
        if text is None and not self._is_named:
            raise RowError(name, "is missing; a file with the texts of questions by id can be named with --queries")
        if text is None:
            raise RowError(name, "is missing, and the file of queries has none for its id")
        return question_field({name: text}, name)


def row_id(row: Row) -> str | None:
    """The first id that a row has, as a text."""
    return next((str(row[name]) for name in ID_FIELDS if row.get(name) is not None), None)
