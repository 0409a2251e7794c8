"""What a CI service reads of the gate's verdicts, on histories that went through the real gate."""

from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree

from rageval_dagster.gate.decision import Judged
from rageval_dagster.storage.database import Database
from rageval_dagster.telling.junit import junit_xml
from rageval_dagster.telling.verdicts import verdict_of
from tests.gate.gated_history import SPEC, evaluated, held, ranks
from tests.storage.history_builder import MRR, make_dataset, make_items

ITEMS = make_items(200)


def suites(db: Database, judged: Sequence[Judged]) -> list[ElementTree.Element]:
    written = junit_xml([verdict_of(db, each, SPEC.max_error_share) for each in judged])
    return list(ElementTree.fromstring(written))


def results(suite: ElementTree.Element) -> dict[str, list[str]]:
    """What each case came to, by its name: nothing where it passed."""
    return {case.get("name", ""): [result.tag for result in case] for case in suite.iter("testcase")}


def test_each_evaluation_is_a_suite_and_each_metric_of_the_gate_a_case(sqlite_db: Database) -> None:
    dataset = make_dataset(sqlite_db, "acme", ITEMS)
    first, same, worse = (
        held(sqlite_db, evaluated(sqlite_db, dataset, f"n{night}", ranks(ITEMS, wrong), items=ITEMS))[0]
        for night, wrong in enumerate((0, 0, 60))
    )
    found = suites(sqlite_db, [first, same, worse])
    assert [suite.get("failures") for suite in found][:2] == ["0", "0"]
    assert results(found[0]) == {"evaluation": []}
    assert results(found[1])[MRR] == []
    assert results(found[2])[MRR] == ["failure"]
    [failure] = found[2].findall(f"testcase[@name='{MRR}']/failure")
    assert failure.get("message", "").startswith(f"{MRR} ")
    assert int(found[2].get("failures", "")) == len(list(found[2].iter("failure"))) > 0
    [out] = found[2].findall("system-out")
    assert out.text is not None
    assert out.text.startswith(f"run {worse.evaluation.id}: regressed against run {first.evaluation.id}: ")


def test_leaks_failures_and_what_nobody_can_tell_do_not_look_passed(sqlite_db: Database) -> None:
    dataset = make_dataset(sqlite_db, "acme", ITEMS)
    [judged] = held(sqlite_db, evaluated(sqlite_db, dataset, "n1", ranks(ITEMS), items=ITEMS))
    leaking = replace(judged, evaluation=replace(judged.evaluation, foreign_chunks=2))
    failed = replace(judged, evaluation=replace(judged.evaluation, error_count=200))
    unmeasured = replace(judged, judgement=replace(judged.judgement, verdict=None))
    found = suites(sqlite_db, [leaking, failed, unmeasured])
    assert [results(suite)["evaluation"] for suite in found] == [["failure"], ["error"], ["skipped"]]


def test_names_of_others_cannot_break_the_file(sqlite_db: Database) -> None:
    dataset = make_dataset(sqlite_db, "acme", ITEMS)
    [judged] = held(sqlite_db, evaluated(sqlite_db, dataset, "n1", ranks(ITEMS), items=ITEMS))
    hostile = replace(judged, evaluation=replace(judged.evaluation, system='<b>"&\x1b]0;'))
    [suite] = suites(sqlite_db, [hostile])
    assert suite.get("name", "").endswith('/ <b>"&?]0;')
