"""The csv format: an item a row, such as logged questions; what is a list or an object stands in its cell as JSON."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rageval_dagster.benchmark.formats import native
from rageval_dagster.benchmark.formats.rows import (
    ReadOptions,
    ReadReport,
    Row,
    RowError,
    json_value,
    optional_text,
    read_items,
)
from rageval_dagster.benchmark.formats.table import read_table, write_table
from rageval_dagster.records import Item

COLUMNS = (
    *("item_id", "question", "answer", "answers", "document_id", "page", "quote", "evidence", "category", "answerable"),
    *("origin", "human_verified", "history", "principal", "checks"),
)
FIELDS = (*COLUMNS[1:], "user", "principal.NAME")
_PRINCIPAL = "principal."
_PAGE = re.compile(r"\d{1,9}(\.0+)?")  # pandas writes whole numbers with .0 where some are missing


def read(path: Path, options: ReadOptions) -> ReadReport:
    """Reads a table; `question` is required, an empty cell counts as missing, other columns are passed over.

    `answer` is one text, `answers` a JSON list of several; `document_id`, `page` and `quote` are one piece of evidence,
    `evidence` a JSON list of several. `principal` is a JSON object; `user` and `principal.NAME` are texts in it. A
    question without answer and evidence was logged, unless `origin` says otherwise.

    Raises:
        DatasetError: the file cannot be read or is empty, or has no column that is named or required.
    """
    table = read_table(path, options.columns, ["question"], is_field)
    return replace(read_items(path, table.rows, item_from_cells, options, repeated="question"), unused=table.unused)


def is_field(name: str) -> bool:
    return name in COLUMNS or name == "user" or (name.startswith(_PRINCIPAL) and name != _PRINCIPAL)


def write(items: Iterable[Item], path: Path) -> None:
    """Writes a table that `read` gives back as equal items."""
    write_table(path, COLUMNS, (_cells(item) for item in items))


def item_from_cells(row: Row) -> Item:
    """The item of a row of texts.

    Raises:
        RowError: naming the field that is wrong.
    """
    texts = {name: text for name in row if (text := optional_text(row, name)) is not None}
    read_otherwise = {
        "answers": _answers(texts),
        "evidence": _evidence(texts),
        "answerable": boolean(texts, "answerable"),
        "human_verified": boolean(texts, "human_verified"),
        "history": _json(texts, "history"),
        "principal": _principal(texts),
        "checks": _json(texts, "checks"),
    }
    known = any(read_otherwise[name] for name in ("answers", "evidence", "checks"))
    values = {"origin": "imported" if known else "logged", **texts, "question": row["question"], **read_otherwise}
    return native.item_from_row({name: values[name] for name in native.FIELDS if name in values})


def _answers(texts: Mapping[str, str]) -> Any:
    cells = [texts["answer"]] if "answer" in texts else []
    _only_one(texts, "answers", "answer", cells)
    return cells or _json(texts, "answers")


def _evidence(texts: Mapping[str, str]) -> Any:
    cells = [name for name in ("document_id", "page", "quote") if name in texts]
    _only_one(texts, "evidence", "document_id", cells)
    if not cells:
        return _json(texts, "evidence")
    if "document_id" not in cells:
        raise RowError("document_id", f"is missing, and the {cells[0]} needs it")
    if "page" in cells and not _PAGE.fullmatch(texts["page"].strip()):
        raise RowError("page", "takes a whole number of at least 1")
    page = native.page_number(int(float(texts["page"])), "page") if "page" in cells else None
    return [{"document_id": texts["document_id"], "page": page, "quote": texts.get("quote")}]


def _principal(texts: Mapping[str, str]) -> Any:
    named = {name: text for name, text in texts.items() if name == "user" or name.startswith(_PRINCIPAL)}
    _only_one(texts, "principal", "principal.NAME", named)
    return {name.removeprefix(_PRINCIPAL): text for name, text in named.items()} or _json(texts, "principal")


def _only_one(texts: Mapping[str, str], whole: str, part: str, parts: Collection[str]) -> None:
    if whole in texts and parts:
        raise RowError(whole, f"is given, and {part} too: one of them is enough")


def boolean(texts: Mapping[str, str], name: str) -> bool | None:
    """`true` or `false` in any case; None for an empty cell."""
    text = texts.get(name, "").strip().casefold()
    if text not in ("", "true", "false"):
        raise RowError(name, "takes true or false")
    return text == "true" if text else None


def _json(texts: Mapping[str, str], name: str) -> Any:
    return json_value(texts[name], name) if name in texts else None


def _cells(item: Item) -> dict[str, str]:
    row = item.to_dict()
    cells = {name: row[name] for name in ("item_id", "question", "category", "origin")}
    cells |= {name: str(row[name]).lower() for name in ("answerable", "human_verified")}
    cells |= {name: _dumped(row[name]) for name in ("history", "principal", "checks") if name in row}
    if len(item.answers) == 1:
        cells["answer"] = item.answers[0]
    elif item.answers:
        cells["answers"] = _dumped(row["answers"])
    if len(item.evidence) == 1:
        cells |= {name: str(value) for name, value in row["evidence"][0].items()}
    elif item.evidence:
        cells["evidence"] = _dumped(row["evidence"])
    return cells


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
