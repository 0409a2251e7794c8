"""Questions that are judged otherwise than before: the same answer is scored again, and nothing else is."""

import json

import pytest
import sqlalchemy as sa

from rageval_dagster.benchmark.importing import import_dataset
from rageval_dagster.evaluation.summary import reports_of
from rageval_dagster.storage.tables import embedding_cache, llm_calls
from tests.pipeline.small_project import Project


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
    assert project.evaluate("acme", trigger, dataset_ids=[dataset_id]).message is None
    [report] = reports_of(project.database(), "acme", trigger)
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
