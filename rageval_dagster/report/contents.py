"""What a client's report says, gathered from the history: each newest evaluation with all that explains it."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rageval_dagster.evaluation.summary import RIGHTLY_ANSWERED, EvaluationReport, failures, report_of
from rageval_dagster.gate.causes import GoneItem, gone_items
from rageval_dagster.gate.judging import Judged, judged_before
from rageval_dagster.gate.spec import GateSpec, seen_from
from rageval_dagster.rag.failures import remedy
from rageval_dagster.records import Result
from rageval_dagster.report.advice import Advised, advised, good_value, suspected
from rageval_dagster.report.leaderboard import OBJECTIVE, Leaderboard, leaderboards
from rageval_dagster.report.names import metric_name, number, plural
from rageval_dagster.report.questions import Questions, language_of, questions_of
from rageval_dagster.report.run_page import mentioned_dates
from rageval_dagster.report.triage import RIGHT, Quadrant, counted, rightness_of
from rageval_dagster.report.verdict import Tone, Verdict, verdict, what_changed
from rageval_dagster.settings import Settings
from rageval_dagster.statistics.summaries import breakdown
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.comparisons import (
    Baseline,
    Change,
    MetricComparison,
    Reading,
    find_baseline,
    readings,
)
from rageval_dagster.storage.corpus import DocumentChange, documents_changed
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, evaluations_by_id, list_evaluations
from rageval_dagster.storage.results import latencies
from rageval_dagster.storage.scores import Summary
from rageval_dagster.storage.views import read_view
from rageval_dagster.telling.alarms import Alarm, client_alarms, failure_alarm, leak_alarm

MOST_GROUPS = 12
FIRST_NUMBERS = 5
LENGTHS = ((0, 8, "up to 8 words"), (9, 15, "9 to 15 words"), (16, 10**9, "over 15 words"))


@dataclass(frozen=True)
class Figure:
    """A metric as the report shows it. `change` is now minus baseline on shared questions, with its interval."""

    metric_id: str
    name: str
    summary: Summary
    good: float | None
    comparison: MetricComparison | None

    @property
    def tone(self) -> str:
        """`worse`, `better` or nothing: of the change, where the gate calls it real."""
        if self.comparison is None:
            return ""
        return "worse" if self.comparison.decision == "regressed" else "better" if self.comparison.better else ""

    @property
    def is_below(self) -> bool:
        """Whether its mean is worse than its good value."""
        if self.good is None or self.summary.mean is None:
            return False
        return self.summary.mean < self.good if self.summary.higher_is_better else self.summary.mean > self.good


@dataclass(frozen=True)
class Group:
    """A metric over the `n` questions of a group that it scored, with the baseline's mean on those that it shares."""

    name: str
    n: int
    mean: float | None
    low: float | None
    high: float | None
    before: float | None


@dataclass(frozen=True)
class Health:
    """What the benchmark is like: its questions by origin, what kept others out, and what it touches of the corpus.

    `difficulty` is the rank at which half of the questions get their own passage, None where fewer do among the first
    `difficulty_depth`; that is None where it was not measured.
    """

    dataset: Dataset
    origins: Mapping[str, int]
    verified: int
    flagged: int
    difficulty: int | None
    difficulty_depth: int | None
    rejected: Mapping[str, int]
    document_coverage: float | None
    topic_coverage: float | None


@dataclass(frozen=True)
class Speed:
    """Seconds an answer took, half of them and 95 % of them at most; US dollars that models cost."""

    p50: float | None
    p95: float | None
    cost_usd: float | None


@dataclass(frozen=True)
class MoreQuestions:
    """That more questions are needed to see a drop of `effect`: from `least` to `most`, both None where none can tell.

    `target` is the size up to which a generated dataset grows by itself.
    """

    effect: float
    target: int
    least: int | None
    most: int | None


@dataclass(frozen=True)
class Failure:
    """Why the system failed on so many questions, and what to do, where that is known."""

    reason: str
    count: int
    remedy: str | None


