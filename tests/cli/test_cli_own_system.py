"""A system of the user's that leaks, or fails: what the command says, and how it ends."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rageval_dagster.records import Answer, Chunk, Evidence, Item
from rageval_dagster.storage.clients import set_systems
from rageval_dagster.storage.results import save_results, save_retrievals
from rageval_dagster.telling.links import report_path
from tests.cli.running import Run, refused, stock
from tests.pipeline.other_rag import TOKEN, OtherRag, serving
from tests.pipeline.small_project import Project, documents
from tests.pipeline.test_own_system import configure
from tests.storage import history_builder
from tests.storage.history_builder import make_dataset, open_run, result_of, retrieval_of
from tests.telling.webhook_server import WebhookServer

WORDS = "The board of Orinoco Shipping will vote on the merger with Parana Holdings in the second week of May."


@pytest.mark.slow
def test_a_leak_is_told_and_fails_the_command(loaded: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded.ingest("rival", [{"id": "board", "title": "Minutes", "text": f"{WORDS} The vote is secret."}])
    monkeypatch.setenv("ASSISTANT_TOKEN", TOKEN)
    with serving(OtherRag(documents("lighthouse"))) as assistant, WebhookServer() as webhook:
        monkeypatch.setenv("RAGEVAL_ALERT_WEBHOOK_URL", webhook.url)
        configure(loaded, assistant)
        stale = "Cached before the document was deleted."
        assistant.extra = [
            {"ref": "idx-999999", "body": WORDS, "source": "board"},
            {"ref": "idx-0", "body": stale, "source": "old"},
        ]
        ended = run("evaluate", "--client", "acme", "--json")
    assert ended.code == 1
    [line] = [line for line in ended.err.splitlines() if "LEAK" in line]
    assert "9 passages of other clients for 8 questions: chunks content:" in line
    assert " and 8 answers; questions " in line
    assert line.endswith("; words of rival")
    assert "assistant returned 1 chunk that the document store does not have" in ended.err
    assert " leak " in run("runs", "list").out
    assert webhook.headlines == ["*Leak: passages of other clients were returned: `acme`*"]
    assert "Orinoco" not in json.dumps(webhook.messages)
    row = json.loads(ended.out)
    assert row["metrics"]["retrieval.foreign_hits"]["mean"] > 0
    [status] = [each for each in json.loads(run("status", "--json").out) if each["client_id"] == "acme"]
    assert (status["foreign_chunks"], status["unknown_chunks"]) == (9, 1)
    assert [each["kind"] for each in status["incidents"]] == ["leak"], "and not as a failed run, too"
    kept = [path for path in Path(loaded.settings.home).glob("rageval.sqlite3*") if WORDS.encode() in path.read_bytes()]
    shown = run("runs", "show", str(row["run_id"]))
    assert WORDS not in shown.out
    assert kept == [], "the other customer's words are stored with nobody"


def test_answers_of_earlier_runs_are_counted_with_why_nobody_was_asked(
    loaded: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSISTANT_TOKEN", TOKEN)
    with serving(OtherRag(documents("lighthouse"))) as assistant:
        assistant.build = "2026.11"
        configure(loaded, assistant)
        first = run("evaluate", "--client", "acme")
        again = run("evaluate", "--client", "acme")
        assistant.broken = True
        broken = run("evaluate", "--client", "acme")
        assistant.build = "2026.12"
        assistant.broken = False
        assistant.trouble = {len(assistant.asked) + 2: "status"}
        other = run("evaluate", "--client", "acme")
    told = "3 of 8 answers are of earlier runs, as the system's version is the same, 2026.11."
    assert [told in each.out for each in (first, again, other)] == [False, True, False]
    assert "the system changed (its version is still 2026.11, but it returned other passages or answers; " in broken.out
    assert "earlier runs" not in broken.out + other.out
    later = "assistant answered 1 question at a later attempt only"
    assert [later in each.err for each in (first, other)] == [False, True]
    [row] = json.loads(run("status", "--json").out)
    assert row["items"] == 8


def test_evidence_that_a_question_does_not_have_is_not_missed(project: Project, run: Run) -> None:
    db = project.database()
    evidence = (Evidence("a.md"),)
    said = {
        Item("second", evidence=evidence): "2",
        Item("missed", evidence=evidence): "not found",
        Item("unanswerable", answerable=False): "it has none: unanswerable",
        Item("open"): "none is named",
    }
    evaluation = open_run(db, make_dataset(db, "acme", list(said)), "command:one")
    second, missed, *others = map(retrieval_of, said)
    relevant = [replace(second, relevant_chunks=[(second.hits or [])[1].chunk_id]), replace(missed, relevant_chunks=[])]
    nothing = [replace(each, relevant_chunks=None, relevant_documents=None) for each in others]
    records = [(each, each.item_id) for each in (*relevant, *nothing)]
    save_retrievals(db, evaluation.id, records)
    declined = Answer("I cannot say.", declined=True)
    save_results(db, evaluation.id, [(replace(result_of(each), answer=declined), key) for each, key in records])
    for item, rank in said.items():
        shown = run("runs", "show", evaluation.id, "--question", item.item_id)
        assert f"rank of the evidence: {rank}\n" in shown.out, shown
        assert "  declined: I cannot say.\n" in shown.out


@pytest.mark.slow
def test_a_secret_that_is_not_set_is_said_before_anything_is_done(loaded: Project, run: Run) -> None:
    with serving(OtherRag(documents("lighthouse"))) as assistant:
        configure(loaded, assistant)
        missing = ("'ASSISTANT_TOKEN'", "which is not set")
        ended = run("evaluate", "--client", "acme")
        refused(ended, *missing)
        assert "scan" not in ended.err
        refused(run("evaluate", "--client", "acme", "--system", "bm25", "--system", "assistant"), *missing)
        refused(run("evaluate", "--all"), *missing)
        assert run("evaluate", "--client", "acme", "--dry-run").code == 0, "nothing is asked"
        assert run("evaluate", "--client", "acme", "--system", "bm25").code == 0
    assert assistant.asked == []


@pytest.mark.slow
def test_a_system_that_fails_is_told_with_reasons(loaded: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSISTANT_TOKEN", "another")
    with serving(OtherRag(documents("lighthouse"))) as assistant:
        configure(loaded, assistant, max_attempts="1", concurrency="1")
        refused_all = run("evaluate", "--client", "acme")
        monkeypatch.setenv("ASSISTANT_TOKEN", TOKEN)
        assistant.trouble = {2: "shape"}
        failed_one = run("evaluate", "--client", "acme")
    assert refused_all.code == 2
    assert "assistant failed on 8 of 8 questions: http_status: 401 (8): the system refused its key" in refused_all.err
    assert "of [systems.assistant] names" in refused_all.err
    assert "declares no version" not in refused_all.out
    page = report_path(loaded.settings.report_dir, "acme").read_text(encoding="utf-8")
    assert "1 question: wrong_shape" in page
    assert "The system failed on 8 of 8 questions: nothing could be measured." in refused_all.out.splitlines()
    assert "what is right" not in refused_all.out
    assert failed_one.code == 4
    for ended in (refused_all, failed_one):
        assert "more errors than allowed" not in ended.err, "what the system failed on is told once"
    assert "assistant failed on 1 of 8 questions: wrong_shape" in failed_one.err
    listed = {row["run"]: row["errors"] for row in json.loads(run("runs", "list", "--json").out)}
    assert listed == {1: 8, 2: 1}
    assert run("runs", "list").out.split().count("failed") == 2, "1 of 8 is more than RAGEVAL_MAX_ERROR_SHARE"
    shown = run("runs", "show", "1", "--all").out
    assert "without any value not shown" in shown
    assert "retrieval.mrr" not in shown
    [incident] = json.loads(run("status", "--client", "acme", "--json").out)[0]["incidents"]
    assert (incident["kind"], incident["details"]["failed"]) == ("errors", 1), "told once, as it is now"
    assert incident["details"]["reason"].startswith("wrong_shape")
    shown = run("runs", "show", "2").out
    assert "failed on 1 of 8" in shown
    assert "metrics failed" not in shown


def test_a_built_in_system_is_not_evaluated_instead_of_one_whose_settings_were_not_found(
    project: Project, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock(project.settings, "acme", Chunk("c", "A chunk.", "d"))
    db = project.database()
    history_builder.finish(db, open_run(db, make_dataset(db, "acme", [Item("q")]), "command:one", "assistant"), {})
    set_systems(db, "acme", ["assistant"])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    words = ("'acme'", "'assistant'", f"no settings file {elsewhere / 'rageval.toml'}", "--system dense")
    refused(run("evaluate", "--client", "acme"), *words)
    refused(run("evaluate", "--all"), *words)
    scheduled = project.evaluate("acme", "change:1")
    assert scheduled.failed_step == "corpus_version"
    assert all(word in (scheduled.message or "") for word in words)
    [status] = json.loads(run("status", "--json").out)
    assert status["evaluations"] == 1, "its row stays"
    assert run("evaluate", "--client", "acme", "--system", "bm25", "--dry-run").code == 0
    (elsewhere / "rageval.toml").write_text("[defaults]\nk = 3\n")
    refused(run("evaluate", "--client", "acme"), "rageval.toml does not define it")
    (elsewhere / "rageval.toml").write_text('[defaults]\nsystem = "dense"\n')
    assert run("evaluate", "--client", "acme", "--dry-run").code == 0, "now it is a wish"


METRICS = """
from rageval_dagster.metrics.own import metric

