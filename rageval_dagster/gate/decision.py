"""The gate: each evaluation against its reference, whether it regressed, since when and why, and what fails anew."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from rageval_dagster.errors import RagevalError
from rageval_dagster.evaluation.summary import EvaluationReport, is_by_model
from rageval_dagster.evaluation.verdict import too_many_errors
from rageval_dagster.gate.baselines import may_be_baseline, set_baseline
from rageval_dagster.gate.causes import CHANGED_ANSWERS, LOST_EVIDENCE, blamed, changes, lost_evidence
from rageval_dagster.gate.comparison import side_by_side
from rageval_dagster.gate.drift import check_judges, drift_change
from rageval_dagster.gate.held import Held
from rageval_dagster.gate.history import History, history_of
from rageval_dagster.gate.nights import LEAST_QUESTIONS
from rageval_dagster.gate.rescoring import rescore
from rageval_dagster.gate.spec import DEFAULT_GATE, UNREAD, UNREAD_DROP, GateSpec
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.records import Item, Outcome, Progress
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import comparisons as comparison_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.comparisons import Change, Judgement, MetricComparison, Verdict
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, evaluations_of_trigger, get_evaluation
from rageval_dagster.storage.scores import TIMES, Repeated

AskAgain = Callable[[Evaluation, Sequence[Item], Sequence[str]], Mapping[str, Mapping[str, Outcome]]]
"""Asks these items once more and scores them by the metrics with these ids: {metric id: {item id: outcome}}."""

BATCH = 32
"""Questions asked again between two writes: a kill loses at most this many."""

FIRST = Judgement("first", None, (), ())


@dataclass(frozen=True)
class Judged:
    """An evaluation at the gate: its judgement, and each of its metrics against the baseline."""

    evaluation: Evaluation
    judgement: Judgement
    comparisons: tuple[MetricComparison, ...]

    @property
    def gated(self) -> list[MetricComparison]:
        return [row for row in self.comparisons if row.gated]

    @property
    def regressed(self) -> list[MetricComparison]:
        return [row for row in self.gated if row.decision == "regressed"]

    @property
    def changed_answers(self) -> list[MetricComparison]:
        """The rows by which the answers became others that no judge model reads; none where that decides nothing."""
        told = {each.what for each in self.judgement.changes}
        # Of a run from before that was stored, nothing else tells why it is unclear.
        is_unexplained = (
            self.judgement.verdict == "unclear"
            and LOST_EVIDENCE not in told
            and not any(row.decision == "unclear" for row in self.gated)
        )
        is_told = CHANGED_ANSWERS in told or is_unexplained
        return _changed(self.comparisons) if is_told else []


@dataclass(frozen=True)
class GateContext:
    """What judging needs beside the evaluations: the gate's settings, metrics, models, and how to ask once more.

    `recorded` are the systems whose answers are recorded, so that there is nobody to ask. `tools_afresh` read no cache;
    without them nobody looks whether the judge has changed. `progress` is made for what is going on.
    """

    spec: GateSpec
    metrics_of: Callable[[Evaluation], Sequence[Metric]]
    tools: Callable[[], Tools]
    ask_again: AskAgain
    recorded: Collection[str] = ()
    tools_afresh: Callable[[], Tools] | None = None
    progress: Callable[[str], Progress] | None = None
    warn: Callable[[str], None] = lambda _: None


def judge_all(db: Database, reports: Sequence[EvaluationReport], context: GateContext) -> list[Judged]:
    """Holds the evaluations of one trigger against their references and stores what came of it.

    Judging them again gives the same. Models that cannot be asked stop nothing: what cannot be said without them is not
    said.
    """
    groups = len({(each.evaluation.dataset_name, each.evaluation.system) for each in reports})
    return [_judge(db, report, context, groups) for report in sorted(reports, key=lambda each: each.evaluation.id)]


def judged_before(db: Database, evaluation: Evaluation) -> Judged:
    """What became of an evaluation at the gate, as it was stored."""
    judgement = comparison_storage.load_judgements(db, [evaluation.id])[evaluation.id]
    return Judged(evaluation, judgement, tuple(comparison_storage.load_comparisons(db, evaluation.id)))


def visible_drop(db: Database, evaluation: Evaluation, spec: GateSpec) -> float | None:
    """The drop that a later evaluation would show in each metric of the gate, if little but that drop had changed.

    None where in some metric it would show none.
    """
    drops = [row.smallest_drop for row in Held.of(db, history_of(db, evaluation, evaluation), spec).rows() if row.gated]
    known = [drop for drop in drops if drop is not None]
    return max(known) if known and len(known) == len(drops) else None


def judged_newest(db: Database, client_id: str) -> list[Judged]:
    """What became of the evaluations that the newest trigger started, but for those that failed."""
    found = evaluations_of_trigger(db, client_id)
    return [judged_before(db, evaluation) for evaluation in found if evaluation.status != "failed"]


def deciding(db: Database, found: Sequence[Judged]) -> list[Judged]:
    """Those that decide whether the gate is passed.

    A generated dataset of too few questions to show anything is unclear although nothing fell: where a larger one of
    its client and system passed, it decides nothing.
    """
    passed = {
        (each.evaluation.client_id, each.evaluation.system)
        for each in found
        if each.evaluation.item_count >= LEAST_QUESTIONS and each.judgement.verdict == "passed"
    }
    return [
        each
        for each in found
        if each.judgement.verdict != "unclear"
        or each.evaluation.item_count >= LEAST_QUESTIONS
        or (each.evaluation.client_id, each.evaluation.system) not in passed
        or each.judgement.newly_failing
        or _has_fallen(each)
        or benchmark_storage.get_dataset(db, each.evaluation.dataset_id).kind != "generated"
    ]


def _has_fallen(found: Judged) -> bool:
    """Whether a metric of the gate got worse, however little, or evidence was lost, or the answers changed."""
    told = {each.what for each in found.judgement.changes}
    return any((row.fall or 0.0) > 0.0 for row in found.gated) or not told.isdisjoint({LOST_EVIDENCE, CHANGED_ANSWERS})


def verdict_of(rows: Sequence[MetricComparison], failed: bool) -> Verdict | None:
    """The verdict on the gate's metrics: the worst of theirs; None where there is no metric to look at.

    Args:
        failed: whether the system failed on more questions than allowed.
    """
    decisions = {row.decision for row in rows}
    if "regressed" in decisions:
        return "regressed"
    if failed:
        return "failed"
    return "unclear" if "unclear" in decisions else "passed" if decisions else None


def changed_answers(rows: Sequence[MetricComparison], spec: GateSpec) -> list[MetricComparison]:
    """The rows by which the answers have surely become quite other ones, while no judge model reads them; none with a
    gate of the client's own."""
    return _changed(rows) if spec.metrics == DEFAULT_GATE else []


