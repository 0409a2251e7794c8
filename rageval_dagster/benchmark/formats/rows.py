"""Rows of files: read strictly (what a refusal says, the checks of single fields), and written as JSON."""

import difflib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from rageval_dagster.benchmark.formats.parquet import is_parquet, parquet_values
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Item
from rageval_dagster.text import json_kind

MAX_QUESTION_BYTES = 1_000_000

_MAX_DEPTH = 50
"""Lists and objects within each other: far below what Python's recursion allows, here and wherever an item is read."""


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about a file.

    `columns` gives the file's own name of a field (field -> column); `queries` is the file with the texts of questions
    that the first one names by id.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    queries: Path | None = None


@dataclass(frozen=True)
class Refusal:
    """A row that was not imported: the file, its row (1-based), the field where it is one field's fault, and why.

    A row is a line of JSON Lines, an entry of a JSON list or object, a row of a spreadsheet (the header is row 1). The
    reason never quotes what stands in it.
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
    """What came of reading a file: numbered items in its order, and the rows that were refused.

    `left_out` counts questions that the file itself says are not part of this benchmark (another split), `unused` names
    the columns of a table that are not read, `chunk_ids` gives the chunk that a row names beside its document, by
    item id.
    """

    rows: list[tuple[int, Item]]
    refused: list[Refusal]
    left_out: int = 0
    unused: Sequence[str] = ()
    chunk_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def items(self) -> list[Item]:
        return [item for _, item in self.rows]


class RowError(Exception):
    """Why a row cannot be used; becomes a `Refusal` with file and row."""

    def __init__(self, field: str | None, reason: str) -> None:
        super().__init__(reason)
        self.field = field
        self.reason = reason


T = TypeVar("T")
Row = Mapping[str, Any]
Rows = Iterable[tuple[int, Row | RowError]]
"""Numbered rows; in place of one that cannot be read, why."""


def read_items(
    path: Path, rows: Rows, convert: Callable[[Row], Item], options: ReadOptions, repeated: str | None = None
) -> ReadReport:
    """The items that `convert` makes of rows, whose fields have the file's own names where the options say so.

    A row that repeats an item is refused for the field `repeated`.

    Raises:
        DatasetError: no row has a field that the options name.
    """
    found, refused = read_rows(path, rows, convert, options)
    kept = without_repetition(found, path.name, refused, _own_name(repeated, options.columns))
    return ReadReport(kept, sorted(refused, key=lambda refusal: refusal.row))


def read_rows(
    path: Path, rows: Rows, convert: Callable[[Row], T], options: ReadOptions
) -> tuple[list[tuple[int, T]], list[Refusal]]:
    """What `convert` makes of each row, numbered, and the rows that it or the reading refused.

    Raises:
        DatasetError: no row has a field that the options name.
    """
    names = options.columns
    found: list[tuple[int, T]] = []
    refused: list[Refusal] = []
    missing = dict(names)
    for number, row in rows:
        try:
            if isinstance(row, RowError):
                raise row
            missing = {name: column for name, column in missing.items() if column not in row}
            found.append((number, convert(_renamed(row, names))))
        except RowError as error:
            refused.append(Refusal(path.name, number, _own_name(error.field, names), error.reason))
    if missing and (found or refused):
        name, column = next(iter(missing.items()))
        raise DatasetError(f"no row of {path} has {column!r}, which --map {name}={column} names")
    return found, refused


def _renamed(row: Row, names: Mapping[str, str]) -> Row:
    if not names:
        return row
    taken = {*names, *names.values()}
    kept = {name: value for name, value in row.items() if name not in taken}
    return kept | {name: row[column] for name, column in names.items() if column in row}


def _own_name(field: str | None, names: Mapping[str, str]) -> str | None:
    """What the file calls a field, parts of it such as `history[0].role` included."""
    root = re.match(r"[^.\[]*", field or "")
    if field is None or root is None or root.group() not in names:
        return field
    return names[root.group()] + field[root.end() :]


def without_repetition(
    rows: Iterable[tuple[int, Item]], file: str, refused: list[Refusal], field: str | None = None
) -> list[tuple[int, Item]]:
    """Numbered rows without those that are the same item as an earlier one, which are refused."""
    first_row: dict[str, int] = {}
    kept: list[tuple[int, Item]] = []
    for number, item in rows:
        first = first_row.setdefault(item.item_id, number)
        if first == number:
            kept.append((number, item))
        else:
            refused.append(Refusal(file, number, field, f"is the same item as row {first}"))
    return kept


# --- files -----------------------------------------------------------------------------------------------------------


def read_bytes(path: Path) -> bytes:
    """A file's content, without a UTF-8 byte order mark.

    Raises:
        DatasetError: the file is absent, unreadable, has nothing in it, or is UTF-16.
    """
    if path.is_dir():
        raise DatasetError(f"{path} is a folder, and a file is needed")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read ({error.strerror})") from None
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DatasetError(f"{path} is UTF-16: save it as UTF-8")
    content = content.removeprefix(b"\xef\xbb\xbf")
    if not content.strip():
        raise DatasetError(f"{path} is empty")
    return content


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


def json_lines(path: Path) -> Rows:
    """The rows of a JSON Lines file, or of a Parquet file."""
    if is_parquet(path):
        yield from _parquet_rows(path)
        return
    for number, line in numbered_lines(path):
        try:
            yield number, _checked(_json(decoded(line), None))
        except RowError as error:
            yield number, error


def _parquet_rows(path: Path) -> Rows:
    for number, value in enumerate(parquet_values(path), start=1):
        try:
            yield number, RowError(None, "is not UTF-8") if value is None else _checked(value)
        except RowError as error:
            yield number, error


def json_rows(
    path: Path,
    inside: str | None = None,
    key: str | None = None,
    rows_of: Callable[[Any], list[Any]] = lambda entry: [entry],
) -> Rows:
    """The rows of a JSON file: a list of objects, JSON Lines, or one object; or of a Parquet file.

    Args:
        inside: an object may hold the list under this name.
        key: an object of objects (most of its values are) is taken for rows, each of which has its name as this field,
            unless it has one.
        rows_of: the rows that an entry of the list stands for, where that may be several.

    Raises:
        DatasetError: the file is absent, empty, or not JSON.
    """
    if is_parquet(path):
        yield from _parquet_rows(path)
        return
    # What is not UTF-8 becomes halves of surrogate pairs, so that only its row is refused.
    text = read_bytes(path).decode("utf-8", "surrogateescape")
    try:
        value = _parsed(text, strict=False)
    except json.JSONDecodeError as error:
        if text.lstrip().startswith("{"):
            yield from json_lines(path)
            return
        raise DatasetError(f"{path} is not JSON (line {error.lineno}, column {error.colno}: {error.msg})") from None
    except RecursionError:
        raise DatasetError(f"{path} is not JSON (nested too deeply)") from None
    if isinstance(value, dict):
        if inside is not None and isinstance(value.get(inside), list):
            value = value[inside]
        elif key is not None and _holds_objects(value):
            value = [{key: name, **entry} if isinstance(entry, dict) else entry for name, entry in value.items()]
        else:
            value = [value]
    entries = value if isinstance(value, list) else [value]
    for number, entry in enumerate(chain.from_iterable(map(rows_of, entries)), start=1):
        try:
            yield number, _checked(entry)
        except RowError as error:
            yield number, error


def _holds_objects(value: Mapping[str, Any]) -> bool:
    """Whether most of an object's values are objects, so that it is not one itself."""
    usable = [entry for entry in value.values() if not isinstance(entry, _Unusable)]
    return not value or 2 * sum(isinstance(entry, dict) for entry in usable) > len(usable)


