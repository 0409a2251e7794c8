"""Which documents lost passages or got other text, so that a comparison can name what was taken out."""

import sqlalchemy as sa
from alembic import op

from rageval_dagster.storage.tables import TABLE_OPTIONS
from rageval_dagster.storage.types import LongText, UtcTime, hex_digest, identifier

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    if sa.inspect(op.get_bind()).has_table("document_changes"):
        return  # MariaDB keeps the steps of a process that was killed among them
    op.create_table(
        "document_changes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("document_id", LongText, nullable=False),
        sa.Column("document_key", hex_digest(), nullable=False),
        sa.Column("rewritten", sa.Integer(), nullable=False),
        sa.Column("removed", sa.Integer(), nullable=False),
        sa.Column("found_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_document_changes"),
        **TABLE_OPTIONS,
    )
    op.create_index("ix_document_changes_found_at", "document_changes", ["client_id", "found_at"])
