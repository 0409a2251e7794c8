"""Two evaluations of a client compared for people: what changed, every metric, and the questions that got worse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rageval_dagster.errors import RagevalError
from rageval_dagster.evaluation.scoring import metric_embedder, tools_of
from rageval_dagster.gate.causes import GoneItem, blamed, changes, documents_between, gone_items
from rageval_dagster.gate.comparison import Pair
from rageval_dagster.gate.decision import changed_answers
from rageval_dagster.gate.held import Held
from rageval_dagster.gate.history import history_of
from rageval_dagster.gate.rescoring import rescore
from rageval_dagster.gate.spec import GateSpec
from rageval_dagster.metrics.registry import metrics_of
from rageval_dagster.records import Item, Result
from rageval_dagster.settings import Settings
from rageval_dagster.storage.comparisons import Change, MetricComparison
from rageval_dagster.storage.corpus import DocumentChange
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import evaluations_of_trigger, get_evaluation


@dataclass(frozen=True)
class WorseItem:
    """A question that got worse: {metric id: (before, now)} of what decides, and what happened both times."""

    item: Item
    falls: Mapping[str, tuple[float, float]]
    before: Result
    now: Result


@dataclass(frozen=True)
class RunsCompared:
    """Two evaluations side by side; the gate's metrics come first, and the questions that fell most.

    `documents` are those that changed, by id.
    """

    pair: Pair
    documents: Mapping[str, DocumentChange]
    gone: Sequence[GoneItem]
    changes: Sequence[Change]
    rows: Sequence[MetricComparison]
    worse: Sequence[WorseItem]


def compare_runs(db: Database, settings: Settings, before_id: int, now_id: int) -> RunsCompared:
    """Compares two complete evaluations of one client; nothing of either changes.

    Where a metric's version changed to the one of the client's settings, the earlier answers are scored by it first.

    Raises:
        RagevalError: one is not known or not complete, or they are of two clients.
        LanguageModelError: a new judge cannot be asked.
    """
    before, now = get_evaluation(db, before_id), get_evaluation(db, now_id)
    if before.client_id != now.client_id:
        raise RagevalError(f"run {before_id} is of client {before.client_id!r}, run {now_id} of {now.client_id!r}")
    for evaluation in (before, now):
        if evaluation.status != "complete":
            raise RagevalError(
                f"run {evaluation.id} is not complete, and only complete runs can be compared: "
                f"rageval runs show {evaluation.id}"
            )
    own = settings.for_client(now.client_id)
    metrics = metrics_of(own, now.k, metric_embedder(own, db, now.client_id))
    history = history_of(db, before, now)
    rescore(db, history, metrics, lambda: tools_of(own, db, now.client_id, f"compare:{before_id}:{now_id}"))
    groups = len({(each.dataset_name, each.system) for each in evaluations_of_trigger(db, now.client_id, now.trigger)})
    held = Held.of(db, history, GateSpec.from_settings(own), groups)
    pair = held.pair
    rows = held.rows()
    telling = [*held.gated, *(row.metric_id for row in changed_answers(rows, held.spec))]
    worse = _worse(db, pair, [name for name in telling if name in pair.scores])
    found = blamed(db, pair, changes(db, pair), [each.item.item_id for each in worse])
    documents = documents_between(db, before, now)
    return RunsCompared(pair, documents, gone_items(db, before, now), found, rows, worse)


def _worse(db: Database, pair: Pair, gated: Sequence[str]) -> list[WorseItem]:
    """The questions that fell in any of the metrics, by the sum of their falls."""
    falls: dict[str, dict[str, float]] = {}
    for name in gated:
        for item_id, fall in pair.scores[name].worse().items():
            falls.setdefault(item_id, {})[name] = fall
    before, now = pair.results(db)
    order = sorted(falls, key=lambda item_id: (-sum(falls[item_id].values()), item_id))
    return [
        WorseItem(
            pair.shared[item_id],
            {
                name: (pair.scores[name].before[item_id] or 0.0, pair.scores[name].now[item_id] or 0.0)
                for name in falls[item_id]
            },
            before[item_id],
            now[item_id],
        )
        for item_id in order
        if item_id in before and item_id in now
    ]
