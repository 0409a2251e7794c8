"""The whole chain with a real, and very weak, language model: nothing is lost, and nothing is made up."""

from collections import Counter

import pytest
import sqlalchemy as sa

from rageval_dagster.evaluation.summary import reports_of
from rageval_dagster.metrics.registry import metrics_of
from rageval_dagster.records import Item
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.caches import model_usage
from rageval_dagster.storage.tables import llm_calls
from tests.llm.real_model import RealModel
from tests.pipeline.small_project import Project
from tests.pipeline.test_models import ROLES, with_models
from tests.storage.history_builder import make_dataset

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

METRICS = ("retrieval.*", "claims.faithfulness", "claims.context_precision", "judge.faithfulness", "*_judged")
"""One of each kind that a judge is asked for: this model takes its time."""
PLACES = ("Avonlea", "Brightwater")


def test_the_chain_runs_and_every_unusable_reply_is_an_error_or_a_rejection_with_its_reason(
    loaded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (loaded.folder / "rageval.toml").write_text(f"[defaults]\nmetrics = {list(METRICS)}\n", encoding="utf-8")
    with RealModel() as model:
        named = {f"RAGEVAL_{role.upper()}_MODEL": model.model for role in ROLES}
        sizes = {"EVALUATION_DEFAULT_SAMPLE_SIZE": "1", "EVALUATION_DEFAULT_K": "3", "RAGEVAL_LLM_CONCURRENCY": "4"}
        patience = {"RAGEVAL_LLM_TIMEOUT_S": "900"}  # a real model on a busy machine
        project = with_models(loaded, model.base_url, monkeypatch, **named, **sizes, **patience)
        db = project.database()
        items = [Item(f"Since when has the keeper of {place} been in office?", answers=("1950",)) for place in PLACES]
        make_dataset(db, "acme", items, name="asked")
        launched = project.evaluate("acme", "night 1")
    assert launched.failure is None
    candidates = benchmark_storage.list_candidates(db, "acme")
    assert candidates
    assert all(candidate.reasons for candidate in candidates if candidate.status in ("failed", "rejected"))
    reports = {report.evaluation.dataset_name: report for report in reports_of(db, "acme", "night 1")}
    report = reports["asked"]
    results = result_storage.load_results(db, report.evaluation.id)
    assert len(results) == len(items)
    assert all((result.answer is None) != (result.error is None) for _, result in results.values())
    metrics = metrics_of(project.settings, 3)
    outcomes = score_storage.load_scores(db, report.evaluation.id, {metric.id: metric.version for metric in metrics})
    statuses = Counter()
    for metric in metrics:
        column = outcomes[metric.id]
        assert len(column) == len(items), metric.id
        assert all(outcome.reason for outcome in column.values() if outcome.status != "scored")
        if metric.judged:
            statuses.update(outcome.status for outcome in column.values())
    assert statuses.total()
    with db.connect() as connection:
        calls = connection.execute(sa.select(llm_calls.c.role, llm_calls.c.error)).all()
    assert {call.role for call in calls} == set(ROLES)
    assert model_usage(db, "acme").tokens > 0
    print(statuses, Counter(candidate.status for candidate in candidates), model_usage(db, "acme").described())
