"""Labels of people, and from what they are drawn."""

from alembic import op

from rageval_dagster.storage.tables import answer_labels, label_queue

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Adds the tables; a process killed before it could note that may have added them."""
    for table in (answer_labels, label_queue):
        table.create(op.get_bind(), checkfirst=True)