@dataclass(frozen=True)
class EvaluationContents:
    """One evaluation with all that the report says of it. `earlier` are the other runs of its dataset and system."""

    report: EvaluationReport
    earlier: Sequence[int]
    judged: Judged
    verdict: Verdict
    more_questions: MoreQuestions | None
    failures: Sequence[Failure]
    changed: Sequence[str]
    changes: Sequence[Change]
    documents: Mapping[str, DocumentChange]
    gone: Sequence[GoneItem]
    first: Sequence[Figure]
    figures: Sequence[Figure]
    advice: Sequence[Advised]
    quadrants: Mapping[Quadrant, int]
    baseline: Baseline | None
    readings: Sequence[Reading]
    told_by: str | None
    cannot_tell: Sequence[str]
    groups: Mapping[str, Sequence[Group]]
    grouped_by_metric: str | None
    trends: Mapping[str, Sequence[tuple[datetime, float | None]]]
    health: Health
    speed: Speed
    questions: Questions

    @property
    def evaluation(self) -> Evaluation:
        return self.report.evaluation

    @property
    def has_before(self) -> bool:
        """Whether there is something to say of what was before: not of a first run that measured something."""
        return self.judged.judgement.baseline_id is not None or self.evaluation.answered_nothing

    @property
    def metric_ids(self) -> list[str]:
        return [figure.metric_id for figure in self.figures]


@dataclass(frozen=True)
class ClientContents:
    """What a client's report says: first the alarms, then its newest evaluations, those that got worse first."""

    client_id: str
    alarms: Sequence[Alarm]
    evaluations: Sequence[EvaluationContents]
    leaderboards: Sequence[Leaderboard]


WORST_FIRST: tuple[Tone, ...] = ("worse", "failed", "unclear", "first", "same", "better", "unmeasured")
"""What can tell nothing comes last."""


def client_contents(
    db: Database, settings: Settings, client_id: str, redact: bool = False, objective: str = OBJECTIVE
) -> ClientContents:
    """The newest complete evaluation of each of a client's datasets by each system, without retired datasets.

    Those of the systems that the settings evaluate come first, of these those that leak, then those that got worse, and
    of several such the one with the most questions.

    `settings` are the client's own. With `redact` there are ids and numbers only. By `objective`, a metric's id,
    systems on the same questions are ranked.
    """
    retired = {each.id for each in benchmark_storage.list_datasets(db, client_id) if each.retired_at is not None}
    newest: dict[tuple[str, str], Evaluation] = {}
    runs: dict[tuple[str, str], list[int]] = {}
    for evaluation in list_evaluations(db, client_id=client_id, limit=None):
        of = evaluation.dataset_name, evaluation.system
        runs.setdefault(of, []).append(evaluation.id)
        if evaluation.status == "complete" and evaluation.dataset_id not in retired:
            newest.setdefault(of, evaluation)
    found = [evaluation_contents(db, settings, each, runs[of], redact) for of, each in newest.items()]
    found.sort(
        key=lambda each: (
            each.evaluation.system not in settings.system,
            not each.evaluation.foreign_chunks,
            WORST_FIRST.index(each.verdict.tone),
            -each.evaluation.item_count,
            -each.evaluation.id,
        )
    )
    boards = leaderboards(db, list(newest.values()), objective)
    shown = [each.evaluation for each in found]
    newest_trigger = max(shown, key=lambda each: each.id).trigger if shown else None
    now = [each for each in shown if each.system in settings.system or each.trigger == newest_trigger]
    alarms = [
        *(leak_alarm(db, each) for each in now),
        *client_alarms(db, client_id),
        # Where there is but one, its verdict, which stands right below, begins with that.
        *(failure_alarm(each, settings.max_error_share) for each in now if len(shown) > 1),
    ]
    return ClientContents(client_id, [each for each in alarms if each is not None], found, boards)


def _changed_since(db: Database, judged: Judged) -> Evaluation | None:
    """The evaluation since which there are the changes that are told, if it is kept."""
    since = [change.since for change in judged.judgement.changes if change.since is not None]
    return next(iter(evaluations_by_id(db, since[:1]).values()), None)


