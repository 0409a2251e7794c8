"""Which questions newly pass, beside those that newly fail."""

import sqlalchemy as sa
from alembic import op

from rageval_dagster.storage.tables import evaluation_runs
from rageval_dagster.storage.types import JsonText

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Adds the column; a process killed before it could note that may have added it."""
    columns = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(evaluation_runs.name)}
    if "newly_passing" not in columns:
        op.add_column(evaluation_runs.name, sa.Column("newly_passing", JsonText))
