"""What a client's report says, gathered from the history: each newest evaluation with all that explains it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from rageval_dagster.benchmark.renewal import shortage
from rageval_dagster.evaluation.rightness import RIGHT, rightness_of
from rageval_dagster.evaluation.summary import EvaluationReport, contradictions, failures, report_of
from rageval_dagster.evaluation.verdict import good_value, is_below
from rageval_dagster.gate.causes import MOST_DOCUMENTS, GoneItem, documents_between, documents_told, gone_items
from rageval_dagster.gate.decision import Judged, judged_before
from rageval_dagster.gate.spec import GateSpec, seen_from
from rageval_dagster.labels.estimates import estimates_of
from rageval_dagster.rag.failures import remedy
from rageval_dagster.records import Item
from rageval_dagster.report.leaderboard import OBJECTIVE, Leaderboard, leaderboards
from rageval_dagster.report.questions import (
    QUADRANTS,
    Quadrant,
    Questions,
    language_of,
    questions_of,
)
from rageval_dagster.settings import Settings
from rageval_dagster.statistics.summaries import breakdown
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage.benchmark import Dataset, clusters_of
from rageval_dagster.storage.comparisons import Baseline, Change, MetricComparison, Reading, find_baseline, readings
from rageval_dagster.storage.corpus import DocumentChange, document_names
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, evaluations_by_id, list_evaluations
from rageval_dagster.storage.results import latencies
from rageval_dagster.storage.scores import Summary
from rageval_dagster.storage.views import read_view
from rageval_dagster.telling.advice import Advised, likely_causes, suspected
from rageval_dagster.telling.alarms import Alarm, client_alarms, failure_alarm, leak_alarm
from rageval_dagster.telling.calibration import calibration, self_agreement
from rageval_dagster.telling.verdicts import (
    MoreQuestions,
    Verdict,
    headline,
    headline_metrics,
    more_questions,
    verdict_of,
    what_settles,
)
from rageval_dagster.telling.words import capitalised, metric_name, number
from rageval_dagster.text import plural

MOST_GROUPS = 12
FIRST_QUESTIONS = 4
LENGTHS = ((8, "up to 8 words"), (15, "9 to 15 words"), (10**9, "over 15 words"))


@dataclass(frozen=True)
class Figure:
    """A metric as the report shows it. `comparison` is with the baseline, on shared questions; `calibrated` is what
    people's labels make of it, None where it needs no judge and has no label."""

    metric_id: str
    name: str
    summary: Summary
    good: float | None
    comparison: MetricComparison | None
    calibrated: str | None

    @property
    def tone(self) -> str:
        """`worse`, `better` or nothing: of the change, where the gate calls it real."""
        if self.comparison is None:
            return ""
        return "worse" if self.comparison.decision == "regressed" else "better" if self.comparison.better else ""

    @property
    def is_below(self) -> bool:
        """Whether its mean is worse than its good value."""
        return is_below(self.summary, self.good)


@dataclass(frozen=True)
class Group:
    """A metric over the questions of a group, with the baseline's mean on those that it shares."""

    name: str
    n: int
    mean: float | None
    before: float | None