def json_value(text: str, field: str) -> Any:
    """The JSON value of a field's text."""
    value = _json(text, field)
    check_storable(field, value)
    return value


def _json(text: str, field: str | None) -> Any:
    try:
        return _parsed(text)
    except (json.JSONDecodeError, RecursionError):
        raise RowError(field, "is not JSON") from None


class _Unusable:
    """Stands in a parsed JSON value where something cannot be used; whoever checks the value says so."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _parsed(text: str, strict: bool = True) -> Any:
    return json.loads(
        text,
        strict=strict,
        object_pairs_hook=_object,
        parse_constant=lambda name: _Unusable(f"holds {name}, which is not JSON"),
        parse_float=_float,
        parse_int=_whole_number,
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        result[name] = _Unusable("is given twice") if name in result else value
    return result


def _float(text: str) -> float | _Unusable:
    value = float(text)
    return _Unusable("holds a number that is too large") if math.isinf(value) else value


def _whole_number(text: str) -> int | _Unusable:
    try:
        return int(text)
    except ValueError:
        return _Unusable("holds a number that is too long")


def _checked(value: Any) -> Row:
    if isinstance(value, _Unusable):
        raise RowError(None, value.reason)
    if not isinstance(value, dict):
        raise RowError(None, "is not a JSON object")
    for name, entry in value.items():
        check_storable(name, name)
        check_storable(name, entry)
    return value


def write_json(path: Path, value: Any) -> None:
    """Writes one JSON value, indented."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        json.dump(value, file, ensure_ascii=False, indent=2)
        file.write("\n")


