"""Which evaluation others are held against: the first that can be, one that a person accepts, one that takes over."""

from collections.abc import Sequence

from rageval_dagster.errors import RagevalError
from rageval_dagster.evaluation.bridging import LEAST_SHARED, shared_count
from rageval_dagster.evaluation.summary import EvaluationReport
from rageval_dagster.evaluation.verdict import with_too_many_errors
from rageval_dagster.gate.comparison import NOT_IN_BASELINE, OTHER_JUDGE
from rageval_dagster.gate.spec import GateSpec
from rageval_dagster.storage import benchmark as benchmark_storage
from rageval_dagster.storage import comparisons as comparison_storage
from rageval_dagster.storage.comparisons import MetricComparison
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.text import plural

ENOUGH, ENOUGH_IF_BLIND = 0.5, 0.8
"""The share of an evaluation's questions that the baseline has to know: always, and where little could be seen."""


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


def accept(db: Database, evaluation: Evaluation) -> None:
    """Makes an evaluation the baseline of its dataset's name and its system.

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
            f"in evaluation {evaluation.id} the system returned {plural(evaluation.foreign_chunks, 'chunk')} of other "
            f"clients: a run that leaks cannot be the baseline; `rageval runs show {evaluation.id}` names them; mend "
            "the system and evaluate the client again"
        )
    if evaluation.answered_nothing:
        raise RagevalError(
            f"in evaluation {evaluation.id} the system failed on every question: nothing can be held against it; "
            "accept one in which it answered"
        )
    comparison_storage.save_baseline(db, evaluation, "accepted")
    comparison_storage.mark_first(db, evaluation.id)


def takes_over(
    db: Database, evaluation: Evaluation, before: Evaluation, rows: Sequence[MetricComparison], spec: GateSpec
) -> bool:
    """Whether an evaluation becomes the baseline because the present one knows too little of it.

    That is where most of its questions, or a metric of the gate, were never measured in the baseline, or over a fifth
    of them were not and a drop that matters could go unseen, or a judge changed and the baseline's answers are gone;
    but only while no metric looks worse by more than the tolerance, be it by chance. So a dataset that grew, or was
    renewed a fifth at a time, is compared in all its questions.
    """
    unknown = [row for row in rows if row.remark in (NOT_IN_BASELINE, OTHER_JUDGE)]
    known = [row for row in rows if row not in unknown]
    if any(row.fall is None or row.fall > spec.tolerance for row in known) or not rows:
        return False
    shared = shared_count(db, before.dataset_id, evaluation.dataset_id)
    blind = any(row.smallest_drop is None or row.smallest_drop > spec.effect for row in known)
    enough = max(LEAST_SHARED, (ENOUGH_IF_BLIND if blind else ENOUGH) * evaluation.item_count)
    return bool(unknown) or shared < min(enough, evaluation.item_count)
