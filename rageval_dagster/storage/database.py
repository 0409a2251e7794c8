"""Opening the history database: its engine, transactions, migration to the newest schema, and upserts."""

import functools
import os
import random
import re
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import DatabaseError as DriverDatabaseError

from rageval_dagster.errors import (
    MAKE_ROOM,
    DatabaseAwayError,
    DatabaseError,
    SettingsError,
    Translating,
    is_disk_full,
    unwritable,
)
from rageval_dagster.network import is_loopback, silence_libraries
from rageval_dagster.storage import tables
from rageval_dagster.storage.view_sources import create_views, views_digest

HEAD_REVISION = "0010"
"""The newest schema; a test holds it against the migrations, so that opening needs no alembic to know it."""

VERSION_TABLE = "rageval_schema_version"
"""Its own name, so that a database shared with another application that uses alembic keeps both."""

_DRIVERS = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgresql+psycopg": "postgresql",
    "mysql+pymysql": "mysql",
}
_CONNECT_TIMEOUT_S = 5
BUSY_TIMEOUT_MS = 30_000
_MIGRATION_WAIT_S = 60
_LOCK_NUMBER = 7_246_382_501  # any constant: the key of PostgreSQL's advisory lock
_ATTEMPTS = 8
_OUTAGE_POLL_S = 1.0
IN_LIST = 1_000
_WITHOUT_TLS = {"disable", "allow", "prefer"}
_UNENCRYPTED = (
    "RAGEVAL_DATABASE_URL says {option}, and {host} is another machine: texts of documents and the password would "
    "travel unencrypted; leave it out (TLS is used then), or name the certificates to verify"
)

OUTAGE_S = 60.0
"""How long a database that answered before is waited for when it does not any more."""

_Parameters = ParamSpec("_Parameters")
_Returned = TypeVar("_Returned")
_Key = TypeVar("_Key")


