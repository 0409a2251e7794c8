"""The summary stage: outcomes become means with intervals and worst-case bounds, headlines, and one row of history."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from rageval_dagster.evaluation.leaks import stray_count
from rageval_dagster.metrics.interface import NO_EVIDENCE, REPEATS, Metric
from rageval_dagster.records import UNKEPT, Hit, Item, Outcome, Result
from rageval_dagster.statistics.summaries import summarise
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import evaluations as evaluation_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.scores import Summary

HEADLINES = ("precision_at_{k}", "recall_at_{k}", "hit_rate_at_{k}", "mrr", "ndcg_at_10")
WORST_QUESTIONS = 5
ANSWERED_WHEN_DUE = "quality.refusal_correct"
JUDGED_BADNESS = ("claims.faithfulness", "judge.overall")


@dataclass(frozen=True)
class EvaluationReport:
    """What people read of one evaluation; ids and numbers only. `level` is that of the headline metrics.

    `by_badness` are the questions that did not go well, worst first; `languages` the shares of the languages of the
    chunks that the dataset was drawn from, empty where that is not known.
    """

    evaluation: Evaluation
    level: str
    summaries: Mapping[str, Summary]
    by_badness: tuple[str, ...]
    languages: Mapping[str, float]

    @property
    def worst_item_ids(self) -> tuple[str, ...]:
        """The questions to look at first, at most five."""
        return self.by_badness[:WORST_QUESTIONS]

    @property
    def is_judged(self) -> bool:
        """Whether it is known of any question how well it went."""
        judged = [*self.headline().values(), self.summaries.get(ANSWERED_WHEN_DUE)]
        return any(summary is not None and summary.n_scored for summary in judged)

    @property
    def prefix(self) -> str:
        """What the ids of the headline metrics begin with, at their level."""
        return _prefix(self.level)

    def headline(self) -> dict[str, Summary]:
        """The headline metrics under their short names (`precision_at_5`), chunk level where the dataset allows it."""
        names = [name.format(k=self.evaluation.k) for name in HEADLINES]
        return {name: self.summaries[self.prefix + name] for name in names if self.prefix + name in self.summaries}

    def by_model(self) -> dict[str, Summary]:
        """What a judge model found, by metric id; empty where none was asked."""
        return {name: summary for name, summary in self.summaries.items() if is_by_model(name)}


def is_by_model(metric_id: str) -> bool:
    """Whether a judge model is asked for the metric."""
    return metric_id.startswith(("judge.", "claims.")) or metric_id.endswith("_judged")


@dataclass(frozen=True)
class Question:
    """One question of an evaluation with what happened to it, for reading.

    `relevant` are the ranks of the hits that hold the evidence, or are of its document where only that is known.
    """

    item: Item
    rank: int | None
    answer: str
    declined: bool
    hits: tuple[Hit, ...]
    relevant: frozenset[int]
    verdicts: Mapping[str, Outcome]
    """What a judge model found, by metric id, with its reasons."""


def finish(db: Database, evaluation: Evaluation, metrics: Sequence[Metric]) -> EvaluationReport:
    """Sums an evaluation up and completes its row of history. Running it again gives the same rows."""
    results = result_storage.results_by_item(db, evaluation.id)
    outcomes = score_storage.load_scores(db, evaluation.id, {metric.id: metric.version for metric in metrics})
    clusters = benchmark_storage.clusters_of(db, [evaluation.dataset_id])
    summaries = []
    for metric in metrics:
        if column := outcomes.get(metric.id):
            ceiling = mean_ceiling(metric, column, results)
            found = asdict(summarise(column, clusters, ceiling=ceiling))
            summary = Summary(
                metric_id=metric.id,
                metric_version=metric.version,
                higher_is_better=metric.higher_is_better,
                good_value=metric.good_value,
                ceiling=ceiling,
                **found,
            )
            summaries.append(summary)
    score_storage.save_summaries(db, evaluation.id, summaries)
    report = _report(db, evaluation, summaries, outcomes)
    evaluation_storage.finish_evaluation(
        db,
        evaluation.id,
        status="complete",
        headline={name: summary.mean for name, summary in report.headline().items()},
        duration_s=(datetime.now(UTC) - evaluation.started_at).total_seconds(),
        error_count=sum(result.error is not None for result in results.values()),
        foreign_chunks=stray_count(results.values(), "foreign"),
        unknown_chunks=stray_count(results.values(), "unknown"),
    )
    return _report(db, evaluation_storage.get_evaluation(db, evaluation.id), summaries, outcomes)


def report_of(db: Database, evaluation: Evaluation) -> EvaluationReport:
    """The report of an evaluation as it was stored."""
    summaries = score_storage.load_summaries(db, evaluation.id)
    versions = {summary.metric_id: summary.metric_version for summary in summaries}
    outcomes = score_storage.load_scores(db, evaluation.id, versions)
    return _report(db, evaluation, summaries, outcomes)


def reports_of(db: Database, client_id: str, trigger: str | None = None) -> list[EvaluationReport]:
    """The reports of all that one trigger, or (None) the newest, started, in their order; what failed has none."""
    found = evaluation_storage.evaluations_of_trigger(db, client_id, trigger)
    return [report_of(db, evaluation) for evaluation in found if evaluation.status != "failed"]


def outcomes_of(db: Database, report: EvaluationReport, metric_ids: Iterable[str]) -> dict[str, dict[str, Outcome]]:
    """{metric id: {item id: outcome}} of metrics of an evaluation, by the versions that it was summed up with."""
    versions = {name: report.summaries[name].metric_version for name in metric_ids}
    return score_storage.load_scores(db, report.evaluation.id, versions) if versions else {}


@dataclass(frozen=True)
class Contradiction:
    """How far a judge that was asked several times contradicts itself.

    `share` is of the answers those that did not get the same score each time, `spread` the mean standard deviation of
    the scores of one answer.
    """

    share: float
    spread: float


def contradictions(db: Database, report: EvaluationReport) -> dict[str, Contradiction]:
    """{metric id: how far its judge contradicts itself} of metrics whose judge was asked several times."""
    asked = [name for name, each in report.by_model().items() if f";{REPEATS}=" in each.metric_version]
    found: dict[str, Contradiction] = {}
    for name, column in outcomes_of(db, report, asked).items():
        details = [each.detail or {} for each in column.values()]
        spreads = [detail[REPEATS]["spread"] for detail in details if REPEATS in detail]
        if spreads:
            share = sum(spread > 0.0 for spread in spreads) / len(spreads)
            found[name] = Contradiction(share, sum(spreads) / len(spreads))
    return found


def read_questions(db: Database, report: EvaluationReport, item_ids: Sequence[str]) -> list[Question]:
    """These questions with their texts: for the terminal of the documents' owner, not for Dagster.

    Those that are not of the evaluation, or whose texts were deleted, are left out.
    """
    results = result_storage.results_by_item(db, report.evaluation.id)
    outcomes = outcomes_of(db, report, report.by_model())
    found = []
    for item_id in item_ids:
        if (result := results.get(item_id)) is not None:
            relevant = frozenset(hit.rank for hit in result.hits if result.is_relevant(hit))
            said = said_by(result)
            declined = result.answer is not None and result.answer.declined
            verdicts = {name: column[item_id] for name, column in outcomes.items() if item_id in column}
            rank = min(relevant, default=None)
            found.append(Question(result.item, rank, said, declined, result.hits, relevant, verdicts))
    return found


def failures(db: Database, evaluation: Evaluation) -> Counter[str]:
    """How many questions the system failed on, by the reason."""
    return result_storage.failure_reasons(db, [evaluation.id])[evaluation.id]


def metric_failures(db: Database, report: EvaluationReport) -> dict[str, Counter[str]]:
    """How many questions each metric failed on that the system did not fail on, by the reason; metrics without any are
    left out."""
    evaluation = report.evaluation
    failing = [name for name, each in report.summaries.items() if each.n_error > evaluation.error_count]
    if not failing:
        return {}
    results = result_storage.results_by_item(db, evaluation.id)
    unanswered = {item_id for item_id, result in results.items() if result.error is not None}
    return {
        name: Counter(
            outcome.reason or "no reason"
            for item_id, outcome in outcomes.items()
            if outcome.status == "error" and item_id not in unanswered
        )
        for name, outcomes in outcomes_of(db, report, failing).items()
    }


def undefined_everywhere(db: Database, report: EvaluationReport) -> dict[str, str]:
    """The commonest reason of each metric that is undefined for every question, by metric id."""
    undefined = [name for name, each in report.summaries.items() if each.n and each.n_undefined == each.n]
    return {
        name: Counter(outcome.reason or "no reason" for outcome in column.values()).most_common(1)[0][0]
        for name, column in outcomes_of(db, report, undefined).items()
        if column
    }


def headline_level(summaries: Sequence[Summary]) -> str:
    """`chunk`, or `document` where only that is known: of the dataset's evidence, or of what the system returned."""
    scored = {summary.metric_id for summary in summaries if summary.n_scored}
    return "document" if "retrieval.document_mrr" in scored and "retrieval.mrr" not in scored else "chunk"


