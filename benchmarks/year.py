"""The verdict on the last of a year of nights, through the real storage: how long it takes, and of what.

Usage: python benchmarks/year.py [--nights 365] [--questions 200]

One client in a SQLite file; every night all questions are scored anew by two metrics of the gate, as an unversioned
system's are, and a tenth of the questions is replaced each week. The limit is one second.
"""

import argparse
import random
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rageval_dagster.evaluation.summary import report_of
from rageval_dagster.gate.decision import GateContext, judge_all
from rageval_dagster.gate.spec import GateSpec
from rageval_dagster.identity import digest
from rageval_dagster.metrics.interface import Tools
from rageval_dagster.records import Evidence, Item, Outcome
from rageval_dagster.settings import load_settings
from rageval_dagster.storage import benchmark, clients, evaluations, results, scores
from rageval_dagster.storage.database import Database, open_database
from rageval_dagster.storage.evaluations import Evaluation, Versions, get_evaluation
from rageval_dagster.storage.results import ResultRecord, RetrievalRecord
from rageval_dagster.storage.scores import Summary

METRICS = ("retrieval.hit_rate_at_5", "retrieval.mrr")
LIMIT_S = 1.0
PER_DOCUMENT = 3


def evaluated(
    db: Database, dataset: benchmark.Dataset, items: list[Item], night: int, rng: random.Random
) -> Evaluation:
    """A complete evaluation with made-up scores."""
    evaluation = evaluations.open_evaluation(
        db,
        client_id=dataset.client_id,
        dataset_id=dataset.id,
        system="acme",
        trigger=f"schedule:{night}",
        k=5,
        depth=10,
        versions=Versions("corpus", "index", dataset.dataset_version, "system", None),
        dagster_run_id=None,
        item_ids=[item.item_id for item in items],
        system_reference=False,
        system_declared=None,
    )
    retrieved = [
        RetrievalRecord(digest("retrieval", item.item_id, str(night)), item.item_id, [], [], [], None) for item in items
    ]
    results.save_retrievals(db, evaluation.id, [(each, None) for each in retrieved])
    answered = [
        ResultRecord(digest("result", each.retrieval_id), each.item_id, each.retrieval_id, None, 0, None, None)
        for each in retrieved
    ]
    results.save_results(db, evaluation.id, [(each, None) for each in answered])
    values = [float(rng.random() > 0.1) for _ in answered]
    rows = [
        (each.result_id, metric, "1", Outcome.scored(value))
        for metric in METRICS
        for each, value in zip(answered, values, strict=True)
    ]
    scores.save_scores(db, evaluation.id, rows)
    mean, count = sum(values) / len(values), len(values)
    scores.save_summaries(
        db,
        evaluation.id,
        [Summary(count, count, 0, 0, mean, mean, mean, 0.0, 1.0, mean, mean, metric, None, "1") for metric in METRICS],
    )
    evaluations.finish_evaluation(db, evaluation.id, "complete", {}, 1.0, 0, foreign_chunks=0, unknown_chunks=0)
    return get_evaluation(db, evaluation.id)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--questions", type=int, default=200)
    options = parser.parse_args()
    rng = random.Random(7)
    made = 0

    def new(count: int) -> list[Item]:
        nonlocal made
        made += count
        return [
            Item(question=f"Question {n}?", evidence=(Evidence(f"document {n // PER_DOCUMENT}", None, "a quote"),))
            for n in range(made - count, made)
        ]

    with tempfile.TemporaryDirectory() as folder:
        db = open_database(f"sqlite:///{Path(folder) / 'history.sqlite3'}")
        clients.ensure_client(db, "acme")
        spec = replace(GateSpec.from_settings(load_settings({})), metrics=METRICS)
        context = GateContext(spec, lambda _: (), Tools, lambda *_: {})
        items = new(options.questions)
        seconds: list[float] = []
        verdict = None
        for night in range(options.nights):
            if night and night % 7 == 0:
                items = items[options.questions // 10 :] + new(options.questions // 10)
            dataset = benchmark.save_dataset(
                db, "acme", "human", "imported", items, "made up", None, valid=True, rule_failures={}, stats={}
            )
            report = report_of(db, evaluated(db, dataset, items, night, rng))
            began = time.perf_counter()
            [judged] = judge_all(db, [report], context)
            seconds.append(time.perf_counter() - began)
            verdict = judged.judgement.verdict
        db.dispose()
    print(f"{options.nights} nights of {options.questions} questions, {made} questions in all")
    print(f"verdict of the last night: {verdict}, {seconds[-1]:.2f} s (limit {LIMIT_S:g} s)")
    print(f"of the tenth night: {seconds[min(9, len(seconds) - 1)]:.2f} s")
    return 0 if seconds[-1] < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