def retried(write: Callable[_Parameters, _Returned]) -> Callable[_Parameters, _Returned]:
    """Runs a function of one transaction again when the database gave it up.

    For another one (deadlock, lock wait), or because the connection broke: the function is idempotent, so that it does
    no harm where what broke off was only the word that it was done.
    """

    @functools.wraps(write)
    def wrapper(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Returned:
        for attempt in range(1, _ATTEMPTS):
            try:
                return write(*args, **kwargs)
            except (DBAPIError, DatabaseAwayError) as error:
                if isinstance(error, DBAPIError) and not _is_conflict(error):
                    raise
                time.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311 - no secret, only spreads the writers
        try:
            return write(*args, **kwargs)
        except DBAPIError as error:
            if not _is_conflict(error):
                raise
            raise DatabaseError(
                f"the history database stayed locked by other writers ({_reason(error)}); run again"
            ) from None

    return wrapper


class Database:
    """An open history database. `url` has its `password` hidden; `dialect` is sqlite, postgresql or mysql.

    `patience_s` is how long one that does not answer is waited for, in all until it answers again.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.dialect = engine.dialect.name
        self.url = engine.url.set(query={}).render_as_string(hide_password=True)
        self.password = SecretStr(engine.url.password or "")
        self._writing = engine.execution_options(rageval_begin="BEGIN IMMEDIATE")
        self._checks: list[Callable[[Connection], None]] = []
        self.patience_s = 0.0
        self._silent_since: float | None = None

    def __repr__(self) -> str:
        return f"Database({self.url})"

    @contextmanager
    def begin(self, checked: bool = True) -> Iterator[Connection]:
        """One transaction for writing: committed at the end, rolled back on any exception.

        On SQLite it takes the write lock at once, so that it waits for its turn and never fails half-way.

        Raises:
            DatabaseError: the database does not answer.
            DatabaseAwayError: it stopped answering in the middle, and whether it committed is not known.
            LeaseHeldError: this process held a client's lease and has lost it; not where `checked` is false.
        """
        connection = self._answering(self._writing)
        with _translated(self, DatabaseAwayError), connection, connection.begin():
            for check in tuple(self._checks) if checked else ():
                check(connection)
            yield connection

    @contextmanager
    def checking(self, check: Callable[[Connection], None]) -> Iterator[None]:
        """For the length of a block every checked transaction starts with `check`, which may refuse it by raising."""
        self._checks.append(check)
        try:
            yield
        finally:
            self._checks.remove(check)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """One consistent look for reading; on SQLite it neither waits for writers nor holds them up.

        Raises:
            DatabaseError: the database does not answer.
            DatabaseAwayError: it stopped answering in the middle, or stayed locked.
        """
        connection = self._answering(self.engine)
        with _translated(self, DatabaseAwayError, DatabaseAwayError), connection:
            yield connection

    def rows(self, query: sa.Executable) -> Sequence[sa.Row[Any]]:
        """The rows of one query; raises as `connect`."""
        with self.connect() as connection:
            return connection.execute(query).all()

    def rows_in(
        self, query: sa.Select[*tuple[Any, ...]], column: sa.ColumnElement[_Key], keys: Iterable[_Key]
    ) -> list[Any]:
        """The rows of a query whose column has one of the keys, as `rows_in`; raises as `connect`."""
        with self.connect() as connection:
            return list(rows_in(connection, query, column, keys))

    def scalars(self, query: sa.Executable) -> list[Any]:
        """The first column of a query's rows; raises as `connect`."""
        return [row[0] for row in self.rows(query)]

    @retried
    def execute(
        self, statement: sa.Executable, rows: Sequence[Mapping[str, Any]] | None = None, checked: bool = True
    ) -> int:
        """One idempotent statement in a transaction of its own, for each of `rows` where given; how many it changed.

        Raises as `begin`.
        """
        with self.begin(checked) as connection:
            return connection.execute(statement, rows).rowcount

    @retried
    def upsert(
        self,
        table: sa.Table,
        rows: Sequence[Mapping[str, Any]],
        update: Sequence[str] | Callable[[Any], Mapping[str, Any]] = (),
        checked: bool = True,
    ) -> None:
        """One `upsert` in a transaction of its own; raises as `begin`."""
        if rows:
            with self.begin(checked) as connection:
                upsert(connection, table, rows, update)

    def _answering(self, engine: sa.Engine) -> Connection:
        """A connection, as soon as the database gives one; no longer than our patience after it was first silent."""
        with _translated(self):
            while True:
                try:
                    connection = engine.connect()
                except (OperationalError, InterfaceError):
                    now = time.monotonic()
                    self._silent_since = self._silent_since or now
                    if now - self._silent_since >= self.patience_s:
                        raise
                    time.sleep(_OUTAGE_POLL_S)
                else:
                    self._silent_since = None
                    return connection

    def dispose(self) -> None:
        """Closes the pooled connections; the next use opens new ones."""
        self.engine.dispose()


def open_database(url: SecretStr | str) -> Database:
    """Connects, and brings schema and views to this version where they are not.

    Several processes may open a new database at once: one of them makes the schema, the others wait.
    A database that is up to date needs no right to change the schema. A server on another machine is spoken to by TLS.

    Raises:
        DatabaseError: one line without the password: the URL is unusable, nothing answers, a newer version made it, or
            its schema is to be changed and this user may not.
        SettingsError: the URL names another machine and asks for a connection without TLS.
    """
    db = Database(_create_engine(_parse(url)))
    try:
        if _installed(db) != (HEAD_REVISION, views_digest()):
            _upgrade(db)
    except BaseException:
        db.dispose()
        raise
    db.patience_s = OUTAGE_S
    return db


def upsert(
    connection: Connection,
    table: sa.Table,
    rows: Sequence[Mapping[str, Any]],
    update: Sequence[str] | Callable[[Any], Mapping[str, Any]] = (),
    key: Sequence[str] | None = None,
) -> None:
    """Inserts rows; one whose key is there already is left alone, or gets the new values of `update`.

    `update` names columns, or is a function from the proposed row's columns to new values; `key` names the columns of a
    unique constraint, where that is not the primary key. The statement is sent as one prepared batch, so that no limit
    on parameters applies. Rows go in key order, so that writers do not deadlock.
    """
    if not rows:
        return
    key = key or [column.name for column in table.primary_key.columns]
    ordered = sorted(rows, key=lambda row: tuple(row[name] for name in key))
    statement: Any
    if connection.dialect.name == "mysql":
        from sqlalchemy.dialects.mysql import insert as mysql_insert

        statement = mysql_insert(table)
        values = _updates(statement.inserted, update)
        # Setting a key column to itself changes nothing, yet unlike INSERT IGNORE hides no other error.
        # As a list, so that their order stays: what is set before is what the next one reads.
        statement = statement.on_duplicate_key_update(list((values or {key[0]: table.c[key[0]]}).items()))
    else:
        from sqlalchemy.dialects import postgresql, sqlite

        statement = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)
        values = _updates(statement.excluded, update)
        if values:
            statement = statement.on_conflict_do_update(index_elements=key, set_=values)
        else:
            statement = statement.on_conflict_do_nothing(index_elements=key)
    connection.execute(statement, [dict(row) for row in ordered])


