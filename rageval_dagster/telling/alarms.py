"""What went wrong: leaks, systems and metrics that failed, runs that failed or died.

In a sentence for the head of a page (names and numbers only), and in a line with reasons and ids for the terminal.
"""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rageval_dagster.evaluation.leaks import ANSWER, Stray, passages_of_others, stray_chunks, words_of
from rageval_dagster.evaluation.summary import EvaluationReport, is_by_model
from rageval_dagster.evaluation.verdict import too_many_errors
from rageval_dagster.rag.failures import remedy
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.incidents import Incident, open_incidents
from rageval_dagster.storage.standing import dataset_verdicts, last_evaluated
from rageval_dagster.telling.reasons import broken_rules, plain_reason
from rageval_dagster.telling.verdicts import failed_on
from rageval_dagster.telling.words import minute, one_line
from rageval_dagster.text import named, plural, showable

MOST_LEAKED = 5
MAX_REASONS = 3

Reasons = Mapping[str, Counter[str]]
"""{metric id: on how many questions, by reason}."""


@dataclass(frozen=True)
class Alarm:
    """What must be read before any number: one or two sentences, the command that says more, and of an evaluation its
    number."""

    sentence: str
    command: str
    evaluation_id: int | None = None


def leak_alarm(db: Database, evaluation: Evaluation) -> Alarm | None:
    """That the system returned passages of other clients."""
    if not evaluation.foreign_chunks:
        return None
    said = _leaked(evaluation, evaluation.foreign_chunks, stray_chunks(db, [evaluation], "foreign"))
    return _of(evaluation, f"{said} of dataset {one_line(evaluation.dataset_name)}: a leak.")


def failure_alarm(evaluation: Evaluation, max_error_share: float) -> Alarm | None:
    """That the system failed on more questions than allowed."""
    if not too_many_errors(evaluation.error_count, evaluation.item_count, max_error_share):
        return None
    said = failed_on(one_line(evaluation.system), evaluation.error_count, evaluation.item_count)
    return _of(evaluation, f"{said} of dataset {one_line(evaluation.dataset_name)}.")


def run_alarms(db: Database, evaluations: Sequence[Evaluation], max_error_share: float) -> list[Alarm]:
    """Of the evaluations of one run: the leaks, then the systems that failed."""
    found = [leak_alarm(db, each) for each in evaluations]
    found += [failure_alarm(each, max_error_share) for each in evaluations]
    return [each for each in found if each is not None]


def client_alarms(db: Database, client_id: str) -> list[Alarm]:
    """That a client's last run failed or died, or that its benchmark breaks its rules; with how old the numbers are."""
    at = last_evaluated(db, [client_id]).get(client_id)
    if at is None:
        age = "No evaluation has completed yet."
    else:
        age = f"The last complete evaluation is from {minute(at)} UTC: no number here is newer."
    again = f"rageval evaluate --client {shlex.quote(client_id)}"
    failed = [each for each in open_incidents(db, [client_id]) if is_failed_run(each, at)]
    broken = [each for each in dataset_verdicts(db, [client_id]) if not each.valid]
    return [
        *(Alarm(f"{plain_reason(each)} {age}", again) for each in failed),
        *(
            Alarm(
                f"The benchmark {one_line(each.name)} breaks its rules: {broken_rules(each.rule_failures)}. {age}",
                f"rageval datasets show {each.dataset_id}",
            )
            for each in broken
        ),
    ]


def is_failed_run(incident: Incident, evaluated_at: datetime | None) -> bool:
    """Whether it is of a run that failed, and no evaluation was completed since.

    A run that succeeds is seen a little later than what it evaluated.
    """
    if incident.kind != "failed_run":
        return False
    return evaluated_at is None or evaluated_at < datetime.fromisoformat(incident.details["ended_at"])


def failed_questions(evaluation: Evaluation, reasons: Counter[str]) -> str | None:
    """The questions that the system failed on, by reason, and what to do; None without any."""
    if not reasons:
        return None
    [(commonest, _)] = reasons.most_common(1)
    todo = remedy(commonest, showable(evaluation.system))
    said = failed_on(evaluation.system, reasons.total(), evaluation.item_count)
    return f"{_place(evaluation)}: {said}: {_counted(reasons, 10)}" + (f": {todo}" if todo else "")


