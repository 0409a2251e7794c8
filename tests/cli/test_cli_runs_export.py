"""`rageval runs export` and `evaluate --fast`: what was recorded, handed over and scored again."""

import json
import stat
from pathlib import Path

import pytest

from tests.cli.running import Run, refused
from tests.pipeline.small_project import Project
from tests.storage.history_builder import row_counts


def test_an_evaluation_is_written_scored_again_and_equal(evaluated: Project, run: Run, tmp_path: Path) -> None:
    stored = json.loads(run("runs", "show", 1, "--json").out)["metrics"]
    out = tmp_path / "out"
    out.mkdir()
    for name in ("native", "ai4rag", "recorded", "ragas"):
        path = out / f"run1.{name}"
        command = ("runs", "export", 1, "--format", name, "--out", path)
        ended = run(*command)
        assert ended.code == 0, ended.err
        assert "8 questions written" in ended.out
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        refused(run(*command), "--force")
        assert run(*command, "--force").code == 0
        scored = json.loads(run("score", path, "--metrics", "lexical.*,embedding.*,overlap.faithfulness", "--json").out)
        assert scored["refused"] == []
        for metric_id, summary in scored["scores"].items():
            assert summary["mean"] == pytest.approx(stored[metric_id]["mean"], abs=1e-6), (name, metric_id)
            assert summary["n_scored"] == stored[metric_id]["n_scored"]

    folder = out / "tests"
    assert run("runs", "export", 1, "--format", "test-results", "--out", folder).code == 0
    truth = folder / "ground_truth.json"
    ended = run("score", folder / "test_results.json", "--ground-truth", truth, "--metrics", "lexical.*", "--json")
    assert json.loads(ended.out)["scores"]["lexical.token_f1"]["mean"] == pytest.approx(
        stored["lexical.token_f1"]["mean"]
    )

    results = out / "results.json"
    assert run("runs", "export", 1, "--format", "results", "--out", results).code == 0
    shape = json.loads(results.read_text(encoding="utf-8"))
    assert shape["scores"]["retrieval.mrr"]["mean"] == pytest.approx(stored["retrieval.mrr"]["mean"])
    assert len(shape["question_scores"]["retrieval.mrr"]) == 8


def test_trec_stays_what_it_was(evaluated: Project, run: Run, tmp_path: Path) -> None:
    ended = run("runs", "export", 1, "--out", tmp_path / "trec", "--level", "document")
    assert ended.code == 0
    assert sorted(path.name for path in (tmp_path / "trec").iterdir()) == ["run1.document.qrels", "run1.document.run"]
    refused(run("runs", "export", 1, "--format", "beir"), "--format", "ragas")
    refused(run("runs", "export", 7, "--format", "native"), "no evaluation 7")


def test_fast_scores_what_was_recorded_alone(evaluated: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = json.loads(run("runs", "show", 1, "--json").out)["metrics"]

    def nothing(*_: object, **__: object) -> object:
        raise AssertionError("the fast mode opens no store, loads no model and starts no run")

    for name in (
        "rageval_dagster.corpus.store.open_store",
        "rageval_dagster.embedding.models.load_embedder",
        "rageval_dagster.automation.launch.launch",
    ):
        monkeypatch.setattr(name, nothing)
    before = row_counts(evaluated.database())
    ended = run("evaluate", "--client", "acme", "--fast", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert "lexical.token_f1" in found["scores"]
    assert not any(metric_id.startswith(("retrieval.", "embedding.")) for metric_id in found["scores"])
    for metric_id, summary in found["scores"].items():
        assert summary["mean"] == pytest.approx(stored[metric_id]["mean"]), metric_id
        assert summary["n"] == stored[metric_id]["n"]
    assert "not written to the history" in ended.err
    assert row_counts(evaluated.database()) == before
    table = run("evaluate", "--client", "acme", "--fast")
    assert "lexical.token_f1" in table.out


def test_a_question_without_recorded_answer_is_an_error(evaluated: Project, run: Run) -> None:
    new = evaluated.folder / "new.jsonl"
    new.write_text('{"question": "Who keeps Avonlea?", "answers": ["Nobody."]}\n', encoding="utf-8")
    dataset = json.loads(run("datasets", "import", new, "--client", "acme", "--json").out)["dataset_id"]
    ended = run("evaluate", "--client", "acme", "--fast", "--dataset", dataset, "--json")
    assert ended.code == 2
    found = json.loads(ended.out)
    assert found["scores"]["lexical.token_f1"]["n_error"] == 1
    [outcome] = found["outcomes"]["lexical.token_f1"].values()
    assert outcome["reason"].startswith("not_recorded")
    assert "1 question not recorded" in ended.err
    both = run("evaluate", "--client", "acme", "--fast", "--json")
    assert both.code == 4
    assert len(both.out.splitlines()) == 2


def test_new_checks_are_scored_on_the_answers_there_are(evaluated: Project, run: Run) -> None:
    exported = evaluated.folder / "synthetic.jsonl"
    dataset = json.loads(run("datasets", "list", "--json").out)[0]["id"]
    assert run("datasets", "export", dataset, "--out", exported).code == 0
    rows = [json.loads(line) for line in exported.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["checks"] = [{"name": "its answer", "kind": "fact", "expect": row["answers"][0]}]
    exported.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    imported = json.loads(run("datasets", "import", exported, "--client", "acme", "--name", "checked", "--json").out)
    ended = run("evaluate", "--client", "acme", "--fast", "--dataset", imported["dataset_id"], "--json")
    assert json.loads(ended.out)["scores"]["checks.fact_score"]["n_scored"] == 8


def test_a_recorded_system_is_scored_from_its_file(evaluated: Project, run: Run) -> None:
    dataset = json.loads(run("datasets", "list", "--json").out)[0]["id"]
    items = json.loads(run("datasets", "show", dataset, "--json").out)["items"]
    said = [{"question": item["question"], "answer": item["answers"][0], "contexts": []} for item in items[1:]]
    Path("said.json").write_text(json.dumps(said), encoding="utf-8")
    Path("rageval.toml").write_text(
        '[clients.acme]\nsystem = "old"\n[clients.acme.systems.old]\nkind = "recorded"\nfile = "said.json"\n',
        encoding="utf-8",
    )
    ended = run("evaluate", "--client", "acme", "--fast", "--json")
    assert ended.code == 4
    found = json.loads(ended.out)["scores"]["lexical.exact_match"]
    assert (found["mean"], found["n_scored"], found["n_error"]) == (1.0, 7, 1)


def test_fast_goes_with_nothing_that_it_does_not_do(evaluated: Project, run: Run) -> None:
    refused(run("evaluate", "--client", "acme", "--fast", "--dry-run"), "--fast")
    refused(run("evaluate", "--client", "acme", "--fast", "--sample-size", "3"), "--fast")
    refused(run("evaluate", "--fast"), "--client NAME")
    refused(run("evaluate", "--client", "nobody", "--fast"), "nobody")
    refused(run("evaluate", "--client", "acme", "--fast", "--system", "no-system"), "no-system")
