"""The SQL views over the history: found in dbt_or_sql, one SELECT a file, created in the database, read as rows."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.errors import DatabaseError
from rageval_dagster.identity import digest
from rageval_dagster.markdown import escaped, table
from rageval_dagster.storage.database import Database, upsert
from rageval_dagster.storage.tables import schema_info

READER_ROLE = "rageval_reader"
"""Who reads the views and nothing else, where dbt_or_sql/grants/postgresql.sql made the role."""

_ORDER = re.compile(r"^-- order by: (.+)$", re.MULTILINE)


def view_names() -> list[str]:
    """The views by name."""
    return sorted(_sources())


def views_digest() -> str:
    """64 hex digits over the views' names and text: says whether a database has these very views."""
    return digest(*(part for name in view_names() for part in (name, _sources()[name])))


def create_views(db: Database) -> None:
    """Creates every view, in place of one of the same name."""
    with db.begin() as connection:
        create_views_in(connection)


def create_views_in(connection: Connection) -> None:
    """Creates every view within a transaction, and notes which text they have."""
    for name in view_names():
        create = "CREATE OR REPLACE VIEW"
        if connection.dialect.name != "mysql":
            # These cannot replace a view whose columns changed, but drop it in the transaction: nobody misses it.
            connection.execute(sa.text(f"DROP VIEW IF EXISTS {name}"))
            create = "CREATE VIEW"
        connection.execute(_statement(f"{create} {name} AS {_sources()[name]}"))
    _let_read(connection)
    upsert(connection, schema_info, [{"name": "views", "value": views_digest()}], update=["value"])


def _let_read(connection: Connection) -> None:
    """A view that was dropped and made again has lost its grants; default privileges cannot tell it from a table."""
    if connection.dialect.name != "postgresql":
        return
    role = sa.text("SELECT 1 FROM pg_roles WHERE rolname = :role")
    if connection.execute(role, {"role": READER_ROLE}).first() is not None:
        connection.execute(sa.text(f"GRANT SELECT ON {', '.join(view_names())} TO {READER_ROLE}"))


def read_view(db: Database, name: str, limit: int | None = None, client_id: str | None = None) -> list[dict[str, Any]]:
    """The rows of a view, or those of one client, in the order that its file names, with times as aware UTC.

    Raises:
        DatabaseError: there is no such view.
    """
    source = _sources().get(name)
    if source is None:
        raise DatabaseError(f"there is no view {name!r}; there are {', '.join(view_names())}")
    order = _ORDER.search(source)
    query = f"SELECT * FROM {name}" + ("" if client_id is None else " WHERE client_id = :client_id")
    query += f" ORDER BY {order.group(1)}" if order else ""
    if limit is not None:
        query += f" LIMIT {int(limit)}"
    with db.connect() as connection:
        given = {} if client_id is None else {"client_id": client_id}
        rows = connection.execute(sa.text(query), given).mappings().all()
    return [{column: _plain(column, value) for column, value in row.items()} for row in rows]


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
    """The size of a view and its first rows, or those of one client; like the views it holds ids and numbers only.

    Raises:
        DatabaseError: there is no such view.
    """
    first = read_view(db, name, rows, client_id)
    with db.connect() as connection:
        row_count = connection.execute(sa.text(f"SELECT COUNT(*) FROM {name}")).scalar_one()
    if not first:
        return ViewPreview(row_count, "no rows yet")
    return ViewPreview(row_count, table(list(first[0]), [[_cell(value) for value in row.values()] for row in first]))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return escaped(str(value))


def _plain(column: str, value: Any) -> Any:
    """The value as the same Python type whatever the database: SQLite has times as text, averages may be decimals."""
    if isinstance(value, Decimal):
        return int(value) if value.as_tuple().exponent == 0 else float(value)
    if column.endswith("_at") and isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value


def _statement(sql: str) -> sa.TextClause:
    # A colon before a word would be read as a parameter.
    return sa.text(re.sub(r"(?<!:):(?=\w)", r"\\:", sql))


@cache
def _sources() -> dict[str, str]:
    package = Path(__file__).parents[1]
    # In the wheel the files lie in the package, in a checkout beside it.
    for folder in (package / "dbt_or_sql", package.parent / "dbt_or_sql"):
        files = sorted(folder.glob("*.sql"))
        if files:
            return {file.stem: file.read_text(encoding="utf-8") for file in files}
    raise DatabaseError("the SQL views (dbt_or_sql/*.sql) are missing from this installation; install it again")
