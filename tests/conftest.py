"""Fixtures that several packages use: history databases on SQLite, PostgreSQL and MariaDB, and a browser."""

import os
import shutil
import signal
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from rageval_dagster.embedding.models import TransformerEmbedder
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.tables import metadata, schema_info

if TYPE_CHECKING:
    import numpy as np
    from playwright.sync_api import Browser

# How long an example takes says how busy the machine is, not whether the code is right.
# Half of hypothesis' own number of examples: they are other ones each time.
hypothesis.settings.register_profile(
    "rageval", deadline=None, max_examples=50, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
# About ten minutes for a quick property: pytest --timeout=0 --hypothesis-profile=long FILE
hypothesis.settings.register_profile("long", hypothesis.settings.get_profile("rageval"), max_examples=90_000)
hypothesis.settings.load_profile("rageval")

# What a shell starts in the background ignores Ctrl-C, and so would every process that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Two processes that each compute with all cores wait for one another most of the time.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Workers of pytest-xdist are told a width, though nobody looks at what they print.
os.environ.pop("COLUMNS", None)

BACKENDS = ("sqlite", "postgresql", "mariadb")
_VARIABLES = {"postgresql": "RAGEVAL_TEST_POSTGRES_URL", "mariadb": "RAGEVAL_TEST_MYSQL_URL"}


pytest_plugins = ["tests.pipeline.fixtures"]

MADE_ONCE = ("evaluated_once", "two_clients_once", "history_once")
"""Fixtures of whole evaluations: all tests that use one go to the same worker, so that it is made once."""


@pytest.hookimpl(tryfirst=True)  # before pytest deselects, and xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("core"):
            item.add_marker("slow")
        # A slow test may take long on a slow machine, too; one that hangs still ends.
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))
        for name in MADE_ONCE:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group(name))


@pytest.fixture(autouse=True)
def _each_text_is_embedded_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real model's vectors of a text are kept for the next test; tests of the model itself go without.

    They are the same to the last bit in whatever company a text is embedded, which tests/embedding shows.
    """
    if request.path.parent.name != "embedding":
        monkeypatch.setattr(TransformerEmbedder, "encode", _encode_once)


_VECTORS: "dict[tuple[str, str], np.ndarray]" = {}
_really_encode = TransformerEmbedder.encode


def _encode_once(embedder: TransformerEmbedder, texts: Sequence[str]) -> "np.ndarray":
    import numpy as np

    missing = [text for text in dict.fromkeys(texts) if (embedder.name, text) not in _VECTORS]
    made = _really_encode(embedder, missing)
    _VECTORS.update({(embedder.name, text): vector for text, vector in zip(missing, made, strict=True)})
    return np.array([_VECTORS[embedder.name, text] for text in texts]).reshape(len(texts), made.shape[1])


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


@pytest.fixture(scope="session")
def empty_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the schema of a history: migrations take a twentieth of a second, a copy of it nothing."""
    path = tmp_path_factory.mktemp("empty") / "history.sqlite3"
    open_database(f"sqlite:///{path}").dispose()
    return path


@pytest.fixture
def sqlite_db(tmp_path: Path, empty_history: Path) -> Iterator[Database]:
    """An open, empty history database on SQLite, for tests of code that does not care which one it is."""
    opened = open_database(f"sqlite:///{shutil.copy(empty_history, tmp_path / 'history.sqlite3')}")
    yield opened
    opened.dispose()


@pytest.fixture
def db(sqlite_db: Database) -> Database:
    """In tests/storage, where the systems differ, this is `any_db`."""
    return sqlite_db


@pytest.fixture
def any_db(backend: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    """An open, empty history database on each database system.

    A server's schema is made once a session and emptied after each test: making one takes MariaDB two seconds.
    """
    if backend == "sqlite":
        yield request.getfixturevalue("sqlite_db")
        return
    opened = request.getfixturevalue("server_databases")(backend)
    yield opened
    with opened.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            if table is not schema_info:
                connection.execute(sa.delete(table))


@pytest.fixture(scope="session")
def server_databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Database]]:
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
    if not os.environ.get(_VARIABLES[backend]):
        pytest.skip(f"{_VARIABLES[backend]} is not set")
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
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 60})
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
    except OperationalError as error:
        pytest.fail(f"{variable} is set, but its server does not answer: {error.orig}", pytrace=False)
    finally:
        engine.dispose()


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """The system's Chromium, else Playwright's own, without a screen; without either the test is skipped, where nobody
    insists."""
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        except Error as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"no Chromium (playwright install chromium): {str(error).splitlines()[0]}")
        yield found
        found.close()
