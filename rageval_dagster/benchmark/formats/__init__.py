"""Datasets as files: the formats by name, and reading and writing them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rageval_dagster.benchmark.formats import beir, native
from rageval_dagster.benchmark.formats.rows import ReadReport, Refusal
from rageval_dagster.errors import DatasetError
from rageval_dagster.records import Item

__all__ = ["FORMATS", "Format", "ReadReport", "Refusal", "read_dataset", "write_dataset"]


@dataclass(frozen=True)
class Format:
    read: Callable[[Path], ReadReport]
    write: Callable[[Sequence[Item], Path], None]


FORMATS: dict[str, Format] = {
    "native": Format(native.read, native.write),
    "beir": Format(beir.read, beir.write),
}


def read_dataset(path: Path, format_name: str = "native") -> ReadReport:
    """Reads a dataset: the items in the file's order, and every row that was refused with file, row and field.

    Of rows that are the same item (question, answers, evidence, history, principal) the first counts.

    Raises:
        DatasetError: an unknown format, or a file that is absent, unreadable or empty.
    """
    if not path.exists():
        raise DatasetError(f"{path} does not exist")
    return _format(format_name).read(path)


def write_dataset(items: Sequence[Item], path: Path, format_name: str = "native") -> None:
    """Writes a dataset to a file (`beir`: into a folder).

    Raises:
        DatasetError: an unknown format, or a place that cannot be written.
    """
    try:
        _format(format_name).write(items, path)
    except OSError as error:
        raise DatasetError(f"{error.filename or path} cannot be written ({error.strerror})") from None


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise DatasetError(f"unknown format {name!r}; known: {', '.join(FORMATS)}")
    return FORMATS[name]
