"""Comparing an evaluation with an earlier one: the questions they share, each metric they share, and what got worse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rageval_dagster.evaluation.summary import cluster_of
from rageval_dagster.gate.decision import Gate, decided
from rageval_dagster.records import Item, Outcome, Result
from rageval_dagster.statistics.comparisons import Comparison, benjamini_hochberg, compare
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.comparisons import TOLERATED, MetricComparison
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.scores import Summary

RIGHT = 0.5
"""A question is right at a metric from here on, and wrong below."""

JUDGED_ANEW = "its judge changed: the earlier answers were scored again by the new one"
OTHER_JUDGE = "its judge changed, and the earlier answers were not scored by the new one"
NOT_BOTH = "no question was scored in both"
NOT_IN_BASELINE = "the baseline did not measure it"
NOT_MEASURED = "it was not measured this time"
LEAST_COVERED = 0.8
"""Of the questions that the baseline scored: where fewer were scored this time, their mean tells too little."""

Values = Mapping[str, float | None]


@dataclass(frozen=True)
class Scores:
    """Both evaluations' scores of a metric by item id, on the questions that they share."""

    summary: Summary
    before: Values
    now: Values
    remark: str | None = None

    @property
    def is_comparable(self) -> bool:
        return self.remark != OTHER_JUDGE

    @property
    def judge_changed(self) -> bool:
        """Whether the metric has another version than it had."""
        return self.remark in (JUDGED_ANEW, OTHER_JUDGE)

    def lacking(self, n_shared: int) -> str | None:
        """Why the questions scored in both tell too little of all those that could have been."""
        scored = sum(value is not None for value in self.before.values())
        if self.remark == JUDGED_ANEW:  # answers whose texts are gone cannot be judged anew
            scored = max(scored, sum(value is not None for value in self.now.values()))
        if n_shared >= LEAST_COVERED * scored:
            return None
        return f"only {n_shared} of {scored} questions were scored in both"

    def worse(self) -> dict[str, float]:
        """{item id: how much it got worse, above 0}, worst first."""
        sign = 1.0 if self.summary.higher_is_better else -1.0
        fallen = {
            item_id: sign * (before - now)
            for item_id, before in self.before.items()
            if before is not None and (now := self.now.get(item_id)) is not None
        }
        falls = sorted((-fall, item_id) for item_id, fall in fallen.items() if fall > 0)
        return {item_id: -fall for fall, item_id in falls}

    def newly_wrong(self) -> list[str]:
        """The items that were right in the earlier evaluation and are wrong now."""
        return [
            item_id
            for item_id in self.worse()
            if self._is_right(self.before[item_id]) and not self._is_right(self.now[item_id])
        ]

    def is_wrong(self, outcome: Outcome | None) -> bool:
        """Whether an item that was asked again is wrong again; what failed, or was not asked, counts as wrong."""
        return outcome is None or outcome.value is None or not self._is_right(outcome.value)

    def _is_right(self, value: float | None) -> bool:
        if value is None:
            return False
        return value >= RIGHT if self.summary.higher_is_better else value <= 1.0 - RIGHT


@dataclass(frozen=True)
class Pair:
    """Two evaluations of one client side by side: `shared` are the items of both that are judged alike.

    `earlier` and `summaries` are those of the two by metric id, `scores` of the metrics that both have.
    """

    before: Evaluation
    now: Evaluation
    earlier: Mapping[str, Summary]
    summaries: Mapping[str, Summary]
    shared: Mapping[str, Item]
    before_count: int
    now_count: int
    scores: Mapping[str, Scores]

    def results(self, db: Database) -> tuple[dict[str, Result], dict[str, Result]]:
        """Both evaluations' results of the shared items, with their texts, by item id."""
        return _results(db, self.before, self.shared), _results(db, self.now, self.shared)


def side_by_side(db: Database, before: Evaluation, now: Evaluation) -> Pair:
    """The scores of two evaluations on the questions that they share, by metric of the later one.

    Where a metric's version changed, the earlier answers count as scored by the new version if they were (see
    `rescoring`), else not at all.
    """
    before_items = {item.item_id: item for item in benchmark_storage.remaining_items(db, before.dataset_id)}
    now_items = {item.item_id: item for item in benchmark_storage.remaining_items(db, now.dataset_id)}
    shared = {
        item_id: item
        for item_id, item in now_items.items()
        if item_id in before_items and before_items[item_id].marking == item.marking
    }
    earlier = {summary.metric_id: summary for summary in score_storage.load_summaries(db, before.id)}
    summaries = {summary.metric_id: summary for summary in score_storage.load_summaries(db, now.id)}
    same = {name: each.metric_version for name, each in summaries.items() if _same(each, earlier.get(name))}
    others = {name: each.metric_version for name, each in summaries.items() if name in earlier and name not in same}
    old = dict(score_storage.load_scores(db, before.id, same))
    if others:
        result_ids = {row.item_id: row.result_id for row in result_storage.run_items(db, before.id) if row.result_id}
        old |= score_storage.load_rescored(db, before.client_id, result_ids, others)
    new = score_storage.load_scores(db, now.id, {name: each.metric_version for name, each in summaries.items()})
    scores = {
        name: Scores(
            summaries[name],
            _values(old.get(name, {}), shared),
            _values(new.get(name, {}), shared),
            None if name in same else JUDGED_ANEW if old.get(name) else OTHER_JUDGE,
        )
        for name in [*same, *others]
    }
    return Pair(before, now, earlier, summaries, shared, len(before_items), len(now_items), scores)


