"""Means that labels correct, and answers that were judged anew to see whether the judge has changed."""

import sqlalchemy as sa
from alembic import op

from rageval_dagster.storage.tables import judge_checks

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Adds the columns and the table; a process killed before it could note that may have added some of them."""
    there = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("metric_summaries")}
    figures = ("corrected_mean", "corrected_low", "corrected_high", "agreement")
    columns = [*(sa.Column(name, sa.Double) for name in figures), sa.Column("labels", sa.Integer)]
    for column in columns:
        if column.name not in there:
            op.add_column("metric_summaries", column)
    judge_checks.create(op.get_bind(), checkfirst=True)
