"""Which documents got, lost or changed passages, so that a comparison can name them; from the next scan on."""

import sqlalchemy as sa
from alembic import op

from rageval_dagster.storage.tables import TABLE_OPTIONS
from rageval_dagster.storage.types import LongText, UtcTime, hex_digest, identifier

revision = "0004"
down_revision = "0003"

TABLE, INDEX = "document_changes", "ix_document_changes_found_at"


def upgrade() -> None:
    # MariaDB keeps the steps of a process that was killed among them.
    inspector = sa.inspect(op.get_bind())
    if not inspector.has_table(TABLE):
        op.create_table(
            TABLE,
            sa.Column("id", sa.Integer(), nullable=False),
            sa.Column("client_id", identifier(200), nullable=False),
            sa.Column("document_id", LongText, nullable=False),
            sa.Column("document_key", hex_digest(), nullable=False),
            sa.Column("added", sa.Integer(), nullable=False),
            sa.Column("changed", sa.Integer(), nullable=False),
            sa.Column("removed", sa.Integer(), nullable=False),
            sa.Column("found_at", UtcTime(), nullable=False),
            sa.PrimaryKeyConstraint("id", name="pk_document_changes"),
            **TABLE_OPTIONS,
        )
        op.create_index(INDEX, TABLE, ["client_id", "found_at"])
    elif INDEX not in {index["name"] for index in inspector.get_indexes(TABLE)}:
        op.create_index(INDEX, TABLE, ["client_id", "found_at"])