def _updates(proposed: Any, update: Sequence[str] | Callable[[Any], Mapping[str, Any]]) -> dict[str, Any]:
    if callable(update):
        return dict(update(proposed))
    return {name: proposed[name] for name in update}


def same(left: sa.Table, right: sa.Table, *names: str) -> sa.ColumnElement[bool]:
    """Whether the columns of these names are the same in a row of each table."""
    return sa.and_(*(left.c[name] == right.c[name] for name in names))


def in_batches(keys: Iterable[_Key], size: int = IN_LIST) -> Iterator[list[_Key]]:
    """Distinct keys in lists of at most `size`, by default short enough for an IN clause, in a fixed order."""
    distinct = list(dict.fromkeys(keys))
    for start in range(0, len(distinct), size):
        yield distinct[start : start + size]


def rows_in(
    connection: Connection, query: sa.Select[*tuple[Any, ...]], column: sa.ColumnElement[_Key], keys: Iterable[_Key]
) -> Iterator[Any]:
    """The rows of a query whose column has one of the keys, however many; an order holds within a batch of keys."""
    for batch in in_batches(keys):
        yield from connection.execute(query.where(column.in_(batch)))


@retried
def delete_batch(db: Database, table: sa.Table, condition: sa.ColumnElement[bool]) -> int:
    """Deletes rows that the condition is true of, so few that nobody waits for long, and returns how many."""
    key = list(table.primary_key.columns)
    one = sa.and_(*(column == sa.bindparam(f"key_{column.name}") for column in key))
    with db.begin() as connection:
        rows = connection.execute(sa.select(*key).where(condition).limit(IN_LIST)).mappings().all()
        if rows:
            keys = [{f"key_{name}": value for name, value in row.items()} for row in rows]
            connection.execute(sa.delete(table).where(one), keys)
    return len(rows)


def _is_conflict(error: DBAPIError) -> bool:
    # MariaDB: lock wait timeout, deadlock, record changed since last read.
    code = _code(error)
    return _state(error) in {"40001", "40P01"} or code in {1205, 1213, 1020} or "database is locked" in str(code)


def _is_forbidden(error: DBAPIError) -> bool:
    """Whether the user lacks the right: PostgreSQL's insufficient privilege; MariaDB's for a database, for a table."""
    return _state(error) == "42501" or _code(error) in {1044, 1142}


def _is_full(db: Database, error: DBAPIError) -> bool:
    """Whether the disk is full: PostgreSQL's states for that; MariaDB's numbers; SQLite's words."""
    return _state(error) in {"53100", "53000"} or _code(error) in {1021, 1114} or is_disk_full(error.orig, _folder(db))


def _folder(db: Database) -> Path | None:
    """Where SQLite's file is."""
    file = db.engine.url.database if db.dialect == "sqlite" else None
    return Path(file).parent if file else None