def by_badness(outcomes: Mapping[str, Mapping[str, Outcome]], level: str) -> tuple[str, ...]:
    """The ids of the questions that did not go well, worst first.

    First errors, then questions whose evidence is in no document any more, then the lowest of what tells most: the
    reciprocal rank of the evidence, whether the system answered when it should, and where a judge was asked, how
    faithful the answer is, and how good. Of equally low ones those first whose evidence did not come back, or lowest.
    """
    ranks = outcomes.get(_prefix(level) + "mrr", {})
    columns = [ranks, *(outcomes.get(metric, {}) for metric in (ANSWERED_WHEN_DUE, *JUDGED_BADNESS))]
    found: dict[str, float] = {}
    for column in columns:
        for item_id, outcome in column.items():
            if outcome.status != "undefined":
                value = -1.0 if outcome.value is None else outcome.value
                found[item_id] = min(value, found.get(item_id, 1.0))
    by_document = outcomes.get("retrieval.document_mrr", {})
    for item_id, outcome in ranks.items():
        known = by_document.get(item_id)
        if outcome.reason == NO_EVIDENCE.reason and (known is None or known.value is None):
            found[item_id] = min(-0.5, found.get(item_id, 1.0))

    def rank(item_id: str) -> float:
        outcome = ranks.get(item_id)
        return 1.0 if outcome is None or outcome.value is None else outcome.value

    bad = sorted((value, rank(item_id), item_id) for item_id, value in found.items() if value < 1)
    return tuple(item_id for _, _, item_id in bad)


