"""The storage tests run on each database system: SQL differs there, and nowhere else."""

import pytest

from rageval_dagster.storage.database import Database


@pytest.fixture
def db(any_db: Database) -> Database:
    return any_db