def _changed(rows: Sequence[MetricComparison]) -> list[MetricComparison]:
    if any(row.gated and is_by_model(row.metric_id) and row.mean is not None for row in rows):
        return []
    fallen = (row for row in rows if row.metric_id in UNREAD and not row.gated and row.decision == "regressed")
    return [row for row in fallen if (row.fall or 0.0) > UNREAD_DROP]


def _judge(db: Database, report: EvaluationReport, context: GateContext, groups: int) -> Judged:
    evaluation = report.evaluation
    baseline = comparison_storage.find_baseline(db, evaluation.client_id, evaluation.dataset_name, evaluation.system)
    if baseline is None:
        return _first(db, report, context)
    if baseline.evaluation_id >= evaluation.id:
        judged = judged_before(db, evaluation)
        if baseline.evaluation_id == evaluation.id and judged.judgement.verdict is None:  # killed in between
            judged = replace(judged, judgement=FIRST)
            _save(db, judged)
        return judged
    history = history_of(db, get_evaluation(db, baseline.evaluation_id), evaluation)
    progress = context.progress and context.progress("earlier outcomes computed by changed metrics")
    rescore(db, history, context.metrics_of(evaluation), context.tools, progress, context.warn)
    judged = _held_against(db, history, context, groups)
    _save(db, judged)
    # What one metric gains pays for no other's fall, be it within the tolerance: it would add up from run to run.
    fallen = any((row.fall or 0.0) > 0.0 for row in judged.gated)
    surely_better = judged.judgement.verdict == "passed" and any(row.better for row in judged.gated) and not fallen
    if context.spec.accept_better and surely_better and may_be_baseline(db, report, context.spec):
        set_baseline(db, evaluation, "better")
    return judged


def _first(db: Database, report: EvaluationReport, context: GateContext) -> Judged:
    """The first evaluation that can be told anything by: later ones are compared with it."""
    evaluation = report.evaluation
    usable = may_be_baseline(db, report, context.spec)
    if usable:
        _repeat(db, evaluation, context.spec.gated(report.summaries, evaluation.k, report.level), (), context)
        set_baseline(db, evaluation, "first")
    failed = _has_failed(evaluation, context.spec)
    judged = Judged(evaluation, FIRST if usable else replace(FIRST, verdict="failed" if failed else None), ())
    _save(db, judged)
    return judged


