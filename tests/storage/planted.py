"""A client with a row in every table, whose every text is a canary; and the search for it."""

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from rageval_dagster.records import Candidate
from rageval_dagster.settings import load_settings
from rageval_dagster.storage import benchmark, caches, corpus
from rageval_dagster.storage import clients as client_storage
from rageval_dagster.storage import labels as label_storage
from rageval_dagster.storage.benchmark import Sample
from rageval_dagster.storage.caches import LlmCall
from rageval_dagster.storage.corpus import ManifestEntry, Passages
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.experiments import QuestionResult, open_experiment, save_results
from rageval_dagster.storage.incidents import Finding, open_all
from rageval_dagster.storage.labels import JudgeCheck, Label, Queued
from rageval_dagster.storage.results import run_items
from rageval_dagster.storage.run_requests import freeze
from rageval_dagster.storage.tables import metadata
from rageval_dagster.storage.types import JsonText, LongText, utc_now
from tests.storage import history_builder

CANARY = "quinzical-ostrakon"


def texts_of(table: sa.Table, but: Collection[str]) -> dict[str, Any]:
    """The canary for every column of long texts, `but` for these."""
    return {
        column.name: CANARY if isinstance(column.type, LongText) else {"said": CANARY}
        for column in table.columns
        if isinstance(column.type, LongText | JsonText) and column.name not in but
    }


def fill(db: Database, client: str, count: int = 3) -> Evaluation:
    """Gives a client rows in the tables of documents, questions, results and caches; its finished evaluation."""
    items = history_builder.make_items(count)
    dataset = history_builder.make_dataset(db, client, items)
    entry = ManifestEntry("key", "chunk", "document", None, None, "0" * 64, "0" * 64, None, None, utc_now())
    corpus.upsert_manifest(db, client, [entry], {"added": 1}, {"document": Passages(changed=1)})
    client_storage.record_scan(db, client, "corpus", "index", 1, 1, 0, utc_now())
    benchmark.save_sample(db, Sample("sample", client, "corpus", "random", 0, 1, ("key",)))
    benchmark.save_candidates(db, client, [Candidate("key", "extractive", 0, "accepted", items[0])])
    caches.save_vectors(db, client, "model", {"0" * 64: b"1234"})
    call = LlmCall(client, "answer", "model", 1, 1, None, 0.1, False, 0, None, None)
    caches.save_replies(db, client, [("request", "model", CANARY)], [call])
    evaluation = history_builder.open_run(db, dataset, "schedule:one")
    history_builder.work(db, evaluation, items)
    history_builder.finish(db, evaluation, {history_builder.MRR: 0.75})
    history_builder.hold_against(db, evaluation, evaluation)
    client_storage.set_systems(db, client, [evaluation.system])
    freeze(db, load_settings({}), {client: evaluation.trigger}, {})
    open_all(db, [Finding(client, "stale")], utc_now())
    result_id = next(filter(None, (row.result_id for row in run_items(db, evaluation.id))))
    label_storage.save_queue(db, client, history_builder.MRR, {result_id: Queued("1 high", 1)})
    label_storage.save_labels(db, client, [Label(result_id, history_builder.MRR, "ann", 1.0, CANARY)])
    checked = JudgeCheck(evaluation.id, "1", {result_id: (items[0].item_id, 1.0, 0.9)})
    label_storage.save_judge_check(db, history_builder.MRR, checked)
    definition = {"client": client, "parameters": {"number_of_chunks": [3, 5]}}
    asked = [item.item_id for item in items]
    experiment = open_experiment(
        db, client, "0" * 64, "command", definition, history_builder.MRR, True, [dataset.id], asked, asked, "0" * 64
    )
    save_results(db, experiment, [QuestionResult("0" * 64, asked[0], 1.0, {}, None, False, 0.1, 0.0, 0)])
    return evaluation


def plant(db: Database, client: str, count: int = 3) -> Evaluation:
    """As `fill`, with the canary in every column of long texts."""
    evaluation = fill(db, client, count)
    with db.begin() as connection:
        for table in metadata.sorted_tables:
            # Hits name their texts, which are planted, by hashes.
            texts = texts_of(table, but={"hits"})
            if texts and "client_id" in table.c:
                connection.execute(sa.update(table).where(table.c.client_id == client).values(texts))
    return evaluation


def found(db: Database, *words: str) -> list[str]:
    """`table.column` wherever one of the words stands in the database."""
    places = []
    with db.connect() as connection:
        for table in metadata.sorted_tables:
            for column in table.columns:
                text = sa.cast(column, sa.Text) if db.dialect != "mysql" else sa.cast(column, sa.CHAR)
                query = sa.select(sa.func.count()).where(sa.or_(*(text.contains(word) for word in words)))
                if connection.execute(query).scalar_one():
                    places.append(f"{table.name}.{column.name}")
    return places
