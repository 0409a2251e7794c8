"""What a later evaluation takes over from an earlier one: all that a change allows, and nothing that it made wrong."""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest
import sqlalchemy as sa

from rageval_dagster.benchmark.importing import import_dataset
from rageval_dagster.evaluation.summary import reports_of
from rageval_dagster.storage.benchmark import current_datasets
from rageval_dagster.storage.tables import benchmark_items, embedding_cache, llm_calls
from tests.llm.scripted_model import scripted_model
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.cold_copy import forget_all_work, found_by
from tests.pipeline.small_project import Project, documents
from tests.pipeline.test_models import ROLES, with_models
from tests.storage.history_builder import make_older


def changed_documents() -> list[dict[str, str]]:
    """One of the documents written anew, another one gone, and a new one."""
    rows = [row for row in documents("lighthouse") if "Glenrock" not in row["title"]]
    rows[1]["text"] = rows[1]["text"].replace("was founded in 1808", "was founded in 1499").replace("crowns", "ducats")
    return [*rows, documents("castle", count=1)[0]]


def assert_like_nothing_reused(project: Project, monkeypatch: pytest.MonkeyPatch, systems: Sequence[str]) -> None:
    """Evaluates, changes the documents, evaluates again; and the same once more in a copy with nothing to reuse."""
    assert project.evaluate("acme", "night 1", systems=systems).failure is None
    project.ingest("acme", changed_documents())
    assert project.evaluate("acme", "night 2", systems=systems).failure is None
    db = project.database()
    [dataset] = current_datasets(db, "acme")
    home = project.folder / "cold"
    shutil.copytree(project.environment["RAGEVAL_HOME"], home)
    monkeypatch.setenv("RAGEVAL_HOME", str(home))
    cold = Project(project.folder, project.environment | {"RAGEVAL_HOME": str(home)})
    other = cold.database()
    forget_all_work(other)
    assert cold.evaluate("acme", "night 2", dataset_ids=[dataset.id], systems=systems).failure is None
    reports = reports_of(db, "acme", "night 2"), reports_of(other, "acme", "night 2")
    for one, anew in zip(*reports, strict=True):
        assert one.evaluation.system == anew.evaluation.system
        found = found_by(db, one.evaluation.id)
        assert len(found["outcomes"]) == one.evaluation.item_count * len(one.summaries)
        assert found == found_by(other, anew.evaluation.id)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_after_a_change_every_row_is_as_if_made_anew(loaded: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_like_nothing_reused(loaded, monkeypatch, ["dense", "bm25", "hybrid"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_so_it_is_with_models_and_unanswerable_questions(loaded: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(scripted_model) as server:
        project = with_models(loaded, server.base_url, monkeypatch, RAGEVAL_UNANSWERABLE_SHARE="0.4")
        assert_like_nothing_reused(project, monkeypatch, ["dense"])
        with project.database().connect() as connection:
            items = connection.execute(sa.select(benchmark_items.c.item)).scalars().all()
        assert 0 < sum(item["answerable"] is False for item in items if "answerable" in item) < len(items)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_answers_and_verdicts_of_models_are_asked_for_again_when_they_are_too_old(
    loaded: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosted models drift. Questions are not written anew: they are what is asked, not what is measured."""
    with ScriptedServer(scripted_model) as server:
        project = with_models(loaded, server.base_url, monkeypatch)
        nights: list[Counter[str]] = []
        for night, older in enumerate([0, 29, 2, 0], start=1):
            make_older(project.database(), timedelta(days=older))
            before = len(server.requests)
            assert project.evaluate("acme", f"night {night}").failure is None
            nights.append(Counter(request.body["model"] for request in server.requests[before:]))
    first, young, old, next_one = nights
    assert set(first) == {f"scripted-{role}" for role in ROLES}
    assert young == next_one == Counter()
    assert old == Counter({model: count for model, count in first.items() if model != "scripted-generator"})
    db = project.database()
    first_night, *others = [
        found_by(db, reports_of(db, "acme", f"night {night}")[0].evaluation.id) for night in (1, 2, 3, 4)
    ]
    assert others == [first_night] * 3


# --- questions that are judged otherwise than before: the same answer is scored again, and nothing else is ------------


def imported(project: Project, **fields: object) -> int:
    row = {
        "question": "Who was the lighthouse of Avonlea founded by?",
        "answers": ["the engineer Aelnova"],
        "evidence": [{"document_id": "lighthouse-avonlea"}],
        **fields,
    }
    path = project.folder / "questions.jsonl"
    path.write_text(json.dumps(row), encoding="utf-8")
    return import_dataset(project.database(), "acme", "mine", path, "native").dataset.id


def evaluated(project: Project, trigger: str, dataset_id: int) -> dict[str, float | None]:
    report = project.report("acme", trigger, dataset_ids=[dataset_id])
    return {metric_id: summary.mean for metric_id, summary in report.summaries.items()}


def kept_vectors(project: Project) -> int:
    with project.database().connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(llm_calls)).scalar_one() == 0
        return connection.execute(sa.select(sa.func.count()).select_from(embedding_cache)).scalar_one()


@pytest.mark.slow
def test_a_question_with_other_checks_is_scored_again_and_embeds_nothing(loaded: Project) -> None:
    first = imported(loaded, checks=[{"name": "founder", "kind": "fact", "expect": "Aelnova"}])
    before = evaluated(loaded, "command:one", first)
    assert before["checks.fact_score"] == 1.0
    vectors = kept_vectors(loaded)
    second = imported(loaded, checks=[{"name": "founder", "kind": "fact", "expect": "Somebody Else"}])
    assert second != first
    after = evaluated(loaded, "command:two", second)
    assert after["checks.fact_score"] == 0.0
    assert {name for name in before if before[name] != after[name]} == {"checks.fact_score"}
    assert kept_vectors(loaded) == vectors


@pytest.mark.slow
def test_a_question_that_turns_out_unanswerable_is_judged_as_such(loaded: Project) -> None:
    before = evaluated(loaded, "command:one", imported(loaded))
    after = evaluated(loaded, "command:two", imported(loaded, answerable=False))
    assert before["retrieval.document_mrr"] is not None
    assert after["retrieval.document_mrr"] is None
    assert before["quality.refusal_correct"] != after["quality.refusal_correct"]
