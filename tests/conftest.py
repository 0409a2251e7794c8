"""Fixtures that several packages use: history databases on SQLite, PostgreSQL and MariaDB."""

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from rageval_dagster.embedding.models import TransformerEmbedder
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.tables import metadata, schema_info

# How long an example takes says how busy the machine is, not whether the code is right.
hypothesis.settings.register_profile("rageval", deadline=None)
hypothesis.settings.load_profile("rageval")

# Two processes that each compute with all cores wait for one another most of the time.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

BACKENDS = ("sqlite", "postgresql", "mariadb")
_VARIABLES = {"postgresql": "RAGEVAL_TEST_POSTGRES_URL", "mariadb": "RAGEVAL_TEST_MYSQL_URL"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A slow test may take long on a slow machine, too; one that hangs still ends."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(autouse=True)
def _each_text_is_embedded_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real model's vectors of a text are kept for the next test; tests of the model itself go without.

    They are the same to the last bit in whatever company a text is embedded, which tests/embedding shows.
    """
    if request.path.parent.name != "embedding":
        monkeypatch.setattr(TransformerEmbedder, "_encode_evenly", _encode_once)


_VECTORS: dict[Any, Any] = {}
_really_encode = TransformerEmbedder._encode_evenly


def _encode_once(embedder: TransformerEmbedder, texts: Sequence[str], **options: Any) -> list[Any]:
    kind = (embedder.name, tuple(options.items()))
    missing = [text for text in dict.fromkeys(texts) if (kind, text) not in _VECTORS]
    made = _really_encode(embedder, missing, **options) if missing else []
    _VECTORS.update({(kind, text): vectors for text, vectors in zip(missing, made, strict=True)})
    return [_VECTORS[kind, text] for text in texts]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Runs the test once a database system; a server's is skipped where its variable is not set."""
    variable = _VARIABLES.get(request.param)
    if variable is not None and not os.environ.get(variable):
        pytest.skip(f"{variable} is not set")
    return request.param


@pytest.fixture
def new_url(backend: str, tmp_path: Path) -> Iterator[str]:
    """The URL of a database that nobody has opened before; dropped afterwards."""
    with new_database(backend, tmp_path) as url:
        yield url


@pytest.fixture
def db(backend: str, tmp_path: Path, _shared: Callable[[str], Database]) -> Iterator[Database]:
    """An open, empty history database.

    A server's schema is made once a session and emptied after each test: making one takes MariaDB two seconds.
    """
    if backend == "sqlite":
        opened = open_database(f"sqlite:///{tmp_path / 'history.sqlite3'}")
        yield opened
        opened.dispose()
        return
    opened = _shared(backend)
    yield opened
    with opened.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            if table is not schema_info:
                connection.execute(sa.delete(table))


@pytest.fixture
def sqlite_db(tmp_path: Path) -> Iterator[Database]:
    """An open, empty history database on SQLite, for tests of code that does not care which one it is."""
    opened = open_database(f"sqlite:///{tmp_path / 'history.sqlite3'}")
    yield opened
    opened.dispose()


@pytest.fixture(scope="session")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Database]]:
    opened: dict[str, Database] = {}
    with ExitStack() as stack:

        def get(backend: str) -> Database:
            if backend not in opened:
                url = stack.enter_context(new_database(backend, tmp_path_factory.getbasetemp()))
                opened[backend] = open_database(url)
                stack.callback(opened[backend].dispose)
            return opened[backend]

        yield get


@contextmanager
def new_database(backend: str, folder: Path) -> Iterator[str]:
    name = f"rageval_test_{uuid.uuid4().hex[:16]}"
    if backend == "sqlite":
        yield f"sqlite:///{folder / f'{name}.sqlite3'}"
        return
    server = sa.make_url(os.environ[_VARIABLES[backend]])
    if backend == "postgresql":
        create, drop = f"CREATE SCHEMA {name}", f"DROP SCHEMA {name} CASCADE"
        url = server.update_query_dict({"options": f"-csearch_path={name}"})
    else:
        create, drop = f"CREATE DATABASE {name} CHARACTER SET utf8mb4", f"DROP DATABASE {name}"
        url = server.set(database=name)
    _on_server(server, create, _VARIABLES[backend])
    try:
        yield url.render_as_string(hide_password=False)
    finally:
        _on_server(server, drop, _VARIABLES[backend])


def _on_server(server: sa.URL, statement: str, variable: str) -> None:
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 5})
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
    except OperationalError as error:
        pytest.fail(f"{variable} is set, but its server does not answer: {error.orig}", pytrace=False)
    finally:
        engine.dispose()
