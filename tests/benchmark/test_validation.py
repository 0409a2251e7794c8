"""Validation: what is rejected, what Great Expectations confirms, and what may be evaluated."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rageval_dagster.benchmark.formats import read_dataset
from rageval_dagster.benchmark.rules import RULES
from rageval_dagster.benchmark.validation import require_valid, validate, validate_items
from rageval_dagster.errors import UnvalidatedBenchmarkError
from rageval_dagster.records import Candidate, Chunk, Evidence, Item
from rageval_dagster.storage.benchmark import save_dataset
from rageval_dagster.storage.database import Database

SHIPS = Chunk(
    "1", "The Fram was built in 1892 by Colin Archer. The Maud was built in 1916 by Christian Jensen.", "ships.md"
)
TOWNS = Chunk("2", "Larvik got town rights in 1671 from Frederick III. Vardø got town rights in 1789.", "towns.md")
TEXTS = {chunk.content_key: chunk.text for chunk in (SHIPS, TOWNS)}


def candidate(chunk: Chunk, attempt: int, question: str, answer: str, category: str = "factual_lookup") -> Candidate:
    quote = next(sentence for sentence in chunk.text.split(". ") if answer.split(maxsplit=1)[0] in sentence)
    item = Item(question, (answer,), (Evidence(chunk.document_id, quote=quote),), category, origin="llm")
    return Candidate(chunk.content_key, "test/1", attempt, "new", item)


GOOD = [
    candidate(SHIPS, 0, "Who designed and built the polar ship Fram?", "Colin Archer", "entity_specific"),
    candidate(SHIPS, 1, "In what year did the Maud leave the shipyard?", "1916", "temporal"),
    candidate(TOWNS, 0, "Which king made Larvik a town?", "Frederick III", "entity_specific"),
]


def failing(report) -> set[str]:
    return {result.rule_id for result in report.rule_results if not result.success}


def test_good_pairs_make_a_valid_benchmark() -> None:
    report = validate(GOOD, TEXTS)
    assert [accepted.candidate_id for accepted in report.accepted] == [good.candidate_id for good in GOOD]
    assert all(accepted.status == "accepted" and accepted.reasons == () for accepted in report.accepted)
    assert report.items == [good.item for good in GOOD]
    assert report.valid
    assert [result.rule_id for result in report.rule_results] == [rule.id for rule in RULES]
    assert report.rule_failures == {"categories_covered": 2}  # a warning: no factual_lookup, no multi_hop


def test_bad_pairs_are_rejected_with_all_their_reasons() -> None:
    bad = candidate(TOWNS, 1, "Was it Frederick III, according to the text?", "Frederick III")
    report = validate([*GOOD, bad], TEXTS)
    assert [rejected.candidate_id for rejected in report.rejected] == [bad.candidate_id]
    assert report.rejected[0].status == "rejected"
    assert {reason.split(" ")[0] for reason in report.rejected[0].reasons} == {
        "question_not_yes_no",
        "question_self_contained",
        "question_keeps_answer",
    }
    assert report.rejections["question_not_yes_no"] == 1
    [result] = [result for result in report.rule_results if result.rule_id == "question_not_yes_no"]
    assert result.success  # of what is left in the benchmark
    assert result.rejected_ids == (bad.candidate_id,)
    assert (result.checked, result.share) == (4, 0.25)


def test_repeated_questions_are_rejected_and_the_first_stays() -> None:
    again = replace(GOOD[0], attempt=7)
    rephrased = candidate(SHIPS, 8, "Who designed and who built the polar ship Fram?", "Colin Archer")
    report = validate([*GOOD, again, rephrased], TEXTS)
    assert {rejected.attempt: rejected.reasons for rejected in report.rejected} == {
        7: (f"question_unique (repeats {GOOD[0].candidate_id})",),
        8: (f"question_no_near_duplicate (of {GOOD[0].candidate_id})",),
    }


def test_failed_and_retired_candidates_are_left_alone() -> None:
    failed = Candidate("k", "test/1", 0, "failed", reasons=("no_question",))
    retired = replace(GOOD[0], status="retired", reasons=("gone",))
    report = validate([failed, retired, *GOOD[1:]], TEXTS)
    assert [accepted.candidate_id for accepted in report.accepted] == [good.candidate_id for good in GOOD[1:]]
    assert report.rejected == []


def test_pairs_that_stay_are_not_judged_by_the_chunks_around_them() -> None:
    assert GOOD[0].item is not None
    beyond = replace(GOOD[0], attempt=5, item=replace(GOOD[0].item, answers=("Christian Jensen",)))
    report = validate([beyond, *GOOD[1:]], {}, staying={beyond.candidate_id, GOOD[1].candidate_id})
    assert [accepted.attempt for accepted in report.accepted] == [5, 1]
    assert report.valid
    # What has nothing to do with the chunk is judged as ever.
    again = replace(GOOD[0], attempt=6)
    report = validate([GOOD[0], again], {}, staying={GOOD[0].candidate_id, again.candidate_id})
    assert [rejected.attempt for rejected in report.rejected] == [6]


def test_an_empty_benchmark_is_not_valid() -> None:
    for report in (validate([], TEXTS), validate([replace(GOOD[0], chunk_key="gone")], TEXTS), validate_items([])):
        assert not report.valid
        assert "benchmark_not_empty" in report.rule_failures
    poor = validate([GOOD[0], *(replace(good, chunk_key="gone") for good in GOOD[1:])], TEXTS)
    assert poor.valid, "that much was rejected is a warning"
    assert "rejected_share" in poor.rule_failures


def test_an_imported_benchmark_loses_nothing_and_offenders_are_flagged() -> None:
    items = [
        Item("Who built the Fram?", ("Colin Archer",), (Evidence("ships.md", quote="by Colin Archer"),)),
        Item("Is the Fram a ship?", ("Yes",)),
        Item("who built the fram", ("Christian Jensen",), (Evidence("ships.md", quote="by Colin Archer"),), "our own"),
    ]
    report = validate_items(items)
    assert report.items == items
    assert report.valid
    assert report.flagged == {
        items[0].item_id: ("question_unique",),
        items[1].item_id: ("question_not_yes_no",),
        items[2].item_id: ("question_unique", "answer_grounded"),
    }
    assert not any(result.blocking and not result.success for result in report.rule_results)


def test_great_expectations_agrees_with_the_rules_about_every_offence() -> None:
    """Nothing is taken out of an imported set, so Great Expectations itself has to find what the columns say."""
    noise = ["...", "What?", "Is it so?", "What does the text above say?", "Who " + "very " * 70 + "often sails?"]
    items = [Item(question, ("Larvik", "--"), (Evidence("t", quote="Vardø 1789"),)) for question in noise]
    items += [replace(items[0], question=" "), Item("Which two towns?", ("Vardø",), (Evidence("t"),), "multi_hop")]
    report = validate_items(items)
    assert failing(report) == {
        "question_present",
        "question_length",
        "question_not_yes_no",
        "question_self_contained",
        "answer_grounded",
        "multi_hop_evidence",
        "no_noise",
    }
    assert not report.valid  # a question is missing


def test_an_unvalidated_benchmark_is_refused(sqlite_db: Database) -> None:
    failures = {"benchmark_not_empty": 1, "rejected_share": 1}
    dataset = save_dataset(sqlite_db, "acme", "synthetic", "generated", [], "test", None, False, failures, {})
    with pytest.raises(UnvalidatedBenchmarkError, match=r"dataset \d+ .* benchmark_not_empty \(1\); generate"):
        require_valid(dataset)
    require_valid(replace(dataset, valid=True))


def test_the_human_set_is_valid_and_little_of_it_is_flagged() -> None:
    root = Path(__file__).parents[2]
    folder = root / os.environ.get("RAGEVAL_DATA_DIR", "../shared/data") / "xquad_en"
    if not folder.exists():
        pytest.skip(f"no data at {folder}")
    items = read_dataset(folder, "beir").items
    report = validate_items(items)
    assert report.valid
    assert len(report.items) == len(items)
    assert len(report.flagged) < 0.04 * len(items)


def test_nothing_heavy_is_imported_before_validation_and_no_text_reaches_its_output(tmp_path: Path) -> None:
    program = """
import json, sys
import rageval_dagster.benchmark.rules, rageval_dagster.benchmark.validation as validation
heavy = [name for name in ("great_expectations", "pandas", "numpy", "torch") if name in sys.modules]
from rageval_dagster.records import Evidence, Item
items = [Item("Is the canary yellow?", ("canary",), (Evidence("d", quote="canary bird"),))] * 2
validation.validate_items(items)
print(json.dumps(heavy))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(tmp_path)},
    )  # fmt: skip
    assert json.loads(done.stdout) == []
    assert "canary" not in done.stderr
    assert "Calculating Metrics" not in done.stderr
    assert list(tmp_path.iterdir()) == []