def _is_lost(error: DBAPIError) -> bool:
    """Whether the connection is gone; MariaDB that shuts down, or whose administrator ended it, says so first."""
    return error.connection_invalidated or _code(error) in {1053, 1927}


def _state(error: DBAPIError) -> str | None:
    """PostgreSQL's SQLSTATE."""
    return getattr(error.orig, "sqlstate", None)


def _code(error: DBAPIError) -> Any:
    """MariaDB's number of the error; SQLite's words."""
    return error.orig.args[0] if error.orig is not None and error.orig.args else None


def _translated(
    db: Database, lost: type[DatabaseError] = DatabaseError, conflict: type[DatabaseError] | None = None
) -> Translating:
    """Turns what a driver raises into one line, where it is no mistake of the code.

    A broken connection becomes `lost`, what gave way to another writer `conflict`, or stays as it is for `retried`.
    """

    def translate(error: BaseException) -> DatabaseError | None:
        if not isinstance(error, DBAPIError):
            return None
        if _is_forbidden(error):
            return DatabaseError(
                f"{db.url}: this user may not do that ({_reason(error, db.password)}); to bring the schema "
                "to this version, run once: RAGEVAL_DATABASE_URL=<the owner's URL> rageval doctor"
            )
        if _is_full(db, error):
            return DatabaseError(f"{db.url}: {MAKE_ROOM}")
        kind = conflict if _is_conflict(error) else lost if _is_lost(error) else DatabaseError
        # Other kinds are mistakes of the code; the plain DatabaseError is SQLite's for a file that is none.
        if kind is None or type(error) not in {OperationalError, InterfaceError, DriverDatabaseError}:
            return None
        return kind(f"{db.url}: {_reason(error, db.password)}; check RAGEVAL_DATABASE_URL and that the database runs")

    return Translating(translate)


def _reason(error: Exception, password: SecretStr | None = None) -> str:
    """The driver's own words on one line, without the password."""
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    arguments = original.args
    if len(arguments) == 2 and isinstance(arguments[0], int):  # MariaDB: (number, message)
        arguments = arguments[1:]
    text = re.sub(r"\s+", " ", " ".join(str(argument) for argument in arguments)).strip()
    if password is not None and password.get_secret_value():
        text = text.replace(password.get_secret_value(), "***")
    return text[:300] or type(original).__name__


def _parse(text: SecretStr | str) -> URL:
    try:
        url = make_url(text if isinstance(text, str) else text.get_secret_value())
    except (ArgumentError, ValueError):
        raise DatabaseError(
            "RAGEVAL_DATABASE_URL takes sqlite:///FILE, postgresql+psycopg://USER@HOST/NAME or mysql+pymysql://USER@HOST/NAME"
        ) from None
    for key in ("password", "passwd"):
        # There it would be shown, unlike in its own place.
        if key in url.query:
            url = url.set(password=str(url.query[key])).difference_update_query([key])
    dialect = _DRIVERS.get(url.drivername)
    if dialect is None:
        raise DatabaseError(
            f"RAGEVAL_DATABASE_URL starts with {url.drivername}://; it takes sqlite:///, postgresql+psycopg:// or mysql+pymysql://"
        )
    if not url.database or (dialect == "sqlite" and url.database == ":memory:"):
        what = "a file" if dialect == "sqlite" else "a database"
        raise DatabaseError(
            f"RAGEVAL_DATABASE_URL names no {what[2:]}: end it with {what}, as in {url.drivername}:///NAME"
        )
    if dialect == "postgresql" and not _is_local(url):
        return url.update_query_dict({"sslmode": _tls_mode(url)})
    if dialect == "mysql":
        if "ssl_disabled" in url.query and not _is_local(url):
            raise SettingsError(_UNENCRYPTED.format(option="ssl_disabled", host=url.host))
        return url.update_query_dict({"charset": "utf8mb4"})
    return url


