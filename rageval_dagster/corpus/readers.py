"""Reading documents from files: .md, .txt, .html, .pdf, and .jsonl with a document a row."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rageval_dagster.errors import RagevalError

PDF_TIMEOUT_S = 300

Scalar = str | int | float | bool

_UNSEEN_TAGS = ["script", "style", "template", "noscript", "head", "title"]
_BLOCK_TAGS = frozenset(
    "address article aside blockquote body caption dd details div dl dt fieldset figcaption figure footer form "
    "h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section summary table tbody td tfoot th thead tr ul".split()
)


class ReadError(RagevalError):
    """A file or a row of it cannot be read as documents; the message says why, without naming the file."""


@dataclass(frozen=True)
class Section:
    """A stretch of a document's text that chunks do not cross: a page where the document has pages, else all of it."""

    text: str
    page: int | None = None


@dataclass(frozen=True)
class Document:
    """A document's text in sections. `id` is None where the file's name identifies it."""

    sections: list[Section]
    id: str | None = None
    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    is_markdown: bool = False


def is_readable(path: Path) -> bool:
    """Whether the file's name ends in a way that `read_documents` knows."""
    return path.suffix.lower() in _READERS


def count_documents(path: Path) -> int:
    """How many documents the file may hold; cheap, for progress."""
    if path.suffix.lower() != ".jsonl":
        return 1
    try:
        with path.open("rb") as lines:
            return sum(1 for line in lines if line.strip())
    except OSError:
        return 1


def read_documents(path: Path) -> Iterator[Document | ReadError]:
    """The documents of a file, in order; in place of each row that cannot be read its error.

    Raises:
        ReadError: the file as a whole cannot be read.
    """
    try:
        yield from _READERS[path.suffix.lower()](path)
    except OSError as error:
        raise ReadError(f"cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ReadError("is not UTF-8 text") from None


def _read_text(path: Path) -> Iterator[Document]:
    text = _clean(path.read_text(encoding="utf-8-sig"))
    yield _document([Section(text)], is_markdown=path.suffix.lower() == ".md")


def _read_html(path: Path) -> Iterator[Document]:
    yield _document([Section(_clean(html_text(path.read_bytes())))])


def html_text(page: bytes) -> str:
    """The visible text: the title first unless the page shows it, a line for each block, a blank line between them."""
    from bs4 import BeautifulSoup
    from bs4.element import NavigableString, PreformattedString, Tag

    soup = BeautifulSoup(page, "html.parser")
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    for tag in soup(_UNSEEN_TAGS):
        tag.decompose()
    pieces: list[str] = []

    def walk(node: Tag, preformatted: bool) -> None:
        for child in node.children:
            if isinstance(child, Tag):
                edge = "\n" if child.name in _BLOCK_TAGS else ""
                pieces.append("\n" if child.name == "br" else edge)
                walk(child, preformatted or child.name == "pre")
                pieces.append(edge)
            elif isinstance(child, NavigableString) and not isinstance(child, PreformattedString):  # no comments
                pieces.append(str(child) if preformatted else re.sub(r"\s+", " ", child))

    walk(soup, preformatted=False)
    lines = [re.sub(r"^ (?=\S)", "", line).rstrip() for line in "".join(pieces).split("\n")]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return text if title in text else f"{title}\n\n{text}".strip()


def _read_pdf(path: Path) -> Iterator[Document]:
    """A hostile or damaged file may crash what reads it, or keep it busy for ever: neither ends an ingestion."""
    command = [sys.executable, "-P", Path(__file__).with_name("pdf_pages.py")]
    with path.open("rb") as file:
        try:
            done = subprocess.run(command, stdin=file, capture_output=True, timeout=PDF_TIMEOUT_S, check=False)  # noqa: S603
        except subprocess.TimeoutExpired:
            raise ReadError(f"is not a readable PDF (it took longer than {PDF_TIMEOUT_S} s)") from None
    if done.returncode:
        raise ReadError(f"is not a readable PDF (its reader ended with {done.returncode})")
    pages = json.loads(done.stdout)
    if isinstance(pages, str):
        raise ReadError(pages)
    sections = [Section(_clean(text), number) for number, text in enumerate(pages, 1)]
    yield _document([section for section in sections if section.text])


def _read_jsonl(path: Path) -> Iterator[Document | ReadError]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield _row_document(line)
            except ReadError as error:
                yield ReadError(f"row {number}: {error}")


def _row_document(line: bytes) -> Document:
    try:
        row = json.loads(line)
    except ValueError:
        raise ReadError("is not JSON") from None
    if not isinstance(row, dict):
        raise ReadError("is not a JSON object")
    # BEIR's corpora, and only they, call it _id.
    identity = row.get("id", row.get("_id"))
    if isinstance(identity, bool) or not isinstance(identity, str | int) or identity == "":
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
    return _document(
        [Section(_clean(f"{title}\n{text}" if title else text))],
        id=_clean(str(identity)),
        metadata={
            _clean(name): _clean(value) if isinstance(value, str) else value
            for name, value in metadata.items()
            if value is not None
        },
    )


def _is_storable(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < 2**63
    return value is None or isinstance(value, str)


def _document(sections: list[Section], **rest: Any) -> Document:
    if not any(character.isalnum() for section in sections for character in section.text):
        raise ReadError("holds no text")
    return Document(sections, **rest)


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
