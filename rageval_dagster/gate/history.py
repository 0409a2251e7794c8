"""The nights that a verdict stands on: a system's evaluations of a dataset's name since the reference, and its rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from rageval_dagster.evaluation.summary import is_by_model
from rageval_dagster.gate.comparison import Pair, Scores
from rageval_dagster.gate.nights import LOOKS, Course, NightVerdict, Variances
from rageval_dagster.gate.spec import GateSpec
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import comparisons as comparison_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.benchmark import Asked
from rageval_dagster.storage.comparisons import MetricComparison
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, evaluations_between
from rageval_dagster.storage.scores import Summary

NOT_IN_BASELINE = "the baseline did not measure it"
NOT_MEASURED = "it was not measured this time"
NO_LINK = "no chain of questions leads back to the baseline"
TOLERATED = "the fall is within the tolerance"
SUSPECTED = "strongly suspected: as a single look it would be a regression"
LEAST_COVERED = 0.8
"""Of the questions that the reference scored: where fewer were scored this time, their mean tells too little."""
LEAST_SHARED = 30
"""Questions that two nights need in common to speak for each other where a judge changed."""
FIRST_NIGHTS = 8
"""Up to here the other clients' noise is looked at."""

_AUTOMATIC = ("schedule:", "change:", "rescan:")
_VERSIONS = ("corpus", "index", "dataset", "system")


def looks_of(evaluation: Evaluation) -> int:
    """How many looks share alpha: those of a quarter where a schedule or sensor asked, one where a person did."""
    return LOOKS if evaluation.trigger.startswith(_AUTOMATIC) else 1


@dataclass(frozen=True)
class History:
    """Evaluations of one system on versions of one dataset, the reference first, the one to judge last.

    `asked` are their questions by dataset and item id; `links` those of the evaluations through which the reference
    reaches the last one by at least thirty questions at a time, both included.
    """

    evaluations: Sequence[Evaluation]
    asked: Mapping[int, Mapping[str, Asked]]
    links: Sequence[Evaluation]

    @cached_property
    def clusters(self) -> dict[str, str]:
        return {each.key: each.cluster for items in self.asked.values() for each in items.values()}

    @cached_property
    def linked_items(self) -> set[str]:
        """The ids of the questions that more than one of the links asks."""
        times: dict[str, int] = {}
        for dataset_id in {each.dataset_id for each in self.links}:
            for item_id in self.asked[dataset_id]:
                times[item_id] = times.get(item_id, 0) + 1
        alone = len({each.dataset_id for each in self.links}) == 1
        return {item_id for item_id, count in times.items() if count > 1 or alone}


def history_of(db: Database, reference: Evaluation, now: Evaluation) -> History:
    """The complete evaluations from the reference to this one, at its cutoff.

    None lie between those of two systems, or of two datasets' names.
    """
    alike = (reference.dataset_name, reference.system) == (now.dataset_name, now.system)
    between = [each for each in evaluations_between(db, reference, now) if each.k == now.k] if alike else []
    evaluations = [reference, *between, now]
    asked = benchmark_storage.questions_asked(db, sorted({each.dataset_id for each in evaluations}))
    return History(evaluations, asked, _links(evaluations, asked))


def _links(evaluations: Sequence[Evaluation], asked: Mapping[int, Mapping[str, Asked]]) -> list[Evaluation]:
    keys = {dataset_id: {each.key for each in items.values()} for dataset_id, items in asked.items()}

    def share(one: Evaluation, other: Evaluation) -> bool:
        mine, theirs = keys.get(one.dataset_id, set()), keys.get(other.dataset_id, set())
        return len(mine & theirs) >= min(LEAST_SHARED, len(mine), len(theirs))

    last = len(evaluations) - 1
    found = [evaluations[last]]
    while last > 0:
        # The oldest that shares enough is the longest step back.
        last = next((older for older in range(last) if share(evaluations[older], found[-1])), -1)
        if last >= 0:
            found.append(evaluations[last])
    return found[::-1] if found[-1] is evaluations[0] else [evaluations[0], evaluations[-1]]


