"""Titles of documents: a scan fills them in, and finds those of chunks that are there already."""

import sqlalchemy as sa
from alembic import op

from rageval_dagster.storage.types import LongText

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds `corpus_chunks.title`; a process killed before it could note that may have added it."""
    columns = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("corpus_chunks")}
    if "title" not in columns:
        op.add_column("corpus_chunks", sa.Column("title", LongText))
