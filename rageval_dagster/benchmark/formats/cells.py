"""Items as cells of a table, such as logged questions: an item a row, lists and objects as JSON in their cells."""

import json
import re
from collections.abc import Mapping
from typing import Any

from rageval_dagster.benchmark.formats.items import FIELDS, native_item
from rageval_dagster.benchmark.formats.rows import Row, RowError, json_value, optional_text, page_number
from rageval_dagster.records import Item

COLUMNS = (
    *("item_id", "question", "answer", "answers", "document_id", "page", "quote", "evidence", "category", "answerable"),
    *("origin", "human_verified", "history", "principal", "checks"),
)
_PRINCIPAL = "principal."
_PAGE = re.compile(r"\d{1,9}(\.0+)?")  # pandas writes whole numbers with .0 where some are missing


def is_column(name: str) -> bool:
    return name in COLUMNS or name == "user" or (name.startswith(_PRINCIPAL) and name != _PRINCIPAL)


def item_from_cells(row: Row) -> Item:
    """The item of a row of texts; an empty cell counts as missing.

    `answer` is one text, `answers` a JSON list of several; `document_id`, `page` and `quote` are one piece of evidence,
    `evidence` a JSON list of several. `principal` is a JSON object; `user` and `principal.NAME` are texts in it. A
    question without answer, evidence and checks was logged, unless `origin` says otherwise.

    Raises:
        RowError: naming the field that is wrong.
    """
    texts = {name: text for name in row if (text := optional_text(row, name)) is not None}
    named = {name: text for name, text in texts.items() if name == "user" or name.startswith(_PRINCIPAL)}
    values: dict[str, Any] = {}
    for whole, part, cells, made in (
        ("answers", "answer", ("answer",), lambda: [texts["answer"]]),
        ("evidence", "document_id", ("document_id", "page", "quote"), lambda: _evidence(texts)),
        ("principal", "principal.NAME", named, lambda: {name.removeprefix(_PRINCIPAL): named[name] for name in named}),
    ):
        if any(cell in texts for cell in cells):
            if whole in texts:
                raise RowError(whole, f"is given, and {part} too: one of them is enough")
            values[whole] = made()
        elif whole in texts:
            values[whole] = json_value(texts[whole], whole)
    values = {**typed({name: text for name, text in texts.items() if name not in values}), **values}
    known = any(values.get(name) for name in ("answers", "evidence", "checks"))
    values = {"origin": "imported" if known else "logged", **values, "question": row["question"]}
    return native_item({name: values[name] for name in FIELDS if name in values})


def _evidence(texts: Mapping[str, str]) -> list[dict[str, Any]]:
    cells = [name for name in ("document_id", "page", "quote") if name in texts]
    if "document_id" not in cells:
        raise RowError("document_id", f"is missing, and the {cells[0]} needs it")
    if "page" in cells and not _PAGE.fullmatch(texts["page"].strip()):
        raise RowError("page", "takes a whole number of at least 1")
    page = page_number(int(float(texts["page"])), "page") if "page" in cells else None
    return [{"document_id": texts["document_id"], "page": page, "quote": texts.get("quote")}]


def typed(row: Row) -> Row:
    """A row whose lists, objects, and what is true or false, may be written as texts."""
    return {
        name: _TYPED[name](value, name) if name in _TYPED and isinstance(value, str) else value
        for name, value in row.items()
    }


def _boolean(text: str, name: str) -> bool | None:
    """`true` or `false` in any case; None for an empty cell."""
    said = text.strip().casefold()
    if said not in ("", "true", "false"):
        raise RowError(name, "takes true or false")
    return said == "true" if said else None


_TYPED = {
    **dict.fromkeys(("answers", "evidence", "history", "principal", "checks", "contexts", "citations"), json_value),
    **dict.fromkeys(("answerable", "human_verified", "declined"), _boolean),
}


def cells_of(item: Item) -> dict[str, str]:
    """What `item_from_cells` gives back as an equal item."""
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
