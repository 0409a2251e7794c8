"""Opening a history database: new, current, shared by several processes, wrong, or not there at all."""

import multiprocessing
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from rageval_dagster.errors import DatabaseError
from rageval_dagster.storage import benchmark, clients
from rageval_dagster.storage.database import HEAD_REVISION, VERSION_TABLE, Database, open_database
from rageval_dagster.storage.tables import evaluation_runs, forgotten_clients, metadata, schema_info, word_hashes
from rageval_dagster.storage.view_sources import view_names
from rageval_dagster.storage.views import read_view
from tests.processes import KILLED, die_at, exit_code_of
from tests.storage.history_builder import MRR, finish, make_dataset, make_items, open_run
from tests.storage.planted import fill


def open_and_write(url: str, client_id: str) -> None:
    db = open_database(url)
    clients.ensure_client(db, client_id)
    db.dispose()


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


@pytest.mark.core
def test_a_new_database_opened_by_two_processes_at_once_serves_both(new_url: str) -> None:
    context = multiprocessing.get_context("spawn")
    names = ["one", "two"]
    processes = [context.Process(target=open_and_write, args=(new_url, name)) for name in names]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    db = open_database(new_url)
    assert [client.client_id for client in clients.list_clients(db)] == sorted(names)
    db.dispose()


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"], indirect=True)
def test_rows_without_a_schema_version_are_not_thrown_away(new_url: str) -> None:
    open_and_write(new_url, "acme")
    engine = sa.create_engine(new_url)
    with engine.begin() as connection:
        connection.execute(sa.text(f"DELETE FROM {VERSION_TABLE}"))
    with pytest.raises(DatabaseError, match="tables with rows"):
        open_database(new_url)
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT client_id FROM clients")).scalars().all() == ["acme"]
    engine.dispose()


def test_every_table_can_be_emptied_by_client_alone() -> None:
    without = [table.name for table in metadata.sorted_tables if "client_id" not in table.c]
    # The hashes of words have a hash in place of the client, and nothing else.
    assert sorted(without) == [forgotten_clients.name, schema_info.name, word_hashes.name]


def test_opening_an_up_to_date_database_imports_neither_alembic_nor_pandas(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite3'}"
    open_database(url).dispose()
    program = (
        "import sys\n"
        "from rageval_dagster.storage import benchmark, caches, clients, corpus, database, evaluations\n"
        "from rageval_dagster.storage import results, scores, views\n"
        f"clients.ensure_client(database.open_database({url!r}), 'acme')\n"
        "print([name for name in ('alembic', 'pandas', 'psycopg', 'pymysql') if name in sys.modules])\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_views_of_another_version_are_made_anew(new_url: str) -> None:
    db = open_database(new_url)
    with db.begin() as connection:
        connection.execute(sa.text("DROP VIEW metric_trend"))
        connection.execute(sa.update(schema_info).values(value="older"))
    db.dispose()
    again = open_database(new_url)
    assert [read_view(again, name) for name in view_names()] == [[]] * len(view_names())
    again.dispose()


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"], indirect=True)
def test_a_database_of_a_newer_version_is_refused(new_url: str) -> None:
    db = open_database(new_url)
    with db.begin() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    db.dispose()
    with pytest.raises(DatabaseError, match="schema is not one this version knows") as caught:
        open_database(new_url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"], indirect=True)
def test_tables_of_somebody_else_are_not_touched(new_url: str) -> None:
    engine = sa.create_engine(new_url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE clients (id INTEGER)"))
        connection.execute(sa.text("INSERT INTO clients VALUES (7)"))
    with pytest.raises(DatabaseError, match="a database of its own") as caught:
        open_database(new_url)
    assert "\n" not in str(caught.value)
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT id FROM clients")).scalars().all() == [7]
    engine.dispose()


def test_a_sqlite_file_is_for_its_owner_only_and_in_wal_mode(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    path.touch(mode=0o644)
    db = open_database(f"sqlite:///{path}")
    clients.ensure_client(db, "acme")
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
    with db.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 30_000
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    db.dispose()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql+psycopg://me:s3cret@127.0.0.1:1/history", "127.0.0.1:1/history"),
        ("mysql+pymysql://me:s3cret@127.0.0.1:1/history", "127.0.0.1:1/history"),
        ("sqlite:////proc/none/history.sqlite3", "/proc/none/history.sqlite3"),
        ("oracle://me:s3cret@host/history", "oracle://"),
        ("postgresql://me:s3cret@host/history", "postgresql+psycopg://"),
        ("sqlite://", "a file"),
        ("mysql+pymysql://me:s3cret@host", "a database"),
        ("s3cret", "RAGEVAL_DATABASE_URL"),
        ("postgresql+psycopg://me:s3cret@host:port/history", "RAGEVAL_DATABASE_URL"),
    ],
)
def test_an_unusable_url_is_one_line_without_its_password(url: str, said: str) -> None:
    with pytest.raises(DatabaseError) as caught:
        open_database(url)
    message = str(caught.value)
    assert said in message
    assert "s3cret" not in message
    assert "\n" not in message
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_schema_that_postgresql_does_not_have_is_named_with_what_makes_it() -> None:
    server = os.environ.get("RAGEVAL_TEST_POSTGRES_URL")
    if not server:
        pytest.skip("RAGEVAL_TEST_POSTGRES_URL is not set")
    url = sa.make_url(server).update_query_dict({"options": "-csearch_path=not_there"})
    with pytest.raises(DatabaseError) as refused:
        open_database(url.render_as_string(hide_password=False))
    assert "there is no schema not_there, or this user may not use it" in str(refused.value)
    assert str(refused.value).endswith("CREATE SCHEMA not_there;")


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("notes, " * 1000)
    with pytest.raises(DatabaseError, match="file is not a database"):
        open_database(f"sqlite:///{path}")
    assert path.read_text() == "notes, " * 1000


def test_a_database_of_the_first_release_gets_titles_and_keeps_its_rows(new_url: str) -> None:
    open_and_write(new_url, "acme")
    engine = sa.create_engine(new_url)
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE corpus_chunks DROP COLUMN title"))
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '0001'"))
    engine.dispose()
    db = open_database(new_url)
    assert [client.client_id for client in clients.list_clients(db)] == ["acme"]
    assert_complete(db)
    db.dispose()


def test_a_database_of_before_knows_its_newest_evaluations(new_url: str) -> None:
    db = open_database(new_url)
    items = make_items(2)
    for version in ("one", "two"):
        dataset = make_dataset(db, "acme", [*items, *make_items(1, version)])
        for night in ("1", "2"):
            finish(db, open_run(db, dataset, f"{version} {night}"), {MRR: 0.5})
    query = sa.select(evaluation_runs.c.id, evaluation_runs.c.newest, evaluation_runs.c.previous_id).order_by("id")
    expected = [(1, None, None), (2, None, 1), (3, None, None), (4, True, 3)]
    assert list(map(tuple, db.rows(query))) == expected
    with db.begin() as connection:
        connection.execute(sa.update(evaluation_runs).values(newest=None, previous_id=None))
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '0005'"))
        for name in ("newest", "system_name"):
            of_table = " ON evaluation_runs" if db.dialect == "mysql" else ""
            connection.execute(sa.text(f"DROP INDEX ix_evaluation_runs_{name}{of_table}"))
    db.dispose()
    again = open_database(new_url)
    assert list(map(tuple, again.rows(query))) == expected
    assert_complete(again)
    again.dispose()
