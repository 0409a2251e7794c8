"""The reference that others are held against: the first evaluation that can be, then whichever a person accepts."""

from rageval_dagster.errors import RagevalError
from rageval_dagster.evaluation.leaks import passages_of_others
from rageval_dagster.evaluation.summary import EvaluationReport
from rageval_dagster.evaluation.verdict import with_too_many_errors
from rageval_dagster.gate.comparison import is_right
from rageval_dagster.gate.spec import GateSpec
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import comparisons as comparison_storage
from rageval_dagster.storage import scores as score_storage
from rageval_dagster.storage.comparisons import Reason
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.scores import Repeated


def may_be_baseline(db: Database, report: EvaluationReport, spec: GateSpec) -> bool:
    """Whether later evaluations can be held against this one without anybody saying so.

    It measured something, with few errors in the metrics of the gate and no leak, at the cutoff of the client's
    settings, on the current dataset of its name.
    """
    evaluation = report.evaluation
    current = {dataset.id for dataset in benchmark_storage.current_datasets(db, evaluation.client_id)}
    erring = with_too_many_errors(report, spec.max_error_share)
    gated = spec.gated(report.summaries, evaluation.k, report.level)
    return (
        report.is_judged
        and not evaluation.foreign_chunks
        and evaluation.k == spec.k
        and evaluation.dataset_id in current
        and not set(erring) & set(gated)
    )


def accept(db: Database, evaluation: Evaluation, accepted_by: str | None) -> None:
    """Makes an evaluation the reference of its dataset's name and its system, as this person said.

    Raises:
        RagevalError: it is not complete, or its system leaked or answered nothing.
    """
    if evaluation.status != "complete":
        raise RagevalError(
            f"evaluation {evaluation.id} is {evaluation.status}: only a complete one can be the baseline; evaluate the "
            "client again"
        )
    if evaluation.foreign_chunks:
        raise RagevalError(
            f"in evaluation {evaluation.id} the system returned {passages_of_others(evaluation.foreign_chunks)}: a run "
            f"that leaks cannot be the baseline; `rageval runs show {evaluation.id}` names what it returned; fix the "
            "system and evaluate the client again"
        )
    if evaluation.answered_nothing:
        raise RagevalError(
            f"in evaluation {evaluation.id} the system failed on every question: nothing can be compared with it; "
            "accept one in which it answered"
        )
    set_baseline(db, evaluation, "accepted", accepted_by)
    comparison_storage.mark_first(db, evaluation.id)


def set_baseline(db: Database, evaluation: Evaluation, reason: Reason, accepted_by: str | None = None) -> None:
    """Makes an evaluation the reference, with what its questions scored when they were last asked three times.

    Each was when it joined, and again when it turned; earlier evaluations may be deleted. One that turned and turned
    back is as it was before.
    """
    asked = benchmark_storage.questions_asked(db, [evaluation.dataset_id]).get(evaluation.dataset_id, {})
    times = score_storage.load_repeated(db, evaluation)
    summaries = {each.metric_id: each for each in score_storage.load_summaries(db, evaluation.id)}
    scores = score_storage.load_scores(db, evaluation.id, {name: e.metric_version for name, e in summaries.items()})

    def came_out_alike(each: Repeated, item_id: str) -> bool:
        return all(
            is_right(summaries[name], values[0]) == is_right(summaries[name], now.value)
            for name, values in each.scores.items()
            if values[0] is not None and (now := scores.get(name, {}).get(item_id)) and now.value is not None
        )

    newest = {
        each.key: next((one for one in reversed(found) if came_out_alike(one, each.item_id)), found[-1])
        for each in asked.values()
        if (found := times.get(each.key))
    }
    score_storage.save_repeated(db, evaluation, newest)
    comparison_storage.save_baseline(db, evaluation, reason, accepted_by)
