"""Experiments: searches for the best configuration, and what each question came to under each."""

from alembic import op

from rageval_dagster.storage.tables import experiment_results, experiments

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Adds the tables; a process killed before it could note that may have added them."""
    for table in (experiments, experiment_results):
        table.create(op.get_bind(), checkfirst=True)
