"""Reading documents from files: .md, .txt, .html, .pdf, and .jsonl with a document a row."""

import json
import math
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rageval_dagster.corpus.html_pages import html_text
from rageval_dagster.errors import RagevalError

FILE_S = 300
"""How many seconds an ingestion waits for a file, of a .jsonl for each row."""

MEMORY_BYTES = 2 * 2**30
"""What reading a file may take."""

DOCUMENT_CHARACTERS = 50_000_000
ROW_BYTES = 64 * 2**20

TITLE_FIELD = "title"
METADATA_FIELDS = 1_000
"""Of a row: at some 5,000 Chroma fails, and never again takes anything into the collection."""

TOO_LARGE = f"it takes more than {MEMORY_BYTES / 2**30:g} GiB of memory"

Scalar = str | int | float | bool

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_RESERVED = ("#", "$", "chroma:")
"""Beginnings of metadata fields that Chroma refuses, or keeps to itself."""


class ReadError(RagevalError):
    """A file or a row of it cannot be read as documents; the message says why, without naming the file."""


@dataclass(frozen=True)
class Section:
    """A stretch of a document's text that chunks do not cross: a page where the document has pages, else all of it."""

    text: str
    page: int | None = None


@dataclass(frozen=True)
class Document:
    """A document's text in sections. `id` is None where the file's name identifies it.

    `left_out` is what stands in the file and is no part of the text: a page's navigation, for one.
    """

    sections: list[Section]
    id: str | None = None
    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    is_markdown: bool = False
    left_out: str = ""


def is_readable(path: Path) -> bool:
    """Whether the file's name ends in a way that `read_documents` knows."""
    return path.suffix.lower() in _READERS


def count_documents(path: Path) -> int:
    """About how many documents the file holds, for progress: of a long .jsonl its beginning is counted."""
    try:
        if path.suffix.lower() != ".jsonl" or not path.is_file():
            return 1
        with path.open("rb") as file:
            beginning = file.read(ROW_BYTES)
        rows = sum(1 for line in beginning.split(b"\n") if line.strip())
        return rows * max(path.stat().st_size, 1) // max(len(beginning), 1)
    except OSError:
        return 1


def read_documents(path: Path) -> Iterator[Document | ReadError]:
    """The documents of a file, in order; in place of each row that cannot be read its error.

    A hostile file may end the process that reads it, or keep it busy for ever: see `reading`.

    Raises:
        ReadError: the file as a whole cannot be read.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
        if kind != stat.S_IFREG:  # opening a pipe waits for ever, opening a device may do anything
            raise ReadError(f"is {_KINDS.get(kind, 'something else')}, not a file")
        yield from _READERS[path.suffix.lower()](path)
    except OSError as error:
        raise ReadError(f"cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ReadError("is not UTF-8 text") from None


def _read_text(path: Path) -> Iterator[Document]:
    text = _clean(path.read_text(encoding="utf-8-sig"))
    yield _document([Section(text)], is_markdown=path.suffix.lower() == ".md")


def _read_html(path: Path) -> Iterator[Document]:
    text, left_out = map(_clean, html_text(path.read_bytes()))
    yield _document([Section(text)], is_markdown=True, left_out=left_out)


def _read_pdf(path: Path) -> Iterator[Document]:
    from pypdfium2 import PdfDocument, PdfiumError
    from pypdfium2.raw import FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY

    sections: list[Section] = []
    characters = 0
    try:
        for number, page in enumerate(PdfDocument(path.read_bytes()), 1):
            # pdfium writes \x02 for a hyphen that only the end of a line put into a word.
            text = page.get_textpage().get_text_bounded().replace("\x02", "")
            characters += len(text)
            _check_length(characters)
            sections.append(Section(_clean(text), number))
    except PdfiumError as error:
        if error.err_code in (FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY):
            raise ReadError("is an encrypted PDF: save it without a password") from None
        raise ReadError("is not a readable PDF") from None
    yield _document([section for section in sections if section.text])


def _read_jsonl(path: Path) -> Iterator[Document | ReadError]:
    number, has_rows = 0, False
    with path.open("rb") as file:
        while line := file.readline(ROW_BYTES + 1):
            number += 1
            if len(line) > ROW_BYTES:
                raise ReadError(f"row {number}: is longer than {ROW_BYTES // 2**20} MiB; from here on nothing is read")
            if line.strip():
                has_rows = True
                try:
                    yield _row_document(line)
                except ReadError as error:
                    yield ReadError(f"row {number}: {error}")
    if not has_rows:
        raise ReadError("holds no rows")


def _row_document(line: bytes) -> Document:
    try:
        row = json.loads(line)
    except ValueError:
        raise ReadError("is not JSON") from None
    except RecursionError:
        raise ReadError("is nested too deeply") from None
    except MemoryError:
        raise ReadError(TOO_LARGE) from None
    if not isinstance(row, dict):
        raise ReadError("is not a JSON object")
    # BEIR's corpora, and only they, call it _id.
    identity = row.get("id", row.get("_id"))
    if isinstance(identity, bool) or not isinstance(identity, str | int) or not _clean(str(identity)):
        raise ReadError("field 'id' takes a text or a whole number")
    text, title, metadata = row.get("text"), row.get("title") or "", row.get("metadata") or {}
    if not isinstance(text, str):
        raise ReadError("field 'text' takes a text")
    if not isinstance(title, str):
        raise ReadError("field 'title' takes a text")
    if not isinstance(metadata, dict):
        raise ReadError("field 'metadata' takes an object")
    if not all(map(_is_storable, metadata.values())):
        raise ReadError("field 'metadata' takes texts, numbers, true and false, no lists or objects")
    metadata = {
        _clean(name): _clean(value) if isinstance(value, str) else value
        for name, value in metadata.items()
        if value is not None
    }
    if title.strip():
        metadata[TITLE_FIELD] = _clean(title)
    if any(not name or name.startswith(_RESERVED) for name in metadata):
        raise ReadError(f"field 'metadata' takes names that are not empty and do not begin with {', '.join(_RESERVED)}")
    if len(metadata) > METADATA_FIELDS:
        raise ReadError(f"field 'metadata' takes at most {METADATA_FIELDS:,} names")
    return _document(
        [Section(_clean(f"{title}\n{text}" if title else text))], id=_clean(str(identity)), metadata=metadata
    )


def _is_storable(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < 2**63
    return value is None or isinstance(value, str)


def _document(sections: list[Section], **rest: Any) -> Document:
    _check_length(sum(len(section.text) for section in sections))
    if not any(character.isalnum() for section in sections for character in section.text):
        raise ReadError("holds no text")
    return Document(sections, **rest)


def _check_length(characters: int) -> None:
    if characters > DOCUMENT_CHARACTERS:
        raise ReadError(f"holds more than {DOCUMENT_CHARACTERS:,} characters of text")


def _clean(text: str) -> str:
    """Text that every database and Chroma take: whole surrogate pairs, no NUL, line ends as \\n."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\x00", "").replace("\r\n", "\n").replace("\r", "\n").strip()


_READERS = {
    ".md": _read_text,
    ".txt": _read_text,
    ".html": _read_html,
    ".pdf": _read_pdf,
    ".jsonl": _read_jsonl,
}
