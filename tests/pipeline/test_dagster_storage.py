"""Dagster's storage in PostgreSQL: a process keeps its connections, and does without one that broke."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from rageval_dagster.automation.home import dagster_yaml
from rageval_dagster.settings import load_settings
from tests.pipeline.small_project import Project


@pytest.fixture
def server() -> Iterator[psycopg.Connection]:
    variable = "RAGEVAL_TEST_POSTGRES_URL"
    if not os.environ.get(variable):
        pytest.skip(f"{variable} is not set")
    plain = sa.make_url(os.environ[variable]).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection:
        yield connection


@pytest.fixture
def instance(
    project: Project, server: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dg.DagsterInstance]:
    """An instance over a new database, with the dagster.yaml that rageval writes."""
    name = f"rageval_dagster_{uuid.uuid4().hex[:12]}"
    url = sa.make_url(os.environ["RAGEVAL_TEST_POSTGRES_URL"]).set(drivername="postgresql+psycopg2", database=name)
    server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        project.given(monkeypatch, RAGEVAL_DAGSTER_DATABASE_URL=url.render_as_string(hide_password=False))
        Path(os.environ["DAGSTER_HOME"], "dagster.yaml").write_text(dagster_yaml(load_settings()), encoding="utf-8")
        with dg.DagsterInstance.get() as opened:
            yield opened
    finally:
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def session(instance: dg.DagsterInstance) -> int:
    """The number of the server's process that a statement of this instance gets."""
    storage: Any = instance.run_storage
    with storage.connect() as connection:
        return connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()


def test_statements_and_instances_share_a_connection(instance: dg.DagsterInstance) -> None:
    first = session(instance)
    instance.add_dynamic_partitions("clients", ["acme"])
    assert instance.has_dynamic_partition("clients", "acme")
    with dg.DagsterInstance.get() as another:
        assert another.has_dynamic_partition("clients", "acme")
        assert session(another) == first


def test_a_connection_that_the_server_closed_is_replaced(
    instance: dg.DagsterInstance, server: psycopg.Connection
) -> None:
    first = session(instance)
    server.execute("SELECT pg_terminate_backend(%s, 10000)", [first])
    assert instance.get_runs_count() == 0
    assert session(instance) != first


def test_a_forked_process_has_connections_of_its_own(instance: dg.DagsterInstance) -> None:
    first = session(instance)
    number = os.fork()
    if number == 0:
        os._exit(0 if session(instance) != first else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0
    assert session(instance) == first
