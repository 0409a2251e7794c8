"""Cutting documents into chunks with ids that stay the same across re-ingestion."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from rageval_dagster.corpus.readers import Document, Section
from rageval_dagster.identity import digest
from rageval_dagster.records import Chunk

if TYPE_CHECKING:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter


@dataclass(frozen=True)
class ChunkSize:
    """How long a chunk may be, and how much of it the next one repeats, in characters; 0 keeps a section whole."""

    characters: int
    overlap: int


WHOLE = ChunkSize(0, 0)

LONG_LINE = 50_000
MAX_ALONE = 120
"""Characters of a heading, or of what introduces a list."""
_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")
_LONG = re.compile(rf"[^\n]{{{LONG_LINE + 1},}}")


def split_document(client_id: str, document_id: str, document: Document, size: ChunkSize = WHOLE) -> list[Chunk]:
    """The document's chunks in order.

    An id is a hash of client, document, text, and how often that text stood in the document before: moving a chunk
    within its document does not change it.
    """
    seen: Counter[str] = Counter()
    chunks: list[Chunk] = []
    for text, page in ((section.text, section.page) for section in cut(document, size)):
        chunk_id = digest(client_id, document_id, text, str(seen[text]))[:32]
        seen[text] += 1
        chunks.append(Chunk(chunk_id, text, document_id, page, position=len(chunks)))
    return chunks


def cut(document: Document, size: ChunkSize) -> list[Section]:
    """The document's sections in pieces of that size; those without a letter or digit are left out."""
    pieces: list[Section] = []
    for section in document.sections:
        texts = [section.text]
        if size.characters:
            splitter = _splitter(size, document.is_markdown)
            texts = [text for part in _without_long_lines(section.text) for text in splitter.chunks(part)]
            texts = _joined(texts, size.characters) if document.is_markdown else texts
        pieces += [Section(text, section.page) for text in texts if any(map(str.isalnum, text))]
    return pieces


def _joined(texts: Sequence[str], size: int) -> list[str]:
    """The same with each heading that stands alone before what follows it, where there is room.

    Alone it says nothing, and yet it is found before the passages that do.
    """
    joined: list[str] = []
    for text in texts:
        before = joined[-1] if joined else ""
        # Of what overlaps, the heading may stand there already.
        together = text if text.startswith(before) else f"{before}\n\n{text}"
        if 0 < len(before) <= MAX_ALONE and not before.endswith(_SENTENCE_ENDS) and len(together) <= size:
            joined[-1] = together
        else:
            joined.append(text)
    return joined


def _without_long_lines(text: str) -> Iterator[str]:
    """A text in parts that have no line of more than `LONG_LINE` characters: the splitter's time grows with the square
    of a line's length. A line is parted at a space, if it has one."""
    start = 0
    for line in _LONG.finditer(text):
        place = line.start()
        while line.end() - place > LONG_LINE:
            if start < place:
                yield text[start:place]
            end = text.rfind(" ", place + 1, place + LONG_LINE) + 1 or place + LONG_LINE
            yield text[place:end]
            start = place = end
    yield text[start:]


@lru_cache(maxsize=4)
def _splitter(size: ChunkSize, markdown: bool) -> "MarkdownSplitter | TextSplitter":
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    kind = MarkdownSplitter if markdown else TextSplitter
    return kind(size.characters, overlap=size.overlap)
