"""CSV files: read row by row whatever is wrong with some of them, and written so that no spreadsheet runs a cell."""

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rageval_dagster.benchmark.formats.parquet import is_parquet
from rageval_dagster.benchmark.formats.rows import RowError, Rows, check_storable, json_rows, read_bytes
from rageval_dagster.errors import DatasetError

# The module's own limit is 128 KB, with one error for the whole file.
csv.field_size_limit(2**31 - 1)

_DELIMITERS = ",;\t"

# What a spreadsheet would run as a formula, or round as a number (an item's id may look like 12e4567); an apostrophe
# before it makes it text.
_NOT_PLAIN = r"(?:[=+\-@\t\r\n]|(?:\d{12,}|\d+[eE]\d+)$)"
_TO_PROTECT = re.compile(rf"'*{_NOT_PLAIN}")
_PROTECTED = re.compile(rf"'+{_NOT_PLAIN}")


@dataclass(frozen=True)
class Table:
    """The rows of a CSV file, each a text by column, the names of its columns, and of those that nobody reads."""

    rows: Rows
    columns: Sequence[str]
    unused: Sequence[str]


def read_table(
    path: Path,
    names: Mapping[str, str],
    required: Collection[str],
    is_known: Callable[[str], bool],
    advice: str | None = None,
) -> Table:
    """Reads a CSV file in UTF-8, its columns separated by comma, semicolon or tab; its first row names them.

    Row numbers are a spreadsheet's. A row that cannot be read is an error in its place: too many or too few columns,
    quotation marks that do not match, a cell that is no text.

    Args:
        names: the file's own names of fields (field -> column).
        required: the fields that have to have a column.
        is_known: whether a column of that name is read.
        advice: what to do where a required column is missing; None: say with --map which one it is.

    Raises:
        DatasetError: the file cannot be read or is empty, or lacks a column that is named or required, or has it twice.
    """
    # What is not UTF-8 becomes halves of surrogate pairs, so that only its cell is refused.
    text = read_bytes(path).decode("utf-8", "surrogateescape")
    lines = list(io.StringIO(text, newline=""))
    wanted = {*names.values(), *(names.get(field, field) for field in required)}
    delimiter = max(_DELIMITERS, key=lambda each: _fit(lines, each, wanted))
    records = enumerate(_records(lines, delimiter), start=1)
    header = next(((number, record) for number, record in records if record), None)
    if header is None or isinstance(header[1], RowError):
        raise DatasetError(f"{path}: the first row does not name the columns (its quotation marks do not match)")
    columns = [column.strip() for column in header[1]]
    _check_columns(path, columns, names, required, advice)
    used = {column: place for place, column in enumerate(columns) if column in wanted or is_known(column)}
    for column in used:
        if columns.count(column) > 1:
            raise DatasetError(f"{path} has {columns.count(column)} columns {column!r}: rename all but one")
    unused = [column for column in dict.fromkeys(columns) if column and column not in used]
    return Table(_rows(records, len(columns), used), columns, unused)


def read_json_or_table(
    path: Path, key: str, names: Mapping[str, str], required: Collection[str], known: Collection[str]
) -> tuple[Rows, Sequence[str]]:
    """The rows of JSON (also an object of rows, each under its `key`) or of a table, and the columns not read."""
    if holds_objects(path):
        return json_rows(path, key=key), ()
    table = read_table(path, names, required, known.__contains__)
    return table.rows, table.unused


def holds_objects(path: Path) -> bool:
    """Whether it is JSON or Parquet, and no table of texts."""
    return is_parquet(path) or read_bytes(path).lstrip().startswith((b"[", b"{"))


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
    """Writes a CSV file with a byte order mark, without which spreadsheets do not take it for UTF-8."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(columns)
        writer.writerows([_protected(row.get(column, "")) for column in columns] for row in rows)


def _protected(cell: str) -> str:
    return f"'{cell}" if _TO_PROTECT.match(cell) else cell


def _unprotected(cell: str) -> str:
    return cell[1:] if _PROTECTED.match(cell) else cell


def _fit(lines: Sequence[str], delimiter: str, wanted: set[str]) -> tuple[int, int]:
    """How many wanted columns, and how many at all, the first row has if this is the delimiter."""
    first = next((record for record in _records(lines, delimiter) if record), [])
    columns = [] if isinstance(first, RowError) else [column.strip() for column in first]
    return len(wanted.intersection(columns)), len(columns)


def _check_columns(
    path: Path, columns: Sequence[str], names: Mapping[str, str], required: Collection[str], advice: str | None
) -> None:
    # The first row is not shown: where a file has no names of columns, it is somebody's question.
    for name, column in names.items():
        if column not in columns:
            raise DatasetError(
                f"{path}: --map {name}={column} names none of the {len(columns)} columns of its first row"
            )
    for name in required:
        if name not in names and name not in columns:
            advice = advice or f"say which one is meant with --map {name}=COLUMN"
            raise DatasetError(f"{path}: none of the {len(columns)} columns of its first row is {name!r}: {advice}")


def _rows(records: Iterable[tuple[int, list[str] | RowError]], width: int, used: Mapping[str, int]) -> Rows:
    for number, record in records:
        if isinstance(record, RowError):
            yield number, record
        elif len(record) not in (0, width):
            yield number, RowError(None, f"has {len(record)} columns, and the first row has {width}")
        elif record:
            try:
                yield number, {column: _cell(record[place], column) for column, place in used.items()}
            except RowError as error:
                yield number, error


def _cell(text: str, column: str) -> str:
    check_storable(column, text)
    return _unprotected(text)


def _records(lines: Sequence[str], delimiter: str) -> Iterator[list[str] | RowError]:
    """The records of a file, an error in place of each that cannot be told from what follows it.

    After an error reading goes on at the line after the one where the record began: what a stray quotation mark
    swallowed is not lost.
    """
    start = 0
    while start < len(lines):
        read = 0
        reader = csv.reader((lines[line] for line in range(start, len(lines))), delimiter=delimiter, strict=True)
        try:
            for record in reader:
                yield record
                read = reader.line_num
            return
        except csv.Error:
            yield RowError(None, "has quotation marks that do not match")
            start += read + 1
