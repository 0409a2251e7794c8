"""`rageval runs show`: an evaluation's categories, documents and questions, worst first."""

import json
import re
from dataclasses import replace

import pytest

from rageval_dagster.records import Evidence, Item, Outcome
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from tests.cli.running import Run, refused
from tests.pipeline.small_project import Project
from tests.storage.history_builder import MRR, answer_all, finish, make_dataset, open_run, score_all, summary

F1 = "lexical.f1"


def item(number: int, category: str, *documents: str) -> Item:
    evidence = tuple(Evidence(document) for document in documents)
    return Item(f"Question {number}?", ("yes",), evidence, category, answerable=bool(documents))


ITEMS = [
    item(1, "factual_lookup", "a"),
    item(2, "factual_lookup", "a"),
    item(3, "temporal", "b"),
    item(4, "multi_hop", "a", "b"),
    item(5, "off topic"),
]


@pytest.fixture
def evaluated(project: Project) -> Project:
    db = project.database()
    evaluation = open_run(db, make_dataset(db, "acme", ITEMS), "first", system="assistant", declared=None)
    results = answer_all(db, evaluation, ITEMS)
    outcomes = [*map(Outcome.scored, (1.0, 0.5, 0.2, 0.4)), Outcome.undefined("the question is unanswerable")]
    score_all(db, evaluation, results, MRR, outcomes)
    score_all(db, evaluation, results, F1, [*outcomes[:2], Outcome.error("timeout"), *outcomes[3:]])
    finish(db, evaluation, {MRR: 0.525, F1: 0.4}, unknown=3)
    return project


def table(printed: str) -> list[list[str]]:
    lines = printed.split("\n\n", maxsplit=1)[0].splitlines()
    return [re.split("  +", line.strip()) for line in lines]


def test_categories_worst_first_with_their_counts(evaluated: Project, run: Run) -> None:
    ended = run("runs", "show", 1, "--by", "category")
    assert ended.code == 0, ended.err
    header, *rows = table(ended.out)
    assert header == ["category", "metric", "mean", "low", "high", "n", "scored", "undefined", "errors"]
    assert [(row[0], row[2], row[5], row[6], row[7]) for row in rows] == [
        ("temporal", "0.200", "1", "1", "0"),
        ("multi_hop", "0.400", "1", "1", "0"),
        ("factual_lookup", "0.750", "2", "2", "0"),
        ("off topic", "-", "1", "0", "1"),
    ]
    assert {row[1] for row in rows} == {MRR}


def test_a_question_counts_in_each_of_its_documents_and_one_without_in_none(evaluated: Project, run: Run) -> None:
    ended = run("runs", "show", 1, "--by", "document")
    _, *rows = table(ended.out)
    assert [(row[0], row[2], row[5]) for row in rows] == [("b", "0.300", "2"), ("a", "0.633", "3")]
    assert "1 question without a document" in ended.out


def test_what_is_hard_for_every_system_is_told_where_there_are_two(evaluated: Project, run: Run) -> None:
    assert "No system has" not in run("runs", "show", 1).out
    assert json.loads(run("runs", "show", 1, "--json").out)["hard_for_every_system"] == []
    db = evaluated.database()
    other = open_run(db, make_dataset(db, "acme", ITEMS), "second", system="dense")
    outcomes = [*map(Outcome.scored, (0.0, 1.0, 0.5, 0.25)), Outcome.undefined("the question is unanswerable")]
    score_all(db, other, answer_all(db, other, ITEMS, salt="dense"), MRR, outcomes)
    finish(db, other, {MRR: 0.4})
    hard = [ITEMS[3].item_id, ITEMS[2].item_id]
    for number in (1, 2):
        assert f"in the first place, hardest first: {', '.join(hard)}\n" in run("runs", "show", number).out
        printed = json.loads(run("runs", "show", number, "--json").out)["hard_for_every_system"]
        assert [(row["item_id"], row["systems"], row["best_reciprocal_rank"]) for row in printed] == [
            (hard[0], 2, 0.4),
            (hard[1], 2, 0.5),
        ]


def test_as_json_inside_the_run(evaluated: Project, run: Run) -> None:
    options = ("--metric", "lexical.*", "--metric", MRR, "--json")
    printed = json.loads(run("runs", "show", 1, "--by", "category", *options).out)
    assert printed["metrics"][MRR]["mean"] == 0.525
    found = printed["breakdown"]
    assert (found["by"], found["ungrouped"]) == ("category", 0)
    assert [group["group"] for group in found["groups"]] == ["temporal", "multi_hop", "factual_lookup", "off topic"]
    temporal = found["groups"][0]["metrics"]
    assert list(temporal) == [F1, MRR]
    assert temporal[F1] == {
        **dict.fromkeys(("mean", "ci_low", "ci_high")),
        **{"n": 1, "n_scored": 0, "n_undefined": 0, "n_error": 1},
    }, "a group with nothing but errors comes first"
    assert "breakdown" not in json.loads(run("runs", "show", 1, "--json").out)


