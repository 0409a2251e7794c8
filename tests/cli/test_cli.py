"""The command line as a user meets it: what it prints, where, and how it ends."""

import json
from pathlib import Path

import dagster as dg
import pytest

import rageval_dagster
from rageval_dagster.app.documents import ingest
from rageval_dagster.errors import RagevalError
from rageval_dagster.records import Chunk
from rageval_dagster.storage.clients import ensure_client
from rageval_dagster.storage.leases import acquire_lease, release_lease
from tests.cli.running import Run, refused, stock
from tests.pipeline.looks import tick
from tests.pipeline.small_project import Project, documents


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("evaluate", ["--client NAME", "--all"]),
        ("evaluate --client nobody", ["'nobody'", "rageval clients list"]),
        ("evaluate --client acme --system magic", ["'magic'", "dense", "bm25", "hybrid"]),
        ("evaluate --client acme --dataset 99", ["99"]),
        ("evaluate --client acme --junit gate.xml", ["--junit goes with --gate"]),
        ("evaluate --client acme --gate --junit none/gate.xml", ["--junit", "a folder that there is"]),
        ("ingest empty --client nobody", ["empty"]),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(project: Project, run: Run, command: str, words: list[str]) -> None:
    stock(project.settings, "acme", Chunk("c1", "It is open.", "d1"))
    (project.folder / "empty").mkdir()
    refused(run(*command.split()), *words)
    assert json.loads(run("status", "--json").out) == [], "what is refused leaves no client behind"


def test_a_broken_pdf_among_good_files_is_named_and_the_rest_loads(project: Project, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "good.md").write_text("# Ferries\n\nThe ferry leaves at nine from the old harbour.", encoding="utf-8")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing that a reader could use")
    ended = run("ingest", folder, "--client", "acme")
    assert ended.code == 4
    assert "refused: broken.pdf" in ended.err
    assert "acme: 1 document, 1 chunk added" in ended.out


@pytest.mark.parametrize(
    ("variable", "value", "word"),
    [
        ("EVALUATION_DEFAULT_K", "0", "whole number from 1 to 1000"),
        ("EVALUATION_SCHEDULE_CRON", "every night", "cron expression"),
        ("RAGEVAL_MAX_ERROR_SHARE", "2", "from 0 to 1"),
        ("EVALUATION_ENABLED", "perhaps", "true or false"),
    ],
)
def test_a_bad_setting_names_the_variable_and_what_it_takes(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, word: str
) -> None:
    monkeypatch.setenv(variable, value)
    refused(run("evaluate", "--client", "acme"), variable, word, repr(value))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("k = 'many'", "rageval.toml [clients.brink]: k takes"),
        ("thresholds = { 'retrieval.mmr' = 0.9 }", "thresholds: there is no metric 'retrieval.mmr'"),
    ],
)
def test_one_clients_wrong_settings_stop_no_other(project: Project, run: Run, wrong: str, said: str) -> None:
    for client in ("acme", "brink"):
        stock(project.settings, client, Chunk("c1", "It is open.", "d1"))
    Path("rageval.toml").write_text(f"[clients.brink]\n{wrong}\n", encoding="utf-8")
    ended = run("evaluate", "--all", "--system", "bm25", "--dry-run", "--json")
    assert [row["client"] for row in json.loads(ended.out)] == ["acme"]
    assert ended.code == 4
    assert f"brink: {said}" in ended.err
    refused(run("evaluate", "--client", "brink"), said)


@pytest.mark.parametrize("command", ["status", "runs list", "datasets list", "metrics list", "report", "config show"])
def test_an_unknown_client_is_refused_and_the_nearest_named(project: Project, run: Run, command: str) -> None:
    stock(project.settings, "acme", Chunk("c1", "It is open.", "d1"))
    ensure_client(project.database(), "acme")
    ended = run(*command.split(), "--client", "acmee")
    refused(ended, "there is no client 'acmee' (did you mean 'acme'?)")
    assert ended.out == ""


