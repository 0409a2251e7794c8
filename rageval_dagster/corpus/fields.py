"""Reading a stored chunk: which metadata field says what, whatever type it was written with."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rageval_dagster.corpus.readers import TITLE_FIELD
from rageval_dagster.records import Chunk
from rageval_dagster.settings import Settings
from rageval_dagster.storage.types import storable

DEFAULT_DOCUMENT_FIELD = "document_id"
FALLBACK_DOCUMENT_FIELD = "source"
POSITION_FIELD = "position"
LEFT_OUT_FIELD = "rageval_left_out"
TITLE_FIELDS = (
    *(TITLE_FIELD, "document_title", "doc_title", "document_name", "doc_name", "file_name", "filename"),
    FALLBACK_DOCUMENT_FIELD,
)
"""What people call a document whose id is none of these: of LlamaIndex's ids nobody knows one."""
LONGEST_TITLE = 200
"""Characters of a title that are kept: it stands in tables."""

_EXACT = 2**53
"""Below it, a float that is a whole number is that number."""

_YEAR_10000 = 253_402_300_800
"""In seconds since 1970. As many milliseconds are the year 1978."""


@dataclass(frozen=True)
class FieldNames:
    """The names of the metadata fields that hold a chunk's document, time of adding, and page."""

    document: str
    added_at: str
    page: str

    @classmethod
    def from_settings(cls, settings: Settings) -> "FieldNames":
        return cls(settings.document_field or DEFAULT_DOCUMENT_FIELD, settings.added_at_field, settings.page_field)


def read_chunk(chunk_id: str, text: str, metadata: Mapping[str, Any] | None, names: FieldNames) -> Chunk:
    """A chunk from what the store holds of it. A value that makes no sense counts as missing."""
    values = metadata or {}
    document = read_name(values.get(names.document)) or read_name(values.get(FALLBACK_DOCUMENT_FIELD))
    titles = (read_name(values.get(name)) for name in TITLE_FIELDS)
    title = next((each for each in titles if each and each != document), None)
    return Chunk(
        id=chunk_id,
        text=text,
        document_id=storable(document) if document else chunk_id,
        page=read_whole_number(values.get(names.page)),
        position=read_whole_number(values.get(POSITION_FIELD)),
        added_at=read_time(values.get(names.added_at)),
        title=storable(" ".join(title.split())[:LONGEST_TITLE]) if title else None,
        left_out=str(values.get(LEFT_OUT_FIELD) or ""),
    )


def read_time(value: Any) -> datetime | None:
    """An ISO 8601 string (without an offset: UTC) or a number of (milli)seconds since 1970 as UTC time, else None."""
    try:
        if isinstance(value, str):
            try:
                time = datetime.fromisoformat(value.strip())
            except ValueError:
                value = float(value)
            else:
                # Years 1 and 9999 may be moved over the edge by their offset.
                return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value >= _YEAR_10000 else value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def read_whole_number(value: Any) -> int | None:
    """A whole number given as int, float or digits, 0 or more, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return int(value) if value.strip().isdecimal() and len(value) <= 9 else None
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value.is_integer() and 0 <= value < 2**31 else None
    return value if isinstance(value, int) and 0 <= value < 2**31 else None


def read_name(value: Any) -> str | None:
    """What a document or a client is called, else None: 7, 7.0 and "7" are one; truth values and lists are none."""
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if isinstance(value, float) and not math.isfinite(value) else str(value)
