"""Which evaluation is the newest of its dataset's name and its system, which is the one before, and indexes to them."""

import sqlalchemy as sa
from alembic import op

from rageval_dagster.storage.database import IN_LIST, in_batches
from rageval_dagster.storage.tables import evaluation_datasets, evaluation_runs

revision = "0006"
down_revision = "0005"

INDEXES = ("ix_evaluation_runs_newest", "ix_evaluation_runs_dataset_id", "ix_evaluation_runs_system_name")


def upgrade() -> None:
    """Adds the columns and fills them in; a process killed before it could note that may have begun."""
    connection, runs = op.get_bind(), evaluation_runs.c
    there = sa.inspect(connection)
    columns = {column["name"] for column in there.get_columns(evaluation_runs.name)}
    for column in (sa.Column("newest", sa.Boolean), sa.Column("previous_id", sa.Integer)):
        if column.name not in columns:
            op.add_column(evaluation_runs.name, column)
    names = evaluation_datasets.c
    newest = (
        sa.select(sa.func.max(runs.id))
        .join(evaluation_datasets, names.id == runs.dataset_id)
        .where(runs.status == "complete")
        .group_by(runs.client_id, names.name, runs.system_name)
    )
    for ids in in_batches(connection.execute(newest).scalars().all()):
        connection.execute(sa.update(evaluation_runs).where(runs.id.in_(ids)).values(newest=True))
    alike = {"partition_by": (runs.dataset_id, runs.system_name), "order_by": runs.id}
    ordered = sa.select(runs.id, sa.func.lag(runs.id).over(**alike).label("before")).where(runs.status == "complete")
    before = [{"key": row.id, "before": row.before} for row in connection.execute(ordered) if row.before is not None]
    update = sa.update(evaluation_runs).where(runs.id == sa.bindparam("key"))
    for start in range(0, len(before), IN_LIST):
        connection.execute(update.values(previous_id=sa.bindparam("before")), before[start : start + IN_LIST])
    known = {index["name"] for index in there.get_indexes(evaluation_runs.name)}
    for index in evaluation_runs.indexes:
        if index.name in INDEXES and index.name not in known:
            index.create(connection)
