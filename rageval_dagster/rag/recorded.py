"""A RAG system whose answers stand in a file."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import jmespath

from rageval_dagster.errors import SettingsError
from rageval_dagster.identity import digest
from rageval_dagster.network import parsed_json
from rageval_dagster.rag.responses import ResponseReader
from rageval_dagster.rag.system import Retrieval
from rageval_dagster.records import Item
from rageval_dagster.settings import RecordedDefinition, Settings
from rageval_dagster.text import normalise_whitespace

_ITEM_ID = re.compile("[0-9a-f]{16}")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOT_JSON = object()

_Key = tuple[str, str]
"""("item", its id) or ("question", its text)."""


class RecordedResponses:
    """Answers questions from the rows of a file. Its version is what stands in the file."""

    def __init__(self, name: str, definition: RecordedDefinition, settings: Settings, reader: ResponseReader) -> None:
        """
        Raises:
            SettingsError: the file or rows of it cannot be read, or rows answer one question differently.
        """
        path = settings.path(definition.file)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise SettingsError(f"system {name!r}: {path} cannot be read ({error.strerror})") from None
        self._where = f"system {name!r}: {path.name}"
        self._version = digest(content)
        self._reader = reader
        self._question = jmespath.compile(definition.question)
        self._recorded = self._read(content)

    def declared_version(self) -> str:
        return self._version

    def ask(self, items: Sequence[Item], depth: int) -> list[Retrieval]:
        """What the file says to each item, in their order; all the contexts that stand there, whatever the depth."""
        missing = Retrieval(error="not_recorded: the file has no row for the question")
        by_id = [self._recorded.get(("item", item.item_id)) for item in items]
        by_question = [self._recorded.get(("question", normalise_whitespace(item.question)), missing) for item in items]
        return [found or other for found, other in zip(by_id, by_question, strict=True)]

    def _read(self, content: bytes) -> dict[_Key, Retrieval]:
        recorded: dict[_Key, Retrieval] = {}
        numbers: dict[_Key, int] = {}
        bad: list[str] = []
        for number, row in _rows(content):
            if (trouble := self._trouble(row)) is not None:
                bad.append(f"row {number} {trouble}")
                continue
            key, retrieval = self._key(row), self._reader.read(row)
            if recorded.setdefault(key, retrieval) != retrieval:
                raise SettingsError(
                    f"{self._where}: rows {numbers[key]} and {number} answer the same question differently; keep one"
                )
            numbers.setdefault(key, number)
        if bad:
            more = f", and {len(bad) - 5} more" if len(bad) > 5 else ""
            raise SettingsError(f"{self._where}: {', '.join(bad[:5])}{more}; mend or delete them")
        return recorded

    def _trouble(self, row: Any) -> str | None:
        """What makes a row unusable."""
        if row is _NOT_JSON:
            return "is not JSON"
        if not isinstance(row, dict):
            return "is not a JSON object"
        return None if self._key(row)[1] else f"has no question ({self._question.expression})"

    def _key(self, row: dict[str, Any]) -> _Key:
        item_id = row.get("item_id")
        if isinstance(item_id, str) and _ITEM_ID.fullmatch(item_id):
            return "item", item_id
        try:
            question = self._question.search(row)
        except Exception:  # noqa: BLE001  (the user's expression, on anything)
            question = None
        return "question", normalise_whitespace(question) if isinstance(question, str) else ""


def _rows(content: bytes) -> Iterator[tuple[int, Any]]:
    """The values of a JSON list, numbered from 1, or of the lines of a file that are not blank, by their numbers."""
    if content.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"["):
        whole = _parsed(content)
        yield from enumerate(whole if isinstance(whole, list) else [whole], start=1)
        return
    for number, line in enumerate(content.removeprefix(_BYTE_ORDER_MARK).split(b"\n"), start=1):
        if line.strip():
            yield number, _parsed(line)


def _parsed(text: bytes) -> Any:
    try:
        return parsed_json(text)
    except ValueError:
        return _NOT_JSON