@metric("acme_test.polite", needs={"answer"}, version="1", description="Fails.")
def polite(results, tools):
    raise ValueError(results[0].answer.text)

@metric("acme_test.brief", version="1", description="Fails too.")
def brief(results, tools):
    return [2.0 for result in results]
"""


@pytest.mark.slow
def test_a_metric_that_fails_is_told_with_its_reason(
    loaded: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("acme_failing_metrics.py").write_text(METRICS, encoding="utf-8")
    Path("rageval.toml").write_text(
        '[defaults]\nmetrics = ["retrieval.*", "acme_failing_metrics:polite", "acme_failing_metrics:brief"]\n'
    )
    ended = run("evaluate", "--client", "acme")
    assert ended.code == 4
    [line] = [line for line in ended.err.splitlines() if "more errors than allowed" in line]
    assert line.startswith("acme / ")
    assert "acme_test.polite 8 of 8 (ValueError at acme_failing_metrics.py:6: 8)" in line
    assert "acme_test.brief 8 of 8 (acme_test.brief gave 2, not a number from 0 to 1: 8)" in line
    shown = run("runs", "show", "1")
    assert shown.code == 0
    assert "metrics failed: " in shown.out
    assert "acme_test.polite: ValueError at acme_failing_metrics.py:6 (8)" in shown.out
    monkeypatch.setenv("RAGEVAL_MAX_ERROR_SHARE", "1")
    allowed = run("evaluate", "--client", "acme")
    assert (allowed.code, "more errors than allowed" in allowed.err) == (0, False)


def test_recorded_answers_are_listed_as_such_and_not_by_their_file_s_hash(project: Project, run: Run) -> None:
    db = project.database()
    dataset = make_dataset(db, "acme", [Item("Who?")])
    open_run(db, dataset, "command:one", declared="a" * 64)
    open_run(db, dataset, "command:two", declared="2.1")
    listed = run("runs", "list").out
    assert "recorded answers" in listed
    assert "2.1" in listed
    assert "aaaa" not in listed + run("runs", "show", "1").out
    assert {row["version"] for row in json.loads(run("runs", "list", "--json").out)} == {"a" * 64, "2.1"}
