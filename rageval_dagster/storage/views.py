"""The SQL views over the history, read as rows."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from rageval_dagster.errors import DatabaseError
from rageval_dagster.markdown import escaped, table
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.view_sources import view_names, view_sources

_ORDER = re.compile(r"^-- order by: (.+)$", re.MULTILINE)


def read_view(db: Database, name: str, limit: int | None = None, client_id: str | None = None) -> list[dict[str, Any]]:
    """The rows of a view, or those of one client, in the order that its file names, with times as aware UTC.

    Raises:
        DatabaseError: there is no such view.
    """
    source = view_sources().get(name)
    if source is None:
        raise DatabaseError(f"there is no view {name!r}; there are {', '.join(view_names())}")
    order = _ORDER.search(source)
    where, given = _of(client_id)
    query = f"SELECT * FROM {name}{where}"
    query += f" ORDER BY {order.group(1)}" if order else ""
    if limit is not None:
        query += f" LIMIT {int(limit)}"
    with db.connect() as connection:
        rows = connection.execute(sa.text(query), given).mappings().all()
    return [{column: _python_value(column, value) for column, value in row.items()} for row in rows]


def hard_for_every_system(db: Database, client_id: str, dataset_id: int) -> list[dict[str, Any]]:
    """The rows of that view of one dataset: none where fewer than two systems were evaluated on it."""
    rows = read_view(db, "hard_for_every_system", client_id=client_id)
    return [row for row in rows if row["dataset_id"] == dataset_id]


def view_columns(db: Database, name: str) -> list[tuple[str, str]]:
    """The name and type of each of a view's columns; on SQLite, what is computed has no type."""
    with db.connect() as connection:
        columns = sa.inspect(connection).get_columns(name)
    return [
        (column["name"], "" if isinstance(column["type"], sa.types.NullType) else str(column["type"]))
        for column in columns
    ]


@dataclass(frozen=True)
class ViewPreview:
    """How many rows a view has, and its first ones as a Markdown table."""

    row_count: int
    markdown: str


def view_preview(db: Database, name: str, rows: int = 10, client_id: str | None = None) -> ViewPreview:
    """How many rows a view or one client has in it, and the first; like the views it holds ids and numbers only.

    Raises:
        DatabaseError: there is no such view.
    """
    first = read_view(db, name, rows, client_id)
    where, given = _of(client_id)
    with db.connect() as connection:
        row_count = connection.execute(sa.text(f"SELECT COUNT(*) FROM {name}{where}"), given).scalar_one()
    if not first:
        return ViewPreview(row_count, "no rows yet")
    return ViewPreview(row_count, table(list(first[0]), [[_cell(value) for value in row.values()] for row in first]))


def _of(client_id: str | None) -> tuple[str, dict[str, str]]:
    return ("", {}) if client_id is None else (" WHERE client_id = :client_id", {"client_id": client_id})


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return escaped(str(value))


def _python_value(column: str, value: Any) -> Any:
    """The value as the same Python type whatever the database: SQLite has times as text, averages may be decimals."""
    if isinstance(value, Decimal):
        return int(value) if value.as_tuple().exponent == 0 else float(value)
    if column.endswith("_at") and isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value
