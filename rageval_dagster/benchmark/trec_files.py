"""TREC files, the qrels and the run file that trec_eval reads: read, and written of an evaluation."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar, get_args
from urllib.parse import quote

from rageval_dagster.benchmark.formats.rows import Refusal, RowError, decoded, numbered_lines
from rageval_dagster.errors import DatasetError, unwritable
from rageval_dagster.records import Result

Level = Literal["chunk", "document"]
LEVELS: tuple[str, ...] = get_args(Level)

MAX_RELEVANCE = 1000
"""The highest grade that is read: trec_eval takes time and memory by the grade, minutes a query at 100,000."""

_WHOLE = re.compile(rb"[+-]?[0-9]{1,9}")
_DECIMAL = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_KEPT_AS_IT_IS = "".join(chr(code) for code in range(33, 127) if chr(code) != "%")


Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class TrecFile(Generic[Number]):
    """What a TREC file says: relevance (qrels) or score (run) by document by query, in the order of the file.

    `refused` are the lines that were not read, `repeated` counts lines about a query and document that had one before.
    """

    values: Mapping[str, Mapping[str, Number]]
    refused: Sequence[Refusal]
    repeated: int


def read_qrels(path: Path) -> TrecFile[int]:
    """Reads `query 0 document relevance` lines; the second column says nothing.

    Columns are separated by spaces or tabs, ids are taken as they stand and blank lines passed over. A line is refused
    that has another number of columns, is not UTF-8, or whose relevance is no whole number, or contradicts an earlier
    line.

    Raises:
        DatasetError: the file is absent, empty, or has no line that can be read.
    """
    return _read(path, "query 0 document relevance", _relevance, _same)


def read_run(path: Path) -> TrecFile[float]:
    """Reads `query Q0 document rank score tag` lines, as `read_qrels`; only query, document and score say anything.

    A document that a query has twice keeps its best score, hence its best rank.

    Raises:
        DatasetError: the file is absent, empty, or has no line that can be read.
    """
    return _read(path, "query Q0 document rank score tag", _score, max)


def _read(
    path: Path, layout: str, number: Callable[[bytes], Number], merge: Callable[[Number, Number], Number]
) -> TrecFile[Number]:
    columns = layout.split()
    place = columns.index("relevance") if "relevance" in columns else columns.index("score")
    values: dict[str, dict[str, Number]] = {}
    refused: list[Refusal] = []
    names: dict[bytes, str] = {}  # each id once, however many lines name it
    repeated = 0
    for row, line in numbered_lines(path):
        try:
            cells = _cells(line, columns)
            query = names.get(cells[0]) or names.setdefault(cells[0], _id("query", cells[0]))
            document = names.get(cells[2]) or names.setdefault(cells[2], _id("document", cells[2]))
            value = number(cells[place])
            documents = values.setdefault(query, {})
            if document in documents:
                repeated += 1
                value = merge(documents[document], value)
            documents[document] = value
        except RowError as error:
            refused.append(Refusal(path.name, row, error.field, error.reason))
    if not values:
        raise DatasetError(f"{path}: none of its {len(refused)} lines can be read; {refused[0]}")
    return TrecFile(values, refused, repeated)


def _cells(line: bytes, columns: Sequence[str]) -> list[bytes]:
    # Split as bytes: only what separates columns in C does, and no wide space within an id.
    cells = line.split()
    if len(cells) != len(columns):
        raise RowError(None, f"has {len(cells)} columns, not {len(columns)} ({' '.join(columns)})")
    return cells


def _id(field: str, cell: bytes) -> str:
    try:
        return decoded(cell)
    except RowError as error:
        raise RowError(field, error.reason) from None


def _relevance(cell: bytes) -> int:
    if not _WHOLE.fullmatch(cell) or abs(int(cell)) > MAX_RELEVANCE:
        raise RowError("relevance", f"takes a whole number from {-MAX_RELEVANCE} to {MAX_RELEVANCE}")
    return int(cell)


def _score(cell: bytes) -> float:
    if not _DECIMAL.fullmatch(cell) or not math.isfinite(float(cell)):
        raise RowError("score", "takes a finite number")
    return float(cell)


def _same(earlier: int, relevance: int) -> int:
    if earlier != relevance:
        raise RowError("relevance", "contradicts an earlier line about the same query and document")
    return earlier


def write_trec(folder: Path, results: Mapping[str, Result], level: str, tag: str, stem: str) -> tuple[Path, Path]:
    """Writes `<stem>.qrels` and `<stem>.run` and returns their paths.

    A list is written best first with score = -rank, so that trec_eval, which sorts by score, keeps its order. An id
    that comes back more than once counts where it stands first; at document level that is each document's best chunk.
    Questions without known evidence are in the run, not in the qrels: no measure exists for them. A question for which
    nothing came back is in the qrels only (trec_eval -c counts it as 0, as we do). White space, `%`
    and control characters in ids are percent-encoded, since the files are separated by white space.

    Args:
        results: the results of an evaluation by item id.
        level: `chunk` or `document`.
        tag: the last column of the run file, the system's name.

    Raises:
        DatasetError: the folder cannot be written.
    """
    if level not in LEVELS:
        raise DatasetError(f"the level of a TREC file is {' or '.join(LEVELS)}, not {level!r}")
    qrels, run = folder / f"{stem}.qrels", folder / f"{stem}.run"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(qrels, _qrels_lines(results, level))
        _write(run, _run_lines(results, level, tag))
    except OSError as error:
        what = f"{error.filename or folder} cannot be written"
        raise DatasetError(unwritable(what, error, "write elsewhere")) from None
    return qrels, run


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def _qrels_lines(results: Mapping[str, Result], level: str) -> Iterable[str]:
    for item_id, result in results.items():
        relevant = result.relevant_chunks if level == "chunk" else result.relevant_documents
        for name in sorted(relevant or ()):
            yield f"{_encoded(item_id)} 0 {_encoded(name)} 1"


def _run_lines(results: Mapping[str, Result], level: str, tag: str) -> Iterable[str]:
    for item_id, result in results.items():
        names = (result.found_as(hit) if level == "chunk" else hit.document_id for hit in result.hits)
        for rank, name in enumerate(dict.fromkeys(names), start=1):
            yield f"{_encoded(item_id)} Q0 {_encoded(name)} {rank} {-rank} {_encoded(tag)}"


def _encoded(name: str) -> str:
    """The id as one word. Letters of all scripts stay; what could split a line does not."""
    return "".join(
        character
        if character in _KEPT_AS_IT_IS or (character.isprintable() and ord(character) > 127)
        else quote(character, errors="surrogatepass")
        for character in name
    )
