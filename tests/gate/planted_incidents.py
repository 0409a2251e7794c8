"""Histories in which something is wrong: evaluations with what the gate found, and invalid datasets, as rows."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage import benchmark
from rageval_dagster.storage.comparisons import (
    Change,
    Judgement,
    MetricComparison,
    Verdict,
    save_comparisons,
    save_judgement,
)
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, list_evaluations
from rageval_dagster.storage.results import save_results, save_retrievals
from rageval_dagster.storage.tables import clients, evaluation_runs
from tests.storage.history_builder import (
    answer_key,
    finish,
    make_dataset,
    make_items,
    open_run,
    result_of,
    retrieval_key,
    retrieval_of,
)

MRR = "retrieval.mrr"
HIT_RATE = "retrieval.hit_rate_at_5"
REEMBEDDED = Change("index", "re-embedded 100 chunks")


def settings_with(url: str | None, folder: Path | None = None, toml: str = "", **environment: str) -> Settings:
    """The settings of a project whose webhook is at this address."""
    values = {**environment, **({} if url is None else {"RAGEVAL_ALERT_WEBHOOK_URL": url})}
    if folder is None:
        return load_settings(values, env_file=Path("no-such.env"))
    (folder / "rageval.toml").write_text(toml, encoding="utf-8")
    return load_settings(values, env_file=folder / "no-such.env", config_file=folder / "rageval.toml")


def compared(metric_id: str, regressed: bool) -> MetricComparison:
    return MetricComparison(
        metric_id=metric_id,
        metric_version="1",
        higher_is_better=True,
        baseline_id=1,
        gated=True,
        n_shared=200,
        baseline_mean=0.812,
        mean=0.701 if regressed else 0.815,
        difference=-0.111 if regressed else 0.003,
        ci_low=-0.15,
        ci_high=-0.07,
        smallest_drop=0.05,
        decision="regressed" if regressed else "passed",
    )


def evaluate(
    db: Database,
    client: str = "acme",
    verdict: Verdict | None = "passed",
    regressed: Sequence[str] = (),
    dataset: str = "synthetic",
    system: str = "dense",
    foreign: int = 0,
    changes: Sequence[Change] = (REEMBEDDED,),
    means: Mapping[str, float | None] | None = None,
    failed: int = 0,
    errors: Mapping[str, int] | None = None,
    reason: str | None = None,
) -> Evaluation:
    """One more complete evaluation, of 3 questions, and what the gate said of it; the system failed for a reason."""
    number = len(list_evaluations(db, client, limit=None))
    items = make_items(3)
    stored = make_dataset(db, client, items, name=dataset)
    evaluation = open_run(db, stored, f"night:{number}", system=system)
    if reason is not None:
        retrievals = [retrieval_of(item, 0, reason, salt=str(number)) for item in items[:failed]]
        save_retrievals(db, evaluation.id, [(each, retrieval_key(evaluation, each.item_id)) for each in retrievals])
        results = [result_of(each) for each in retrievals]
        save_results(db, evaluation.id, [(each, answer_key(evaluation, each.item_id)) for each in results])
    finish(db, evaluation, means or {MRR: 0.8}, foreign=foreign, failed=failed, errors=errors)
    save_comparisons(db, evaluation.id, [compared(metric_id, metric_id in regressed) for metric_id in (MRR, HIT_RATE)])
    save_judgement(db, evaluation.id, Judgement(verdict, 1, tuple(changes), ("item-1", "item-2") if regressed else ()))
    return evaluation


def dataset_with(db: Database, client: str, name: str, valid: bool, count: int = 3) -> int:
    """A version of a dataset that keeps the rules, or does not."""
    failures = {} if valid else {"no_duplicates": 2, "quote_in_document": 1}
    return benchmark.save_dataset(
        db, client, name, "imported", make_items(count), "test", None, valid=valid, rule_failures=failures, stats={}
    ).id


def age(db: Database, client: str, by: timedelta, now: datetime) -> None:
    """Moves all that a client did into the past."""
    with db.begin() as connection:
        connection.execute(sa.update(clients).where(clients.c.client_id == client).values(created_at=now - by))
        connection.execute(
            sa.update(evaluation_runs).where(evaluation_runs.c.client_id == client).values(finished_at=now - by)
        )
