"""Whether the judge has changed: old answers, judged anew; and what of a change is then the system's.

A model may change behind its name. Scores of new answers then move although the system stays as it is, while those of
old answers are kept. So on a night on which the judge is asked anyway, some old answers are judged again: some of those
that people labelled, and, before a fall is believed, those that it is a fall from.
"""

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from rageval_dagster.errors import RagevalError
from rageval_dagster.evaluation.summary import is_by_model
from rageval_dagster.gate.history import History, Measured
from rageval_dagster.gate.nights import LEAST_QUESTIONS
from rageval_dagster.labels.queue import of_whole_draws
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.metrics.registry import compute_scores
from rageval_dagster.records import Decision, Result
from rageval_dagster.statistics import Corrected, compare, corrected_difference
from rageval_dagster.storage import labels as label_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.caches import model_usage
from rageval_dagster.storage.comparisons import Change
from rageval_dagster.storage.database import Database, in_batches
from rageval_dagster.storage.labels import MOST_CHECKED, JudgeCheck
from rageval_dagster.storage.scores import Summary
from rageval_dagster.text import plural

JUDGE_DRIFT = "judge_drift"
"""What a change is called by which the judge scores the same answers otherwise."""
MOST_OF_REFERENCE = 200
"""So many answers of the reference are judged anew where a metric fell: they show a drift of .1 in yes or no."""
JUDGED_AT_ONCE = 25
"""Old answers whose scores are stored together: what a kill or a spent budget loses was paid for."""


@dataclass(frozen=True)
class Drift:
    """By how much a judge scores the same answers higher than it did (below 0: lower), with its 95 % interval.

    `p_value` is that of a judge that stayed the same, two-sided; so many `answers` were judged anew.
    """

    shift: float
    low: float
    high: float
    p_value: float
    answers: int


@dataclass(frozen=True)
class OfSystem:
    """How a metric changed but for the judge's drift, with its 95 % interval."""

    difference: float
    low: float
    high: float


def drift_of(
    then: Mapping[str, float],
    now: Mapping[str, float],
    strata: Mapping[str, Hashable],
    clusters: Mapping[str, Hashable] | None = None,
) -> Drift | None:
    """The drift of a judge by its scores of the same answers, in [0, 1]; None where there are fewer than five.

    Args:
        strata: {id: stratum} of all answers from which these were drawn; each stratum counts by its size.
    """
    tested = compare(then, now, clusters)
    if tested.n_shared < LEAST_QUESTIONS or tested.difference is None or tested.low is None or tested.high is None:
        return None
    drawn = {strata.get(name) for name in then.keys() & now.keys()}
    all_alike = {name: 0.0 for name in {*strata, *then} if strata.get(name) in drawn}
    moved = corrected_difference(then, all_alike, now, all_alike, strata=strata, clusters=clusters)
    shift, low, high = moved.mean, moved.low, moved.high
    if shift is None or low is None or high is None:
        shift, low, high = tested.difference, tested.low, tested.high
    return Drift(shift, low, high, 1.0 if tested.p_value is None else tested.p_value, tested.n_shared)


def is_found(drift: Drift, decision: Decision, alpha: float, looks: int) -> bool:
    """Whether the judge surely changed, in any of so many looks.

    Where the metric regressed, which is rare, the one question is whether the judge became harsher: at `alpha` alone.
    """
    if decision == "regressed" and drift.shift < 0.0:
        return drift.p_value / 2.0 <= alpha
    return drift.p_value <= alpha / looks


def less_drift(difference: float, low: float, high: float, drift: Drift, new: float = 1.0) -> OfSystem:
    """A metric's change, with its 95 % interval, less the drift on old answers, as if new ones were judged alike.

    Args:
        new: the share of answers, in [0, 1], that are not those of the reference. The others kept their scores, which
            no drift has touched.
    """
    rest, half = difference - new * drift.shift, math.hypot((high - low) / 2.0, new * (drift.high - drift.low) / 2.0)
    return OfSystem(rest, rest - half, rest + half)


