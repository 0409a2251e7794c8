"""Comparing an evaluation with an earlier one: the questions they share, each metric they share, and what got worse."""

from collections.abc import Mapping
from dataclasses import dataclass

from rageval_dagster.records import Item, Outcome, Result
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.scores import Summary

RIGHT = 0.5
"""A question is right at a metric from here on, and wrong below."""

JUDGED_ANEW = "its judge changed: the earlier answers were scored again by the new one"
OTHER_JUDGE = "its judge changed, and the earlier answers were not scored by the new one"
LEAST_COVERED = 0.8
"""Of the questions that the reference scored: where fewer were scored this time, their mean tells too little."""

Values = Mapping[str, float | None]


def is_right(summary: Summary, value: float) -> bool:
    """Whether a question is right at a metric by its value."""
    return value >= RIGHT if summary.higher_is_better else value <= 1.0 - RIGHT


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

    def lacking(self) -> str | None:
        """Why the questions scored in both tell too little of all those that could have been."""
        scored = sum(value is not None for value in self.before.values())
        n_shared = sum(None not in (value, self.now.get(item_id)) for item_id, value in self.before.items())
        if self.remark == JUDGED_ANEW:  # answers whose texts are gone cannot be judged anew
            scored = max(scored, sum(value is not None for value in self.now.values()))
        if n_shared >= LEAST_COVERED * scored:
            return None
        return f"only {n_shared} of {scored} questions were scored in both"

    def worse(self) -> dict[str, float]:
        """{item id: how much it got worse, above 0}, worst first."""
        return self._fallen(1.0 if self.summary.higher_is_better else -1.0)

    def better(self) -> dict[str, float]:
        """{item id: how much it got better, above 0}, most first."""
        return self._fallen(-1.0 if self.summary.higher_is_better else 1.0)

    def _fallen(self, sign: float) -> dict[str, float]:
        fallen = {
            item_id: sign * (before - now)
            for item_id, before in self.before.items()
            if before is not None and (now := self.now.get(item_id)) is not None
        }
        falls = sorted((-fall, item_id) for item_id, fall in fallen.items() if fall > 0)
        return {item_id: -fall for fall, item_id in falls}


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
        before, now = (
            {
                item_id: result
                for item_id, (_, result) in result_storage.load_results(db, evaluation.id).items()
                if item_id in self.shared
            }
            for evaluation in (self.before, self.now)
        )
        return before, now


def side_by_side(db: Database, before: Evaluation, now: Evaluation) -> Pair:
    """The scores of two evaluations on the questions that they share, by metric of the later one.

    Where a metric's version changed, the earlier answers count as scored by the new version if they were (see
    `rescoring`), else not at all.
    """
    asked = benchmark_storage.questions_asked(db, {before.dataset_id, now.dataset_id})
    earlier_items, now_items = (asked.get(each.dataset_id, {}) for each in (before, now))
    shared = {
        item.item_id: item
        for item in benchmark_storage.remaining_items(db, now.dataset_id)
        if earlier_items.get(item.item_id) == now_items[item.item_id]
    }
    earlier = {summary.metric_id: summary for summary in score_storage.load_summaries(db, before.id)}
    summaries = {summary.metric_id: summary for summary in score_storage.load_summaries(db, now.id)}
    versions = {name: each.metric_version for name, each in summaries.items()}
    in_both = {name: version for name, version in versions.items() if name in earlier}
    same = {name: version for name, version in in_both.items() if version == earlier[name].metric_version}
    others = {name: version for name, version in in_both.items() if name not in same}
    old = dict(score_storage.load_scores(db, before.id, same))
    if others:
        result_ids = {row.item_id: row.result_id for row in result_storage.run_items(db, before.id) if row.result_id}
        old |= score_storage.load_rescored(db, before.client_id, result_ids, others)
    new = score_storage.load_scores(db, now.id, versions)
    scores = {
        name: Scores(
            summaries[name],
            _values(old.get(name, {}), shared),
            _values(new.get(name, {}), shared),
            None if name in same else JUDGED_ANEW if old.get(name) else OTHER_JUDGE,
        )
        for name in [*same, *others]
    }
    return Pair(before, now, earlier, summaries, shared, len(earlier_items), len(now_items), scores)


def _values(outcomes: Mapping[str, Outcome], shared: Mapping[str, Item]) -> dict[str, float | None]:
    return {item_id: outcome.value for item_id, outcome in outcomes.items() if item_id in shared}