@pytest.mark.core
def test_from_documents_to_results_and_back(project: Project, run: Run, tmp_path: Path) -> None:
    german = "Der Turm wurde im Jahr 1801 errichtet. Besucher dürfen ihn täglich von zehn bis achtzehn Uhr betreten. "
    rows = [*documents("lighthouse"), {"id": "turm", "title": "Der Turm", "text": german * 5}]
    source = project.write("acme", rows)
    assert run("ingest", source, "--client", "acme").code == 0

    dry = run("evaluate", "--client", "acme", "--dry-run", "--json")
    assert json.loads(dry.out)[0]["questions"] == 8

    ended = run("evaluate", "--client", "acme")
    assert ended.code == 0, ended.err
    assert "metric_scores" in ended.err
    name, verdict, *figures = ended.out.splitlines()
    assert name == "acme / synthetic / dense (built-in reference), run 1, 8 questions"
    assert verdict.startswith("First run: hit rate@5 ")
    assert [line.split("  ")[1].strip() for line in figures[:5]] == [
        *("hit rate@5", "MRR", "answer correctness (overlap)", "answers or declines when it should", "precision@5"),
    ]
    assert "8 questions can miss a drop of any size: too few, or about too few documents." in figures
    assert "Next: name your own system in rageval.toml (docs/your-rag-system.md)" in figures
    assert "Next: read the questions that went worst: rageval runs show 1" in figures
    assert "Answers are from the built-in extractive answerer: a stand-in for your system." in figures
    assert len(figures) <= 11, ended.out
    assert "RAGEVAL_" not in ended.out, "no variable stands in a verdict"
    [report] = [line.removeprefix("Report: ") for line in figures if line.startswith("Report: ")]
    assert Path(report).exists()
    [warning] = [line for line in ended.err.splitlines() if "knows English alone" in line]
    assert project.settings.embedding_model in warning
    assert "German" in warning

    printed = json.loads(run("evaluate", "--client", "acme", "--json").out)
    assert set(printed["versions"]) == {"corpus", "index", "dataset", "system", "judge"}
    assert printed["metrics"]["retrieval.mrr"]["n_scored"] == 8

    [found] = rageval_dagster.evaluate("acme", systems=["dense"])
    same = ("versions", "metrics", "checks", "client", "dataset_id")
    assert {name: found[name] for name in same} == {name: printed[name] for name in same}
    with pytest.raises(RagevalError, match="has no client 'acne'"):
        rageval_dagster.evaluate("acne")

    [client] = json.loads(run("status", "--json").out)
    assert client["client_id"] == "acme"
    assert len(json.loads(run("runs", "list", "--json").out)) == 3
    brief, shown = run("runs", "show", "1").out, run("runs", "show", "1", "--all")
    assert brief.startswith(f"{name}\n{verdict}\n"), "what `evaluate` said"
    assert "rageval runs show 1 --all" in brief
    assert "retrieval.ndcg_at_10" not in brief
    assert "retrieval.ndcg_at_10" in shown.out
    [undefined] = [line for line in shown.out.splitlines() if line.startswith("undefined for every question: ")]
    assert "the question declares no checks (checks." in undefined
    [dataset] = json.loads(run("datasets", "list", "--json").out)
    assert json.loads(run("datasets", "show", dataset["id"], "--json").out)["items"][0]["evidence"][0]["quote"]

    exported = run("runs", "export", "1", "--out", tmp_path / "trec")
    assert exported.code == 0
    qrels, results = (Path(line) for line in exported.out.splitlines()[:2])
    assert len({line.split()[0] for line in qrels.read_text().splitlines()}) == 8
    assert results.exists()


def test_ingestion_counts_its_change_so_that_the_sensor_need_not_wait(
    project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGEVAL_SETTLE_S", "3600")
    source = project.write("acme", documents("lighthouse", count=3))
    assert run("ingest", source, "--client", "acme").code == 0
    with dg.DagsterInstance.get() as instance:
        assert [request.run_key for request in tick(instance).run_requests or []] == ["acme:1:1"]
    assert run("ingest", source, "--client", "acme").code == 0
    assert json.loads(run("status", "--json").out)[0]["pending_changes"] == 1


def test_an_ingestion_waits_for_who_works_on_its_client(project: Project, run: Run) -> None:
    source = project.write("acme", documents("lighthouse", count=3))
    assert run("ingest", source, "--client", "acme").code == 0
    db, said = project.database(), list[str]()
    lease = acquire_lease(db, "acme", "run 1")

    def tell(line: str) -> None:
        said.append(line)
        release_lease(db, lease)

    more = project.write("more", documents("harbour", count=2))
    report, _ = ingest(project.settings, db, "acme", more, tell=tell)
    assert report.added > 0
    [line] = said
    assert line.startswith("client 'acme'")
    assert "waiting for that to end" in line


def test_an_ingestion_names_the_documents_that_went_with_their_files(project: Project, run: Run) -> None:
    source = project.write("acme", documents("lighthouse", count=3))
    run("ingest", source, "--client", "acme")
    rows = source.read_text().splitlines(keepends=True)
    source.write_text("".join(rows[1:]))
    gone = json.loads(rows[0])["id"]
    assert f"1 document removed: {gone}\n" in run("ingest", source, "--client", "acme").out


def test_an_ingestion_counts_the_documents_that_other_folders_brought(project: Project, run: Run) -> None:
    for name in ("one", "two"):
        (project.folder / name).mkdir()
        (project.folder / name / f"{name}.md").write_text(f"# {name}\n\nSome words of {name}.\n", encoding="utf-8")
    assert "other folders" not in run("ingest", project.folder / "two", "--client", "acme").out
    told = run("ingest", project.folder / "one", "--client", "acme").out
    assert "0 removed\n1 document from other folders (or paths) stays: " in told
