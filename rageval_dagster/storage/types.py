"""Column types that mean the same on SQLite, PostgreSQL and MariaDB: ids, hashes, texts, JSON, scores and UTC times."""

import json
import re
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def storable(text: str) -> str:
    """The text as all three databases can hold it: U+0000 and lone surrogates become U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def identifier(length: int) -> TypeEngine[str]:
    """A key column of at most `length` characters, compared byte by byte (MariaDB: by the table's collation)."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


def hex_digest() -> TypeEngine[str]:
    """A column for up to 64 hex digits."""
    return identifier(64)


def big_integer() -> TypeEngine[int]:
    """64 bits; SQLite's only self-numbering type is INTEGER, which has 64 bits too."""
    return BigInteger().with_variant(Integer(), "sqlite")


class LongText(TypeDecorator[str]):
    """Text of any length; what no database could hold is replaced as in `storable`."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(mysql.LONGTEXT() if dialect.name == "mysql" else Text())

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class JsonText(TypeDecorator[Any]):
    """A JSON value as text. Lossless for any string: U+0000 and lone surrogates are stored as escapes."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(mysql.LONGTEXT() if dialect.name == "mysql" else Text())

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        if value is None:
            return None
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


class UtcTime(TypeDecorator[datetime]):
    """A moment with microseconds: aware UTC in Python, stored as UTC."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "mysql":
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        return dialect.type_descriptor(DateTime(timezone=dialect.name == "postgresql"))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        # A time without a zone can only come from a document's metadata: there UTC is the convention.
        aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return aware if dialect.name == "postgresql" else aware.replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def utc_now() -> datetime:
    return datetime.now(UTC)


class database_clock(FunctionElement[datetime]):  # noqa: N801  (a function of SQL)
    """Now by the clock of the database: what machines agree on that share one, whose own clocks differ."""

    type = UtcTime()
    inherit_cache = True


_CLOCKS = {
    "sqlite": "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')",  # as SQLAlchemy writes moments there
    "postgresql": "clock_timestamp()",
    "mysql": "utc_timestamp(6)",
}


@compiles(database_clock)
def _clock(_element: database_clock, compiler: Any, **_: Any) -> str:
    return _CLOCKS[compiler.dialect.name]
