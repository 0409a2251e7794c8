"""The SQL of the views: found in dbt_or_sql, one SELECT a file, and created in the database."""

import re
from functools import cache
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rageval_dagster.errors import DatabaseError
from rageval_dagster.identity import digest

READER_ROLE = "rageval_reader"
"""Who reads the views and nothing else, where dbt_or_sql/grants/postgresql.sql made the role."""


@cache
def view_sources() -> dict[str, str]:
    """The SQL of each view by its name."""
    package = Path(__file__).parents[1]
    # In the wheel the files lie in the package, in a checkout beside it.
    for folder in (package / "dbt_or_sql", package.parent / "dbt_or_sql"):
        files = sorted(folder.glob("*.sql"))
        if files:
            return {file.stem: file.read_text(encoding="utf-8") for file in files}
    raise DatabaseError("the SQL views (dbt_or_sql/*.sql) are missing from this installation; install it again")


def view_names() -> list[str]:
    """The views by name."""
    return sorted(view_sources())


def views_digest() -> str:
    """64 hex digits over the views' names and text: says whether a database has these very views."""
    return digest(*(part for name in view_names() for part in (name, view_sources()[name])))


def create_views(connection: Connection) -> None:
    """Creates every view within a transaction, in place of one of the same name."""
    for name in view_names():
        create = "CREATE OR REPLACE VIEW"
        if connection.dialect.name != "mysql":
            # These cannot replace a view whose columns changed, but drop it in the transaction: nobody misses it.
            connection.execute(sa.text(f"DROP VIEW IF EXISTS {name}"))
            create = "CREATE VIEW"
        connection.execute(_statement(f"{create} {name} AS {view_sources()[name]}"))
    _let_read(connection)


def _let_read(connection: Connection) -> None:
    """A view that was dropped and made again has lost its grants; default privileges cannot tell it from a table."""
    if connection.dialect.name != "postgresql":
        return
    role = sa.text("SELECT 1 FROM pg_roles WHERE rolname = :role")
    if connection.execute(role, {"role": READER_ROLE}).first() is not None:
        connection.execute(sa.text(f"GRANT SELECT ON {', '.join(view_names())} TO {READER_ROLE}"))


def _statement(sql: str) -> sa.TextClause:
    # A colon before a word would be read as a parameter.
    return sa.text(re.sub(r"(?<!:):(?=\w)", r"\\:", sql))