def compare_metrics(pair: Pair, gate: Gate, gated: Sequence[str], confidence: float = 0.95) -> list[MetricComparison]:
    """Every metric of a pair compared, the gate's first: those at its own level, others by Benjamini-Hochberg."""
    clusters = {item_id: cluster_of(item) for item_id, item in pair.shared.items()}
    compared = {name: _compared(scores, clusters, gate, confidence) for name, scores in sorted(pair.scores.items())}
    rows = {
        name: _row(pair.before, pair.scores[name], comparison, gate, name in gated)
        for name, comparison in compared.items()
    }
    shown = [name for name, row in rows.items() if not row.gated and row.p_value is not None]
    for name, adjusted in zip(shown, benjamini_hochberg([rows[name].p_value or 0.0 for name in shown]), strict=True):
        difference = compared[name].difference or 0.0
        decision = decided(adjusted, difference, gate.alpha, gate.tolerance)
        rows[name] = replace(rows[name], adjusted_p=adjusted, decision=decision)
    for name, row in rows.items():
        lacking = pair.scores[name].lacking(row.n_shared) if row.n_shared else None
        if lacking and row.decision != "regressed":
            rows[name] = replace(row, decision="not_comparable", remark=lacking)
        elif row.is_unclear and (row.fall or 0.0) <= gate.tolerance:
            rows[name] = replace(row, remark=f"{row.remark}; {TOLERATED}" if row.remark else TOLERATED)
    return sorted(rows.values(), key=lambda row: (not row.gated, row.metric_id))


def unmeasured(pair: Pair, gated: Sequence[str]) -> list[MetricComparison]:
    """A row for each metric of the gate that only one of the two evaluations measured: it is not passed over."""
    found = []
    for name in gated:
        if name in pair.scores:
            continue
        summary = pair.summaries.get(name) or pair.earlier[name]
        empty = Scores(summary, {}, {}, NOT_IN_BASELINE if name in pair.summaries else NOT_MEASURED)
        found.append(_row(pair.before, empty, compare({}, {}), Gate(), gated=True))
    return found


def _compared(scores: Scores, clusters: Mapping[str, str], gate: Gate, confidence: float) -> Comparison:
    """The comparison with every score turned so that more is better."""
    if not scores.is_comparable:
        return compare({}, {})
    turned = not scores.summary.higher_is_better
    before, now = (_turned(values) if turned else values for values in (scores.before, scores.now))
    return compare(before, now, clusters, confidence, alpha=2.0 * gate.level)


def _row(before: Evaluation, scores: Scores, comparison: Comparison, gate: Gate, gated: bool) -> MetricComparison:
    sign = 1.0 if scores.summary.higher_is_better else -1.0
    bounds = [None if bound is None else sign * bound for bound in (comparison.low, comparison.high)]
    low, high = bounds if sign > 0 else reversed(bounds)
    both = [item_id for item_id, value in scores.before.items() if None not in (value, scores.now.get(item_id))]
    both = both if comparison.n_shared else []
    return MetricComparison(
        metric_id=scores.summary.metric_id,
        metric_version=scores.summary.metric_version,
        higher_is_better=scores.summary.higher_is_better,
        baseline_id=before.id,
        gated=gated,
        n_shared=comparison.n_shared,
        baseline_mean=_mean(scores.before, both),
        mean=_mean(scores.now, both),
        difference=None if comparison.difference is None else sign * comparison.difference,
        ci_low=low,
        ci_high=high,
        p_value=comparison.p_value,
        adjusted_p=gate.corrected_p(comparison),
        smallest_drop=comparison.minimum_detectable_effect,
        decision=gate.decision(comparison),
        remark=scores.remark or (None if comparison.n_shared else NOT_BOTH),
    )


def _same(now: Summary, before: Summary | None) -> bool:
    return before is not None and before.metric_version == now.metric_version


def _values(outcomes: Mapping[str, Outcome], shared: Mapping[str, Item]) -> dict[str, float | None]:
    return {item_id: outcome.value for item_id, outcome in outcomes.items() if item_id in shared}


def _turned(values: Values) -> dict[str, float | None]:
    return {item_id: None if value is None else 1.0 - value for item_id, value in values.items()}


def _mean(values: Values, item_ids: Sequence[str]) -> float | None:
    known = [value for item_id in item_ids if (value := values[item_id]) is not None]
    return sum(known) / len(known) if known else None


def _results(db: Database, evaluation: Evaluation, shared: Mapping[str, Item]) -> dict[str, Result]:
    loaded = result_storage.load_results(db, evaluation.id)
    return {item_id: result for item_id, (_, result) in loaded.items() if item_id in shared}