def failed_metrics(report: EvaluationReport, reasons: Reasons, too_many: Sequence[str]) -> str | None:
    """The metrics with more errors than allowed, beside those of the system; None without any."""
    if not too_many:
        return None
    said = [
        f"{name} {reasons[name].total()} of {report.summaries[name].n} ({showable(why)}: {count})"
        for name in too_many
        for why, count in reasons[name].most_common(1)
    ]
    return f"{_place(report.evaluation)}: more errors than allowed: {_first(said, 10, 'metric')}"


def metric_errors(reasons: Reasons) -> str | None:
    """The commonest reasons of metrics' errors, beside those of the system; None without any."""
    counts = Counter({f"{name}: {why}": n for name, found in reasons.items() for why, n in found.items()})
    return f"metrics failed: {_counted(counts, MAX_REASONS)}" if counts else None


def nowhere_defined(reasons: Mapping[str, str]) -> str | None:
    """The metrics that are undefined for every question ({metric id: reason}), by reason; None without any."""
    by_reason: dict[str, list[str]] = {}
    for name, why in reasons.items():
        by_reason.setdefault(why, []).append(name)
    # What a judge model was wanted for comes first.
    commonest = sorted(by_reason.items(), key=lambda entry: (not any(map(is_by_model, entry[1])), -len(entry[1])))
    said = [f"{showable(why)} ({named(names, MAX_REASONS)})" for why, names in commonest]
    return f"undefined for every question: {_first(said, MAX_REASONS)}" if said else None


def leak(evaluation: Evaluation, leaked: Sequence[Stray]) -> str | None:
    """The passages of other clients that the system returned; None without any."""
    if not leaked:
        return None
    chunks, questions = sorted({stray.chunk_id for stray in leaked} - {ANSWER}), sorted({s.item_id for s in leaked})
    answers = sum(stray.chunk_id == ANSWER for stray in leaked)
    named_chunks = [f"chunks {named(chunks, MOST_LEAKED)}"] if chunks else []
    said = [*named_chunks, *([plural(answers, "answer")] if answers else [])]
    whose = words_of(leaked)
    words = f"; words of {named(whose, MOST_LEAKED)}" if whose else ""
    return (
        f"{evaluation.client_id}: LEAK: {_leaked(evaluation, len(chunks) + answers, leaked)}: {' and '.join(said)}; "
        f"questions {named(questions, MOST_LEAKED)}{words}"
    )


def unknown_chunks(evaluation: Evaluation) -> str | None:
    """The chunks that the system returned and the document store does not have; None without any."""
    if not evaluation.unknown_chunks:
        return None
    return (
        f"{_place(evaluation)}: {evaluation.system} returned {plural(evaluation.unknown_chunks, 'chunk')} that the "
        "document store does not have: from an older index, from documents that were not loaded, or made up"
    )


def _of(evaluation: Evaluation, what: str) -> Alarm:
    return Alarm(f"System {what}", f"rageval runs show {evaluation.id}", evaluation.id)


def _place(evaluation: Evaluation) -> str:
    return f"{evaluation.client_id} / {evaluation.dataset_name}"


def _leaked(evaluation: Evaluation, chunks: int, leaked: Sequence[Stray]) -> str:
    asked = len({stray.item_id for stray in leaked})
    return f"{one_line(evaluation.system)} returned {passages_of_others(chunks)} for {plural(asked, 'question')}"


def _counted(counts: Counter[str], most: int) -> str:
    """`timeout (3); no_answer (1); and 2 reasons more`, the commonest first."""
    return _first([f"{showable(why)} ({count})" for why, count in counts.most_common()], most)


def _first(said: Sequence[str], most: int, noun: str = "reason") -> str:
    more = len(said) - most
    return "; ".join([*said[:most], *([f"and {plural(more, f'more {noun}')}"] if more > 0 else [])])