@dataclass(frozen=True)
class EvaluationContents:
    """One evaluation with all that the report says of it.

    `actions` are what to do about what changed, `advice` about numbers that are low.
    `earlier` are the other runs of its dataset and system, by number. `failures` are why the system failed on how many
    questions, with what to do where that is known. `seconds` are how long answers took, shortest first.
    `names` are what people call the documents that the changes name, by id. `shortage` is why the
    dataset has fewer questions than it was to have. `stands_in` is whether the built-in answerer without a model gave
    the answers.
    """

    report: EvaluationReport
    stands_in: bool
    earlier: Sequence[int]
    judged: Judged
    verdict: Verdict
    more_questions: MoreQuestions | None
    failures: Sequence[tuple[str, int, str | None]]
    documents: Mapping[str, DocumentChange]
    names: Mapping[str, str]
    gone: Sequence[GoneItem]
    first: Sequence[Figure]
    figures: Sequence[Figure]
    actions: Sequence[str]
    advice: Sequence[Advised]
    baseline: Baseline | None
    readings: Sequence[Reading]
    told_by: str | None
    groups: Mapping[str, Sequence[Group]]
    grouped_by_metric: str | None
    trends: Mapping[str, Sequence[tuple[datetime, float | None]]]
    dataset: Dataset
    shortage: str | None
    seconds: Sequence[float]
    questions: Questions

    @property
    def evaluation(self) -> Evaluation:
        return self.report.evaluation

    @property
    def sentence(self) -> str:
        return headline(self.verdict, self.report.headline())

    def examples(self, change: Change) -> list[str]:
        """The first documents that a change names, as people call them."""
        return [self.names[each] for each in change.documents[:MOST_DOCUMENTS] if each in self.names]

    @property
    def settles(self) -> str | None:
        """What to do where documents are gone."""
        if self.verdict.gone is None:
            return None
        if self.verdict.lost_evidence is None:
            return "If that was not intended, restore the documents"
        return capitalised(what_settles(self.verdict))

    @property
    def has_before(self) -> bool:
        """Whether there is something to say of what was before: not of a first run that measured something."""
        return self.judged.judgement.baseline_id is not None or self.evaluation.answered_nothing

    @property
    def suffering(self) -> list[dict[str, Any]]:
        """The questions to look at first: those that leaked, else newly fail, else fell most, else went worst."""
        rows = {row["id"]: row for row in self.questions.rows}
        deepest_first = sorted(rows, key=lambda id: -rows[id].get("d", 0.0))
        leaking = [id for id in rows if rows[id].get("lk")]
        failing = [id for id in deepest_first if rows[id].get("n")]
        has_fallen = self.judged.regressed or self.verdict.answers_unread
        fallen = [id for id in deepest_first if rows[id].get("d", 0.0) > 0] if has_fallen else []
        return [
            rows[id] for id in (leaking or failing or fallen or self.report.by_badness)[:FIRST_QUESTIONS] if id in rows
        ]

    @property
    def leading(self) -> list[Advised]:
        """The likely causes to read first: at most two, none that says nothing of the questions that failed."""
        return [each for each in self.advice if each.is_telling][:2]

    @property
    def items(self) -> list[Item]:
        """The questions, as far as their texts are kept."""
        return [result.item for result in self.questions.results.values()]

    @property
    def origins(self) -> Counter[str]:
        return Counter(item.origin for item in self.items)

    @property
    def verified(self) -> int:
        """How many questions a person has checked."""
        return sum(item.human_verified for item in self.items)

    @property
    def quadrants(self) -> dict[Quadrant, int]:
        """How many questions are in each."""
        counts = Counter(self.questions.quadrants)
        return {name: counts[name] for name in QUADRANTS}

    def taken_by(self, share: float) -> float | None:
        """The seconds in which this share of the answers came; None where it was not measured."""
        return self.seconds[min(int(share * len(self.seconds)), len(self.seconds) - 1)] if self.seconds else None

    @property
    def cannot_tell(self) -> list[str]:
        """What these numbers say nothing of, in sentences."""
        evaluation, dataset, said = self.evaluation, self.dataset, []
        if evaluation.system_reference:
            said.append(f"How good your own system is: {evaluation.system} is a built-in reference over your documents")
        for row in (row for row in self.judged.gated if row.decision != "regressed"):
            drops, shared = f"Drops in {metric_name(row.metric_id)}", plural(row.n_shared, "question")
            if row.smallest_drop is not None:
                seen = number(seen_from(row.smallest_drop))
                said.append(f"{drops} of less than {seen}: {shared} in both runs are too few to see them")
            elif row.difference is not None:
                said.append(f"{drops}: {shared} cannot show them reliably")
        if self.judged.judgement.verdict == "first":
            said.append(f"Small differences: there are {plural(evaluation.item_count, 'question')}")
        untouched = 0 if dataset.documents_touched is None else (dataset.documents or 0) - dataset.documents_touched
        if untouched > 0:
            said.append(f"{plural(untouched, 'document')} of {dataset.documents:,}: no question is about them")
        if self.items and not self.verified:
            said.append("Whether the questions are good ones: no person has checked any")
        if self.items and set(self.origins) <= {"extractive", "llm"}:
            said.append("What people really ask: all questions were written from the documents")
        if self.items and all(item.answerable for item in self.items):
            said.append("Whether the system declines where it should: every question has an answer")
        if not self.report.by_model():
            said.append("Whether the answers are faithful in meaning: no model judged them")
        if evaluation.system_declared is None and not evaluation.answered_nothing:
            said.append("Whether the system itself changed: it declares no version")
        return said


