"""Reading rows strictly: what a refusal says, lines of JSON, and the checks of single fields."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Item


@dataclass(frozen=True)
class Refusal:
    """A row that was not imported: the file, its line (1-based), the field where it is one field's fault, and why.

    The reason never quotes what stands in the row.
    """

    file: str
    row: int
    field: str | None
    reason: str

    def __str__(self) -> str:
        field = f", field {self.field}" if self.field else ""
        return f"{self.file}, row {self.row}{field}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ReadReport:
    """What came of reading a file: the items in its order, and the rows that were refused.

    `left_out` counts questions that the file itself says are not part of this benchmark (another split).
    """

    items: list[Item]
    refused: list[Refusal]
    left_out: int = 0


class RowError(Exception):
    """Why a row cannot be used; becomes a `Refusal` with file and row."""

    def __init__(self, field: str | None, reason: str) -> None:
        super().__init__(reason)
        self.field = field
        self.reason = reason


def without_repetition(rows: Iterable[tuple[int, Item]], file: str, refused: list[Refusal]) -> list[Item]:
    """The items of numbered rows; a row that is the same item as an earlier one is refused."""
    first_row: dict[str, int] = {}
    items: list[Item] = []
    for number, item in rows:
        first = first_row.setdefault(item.item_id, number)
        if first == number:
            items.append(item)
        else:
            refused.append(Refusal(file, number, None, f"is the same item as row {first}"))
    return items


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, with their numbers (1-based), without a byte order mark.

    Raises:
        DatasetError: the file is absent, unreadable or has nothing in it.
    """
    found = False
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                content = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if content.strip():
                    found = True
                    yield number, content.rstrip(b"\r\n")
    except OSError as error:
        raise DatasetError(f"{path} cannot be read ({error.strerror})") from None
    if not found:
        raise DatasetError(f"{path} is empty")


def decoded(line: bytes) -> str:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise RowError(None, "is not UTF-8") from None
    if "\0" in text:
        raise RowError(None, "holds a NUL character")
    return text


def json_object(line: bytes) -> dict[str, Any]:
    """The JSON object of a line; names given twice, NaN, and strings that no database can store are refused."""
    try:
        value = json.loads(
            decoded(line),
            object_pairs_hook=_object_without_repetition,
            parse_constant=_no_constant,
            parse_float=_finite_number,
        )
    except (json.JSONDecodeError, RecursionError):
        raise RowError(None, "is not JSON") from None
    except ValueError:
        raise RowError(None, "holds a number that is too long") from None
    if not isinstance(value, dict):
        raise RowError(None, "is not a JSON object")
    for name, entry in value.items():
        _check_storable(name, entry)
    return value


def _object_without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise RowError(name, "is given twice")
        result[name] = value
    return result


def _no_constant(name: str) -> None:
    raise RowError(None, f"holds {name}, which is not JSON")


def _finite_number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise RowError(None, "holds a number that is too large")
    return value


def _check_storable(field: str, value: Any) -> None:
    """Refuses NUL characters and halves of surrogate pairs, at any depth."""
    if isinstance(value, str):
        if "\0" in value:
            raise RowError(field, "holds a NUL character")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise RowError(field, "holds half of a surrogate pair")
    elif isinstance(value, dict):
        for name, entry in value.items():
            _check_storable(field, name)
            _check_storable(field, entry)
    elif isinstance(value, list):
        for entry in value:
            _check_storable(field, entry)


# --- single fields: each returns the value, or raises RowError with the field's name ---------------------------------


def text_field(row: Mapping[str, Any], name: str, field: str | None = None) -> str:
    """A required string that is more than white space. `field` is the name to say where it is nested."""
    value = row.get(name)
    if value is None:
        raise RowError(field or name, "is missing")
    return nonblank(value, field or name)


def nonblank(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise RowError(field, f"takes a string, not {_kind(value)}")
    if not value.strip():
        raise RowError(field, "is empty")
    return value


def boolean_field(row: Mapping[str, Any], name: str, default: bool) -> bool:
    value = row.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise RowError(name, f"takes true or false, not {_kind(value)}")
    return value


def list_field(row: Mapping[str, Any], name: str, field: str | None = None) -> list[Any]:
    value = row.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise RowError(field or name, f"takes a list, not {_kind(value)}")
    return value


def texts_field(row: Mapping[str, Any], name: str, field: str | None = None) -> tuple[str, ...]:
    field = field or name
    return tuple(nonblank(value, f"{field}[{index}]") for index, value in enumerate(list_field(row, name, field)))


def object_value(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RowError(field, f"takes an object, not {_kind(value)}")
    return value


def only_fields(row: Mapping[str, Any], known: frozenset[str], prefix: str = "") -> None:
    for name in row:
        if name not in known:
            raise RowError(f"{prefix}{name}", f"is no field here (known: {', '.join(sorted(known))})")


def _kind(value: Any) -> str:
    return {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }[type(value)]