def test_what_cannot_be_shown_is_refused(evaluated: Project, run: Run) -> None:
    refused(run("runs", "show", 1, "--by", "colour"), "category or document", "'colour'")
    refused(run("runs", "show", 1, "--by", "category", "--metric", "lexical.g1"), "'lexical.g1'", "runs show 1")
    refused(run("runs", "show", 1, "--metric", MRR), "--by")


def test_chunks_that_the_store_does_not_have_are_said(evaluated: Project, run: Run) -> None:
    assert "assistant returned 3 chunks that the document store does not have" in run("runs", "show", 1).out
    checks = json.loads(run("runs", "show", 1, "--json").out)["checks"]
    assert {"name": "no_unknown_chunks", "passed": False, "chunks": 3} in checks


def test_where_lower_is_better_the_highest_is_worst(evaluated: Project, run: Run) -> None:
    db = evaluated.database()
    [stored] = [each for each in score_storage.load_summaries(db, 1) if each.metric_id == MRR]
    score_storage.save_summaries(db, 1, [replace(stored, higher_is_better=False)])
    _, *rows = table(run("runs", "show", 1, "--by", "category").out)
    assert [row[0] for row in rows] == ["factual_lookup", "multi_hop", "temporal", "off topic"]


def test_what_a_judge_found_of_a_question_is_shown(evaluated: Project, run: Run) -> None:
    db = evaluated.database()
    details = {
        "claims.answer_relevancy": {"questions": [{"question": "Is it so?", "cosine": 0.0}]},
        "claims.context_recall": {"statements": [{"statement": "It is.", "supported": False, "reason": "nowhere"}]},
        "citation.accuracy_judged": {
            "verdicts": [
                {"sentence": 2, "contexts": [1, 3], "verdict": "unsupported", "reason": "says otherwise"},
                {"sentence": None, "contexts": [], "verdict": "not_retrieved"},
                {"sentence": 3, "contexts": [1], "verdict": "correct", "reason": "says so"},
            ]
        },
        "judge.faithfulness": {"reasoning": "Half of it.", "unsupported_claims": ["one", "two"]},
    }
    results = result_storage.load_results(db, 1).values()
    for metric_id, detail in details.items():
        rows = [(result_id, metric_id, "1", Outcome.scored(0.5, detail)) for result_id, _ in results]
        score_storage.save_scores(db, 1, rows)
    score_storage.save_summaries(db, 1, [summary(metric_id, 0.5) for metric_id in (MRR, *details)])
    ended = run("runs", "show", 1, "--worst", 1)
    assert ended.code == 0, ended.err
    said = ended.out.partition("Q: Question 3?")[2].splitlines()
    assert [line for line in said if line.startswith(("  c", "  j", "    -"))] == [
        "  citation.accuracy_judged 0.500",
        "    - unsupported: sentence 2, citing 1, 3 (says otherwise)",
        "    - not retrieved: the whole answer",
        "  claims.answer_relevancy 0.500",
        "  claims.context_recall 0.500",
        "    - not supported: It is. (nowhere)",
        "  judge.faithfulness 0.500  Half of it.",
        "    - one",
        "    - two",
    ]


def test_one_question_is_shown_without_the_table_of_metrics(evaluated: Project, run: Run) -> None:
    shown = run("runs", "show", 1, "--question", ITEMS[2].item_id)
    assert shown.code == 0, shown.err
    said = shown.out.strip().splitlines()
    assert said[0].startswith("A passage with *")
    assert said[2].startswith(ITEMS[2].item_id)
    assert "Question 3?" in shown.out
    assert not [line for line in shown.out.splitlines() if line.startswith(("metric ", MRR))]
    refused(run("runs", "show", 1, "--question", "nowhere"), "run 1 has no question 'nowhere'")


def test_a_dataset_that_is_no_number_is_refused_with_where_the_numbers_are(evaluated: Project, run: Run) -> None:
    for arguments in (
        ("evaluate", "--client", "acme", "--dataset", "foo"),
        ("runs", "list", "--dataset", "foo"),
        ("datasets", "show", "foo"),
    ):
        refused(run(*arguments), "named by its number, not 'foo'", "`rageval datasets list` shows them")
    assert run("runs", "list", "--dataset", 1).code == 0