def evaluation_contents(
    db: Database, settings: Settings, evaluation: Evaluation, runs: Sequence[int], redact: bool = False
) -> EvaluationContents:
    """What the report says of one complete evaluation; `runs` are all of its dataset and system, by number."""
    report = report_of(db, evaluation)
    judged = judged_before(db, evaluation)
    spec = GateSpec.from_settings(settings)
    dataset = benchmark_storage.get_dataset(db, evaluation.dataset_id)
    compared = {row.metric_id: row for row in judged.comparisons}
    figures = [
        Figure(name, metric_name(name), summary, good_value(summary, settings.thresholds), compared.get(name))
        for name, summary in report.summaries.items()
    ]
    gated = spec.gated(report.summaries, evaluation.k, report.level)
    questions = questions_of(db, report, judged, [each.metric_id for each in figures], redact)
    rightness = rightness_of(report.summaries)
    grouped = next((name for name in gated if name.endswith("mrr")), next(iter(gated), None))
    health = _health(db, dataset, questions.results)
    changed = {change.what for change in judged.judgement.changes}
    earlier = None if redact else _changed_since(db, judged)
    return EvaluationContents(
        report=report,
        earlier=[run for run in runs if run != evaluation.id],
        judged=judged,
        verdict=verdict(judged, mentioned_dates(db, judged), report.headline(), spec),
        more_questions=None
        if judged.regressed
        else more_questions(judged.gated, spec.effect, settings.target_items, evaluation.item_count),
        failures=[
            Failure(reason, count, remedy(reason, evaluation.system))
            for reason, count in failures(db, evaluation).most_common()
        ],
        changed=what_changed(judged.judgement.changes),
        changes=judged.judgement.changes,
        documents=documents_changed(db, evaluation.client_id, earlier.started_at, evaluation.started_at)
        if earlier is not None and "corpus" in changed
        else {},
        gone=gone_items(db, earlier, evaluation) if earlier is not None and "dataset" in changed else [],
        first=_first(figures, gated, evaluation.k),
        figures=figures,
        advice=[
            *suspected(judged.judgement.changes, [row.metric_id for row in judged.regressed]),
            *advised(report.summaries, evaluation.k, settings.thresholds),
        ],
        quadrants=counted(questions.quadrants),
        baseline=find_baseline(db, evaluation.client_id, evaluation.dataset_name, evaluation.system),
        readings=[] if judged.judgement.baseline_id is None else readings(db, evaluation, judged.judgement.baseline_id),
        told_by=None if rightness is None else f"{metric_name(rightness)} of at least {number(RIGHT)}",
        cannot_tell=_cannot_tell(report, judged, health, questions),
        groups={} if grouped is None or redact else _groups(questions, grouped, report),
        grouped_by_metric=grouped,
        trends=_trends(db, evaluation, [each.metric_id for each in figures]),
        health=health,
        speed=_speed(db, evaluation),
        questions=questions,
    )


def _first(figures: Sequence[Figure], gated: Sequence[str], k: int) -> list[Figure]:
    """The numbers of the first screen: the gate's, then how faithful and right the answers are, then the rest."""
    wanted = (
        *gated,
        "claims.faithfulness",
        "judge.faithfulness",
        "judge.overall",
        "claims.answer_correctness",
        "overlap.answer_correctness",
        RIGHTLY_ANSWERED,
        f"retrieval.recall_at_{k}",
        f"retrieval.precision_at_{k}",
        "overlap.faithfulness",
        "citation.accuracy",
    )
    by_id = {figure.metric_id: figure for figure in figures if figure.summary.mean is not None}
    return [by_id[name] for name in dict.fromkeys(wanted) if name in by_id][:FIRST_NUMBERS]


def _cannot_tell(report: EvaluationReport, judged: Judged, health: Health, questions: Questions) -> list[str]:
    """What these numbers say nothing of, in sentences."""
    evaluation = report.evaluation
    said = []
    if evaluation.system_reference:
        said.append(f"How good your own system is: {evaluation.system} is a built-in reference over your documents")
    for row in (row for row in judged.gated if row.decision != "regressed"):
        if row.smallest_drop is not None:
            said.append(
                f"Drops in {metric_name(row.metric_id)} of less than {number(seen_from(row.smallest_drop))}: "
                f"{plural(row.n_shared, 'question')} in both runs are too few to see them"
            )
        elif row.difference is not None:
            said.append(f"Drops in {metric_name(row.metric_id)}: {plural(row.n_shared, 'question')} show none surely")
    if judged.judgement.verdict == "first":
        said.append(f"Small differences: there are {plural(evaluation.item_count, 'question')}")
    dataset = health.dataset
    if dataset.documents and dataset.documents_touched is not None and dataset.documents_touched < dataset.documents:
        untouched = dataset.documents - dataset.documents_touched
        said.append(f"{plural(untouched, 'document')} of {dataset.documents:,}: no question is about them")
    if health.origins and not health.verified:
        said.append("Whether the questions are good ones: no person has checked any")
    if set(health.origins) <= {"extractive", "llm"} and health.origins:
        said.append("What people really ask: all questions were written from the documents")
    if questions.results and all(result.item.answerable for result in questions.results.values()):
        said.append("Whether the system declines where it should: every question has an answer")
    if not report.by_model():
        said.append("Whether the answers are faithful in meaning: no model judged them")
    if evaluation.system_declared is None and not evaluation.answered_nothing:
        said.append("Whether the system itself changed: it declares no version")
    return said


