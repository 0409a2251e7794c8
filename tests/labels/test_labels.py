"""People label a few answers: which they are asked about, what their labels make of the judge, and what is kept."""

import csv
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from rageval_dagster.benchmark.formats.table import write_table
from rageval_dagster.errors import RagevalError
from rageval_dagster.labels.answers import LabelledAnswers, labelled_answers
from rageval_dagster.labels.estimates import difference, estimate
from rageval_dagster.labels.files import COLUMNS, read_labels, write_labels
from rageval_dagster.labels.meaning import what_is_good
from rageval_dagster.labels.queue import draw
from rageval_dagster.records import Item, Outcome
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, get_evaluation
from rageval_dagster.storage.labels import Label, save_labels
from tests.storage.history_builder import (
    answer_key,
    finish,
    make_dataset,
    make_items,
    open_run,
    result_of,
    retrieval_key,
    retrieval_of,
    summary,
)

FAITHFULNESS = "overlap.faithfulness"
ITEMS = make_items(200)


def answered(
    db: Database, dataset: Dataset, trigger: str, scores: Sequence[float], changed: Sequence[int] = ()
) -> Evaluation:
    """A complete evaluation with these scores of the judge; the answers in `changed` are new ones."""
    evaluation = open_run(db, dataset, trigger)
    retrievals = [retrieval_of(item) for item in ITEMS]
    result_storage.save_retrievals(
        db, evaluation.id, [(each, retrieval_key(evaluation, each.item_id)) for each in retrievals]
    )
    results = [
        result_of(each, f"answer {trigger}" if number in changed else "an answer")
        for number, each in enumerate(retrievals)
    ]
    result_storage.save_results(db, evaluation.id, [(each, answer_key(evaluation, each.item_id)) for each in results])
    outcomes = [
        (each.result_id, FAITHFULNESS, trigger, Outcome.scored(score))
        for each, score in zip(results, scores, strict=True)
    ]
    score_storage.save_scores(db, evaluation.id, outcomes)
    finish(db, evaluation, {})
    mean = sum(scores) / len(scores)
    score_storage.save_summaries(db, evaluation.id, [summary(FAITHFULNESS, mean, len(scores), version=trigger)])
    return get_evaluation(db, evaluation.id)


def truth_of(items: Sequence[Item], rate: float = 0.7) -> dict[str, float]:
    """What people would say of the answer to each question."""
    said = random.Random(7)
    return {item.item_id: float(said.random() < rate) for item in items}


def judged(truth: dict[str, float], right: float = 0.9, seed: int = 1) -> list[float]:
    said = random.Random(seed)
    return [value if said.random() < right else 1.0 - value for value in truth.values()]


def label_all(db: Database, answers: LabelledAnswers, truth: dict[str, float], person: str = "ann") -> None:
    """A person labels what waits."""
    labels = [Label(each, FAITHFULNESS, person, truth[answers.items[each]]) for each in answers.waiting]
    save_labels(db, "acme", labels)


def test_sixty_labels_correct_the_judge_and_last_from_night_to_night(db: Database) -> None:
    dataset, truth = make_dataset(db, "acme", ITEMS), truth_of(ITEMS)
    first = answered(db, dataset, "n1", judged(truth))
    assert estimate(labelled_answers(db, first)).corrected.mean is None
    answers = draw(db, first, size=60)
    assert len(answers.waiting) == 60
    assert draw(db, first, size=60).waiting == answers.waiting
    label_all(db, answers, truth)
    found = estimate(labelled_answers(db, first))
    corrected, level = found.corrected, sum(truth.values()) / len(truth)
    assert corrected.labels == 60
    assert corrected.low is not None
    assert corrected.high is not None
    assert corrected.low <= level <= corrected.high
    assert (corrected.gain or 0.0) > 1.2
    assert 0.75 < (found.agreement or 0.0) <= 1.0
    # The next night most answers are the same: their labels hold, and the few new ones widen the interval.
    second = answered(db, dataset, "n2", judged(truth, seed=2), changed=range(10))
    kept = estimate(labelled_answers(db, second)).corrected
    assert kept.labels >= 55
    assert kept.low is not None
    assert kept.high is not None
    assert kept.low <= level <= kept.high
    assert kept.high - kept.low > 0.05
    # Where too many are new, nothing is said of all.
    third = answered(db, dataset, "n3", judged(truth, seed=3), changed=range(60))
    assert estimate(labelled_answers(db, third)).corrected.lacking == "1 group of similar answers has no label yet"
    anew = draw(db, third, size=30)
    new = {anew.items[each] for each in anew.waiting} & {item.item_id for item in ITEMS[:60]}
    assert len(new) >= 3
    label_all(db, anew, truth)
    assert estimate(labelled_answers(db, third)).corrected.mean is not None


def test_a_judge_that_drifts_changes_nothing_that_people_said(db: Database) -> None:
    dataset, truth = make_dataset(db, "acme", ITEMS), truth_of(ITEMS)
    scores = judged(truth)
    first = answered(db, dataset, "n1", scores)
    label_all(db, draw(db, first), truth)
    hard = random.Random(5)
    second = answered(db, dataset, "n2", [score * float(hard.random() > 0.15) for score in scores])
    moved = difference(labelled_answers(db, first), labelled_answers(db, second))
    assert moved.judge < -0.05
    assert moved.mean == pytest.approx(0.0, abs=1e-9)
    assert moved.bias == pytest.approx(moved.judge)


