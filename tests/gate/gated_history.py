"""Histories of evaluations at the gate: complete ones with given reciprocal ranks, held against their baseline."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from rageval_dagster.evaluation.summary import EvaluationReport, report_of
from rageval_dagster.gate.decision import GateContext, Judged, judge_all
from rageval_dagster.gate.spec import GateSpec
from rageval_dagster.metrics.interface import Metric, Tools
from rageval_dagster.records import Item, Outcome
from rageval_dagster.settings import load_settings
from rageval_dagster.storage import results as result_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.benchmark import Dataset
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, get_evaluation
from tests.storage.history_builder import (
    MRR,
    answer_key,
    finish,
    make_items,
    open_run,
    result_of,
    retrieval_key,
    retrieval_of,
)

SPEC = replace(GateSpec.from_settings(load_settings({})), metrics=("retrieval.mrr",), effect=0.2)
ITEMS = make_items(60)


def evaluated(
    db: Database,
    dataset: Dataset,
    trigger: str,
    values: Mapping[str, float | None],
    version: str = "1",
    items: Sequence[Item] = (),
    results_of: str = "",
    kept: Collection[str] = (),
    depth: int = 10,
    **versions: str | bool | None,
) -> EvaluationReport:
    """A complete evaluation in which each item (of `items`, or ITEMS) has this reciprocal rank; None: an error; nan:
    undefined, since no document holds its evidence.

    Each question brings back as many passages as `depth`: the first of doc-1, the second of doc-2.
    It reuses the results of the trigger `results_of`, where one is given, of the items `kept` or of all. `versions` are
    other ones for `open_run`.
    """
    evaluation = open_run(db, dataset, trigger, **{"reference": False, **versions})  # pyright: ignore[reportArgumentType]
    items = [item for item in items or ITEMS if item.item_id in values]
    reused = {item.item_id for item in items if results_of and (not kept or item.item_id in kept)}
    retrievals = [retrieval_of(item, depth, salt=results_of if item.item_id in reused else trigger) for item in items]
    keys = {item.item_id: retrieval_key(evaluation, item.item_id) for item in items}
    result_storage.save_retrievals(db, evaluation.id, [(each, keys[each.item_id]) for each in retrievals])
    results = [result_of(each) for each in retrievals]
    keys = {item.item_id: answer_key(evaluation, item.item_id) for item in items}
    result_storage.save_results(db, evaluation.id, [(each, keys[each.item_id]) for each in results])
    outcomes = [(each.result_id, MRR, version, _outcome(values[each.item_id])) for each in results]
    score_storage.save_scores(db, evaluation.id, outcomes)
    finish(db, evaluation, {})
    known = [value for value in values.values() if value is not None and not math.isnan(value)]
    failed = sum(value is None for value in values.values())
    score_storage.save_summaries(
        db,
        evaluation.id,
        [
            score_storage.Summary(
                metric_id=MRR,
                metric_version=version,
                ceiling=None,
                n=len(values),
                n_scored=len(known),
                n_undefined=len(values) - len(known) - failed,
                n_error=failed,
                mean=sum(known) / len(known) if known else None,
                ci_low=None,
                ci_high=None,
                min=None,
                max=None,
                worst_low=None,
                worst_high=None,
            )
        ],
    )
    return report_of(db, get_evaluation(db, evaluation.id))


def _outcome(value: float | None) -> Outcome:
    if value is not None and math.isnan(value):
        return Outcome.undefined("no evidence")
    return Outcome.error("timeout") if value is None else Outcome.scored(value)


def ranks(items: Sequence[Item], wrong: int = 0, by: float = 0.0) -> dict[str, float | None]:
    return {item.item_id: by if number < wrong else 1.0 for number, item in enumerate(items)}


AskAgain = Callable[[Evaluation, Sequence[Item], Sequence[str]], Mapping[str, Mapping[str, Outcome]]]


def saying_the_same(db: Database) -> AskAgain:
    """A system that says each time what it said in the evaluation."""

    def ask_again(evaluation: Evaluation, items: Sequence[Item], metric_ids: Sequence[str]):
        versions = {each.metric_id: each.metric_version for each in score_storage.load_summaries(db, evaluation.id)}
        scores = score_storage.load_scores(db, evaluation.id, {name: versions[name] for name in metric_ids})
        return {name: {item.item_id: scores[name][item.item_id] for item in items} for name in metric_ids}

    return ask_again


def other_judge(score: Callable[[str], float]) -> Metric:
    """The reciprocal rank by another version, which scores each item by its id."""
    return Metric(
        id=MRR,
        version="2",
        needs=frozenset(),
        unanswerable="undefined",
        description="made up",
        edge_cases="",
        source="",
        score=lambda results, _: [{"mrr": Outcome.scored(score(each.item.item_id))} for each in results],
    )


def held(
    db: Database,
    *reports: EvaluationReport,
    ask_again: AskAgain | None = None,
    recorded: Sequence[str] = (),
    metrics: Sequence[Metric] = (),
    spec: GateSpec = SPEC,
) -> list[Judged]:
    return judge_all(
        db, reports, GateContext(spec, lambda _: metrics, Tools, ask_again or saying_the_same(db), recorded, Tools)
    )