def compare_metrics(
    db: Database,
    history: History,
    pair: Pair,
    gated: Sequence[str],
    spec: GateSpec,
    groups: int = 1,
) -> list[MetricComparison]:
    """Every metric since the reference, the gate's first, then by id.

    Metrics of the gate are judged over all nights, the others over the reference and the last one, all at the same
    level: alpha holds for the gate's metrics of all `groups` of dataset and system.
    """
    judge = _Judge(db, history, pair, spec, spec.alpha / (max(len(gated), 1) * groups), looks_of(pair.now))
    return [
        *(judge.row(name, gated=True) for name in sorted(gated)),
        *(judge.row(name, gated=False) for name in sorted(set(pair.scores) - set(gated))),
    ]


@dataclass(frozen=True)
class _Judge:
    db: Database
    history: History
    pair: Pair
    spec: GateSpec
    alpha: float
    looks: int

    def row(self, name: str, gated: bool) -> MetricComparison:
        pair = self.pair
        scores = pair.scores.get(name)
        if scores is None:
            return self._unmeasured(name)
        if not scores.is_comparable:
            return self._row(scores, gated, [], None, scores.remark)
        evaluations, nights = self._nights(scores, gated)
        found = Course(
            nights if scores.summary.higher_is_better else [_turned(night) for night in nights],
            self.history.clusters,
            confirmed=self._confirmed(scores, len(nights)),
            unchanged=[False, *(_is_unchanged(*both) for both in pairwise(evaluations))],
            prior=self._prior(name, len(nights)) if gated else None,
            tolerance=self.spec.tolerance,
            alpha=self.alpha,
            looks=self.looks,
        ).last()
        return self._row(scores, gated, nights, found, scores.remark)

    def _nights(self, scores: Scores, gated: bool) -> tuple[list[Evaluation], list[dict[str, float]]]:
        """The evaluations that measured the metric by its present version, and their scores by question."""
        evaluations = list(self.history.evaluations)
        if not gated:
            evaluations = [evaluations[0], evaluations[-1]]
            known = [_known(scores.before), _known(scores.now)]
        else:
            values = _night_scores(self.db, self.history, scores.summary)
            # Its reference and itself it has to have, be they empty.
            ends = (evaluations[0].id, evaluations[-1].id)
            evaluations = [each for each in evaluations if values.get(each.id) or each.id in ends]
            known = [values.get(each.id, {}) for each in evaluations]
        asked = self.history.asked
        return evaluations, [
            {asked[each.dataset_id][item_id].key: value for item_id, value in night.items()}
            for each, night in zip(evaluations, known, strict=True)
        ]

    def _confirmed(self, scores: Scores, nights: int) -> list[Mapping[str, int] | None] | None:
        # A built-in system says the same whenever it is asked: what turned is sure.
        if not self.pair.now.system_reference or is_by_model(scores.summary.metric_id):
            return None
        asked = self.history.asked[self.pair.now.dataset_id]
        signs = dict.fromkeys(scores.newly_wrong(), -1) | dict.fromkeys(scores.newly_right(), 1)
        return [*[None] * (nights - 1), {asked[item_id].key: sign for item_id, sign in signs.items()}]

    def _prior(self, name: str, nights: int) -> Variances | None:
        if nights > FIRST_NIGHTS:
            return None
        fleet = comparison_storage.fleet_variances(self.db, name, self.pair.now.started_at)
        return None if fleet is None else Variances(*fleet)

    def _unmeasured(self, name: str) -> MetricComparison:
        """Of a metric of the gate that only one of the two measured: it is not passed over."""
        measured = self.pair.summaries.get(name)
        scores = Scores(measured or self.pair.earlier[name], {}, {})
        return self._row(scores, True, [], None, NOT_MEASURED if measured is None else NOT_IN_BASELINE)

    def _row(
        self,
        scores: Scores,
        gated: bool,
        nights: Sequence[Mapping[str, float]],
        found: NightVerdict | None,
        remark: str | None,
    ) -> MetricComparison:
        sign = 1.0 if scores.summary.higher_is_better else -1.0
        before = _mean(nights[0]) if nights else None
        difference = None if found is None or found.fall is None else -sign * found.fall
        bounds = (
            [] if found is None or found.low is None or found.high is None else [-sign * found.high, -sign * found.low]
        )
        both = len(nights[0].keys() & nights[-1].keys()) if nights else 0
        decision = "unclear" if found is None else found.decision
        said = [remark] if remark else []
        if found is not None and found.fall is None:
            said.append(NO_LINK)
        if found is not None and decision != "regressed" and (lacking := scores.lacking()):
            decision, said = "unclear", [*said, lacking]
        elif found is not None and found.fall is not None:
            if decision == "passed" and 0.0 < found.fall <= self.spec.tolerance:
                said.append(TOLERATED)
            if decision == "unclear" and found.suspected:
                said.append(SUSPECTED)
        return MetricComparison(
            metric_id=scores.summary.metric_id,
            metric_version=scores.summary.metric_version,
            higher_is_better=scores.summary.higher_is_better,
            baseline_id=self.pair.before.id,
            gated=gated,
            n_shared=both,
            baseline_mean=before,
            mean=None if before is None or difference is None else min(max(before + difference, 0.0), 1.0),
            difference=difference,
            ci_low=min(bounds, default=None),
            ci_high=max(bounds, default=None),
            lasting=None if found is None or found.lasting is None else -sign * found.lasting,
            smallest_drop=None if found is None else found.resolution,
            noise=None if found is None else found.variances.noise,
            drift=None if found is None else found.variances.drift,
            shift=None if found is None else found.variances.shift,
            decision=decision,
            better=found is not None and found.better,
            suspected=found is not None and found.suspected,
            remark="; ".join(said) or None,
        )