def test_answers_that_got_worse_count_where_both_were_labelled(db: Database) -> None:
    dataset, truth = make_dataset(db, "acme", ITEMS), truth_of(ITEMS, rate=0.9)
    first = answered(db, dataset, "n1", judged(truth))
    label_all(db, draw(db, first, size=100), truth)
    worse = {item_id: 0.0 if number < 80 else value for number, (item_id, value) in enumerate(truth.items())}
    second = answered(db, dataset, "n2", judged(worse, seed=2), changed=range(80))
    before = labelled_answers(db, first)
    assert difference(before, labelled_answers(db, second)).mean is None
    label_all(db, draw(db, second, size=60), worse, "bob")
    found = difference(before, labelled_answers(db, second))
    fell = (sum(worse.values()) - sum(truth.values())) / len(truth)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= fell <= found.high < 0.0


def test_labels_that_nobody_drew_correct_nothing(db: Database) -> None:
    dataset, truth = make_dataset(db, "acme", ITEMS), truth_of(ITEMS)
    answers = labelled_answers(db, answered(db, dataset, "n1", judged(truth)))
    best = [name for name, item_id in answers.items.items() if truth[item_id]][:50]
    save_labels(db, "acme", [Label(name, FAITHFULNESS, "ann", 1.0) for name in best])
    found = estimate(labelled_answers(db, answers.evaluation))
    assert found.corrected.mean is None
    assert found.agreement is not None


@pytest.mark.parametrize("name", ["labels.csv", "labels.jsonl"])
def test_labels_go_out_and_come_back_in_a_file(db: Database, tmp_path: Path, name: str) -> None:
    dataset, truth = make_dataset(db, "acme", ITEMS), truth_of(ITEMS)
    answers = draw(db, answered(db, dataset, "n1", judged(truth)), size=20)
    path = tmp_path / name
    assert write_labels(db, answers, path) == 20
    if name.endswith(".csv"):
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    else:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert all(row["question"].startswith("question ") and row["answer"] == "an answer" for row in rows)
    assert all("text" in str(row["contexts"]) for row in rows)
    assert "score" not in rows[0]
    assert {row["good"] for row in rows} == {what_is_good(FAITHFULNESS)}
    if name.endswith(".csv"):  # for people to read
        assert re.match(r"\[1\]  text .+\n\n\[2\]  text ", rows[0]["contexts"])
    rows = [{**row, "value": str(truth[answers.items[row["result_id"]]])} for row in rows]
    rows[0]["value"], rows[0]["note"] = "cannot say", "cut off"
    rows[1]["value"] = ""
    rows[2]["value"] = "1.5"
    rows[3]["result_id"] = "0" * 64
    rows[4]["person"] = "bob"
    rows[6]["person"] = "ann "
    rows[7]["person"] = "\x1b[31mann"
    rows[5]["metric"] = "overlap.faithfullness" * 20
    if name.endswith(".csv"):
        write_table(path, COLUMNS, rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for _ in range(2):  # again: the same
        found = read_labels(db, "acme", path, "ann")
        assert (found.saved, found.blank) == (15, 1)
        assert [(each.field, each.reason) for each in found.refused] == [
            ("value", "takes a number from 0 to 1, or: cannot say"),
            ("result_id", "is not an answer of this client"),
            ("metric", "is not one that this client's answers were scored by"),
            ("person", "has a control character"),
        ]
    after = labelled_answers(db, answers.evaluation)
    assert len(after.values) == 14
    assert len(after.waiting) == 5
    assert {label.person for labels in after.labels.values() for label in labels} == {"ann", "bob"}
    assert estimate(after).unsure == 1
    anonymous = read_labels(db, "acme", path)
    assert anonymous.refused[0].reason == "is missing: say who labelled with --person"
    assert anonymous.saved == 2


def test_two_people_who_labelled_the_same_answers_are_held_against_each_other(db: Database) -> None:
    dataset, truth = make_dataset(db, "acme", ITEMS), truth_of(ITEMS)
    answers = draw(db, answered(db, dataset, "n1", judged(truth)), size=40)
    label_all(db, answers, truth)
    twice = [
        Label(each, FAITHFULNESS, "bob", truth[answers.items[each]] if place % 4 else 0.0)
        for place, each in enumerate(answers.waiting[:20])
    ]
    save_labels(db, "acme", twice)
    found = estimate(labelled_answers(db, answers.evaluation))
    assert found.people == ("ann", "bob")
    assert 0.2 < (found.between or 0.0) < 1.0


def test_a_metric_that_cannot_be_labelled_is_named(db: Database) -> None:
    evaluation = answered(db, make_dataset(db, "acme", ITEMS), "n1", [1.0] * 200)
    with pytest.raises(RagevalError, match=rf"run {evaluation.id} has no score for judge\.overall: name a metric"):
        labelled_answers(db, evaluation, "judge.overall")
