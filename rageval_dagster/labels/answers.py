"""The answers of an evaluation by their content, as a judge scored them and people labelled them."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from rageval_dagster.errors import RagevalError
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import labels as label_storage
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.clients import get_client
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import (
    Evaluation,
    evaluations_of_trigger,
    get_evaluation,
    list_evaluations,
)
from rageval_dagster.storage.labels import Label, Queued
from rageval_dagster.storage.scores import Summary

DEFAULT_METRICS = ("claims.faithfulness", "judge.faithfulness", "overlap.faithfulness")
"""What people label where no metric is named: the first that the evaluation has."""


@dataclass(frozen=True)
class LabelledAnswers:
    """An evaluation's answers that a metric scored, by result id: its scores, and what people said of them.

    `items` and `clusters` are the questions' ids and the documents they were written from; `deleted` are the answers
    whose texts were deleted, which take no label any more.
    """

    evaluation: Evaluation
    summary: Summary
    judge: Mapping[str, float]
    items: Mapping[str, str]
    clusters: Mapping[str, str]
    queue: Mapping[str, Queued]
    labels: Mapping[str, list[Label]]
    deleted: Set[str] = frozenset()

    @cached_property
    def values(self) -> dict[str, float]:
        """{result id: the mean of what people said} of those drawn of which somebody could say anything.

        An answer that somebody labelled without being asked tells of itself alone: it was not chosen by chance.
        """
        said = {
            result_id: [each.value for each in labels if each.value is not None]
            for result_id, labels in self.labels.items()
            if (queued := self.queue.get(result_id)) is not None and queued.place is not None
        }
        return {result_id: fmean(values) for result_id, values in said.items() if values}

    @property
    def drawn(self) -> list[str]:
        """The result ids that were drawn, in the order of the queue."""
        places = {name: each.place for name, each in self.queue.items() if each.place is not None}
        return sorted(places, key=lambda name: places[name])

    @property
    def waiting(self) -> list[str]:
        """Those of `drawn` that nobody said anything of, and somebody still can."""
        return [name for name in self.drawn if name not in self.labels and name not in self.deleted]

    @property
    def gone(self) -> list[str]:
        """Those of `drawn` that were deleted before anybody said anything of them."""
        return [name for name in self.drawn if name not in self.labels and name in self.deleted]


def labelled_run(db: Database, client_id: str, run: int | None = None) -> Evaluation:
    """The complete evaluation of a client that is meant: of the newest ones that with most questions.

    Raises:
        RagevalError: there is no such client, or no such run of it.
    """
    get_client(db, client_id)
    if run is not None:
        evaluation = get_evaluation(db, run)
        if evaluation.client_id != client_id or evaluation.status != "complete":
            raise RagevalError(
                f"run {run} is not a complete run of client {client_id}: rageval runs list --client {client_id}"
            )
        return evaluation
    return max(newest_runs(db, client_id), key=lambda each: (each.item_count, each.id))


def newest_runs(db: Database, client_id: str) -> list[Evaluation]:
    """The complete evaluations of the client's newest run, else the newest complete one.

    Raises:
        RagevalError: there is none.
    """
    newest = [each for each in evaluations_of_trigger(db, client_id) if each.status == "complete"]
    newest = newest or list_evaluations(db, client_id, status="complete")[:1]
    if not newest:
        raise RagevalError(f"client {client_id} has no complete run: rageval evaluate --client {client_id}")
    return newest


def labelled_answers(db: Database, evaluation: Evaluation, metric_id: str | None = None) -> LabelledAnswers:
    """The answers of an evaluation by a metric, None: by the first of `DEFAULT_METRICS` that it has.

    Raises:
        RagevalError: the evaluation has no score of the metric, or less of it is better.
    """
    summaries = {each.metric_id: each for each in score_storage.load_summaries(db, evaluation.id)}
    known = [name for name in DEFAULT_METRICS if name in summaries and summaries[name].n_scored]
    name = metric_id or next(iter(known), DEFAULT_METRICS[-1])
    summary = summaries.get(name)
    if summary is None or not summary.n_scored:
        raise RagevalError(f"run {evaluation.id} has no score for {name}: name a metric that it has with --metric")
    if not summary.higher_is_better:
        raise RagevalError(f"less of {name} is better: people label whether an answer is good, so name another metric")
    outcomes = score_storage.load_scores(db, evaluation.id, {name: summary.metric_version}).get(name, {})
    asked = benchmark_storage.questions_asked(db, [evaluation.dataset_id])[evaluation.dataset_id]
    judge: dict[str, float] = {}
    items: dict[str, str] = {}
    for row in result_storage.run_items(db, evaluation.id):
        outcome = outcomes.get(row.item_id)
        if row.result_id is not None and outcome is not None and outcome.value is not None:
            judge[row.result_id], items[row.result_id] = outcome.value, row.item_id
    client_id = evaluation.client_id
    return LabelledAnswers(
        evaluation=evaluation,
        summary=summary,
        judge=judge,
        items=items,
        clusters={result_id: asked[item_id].cluster for result_id, item_id in items.items() if item_id in asked},
        queue=label_storage.load_queue(db, client_id, name, judge),
        labels=label_storage.load_labels(db, client_id, name, judge),
        deleted=result_storage.deleted_answers(db, client_id, judge),
    )
