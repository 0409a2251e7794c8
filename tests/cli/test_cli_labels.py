"""`rageval labels`: drawn, exported, filled in, imported, and what they make of the judge."""

import csv
import json
from pathlib import Path

import pytest

from rageval_dagster.benchmark.formats.table import write_table
from rageval_dagster.labels.answers import labelled_answers
from rageval_dagster.labels.files import COLUMNS
from rageval_dagster.records import Outcome
from rageval_dagster.storage.benchmark import get_dataset
from rageval_dagster.storage.evaluations import get_evaluation
from rageval_dagster.storage.labels import Label, save_labels
from rageval_dagster.storage.results import run_items
from rageval_dagster.storage.retention import delete_texts
from rageval_dagster.storage.scores import save_scores
from rageval_dagster.storage.types import utc_now
from rageval_dagster.storage.views import read_view
from tests.cli.running import Run, refused
from tests.llm.scripted_server import ScriptedServer
from tests.pipeline.small_project import Project
from tests.storage.history_builder import answer_all, finish, make_dataset, make_items, open_run, score_all, summary

FAITHFULNESS = "overlap.faithfulness"


@pytest.fixture
def evaluated(project: Project) -> Project:
    """A run of 100 answers, of which the judge likes four in five."""
    db, items = project.database(), make_items(100)
    evaluation = open_run(db, make_dataset(db, "acme", items), "first")
    outcomes = [Outcome.scored(float(number % 5 != 0)) for number in range(100)]
    score_all(db, evaluation, answer_all(db, evaluation, items), FAITHFULNESS, outcomes)
    finish(db, evaluation, {FAITHFULNESS: summary(FAITHFULNESS, 0.8, 100).mean})
    return project


def test_the_labelled_run_is_shown_after_another_night_too(evaluated: Project, run: Run) -> None:
    db, items = evaluated.database(), make_items(100)
    labelled = labelled_answers(db, get_evaluation(db, 1), FAITHFULNESS)
    save_labels(db, "acme", [Label(next(iter(labelled.judge)), FAITHFULNESS, "ann", 1.0)])
    night = open_run(db, get_dataset(db, get_evaluation(db, 1).dataset_id), "second")
    score_all(db, night, answer_all(db, night, items, "anew"), FAITHFULNESS, [Outcome.scored(1.0)] * 100)
    finish(db, night, {FAITHFULNESS: 1.0})
    assert run("labels", "show", "--client", "acme").out.startswith("run 1, ")
    assert json.loads(run("labels", "show", "--client", "acme", "--run", "2", "--json").out)["run_id"] == 2


def test_labels_from_the_queue_to_a_corrected_mean(evaluated: Project, run: Run, tmp_path: Path) -> None:
    refused(run("labels", "export", tmp_path / "l.csv", "--client", "acme"), "no answer was drawn yet")
    drawn = run("labels", "queue", "--client", "acme", "--size", "30")
    assert drawn.out.startswith(f"30 answers of run 1 wait for a label of {FAITHFULNESS}; 0 have one\n")
    assert json.loads(run("labels", "queue", "--client", "acme", "--size", "30", "--json").out)["labelled"] == 0
    empty = json.loads(run("labels", "show", "--client", "acme", "--json").out)
    assert (empty["mean"], empty["needed"], empty["waiting"]) == (None, 5, 30)
    told = f"not calibrated: label 5 more answers: rageval labels queue --client acme --metric {FAITHFULNESS}"
    assert told in run("labels", "show", "--client", "acme").out
    path = tmp_path / "labels.csv"
    assert run("labels", "export", path, "--client", "acme").out == f"30 rows written to {path}\n"
    assert path.stat().st_mode & 0o077 == 0
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows):
        row["value"] = "2" if number == 0 else str(number % 2)
    write_table(path, COLUMNS, rows)
    ended = run("labels", "import", path, "--client", "acme", "--person", "ann")
    assert ended.code == 4
    assert "refused: labels.csv, row 2, field value: takes a number from 0 to 1, or: cannot say" in ended.err
    assert ended.out == "29 labels stored, 0 rows without one\n"
    shown = run("labels", "show", "--client", "acme").out.splitlines()
    assert shown[0] == "run 1, faithfulness (overlap), 100 answers"
    assert shown[1] == "  the metric's mean  .80"  # no judge is asked for it
    assert shown[2].endswith(", 29 labels)")
    assert shown[3].strip().startswith("the metric overrates by .")
    assert shown[-1] == "  1 answer drawn and not labelled yet"
    # And wherever else the judge's mean stands.
    found = json.loads(run("labels", "show", "--client", "acme", "--json").out)
    corrected = json.loads(run("runs", "show", "1", "--json").out)["metrics"][FAITHFULNESS]["corrected"]
    assert (corrected["mean"], corrected["bias"], corrected["labels"]) == (found["mean"], found["bias"], 29)
    [line] = [line for line in run("runs", "show", "1").out.splitlines() if line.startswith("Faithfulness (overlap): ")]
    assert line.startswith("Faithfulness (overlap): corrected .")
    assert "29 labels); the metric overrates by ." in line
    assert "agrees with people on " in line
    [row] = [row for row in read_view(evaluated.database(), "metric_history") if row["metric_id"] == FAITHFULNESS]
    assert (row["corrected_mean"], row["labels"]) == (found["mean"], 29)
    assert row["judge_bias"] == pytest.approx(found["bias"])