def write_json_lines(path: Path, rows: Iterable[Row]) -> None:
    """Writes JSON Lines, a row each."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def check_storable(field: str, value: Any, depth: int = 0) -> None:
    """Refuses what no database can store, at any depth: NUL characters, bytes that were no text, bad numbers."""
    if isinstance(value, _Unusable):
        raise RowError(field, value.reason)
    if depth > _MAX_DEPTH:
        raise RowError(field, "is nested too deeply")
    if isinstance(value, str):
        if "\0" in value:
            raise RowError(field, "holds a NUL character")
        if not value.isascii() and (half := re.search("[\ud800-\udfff]", value)):
            # What `surrogateescape` makes of bytes that are no text.
            is_byte = "\udc80" <= half.group() <= "\udcff"
            raise RowError(field, "is not UTF-8" if is_byte else "holds half of a surrogate pair")
    elif isinstance(value, dict):
        for name, entry in value.items():
            check_storable(field, name)
            check_storable(field, entry, depth + 1)
    elif isinstance(value, list):
        for entry in value:
            check_storable(field, entry, depth + 1)


# --- single fields: each returns the value, or raises RowError with the field's name ---------------------------------


def question_field(row: Row, name: str) -> str:
    question = text_field(row, name)
    if len(question.encode()) > MAX_QUESTION_BYTES:
        raise RowError(name, "is longer than 1 MB")
    return question


def text_field(row: Row, name: str) -> str:
    """A required string that is more than white space."""
    if row.get(name) is None:
        raise missing(row, name)
    return nonblank(row[name], name)


def missing(row: Row, name: str) -> RowError:
    """That a field is missing, and which of the row's names may be it, misspelt."""
    near = difflib.get_close_matches(name, [other for other in row if other != name], n=1, cutoff=0.8)
    return RowError(name, f"is missing; the row has {near[0]!r}: did you mean {name}?" if near else "is missing")


def some_text(row: Row, name: str) -> str | None:
    """A string that is more than white space, None where there is none."""
    return None if row.get(name) is None else nonblank(row[name], name)


def optional_text(row: Row, name: str) -> str | None:
    """A string, None where there is none or it is blank."""
    value = row.get(name)
    return None if isinstance(value, str) and not value.strip() else some_text(row, name)


def nonblank(value: Any, field: str) -> str:
    if not string(value, field).strip():
        raise RowError(field, "is empty")
    return value


def string(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise RowError(field, f"takes a string, not {json_kind(value)}")
    return value


def boolean_field(row: Row, name: str, default: bool = False) -> bool:
    value = row.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise RowError(name, f"takes true or false, not {json_kind(value)}")
    return value


def page_field(row: Row, name: str) -> int | None:
    return None if row.get(name) is None else page_number(row[name], name)


def page_number(value: Any, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**31:
        raise RowError(field, "takes a whole number of at least 1")
    return value


def identifier(value: Any, field: str) -> str:
    """An id as a text: it may be a whole number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RowError(field, f"takes a string or a whole number, not {json_kind(value)}")
    if not str(value).strip():
        raise RowError(field, "is empty")
    return str(value)


def object_value(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RowError(field, f"takes an object, not {json_kind(value)}")
    return value


def object_field(row: Row, name: str) -> dict[str, Any] | None:
    return None if row.get(name) is None else object_value(row[name], name)


def list_field(row: Row, name: str) -> list[Any]:
    value = row.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise RowError(name, f"takes a list, not {json_kind(value)}")
    return value


def texts_field(row: Row, name: str) -> tuple[str, ...]:
    return each_of(row, name, nonblank)


def some_texts(row: Row, name: str) -> tuple[str, ...]:
    """A required list with at least one string."""
    if row.get(name) is None:
        raise missing(row, name)
    texts = texts_field(row, name)
    if not texts:
        raise RowError(name, "is empty")
    return texts


def each_of(row: Row, name: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
    """What `read` makes of each value of a list and of its place, such as `answers[0]`."""
    return tuple(read(value, f"{name}[{index}]") for index, value in enumerate(list_field(row, name)))


def objects_field(row: Row, name: str, read: Callable[[Row], T], known: Collection[str] | None) -> tuple[T, ...]:
    """What `read` makes of each object of a list, which has no other fields than the known ones, if these are said."""

    def entry(value: Any, place: str) -> T:
        found = object_value(value, place)
        with within(place):
            if known is not None:
                only_fields(found, known)
            return read(found)

    return each_of(row, name, entry)


@contextmanager
def within(place: str) -> Iterator[None]:
    """A field that is wrong here is named with its place: `role` as `history[0].role`."""
    try:
        yield
    except RowError as error:
        raise RowError(f"{place}.{error.field}", error.reason) from None


def only_fields(row: Row, known: Collection[str]) -> None:
    for name in row:
        if name not in known:
            raise RowError(name, f"is not a field here (known: {', '.join(sorted(known))})")
