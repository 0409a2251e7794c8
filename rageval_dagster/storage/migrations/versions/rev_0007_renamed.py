"""Which title a document had that is gone, and under which id its text went on."""

import sqlalchemy as sa
from alembic import op

from rageval_dagster.storage.tables import document_changes
from rageval_dagster.storage.types import LongText

revision = "0007"
down_revision = "0006"

INDEX = "ix_document_changes_document_key"


def upgrade() -> None:
    """Adds the columns and the index; a process killed before it could note that may have added some of them."""
    connection = op.get_bind()
    there = sa.inspect(connection)
    columns = {column["name"] for column in there.get_columns(document_changes.name)}
    for name in ("title", "moved_to"):
        if name not in columns:
            op.add_column(document_changes.name, sa.Column(name, LongText))
    known = {index["name"] for index in there.get_indexes(document_changes.name)}
    for index in document_changes.indexes:
        if index.name == INDEX and index.name not in known:
            index.create(connection)
