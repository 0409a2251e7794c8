"""The gate: each evaluation against its reference, whether it regressed, since when and why, and what fails anew."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rageval_dagster.errors import RagevalError
from rageval_dagster.evaluation.summary import EvaluationReport, headline_level
from rageval_dagster.evaluation.verdict import too_many_errors
from rageval_dagster.gate.baselines import may_be_baseline
from rageval_dagster.gate.causes import blamed, changes
from rageval_dagster.gate.comparison import Pair, Scores, side_by_side
from rageval_dagster.gate.history import History, compare_metrics, history_of
from rageval_dagster.gate.rescoring import rescore
from rageval_dagster.gate.spec import MOST_ASKED_AGAIN, GateSpec
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.records import Item, Outcome, Progress
from rageval_dagster.storage import comparisons as comparison_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage.comparisons import Judgement, MetricComparison, Verdict
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, evaluations_of_trigger, get_evaluation

AskAgain = Callable[[Evaluation, Sequence[Item], Sequence[str]], Mapping[str, Mapping[str, Outcome]]]
"""Asks these items once more and scores them by the metrics with these ids: {metric id: {item id: outcome}}."""

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


@dataclass(frozen=True)
class Bench:
    """What judging needs beside the evaluations: the gate's settings, metrics, models, and how to ask once more."""

    spec: GateSpec
    metrics_of: Callable[[Evaluation], Sequence[Metric]]
    tools: Callable[[], Tools]
    ask_again: AskAgain
    progress: Progress | None = None
    warn: Callable[[str], None] = lambda _: None


def judge_all(db: Database, reports: Sequence[EvaluationReport], bench: Bench) -> list[Judged]:
    """Holds the evaluations of one trigger against their references and stores what came of it.

    Judging them again gives the same. Models that cannot be asked stop nothing: what cannot be said without them is not
    said.
    """
    groups = len({(each.evaluation.dataset_name, each.evaluation.system) for each in reports})
    return [_judge(db, report, bench, groups) for report in sorted(reports, key=lambda each: each.evaluation.id)]


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
    rows = compare_metrics(db, history_of(db, evaluation, evaluation), pair, gated, spec)
    drops = [row.smallest_drop for row in rows if row.gated]
    known = [drop for drop in drops if drop is not None]
    return max(known) if known and len(known) == len(drops) else None


def judged_newest(db: Database, client_id: str) -> list[Judged]:
    """What became of the evaluations that the newest trigger started, but for those that failed."""
    found = evaluations_of_trigger(db, client_id)
    return [judged_before(db, evaluation) for evaluation in found if evaluation.status != "failed"]


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


def _judge(db: Database, report: EvaluationReport, bench: Bench, groups: int) -> Judged:
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
    history = history_of(db, get_evaluation(db, baseline.evaluation_id), evaluation)
    _rescored(db, history, bench)
    judged = _held_against(db, history, bench, groups)
    _save(db, judged)
    surely_better = judged.judgement.verdict == "passed" and any(row.better for row in judged.gated)
    if bench.spec.accept_better and surely_better and may_be_baseline(db, report, bench.spec):
        comparison_storage.save_baseline(db, evaluation, "better")
    return judged


def _first(db: Database, report: EvaluationReport, bench: Bench) -> Judged:
    """The first evaluation that can be told anything by: later ones are compared with it."""
    evaluation = report.evaluation
    usable = may_be_baseline(db, report, bench.spec)
    if usable:
        comparison_storage.save_baseline(db, evaluation, "first")
    failed = _has_failed(evaluation, bench.spec)
    judged = Judged(evaluation, FIRST if usable else replace(FIRST, verdict="failed" if failed else None), ())
    _save(db, judged)
    return judged


def _rescored(db: Database, history: History, bench: Bench) -> None:
    """Lets changed metrics score the answers of the reference, and of what links it with now."""
    evaluation, asked = history.evaluations[-1], history.linked_items
    for before in history.links[:-1]:
        try:
            rescore(db, before, evaluation, asked, bench.metrics_of(evaluation), bench.tools, bench.progress)
        except RagevalError as error:
            bench.warn(f"the answers of evaluation {before.id} could not be scored by the judge of now: {error}")


def _held_against(db: Database, history: History, bench: Bench, groups: int) -> Judged:
    evaluation, before, spec = history.evaluations[-1], history.evaluations[0], bench.spec
    pair = side_by_side(db, before, evaluation)
    level = headline_level(list(pair.earlier.values()))
    gated = spec.gated({**pair.earlier, **pair.summaries}, evaluation.k, level)
    failing = _newly_failing(db, pair, gated, bench)
    rows = compare_metrics(db, history, pair, gated, spec, groups)
    verdict = verdict_of([row for row in rows if row.gated], _has_failed(evaluation, spec))
    since = _last_good(db, pair)
    found = changes(db, since)
    if not found and verdict == "regressed" and since is not pair:
        since, found = pair, changes(db, pair)
    worse = [name for name in gated if name in since.scores]
    told = blamed(db, since, found, dict.fromkeys(each for name in worse for each in since.scores[name].worse()))
    return Judged(evaluation, Judgement(verdict, before.id, tuple(told), failing), tuple(rows))


def _has_failed(evaluation: Evaluation, spec: GateSpec) -> bool:
    return too_many_errors(evaluation.error_count, evaluation.item_count, spec.max_error_share)


def _last_good(db: Database, pair: Pair) -> Pair:
    """The pair with the last evaluation that was found to be good, if it shares any question with this one."""
    good = comparison_storage.last_good(db, pair.now)
    if good is None or good == pair.before.id:
        return pair
    since = side_by_side(db, get_evaluation(db, good), pair.now)
    return since if since.shared else pair


def _newly_failing(db: Database, pair: Pair, gated: Sequence[str], bench: Bench) -> tuple[str, ...]:
    """The items that were right, are wrong now, and wrong again when they are asked again.

    A built-in system would say the same. At most fifty questions of another are asked; where an item has the very
    result of the evaluation before, it was asked then.
    """
    scores = {name: pair.scores[name] for name in gated if name in pair.scores}
    scores = {name: each for name, each in scores.items() if each.is_comparable}
    wrong = {name: set(each.newly_wrong()) for name, each in scores.items()}
    suspects = sorted(set().union(*wrong.values()))
    if pair.now.system_reference:
        return tuple(suspects)
    suspects = suspects[:MOST_ASKED_AGAIN]
    known = _asked_before(db, pair, suspects)
    asked = [item_id for item_id in suspects if item_id not in known]
    try:
        again = bench.ask_again(pair.now, [pair.shared[item_id] for item_id in asked], list(wrong)) if asked else {}
    except RagevalError as error:
        bench.warn(f"questions that newly fail could not be asked again: {error}")
        return ()
    failing = [
        item_id
        for item_id in suspects
        if known.get(item_id)
        or any(
            item_id in items and _is_wrong(scores[name], again.get(name, {}).get(item_id))
            for name, items in wrong.items()
            if item_id in asked
        )
    ]
    return tuple(failing)


def _is_wrong(scores: Scores, outcome: Outcome | None) -> bool:
    """Whether an item that was asked again is wrong again; what failed, or was not asked, counts as wrong."""
    return outcome is None or outcome.value is None or not scores.is_right(outcome.value)


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


def _save(db: Database, judged: Judged) -> None:
    comparison_storage.save_comparisons(db, judged.evaluation.id, judged.comparisons)
    comparison_storage.save_judgement(db, judged.evaluation.id, judged.judgement)