def test_answers_that_were_deleted_take_no_label_and_leave_the_queue(
    evaluated: Project, run: Run, tmp_path: Path
) -> None:
    run("labels", "queue", "--client", "acme", "--size", "10")
    run("labels", "export", tmp_path / "before.csv", "--client", "acme")
    delete_texts(evaluated.database(), "acme", utc_now(), keep_baselines=False)
    drawn = run("labels", "queue", "--client", "acme", "--size", "10").out.splitlines()
    assert drawn[0].startswith("0 answers of run 1 wait for a label")
    assert drawn[1] == "10 answers of the queue lost their texts, and need no label any more"
    assert json.loads(run("labels", "queue", "--client", "acme", "--json").out)["deleted"] == 10
    refused(run("labels", "export", tmp_path / "after.csv", "--client", "acme"), "run 1 has lost its answers")
    with (tmp_path / "before.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = [{**row, "value": "1", "note": "it quotes the deed"} for row in csv.DictReader(file)]
    write_table(tmp_path / "before.csv", COLUMNS, rows)
    ended = run("labels", "import", tmp_path / "before.csv", "--client", "acme", "--person", "ann")
    assert (ended.code, ended.out) == (4, "0 labels stored, 0 rows without one\n")
    assert "field result_id: is an answer that was deleted: it can no longer be labelled" in ended.err


def test_a_judge_without_labels_is_not_calibrated(evaluated: Project, run: Run) -> None:
    db = evaluated.database()
    finish(db, get_evaluation(db, 1), {"judge.overall": 0.9, FAITHFULNESS: 0.8, "retrieval.mrr": 1.0})
    assert "Not calibrated: overall (judge)" in run("runs", "show", "1").out.splitlines()
    metrics = json.loads(run("runs", "show", "1", "--json").out)["metrics"]
    assert metrics["judge.overall"]["corrected"] is None
    assert "corrected" not in metrics["retrieval.mrr"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--client", "nobody"], ["nobody"]),
        (["--client", "acme", "--run", "7"], ["7"]),
        (["--client", "acme", "--metric", "judge.overall"], ["run 1 has no score for judge.overall", "--metric"]),
    ],
)
def test_what_is_not_there_is_named(evaluated: Project, run: Run, arguments: list[str], words: list[str]) -> None:
    refused(run("labels", "show", *arguments), *words)


def test_a_new_judge_is_measured_on_all_labels_before_it_replaces_the_old_one(
    evaluated: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = evaluated.database()
    evaluation = get_evaluation(db, 1)
    results = {row.item_id: row.result_id or "" for row in run_items(db, 1)}
    good = dict(zip(results.values(), (number % 4 != 0 for number in range(100)), strict=True))
    old = [(name, "judge.faithfulness", "old", Outcome.scored(1.0)) for name in results.values()]
    save_scores(db, evaluation.id, old)
    finish(db, evaluation, {"judge.faithfulness": 1.0})
    refused(
        run("labels", "judges", "--client", "acme", "--metric", "judge.faithfulness"), "nobody has labelled an answer"
    )
    labels = [Label(name, "judge.faithfulness", "ann", float(each)) for name, each in list(good.items())[:40]]
    save_labels(db, "acme", labels)
    refused(run("labels", "judges", "--client", "acme", "--score"), "no model judges judge.faithfulness")
    verdict = json.dumps({"reasoning": "so", "unsupported_claims": [], "score": 0.5})
    with ScriptedServer(lambda _: verdict) as server:
        monkeypatch.setenv("RAGEVAL_JUDGE_MODEL", "new-judge")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        forecast = json.loads(run("labels", "judges", "--client", "acme", "--dry-run", "--json").out)
        assert (forecast[0]["answers"], forecast[0]["judge calls"], server.requests) == (40, 40, [])
        found = json.loads(run("labels", "judges", "--client", "acme", "--score", "--json").out)
        assert len(server.requests) == 40
        table = run("labels", "judges", "--client", "acme").out
    assert (found["metric"], found["labelled"]) == ("judge.faithfulness", 40)
    by_models = {tuple(each["models"]): each for each in found["judges"]}
    assert by_models[()]["bias"] == pytest.approx(0.25)
    assert by_models[()]["agreement"] == pytest.approx(0.75)
    new = by_models["new-judge",]
    assert (new["answers"], new["bias"], new["is_current"]) == (40, pytest.approx(-0.25), True)
    assert [line.split()[0] for line in table.splitlines()[:3]] == ["judge", "new-judge", "not"]
