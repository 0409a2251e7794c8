"""What went wrong in an evaluation, a line each: the system, the metrics, and chunks that are not the client's."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rageval_dagster.evaluation.leaks import Stray, chunks_of_others
from rageval_dagster.evaluation.summary import EvaluationReport, is_by_model
from rageval_dagster.rag.failures import remedy
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.text import named, plural, showable

MAX_NAMES = 10
MOST_LEAKED = 5
MAX_REASONS = 3

Reasons = Mapping[str, Counter[str]]
"""{metric id: on how many questions, by reason}."""


def failed_questions(evaluation: Evaluation, reasons: Counter[str]) -> str | None:
    """The questions that the system failed on, by reason, and what to do; None without any."""
    if not reasons:
        return None
    said = "; ".join(f"{showable(reason)} ({count})" for reason, count in reasons.most_common(MAX_NAMES))
    [(commonest, _)] = reasons.most_common(1)
    todo = remedy(commonest, showable(evaluation.system))
    return (
        f"{evaluation.client_id} / {evaluation.dataset_name}: {evaluation.system} failed on {reasons.total()} of "
        f"{plural(evaluation.item_count, 'question')}: {said}" + (f": {todo}" if todo else "")
    )


def failed_metrics(report: EvaluationReport, reasons: Reasons, too_many: Sequence[str]) -> str | None:
    """The metrics with more errors than allowed, beside those of the system; None without any."""
    if not too_many:
        return None
    said: list[str] = []
    for name in too_many[:MAX_NAMES]:
        [(reason, count)] = reasons[name].most_common(1)
        said.append(f"{name} {reasons[name].total()} of {report.summaries[name].n} ({showable(reason)}: {count})")
    return (
        f"{report.evaluation.client_id} / {report.evaluation.dataset_name}: more errors than RAGEVAL_MAX_ERROR_SHARE "
        f"allows: {'; '.join(said)}"
        + (f"; and {len(too_many) - MAX_NAMES} more metrics" if len(too_many) > MAX_NAMES else "")
    )


def metric_errors(reasons: Reasons) -> str | None:
    """The commonest reasons of metrics' errors, beside those of the system; None without any."""
    counts = Counter({(name, reason): count for name, found in reasons.items() for reason, count in found.items()})
    if not counts:
        return None
    commonest = counts.most_common(MAX_REASONS)
    said = "; ".join(f"{name}: {showable(reason)} ({count})" for (name, reason), count in commonest)
    more = len(counts) - len(commonest)
    return f"metrics failed: {said}" + (f"; and {plural(more, 'reason')} more" if more else "")


def nowhere_defined(reasons: Mapping[str, str]) -> str | None:
    """The metrics that are undefined for every question ({metric id: reason}), by reason; None without any."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(name)
    if not by_reason:
        return None
    # What a judge model was wanted for comes first.
    commonest = sorted(by_reason.items(), key=lambda entry: (not any(map(is_by_model, entry[1])), -len(entry[1])))
    said = "; ".join(f"{showable(reason)} ({some(names, MAX_REASONS)})" for reason, names in commonest[:MAX_REASONS])
    more = len(commonest) - MAX_REASONS
    return f"undefined for every question: {said}" + (f"; and {plural(more, 'reason')} more" if more > 0 else "")


def leak(evaluation: Evaluation, leaked: Sequence[Stray]) -> str | None:
    """The chunks of other clients that the system returned; None without any."""
    if not leaked:
        return None
    chunks, questions = sorted({stray.chunk_id for stray in leaked}), sorted({stray.item_id for stray in leaked})
    return (
        f"{evaluation.client_id}: LEAK: {evaluation.system} returned {chunks_of_others(len(chunks))} "
        f"for {plural(len(questions), 'question')}: chunks {named(chunks, MOST_LEAKED)}; "
        f"questions {named(questions, MOST_LEAKED)}"
    )


def unknown_chunks(evaluation: Evaluation) -> str | None:
    """The chunks that the system returned and the document store does not have; None without any."""
    if not evaluation.unknown_chunks:
        return None
    return (
        f"{evaluation.client_id} / {evaluation.dataset_name}: {evaluation.system} returned "
        f"{plural(evaluation.unknown_chunks, 'chunk')} that the document store does not have: stale, or made up"
    )


def some(names: Sequence[str], most: int = MAX_NAMES) -> str:
    """The first of several names, showable."""
    return ", ".join(map(showable, names[:most])) + (", ..." if len(names) > most else "")
