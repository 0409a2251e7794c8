"""Whose words an answer held that is not kept."""

import sqlalchemy as sa
from alembic import op

from rageval_dagster.storage.tables import item_results
from rageval_dagster.storage.types import JsonText

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Adds the column; a process killed before it could note that may have added it."""
    columns = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(item_results.name)}
    if "answer_holders" not in columns:
        op.add_column(item_results.name, sa.Column("answer_holders", JsonText))
