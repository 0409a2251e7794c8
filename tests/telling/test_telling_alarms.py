"""What went wrong, in sentences for the head of a page and in lines for the terminal."""

from collections import Counter
from dataclasses import replace

from rageval_dagster.evaluation.leaks import Stray
from rageval_dagster.evaluation.summary import report_of
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, get_evaluation
from rageval_dagster.telling.alarms import (
    failed_metrics,
    failed_questions,
    failure_alarm,
    leak,
    leak_alarm,
    metric_errors,
    nowhere_defined,
    unknown_chunks,
)
from tests.storage.history_builder import MRR, finish, make_dataset, make_items, open_run


def ended(db: Database, foreign: int = 0, unknown: int = 0, failed: int = 0) -> Evaluation:
    evaluation = open_run(db, make_dataset(db, "acme", make_items(3)), "one", system="assistant")
    finish(db, evaluation, {MRR: 0.8}, foreign=foreign, unknown=unknown, failed=failed)
    return get_evaluation(db, evaluation.id)


def test_of_many_leaked_chunks_a_few_are_named(sqlite_db: Database) -> None:
    evaluation = open_run(sqlite_db, make_dataset(sqlite_db, "acme", make_items(1)), "one", system="assistant")
    line = leak(evaluation, [Stray(evaluation.id, f"q{n % 6}", f"c{n:02}") for n in range(30)])
    assert line == (
        "acme: LEAK: assistant returned 30 passages of other clients for 6 questions: chunks c00, c01, c02, c03, c04 "
        "and 25 more; questions q0, q1, q2, q3, q4 and 1 more"
    )


def test_a_leak_and_a_system_that_failed_are_told_by_their_numbers(sqlite_db: Database) -> None:
    found = ended(sqlite_db, foreign=3, unknown=1, failed=2)
    leaking = leak_alarm(sqlite_db, found)
    assert leaking is not None
    assert leaking.sentence.startswith("System assistant returned 3 passages of other clients for ")
    assert leaking.sentence.endswith(" of dataset human: a leak.")
    failing = failure_alarm(found, 0.5)
    assert failing is not None
    assert failing.sentence == "System assistant failed on 2 of 3 questions of dataset human."
    assert (failing.command, failing.evaluation_id) == (f"rageval runs show {found.id}", found.id)
    assert failure_alarm(found, 0.7) is None
    reasons = Counter({"timeout": 1, "http_status: 500": 1})
    assert failed_questions(found, reasons) is not None
    assert str(failed_questions(found, reasons)).startswith(
        "acme / human: assistant failed on 2 of 3 questions: timeout (1); http_status: 500 (1)"
    )
    assert str(unknown_chunks(found)).endswith(
        "assistant returned 1 chunk that the document store does not have: from an older index, from documents that "
        "were not loaded, or made up"
    )
    well = replace(found, foreign_chunks=0, unknown_chunks=0)
    assert (leak_alarm(sqlite_db, well), unknown_chunks(well), failed_questions(well, Counter())) == (None, None, None)


def test_of_many_reasons_a_few_are_named(sqlite_db: Database) -> None:
    report = report_of(sqlite_db, ended(sqlite_db))
    reasons = {name: Counter({f"reason {number}": 1}) for number, name in enumerate((MRR, "a.b", "c.d", "e.f"))}
    assert metric_errors(reasons) == (
        f"metrics failed: {MRR}: reason 0 (1); a.b: reason 1 (1); c.d: reason 2 (1); and 1 more reason"
    )
    allowed = "acme / human: more errors than allowed: "
    assert failed_metrics(report, reasons, [MRR]) == f"{allowed}{MRR} 1 of {report.summaries[MRR].n} (reason 0: 1)"
    undefined = {"a.b": "no reference", "a.c": "no reference", "judge.overall": "no judge"}
    assert (
        nowhere_defined(undefined) == "undefined for every question: no judge (judge.overall); no reference (a.b, a.c)"
    )
    assert (metric_errors({}), failed_metrics(report, {}, []), nowhere_defined({})) == (None, None, None)
