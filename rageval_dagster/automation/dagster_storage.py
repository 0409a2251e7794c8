"""Dagster's storage in PostgreSQL over connections that stay open: Dagster's own opens one for each statement."""

import os
from collections.abc import Mapping
from functools import cache, lru_cache, partial
from typing import Any, Self

import sqlalchemy as sa
from dagster_postgres import DagsterPostgresStorage
from dagster_postgres.utils import pg_url_from_config

from rageval_dagster.automation.dagster_internals import ConfigurableClassData

_IDLE = 2
"""Connections that a process keeps; at a time it may have more."""


class PooledPostgresStorage(DagsterPostgresStorage):
    """DagsterPostgresStorage whose parts share a process's connections, and look for their tables once a process."""

    def __init__(self, postgres_url: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(postgres_url, should_autocreate_tables=postgres_url not in _with_tables, inst_data=inst_data)
        _with_tables.add(postgres_url)
        for part in (self._run_storage, self._event_log_storage, self._schedule_storage):
            part._engine = _engine(postgres_url)
        _remember_tables(self._event_log_storage)

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        return cls(pg_url_from_config(config_value), inst_data)


_with_tables: set[str] = set()


def _remember_tables(events: Any) -> None:
    """Dagster asks with every event which tables and columns there are: a migration takes a new process anyway."""
    ask, columns = events._has_asset_key_col_on_connection, dict[str, bool]()

    def has_column(connection: sa.Connection, column: str) -> bool:
        if column not in columns:
            columns[column] = ask(connection, column)
        return columns[column]

    events.has_table, events._has_asset_key_col_on_connection = cache(events.has_table), has_column


@lru_cache(maxsize=4)
def _engine(url: str) -> sa.Engine:
    # A connection that the server closed, as when it restarts, is replaced before it is used.
    engine = sa.create_engine(
        url, isolation_level="AUTOCOMMIT", pool_size=_IDLE, max_overflow=-1, pool_pre_ping=True, pool_recycle=3600
    )
    os.register_at_fork(after_in_child=partial(engine.dispose, close=False))
    return engine