def more_questions(gated: Sequence[MetricComparison], effect: float, target: int, asked: int) -> MoreQuestions | None:
    """Where the shared questions are too few to see a drop of `effect` in some metric of the gate, how many would do.

    The smallest drop to be seen is made of what varies between runs, which shrinks with the root of the number of
    questions, and of what one question more weighs, which shrinks with the number itself: the need lies in between,
    if the new questions are spread over documents as these are, and as many of them are shared. So it is more than the
    `asked` ones, which do not do.
    """
    blind = [
        row for row in gated if row.difference is not None and (row.smallest_drop is None or row.smallest_drop > effect)
    ]
    if not blind:
        return None
    ratios = [row.smallest_drop / effect for row in blind if row.smallest_drop is not None]
    if len(ratios) < len(blind):
        return MoreQuestions(effect, target, None, None)
    worst = max(ratios)
    return MoreQuestions(effect, target, _next_ten(asked * worst), _next_ten(asked * worst**2))


def _next_ten(count: float) -> int:
    return 10 * math.ceil(count / 10)


def _groups(questions: Questions, metric_id: str, report: EvaluationReport) -> dict[str, list[Group]]:
    """A metric by category, document, language and length of the question; worst first."""
    results = questions.results
    by: dict[str, dict[str, Sequence[str]]] = {
        "category": {id: (result.item.category,) for id, result in results.items()},
        "document": {id: sorted(result.item.document_ids) for id, result in results.items()},
        "language": {id: (language_of(result.item),) for id, result in results.items()},
        "length of the question": {id: (_length(result.item.question),) for id, result in results.items()},
        "origin": {id: (result.item.origin,) for id, result in results.items()},
    }
    clusters = {id: result.item.cluster for id, result in results.items()}
    column = {id: outcome for id, outcome in questions.outcomes.get(metric_id, {}).items() if id in results}
    scores = questions.pair.scores.get(metric_id) if questions.pair is not None else None
    before = scores.before if scores is not None and scores.is_comparable else {}
    sign = 1 if report.summaries[metric_id].higher_is_better else -1
    found: dict[str, list[Group]] = {}
    for name, groups_of in by.items():
        summaries = breakdown(column, groups_of, clusters)
        groups = [
            Group(
                group,
                summary.n_scored,
                summary.mean,
                summary.ci_low,
                summary.ci_high,
                _mean(before.get(id) for id, groups in groups_of.items() if group in groups),
            )
            for group, summary in summaries.items()
            if summary.n_scored
        ]
        if len(groups) > 1:
            # A single question says little of its group: it stands behind all that rest on several.
            groups.sort(key=lambda group: (group.n == 1, sign * (group.mean or 0.0), -group.n, group.name))
            found[name] = groups[:MOST_GROUPS]
    return found


def _length(question: str) -> str:
    words = len(question.split())
    return next(name for least, most, name in LENGTHS if least <= words <= most)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _trends(
    db: Database, evaluation: Evaluation, metric_ids: Sequence[str]
) -> dict[str, list[tuple[datetime, float | None]]]:
    """The means of the last runs of this dataset's name by this system, oldest first, by metric id."""
    wanted = set(metric_ids)
    found: dict[str, list[tuple[datetime, float | None]]] = {}
    for row in read_view(db, "metric_trend", client_id=evaluation.client_id):
        if (row["dataset_name"], row["system_name"]) != (evaluation.dataset_name, evaluation.system):
            continue
        if row["metric_id"] in wanted and row["finished_at"] is not None:
            found.setdefault(row["metric_id"], []).insert(0, (row["finished_at"], row["mean"]))
    return found


def _health(db: Database, dataset: Dataset, results: Mapping[str, Result]) -> Health:
    coverage = dataset.coverage.metadata()
    return Health(
        dataset=dataset,
        origins=Counter(result.item.origin for result in results.values()),
        verified=sum(result.item.human_verified for result in results.values()),
        flagged=len(dataset.flagged),
        difficulty=dataset.stats.get("median_difficulty"),
        difficulty_depth=dataset.stats.get("difficulty_depth") if dataset.stats.get("difficulty_measured") else None,
        rejected=Counter(dataset.stats.get("rejected", {})),
        document_coverage=coverage.get("document_coverage"),
        topic_coverage=coverage.get("topic_coverage"),
    )


def _speed(db: Database, evaluation: Evaluation) -> Speed:
    known = sorted(latencies(db, evaluation.id))

    def at(share: float) -> float | None:
        return known[min(int(share * len(known)), len(known) - 1)] if known else None

    return Speed(at(0.5), at(0.95), evaluation.cost_usd)
