"""The gate on a real project: what it says when nothing, the index, the documents, the system or the judge changed."""

from collections.abc import Sequence

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings as ChromaSettings

from rageval_dagster.gate.baselines import accept
from rageval_dagster.gate.decision import Judged, judged_before
from rageval_dagster.storage.comparisons import find_baseline
from rageval_dagster.storage.evaluations import evaluations_of_trigger
from rageval_dagster.telling.verdicts import sentence, verdict_of
from tests.pipeline.small_project import Project

pytestmark = pytest.mark.slow

THINGS = (
    "lighthouse bicycle volcano orchestra bakery submarine cathedral parliament glacier vineyard telescope aquarium "
    "stadium library railway windmill circus monastery hospital observatory dam castle theatre brewery airport "
    "cemetery zoo tunnel bridge market prison university mine harbour school embassy forest museum factory desert "
    "waterfall palace swamp canal island greenhouse laboratory pharmacy restaurant swimming-pool opera barracks "
    "planetarium sawmill fountain cinema warehouse fortress synagogue racecourse"
).split()
COUNT = len(THINGS)
BROKEN = [number for number in range(COUNT) if 5 <= number % 15 < 13]
"""Half of the chunks, but none that is looked at to see whether the vectors are the embedding model's."""


def things(count: int = COUNT) -> list[dict[str, str]]:
    """So many documents of one chunk, each about another thing."""
    return [
        {
            "id": thing,
            "text": f"The {thing} was opened in {1700 + number} by the mayor. The {thing} is closed on Mondays.",
        }
        for number, thing in enumerate((*THINGS, "tower")[:count])
    ]


@pytest.fixture
def small(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    for variable, value in {
        "EVALUATION_DEFAULT_SAMPLE_SIZE": str(COUNT),
        "EVALUATION_DEFAULT_K": "1",
        "EVALUATION_TARGET_ITEMS": str(COUNT),
        "RAGEVAL_GATE_EFFECT": "0.5",
    }.items():
        monkeypatch.setenv(variable, value)
        project.environment[variable] = value
    project.ingest("acme", things())
    return project


def judged(project: Project, trigger: str) -> Judged:
    launched = project.evaluate("acme", trigger)
    assert launched.failure is None, launched.failure
    return stored(project, trigger)


def stored(project: Project, trigger: str) -> Judged:
    evaluations = evaluations_of_trigger(project.database(), "acme", trigger)
    return judged_before(project.database(), evaluations[-1])


def shuffle_vectors(project: Project, numbers: Sequence[int], back: bool = False) -> None:
    """Gives each of these chunks the vector of another one, as a broken re-embedding would, or takes it back."""
    path = project.settings.embedded_chroma_path
    client = chromadb.PersistentClient(str(path), ChromaSettings(anonymized_telemetry=False))
    [collection] = client.list_collections()
    found = collection.get(include=["embeddings"])
    ids = [found["ids"][number] for number in numbers]
    vectors = np.asarray(found["embeddings"])[list(numbers)]
    collection.update(ids=ids, embeddings=np.roll(vectors, -7 if back else 7, axis=0))


@pytest.mark.core
def test_nothing_changed_then_the_index_broke_then_it_was_mended(small: Project) -> None:
    first = judged(small, "day-1")
    assert (first.judgement.verdict, first.judgement.baseline_id) == ("first", None)
    quiet = judged(small, "day-2")
    assert (quiet.judgement.verdict, quiet.judgement.changes) == ("passed", ())
    assert quiet.judgement.baseline_id == first.evaluation.id
    assert {row.difference for row in quiet.gated} == {0.0}

    shuffle_vectors(small, BROKEN)
    broken = judged(small, "day-3")
    assert broken.judgement.verdict == "regressed"
    assert {row.metric_id for row in broken.regressed} == {"retrieval.hit_rate_at_1", "retrieval.mrr"}
    [change] = broken.judgement.changes
    assert (change.what, change.detail) == ("index", "re-embedded 32 chunks")
    assert change.worse == len(broken.judgement.newly_failing) >= 20
    assert "the index changed (re-embedded 32 chunks" in sentence(verdict_of(small.database(), broken, 0.05))

    # The day after nothing has changed since, but the index is still what broke it.
    still = judged(small, "day-4")
    assert still.judgement.verdict == "regressed"
    assert [change.what for change in still.judgement.changes] == ["index"]

    shuffle_vectors(small, BROKEN, back=True)
    mended = judged(small, "day-5")
    assert mended.judgement.verdict == "passed"
    assert mended.judgement.newly_failing == ()


def test_a_run_that_is_accepted_is_what_later_ones_are_held_against(small: Project) -> None:
    judged(small, "day-1")
    shuffle_vectors(small, BROKEN)
    broken = judged(small, "day-2")
    assert broken.judgement.verdict == "regressed"
    db = small.database()
    accept(db, broken.evaluation, "ann")
    assert stored(small, "day-2").judgement.verdict == "first"
    baseline = find_baseline(db, "acme", broken.evaluation.dataset_name, broken.evaluation.system)
    assert baseline is not None
    assert (baseline.evaluation_id, baseline.reason) == (broken.evaluation.id, "accepted")
    after = judged(small, "day-3")
    assert (after.judgement.verdict, after.judgement.baseline_id) == ("passed", broken.evaluation.id)


def test_documents_that_were_edited_are_named_with_their_number(small: Project) -> None:
    judged(small, "day-1")
    rows = things()
    for row in rows[:2]:
        row["text"] += " It is closed on Sundays."
    small.ingest("acme", [*rows, *things(COUNT + 1)[COUNT:]])
    edited = judged(small, "day-2")
    # A dataset by rule grows with its documents.
    changes = {change.what: change.detail for change in edited.judgement.changes}
    assert changes.keys() == {"corpus", "dataset"}
    assert changes["corpus"] == "3 added, 2 removed chunks"
    assert edited.judgement.verdict == "passed"


def test_a_judge_that_changed_is_compared_with_itself(small: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    before = judged(small, "day-1")
    # Another threshold is another version of the metric: what counted before is counted anew.
    monkeypatch.setenv("RAGEVAL_SUFFICIENCY_THRESHOLD", "0.95")
    small.environment["RAGEVAL_SUFFICIENCY_THRESHOLD"] = "0.95"
    after = judged(small, "day-2")
    [change] = after.judgement.changes
    assert (change.what, change.detail) == ("judge", "embedding.context_sufficiency")
    row = next(row for row in after.comparisons if row.metric_id == "embedding.context_sufficiency")
    assert (row.difference, row.decision) == (0.0, "passed")
    assert row.remark == "its judge changed: the earlier answers were scored again by the new one"
    # The earlier evaluation keeps the scores that it had.
    kept = stored(small, "day-1")
    assert kept.evaluation.versions.judge == before.evaluation.versions.judge


def test_evaluating_the_same_slot_again_says_the_same(small: Project) -> None:
    judged(small, "day-1")
    shuffle_vectors(small, BROKEN)
    once = judged(small, "day-2")
    again = judged(small, "day-2")
    assert (again.judgement, again.comparisons) == (once.judgement, once.comparisons)
