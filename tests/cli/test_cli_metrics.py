"""`rageval metrics`: what it lists, shows and says of agreement; and a metric of the user's own from end to end."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as sa

from rageval_dagster.definitions import defs
from tests.cli.running import Ended, Run, refused
from tests.metrics.metric_samples import DATA_DIR
from tests.pipeline.small_project import Project, documents

MODULE = """
from rageval_dagster.metrics.own import metric

@metric("acme.brevity", version="1", needs={"answer"}, description="Whether it is short.", good_value=1.0)
def brevity(results, tools):
    return [len(result.answer.text) < 5 for result in results]
"""

JUDGED = [
    {"question": f"Which number is {number}?", "gold_answers": [str(number)], "answer": answer, "label": label,
     "other_judges": {"guru": verdict}}
    for number in range(1, 13)
    for answer, label, verdict in [(f"It is {number}.", "good", "Yes"), ("It is 0.", "bad", "Yes")]
]  # fmt: skip


@pytest.fixture
def own(project: Project) -> Iterator[Project]:
    """A project with a metric beside its rageval.toml."""
    path = list(sys.path)
    (project.folder / "acme_metrics.py").write_text(MODULE, encoding="utf-8")
    (project.folder / "rageval.toml").write_text(
        '[defaults]\nmetrics = ["retrieval.mrr", "quality.*", "acme_metrics:brevity"]\n', encoding="utf-8"
    )
    yield project
    sys.path[:] = path
    sys.modules.pop("acme_metrics", None)


def agree(run: Run, rows: Sequence[Mapping[str, object]], *options: str) -> Ended:
    Path("judged.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return run("metrics", "agreement", "judged.jsonl", *options)


def test_the_list_says_which_metrics_run(own: Project, run: Run) -> None:
    rows = {row["metric"]: row for row in json.loads(run("metrics", "list", "--json").out)}
    assert rows["acme.brevity"]["runs"]
    assert rows["acme.brevity"]["good_value"] == 1.0
    assert rows["retrieval.mrr"]["runs"]
    assert not rows["lexical.token_f1"]["runs"]
    assert rows["embedding.answer_hallucination"]["better"] == "lower"
    table = run("metrics", "list").out
    assert table.splitlines()[0].split() == ["metric", "better", "good", "runs", "needs"]
    assert len(table.splitlines()) == len(rows) + 1


def test_a_clients_own_metrics_are_listed_for_it_alone(own: Project, run: Run) -> None:
    toml = own.folder / "rageval.toml"
    toml.write_text('[clients.acme]\nmetrics = ["acme_metrics:brevity"]\nk = 3\n', encoding="utf-8")
    everyone = [row["metric"] for row in json.loads(run("metrics", "list", "--json").out)]
    acme = [row["metric"] for row in json.loads(run("metrics", "list", "--client", "acme", "--json").out)]
    assert "acme.brevity" not in everyone
    assert acme[-1] == "acme.brevity"
    assert "retrieval.precision_at_3" in acme


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("retrieval.precision_at_k", "retrieval.precision_at_5"),
        ("retrieval.precision_at_8", "retrieval.precision_at_8"),
        ("retrieval.ndcg_at_10", "retrieval.ndcg_at_10"),
        ("acme.brevity", "acme.brevity"),
    ],
)
def test_a_metric_is_shown_at_any_cutoff(own: Project, run: Run, asked: str, found: str) -> None:
    ended = run("metrics", "show", asked)
    assert ended.code == 0
    assert ended.out.splitlines()[0] == found
    for word in ("range:", "good value:", "needs:", "source:", "version:"):
        assert word in ended.out
    assert json.loads(run("metrics", "show", asked, "--json").out)["metric"] == found


def test_an_unknown_metric_is_told_the_nearest(project: Project, run: Run) -> None:
    refused(run("metrics", "show", "retrieval.mmr"), "no metric 'retrieval.mmr'", "did you mean retrieval.mrr?")


def test_a_metric_that_cannot_be_loaded_is_refused(own: Project, run: Run) -> None:
    (own.folder / "rageval.toml").write_text('[defaults]\nmetrics = ["acme_metrics:absent"]\n', encoding="utf-8")
    refused(run("metrics", "list"), "metrics: acme_metrics:absent cannot be loaded")


def test_agreement_shows_metrics_judges_and_baselines(project: Project, run: Run) -> None:
    options = ("--positive", "good", "--metrics", "lexical.*_match")
    ended = agree(run, JUDGED, *options, "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["labels"] == {"good": 12, "bad": 12}
    assert (found["answers"], found["questions"], found["unlabelled"]) == (24, 12, 0)
    rows = {row["name"]: row for row in found["agreements"]}
    assert rows["lexical.answer_match"]["accuracy"]["mean"] == 1.0
    assert rows["lexical.answer_match"]["accuracy"]["low"] < 1.0
    assert rows["lexical.number_match"]["auroc"]["mean"] == 1.0
    assert rows["guru"]["kind"] == "judge"
    assert rows["guru"]["accuracy"]["mean"] == 0.5
    assert rows["guru"]["kappa"] == 0.0
    assert rows["a reference stands in the answer"]["accuracy"]["mean"] == 1.0
    assert rows["always the commoner label"]["accuracy"]["mean"] == 0.5
    table = agree(run, JUDGED, *options).out
    assert "judge guru" in table
    assert table.splitlines()[1].split()[0] in ("lexical.answer_match", "lexical.number_match", "a")


def test_a_threshold_is_given_or_says_where_it_comes_from(project: Project, run: Run) -> None:
    options = ("--positive", "good", "--metrics", "lexical.token_f1", "--json")
    held, given = agree(run, JUDGED, *options), agree(run, JUDGED, *options, "--threshold", "0.9")
    [row, *_] = json.loads(held.out)["agreements"]
    assert row["chosen"] == "cross-validated"
    assert 0.0 < row["threshold"] < 1.0
    [row, *_] = json.loads(given.out)["agreements"]
    assert (row["chosen"], row["threshold"], row["accuracy"]["mean"]) == ("given", 0.9, 0.5)


def test_what_is_not_scored_is_counted(project: Project, run: Run) -> None:
    rows = [*JUDGED, {"question": "Who?", "answer": "Me.", "label": "bad"}, {"question": "Who?", "answer": "I."}]
    options = ("--positive", "good", "--metrics", "lexical.token_f1,citation.accuracy", "--json")
    ended = agree(run, [{"label": None, **row} for row in rows], *options)
    found = json.loads(ended.out)
    row = next(row for row in found["agreements"] if row["name"] == "lexical.token_f1")
    assert (row["n_scored"], row["n_undefined"], row["n_error"]) == (24, 1, 0)
    assert found["unlabelled"] == 1
    judge = next(row for row in found["agreements"] if row["name"] == "guru")
    assert (judge["n_scored"], judge["n_undefined"]) == (24, 1)
    assert "nothing scored, so nothing to agree: citation.accuracy" in ended.err


def test_graded_labels_have_rank_correlations(project: Project, run: Run) -> None:
    rows = [
        {"question": f"Q{grade}?", "gold_answers": ["one two three"], "answer": " ".join(words), "label": grade}
        for grade, words in enumerate([["ten"], ["one"], ["one", "two"], ["one", "two", "three"]], start=1)
    ]
    options = ("--metrics", "lexical.token_f1")
    [row] = json.loads(agree(run, rows, *options, "--json").out)["agreements"]
    assert (row["spearman"], row["kendall"], row["accuracy"]) == (1.0, 1.0, None)
    assert "Spearman" in agree(run, rows, *options).out
    both = json.loads(agree(run, rows, *options, "--positive", "4", "--json").out)["agreements"][0]
    assert both["spearman"] == 1.0
    assert both["auroc"]["mean"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["--positive", "'good' (12)", "'bad' (12)"]),
        (("--positive", "right"), ["'right' is none of the labels", "'good' (12)"]),
        (("--positive", "good", "--metrics", "lexical.token_f2"), ["did you mean lexical.token_f1"]),
        (("--positive", "good", "--format", "xml"), ["'xml'", "judged"]),
    ],
)
def test_bad_usage_is_one_clear_line(project: Project, run: Run, arguments: tuple[str, ...], words: list[str]) -> None:
    refused(agree(run, JUDGED, *arguments), *words)


def test_a_file_may_call_its_fields_otherwise(project: Project, run: Run) -> None:
    rows = [{("said" if name == "answer" else name): value for name, value in row.items()} for row in JUDGED]
    arguments = ("--positive", "good", "--metrics", "lexical.answer_match", "--map", "answer=said")
    ended = agree(run, rows, *arguments, "--json")
    assert json.loads(ended.out)["agreements"][0]["accuracy"]["mean"] == 1.0


def test_a_file_without_labels_has_nothing_to_agree_with(project: Project, run: Run) -> None:
    options = ("--positive", "good", "--metrics", "lexical.token_f1")
    refused(agree(run, [{"question": "Who?", "answer": "I.", "label": None}], *options), "no answer has a label")
    ended = agree(run, [{"question": "Who?", "label": "good"}], *options)
    assert ended.code == 2
    assert "row 1, field answer: is missing" in ended.err


def test_keyless_correctness_agrees_with_people(project: Project, run: Run) -> None:
    path = DATA_DIR / "nq301" / "judged.jsonl"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    ended = run("metrics", "agreement", path, "--positive", "correct", "--metrics", "lexical.answer_match", "--json")
    rows = {row["name"]: row for row in json.loads(ended.out)["agreements"]}
    assert rows["lexical.answer_match"]["accuracy"]["mean"] >= 0.80
    published = {
        "BEM": 0.805,
        "a reference stands in the answer": 0.750,
        "a reference equals the answer": 0.654,
        "always the commoner label": 0.548,
    }
    assert {name: round(rows[name]["accuracy"]["mean"], 3) for name in published} == pytest.approx(published, abs=0.001)


@pytest.mark.slow
def test_an_own_metric_is_everywhere(own: Project, run: Run) -> None:
    own.ingest("acme", documents("lighthouse", count=2))
    ended = run("evaluate", "--client", "acme", "--json")
    assert ended.code == 0, ended.err
    evaluated = json.loads(ended.out)
    mine = evaluated["metrics"]["acme.brevity"]
    assert mine["n"] == mine["n_scored"] > 0
    assert mine["mean"] == 0.0
    assert "retrieval.mrr" in evaluated["metrics"]
    assert not any(name.startswith("lexical.") for name in evaluated["metrics"])
    [checked] = [check for check in evaluated["checks"] if check["name"] == "good_values"]
    assert "acme.brevity 0.000 (good: 1.000)" in json.dumps(checked)
    assert "acme.brevity" in run("runs", "show", str(evaluated["run_id"]), "--all").out
    with own.database().begin() as connection:
        statement = sa.text("SELECT client_id, mean FROM metric_history WHERE metric_id = 'acme.brevity'")
        assert [tuple(row) for row in connection.execute(statement)] == [("acme", 0.0)]
    assert plotted()["synthetic/acme.brevity"] == 0.0


def plotted() -> dict[str, object]:
    """What the Dagster UI plots of the newest materializations."""
    with dg.DagsterInstance.get() as instance:
        keys = [asset.key for asset in defs.resolve_asset_graph().asset_nodes]
        events = filter(None, map(instance.get_latest_materialization_event, keys))
        made = [event.asset_materialization for event in events]
    return {name: value.value for each in made if each is not None for name, value in each.metadata.items()}