@dataclass(frozen=True)
class ClientContents:
    """What a client's report says: first the alarms, then its newest evaluations, those that got worse first.

    `gated` are the metrics of the gate, by id.
    """

    client_id: str
    alarms: Sequence[Alarm]
    evaluations: Sequence[EvaluationContents]
    leaderboards: Sequence[Leaderboard]
    gated: Sequence[str]


def client_contents(
    db: Database, settings: Settings, client_id: str, redact: bool = False, objective: str | None = None
) -> ClientContents:
    """The newest complete evaluation of each of a client's datasets by each system, without retired datasets.

    Those of the systems that the settings evaluate come first, of these those that leak, then those that got worse, and
    of several such the one with the most questions.

    `settings` are the client's own. With `redact` there are ids and numbers only. By `objective`, a metric's id,
    systems on the same questions are ranked; None: by the first metric of the gate that several of them have.
    """
    retired = {each.id for each in benchmark_storage.list_datasets(db, client_id) if each.retired_at is not None}
    newest: dict[tuple[str, str], Evaluation] = {}
    runs: dict[tuple[str, str], list[int]] = {}
    for evaluation in list_evaluations(db, client_id=client_id, limit=None):
        of = evaluation.dataset_name, evaluation.system
        runs.setdefault(of, []).append(evaluation.id)
        if evaluation.status == "complete" and evaluation.dataset_id not in retired:
            newest.setdefault(of, evaluation)
    found = [_evaluation_contents(db, settings, each, runs[of], redact) for of, each in newest.items()]
    found.sort(
        key=lambda each: (
            each.evaluation.system not in settings.system,
            each.verdict.gravity,
            -each.evaluation.id,
        )
    )
    shown = [each.evaluation for each in found]
    newest_trigger = max(shown, key=lambda each: each.id).trigger if shown else None
    now = [each for each in shown if each.system in settings.system or each.trigger == newest_trigger]
    alarms = [
        *(leak_alarm(db, each) for each in now),
        *client_alarms(db, client_id),
        # Where there is but one, its verdict, which stands right below, begins with that.
        *(failure_alarm(each, settings.max_error_share) for each in now if len(shown) > 1),
    ]
    spec = GateSpec.from_settings(settings)
    of_each = [spec.gated(each.report.summaries, each.evaluation.k, each.report.level) for each in found]
    gated = list(dict.fromkeys(chain(*of_each)))
    boards = leaderboards(db, list(newest.values()), *([*gated, OBJECTIVE] if objective is None else [objective]))
    return ClientContents(client_id, [each for each in alarms if each is not None], found, boards, gated)


