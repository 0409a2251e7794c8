"""What is held to a good value, and to which: the metric's own as it was run, unless the client sets another."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from rageval_dagster.errors import SettingsError
from rageval_dagster.evaluation.request import check_metrics, make_request
from rageval_dagster.evaluation.summary import EvaluationReport, by_badness
from rageval_dagster.evaluation.verdict import below_good_value, completeness, error_share, thresholds
from rageval_dagster.records import Outcome
from rageval_dagster.settings import Settings
from rageval_dagster.storage.evaluations import Evaluation, Versions
from rageval_dagster.storage.scores import Summary
from rageval_dagster.telling.verdicts import good_values_told

MRR = "retrieval.mrr"
OWN = "house.tone"


def summary(metric_id: str, mean: float | None, good: float | None, higher_is_better: bool = True) -> Summary:
    return Summary(
        metric_id=metric_id,
        n=20,
        n_scored=0 if mean is None else 20,
        n_undefined=20 if mean is None else 0,
        n_error=0,
        mean=mean,
        ci_low=mean,
        ci_high=mean,
        min=mean,
        max=mean,
        worst_low=mean,
        worst_high=mean,
        ceiling=None,
        metric_version="1",
        higher_is_better=higher_is_better,
        good_value=good,
    )


def report(*summaries: Summary) -> EvaluationReport:
    evaluation = Evaluation(
        id=1,
        evaluation_id="e",
        client_id="acme",
        dataset_id=1,
        dataset_name="human",
        system="mine",
        system_reference=False,
        system_declared="1",
        trigger="t",
        k=5,
        depth=10,
        versions=Versions(None, None, None, None, None),
        status="complete",
        dagster_run_id=None,
        item_count=20,
        error_count=0,
        foreign_chunks=0,
        unknown_chunks=0,
        cost_usd=None,
        duration_s=None,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        finished_at=None,
        headline={},
    )
    return EvaluationReport(evaluation, "chunk", {each.metric_id: each for each in summaries}, (), {})


@pytest.mark.parametrize(
    ("good", "own", "said"),
    [
        (0.8, {}, ["mrr 0.600 (good: 0.800)"]),
        (0.5, {}, []),
        (None, {}, []),
        (0.8, {MRR: 0.5}, []),
        (0.5, {MRR: 0.9}, ["mrr 0.600 (good: 0.900)"]),
    ],
)
def test_the_good_value_is_the_one_the_metric_was_run_with_unless_the_client_has_a_threshold(
    good: float | None, own: dict[str, float], said: list[str]
) -> None:
    assert below_good_value(report(summary(MRR, 0.6, good)), own) == said


def test_a_metric_of_the_users_is_held_to_the_good_value_that_it_declares() -> None:
    missed = report(summary(MRR, 0.9, 0.8), summary(OWN, 0.5, 0.7))
    assert below_good_value(missed) == ["house.tone 0.500 (good: 0.700)"]
    assert "house.tone 0.500" in good_values_told(missed)
    assert not thresholds([missed]).passed
    lower = replace(summary(OWN, 0.5, 0.7), higher_is_better=False)
    assert thresholds([report(summary(MRR, 0.9, 0.8), lower)]).passed


def test_a_built_in_metric_that_is_no_headline_is_held_to_a_threshold_only() -> None:
    found = report(summary(MRR, 0.9, 0.8), summary("embedding.answer_relevance", 0.1, 0.6))
    assert thresholds([found]).passed
    assert not thresholds([found], {"embedding.answer_relevance": 0.6}).passed


def test_a_threshold_of_what_was_not_measured_is_said() -> None:
    found = thresholds([report(summary(MRR, 0.9, 0.8), summary(OWN, None, 0.7))], {OWN: 0.5, "lexical.f1": 0.5})
    assert found.metadata["not_measured"] == {"human/mine": [OWN, "lexical.f1"]}


def test_good_values_are_checked_wherever_an_evaluation_is_asked_for(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "house_rules.py").write_text(
        "from rageval_dagster.metrics.own import metric\n"
        f"@metric({OWN!r}, version='1', description='Polite.', good_value=0.7)\n"
        "def tone(results, tools):\n    return [1.0 for _ in results]\n",
        encoding="utf-8",
    )
    from rageval_dagster.settings import load_settings

    def settings(text: str) -> Settings:
        (tmp_path / "rageval.toml").write_text(f"[defaults]\n{text}\n", encoding="utf-8")
        return load_settings({}, config_file=tmp_path / "rageval.toml")

    named = 'metrics = ["house_rules:tone", "*"]\n'
    check_metrics(settings(f'{named}thresholds = {{ "{OWN}" = 0.5, "retrieval.precision_at_5" = 0.1 }}'), 5)
    for wrong, word in (
        (f'thresholds = {{ "{OWN}" = 0.5 }}', OWN),
        ('thresholds = { "retrieval.mmr" = 0.5 }', "did you mean retrieval.mrr?"),
        ('thresholds = { "retrieval.precision_at_5" = 0.5 }', "at k = 3"),
        ('metrics = ["lexcial.*"]', "lexcial"),
    ):
        with pytest.raises(SettingsError, match=word):
            make_request(settings(wrong), "acme", "schedule:1", k=3)


def test_what_a_check_found_is_a_sentence_with_its_numbers() -> None:
    good, silent = summary(MRR, 0.9, 0.8), summary(OWN, None, 0.7)
    low, failing = summary(MRR, 0.6, 0.8), replace(summary(OWN, 0.9, 0.7), n=17, n_error=3)
    assert thresholds([report(low, silent)], {OWN: 0.5}).said == (
        "human/mine: below the good value: mrr 0.600 (good: 0.800). Not measured: human/mine: house.tone."
    )
    assert thresholds([report(good)]).said == "Every metric that has a good value reaches it."
    assert completeness([report(good)]).said == "All 20 questions have an outcome of every metric."
    assert completeness([report(failing)]).said == "3 questions without an outcome of human/mine/house.tone."
    assert completeness([report()]).said == "no metric was run on human/mine."
    assert error_share([report(good)], 0.05).said == "No metric failed on more than 5% of its questions."
    assert error_share([report(failing)], 0.05).said == (
        "human/mine/house.tone failed on 3 of 17 questions; 5% may fail."
    )


def test_questions_whose_passage_did_not_come_back_went_worst() -> None:
    """Behind errors; before questions that were answered wrong although their passage came first."""
    scored, gone = Outcome.scored, Outcome.undefined("no evidence in the corpus")
    ranks = {
        "found": scored(1.0),
        "zz-not-found": scored(0.0),
        "third": scored(1 / 3),
        "zz-gone": gone,
        "well": scored(1.0),
    }
    answered = {"found": scored(0.0), "zz-not-found": scored(1.0), "third": scored(0.0), "zz-gone": scored(1.0)}
    unanswerable = {"unanswerable": Outcome.undefined("the question is unanswerable")}
    outcomes = {
        "retrieval.mrr": {**ranks, **unanswerable, "failed": Outcome.error("timeout")},
        "quality.refusal_correct": {**answered, "unanswerable": scored(1.0)},
    }
    assert by_badness(outcomes, "chunk") == ("failed", "zz-gone", "zz-not-found", "third", "found")
    by_document = {"retrieval.document_mrr": {"zz-gone": scored(1.0)}}
    assert "zz-gone" not in by_badness(outcomes | by_document, "chunk")
