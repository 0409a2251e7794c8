"""The tables of the first release."""

import sqlalchemy as sa
from alembic import op

from rageval_dagster.storage.tables import TABLE_OPTIONS
from rageval_dagster.storage.types import JsonText, LongText, UtcTime, big_integer, identifier

revision = "0001"
down_revision = None


def upgrade() -> None:
    # First of all: by it `database._discard_unfinished` knows the tables as ours.
    op.create_table(
        "schema_info",
        sa.Column("name", identifier(50), nullable=False),
        sa.Column("value", identifier(200), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_schema_info"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "benchmark_items",
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("item_hash", identifier(64), nullable=False),
        sa.Column("item_id", identifier(64), nullable=False),
        sa.Column("item", JsonText(), nullable=False),
        sa.PrimaryKeyConstraint("client_id", "item_hash", name="pk_benchmark_items"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "chunk_samples",
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("sample_id", identifier(64), nullable=False),
        sa.Column("corpus_version", identifier(64), nullable=False),
        sa.Column("strategy", identifier(50), nullable=False),
        sa.Column("seed", big_integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("chunk_keys", JsonText(), nullable=False),
        sa.Column("drawn_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("client_id", "sample_id", name="pk_chunk_samples"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "clients",
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("change_seq", sa.Integer(), nullable=False),
        sa.Column("scanned_seq", sa.Integer(), nullable=False),
        sa.Column("evaluated_seq", sa.Integer(), nullable=False),
        sa.Column("probe", LongText()),
        sa.Column("corpus_version", identifier(64)),
        sa.Column("index_version", identifier(64)),
        sa.Column("chunk_count", sa.Integer(), nullable=False),
        sa.Column("document_count", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("scanned_at", UtcTime()),
        sa.Column("vanished_at", UtcTime()),
        sa.Column("lease_holder", LongText()),
        sa.Column("lease_token", sa.Integer(), nullable=False),
        sa.Column("lease_expires_at", UtcTime()),
        sa.PrimaryKeyConstraint("client_id", name="pk_clients"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "corpus_chunks",
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("chunk_key", identifier(64), nullable=False),
        sa.Column("chunk_id", LongText(), nullable=False),
        sa.Column("document_id", LongText(), nullable=False),
        sa.Column("document_key", identifier(64), nullable=False),
        sa.Column("page", sa.Integer()),
        sa.Column("position", sa.Integer()),
        sa.Column("text_hash", identifier(64), nullable=False),
        sa.Column("words_hash", identifier(64), nullable=False),
        sa.Column("vector_hash", identifier(64)),
        sa.Column("added_at", UtcTime()),
        sa.Column("first_seen", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("client_id", "chunk_key", name="pk_corpus_chunks"),
        **TABLE_OPTIONS,
    )
    op.create_index("ix_corpus_chunks_document_key", "corpus_chunks", ["client_id", "document_key"], unique=False)
    op.create_index("ix_corpus_chunks_words_hash", "corpus_chunks", ["words_hash"], unique=False)
    op.create_index("ix_corpus_chunks_chunk_key", "corpus_chunks", ["chunk_key"], unique=False)
    op.create_table(
        "corpus_versions",
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("corpus_version", identifier(64), nullable=False),
        sa.Column("index_version", identifier(64), nullable=False),
        sa.Column("chunk_count", sa.Integer(), nullable=False),
        sa.Column("document_count", sa.Integer(), nullable=False),
        sa.Column("difference", JsonText(), nullable=False),
        sa.Column("first_seen", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("client_id", "corpus_version", "index_version", name="pk_corpus_versions"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "embedding_cache",
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("model_key", identifier(64), nullable=False),
        sa.Column("text_hash", identifier(64), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column("made_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("client_id", "model_key", "text_hash", name="pk_embedding_cache"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "evaluation_datasets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("name", identifier(200), nullable=False),
        sa.Column("kind", identifier(20), nullable=False),
        sa.Column("dataset_version", identifier(64), nullable=False),
        sa.Column("qa_count", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("created_by", LongText(), nullable=False),
        sa.Column("corpus_version", identifier(64)),
        sa.Column("valid", sa.Boolean(), nullable=False),
        sa.Column("rule_failures", JsonText(), nullable=False),
        sa.Column("stats", JsonText(), nullable=False),
        sa.Column("checked_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_evaluation_datasets"),
        sa.UniqueConstraint("client_id", "name", "dataset_version", name="uq_evaluation_datasets"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "forgotten_clients",
        sa.Column("client_hash", identifier(64), nullable=False),
        sa.Column("forgotten_at", UtcTime(), nullable=False),
        sa.Column("counts", JsonText(), nullable=False),
        sa.PrimaryKeyConstraint("client_hash", name="pk_forgotten_clients"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "item_results",
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("result_id", identifier(64), nullable=False),
        sa.Column("item_id", identifier(64), nullable=False),
        sa.Column("retrieval_id", identifier(64), nullable=False),
        sa.Column("answer", LongText()),
        sa.Column("declined", sa.Boolean()),
        sa.Column("citations", JsonText()),
        sa.Column("context_count", sa.Integer(), nullable=False),
        sa.Column("error", LongText()),
        sa.Column("latency_s", sa.Double()),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("client_id", "result_id", name="pk_item_results"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "llm_cache",
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("request_hash", identifier(64), nullable=False),
        sa.Column("model", LongText(), nullable=False),
        sa.Column("response", LongText(), nullable=False),
        sa.Column("made_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("client_id", "request_hash", name="pk_llm_cache"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "llm_calls",
        sa.Column("id", big_integer(), nullable=False),
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("role", identifier(50), nullable=False),
        sa.Column("model", LongText(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("completion_tokens", sa.Integer(), nullable=False),
        sa.Column("cost_usd", sa.Double()),
        sa.Column("latency_s", sa.Double(), nullable=False),
        sa.Column("cache_hit", sa.Boolean(), nullable=False),
        sa.Column("retries", sa.Integer(), nullable=False),
        sa.Column("error", LongText()),
        sa.Column("run_id", LongText()),
        sa.Column("called_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_llm_calls"),
        **TABLE_OPTIONS,
    )
    op.create_index("ix_llm_calls_called_at", "llm_calls", ["client_id", "called_at"], unique=False)
    op.create_index("ix_llm_calls_time", "llm_calls", ["called_at"], unique=False)
    op.create_table(
        "metric_scores",
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("result_id", identifier(64), nullable=False),
        sa.Column("metric_id", identifier(100), nullable=False),
        sa.Column("metric_version", identifier(128), nullable=False),
        sa.Column("take", sa.Integer(), nullable=False),
        sa.Column("status", identifier(20), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("reason", LongText()),
        sa.Column("detail", JsonText()),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint(
            "client_id", "result_id", "metric_id", "metric_version", "take", name="pk_metric_scores"
        ),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "qa_candidates",
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("candidate_id", identifier(64), nullable=False),
        sa.Column("chunk_key", identifier(64), nullable=False),
        sa.Column("generator", LongText(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("status", identifier(20), nullable=False),
        sa.Column("item_id", identifier(64)),
        sa.Column("item", JsonText()),
        sa.Column("reasons", JsonText(), nullable=False),
        sa.Column("difficulty", sa.Integer()),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("client_id", "candidate_id", name="pk_qa_candidates"),
        **TABLE_OPTIONS,
    )
    op.create_index("ix_qa_candidates_chunk_key", "qa_candidates", ["client_id", "chunk_key"], unique=False)
    op.create_table(
        "retrievals",
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("retrieval_id", identifier(64), nullable=False),
        sa.Column("item_id", identifier(64), nullable=False),
        sa.Column("relevant_chunks", JsonText()),
        sa.Column("relevant_documents", JsonText()),
        sa.Column("hits", JsonText()),
        sa.Column("error", LongText()),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("client_id", "retrieval_id", name="pk_retrievals"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "reuse_keys",
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("reuse_key", identifier(64), nullable=False),
        sa.Column("content_id", identifier(64), nullable=False),
        sa.Column("made_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("client_id", "reuse_key", name="pk_reuse_keys"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "texts",
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("text_hash", identifier(64), nullable=False),
        sa.Column("text", LongText(), nullable=False),
        sa.PrimaryKeyConstraint("client_id", "text_hash", name="pk_texts"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "dataset_items",
        sa.Column("dataset_id", sa.Integer(), nullable=False),
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("item_id", identifier(64), nullable=False),
        sa.Column("item_hash", identifier(64), nullable=False),
        sa.Column("category", LongText(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["evaluation_datasets.id"], name="fk_dataset_items_dataset_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dataset_id", "item_id", name="pk_dataset_items"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "evaluation_runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("evaluation_id", identifier(64), nullable=False),
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("dataset_id", sa.Integer(), nullable=False),
        sa.Column("system_name", identifier(200), nullable=False),
        sa.Column("system_reference", sa.Boolean(), nullable=False),
        sa.Column("system_declared", LongText()),
        sa.Column("trigger_key", identifier(200), nullable=False),
        sa.Column("k", sa.Integer(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("corpus_version", LongText()),
        sa.Column("index_version", LongText()),
        sa.Column("dataset_version", LongText()),
        sa.Column("system_version", LongText()),
        sa.Column("judge_version", LongText()),
        sa.Column("status", identifier(20), nullable=False),
        sa.Column("dagster_run_id", LongText()),
        sa.Column("item_count", sa.Integer(), nullable=False),
        sa.Column("error_count", sa.Integer(), nullable=False),
        sa.Column("foreign_chunks", sa.Integer()),
        sa.Column("unknown_chunks", sa.Integer()),
        sa.Column("cost_usd", sa.Double()),
        sa.Column("duration_s", sa.Double()),
        sa.Column("started_at", UtcTime(), nullable=False),
        sa.Column("finished_at", UtcTime()),
        sa.Column("headline", JsonText(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["evaluation_datasets.id"], name="fk_evaluation_runs_dataset_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_evaluation_runs"),
        sa.UniqueConstraint("evaluation_id", name="uq_evaluation_runs"),
        **TABLE_OPTIONS,
    )
    op.create_index("ix_evaluation_runs_trigger_key", "evaluation_runs", ["client_id", "trigger_key"], unique=False)
    op.create_table(
        "metric_summaries",
        sa.Column("evaluation_id", sa.Integer(), nullable=False),
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("metric_id", identifier(100), nullable=False),
        sa.Column("metric_version", identifier(128), nullable=False),
        sa.Column("higher_is_better", sa.Boolean(), nullable=False),
        sa.Column("good_value", sa.Double()),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("n_scored", sa.Integer(), nullable=False),
        sa.Column("n_undefined", sa.Integer(), nullable=False),
        sa.Column("n_error", sa.Integer(), nullable=False),
        sa.Column("mean", sa.Double()),
        sa.Column("ci_low", sa.Double()),
        sa.Column("ci_high", sa.Double()),
        sa.Column("min_value", sa.Double()),
        sa.Column("max_value", sa.Double()),
        sa.Column("worst_low", sa.Double()),
        sa.Column("worst_high", sa.Double()),
        sa.Column("ceiling", sa.Double()),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluation_runs.id"], name="fk_metric_summaries_evaluation_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("evaluation_id", "metric_id", name="pk_metric_summaries"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "run_items",
        sa.Column("evaluation_id", sa.Integer(), nullable=False),
        sa.Column("client_id", identifier(200), nullable=False),
        sa.Column("item_id", identifier(64), nullable=False),
        sa.Column("retrieval_id", identifier(64)),
        sa.Column("retrieval_key", identifier(64)),
        sa.Column("result_id", identifier(64)),
        sa.Column("answer_key", identifier(64)),
        sa.Column("takes", JsonText()),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluation_runs.id"], name="fk_run_items_evaluation_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("evaluation_id", "item_id", name="pk_run_items"),
        **TABLE_OPTIONS,
    )
