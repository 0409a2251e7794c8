"""The gate: each evaluation against its baseline, whether it regressed, since when and why, and what fails anew."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rageval_dagster.errors import RagevalError
from rageval_dagster.evaluation.bridging import LEAST_SHARED, shared_count
from rageval_dagster.evaluation.summary import EvaluationReport, headline_level
from rageval_dagster.gate.baselines import may_be_baseline, takes_over
from rageval_dagster.gate.causes import blamed, changes
from rageval_dagster.gate.comparison import Pair, compare_metrics, side_by_side, unmeasured
from rageval_dagster.gate.rescoring import rescore
from rageval_dagster.gate.spec import MOST_ASKED_AGAIN, GateSpec
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.records import Item, Outcome, Progress
from rageval_dagster.storage import comparisons as comparison_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage.comparisons import Change, Judgement, MetricComparison, Verdict
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, evaluations_of_trigger, get_evaluation

AskAgain = Callable[[Evaluation, Sequence[Item], Sequence[str]], Mapping[str, Mapping[str, Outcome]]]
"""Asks these items once more and scores them by the metrics with these ids: {metric id: {item id: outcome}}."""

FIRST = Judgement("first", None, (), ())
ON_OLD_DATASET = "on the questions of the dataset before, which evaluation {} asked once more"


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


@dataclass(frozen=True)
class Bench:
    """What judging needs beside the evaluations: the gate's settings, metrics, models, and how to ask once more.

    `named`: somebody chose these datasets, so that none of them becomes a baseline by itself.
    """

    spec: GateSpec
    metrics_of: Callable[[Evaluation], Sequence[Metric]]
    tools: Callable[[], Tools]
    ask_again: AskAgain
    named: bool = False
    progress: Progress | None = None
    warn: Callable[[str], None] = lambda _: None


def judge_all(db: Database, reports: Sequence[EvaluationReport], bench: Bench) -> list[Judged]:
    """Holds the evaluations of one trigger against their baselines and stores what came of it.

    Where a dataset was evaluated once more because the one that took its place shares too few questions with the
    baseline, the new one is judged by it, and becomes the baseline unless it regressed. Judging them again gives the
    same. Models that cannot be asked stop nothing: what cannot be said without them is not said.
    """
    groups = len({(each.evaluation.dataset_name, each.evaluation.system) for each in reports})
    found: list[Judged] = []
    for report in sorted(reports, key=lambda report: report.evaluation.id):
        found.append(_judge(db, report, found, bench, groups))
    return found


def judged_before(db: Database, evaluation: Evaluation) -> Judged:
    """What became of an evaluation at the gate, as it was stored."""
    judgement = comparison_storage.load_judgements(db, [evaluation.id])[evaluation.id]
    return Judged(evaluation, judgement, tuple(comparison_storage.load_comparisons(db, evaluation.id)))


def visible_drop(db: Database, evaluation: Evaluation, spec: GateSpec) -> float | None:
    """The drop that a later evaluation would show in each metric of the gate, if little but that drop had changed.

    None where in some metric it would show none.
    """
    pair = side_by_side(db, evaluation, evaluation)
    gated = spec.gated(pair.summaries, evaluation.k, headline_level(list(pair.summaries.values())))
    drops = [row.smallest_drop for row in compare_metrics(pair, spec.gate(gated, 1), gated) if row.gated]
    known = [drop for drop in drops if drop is not None]
    return max(known) if known and len(known) == len(drops) else None


def judged_newest(db: Database, client_id: str) -> list[Judged]:
    """What became of the evaluations that the newest trigger started, but for those that failed."""
    found = evaluations_of_trigger(db, client_id)
    return [judged_before(db, evaluation) for evaluation in found if evaluation.status != "failed"]


def verdict_of(rows: Sequence[MetricComparison], effect: float) -> Verdict | None:
    """The verdict on the gate's metrics: too few where one was not compared, or a drop of `effect` could go unseen.

    None where there is no metric to look at.
    """
    if any(row.decision == "regressed" for row in rows):
        return "regressed"
    blind = any(
        row.decision == "not_comparable" or row.smallest_drop is None or row.smallest_drop > effect for row in rows
    )
    return "too_few" if blind else "passed" if rows else None


def _judge(db: Database, report: EvaluationReport, found: Sequence[Judged], bench: Bench, groups: int) -> Judged:
    evaluation = report.evaluation
    baseline = comparison_storage.find_baseline(db, evaluation.client_id, evaluation.dataset_name, evaluation.system)
    if baseline is None:
        return _first(db, report, bench)
    if baseline.evaluation_id >= evaluation.id:
        judged = judged_before(db, evaluation)
        if baseline.evaluation_id == evaluation.id and judged.judgement.verdict is None:  # killed in between
            judged = replace(judged, judgement=FIRST)
            _save(db, judged)
        return judged
    before = get_evaluation(db, baseline.evaluation_id)
    bridge = _bridge(db, found, evaluation, before)
    if bridge is not None:
        judged = _judged_by(db, report, bridge)
        new_baseline = judged.judgement.verdict != "regressed"
        _save(db, judged)
    else:
        scorable = _rescored(db, before, evaluation, bench)
        judged, pair = _held_against(db, evaluation, before, bench.spec, groups)
        _save(db, judged)
        judged = _with_newly_failing(db, judged, pair, bench)
        new_baseline = (
            scorable
            and judged.judgement.verdict != "regressed"
            and takes_over(db, evaluation, before, judged.gated, bench.spec)
        )
    if new_baseline and not bench.named and may_be_baseline(db, report, bench.spec):
        comparison_storage.save_baseline(db, evaluation, "carried_over")
    return judged


def _first(db: Database, report: EvaluationReport, bench: Bench) -> Judged:
    """The first evaluation that can be told anything by: later ones are compared with it."""
    evaluation = report.evaluation
    usable = may_be_baseline(db, report, bench.spec)
    if usable:
        comparison_storage.save_baseline(db, evaluation, "first")
    judged = Judged(evaluation, FIRST if usable else replace(FIRST, verdict=None), ())
    _save(db, judged)
    return judged


def _rescored(db: Database, before: Evaluation, evaluation: Evaluation, bench: Bench) -> bool:
    """Lets changed metrics score the baseline's answers; False where their models could not be asked."""
    try:
        rescore(db, before, evaluation, bench.metrics_of(evaluation), bench.tools, bench.progress)
    except RagevalError as error:
        bench.warn(f"the answers of evaluation {before.id} could not be scored by the judge of now: {error}")
        return False
    return True


