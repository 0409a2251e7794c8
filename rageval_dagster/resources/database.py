"""The history database as a Dagster resource."""

import os
from functools import lru_cache
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import SecretStr

from rageval_dagster.errors import RagevalError
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
        if os.environ.get("DAGSTER_HOME") == str(settings.dagster_home):
            # What Dagster writes from now on is for its owner only. Another DAGSTER_HOME is for its owner to protect:
            # runs of other projects, too, are started by this process.
            os.umask(0o077)
        return _open(settings.database_url)

    def client_of(self, key: str) -> str:
        """The client whose partition that is.

        Raises:
            RagevalError: the key was made for a client that the database does not know (any more).
        """
        from rageval_dagster.corpus.names import is_made_key, partition_key
        from rageval_dagster.storage.clients import list_clients

        if not is_made_key(key):
            return key
        known = (client.client_id for client in list_clients(self.open()))
        found = next((client_id for client_id in known if partition_key(client_id) == key), None)
        if found is None:
            raise RagevalError(f"no client has the partition {key!r}; `rageval clients list` shows those there are")
        return found


@lru_cache(maxsize=4)
def _open(url: SecretStr) -> "Database":
    from rageval_dagster.storage.database import open_database

    return open_database(url)