def _evaluation_contents(
    db: Database, settings: Settings, evaluation: Evaluation, runs: Sequence[int], redact: bool
) -> EvaluationContents:
    """What the report says of one complete evaluation; `runs` are all of its dataset and system, by number."""
    report, judged = report_of(db, evaluation), judged_before(db, evaluation)
    spec, changes, baseline_id = (
        GateSpec.from_settings(settings),
        judged.judgement.changes,
        judged.judgement.baseline_id,
    )
    compared = {row.metric_id: row for row in judged.comparisons}
    labelled = estimates_of(db, [evaluation])[evaluation.id]
    varying = contradictions(db, report)
    figures = [
        Figure(
            name,
            metric_name(name),
            summary,
            good_value(summary, settings.thresholds),
            compared.get(name),
            "; ".join(filter(None, [calibration(name, labelled.get(name)), self_agreement(varying.get(name))])) or None,
        )
        for name, summary in report.summaries.items()
    ]
    by_id = {figure.metric_id: figure for figure in figures}
    gated = spec.gated(report.summaries, evaluation.k, report.level)
    questions = questions_of(db, report, judged, [each.metric_id for each in figures], redact)
    rightness = rightness_of(report.summaries)
    grouped = next((name for name in gated if name.endswith("mrr")), next(iter(gated), None))
    # The evaluation since which there are the changes that are told, if it is kept.
    since = [change.since for change in changes if change.since is not None and not redact]
    earlier = next(iter(evaluations_by_id(db, since[:1]).values()), None)
    changed = {change.what for change in changes} if earlier is not None else set()
    documents: Mapping[str, DocumentChange] = {}
    if earlier is not None and "corpus" in changed:
        documents = documents_between(db, earlier, evaluation)
        names = document_names(db, evaluation.client_id, documents)
        documents = {names[document_id]: change for document_id, change in documents.items()}
    return EvaluationContents(
        report=report,
        stands_in=evaluation.system_reference and settings.answer_model is None,
        earlier=[run for run in runs if run != evaluation.id],
        judged=judged,
        verdict=verdict_of(db, judged, spec.max_error_share),
        more_questions=None
        if judged.regressed
        else more_questions(judged.gated, spec.effect, settings.target_items, evaluation.item_count),
        failures=[
            (reason, count, remedy(reason, evaluation.system))
            for reason, count in failures(db, evaluation).most_common()
        ],
        documents=documents,
        names={} if redact else documents_told(db, evaluation, changes),
        gone=gone_items(db, earlier, evaluation) if earlier is not None and "dataset" in changed else [],
        first=[
            by_id[each.metric_id]
            for each in headline_metrics(report.summaries, [*gated, *settings.thresholds], evaluation.k)
        ],
        figures=figures,
        actions=[each.advice.action for each in suspected(changes, [row.metric_id for row in judged.regressed])],
        advice=likely_causes(db, report, settings.thresholds),
        baseline=find_baseline(db, evaluation.client_id, evaluation.dataset_name, evaluation.system),
        readings=[] if baseline_id is None else readings(db, evaluation, baseline_id),
        told_by=None if rightness is None else f"{metric_name(rightness)} of at least {number(RIGHT)}",
        groups={}
        if grouped is None or redact
        else _groups(questions, clusters_of(db, [evaluation.dataset_id]), report.summaries[grouped]),
        grouped_by_metric=grouped,
        trends={name: trend for name, trend in _trends(db, evaluation).items() if name in report.summaries},
        dataset=(dataset := benchmark_storage.get_dataset(db, evaluation.dataset_id)),
        shortage=shortage(db, dataset),
        seconds=sorted(latencies(db, evaluation.id)),
        questions=questions,
    )


def _groups(questions: Questions, clusters: Mapping[str, str], of: Summary) -> dict[str, list[Group]]:
    """A metric by category, document, language, length and origin of the question; worst first."""
    items = {id: result.item for id, result in questions.results.items()}
    by: dict[str, dict[str, Sequence[str]]] = {
        "category": {id: (item.category,) for id, item in items.items()},
        "document": {id: sorted(questions.names[each] for each in item.document_ids) for id, item in items.items()},
        "language": {id: (language_of(item),) for id, item in items.items()},
        "length of the question": {id: (_length(item.question),) for id, item in items.items()},
        "origin": {id: (item.origin,) for id, item in items.items()},
    }
    column = {id: outcome for id, outcome in questions.outcomes.get(of.metric_id, {}).items() if id in items}
    scores = questions.pair.scores.get(of.metric_id) if questions.pair is not None else None
    before = scores.before if scores is not None and scores.is_comparable else {}
    sign = 1 if of.higher_is_better else -1
    found: dict[str, list[Group]] = {}
    for name, groups_of in by.items():
        groups = [
            Group(
                group,
                summary.n_scored,
                summary.mean,
                _mean(before.get(id) for id, groups in groups_of.items() if group in groups),
            )
            for group, summary in breakdown(column, groups_of, clusters).items()
            if summary.n_scored
        ]
        if len(groups) > 1:
            # A single question says little of its group: it stands behind all that rest on several.
            groups.sort(key=lambda group: (group.n == 1, sign * (group.mean or 0.0), -group.n, group.name))
            found[name] = groups[:MOST_GROUPS]
    return found


def _length(question: str) -> str:
    words = len(question.split())
    return next(name for most, name in LENGTHS if words <= most)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _trends(db: Database, evaluation: Evaluation) -> dict[str, list[tuple[datetime, float | None]]]:
    """The means of the last runs of this dataset's name by this system, oldest first, by metric id."""
    found: dict[str, list[tuple[datetime, float | None]]] = {}
    for row in read_view(db, "metric_trend", client_id=evaluation.client_id):
        of = row["dataset_name"], row["system_name"]
        if of == (evaluation.dataset_name, evaluation.system) and row["finished_at"] is not None:
            found.setdefault(row["metric_id"], []).insert(0, (row["finished_at"], row["mean"]))
    return found