def by_labels(found: Corrected) -> OfSystem | None:
    """A metric's change by labels of both runs; None where they do not suffice."""
    if found.mean is None or found.low is None or found.high is None:
        return None
    return OfSystem(found.mean, found.low, found.high)


def decided(decision: Decision, rest: OfSystem, labelled: OfSystem | None, tolerance: float) -> Decision:
    """The decision on a metric whose judge changed, by what is left without the drift, and by labels of both runs.

    It regressed where labels show that it surely fell beyond the tolerance; or where it seemed to, what is left surely
    did, and no labels contradict that. One that seemed to is else unclear: it never passes by what was learned of old
    answers. Nor does one pass that a kinder judge lifted.
    """
    if labelled is not None and labelled.high < -tolerance:
        return "regressed"
    agreed = labelled is None or labelled.low <= rest.difference <= labelled.high
    if decision == "regressed":
        return "regressed" if rest.high < -tolerance and agreed else "unclear"
    return "unclear" if (labelled or rest).difference < -tolerance else decision


def check_judges(
    db: Database,
    history: History,
    measured: Mapping[str, Measured],
    fallen: Collection[str],
    metrics: Iterable[Metric],
    tools: Callable[[], Tools],
    warn: Callable[[str], None],
) -> None:
    """Judges old answers anew, by each judged metric of those `measured`.

    Where a metric has `fallen`, up to 200 answers of the reference, labelled or not; else up to 60 labelled answers of
    earlier evaluations, those scored first before others. Only where the run of the last evaluation asked the judge,
    and only answers that the metric's present version scored. An evaluation asks about each answer once, however often
    it is judged, also where no score came of it; what was asked is kept batch by batch. `tools` are to read no cache.
    A judge that fails is told by `warn`.
    """
    evaluation = history.evaluations[-1]
    judged = {name: each.summary for name, each in measured.items() if is_by_model(name)}
    checked = judged.keys() & {*label_storage.labelled_counts(db, evaluation.client_id), *fallen} if judged else ()
    if not checked or not model_usage(db, evaluation.client_id, evaluation.dagster_run_id, "judge").sent:
        return
    done = label_storage.newest_judge_checks(db, [evaluation.id])
    by_id = {metric.id: metric for metric in metrics}
    shared: Tools | None = None
    for name in sorted(checked & by_id.keys()):
        version = judged[name].metric_version
        known = done[name].scores if name in done and done[name].metric_version == version else {}
        if name in fallen:
            old, most = _of_reference(db, history, measured[name]), MOST_OF_REFERENCE
        else:
            old, most = _labelled(db, history, judged[name]), MOST_CHECKED - len(known)
        asked = list(islice((result_id for result_id in old if result_id not in known), max(most, 0)))
        if len(old) < LEAST_QUESTIONS or not asked:
            continue
        scores = dict(known)
        for batch in in_batches(asked, JUDGED_AT_ONCE):
            try:
                shared = shared or tools()
                outcomes = compute_scores([by_id[name]], [old[result_id][2] for result_id in batch], shared)[name]
            except RagevalError as error:
                warn(f"could not check whether the judge has changed: {error}")
                return
            for result_id, outcome in zip(batch, outcomes, strict=True):
                item_id, then, _ = old[result_id]
                scores[result_id] = item_id, then, outcome.value
            label_storage.save_judge_check(db, name, JudgeCheck(evaluation.id, version, scores))
        if (found := sum(now is not None for _, _, now in scores.values())) < LEAST_QUESTIONS:
            warn(f"could not check whether the judge has changed: it scored {found} of {len(scores)} answers")


