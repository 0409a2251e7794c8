"""PostgreSQL with the shipped grants: the writer changes rows only, the reader sees views only, and no text."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from rageval_dagster.errors import DatabaseError
from rageval_dagster.evaluation.summary import reports_of
from rageval_dagster.storage.database import VERSION_TABLE, Database, open_database
from rageval_dagster.storage.tables import metadata, schema_info
from rageval_dagster.storage.view_sources import READER_ROLE, view_names
from rageval_dagster.storage.views import read_view
from tests.pipeline.small_project import CANARY, Project, documents
from tests.processes import sent_statements
from tests.storage import history_builder
from tests.storage.planted import texts_of

pytestmark = [pytest.mark.core, pytest.mark.xdist_group("grants")]  # roles belong to the whole server

SCRIPT = Path(__file__).parents[2] / "dbt_or_sql" / "grants" / "postgresql.sql"
ROLES = ("rageval_owner", "rageval_writer", "rageval_reader")

# Columns of long texts that hold names, ids and versions; all others hold what only their owner may read.
NAMES = {
    "changes",  # names and counts, in a shape that reports read
    *("category", "chunk_id", "document_id", "probe", "lease_holder", "generator", "created_by", "model"),
    *("corpus_version", "index_version", "dataset_version", "system_version", "judge_version", "dagster_run_id"),
    "system_declared",
}


@dataclass
class Granted:
    """A schema with the three roles, and the URL of a user in each."""

    schema: str
    owner: str
    writer: str
    reader: str


@pytest.fixture(scope="module")
def granted() -> Iterator[Granted]:
    text = os.environ.get("RAGEVAL_TEST_POSTGRES_URL")
    if not text:
        pytest.skip("RAGEVAL_TEST_POSTGRES_URL is not set")
    server = sa.make_url(text)
    schema = f"rageval_test_{uuid.uuid4().hex[:16]}"
    admin = f"{schema}_admin"
    with psycopg.connect(_conninfo(server), autocommit=True) as superuser:
        superuser.execute("SELECT pg_advisory_lock(7246382502)")
        run(superuser, f"CREATE ROLE {admin} LOGIN CREATEROLE PASSWORD '{admin}'", f"CREATE SCHEMA {schema}")
        run(superuser, f"ALTER SCHEMA {schema} OWNER TO {admin}")
        try:
            # By a user who may create roles, as the file says, and who is no superuser; a second time for nothing.
            with psycopg.connect(_conninfo(_in_schema(server, schema, admin)), autocommit=True) as connection:
                for _ in range(2):
                    run(connection, SCRIPT.read_text(encoding="utf-8"))
            for role in ROLES:
                run(superuser, f"ALTER ROLE {role} LOGIN PASSWORD '{role}'")
            yield Granted(schema, *(_in_schema(server, schema, role).render_as_string(False) for role in ROLES))
        finally:
            run(superuser, f"DROP SCHEMA {schema} CASCADE")
            for role in (*ROLES, admin):
                run(superuser, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def run(connection: psycopg.Connection[Any], *statements: str) -> None:
    for statement in statements:
        connection.execute(statement.encode())


def _in_schema(server: sa.URL, schema: str, user: str) -> sa.URL:
    return server.set(username=user, password=user).update_query_dict({"options": f"-csearch_path={schema}"})


def _conninfo(url: sa.URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


@contextmanager
def opened(url: str) -> Iterator[Database]:
    db = open_database(url)
    try:
        yield db
    finally:
        db.dispose()


@pytest.fixture(scope="module")
def history(granted: Granted) -> Granted:
    """The schema with tables and views, and a finished evaluation whose every text is the canary."""
    open_database(granted.owner).dispose()
    with opened(granted.writer) as db:
        items = history_builder.make_items(2)
        dataset = history_builder.make_dataset(db, "acme", items)
        for night in ("one", "two"):
            evaluation = history_builder.open_run(db, dataset, f"schedule:{night}")
            history_builder.work(db, evaluation, items)
            history_builder.finish(db, evaluation, {history_builder.MRR: 0.75})
            history_builder.hold_against(db, evaluation, evaluation)
        with db.begin() as connection:
            for table in metadata.sorted_tables:
                if planted := texts_of(table, but=NAMES):
                    connection.execute(sa.update(table).values(planted))
    return granted


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE stray (id INTEGER)",
        "CREATE VIEW stray AS SELECT 1 AS one",
        "CREATE OR REPLACE VIEW fleet_overview AS SELECT 1 AS one",
        "ALTER TABLE clients ADD COLUMN stray INTEGER",
        "DROP TABLE clients CASCADE",
        "DROP VIEW fleet_overview",
        "TRUNCATE clients",
        "SET ROLE rageval_owner",
    ],
)
def test_the_writer_makes_changes_and_drops_nothing(history: Granted, statement: str) -> None:
    with psycopg.connect(_conninfo(sa.make_url(history.writer))) as connection:
        before = connection.execute("SELECT count(*) FROM information_schema.columns").fetchall()
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
            run(connection, statement)
        assert connection.execute("SELECT count(*) FROM information_schema.columns").fetchall() == before


def test_the_reader_reads_every_view_and_no_table(history: Granted) -> None:
    with psycopg.connect(_conninfo(sa.make_url(history.reader))) as connection:
        for table in [*metadata.tables, VERSION_TABLE]:
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                run(connection, f"SELECT * FROM {table}")
    engine = sa.create_engine(history.reader)
    shown = {name: read_view(Database(engine), name) for name in view_names()}
    engine.dispose()
    # The views of the newest evaluation show at least one row each, so that a text in any of them would be seen; but
    # that of the questions that two systems miss, since there is one system.
    assert [name for name, rows in shown.items() if not rows] == ["hard_for_every_system"]
    assert [name for name, rows in shown.items() if CANARY in str(rows)] == []


def test_views_that_are_made_anew_stay_the_readers(history: Granted) -> None:
    with opened(history.owner) as db, db.begin() as connection:
        connection.execute(sa.update(schema_info).values(value="older"))
    open_database(history.owner).dispose()
    with psycopg.connect(_conninfo(sa.make_url(history.reader))) as connection:
        for name in view_names():
            run(connection, f"SELECT * FROM {name}")


def test_what_the_owner_makes_later_is_the_writers_too(history: Granted) -> None:
    with psycopg.connect(_conninfo(sa.make_url(history.owner)), autocommit=True) as owner:
        run(owner, "CREATE TABLE later (id SERIAL, words TEXT)")
        with psycopg.connect(_conninfo(sa.make_url(history.writer)), autocommit=True) as writer:
            run(
                writer,
                "INSERT INTO later (words) VALUES ('one')",
                "UPDATE later SET words = 'two'",
                "DELETE FROM later",
            )
        with (
            psycopg.connect(_conninfo(sa.make_url(history.reader))) as reader,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            run(reader, "SELECT * FROM later")
        run(owner, "DROP TABLE later")


def test_the_writer_opens_a_database_that_is_up_to_date_without_changing_it(history: Granted) -> None:
    with sent_statements() as sent:
        open_database(history.writer).dispose()
    assert sent
    assert {statement.split()[0].upper() for statement in sent} == {"SELECT"}


def test_an_outdated_database_tells_the_writer_what_the_owner_has_to_run(history: Granted) -> None:
    with opened(history.owner) as db, db.begin() as connection:
        connection.execute(sa.update(schema_info).values(value="older"))
    with pytest.raises(DatabaseError, match=r"RAGEVAL_DATABASE_URL=<the owner's URL> rageval doctor") as caught:
        open_database(history.writer)
    assert "\n" not in str(caught.value)
    open_database(history.owner).dispose()
    open_database(history.writer).dispose()


def test_an_empty_schema_tells_the_writer_the_same(granted: Granted) -> None:
    empty = f"{granted.schema}_empty"
    with psycopg.connect(_conninfo(sa.make_url(os.environ["RAGEVAL_TEST_POSTGRES_URL"])), autocommit=True) as superuser:
        run(superuser, f"CREATE SCHEMA {empty}", f"GRANT USAGE ON SCHEMA {empty} TO rageval_writer")
        try:
            with pytest.raises(DatabaseError, match="the owner's URL"):
                open_database(granted.writer.replace(granted.schema, empty))
        finally:
            run(superuser, f"DROP SCHEMA {empty} CASCADE")


def test_a_whole_evaluation_runs_as_the_writer(
    history: Granted, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGEVAL_DATABASE_URL", history.writer)
    project.environment["RAGEVAL_DATABASE_URL"] = history.writer
    project.ingest("globex", documents("castle", count=3))
    launched = project.evaluate("globex", "command:one")
    assert launched.message is None
    [report] = reports_of(project.database(), "globex", "command:one")
    assert report.evaluation.status == "complete"
    with psycopg.connect(_conninfo(sa.make_url(history.reader))) as reader:
        shown = reader.execute("SELECT worst_mean FROM fleet_overview WHERE client_id = 'globex'").fetchall()
    assert shown != []


def test_the_role_that_the_code_grants_views_to_is_the_scripts() -> None:
    assert READER_ROLE in ROLES
    assert all(role in SCRIPT.read_text(encoding="utf-8") for role in ROLES)
    assert SCRIPT.stem not in view_names()
