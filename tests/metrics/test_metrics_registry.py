"""The registry: what is declared, to whom a metric applies, and that failures stay where they happen."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from metric_samples import TinyEmbedder, make_result, unjudged

from rageval_dagster.errors import DatabaseAwayError
from rageval_dagster.metrics.interface import Metric
from rageval_dagster.metrics.registry import MetricOptions, Tools, all_metrics, compute_scores, metrics_of
from rageval_dagster.records import Answer
from rageval_dagster.settings import JudgeWeights, Settings

UNITXT = ("faithfulness", "answer_correctness", "context_correctness")
PROMPTS = Path(__file__).parents[2] / "rageval_dagster" / "prompts"


def by_id(metrics):
    return {metric.id: metric for metric in metrics}


def test_ndcg_at_10_is_there_once_at_cutoff_10():
    ids = [metric.id for metric in metrics_of(Settings(), 10)]
    assert ids.count("retrieval.ndcg_at_10") == 1


def test_without_an_embedder_its_metrics_are_not_run():
    assert not [metric for metric in metrics_of(Settings(), 5) if metric.family == "embedding"]
    assert [metric.id for metric in metrics_of(Settings(), 5) if metric.family == "citation"] == ["citation.coverage"]


def test_a_cutoff_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        all_metrics(MetricOptions(0))


def versions(**options):
    given: dict[str, Any] = {"embedder_version": "model@1", "judge_version": "a" * 64} | options
    return {metric.id: metric.version for metric in all_metrics(MetricOptions(5, **given))}


def changed_by(**options):
    return {metric_id for metric_id, version in versions(**options).items() if version != versions()[metric_id]}


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({"hallucination_threshold": 0.3}, {"embedding.answer_hallucination"}),
        ({"citation_threshold": 0.3}, {"citation.accuracy", "citation.recall"}),
        ({"minimum_retrieval_score": 0.5}, {"quality.retrieval_score_above_minimum", "quality.passed"}),
        ({"citation_required": False}, {"quality.passed"}),
        ({"overlap_compat": True}, {f"overlap.{name}" for name in UNITXT}),
        ({"judge_weights": JudgeWeights(completeness=0.5)}, {"judge.overall"}),
    ],
)
def test_a_version_changes_with_the_parameter_that_the_metric_uses(options, changed):
    assert changed_by(**options) == changed


def test_a_version_changes_with_the_model_that_the_metric_uses():
    metrics = all_metrics(MetricOptions(5))
    assert changed_by(embedder_version="model@2") == {each.id for each in metrics if "embedder" in each.needs}
    judged = {each.id for each in metrics if each.judged or each.family == "judge"}
    assert changed_by(judge_version="b" * 64) == changed_by(judge_repeats=3) == judged
    assert all(len(version) < 128 for version in versions(judge_repeats=20).values())


def test_a_version_changes_with_a_prompt_that_is_asked(tmp_path):
    (tmp_path / "claims_usefulness.txt").write_text("[system]\nJudge.\n[user]\n$question $answers $contexts\n")
    built_in = (PROMPTS / "judge_completeness.txt").read_text(encoding="utf-8")
    (tmp_path / "judge_completeness.txt").write_text(built_in.replace("You judge", "Judge"), encoding="utf-8")
    assert changed_by(prompts_dir=tmp_path) == {"claims.context_precision", "judge.completeness", "judge.overall"}
    unweighed = {"judge_weights": JudgeWeights(completeness=0)}
    own, usual = versions(prompts_dir=tmp_path, **unweighed), versions(**unweighed)
    assert own["judge.overall"] == usual["judge.overall"], "a prompt that is not asked changes nothing"


def outcomes(result):
    columns = compute_scores(unjudged(MetricOptions(5, TinyEmbedder.version)), [result], Tools(TinyEmbedder()))
    return {metric_id: column[0] for metric_id, column in columns.items()}


def test_a_version_tells_parameters_apart_that_differ_by_little():
    fields = ("sufficiency_threshold", "hallucination_threshold", "citation_threshold", "minimum_retrieval_score")
    one, other = (
        {metric.version for metric in all_metrics(MetricOptions(5, "m@1", **dict.fromkeys(fields, value)))}
        for value in (1234567.1, 1234567.2)
    )
    assert {version for version in one & other if "threshold" in version or "minimum" in version} == set()


def test_a_failed_system_is_an_error_everywhere():
    found = outcomes(make_result(["a"], ["a"], answer="Paris", references=["Paris"], error="TimeoutError"))
    assert {(outcome.status, outcome.reason) for outcome in found.values()} == {("error", "TimeoutError")}


def scored_ids(result):
    return {metric_id for metric_id, outcome in outcomes(result).items() if outcome.status == "scored"}


ANSWER_METRICS = {
    *("embedding.question_alignment", "embedding.answer_hallucination", "lexical.source_citation"),
    *("overlap.faithfulness", "overlap.support", "citation.coverage", "citation.recall"),
    *("quality.answered", "quality.has_citation", "quality.no_fallback_phrase"),
}
ALWAYS = {"retrieval.foreign_hits", "quality.refusal_correct", "quality.passed"}


def test_an_unanswerable_item_that_was_answered_keeps_its_answer_metrics():
    result = make_result(["a"], ["a"], answer="Paris", references=["London"], contexts=["Rome"], answerable=False)
    assert scored_ids(result) == ANSWER_METRICS | ALWAYS


@pytest.mark.parametrize(("answer", "declined"), [("I cannot say.", True), ("", False)])
def test_an_unanswerable_item_that_was_declined_has_none(answer, declined):
    result = make_result(["a"], ["a"], answer=answer, declined=declined, contexts=["Rome"], answerable=False)
    assert scored_ids(result) == ALWAYS


def test_a_decline_claims_nothing_and_is_an_answer_to_all_other_metrics():
    answered = make_result(["a"], ["a"], answer="I cannot say.", references=["Paris 5"], contexts=["Rome"])
    declined = replace(answered, answer=Answer("I cannot say.", declined=True))
    of_claims = {
        *("overlap.faithfulness", "overlap.support", "embedding.answer_hallucination"),
        *("citation.accuracy", "citation.coverage", "citation.recall"),
    }
    found = outcomes(declined)
    assert {found[name].reason for name in of_claims} == {"the answer declines, which claims nothing"}
    others = dict.fromkeys(("quality.refusal_correct", "quality.no_fallback_phrase", "quality.passed", *of_claims))
    assert found | others == outcomes(answered) | others


def test_a_system_without_answers_is_not_scored_on_them():
    found = scored_ids(make_result(["a"], ["a"], references=["Paris"], contexts=["Rome"]))
    assert {metric_id for metric_id in found if not metric_id.startswith("retrieval.")} == {
        "embedding.context_relevance",
        "embedding.context_sufficiency",
    }


def failing(calls):
    def score(_results, _tools):
        calls.append(1)
        raise KeyError("the text of a customer")

    return score


def with_score(metric_id, score):
    return replace(by_id(all_metrics(MetricOptions(5)))["lexical.token_f1"], id=metric_id, score=score)


def test_a_database_that_is_away_is_no_error_of_a_metric():
    def away(_results, _tools):
        raise DatabaseAwayError("the history database stopped answering")

    with pytest.raises(DatabaseAwayError):
        compute_scores([with_score("own.first", away)], [make_result(answer="x", references=["x"])], Tools())


def test_a_failing_metric_is_an_error_without_text_and_the_others_go_on(caplog):
    calls: list[int] = []
    score = failing(calls)
    metrics: list[Metric] = [
        with_score("own.first", score),
        with_score("own.second", score),
        *unjudged(MetricOptions(5)),
    ]
    results = [make_result(answer="x", references=["x"]), make_result(answer="x", answerable=False)]
    columns = compute_scores(metrics, results, Tools())
    assert [(outcome.status, outcome.reason) for outcome in columns["own.first"]] == [
        ("error", f"KeyError at test_metrics_registry.py:{score.__code__.co_firstlineno + 2}"),
        ("undefined", "the question is unanswerable"),
    ]
    assert columns["own.second"] == columns["own.first"]
    assert len(calls) == 1, "a family that failed is not computed again for its next metric"
    assert str(columns["embedding.answer_relevance"][0].reason).startswith("LookupError at interface.py:")
    assert columns["lexical.token_f1"][0].value == 1.0
    assert "customer" not in caplog.text


@pytest.mark.parametrize("rows", [[{"bad": None}], [{"bad": 0.5}], [{}], []])
def test_a_metric_that_leaves_results_without_an_outcome_is_an_error(rows):
    metric = with_score("own.bad", lambda _results, _tools: rows)
    (outcome,) = compute_scores([metric], [make_result(answer="x", references=["x"])], Tools())["own.bad"]
    assert outcome.status == "error"


def test_progress_counts_the_metrics():
    seen: list[tuple[int, int]] = []
    metrics = metrics_of(Settings(), 5)[:3]
    compute_scores(metrics, [], Tools(), lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