def _night_scores(db: Database, history: History, summary: Summary) -> dict[int, dict[str, float]]:
    """{evaluation number: {item id: score}} by the metric's present version; what is not kept yet is kept now."""
    ids = [each.id for each in history.evaluations]
    metric_id, version = summary.metric_id, summary.metric_version
    found = score_storage.load_night_scores(db, ids, metric_id, version)
    missing = [each for each in history.evaluations if each.id not in found]
    had = score_storage.metric_versions(db, [each.id for each in missing], metric_id)
    new = dict(_scored_anew(db, missing, history.links, had, metric_id, version))
    if new:
        score_storage.save_night_scores(
            db, history.evaluations[0].client_id, version, {(id, metric_id): values for id, values in new.items()}
        )
    return found | new


def _scored_anew(
    db: Database,
    missing: Sequence[Evaluation],
    links: Sequence[Evaluation],
    had: Mapping[int, str],
    metric_id: str,
    version: str,
) -> Iterator[tuple[int, dict[str, float]]]:
    linking = {each.id for each in links}
    for each in missing:
        if had.get(each.id) == version:
            outcomes = score_storage.load_scores(db, each.id, {metric_id: version})
        elif each.id in had and each.id in linking:
            results = {row.item_id: row.result_id for row in result_storage.run_items(db, each.id) if row.result_id}
            outcomes = score_storage.load_rescored(db, each.client_id, results, {metric_id: version})
        else:
            continue
        values = {item_id: out.value for item_id, out in outcomes.get(metric_id, {}).items() if out.value is not None}
        if values or had[each.id] == version:
            yield each.id, values


def _is_unchanged(before: Evaluation, now: Evaluation) -> bool:
    """Whether nothing changed between two nights that anybody knows of: what moves then is noise."""
    declared = before.system_declared is not None and now.system_declared is not None
    return declared and all(getattr(before.versions, name) == getattr(now.versions, name) for name in _VERSIONS)


def _known(values: Mapping[str, float | None]) -> dict[str, float]:
    return {item_id: value for item_id, value in values.items() if value is not None}


def _turned(night: Mapping[str, float]) -> dict[str, float]:
    return {question: 1.0 - value for question, value in night.items()}


def _mean(night: Mapping[str, float]) -> float | None:
    return sum(night.values()) / len(night) if night else None