def _held_against(db: Database, history: History, context: GateContext, groups: int) -> Judged:
    evaluation, before = history.evaluations[-1], history.evaluations[0]
    held = Held.of(db, history, context.spec, groups)
    pair, failed = held.pair, _has_failed(evaluation, context.spec)
    if not failed:
        _repeat(db, evaluation, list(held.measured), held.turned(), context)
        if context.tools_afresh is not None:
            metrics = context.metrics_of(evaluation)
            fallen = {row.metric_id for row in held.as_judged if row.decision == "regressed"}
            check_judges(db, history, held.measured, fallen, metrics, context.tools_afresh, context.warn)
    rows = held.rows()
    verdict = verdict_of([row for row in rows if row.gated], failed)
    asked_again = evaluation.system not in context.recorded
    failing, passing = held.newly_failing(asked_again), held.newly_passing(asked_again)
    since, last_good = pair, before
    good = comparison_storage.last_good(db, evaluation)
    if good is not None and good != before.id:
        # What changed is told since the last evaluation that was good, if it shares any question with this one.
        last_good = get_evaluation(db, good)
        recent = side_by_side(db, last_good, evaluation)
        since = recent if recent.shared else pair
    found = changes(db, since)
    if not found and verdict == "regressed" and since is not pair:
        since, found = pair, changes(db, pair)
    scores = [since.scores[name] for name in held.gated if name in since.scores]
    worse, better = {each for of in scores for each in of.worse()}, {each for of in scores for each in of.better()}
    told = blamed(db, since, found, worse, better)
    if held.drifted:
        told = [drift_change(held.drifted), *told]
    if (lost := lost_evidence(db, before, last_good, evaluation)) is not None:
        told = [lost, *told]
        verdict = "unclear" if verdict == "passed" and lost.what == LOST_EVIDENCE else verdict
    if verdict in ("passed", "unclear") and (changed := changed_answers(rows, context.spec)):
        drops = " and ".join(f"{UNREAD[row.metric_id]} by {row.fall:.2f}" for row in changed)
        said = f"a drop of {drops}, and no judge model says whether the answers are still right"
        told, verdict = [Change(CHANGED_ANSWERS, said), *told], "unclear"
    return Judged(evaluation, Judgement(verdict, before.id, tuple(told), failing, asked_again, passing), tuple(rows))


def _has_failed(evaluation: Evaluation, spec: GateSpec) -> bool:
    return too_many_errors(evaluation.error_count, evaluation.item_count, spec.max_error_share)


def _repeat(
    db: Database, evaluation: Evaluation, gated: Sequence[str], turned: Collection[str], context: GateContext
) -> None:
    """Asks questions twice more, past every cache: those that join, and those that turned since they were first asked.

    A question joins where no evaluation of its system asked it three times by the gate's metrics. One that turned is
    asked unless the same version of the system was, when each metric last scored it three times, and its result is
    reused. What the system could not be asked is not stored: it joins the next time.
    """
    if evaluation.system_reference or evaluation.system in context.recorded or not gated:
        return
    versions = {each.metric_id: each.metric_version for each in score_storage.load_summaries(db, evaluation.id)}
    scores = score_storage.load_scores(db, evaluation.id, {name: versions[name] for name in gated if name in versions})
    gated = [name for name in gated if name in scores]
    keys = benchmark_storage.questions_asked(db, [evaluation.dataset_id])[evaluation.dataset_id]
    repeated = score_storage.load_repeated(db, evaluation)
    results = {row.item_id: row.result_id for row in result_storage.run_items(db, evaluation.id)}
    asked = []
    for item in benchmark_storage.remaining_items(db, evaluation.dataset_id):
        measured = {name for name in gated if (found := scores[name].get(item.item_id)) and found.value is not None}
        key, result_id = keys[item.item_id].key, results.get(item.item_id)
        newest = {name: each for each in repeated.get(key, []) for name in each.scores}
        if result_id is not None and any(
            name not in newest or (key in turned and not newest[name].is_of(evaluation, result_id)) for name in measured
        ):
            asked.append((item, result_id))
    progress = context.progress("questions asked three times") if context.progress is not None and asked else None
    for start in range(0, len(asked), BATCH):
        batch = asked[start : start + BATCH]
        items = [item for item, _ in batch]
        try:
            more = [context.ask_again(evaluation, items, gated) for _ in range(TIMES - 1)]
        except RagevalError as error:
            context.warn(f"{len(asked) - start} questions could not be asked again: {error}")
            return
        found = {}
        for item, result_id in batch:
            values = {name: _values([scores, *more], name, item) for name in gated}
            if known := {name: each for name, each in values.items() if each is not None}:
                key = keys[item.item_id].key
                found[key] = Repeated(evaluation.id, result_id, known, evaluation.versions.system)
        score_storage.save_repeated(db, evaluation, found)
        if progress is not None:
            progress(start + len(batch), len(asked))


def _values(
    times: Sequence[Mapping[str, Mapping[str, Outcome]]], metric_id: str, item: Item
) -> list[float | None] | None:
    """What an item scored each time, None where there was nothing to score; None where a time failed, or the first."""
    outcomes = [found for each in times if (found := each.get(metric_id, {}).get(item.item_id)) is not None]
    if len(outcomes) < TIMES or outcomes[0].value is None or any(each.status == "error" for each in outcomes):
        return None
    return [each.value for each in outcomes]


def _save(db: Database, judged: Judged) -> None:
    comparison_storage.save_comparisons(db, judged.evaluation.id, judged.comparisons)
    comparison_storage.save_judgement(db, judged.evaluation.id, judged.judgement)
