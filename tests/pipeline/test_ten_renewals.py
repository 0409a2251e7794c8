"""Ten weekly renewals: each brings questions that were never asked, the anchors stay, and all documents are reached."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from rageval_dagster.benchmark.due import BenchmarkSpec, renewal_due
from rageval_dagster.benchmark.generators import load_generator
from rageval_dagster.benchmark.renewal import SPARE, renew_candidates, renew_dataset, renew_sample
from rageval_dagster.benchmark.rotation import CHANGED_PART, LEAST_ANCHORS
from rageval_dagster.corpus.store import open_store
from rageval_dagster.embedding.models import load_embedder
from rageval_dagster.evaluation.changes import scan_client
from rageval_dagster.evaluation.forecast import SINGLE_CALLS
from rageval_dagster.settings import Settings
from rageval_dagster.storage.benchmark import current_datasets, dataset_items
from tests.benchmark import question_model
from tests.benchmark.question_model import QuestionModel
from tests.benchmark.test_by_model_renewal import GOOD
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.small_project import Project
from tests.pipeline.test_rotation import TOPICS, of_its_own

RENEWALS = 10
SIZE, TARGET = 40, 60
DOCUMENTS = 8 * len(TOPICS)


@dataclass(frozen=True)
class Renewed:
    """A renewal: the items before and after it, and those never asked before; the model's calls.

    `documents` are touched by it, `reached` by it or those before. `is_used_up` is whether all chunks were asked about.
    """

    before: list[str]
    after: list[str]
    new: set[str]
    documents: int
    reached: int
    is_used_up: bool
    calls: int

    @property
    def left(self) -> int:
        return len(set(self.before) - set(self.after))


def renewals(project: Project, settings: Settings, server: ScriptedServer) -> Iterator[Renewed]:
    """A first draw, then ten renewals a week apart, each followed by a night on which nothing changed."""
    project.ingest("acme", [row for topic in TOPICS for row in of_its_own(topic)])
    db, store = project.database(), open_store(settings)
    spec = replace(BenchmarkSpec.from_settings(settings), size=SIZE, target=TARGET)
    now = datetime.now(UTC)
    scan_client(db, store, "acme", ["dense"])
    before: list[str] = []
    asked: set[str] = set()
    reached: set[str] = set()
    for week in range(RENEWALS + 1):
        calls = len(server.requests)
        for moment in (now + timedelta(days=8 * week), now + timedelta(days=8 * week + 1)):
            renew_sample(db, store, "acme", spec, moment)
            generator = load_generator(settings, db, "acme", spec.seed)
            renew_candidates(db, store, "acme", spec, generator, now=moment)
            if moment > now + timedelta(days=8 * week):
                assert len(server.requests) == calls, "an unchanged night costs nothing"
            renew_dataset(db, store, "acme", spec, load_embedder(settings.embedding_model, settings), moment)
            [dataset] = current_datasets(db, "acme")
            items = dataset_items(db, dataset.id)
            after = [item.item_id for item in items]
            if moment == now + timedelta(days=8 * week):
                touched = {document for item in items for document in item.document_ids}
                reached |= touched
                is_used_up = not dataset.stats["passages_left"]
                counts = len(touched), len(reached), is_used_up, len(server.requests) - calls
                yield Renewed(before, after, set(after) - asked, *counts)
                before, asked, calls = after, asked | set(after), len(server.requests)
            assert renewal_due(db, "acme", spec, moment) is None
        assert before == after


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("writer", ["rules", "model"])
def test_each_renewal_brings_new_questions_and_keeps_the_anchors(project: Project, writer: str) -> None:
    with ScriptedServer(QuestionModel(**GOOD)) as server:
        shares = {"RAGEVAL_MULTI_HOP_SHARE": "0", "RAGEVAL_UNANSWERABLE_SHARE": "0"}
        by_model = question_model.settings(server, **(project.environment | shares))
        first, *later = renewals(project, project.settings if writer == "rules" else by_model, server)
    assert len(first.after) == SIZE
    anchors = first.after[:LEAST_ANCHORS]
    for before, each in pairwise([first, *later]):
        assert each.after[:LEAST_ANCHORS] == anchors
        assert each.left == min(len(each.before) // CHANGED_PART, len(each.before) - LEAST_ANCHORS)
        added = set(each.after) - set(each.before)
        assert added == each.new or before.is_used_up or each.is_used_up, "what made room comes back at the end only"
        assert each.reached >= before.reached
        most = SINGLE_CALLS * (round(SPARE * len(added)) + 1)
        assert each.calls == 0 if writer == "rules" else each.calls <= most
    assert all(len(each.after) == TARGET for each in later)
    # By rule, the 80 passages are all asked about then.
    assert later[1].new, "when it has grown, too"
    # Of some documents the rules can make no question.
    assert later[-1].reached == DOCUMENTS if writer == "model" else later[-1].reached >= 0.9 * DOCUMENTS
