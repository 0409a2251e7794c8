"""The user's own RAG system, of another make, over HTTP: asked, matched, reused or not, and watched for leaks."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rageval_dagster.evaluation.leaks import stray_chunks
from rageval_dagster.gate.decision import judged_newest
from rageval_dagster.storage.clients import list_clients
from rageval_dagster.storage.results import load_results
from rageval_dagster.storage.views import read_view
from tests.pipeline.other_rag import FOREIGN, TOKEN, OtherRag, serving
from tests.pipeline.small_project import Project, documents, holding
from tests.rag.hostile_responses import HostileServer, responses

ROWS = documents("lighthouse")


def configure(project: Project, system: OtherRag, **more: str) -> None:
    lines = "\n".join(f"{name} = {value}" for name, value in more.items())
    Path("rageval.toml").write_text(
        f"""
[defaults]
system = "assistant"

[defaults.systems.assistant]
kind = "http"
url = "{system.url}"
auth_env = "ASSISTANT_TOKEN"
request = {{ q = "{{question}}", top = "{{k}}" }}
{lines}

[defaults.systems.assistant.response]
answer = "result.text"
contexts = "result.passages"
context = {{ text = "body", id = "ref", document_id = "source" }}
version = "meta.build"
""",
        encoding="utf-8",
    )


@pytest.fixture
def assistant(loaded: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[OtherRag]:
    monkeypatch.setenv("ASSISTANT_TOKEN", TOKEN)
    with serving(OtherRag(ROWS)) as system:
        configure(loaded, system)
        yield system


@pytest.mark.slow
def test_its_own_passages_under_its_own_ids_are_scored(loaded: Project, assistant: OtherRag) -> None:
    report = loaded.report("acme", "command:one")
    assert report.evaluation.item_count == 8
    assert len(assistant.asked) == 3 * 8, "what later runs are held against is asked three times"
    assert report.evaluation.system == "assistant"
    assert not report.evaluation.system_reference
    assert report.level == "chunk"
    headline = report.headline()
    assert headline["hit_rate_at_5"].n_scored == 8
    assert (headline["recall_at_5"].mean or 0) > 0.8, "passages that hold the quote count, whatever their cut"
    assert report.summaries["retrieval.foreign_hits"].mean == 0
    assert report.summaries["quality.refusal_correct"].n_scored == 8


@pytest.mark.slow
def test_an_unversioned_system_that_gets_worse_is_asked_again_and_seen(loaded: Project, assistant: OtherRag) -> None:
    before = loaded.report("acme", "schedule:one")
    assistant.broken = True
    after = loaded.report("acme", "schedule:two")
    failing = judged_newest(loaded.database(), "acme")[0].judgement.newly_failing
    assert len(failing) >= 4
    assert len(assistant.asked) == 3 * 8 + 8 + 2 * len(failing), "what newly fails is asked twice more"
    rows = {row["metric_id"]: row for row in read_view(loaded.database(), "run_against_previous")}
    row = rows["retrieval.mrr"]
    assert (row["previous_mean"], row["mean"]) == (before.headline()["mrr"].mean, after.headline()["mrr"].mean)
    assert row["delta"] < -0.2
    assert row["system_note"] == "system unversioned, may have changed"
    history = [row for row in read_view(loaded.database(), "metric_history") if row["metric_id"] == "retrieval.mrr"]
    assert [row["system_note"] for row in history] == ["system unversioned, may have changed"] * 2


@pytest.mark.slow
def test_a_system_that_names_its_version_is_asked_when_it_changes(loaded: Project, assistant: OtherRag) -> None:
    assistant.build = "2026.11"
    first = loaded.report("acme", "schedule:one")
    assert len(assistant.asked) == 3 * 8
    second = loaded.report("acme", "schedule:two")
    assert len(assistant.asked) == 3 * 8 + 5, "five questions show whether it is still the same"
    assert second.headline() == first.headline()
    assistant.build = "2026.12"
    third = loaded.report("acme", "schedule:three")
    assert len(assistant.asked) == 3 * 8 + 5 + 8
    assert [report.evaluation.system_declared for report in (first, second, third)] == ["2026.11", "2026.11", "2026.12"]
    assert first.evaluation.versions.system == second.evaluation.versions.system != third.evaluation.versions.system
    notes = {row["evaluation_id"]: row["system_note"] for row in read_view(loaded.database(), "run_against_previous")}
    assert notes == {second.evaluation.id: "same system", third.evaluation.id: "system changed"}


@pytest.mark.slow
def test_a_version_that_looks_like_a_hash_is_no_recorded_file(loaded: Project, assistant: OtherRag) -> None:
    assistant.build = "ab" * 32
    loaded.report("acme", "schedule:one")
    assistant.broken = True
    loaded.report("acme", "schedule:two")
    assert len(judged_newest(loaded.database(), "acme")[0].judgement.newly_failing) >= 4


@pytest.mark.slow
def test_another_cutoff_asks_a_versioned_system_no_more_than_another_night(
    loaded: Project, assistant: OtherRag
) -> None:
    assistant.build = "2026.11"
    loaded.report("acme", "command:five")
    report = loaded.report("acme", "command:three", k=3)
    assert len(assistant.asked) == 3 * 8 + 5
    assert report.summaries["retrieval.hit_rate_at_3"].n_scored == 8


@pytest.mark.core
def test_another_clients_passage_is_named_and_stored_nowhere(loaded: Project, assistant: OtherRag) -> None:
    loaded.ingest("rival", [{"id": "board", "title": "Minutes", "text": f"{FOREIGN} The vote is secret."}])
    assistant.extra = [{"ref": "idx-999999", "body": FOREIGN, "source": "x"}]
    report = loaded.report("acme", "command:leak")
    db = loaded.database()
    assert report.evaluation.status == "complete"
    assert (report.summaries["retrieval.foreign_hits"].mean or 0) > 0
    strays = stray_chunks(db, [report.evaluation], "foreign", lambda: ["other", "rival"])
    assert len({stray.item_id for stray in strays}) == 8
    assert len({stray.chunk_id for stray in strays} - {"answer"}) == 1
    assert {stray.clients for stray in strays} == {("rival",)}
    assert [each.client_id for each in list_clients(db)] == ["acme"], "a look at the words of others makes no client"
    # Neither the passage nor the answer that repeats it is stored.
    assert holding("Orinoco Shipping", *loaded.settings.home.glob("rageval.sqlite3*")) == []


@pytest.mark.core
def test_a_system_that_changes_behind_its_version_is_asked_everything(loaded: Project, assistant: OtherRag) -> None:
    loaded.ingest("rival", [{"id": "board", "title": "Minutes", "text": f"{FOREIGN} The vote is secret."}])
    assistant.build = "2026.11"
    db = loaded.database()

    def night(trigger: str) -> tuple[int, int, list[str]]:
        """How many questions were asked, how many leaked, and what is said of the system."""
        before = len(assistant.asked)
        evaluation = loaded.report("acme", trigger).evaluation
        strays = stray_chunks(db, [evaluation], "foreign", lambda: ["rival"])
        [judged] = judged_newest(db, "acme")
        said = [each.detail for each in judged.judgement.changes if each.what == "system"]
        assert evaluation.system_declared == "2026.11"
        return len(assistant.asked) - before, len({stray.item_id for stray in strays}), said

    changed = ["its version is still 2026.11, but it returned other passages or answers"]
    assert night("command:first") == (3 * 8, 0, [])
    assert night("command:same") == (5, 0, [])
    assistant.extra = [{"ref": "idx-999999", "body": FOREIGN, "source": "x"}]
    assert night("command:leak") == (8, 8, changed)
    assistant.extra = []
    assert night("command:mended")[:2] == (8, 0), "what leaked is never reused"
    assert night("command:still") == (5, 0, [])
    assistant.says = ""
    assert night("command:mute") == (8, 0, changed), "most of five answers are other ones"
    assistant.says = None
    assert night("command:speaking")[0] == 8
    assistant.broken = True
    asked, _, said = night("command:broken")
    assert (asked >= 8, said) == (True, changed)
    assert judged_newest(db, "acme")[0].judgement.newly_failing


@pytest.mark.slow
def test_passages_that_stand_nowhere_are_unknown_and_stop_nothing(loaded: Project, assistant: OtherRag) -> None:
    words = "An answer that was cached before the document was deleted."
    assistant.extra = [{"ref": ref, "body": words, "source": "y"} for ref in ("idx-0", f"{words} " * 5)]
    report = loaded.report("acme", "command:stale")
    named = {stray.chunk_id for stray in stray_chunks(loaded.database(), [report.evaluation], "unknown")}
    assert len(named) == 2
    assert "idx-0" in named
    assert not any(words in name for name in named), "a text given for an id would stand in Dagster"
    assert stray_chunks(loaded.database(), [report.evaluation], "foreign") == []


@pytest.mark.slow
def test_questions_that_fail_have_their_kind_and_the_rest_is_scored(loaded: Project, assistant: OtherRag) -> None:
    configure(loaded, assistant, max_attempts="1", timeout_s="5", concurrency="1")
    # The first is asked for the version.
    assistant.trouble = {2: "status", 3: "shape", 4: "redirect", 5: "broken", 6: "slow"}
    report = loaded.report("acme", "command:trouble")
    summary = report.headline()["mrr"]
    assert (summary.n, summary.n_scored, summary.n_error) == (8, 3, 5)
    assert summary.worst_low == pytest.approx((summary.mean or 0) * 3 / 8)
    results = load_results(loaded.database(), report.evaluation.id).values()
    errors = {result.error.partition(":")[0] for _, result in results if result.error}
    assert errors == {"http_status", "wrong_shape", "redirect_refused", "broken_stream", "timeout"}
    assistant.trouble = {}
    again = loaded.report("acme", "command:again")
    assert again.headline()["mrr"].n_scored == 8, "an error is never used again"


@pytest.mark.slow
def test_a_hostile_system_leaves_no_question_without_an_outcome(loaded: Project) -> None:
    hostile = [each for each in responses().values() if each.stream is None and not each.pause_s]
    with HostileServer(hostile) as server:
        Path("rageval.toml").write_text(
            '[defaults]\nsystem = "assistant"\n[defaults.systems.assistant]\nkind = "http"\n'
            f'url = "{server.origin}/next"\ntimeout_s = 5\nmax_attempts = 1\nconcurrency = 1\n'
        )
        report = loaded.report("acme", "command:hostile")
    results = [result for _, result in load_results(loaded.database(), report.evaluation.id).values()]
    assert report.evaluation.status == "complete"
    assert len(results) == report.evaluation.item_count == 8
    assert all(re.match("[a-z_]+: ", each.error) if each.error else each.answer for each in results)
    assert any(each.error for each in results)
