"""An evaluation held against its reference: every metric's row, and which questions newly fail."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, takewhile

from rageval_dagster.evaluation.summary import headline_level
from rageval_dagster.gate.comparison import Pair, Scores, is_right, side_by_side
from rageval_dagster.gate.drift import Drift, OfSystem, by_labels, decided, drifts_of, is_found, less_drift
from rageval_dagster.gate.history import History, Measured, of_both_ends, over_the_nights
from rageval_dagster.gate.nights import LASTING, LEAST_QUESTIONS, LOOKS, Course, Evidence, NightVerdict, Variances
from rageval_dagster.gate.spec import GateSpec
from rageval_dagster.labels.answers import labelled_answers
from rageval_dagster.labels.estimates import difference
from rageval_dagster.records import Decision
from rageval_dagster.storage import comparisons as comparison_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.comparisons import MetricComparison
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, has_changed_silently
from rageval_dagster.storage.scores import Repeated
from rageval_dagster.text import plural

NOT_IN_BASELINE = "the baseline did not measure it"
NOT_MEASURED = "it was not measured this time"
NO_LINK = "too few questions lead back to the baseline"
TOO_FEW = f"fewer than {LEAST_QUESTIONS} shared questions cannot show anything"
TOLERATED = "the drop is within the tolerance"
NOT_BEYOND = "the drop may be within the tolerance"
NOT_SURE = "the drop is less certain than the gate requires"
SUSPECTED = "strongly suspected: as a single comparison it would be a regression"
SURE_BY: dict[Evidence, str] = {
    "fall": "decided by a one-sided test, which asks only whether it dropped: the interval is two-sided",
    "confirmed": "decided by the questions that newly fail, not by the interval",
    "lasting": f"decided by the mean of the last {LASTING} runs ({{lasting:+z.3f}}), not by the interval of this one",
    "before": "decided by the run before, which had regressed: nothing has changed since",
}
"""What decided, where the interval alone does not show it."""
FIRST_NIGHTS = 8
"""Up to here the other clients' noise is looked at."""

_AUTOMATIC = ("schedule:", "change:", "rescan:")
_VERSIONS = ("corpus", "index", "dataset", "system")


def looks_of(evaluation: Evaluation) -> int:
    """How many looks share alpha: those of a quarter where a schedule or sensor asked, one where a person did."""
    return LOOKS if evaluation.trigger.startswith(_AUTOMATIC) else 1