def _report(
    db: Database,
    evaluation: Evaluation,
    summaries: Sequence[Summary],
    outcomes: Mapping[str, Mapping[str, Outcome]],
) -> EvaluationReport:
    level = headline_level(summaries)
    return EvaluationReport(
        evaluation=evaluation,
        level=level,
        summaries={summary.metric_id: summary for summary in summaries},
        by_badness=by_badness(outcomes, level),
        languages=benchmark_storage.get_dataset(db, evaluation.dataset_id).stats.get("languages", {}),
    )


def _prefix(level: str) -> str:
    return "retrieval." if level == "chunk" else "retrieval.document_"


def mean_ceiling(metric: Metric, column: Mapping[str, Outcome], results: Mapping[str, Result]) -> float | None:
    """The best mean that the scored ones of these results allow; None where that is 1, or nothing was scored."""
    if metric.ceiling is None:
        return None
    reachable = [metric.ceiling(results[item_id]) for item_id, out in column.items() if out.status == "scored"]
    return sum(reachable) / len(reachable) if reachable else None


def said_by(result: Result) -> str:
    """An answer, or why there is none to show."""
    if result.error:
        return result.error
    if result.answer is not None:
        return result.answer.text
    if result.texts_deleted:
        return "(deleted: not used for longer than texts are kept)"
    if result.answer_owner in UNKEPT:
        return "(not kept: it held another client's words)"
    if any(hit.owner in UNKEPT for hit in result.hits):
        return "(not kept: another client's words were among its contexts)"
    return "(no answer)"