def drifts_of(db: Database, history: History, measured: Mapping[str, Measured]) -> dict[str, Drift]:
    """{metric id: the drift of its judge} by the newest check of each since the reference."""
    versions = {name: each.summary.metric_version for name, each in measured.items() if is_by_model(name)}
    if not versions:
        return {}
    # One with fewer scores says nothing: what an earlier check found still stands.
    checks = label_storage.newest_judge_checks(db, [each.id for each in history.evaluations[1:]], LEAST_QUESTIONS)
    clusters = {item_id: each.cluster for asked in history.asked.values() for item_id, each in asked.items()}
    found: dict[str, Drift] = {}
    for name, check in checks.items():
        if check.metric_version != versions.get(name):
            continue
        queue = label_storage.load_queue(db, history.evaluations[-1].client_id, name)
        scored = {result_id: now for result_id, (_, _, now) in check.scores.items() if now is not None}
        if scored.keys() <= queue.keys():
            telling = of_whole_draws(scored, queue)
            strata = {result_id: each.stratum for result_id, each in queue.items()}
        else:  # of the reference, whoever labelled some of them
            telling, strata = set(scored), {}
        was = {result_id: each for result_id, each in check.scores.items() if result_id in telling}
        drift = drift_of(
            {result_id: then for result_id, (_, then, _) in was.items()},
            {result_id: now for result_id, now in scored.items() if result_id in telling},
            strata,
            {result_id: clusters.get(item_id, item_id) for result_id, (item_id, _, _) in was.items()},
        )
        if drift is not None:
            found[name] = drift
    return found


def drift_change(drifts: Mapping[str, Drift]) -> Change:
    """`the judge changed: it scores the same 60 answers 0.10 lower (claims.faithfulness)`."""
    said = [
        f"the same {plural(each.answers, 'answer')} {abs(each.shift):.2f} {_direction(each)} ({name})"
        for name, each in sorted(drifts.items())
    ]
    return Change(JUDGE_DRIFT, f"the judge changed: it scores {', '.join(said)}")


def _direction(drift: Drift) -> str:
    return "higher" if drift.shift > 0.0 else "lower"


_Old = dict[str, tuple[str, float, Result]]
"""{result id: (item id, score then, result)} of answers to judge anew."""


def _of_reference(db: Database, history: History, measured: Measured) -> _Old:
    """The answers of the reference to questions that count now, too."""
    reference = history.evaluations[0]
    asked = history.asked[reference.dataset_id]
    shared = {item_id for item_id, each in asked.items() if each.key in measured.nights[-1]}
    old = _scored(db, reference.id, measured.summary)
    found = {result_id: each for result_id, each in sorted(old.items()) if each[0] in shared}
    return dict(islice(found.items(), MOST_OF_REFERENCE))


def _labelled(db: Database, history: History, summary: Summary) -> _Old:
    """Labelled answers of evaluations before the last one, those of earlier ones first."""
    name, version = summary.metric_id, summary.metric_version
    had = score_storage.metric_versions(db, [each.id for each in history.evaluations[:-1]], name)
    earlier = sorted(id for id, each in had.items() if each == version)
    first = label_storage.drawn_and_labelled(db, history.evaluations[-1].client_id, name, earlier)
    found: _Old = {}
    for evaluation_id in sorted(set(first.values())):
        for result_id, each in sorted(_scored(db, evaluation_id, summary).items()):
            if first.get(result_id) == evaluation_id:
                found[result_id] = each
                if len(found) == MOST_CHECKED:
                    return found
    return found


def _scored(db: Database, evaluation_id: int, summary: Summary) -> _Old:
    """The answers of an evaluation that the metric's present version scored and whose texts are still there."""
    name = summary.metric_id
    outcomes = score_storage.load_scores(db, evaluation_id, {name: summary.metric_version}).get(name, {})
    return {
        result_id: (item_id, then, result)
        for item_id, (result_id, result) in result_storage.load_results(db, evaluation_id).items()
        if item_id in outcomes and (then := outcomes[item_id].value) is not None and not result.texts_deleted
    }
