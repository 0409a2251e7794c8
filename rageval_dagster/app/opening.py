"""What every use case begins with: the settings, and the history database that they name."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rageval_dagster.settings import Settings, load_settings

if TYPE_CHECKING:
    from rageval_dagster.storage.database import Database

Tell = Callable[[str], None]
"""Takes a line of progress or advice."""


def untold(_: str) -> None:
    """For who does not want to be told."""


def open_all() -> "tuple[Settings, Database]":
    """The settings and the history database they name, which is made where there is none."""
    from rageval_dagster.storage.database import open_database

    settings = load_settings()
    settings.ensure_home()
    return settings, open_database(settings.database_url)
