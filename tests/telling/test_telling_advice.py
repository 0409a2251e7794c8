"""Likely causes: those of a regression first, and of low metrics none that another one contradicts."""

from rageval_dagster.evaluation.summary import report_of
from rageval_dagster.identity import digest
from rageval_dagster.records import Outcome
from rageval_dagster.report.contents import client_contents
from rageval_dagster.report.page import client_page
from rageval_dagster.settings import load_settings
from rageval_dagster.storage.comparisons import Change
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import get_evaluation
from rageval_dagster.storage.results import save_results, save_retrievals
from rageval_dagster.storage.scores import Summary, save_summaries
from rageval_dagster.telling.advice import advised, likely_causes, suspected
from tests.gate.gated_history import SPEC, evaluated, held, ranks
from tests.storage.history_builder import (
    finish,
    make_dataset,
    make_items,
    open_run,
    result_of,
    retrieval_of,
    score_all,
    summary,
)


def by_id(*means: Summary) -> dict[str, Summary]:
    return {each.metric_id: each for each in means}


def test_what_does_not_come_back_is_not_low_in_the_list() -> None:
    mrr, good = summary("retrieval.mrr", 0.4), {"retrieval.mrr": 0.8, "retrieval.hit_rate_at_5": 0.9}
    for hit_rate, low in ((0.45, "retrieval.hit_rate_at_5"), (0.95, "retrieval.mrr")):
        found = by_id(mrr, summary("retrieval.hit_rate_at_5", hit_rate))
        assert [each.low for each in advised(found, 5, good)] == [[low]]


def test_answers_are_not_blamed_for_not_using_what_was_not_found() -> None:
    answers, wording = summary("judge.correctness", 0.2), summary("overlap.context_correctness", 0.9)
    for hit_rate, blamed in ((0.3, False), (0.95, True)):
        found = by_id(answers, wording, summary("retrieval.hit_rate_at_5", hit_rate))
        causes = [each.advice.cause for each in advised(found, 5, {"retrieval.hit_rate_at_5": 0.8})]
        assert any("documents are found" in cause for cause in causes) is blamed


def test_what_lacks_most_comes_first() -> None:
    low = summary("citation.coverage", 0.4), summary("claims.answer_relevancy", 0.1)
    good = {"citation.coverage": 0.8, "claims.answer_relevancy": 0.8}
    found = advised(by_id(*low, summary("retrieval.mrr", 1.0)), 5, good)
    assert [each.low for each in found] == [["claims.answer_relevancy"], ["citation.coverage"]]


def test_what_explains_the_failed_questions_leads(sqlite_db: Database) -> None:
    """No answer cites anything, be its passage found or not."""
    items = make_items(20)
    evaluation = open_run(sqlite_db, make_dataset(sqlite_db, "acme", items), "n1")
    retrievals = list(map(retrieval_of, items))
    results = [result_of(each) for each in retrievals]
    save_retrievals(sqlite_db, evaluation.id, [(each, digest(each.item_id)) for each in retrievals])
    save_results(sqlite_db, evaluation.id, [(each, digest("a", each.item_id)) for each in results])
    scores = {
        "retrieval.hit_rate_at_5": [0.0] * 12 + [1.0] * 8,
        "quality.refusal_correct": [0.0] * 2 + [1.0] * 18,
        "citation.coverage": [0.1] * 20,
    }
    for name, values in scores.items():
        score_all(sqlite_db, evaluation, results, name, [Outcome.scored(value) for value in values])
    finish(sqlite_db, evaluation, {name: sum(values) / 20 for name, values in scores.items()})
    good = {"retrieval.hit_rate_at_5": 0.9, "citation.coverage": 0.7}
    report = report_of(sqlite_db, get_evaluation(sqlite_db, evaluation.id))
    first, *others = likely_causes(sqlite_db, report, good)
    assert first.low == ["retrieval.hit_rate_at_5"]
    assert first.is_telling
    assert [(each.low, each.is_telling) for each in others] == [(["citation.coverage"], False)]
    [found] = client_contents(sqlite_db, load_settings({}), "acme").evaluations
    assert [each.low for each in found.leading] == [["retrieval.hit_rate_at_5"]]


def test_a_missing_phrase_is_not_called_a_missing_source() -> None:
    found = by_id(summary("lexical.source_citation", 0.02), summary("citation.coverage", 1.0))
    assert advised(found, 5, {}) == []


def test_a_regression_is_laid_to_the_changes_that_questions_got_worse_by() -> None:
    changes = [Change("index", "re-embedded 9 chunks", 4), Change("dataset", "1 new"), Change("corpus", "1 added", 0)]
    [found] = suspected(changes, ["retrieval.mrr"])
    assert found.low == ["retrieval.mrr"]
    assert "vectors" in found.advice.cause
    assert suspected(changes, []) == []


def test_the_report_says_what_to_do_about_a_change_before_what_low_numbers_may_come_from(sqlite_db: Database) -> None:
    items = make_items(100)
    dataset = make_dataset(sqlite_db, "acme", items)
    held(sqlite_db, evaluated(sqlite_db, dataset, "n1", ranks(items), items=items), spec=SPEC)
    report = evaluated(sqlite_db, dataset, "n2", ranks(items, 30), items=items, index="index-2")
    low = (
        "citation.coverage",
        "citation.accuracy",
        "claims.answer_relevancy",
        "quality.refusal_correct",
        "judge.completeness",
    )
    save_summaries(
        sqlite_db,
        report.evaluation.id,
        [*(summary(name, 0.1) for name in low), summary("overlap.context_correctness", 0.9)],
    )
    held(sqlite_db, report, spec=SPEC)
    contents = client_contents(sqlite_db, load_settings({}), "acme")
    page = client_page(contents)
    assert page.index("embed them again with the model that embeds the questions") < page.index(
        "Require a citation for each"
    )