def _held_against(
    db: Database, evaluation: Evaluation, before: Evaluation, spec: GateSpec, groups: int
) -> tuple[Judged, Pair]:
    pair = side_by_side(db, before, evaluation)
    level = headline_level(list(pair.earlier.values()))
    gated = spec.gated({**pair.earlier, **pair.summaries}, evaluation.k, level)
    rows = (*compare_metrics(pair, spec.gate(gated, groups), gated), *unmeasured(pair, gated))
    verdict = verdict_of([row for row in rows if row.gated], spec.effect)
    since = _last_good(db, pair)
    found = changes(db, since)
    if not found and verdict == "regressed" and since is not pair:
        since, found = pair, changes(db, pair)
    worse = [name for name in gated if name in since.scores]
    told = blamed(db, since, found, dict.fromkeys(each for name in worse for each in since.scores[name].worse()))
    return Judged(evaluation, Judgement(verdict, before.id, tuple(told), ()), rows), pair


def _last_good(db: Database, pair: Pair) -> Pair:
    """The pair with the last evaluation that had not regressed, if it shares enough with this one to tell anything."""
    good = comparison_storage.last_good(db, pair.now)
    if good is None or good == pair.before.id:
        return pair
    evaluation = get_evaluation(db, good)
    alike = evaluation.dataset_id == pair.now.dataset_id
    if not alike and shared_count(db, evaluation.dataset_id, pair.now.dataset_id) < LEAST_SHARED:
        return pair
    return side_by_side(db, evaluation, pair.now)