def _is_local(url: URL) -> bool:
    """Whether the connection stays on this machine: by a loopback address, or a Unix socket."""
    named = (url.host, *(url.query.get(key) for key in ("host", "hostaddr", "unix_socket")))
    hosts = [
        host
        for value in named
        if value
        for part in ([value] if isinstance(value, str) else value)
        for host in part.split(",")
    ]
    # Where none is named, MySQL's driver takes localhost, PostgreSQL's a socket (TLS or not) or what PGHOST names.
    local = all(host.startswith(("/", "@")) or is_loopback(host) for host in hosts)
    return local and (bool(hosts) or url.drivername.startswith("mysql"))


def _tls_mode(url: URL) -> str:
    """PostgreSQL's sslmode off this machine: what the URL or PGSSLMODE names, at least `require`.

    Raises:
        SettingsError: that would allow a connection without TLS.
    """
    mode = str(url.query.get("sslmode") or os.environ.get("PGSSLMODE") or "require")
    if mode in _WITHOUT_TLS:
        raise SettingsError(_UNENCRYPTED.format(option=f"sslmode={mode}", host=url.host or "the server"))
    return mode


def _create_engine(url: URL) -> sa.Engine:
    dialect = _DRIVERS[url.drivername]
    # They log the rows that are read, and what a server says to a password.
    silence_libraries(("sqlalchemy", "psycopg"))
    # Without hide_parameters an exception's message would hold the texts that were being written.
    common: dict[str, Any] = {"hide_parameters": True}
    if dialect == "sqlite":
        _prepare_file(Path(str(url.database)))
        engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000}, **common)
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    common["pool_pre_ping"] = True  # a daemon's connections outlive restarts of the server
    connect_args: dict[str, Any] = {"connect_timeout": _CONNECT_TIMEOUT_S}
    if dialect == "mysql":
        connect_args["init_command"] = "SET SESSION sql_mode='STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'"
        if not _is_local(url) and not any(key.startswith("ssl") for key in url.query):
            # As PostgreSQL's `require`: no connection without TLS; the URL may name certificates to verify.
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            connect_args["ssl"] = context
    # Read committed: MariaDB's default locks the gaps between keys, on which parallel writers deadlock.
    engine = sa.create_engine(url, connect_args=connect_args, isolation_level="READ COMMITTED", **common)
    if dialect == "postgresql":
        event.listen(engine, "connect", _configure_postgresql)
    return engine


def _prepare_file(path: Path) -> None:
    try:
        path.touch(mode=0o600, exist_ok=True)
        path.chmod(0o600)
    except OSError as error:
        raise DatabaseError(unwritable(f"sqlite:///{path} cannot be written", error, "name a file that can")) from None


def _configure_postgresql(connection: Any, _record: Any) -> None:
    # It compiles each query anew that it takes for expensive: seconds for one of the views that runs for milliseconds.
    with connection.cursor() as cursor:
        cursor.execute("SET jit = off")
    connection.commit()


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by `_begin_sqlite`, not by the driver
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("rageval_begin", "BEGIN"))


def _installed(db: Database) -> tuple[str | None, str | None]:
    """The schema's revision and the digest of the views' text that the database has."""
    with db.connect() as connection:
        inspector = sa.inspect(connection)
        if not inspector.has_table(VERSION_TABLE) or not inspector.has_table(tables.schema_info.name):
            return None, None
        revision = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
        return revision, _stored_views(connection)


def _upgrade(db: Database) -> None:
    if db.dialect == "sqlite":
        _enable_write_ahead_log(db)
    with _exclusive(db) as connection:
        if db.dialect == "postgresql":
            _check_schema(db, connection)
        _migrate(db, connection)
        if _stored_views(connection) != views_digest():
            create_views(connection)
            upsert(connection, tables.schema_info, [{"name": "views", "value": views_digest()}], update=["value"])


def _check_schema(db: Database, connection: Connection) -> None:
    """Raises DatabaseError where PostgreSQL has no schema of the search path, so that a table would have no place."""
    if connection.execute(sa.select(sa.func.current_schema())).scalar() is not None:
        return
    path = [name.strip() for name in str(connection.execute(sa.text("SHOW search_path")).scalar()).split(",")]
    schema = next((name for name in path if name not in ("", '""', '"$user"')), "public")
    raise DatabaseError(
        f"{db.url}: there is no schema {schema}, or this user may not use it; create it, in that database: "
        f"CREATE SCHEMA {schema};"
    )


