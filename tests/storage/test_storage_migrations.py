"""The schema of a new database, also where a process died while it made it."""

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from rageval_dagster.storage import benchmark
from rageval_dagster.storage.database import HEAD_REVISION, VERSION_TABLE, Database, open_database
from rageval_dagster.storage.tables import metadata
from rageval_dagster.storage.view_sources import view_names
from rageval_dagster.storage.views import read_view
from tests.processes import KILLED, die_at, exit_code_of
from tests.storage.planted import fill


def assert_complete(db: Database) -> None:
    """The schema is the one that the code works with, and what is stored can be read."""
    options = {
        "version_table": VERSION_TABLE,
        "compare_type": True,
        "include_name": lambda name, kind, _: kind != "table" or name in metadata.tables,
    }
    with db.connect() as connection:
        assert connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar() == HEAD_REVISION
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
    fill(db, "acme", 3)
    [dataset] = benchmark.current_datasets(db, "acme")
    assert len(benchmark.dataset_items(db, dataset.id)) == 3
    for name in view_names():
        read_view(db, name)


def test_a_new_database_has_the_newest_schema(new_url: str) -> None:
    db = open_database(new_url)
    assert_complete(db)
    db.dispose()


def open_and_die(url: str, step: int) -> None:
    """Is killed before a change of the schema, counted from 1."""
    die_at(step, ("CREATE TABLE", "CREATE INDEX"))
    open_database(url)


@pytest.mark.core
def test_processes_killed_while_they_make_the_schema_are_in_nobodys_way(new_url: str) -> None:
    for step in (1, 2, 9, 30):
        assert exit_code_of(open_and_die, new_url, step) == KILLED
    db = open_database(new_url)
    assert_complete(db)
    db.dispose()
