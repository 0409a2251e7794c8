"""The tables of the history: one metadata object, in the order in which the rows come to be."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql

from rageval_dagster.storage.types import JsonText, LongText, UtcTime, big_integer, hex_digest, identifier

NAMING = {
    "pk": "pk_%(table_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s",
    "ix": "ix_%(table_name)s_%(column_1_name)s",
}
metadata = MetaData(naming_convention=NAMING)

# Collation of the whole table: on MariaDB every comparison of ids is byte by byte.
TABLE_OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    # A deleted run's or dataset's number never comes back as another one's.
    "sqlite_autoincrement": True,
}

CLIENT_ID_LENGTH = 200
NAME_LENGTH = 200
PERSON_LENGTH = 100


def _client_id() -> Column[str]:
    return Column("client_id", identifier(CLIENT_ID_LENGTH), nullable=False)


def _table(name: str, *parts: Any, **options: Any) -> Table:
    return Table(name, metadata, *parts, **{**TABLE_OPTIONS, **options})


schema_info = _table(
    "schema_info",
    Column("name", identifier(50), primary_key=True),
    Column("value", identifier(200), nullable=False),
)

clients = _table(
    "clients",
    _client_id(),
    Column("change_seq", Integer, nullable=False),
    Column("scanned_seq", Integer, nullable=False),
    Column("evaluated_seq", Integer, nullable=False),
    Column("probe", LongText),
    Column("corpus_version", hex_digest()),
    Column("index_version", hex_digest()),
    Column("chunk_count", Integer, nullable=False),
    Column("document_count", Integer, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("scanned_at", UtcTime),
    Column("vanished_at", UtcTime),
    Column("notified_at", UtcTime),  # when somebody said that the documents changed, until that is counted
    Column("lease_holder", LongText),
    Column("lease_token", Integer, nullable=False),
    Column("lease_expires_at", UtcTime),
    PrimaryKeyConstraint("client_id"),
)

# The systems that its settings evaluate and that were evaluated: what others once measured is history. None: all count.
client_systems = _table(
    "client_systems",
    _client_id(),
    Column("system_name", identifier(NAME_LENGTH), nullable=False),
    PrimaryKeyConstraint("client_id", "system_name"),
)

# What is left of a client that was forgotten: no name, so that it can be known again but not read.
forgotten_clients = _table(
    "forgotten_clients",
    Column("client_hash", hex_digest(), nullable=False),
    Column("forgotten_at", UtcTime, nullable=False),
    Column("counts", JsonText, nullable=False),  # rows deleted by table
    PrimaryKeyConstraint("client_hash"),
)

corpus_versions = _table(
    "corpus_versions",
    _client_id(),
    Column("corpus_version", hex_digest(), nullable=False),
    Column("index_version", hex_digest(), nullable=False),
    Column("chunk_count", Integer, nullable=False),
    Column("document_count", Integer, nullable=False),
    Column("difference", JsonText, nullable=False),  # counts of added, changed, removed, re-embedded chunks
    Column("first_seen", UtcTime, nullable=False),
    PrimaryKeyConstraint("client_id", "corpus_version", "index_version"),
)

# What each scan found to be different from the one before; scans that found nothing have no row.
corpus_changes = _table(
    "corpus_changes",
    Column("id", Integer, primary_key=True),
    _client_id(),
    Column("corpus_version", hex_digest(), nullable=False),
    Column("index_version", hex_digest(), nullable=False),
    Column("difference", JsonText, nullable=False),  # as in corpus_versions
    Column("found_at", UtcTime, nullable=False),
    Index(None, "client_id", "found_at"),
)

# How many of a document's passages a scan found to be added, changed under their ids, or removed; none of a client's
# first scan.
document_changes = _table(
    "document_changes",
    Column("id", Integer, primary_key=True),
    _client_id(),
    Column("document_id", LongText, nullable=False),
    Column("document_key", hex_digest(), nullable=False),
    Column("added", Integer, nullable=False),
    Column("changed", Integer, nullable=False),
    Column("removed", Integer, nullable=False),
    Column("found_at", UtcTime, nullable=False),
    Column("title", LongText),  # of a document that passages were removed from: nothing else knows it once it is gone
    Column("moved_to", LongText),  # the id of the document that has all its text, where it is gone
    Index(None, "client_id", "found_at"),
    Index(None, "client_id", "document_key"),
)

corpus_chunks = _table(
    "corpus_chunks",
    _client_id(),
    Column("chunk_key", hex_digest(), nullable=False),
    Column("chunk_id", LongText, nullable=False),
    Column("document_id", LongText, nullable=False),
    Column("document_key", hex_digest(), nullable=False),  # of the document id, which may be too long for an index
    Column("page", Integer),
    Column("position", Integer),
    Column("text_hash", hex_digest(), nullable=False),
    Column("words_hash", hex_digest(), nullable=False),  # of the text whatever its white space
    Column("vector_hash", hex_digest()),
    Column("added_at", UtcTime),
    Column("first_seen", UtcTime, nullable=False),
    Column("title", LongText),  # what people call the document
    # Of its text, in 8 bytes each: what the table of that name counts for it.
    Column("word_hashes", LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")),
    PrimaryKeyConstraint("client_id", "chunk_key"),
    Index(None, "client_id", "document_key"),
    # Across clients: whose chunk is it that a system returned?
    Index("ix_corpus_chunks_words_hash", "words_hash"),
    Index("ix_corpus_chunks_chunk_key", "chunk_key"),
)

# Keyed hashes of runs of words: who else holds what a system returned? A row is as short as it can be, since there are
# some 35 a chunk: clients stand in it as a keyed hash of their name.
word_hashes = _table(
    "word_hashes",
    Column("hash", BigInteger, nullable=False, autoincrement=False),
    Column("holder", BigInteger, nullable=False, autoincrement=False),
    Column("texts", Integer, nullable=False),  # in how many of the holder's chunks
    PrimaryKeyConstraint("hash", "holder"),
    sqlite_autoincrement=False,
    sqlite_with_rowid=False,
)

chunk_samples = _table(
    "chunk_samples",
    _client_id(),
    Column("sample_id", hex_digest(), nullable=False),
    Column("corpus_version", hex_digest(), nullable=False),
    Column("strategy", identifier(50), nullable=False),
    Column("seed", big_integer(), nullable=False),
    Column("size", Integer, nullable=False),
    Column("chunk_keys", JsonText, nullable=False),
    Column("drawn_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("client_id", "sample_id"),
)

qa_candidates = _table(
    "qa_candidates",
    _client_id(),
    Column("candidate_id", hex_digest(), nullable=False),
    Column("chunk_key", hex_digest(), nullable=False),
    Column("generator", LongText, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("status", identifier(20), nullable=False),
    Column("item_id", hex_digest()),
    Column("item", JsonText),
    Column("reasons", JsonText, nullable=False),
    Column("difficulty", Integer),
    Column("created_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("client_id", "candidate_id"),
    Index(None, "client_id", "chunk_key"),
)

evaluation_datasets = _table(
    "evaluation_datasets",
    Column("id", Integer, primary_key=True),
    _client_id(),
    Column("name", identifier(NAME_LENGTH), nullable=False),
    Column("kind", identifier(20), nullable=False),
    Column("dataset_version", hex_digest(), nullable=False),
    Column("qa_count", Integer, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("created_by", LongText, nullable=False),
    Column("corpus_version", hex_digest()),
    Column("valid", Boolean, nullable=False),
    Column("rule_failures", JsonText, nullable=False),
    Column("stats", JsonText, nullable=False),
    Column("checked_at", UtcTime, nullable=False),
    # How much of the corpus it touches; none: that was not looked at yet, or cannot be told.
    Column("documents", Integer),
    Column("documents_touched", Integer),
    Column("topics", Integer),
    Column("topics_touched", Integer),
    Column("retired_at", UtcTime),  # since when nobody wants it evaluated any more
    UniqueConstraint("client_id", "name", "dataset_version"),
)

# Keyed by the whole content: the same question may stand in two datasets with another category.
benchmark_items = _table(
    "benchmark_items",
    _client_id(),
    Column("item_hash", hex_digest(), nullable=False),
    Column("item_id", hex_digest(), nullable=False),
    Column("item", JsonText, nullable=False),
    PrimaryKeyConstraint("client_id", "item_hash"),
)

dataset_items = _table(
    "dataset_items",
    Column("dataset_id", Integer, ForeignKey("evaluation_datasets.id", ondelete="CASCADE"), nullable=False),
    _client_id(),
    Column("item_id", hex_digest(), nullable=False),
    Column("item_hash", hex_digest(), nullable=False),
    # What outlives the question's text.
    Column("category", LongText, nullable=False),
    Column("grading_key", hex_digest()),  # what is judged out of the ordinary
    Column("cluster_key", hex_digest(), nullable=False),  # of its part of a document, or of itself
    Column("position", Integer, nullable=False),
    PrimaryKeyConstraint("dataset_id", "item_id"),
)

evaluation_runs = _table(
    "evaluation_runs",
    Column("id", Integer, primary_key=True),
    Column("evaluation_id", hex_digest(), nullable=False),
    _client_id(),
    Column("dataset_id", Integer, ForeignKey("evaluation_datasets.id", ondelete="CASCADE"), nullable=False),
    # "system" and "trigger" are reserved words of MySQL.
    Column("system_name", identifier(NAME_LENGTH), nullable=False),
    Column("system_reference", Boolean, nullable=False),
    Column("system_declared", LongText),  # the version that the system says it has; none: it may change unnoticed
    Column("trigger_key", identifier(NAME_LENGTH), nullable=False),
    Column("k", Integer, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("corpus_version", LongText),
    Column("index_version", LongText),
    Column("dataset_version", LongText),
    Column("system_version", LongText),
    Column("judge_version", LongText),
    Column("status", identifier(20), nullable=False),
    Column("dagster_run_id", LongText),
    Column("item_count", Integer, nullable=False),
    Column("error_count", Integer, nullable=False),
    # How many chunks that are another client's, or nobody's, were returned; none: it is not finished.
    Column("foreign_chunks", Integer),
    Column("unknown_chunks", Integer),
    Column("cost_usd", Double),
    Column("duration_s", Double),
    Column("started_at", UtcTime, nullable=False),
    Column("finished_at", UtcTime),
    Column("headline", JsonText, nullable=False),
    # What it was compared with, and what came of it; none: there was nothing to compare it with.
    Column("baseline_id", Integer),
    Column("verdict", identifier(20)),
    Column("changes", JsonText),  # what changed since the last evaluation that had not regressed: names and counts
    Column("newly_failing", JsonText),  # item ids: right when they were first asked, wrong now
    Column("newly_passing", JsonText),  # those that were wrong, right now
    Column("asked_again", Boolean),  # whether these were wrong each time that they were asked now
    # Whether it is the newest complete one of its dataset's name and its system: all that a look at all clients reads.
    Column("newest", Boolean),
    Column("previous_id", Integer),  # the complete one before it, of the same dataset by the same system
    UniqueConstraint("evaluation_id"),
    Index(None, "client_id", "trigger_key"),
    Index("ix_evaluation_runs_newest", "newest", "client_id"),
    # The ones before: of the same dataset, of the same system.
    Index("ix_evaluation_runs_dataset_id", "dataset_id", "system_name", "id"),
    Index("ix_evaluation_runs_system_name", "client_id", "system_name", "id"),
    # Across clients: who was evaluated lately?
    Index("ix_evaluation_runs_finished_at", "finished_at"),
)

# What a run was asked to do, and with which settings, by what it was asked for; secrets by their variables' names only.
run_requests = _table(
    "run_requests",
    _client_id(),
    Column("trigger_key", identifier(NAME_LENGTH), nullable=False),
    Column("settings", JsonText, nullable=False),
    Column("plan", JsonText, nullable=False),
    Column("requested_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("client_id", "trigger_key"),
)

# Which earlier result a (system, input) key stands for, so that it need not be made again. Errors have no key.
reuse_keys = _table(
    "reuse_keys",
    _client_id(),
    Column("reuse_key", hex_digest(), nullable=False),
    Column("content_id", hex_digest(), nullable=False),
    Column("made_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("client_id", "reuse_key"),
)

texts = _table(
    "texts",
    _client_id(),
    Column("text_hash", hex_digest(), nullable=False),
    Column("text", LongText, nullable=False),
    PrimaryKeyConstraint("client_id", "text_hash"),
)

retrievals = _table(
    "retrievals",
    _client_id(),
    Column("retrieval_id", hex_digest(), nullable=False),
    Column("item_id", hex_digest(), nullable=False),
    Column("relevant_chunks", JsonText),
    Column("relevant_documents", JsonText),
    Column("hits", JsonText),  # each with its text's hash in place of the text; none: the system does not tell
    Column("error", LongText),
    Column("created_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("client_id", "retrieval_id"),
)

item_results = _table(
    "item_results",
    _client_id(),
    Column("result_id", hex_digest(), nullable=False),
    Column("item_id", hex_digest(), nullable=False),
    Column("retrieval_id", hex_digest(), nullable=False),
    Column("answer", LongText),
    Column("declined", Boolean),
    Column("citations", JsonText),  # what the system cited apart from the answer's text
    Column("answer_owner", identifier(20), nullable=False),  # an answer with others' words is not kept
    Column("answer_holders", JsonText),  # of which clients: see storage/word_hashes.holder_of
    Column("context_count", Integer, nullable=False),  # the answerer saw the first so many hits
    Column("error", LongText),
    Column("latency_s", Double),
    Column("created_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("client_id", "result_id"),
)

metric_scores = _table(
    "metric_scores",
    _client_id(),
    Column("result_id", hex_digest(), nullable=False),
    Column("metric_id", identifier(100), nullable=False),
    Column("metric_version", identifier(128), nullable=False),
    Column("take", Integer, nullable=False),
    Column("status", identifier(20), nullable=False),
    Column("value", Double),
    Column("reason", LongText),
    Column("detail", JsonText),
    Column("created_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("client_id", "result_id", "metric_id", "metric_version", "take"),
)

run_items = _table(
    "run_items",
    Column("evaluation_id", Integer, ForeignKey("evaluation_runs.id", ondelete="CASCADE"), nullable=False),
    _client_id(),
    Column("item_id", hex_digest(), nullable=False),
    Column("retrieval_id", hex_digest()),
    Column("retrieval_key", hex_digest()),
    Column("result_id", hex_digest()),
    Column("answer_key", hex_digest()),
    Column("takes", JsonText),  # {metric id: take} where it is not the first one without an error
    PrimaryKeyConstraint("evaluation_id", "item_id"),
)

# What people say of an answer, by its content: a result that comes back keeps its labels.
answer_labels = _table(
    "answer_labels",
    _client_id(),
    Column("result_id", hex_digest(), nullable=False),
    Column("metric_id", identifier(100), nullable=False),
    Column("person", identifier(PERSON_LENGTH), nullable=False),
    Column("value", Double),  # none: cannot say
    Column("note", LongText),
    Column("labelled_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("client_id", "result_id", "metric_id", "person"),
)

# From which stratum a result may be drawn for labelling, and when it was: of each stratum a random part.
label_queue = _table(
    "label_queue",
    _client_id(),
    Column("metric_id", identifier(100), nullable=False),
    Column("result_id", hex_digest(), nullable=False),
    Column("stratum", identifier(100), nullable=False),
    Column("place", Integer),  # the order in which people are asked; none: not drawn
    PrimaryKeyConstraint("client_id", "metric_id", "result_id"),
)

metric_summaries = _table(
    "metric_summaries",
    Column("evaluation_id", Integer, ForeignKey("evaluation_runs.id", ondelete="CASCADE"), nullable=False),
    _client_id(),
    Column("metric_id", identifier(100), nullable=False),
    Column("metric_version", identifier(128), nullable=False),
    Column("higher_is_better", Boolean, nullable=False),
    Column("good_value", Double),
    Column("n", Integer, nullable=False),
    Column("n_scored", Integer, nullable=False),
    Column("n_undefined", Integer, nullable=False),
    Column("n_error", Integer, nullable=False),
    Column("mean", Double),
    Column("ci_low", Double),
    Column("ci_high", Double),
    Column("min_value", Double),
    Column("max_value", Double),
    Column("worst_low", Double),
    Column("worst_high", Double),
    Column("ceiling", Double),
    # The mean that people would give, by their labels, and their agreement with the judge; none: no labels, or too few.
    Column("corrected_mean", Double),
    Column("corrected_low", Double),
    Column("corrected_high", Double),
    Column("labels", Integer),
    Column("agreement", Double),
    PrimaryKeyConstraint("evaluation_id", "metric_id"),
)

# Answers of earlier evaluations, as the judge scored them once and, past every cache, in this one.
judge_checks = _table(
    "judge_checks",
    Column("evaluation_id", Integer, ForeignKey("evaluation_runs.id", ondelete="CASCADE"), nullable=False),
    _client_id(),
    Column("metric_id", identifier(100), nullable=False),
    Column("metric_version", identifier(128), nullable=False),
    Column("scores", JsonText, nullable=False),  # {result id: [item id, score then, score now or none]}
    PrimaryKeyConstraint("evaluation_id", "metric_id"),
)

# A metric's scores in an evaluation, by question: all that the verdict of a later night needs of this one.
night_scores = _table(
    "night_scores",
    Column("evaluation_id", Integer, ForeignKey("evaluation_runs.id", ondelete="CASCADE"), nullable=False),
    _client_id(),
    Column("metric_id", identifier(100), nullable=False),
    Column("metric_version", identifier(128), nullable=False),
    Column("scores", JsonText, nullable=False),  # {item id: value}, without what has none
    PrimaryKeyConstraint("evaluation_id", "metric_id", "metric_version"),
)

# A question of an evaluation that was asked three times, past every cache.
repeated_scores = _table(
    "repeated_scores",
    Column("evaluation_id", Integer, ForeignKey("evaluation_runs.id", ondelete="CASCADE"), nullable=False),
    _client_id(),
    Column("question", identifier(100), nullable=False),  # item id, and its grading_key where it has one
    Column("result_id", hex_digest(), nullable=False),
    Column(
        "scores", JsonText, nullable=False
    ),  # {metric id: {its version: [the evaluation's own value, and two more]}}
    PrimaryKeyConstraint("evaluation_id", "question"),
)

# A metric of an evaluation against its reference.
metric_comparisons = _table(
    "metric_comparisons",
    Column("evaluation_id", Integer, ForeignKey("evaluation_runs.id", ondelete="CASCADE"), nullable=False),
    _client_id(),
    Column("metric_id", identifier(100), nullable=False),
    Column("metric_version", identifier(128), nullable=False),
    Column("higher_is_better", Boolean, nullable=False),
    Column("baseline_id", Integer, nullable=False),
    Column("gated", Boolean, nullable=False),
    Column("n_shared", Integer, nullable=False),
    Column("baseline_mean", Double),
    Column("mean", Double),
    Column("difference", Double),
    Column("ci_low", Double),
    Column("ci_high", Double),
    Column("lasting", Double),  # the mean change of the last nights
    Column("smallest_drop", Double),
    # How scores move while nothing changes: variances of a question, of its drift a night, of whole nights.
    Column("noise", Double),
    Column("drift", Double),
    Column("shift", Double),
    Column("decision", identifier(20), nullable=False),
    Column("better", Boolean, nullable=False),
    Column("suspected", Boolean, nullable=False),
    Column("remark", identifier(400)),
    PrimaryKeyConstraint("evaluation_id", "metric_id"),
)

# Which evaluation later ones are compared with, of a dataset by its name and a system: the newest row.
baselines = _table(
    "baselines",
    Column("id", Integer, primary_key=True),
    _client_id(),
    Column("dataset_name", identifier(NAME_LENGTH), nullable=False),
    Column("system_name", identifier(NAME_LENGTH), nullable=False),
    Column("evaluation_id", Integer, ForeignKey("evaluation_runs.id", ondelete="CASCADE"), nullable=False),
    Column("accepted_at", UtcTime, nullable=False),
    Column("reason", identifier(20), nullable=False),  # first, accepted, better
    Column("accepted_by", LongText),  # a person's name; none: nobody said so
    Index(None, "client_id", "dataset_name"),
)

# What people are told of: open from when it was found until it is over.
incidents = _table(
    "incidents",
    Column("id", Integer, primary_key=True),
    _client_id(),
    Column("kind", identifier(20), nullable=False),  # one of storage/incidents.Kind
    Column("subject", LongText, nullable=False),  # dataset / system / metric, where there are several
    Column("open_key", hex_digest()),  # of client, kind and subject while it is open: it is opened once
    Column("opened_at", UtcTime, nullable=False),
    Column("closed_at", UtcTime),
    Column("evaluation_id", Integer),
    Column("run_id", LongText),
    Column("details", JsonText, nullable=False),  # ids, names and numbers
    Column("opening_told_at", UtcTime),
    Column("closing_told_at", UtcTime),
    Column("claimed_until", UtcTime),  # somebody is telling it just now
    UniqueConstraint("open_key"),
    Index(None, "client_id", "opened_at"),
)

# A search for the best configuration of a client's system; `number` counts them for people, over all clients.
experiments = _table(
    "experiments",
    Column("number", Integer, primary_key=True),
    _client_id(),
    Column("content_key", hex_digest(), nullable=False),  # of the definition, the questions and the settings
    Column("opened_by", identifier(20), nullable=False),  # command, launchpad: who launches its batches
    Column("definition", JsonText, nullable=False),
    Column("objective", identifier(100), nullable=False),
    Column("higher_is_better", Boolean, nullable=False),
    Column("dataset_ids", JsonText, nullable=False),
    Column("questions", JsonText, nullable=False),  # ids, in the order of the datasets
    Column("clusters", JsonText, nullable=False),  # a hash of each question's document
    Column("corpus", hex_digest(), nullable=False),  # of the documents as they were
    Column("opened_at", UtcTime, nullable=False),
    Column("ended_at", UtcTime),
    Column("ended_why", LongText),  # empty: the search was finished
    Index(None, "client_id", "content_key"),
)

# What a question came to under a configuration. Configurations that cannot differ in it share their key.
experiment_results = _table(
    "experiment_results",
    Column("number", Integer, ForeignKey("experiments.number", ondelete="CASCADE"), nullable=False),
    _client_id(),
    Column("configuration_key", hex_digest(), nullable=False),
    Column("item_id", identifier(32), nullable=False),
    Column("score", Double),  # of the objective; none: it failed, or there was nothing to score
    Column("scores", JsonText, nullable=False),  # by metric; null where there is no value
    Column("error", LongText),
    Column("leaked", Boolean, nullable=False),
    Column("latency_s", Double),
    Column("cost_usd", Double),
    Column("tokens", Integer),
    PrimaryKeyConstraint("number", "configuration_key", "item_id"),
    Index(None, "client_id", "number"),
)

embedding_cache = _table(
    "embedding_cache",
    _client_id(),
    Column("model_key", hex_digest(), nullable=False),  # of the model's name, which may be a long path
    Column("text_hash", hex_digest(), nullable=False),
    Column("vector", LargeBinary, nullable=False),
    Column("made_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("client_id", "model_key", "text_hash"),
)

llm_cache = _table(
    "llm_cache",
    _client_id(),
    Column("request_hash", hex_digest(), nullable=False),
    Column("model", LongText, nullable=False),
    Column("response", LongText, nullable=False),
    Column("made_at", UtcTime, nullable=False),
    PrimaryKeyConstraint("client_id", "request_hash"),
)

llm_calls = _table(
    "llm_calls",
    Column("id", big_integer(), primary_key=True),
    _client_id(),
    Column("role", identifier(50), nullable=False),
    Column("model", LongText, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("completion_tokens", Integer, nullable=False),
    Column("cost_usd", Double),
    Column("latency_s", Double, nullable=False),
    Column("cache_hit", Boolean, nullable=False),
    Column("retries", Integer, nullable=False),
    Column("error", LongText),
    Column("run_id", LongText),
    Column("called_at", UtcTime, nullable=False),
    Index(None, "client_id", "called_at"),
    # What was spent today, by all clients.
    Index("ix_llm_calls_time", "called_at"),
)
