"""What still counts: the systems that a client's settings evaluate, and the datasets that nobody retired."""

import sqlalchemy as sa
from alembic import op

from rageval_dagster.storage.tables import TABLE_OPTIONS
from rageval_dagster.storage.types import UtcTime, identifier

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    # Each step only where it is not done yet: MariaDB keeps the steps of a process that was killed among them.
    present = sa.inspect(op.get_bind())
    if "retired_at" not in {column["name"] for column in present.get_columns("evaluation_datasets")}:
        op.add_column("evaluation_datasets", sa.Column("retired_at", UtcTime()))
    if not present.has_table("client_systems"):
        op.create_table(
            "client_systems",
            sa.Column("client_id", identifier(200), nullable=False),
            sa.Column("system_name", identifier(200), nullable=False),
            sa.PrimaryKeyConstraint("client_id", "system_name", name="pk_client_systems"),
            **TABLE_OPTIONS,
        )