@dataclass(frozen=True)
class Held:
    """An evaluation held against its reference: the last of a history against the first, both in `pair`.

    `gated` are the gate's metrics; alpha holds for those of all `groups` of dataset and system.
    """

    db: Database
    history: History
    pair: Pair
    gated: Sequence[str]
    spec: GateSpec
    groups: int = 1

    @classmethod
    def of(cls, db: Database, history: History, spec: GateSpec, groups: int = 1) -> "Held":
        """The last of a history against the first; the gate's metrics are those that either of the two measured."""
        pair = side_by_side(db, history.evaluations[0], history.evaluations[-1])
        level = headline_level(list((pair.earlier or pair.summaries).values()))
        gated = spec.gated({**pair.earlier, **pair.summaries}, pair.now.k, level)
        return cls(db, history, pair, gated, spec, groups)

    def rows(self) -> list[MetricComparison]:
        """Every metric since the reference, the gate's first, then by id.

        Metrics of the gate are judged over all nights, the others over the reference and the last one, all at the same
        level.
        """
        return [
            *map(self._but_for_drift, self.as_judged),
            *(self._compared(name, gated=False) for name in sorted(set(self.pair.scores) - set(self.gated))),
        ]

    @cached_property
    def as_judged(self) -> list[MetricComparison]:
        """The gate's metrics by what their judges say, whether these changed or not."""
        return [self._compared(name, gated=True) for name in sorted(self.gated)]

    @cached_property
    def drifted(self) -> dict[str, Drift]:
        """The gate's metrics whose judge surely changed since the reference, by how much."""
        drifts = drifts_of(self.db, self.history, self.measured)
        looks = looks_of(self.pair.now)
        decisions: dict[str, Decision] = {row.metric_id: row.decision for row in self.as_judged} if drifts else {}
        return {name: each for name, each in drifts.items() if is_found(each, decisions[name], self._alpha, looks)}

    def turned(self) -> set[str]:
        """The questions that are right or wrong in some metric of the gate and were the other at first."""
        return {key for each in self.measured.values() for key in each.turned}

    def newly_failing(self, asked_again: bool) -> tuple[str, ...]:
        """The items that newly fail in some metric of the gate; confirmed ones where they can be `asked_again`."""
        return self._turned(-1, asked_again)

    def newly_passing(self, asked_again: bool) -> tuple[str, ...]:
        """The items that newly pass in some metric of the gate and newly fail in none, as `newly_failing`."""
        failing = self.newly_failing(asked_again)
        return tuple(each for each in self._turned(1, asked_again) if each not in failing)

    def _turned(self, sign: int, asked_again: bool) -> tuple[str, ...]:
        turned: set[str] = set()
        for name, each in self.measured.items():
            confirmed = self._confirmed[name] if asked_again else None
            signs = each.turned if confirmed is None else confirmed
            turned |= {key for key, each_sign in signs.items() if each_sign * sign > 0}
        asked = self.history.asked[self.pair.now.dataset_id]
        return tuple(sorted(item_id for item_id, each in asked.items() if each.key in turned))

    @property
    def _alpha(self) -> float:
        """A metric's part of alpha."""
        return self.spec.alpha / (max(len(self.gated), 1) * self.groups)

    def _but_for_drift(self, row: MetricComparison) -> MetricComparison:
        """A row of the gate, decided by what is left of its change where its judge changed."""
        drift = self.drifted.get(row.metric_id)
        if drift is None or row.difference is None or row.ci_low is None or row.ci_high is None:
            return row
        new, shared = self._new_answers(row.metric_id)
        if not new:  # kept scores are no doing of the judge
            return row
        rest = less_drift(row.difference, row.ci_low, row.ci_high, drift, new / shared)
        labelled = self._by_labels(row)
        found, how = (
            (rest, "if it judges new answers the same way")
            if labelled is None
            else (labelled, "by labels of both runs")
        )
        left = f"{found.difference:+z.3f} [{found.low:+z.3f}, {found.high:+z.3f}]"
        touched = "" if new == shared else f", which affects {new} of {plural(shared, 'answer')}"
        said = f"the judge moved the same answers by {drift.shift:+z.3f}{touched}; without that {left}, {how}"
        decision = decided(row.decision, rest, labelled, self.spec.tolerance)
        return replace(
            row,
            decision=decision,
            better=False,
            suspected=False,
            # What decided before decides no more.
            remark="; ".join(filter(None, [said, row.remark if decision == row.decision else None])),
        )

    def _new_answers(self, metric_id: str) -> tuple[int, int]:
        """Of the questions that a metric shares with the reference: how many have another result now; and all."""
        nights = self.measured[metric_id].nights
        shared = nights[0].keys() & nights[-1].keys()
        return sum(self._results.get(key) != self._results_then.get(key) for key in shared), len(shared)

    def _by_labels(self, row: MetricComparison) -> OfSystem | None:
        """The change of a metric by what people said of both evaluations' answers, which one version of it scored."""
        if not row.n_shared or self.pair.earlier[row.metric_id].metric_version != row.metric_version:
            return None
        before, now = (labelled_answers(self.db, each, row.metric_id) for each in (self.pair.before, self.pair.now))
        return by_labels(difference(before, now))

    @cached_property
    def measured(self) -> dict[str, Measured]:
        """The gate's metrics that can be compared."""
        scores = {name: self.pair.scores[name] for name in self.gated if name in self.pair.scores}
        return {
            name: over_the_nights(self.db, self.history, each) for name, each in scores.items() if each.is_comparable
        }

    @cached_property
    def _confirmed(self) -> dict[str, Mapping[str, int] | None]:
        """`_confirmed_by` each metric of the gate."""
        return {name: self._confirmed_by(each) for name, each in self.measured.items()}

    def _confirmed_by(self, measured: Measured) -> Mapping[str, int] | None:
        """What turned, and came out the same each time it was asked, then and now; None where nothing is asked again.

        A built-in system finds the same whenever it is asked; its answers may be a model's.
        """
        metric_id = measured.summary.metric_id
        if self.pair.now.system_reference:
            return measured.turned if metric_id.startswith("retrieval.") else None

        def is_steady(each: Repeated | None, right: bool) -> bool:
            values = each.scores.get(metric_id) if each is not None else None
            return bool(values) and all(
                value is not None and is_right(measured.summary, value) == right for value in values
            )

        confirmed = {}
        for key, sign in measured.turned.items():
            since, right = measured.first[key]
            times = [each for each in self._repeated.get(key, []) if metric_id in each.scores]
            # Where its system could not be asked at once, or not by this metric: as soon as it was.
            then = next((each for each in reversed(times) if each.evaluation_id <= since), next(iter(times), None))
            now = times[-1] if times and times[-1].is_of(self.pair.now, self._results.get(key)) else None
            if is_steady(then, right) and is_steady(now, not right):
                confirmed[key] = sign
        return confirmed

    @cached_property
    def _repeated(self) -> dict[str, list[Repeated]]:
        return score_storage.load_repeated(self.db, self.pair.now)

    @cached_property
    def _results(self) -> dict[str, str | None]:
        """{question: the result that it has now}."""
        return self._results_of(self.pair.now)

    @cached_property
    def _results_then(self) -> dict[str, str | None]:
        """{question: the result that it had in the reference}."""
        return self._results_of(self.pair.before)

    def _results_of(self, evaluation: Evaluation) -> dict[str, str | None]:
        asked = self.history.asked[evaluation.dataset_id]
        return {asked[row.item_id].key: row.result_id for row in result_storage.run_items(self.db, evaluation.id)}

    def _compared(self, name: str, gated: bool) -> MetricComparison:
        pair = self.pair
        scores = pair.scores.get(name)
        if scores is None:
            # A metric of the gate that only one of the two measured is not passed over.
            measured = pair.summaries.get(name)
            remark = NOT_MEASURED if measured is None else NOT_IN_BASELINE
            return self._row(Scores(measured or pair.earlier[name], {}, {}), True, [], None, remark)
        if not scores.is_comparable:
            return self._row(scores, gated, [], None, scores.remark)
        measured = self.measured[name] if gated else of_both_ends(self.history, scores)
        confirmed = self._confirmed[name] if gated else self._confirmed_by(measured)
        nights = measured.nights
        # Nights with the very scores of the last one share its verdict, and so what confirms it.
        alike = sum(1 for _ in takewhile(lambda night: night == nights[-1], reversed(nights)))
        prior = None
        if gated and len(nights) <= FIRST_NIGHTS:
            fleet = comparison_storage.fleet_variances(self.db, name, pair.now.started_at)
            prior = None if fleet is None else Variances(*fleet)
        found = Course(
            nights
            if scores.summary.higher_is_better
            else [{question: 1.0 - value for question, value in night.items()} for night in nights],
            self.history.clusters,
            confirmed=[*[None] * (len(nights) - alike), *[confirmed] * alike],
            unchanged=_unchanged(measured.evaluations),
            prior=prior,
            tolerance=self.spec.tolerance,
            alpha=self._alpha,
            looks=looks_of(pair.now),
        ).last()
        remarks = [each for each in (scores.remark, _of_those_that_left(measured)) if each]
        return self._row(scores, gated, nights, found, "; ".join(remarks))

    def _row(
        self,
        scores: Scores,
        gated: bool,
        nights: Sequence[Mapping[str, float]],
        found: NightVerdict | None,
        remark: str | None,
    ) -> MetricComparison:
        summary = scores.summary
        sign = 1.0 if summary.higher_is_better else -1.0
        before = sum(nights[0].values()) / len(nights[0]) if nights and nights[0] else None
        said = [remark] if remark else []
        row = MetricComparison(
            metric_id=summary.metric_id,
            metric_version=summary.metric_version,
            higher_is_better=summary.higher_is_better,
            baseline_id=self.pair.before.id,
            gated=gated,
            n_shared=len(nights[0].keys() & nights[-1].keys()) if nights else 0,
            baseline_mean=before,
            mean=None,
            difference=None,
            ci_low=None,
            ci_high=None,
            smallest_drop=None,
            decision="unclear",
            remark=remark or None,
        )
        if found is None:
            return row
        decision, lacking = found.decision, scores.lacking()
        if found.fall is None:
            said.append(NO_LINK)
        if decision != "regressed" and lacking:
            decision, said = "unclear", [*said, lacking]
        elif found.fall is not None:
            if decision == "passed" and 0.0 < found.fall <= self.spec.tolerance:
                said.append(TOLERATED)
            if decision == "unclear" and found.suspected:
                said.append(SUSPECTED)
            elif decision == "unclear" and found.fall <= self.spec.tolerance:
                said.append(TOO_FEW)
            elif decision == "unclear" and (found.low or 0.0) > 0.0:
                said.append(NOT_BEYOND if (found.low or 0.0) <= self.spec.tolerance else NOT_SURE)
        moved = None if found.fall is None else -sign * found.fall
        lasting = None if found.lasting is None else -sign * found.lasting
        if found.sure_by is not None and found.low is not None and found.low <= 0.0:
            said.append(SURE_BY[found.sure_by].format(lasting=lasting or 0.0))
        bounds = [-sign * bound for bound in (found.high, found.low) if bound is not None]
        most = None if before is None else before if summary.higher_is_better else 1.0 - before
        return replace(
            row,
            mean=None if before is None or moved is None else min(max(before + moved, 0.0), 1.0),
            difference=moved,
            ci_low=min(bounds, default=None),
            ci_high=max(bounds, default=None),
            lasting=lasting,
            smallest_drop=None if most is None or (found.resolution or 1.0) > most else found.resolution,
            noise=found.variances.noise,
            drift=found.variances.drift,
            shift=found.variances.shift,
            decision=decision,
            better=found.better,
            suspected=found.suspected,
            remark="; ".join(said) or None,
        )


def _unchanged(evaluations: Sequence[Evaluation]) -> list[bool] | None:
    """For each night whether nothing changed since the night before: what moves then is noise.

    None where the system mostly says no version, or brings back other passages by the same one: it may have changed on
    any night, or on none. A version that could not be read for once is taken for a change.
    """
    same: list[bool | None] = [
        None
        if None in (before.system_declared, now.system_declared)
        or has_changed_silently(before.versions.system, now.versions.system)
        else all(getattr(before.versions, name) == getattr(now.versions, name) for name in _VERSIONS)
        for before, now in pairwise(evaluations)
    ]
    return None if 2 * same.count(None) > len(same) else [False, *map(bool, same)]


def _of_those_that_left(measured: Measured) -> str | None:
    """`12 questions that left had moved by -0.083 since first asked`; None where none had moved."""
    moved = sum(measured.left) / len(measured.left) if measured.left else 0.0
    if abs(moved) < 0.0005:
        return None
    return f"{plural(len(measured.left), 'question')} no longer asked had moved by {moved:+.3f} since first asked"
