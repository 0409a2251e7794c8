"""Labels of people, and from what they are drawn."""

import sqlalchemy as sa
from alembic import op

from rageval_dagster.storage.tables import answer_labels, label_queue

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Adds both tables; a process killed before it could note that may have added them."""
    there = sa.inspect(op.get_bind()).get_table_names()
    for table in (answer_labels, label_queue):
        if table.name not in there:
            table.create(op.get_bind())
