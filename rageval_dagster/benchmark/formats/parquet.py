"""Parquet files, as the Hugging Face hub has them: their rows as JSON values, a batch at a time in memory."""

import math
from collections.abc import Iterator
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rageval_dagster.errors import DatasetError

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 1_000
"""Rows in memory at once; how a file is cut into row groups is its writer's choice."""

_MAGIC = b"PAR1"


def is_parquet(path: Path) -> bool:
    """By how it begins, whatever it is called."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def parquet_values(path: Path) -> Iterator[dict[str, Any] | None]:
    """Each row as an object of JSON values: a time as ISO 8601, NaN, which stands for nothing there, as None.

    A row with a text that is not UTF-8 is None itself.

    Raises:
        DatasetError: pyarrow is not installed, or the file is damaged.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise DatasetError(
            f"{path} is a Parquet file, which pyarrow reads: pip install 'rageval-dagster[parquet]', or save it as JSON"
        ) from None
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH, use_threads=False):
                yield from _values(batch)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n", 1)[0]
        raise DatasetError(f"{path} is not a readable Parquet file ({reason})") from None


def _values(batch: "pa.RecordBatch") -> Iterator[dict[str, Any] | None]:
    try:
        rows = batch.to_pylist(maps_as_pydicts="lossy")
    except UnicodeDecodeError:
        if batch.num_rows == 1:
            yield None
            return
        for place in range(batch.num_rows):
            yield from _values(batch.slice(place, 1))
        return
    yield from map(_plain, rows)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.isoformat() if isinstance(value, date | time) else value
