"""The first release. A new database gets its tables from `storage.tables` and starts at the newest revision.

Each later change of a released schema is a revision of its own, which says what to do with rows that are there.
"""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Nothing: no database is older."""
