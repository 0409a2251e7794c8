"""The history database as a Dagster resource."""

from functools import lru_cache
from typing import TYPE_CHECKING

import dagster as dg

from rageval_dagster.settings import load_settings

if TYPE_CHECKING:
    from rageval_dagster.storage.database import Database


class HistoryDatabase(dg.ConfigurableResource):
    """Opens the history database of the settings; it is migrated where needed, and opened once per process.

    It takes no Dagster configuration, so that the URL with its password never reaches Dagster's storage.
    """

    def open(self) -> "Database":
        settings = load_settings()
        settings.ensure_home()
        return _open(settings.database_url)


@lru_cache(maxsize=4)
def _open(url: str) -> "Database":
    from rageval_dagster.storage.database import open_database

    return open_database(url)