def _stored_views(connection: Connection) -> str | None:
    return connection.execute(
        sa.select(tables.schema_info.c.value).where(tables.schema_info.c.name == "views")
    ).scalar()


def _migrate(db: Database, connection: Connection) -> None:
    from alembic import command
    from alembic.util import CommandError

    config = alembic_config(connection)
    try:
        if _is_new(db, connection):
            # First of all: by it `_is_new` knows the tables as ours.
            tables.schema_info.create(connection, checkfirst=False)
            others = [table for table in tables.metadata.sorted_tables if table is not tables.schema_info]
            tables.metadata.create_all(connection, tables=others, checkfirst=False)
            command.stamp(config, "head")
        else:
            command.upgrade(config, "head")
    except CommandError as error:
        raise DatabaseError(
            f"{db.url}: its schema is not one this version knows ({_reason(error)}); "
            "use the rageval that made it, or a newer one"
        ) from None
    except DBAPIError as error:
        if _is_conflict(error) or _is_forbidden(error) or _is_full(db, error):
            raise
        raise DatabaseError(
            f"{db.url}: the schema cannot be made ({_reason(error, db.password)}); "
            "give rageval a database of its own and the right to create tables in it"
        ) from None


def _is_new(db: Database, connection: Connection) -> bool:
    """Whether the database has no tables of ours.

    Empty ones, of a process that was killed while it made them, are dropped (MariaDB cannot roll that back).

    Raises:
        DatabaseError: there are rows, and nothing says of which version.
    """
    present = set(sa.inspect(connection).get_table_names())
    if VERSION_TABLE in present and connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).first():
        return False
    if tables.schema_info.name in present:
        ours = [table for table in tables.metadata.sorted_tables if table.name in present]
        if any(connection.execute(sa.select(sa.literal(1)).select_from(table)).first() for table in ours):
            raise DatabaseError(
                f"{db.url}: there are rageval tables with rows, but {VERSION_TABLE} does not say of which version; "
                "restore that table, or give rageval an empty database"
            )
        tables.metadata.drop_all(connection, tables=ours)
    return True


def alembic_config(connection: Connection | None = None) -> Any:
    """Alembic's configuration for the migrations of this package, over an open connection."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _enable_write_ahead_log(db: Database) -> None:
    """Turns on WAL, which stays with the file. Another process doing the same makes SQLite refuse without waiting."""
    deadline = time.monotonic() + _MIGRATION_WAIT_S
    with _translated(db):
        connection = db.engine.raw_connection()
        try:
            while True:
                try:
                    connection.cursor().execute("PRAGMA journal_mode = WAL")
                    return
                except db.engine.dialect.loaded_dbapi.OperationalError as error:
                    if is_disk_full(error, _folder(db)):
                        raise DatabaseError(f"{db.url}: {MAKE_ROOM}") from None
                    if "locked" not in str(error) or time.monotonic() > deadline:
                        raise DatabaseError(f"{db.url}: {error}; close what has the file open") from None
                    time.sleep(0.05)
        finally:
            connection.close()


@contextmanager
def _exclusive(db: Database) -> Iterator[Connection]:
    """A transaction in which no other process changes the schema."""
    with db.begin() as connection:
        if db.dialect == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK_NUMBER)))
        if db.dialect != "mysql":
            yield connection
            return
        # MariaDB commits at every change of the schema: the lock belongs to the connection, its name to the database.
        name = f"rageval:{connection.execute(sa.select(sa.func.database())).scalar()}"[:64]
        if connection.execute(sa.select(sa.func.get_lock(name, _MIGRATION_WAIT_S))).scalar() != 1:
            raise DatabaseError(f"{db.url}: another process has been changing the schema for a minute; run again")
        try:
            yield connection
        finally:
            connection.execute(sa.select(sa.func.release_lock(name)))
