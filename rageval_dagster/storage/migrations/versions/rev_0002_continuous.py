"""What running for months needs: changes of the corpus, baselines, comparisons with them, and incidents."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from rageval_dagster.storage.tables import TABLE_OPTIONS
from rageval_dagster.storage.types import JsonText, LongText, UtcTime, identifier

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    # Each step only where it is not done yet: MariaDB keeps the steps of a process that was killed among them.
    _add_columns("clients", sa.Column("notified_at", UtcTime()))
    _add_columns(
        "evaluation_datasets",
        *(sa.Column(name, sa.Integer()) for name in ("documents", "documents_touched", "topics", "topics_touched")),
    )
    _add_columns(
        "evaluation_runs",
        sa.Column("baseline_id", sa.Integer()),
        sa.Column("verdict", identifier(20)),
        sa.Column("changes", JsonText()),
        sa.Column("newly_failing", JsonText()),
    )
    _create_index("ix_evaluation_runs_finished_at", "evaluation_runs", ["finished_at"])
    _create_table(
        "corpus_changes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("corpus_version", identifier(64), nullable=False),
        sa.Column("index_version", identifier(64), nullable=False),
        sa.Column("difference", JsonText(), nullable=False),
        sa.Column("found_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_corpus_changes"),
    )
    _create_index("ix_corpus_changes_found_at", "corpus_changes", ["client_id", "found_at"])
    _create_table(
        "metric_comparisons",
        sa.Column("evaluation_id", sa.Integer(), nullable=False),
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("metric_id", identifier(100), nullable=False),
        sa.Column("metric_version", identifier(128), nullable=False),
        sa.Column("higher_is_better", sa.Boolean(), nullable=False),
        sa.Column("baseline_id", sa.Integer(), nullable=False),
        sa.Column("gated", sa.Boolean(), nullable=False),
        sa.Column("n_shared", sa.Integer(), nullable=False),
        sa.Column("baseline_mean", sa.Double()),
        sa.Column("mean", sa.Double()),
        sa.Column("difference", sa.Double()),
        sa.Column("ci_low", sa.Double()),
        sa.Column("ci_high", sa.Double()),
        sa.Column("p_value", sa.Double()),
        sa.Column("adjusted_p", sa.Double()),
        sa.Column("smallest_drop", sa.Double()),
        sa.Column("decision", identifier(20), nullable=False),
        sa.Column("remark", identifier(200)),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluation_runs.id"], name="fk_metric_comparisons_evaluation_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("evaluation_id", "metric_id", name="pk_metric_comparisons"),
    )
    _create_table(
        "baselines",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("dataset_name", identifier(200), nullable=False),
        sa.Column("system_name", identifier(200), nullable=False),
        sa.Column("evaluation_id", sa.Integer(), nullable=False),
        sa.Column("accepted_at", UtcTime(), nullable=False),
        sa.Column("reason", identifier(20), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluation_runs.id"], name="fk_baselines_evaluation_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_baselines"),
    )
    _create_index("ix_baselines_dataset_name", "baselines", ["client_id", "dataset_name"])
    _create_table(
        "incidents",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("kind", identifier(20), nullable=False),
        sa.Column("subject", LongText(), nullable=False),
        sa.Column("open_key", identifier(64)),
        sa.Column("opened_at", UtcTime(), nullable=False),
        sa.Column("closed_at", UtcTime()),
        sa.Column("evaluation_id", sa.Integer()),
        sa.Column("run_id", LongText()),
        sa.Column("details", JsonText(), nullable=False),
        sa.Column("opening_told_at", UtcTime()),
        sa.Column("closing_told_at", UtcTime()),
        sa.Column("claimed_until", UtcTime()),
        sa.PrimaryKeyConstraint("id", name="pk_incidents"),
        sa.UniqueConstraint("open_key", name="uq_incidents"),
    )
    _create_index("ix_incidents_opened_at", "incidents", ["client_id", "opened_at"])


def _add_columns(table: str, *columns: sa.Column[Any]) -> None:
    present = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
    for column in columns:
        if column.name not in present:
            op.add_column(table, column)


def _create_table(name: str, *parts: Any) -> None:
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *parts, **TABLE_OPTIONS)


def _create_index(name: str, table: str, columns: list[str]) -> None:
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, columns, unique=False)