def _with_newly_failing(db: Database, judged: Judged, pair: Pair, bench: Bench) -> Judged:
    """With the items that were right, are wrong now, and wrong again when they are asked again.

    At most fifty are asked. Where an item has the very result of the evaluation before, it was asked then.
    """
    scores = {row.metric_id: pair.scores[row.metric_id] for row in judged.gated if row.metric_id in pair.scores}
    wrong = {name: set(each.newly_wrong()) for name, each in scores.items() if each.is_comparable}
    suspects = sorted(set().union(*wrong.values()))[:MOST_ASKED_AGAIN]
    known = _asked_before(db, pair, suspects)
    asked = [item_id for item_id in suspects if item_id not in known]
    try:
        again = bench.ask_again(pair.now, [pair.shared[item_id] for item_id in asked], list(wrong)) if asked else {}
    except RagevalError as error:
        bench.warn(f"questions that newly fail could not be asked again: {error}")
        return judged
    failing = tuple(
        item_id
        for item_id in suspects
        if known.get(item_id)
        or any(
            item_id in items and scores[name].is_wrong(again.get(name, {}).get(item_id))
            for name, items in wrong.items()
            if item_id in asked
        )
    )
    if not failing:
        return judged
    judged = replace(judged, judgement=replace(judged.judgement, newly_failing=failing))
    comparison_storage.save_judgement(db, pair.now.id, judged.judgement)
    return judged


def _asked_before(db: Database, pair: Pair, suspects: Sequence[str]) -> dict[str, bool]:
    """Whether the suspects with the very result of the evaluation before, held against the same baseline, failed."""
    previous = comparison_storage.judged_before(db, pair.now, pair.before.id) if suspects else None
    if previous is None:
        return {}
    earlier, now = (
        {row.item_id: row.result_id for row in result_storage.run_items(db, each)} for each in (previous, pair.now.id)
    )
    failed = comparison_storage.load_judgements(db, [previous])[previous].newly_failing
    return {each: each in failed for each in suspects if now.get(each) is not None and earlier.get(each) == now[each]}


def _bridge(db: Database, found: Sequence[Judged], evaluation: Evaluation, before: Evaluation) -> Judged | None:
    """The evaluation of the same trigger that asked the baseline's questions once more, if they are asked for that."""
    if shared_count(db, before.dataset_id, evaluation.dataset_id) >= LEAST_SHARED:
        return None
    return next(
        (
            judged
            for judged in found
            if judged.evaluation.dataset_id == before.dataset_id != evaluation.dataset_id
            and judged.evaluation.system == evaluation.system
            and judged.judgement.baseline_id == before.id
        ),
        None,
    )


def _judged_by(db: Database, report: EvaluationReport, bridge: Judged) -> Judged:
    """What the old questions say holds for the new ones, which the baseline was never asked."""
    evaluation = report.evaluation
    remark = ON_OLD_DATASET.format(bridge.evaluation.id)
    rows = tuple(replace(row, remark=row.remark or remark) for row in bridge.comparisons)
    shared = shared_count(db, bridge.evaluation.dataset_id, evaluation.dataset_id)
    renewed = Change("dataset", f"{shared} shared questions, {evaluation.item_count - shared} new")
    judgement = replace(bridge.judgement, changes=(*bridge.judgement.changes, renewed))
    return Judged(evaluation, judgement, rows)


def _save(db: Database, judged: Judged) -> None:
    comparison_storage.save_comparisons(db, judged.evaluation.id, judged.comparisons)
    comparison_storage.save_judgement(db, judged.evaluation.id, judged.judgement)
