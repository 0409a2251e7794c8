"""What must be read before any number: leaks, systems that failed, runs that failed or died; names and numbers only."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rageval_dagster.evaluation.leaks import chunks_of_others, stray_chunks
from rageval_dagster.evaluation.verdict import too_many_errors
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation
from rageval_dagster.storage.incidents import Incident, open_incidents
from rageval_dagster.storage.standing import dataset_verdicts, last_evaluated
from rageval_dagster.telling.reasons import broken_rules, one_line, reason
from rageval_dagster.text import plural


@dataclass(frozen=True)
class Alarm:
    """One or two sentences, the command that says more, and of an evaluation its number."""

    sentence: str
    command: str
    evaluation_id: int | None = None


def leak_alarm(db: Database, evaluation: Evaluation) -> Alarm | None:
    """That the system returned chunks of other clients."""
    if not evaluation.foreign_chunks:
        return None
    asked = len({stray.item_id for stray in stray_chunks(db, [evaluation], "foreign")})
    about = f"for {plural(asked, 'question')} of dataset {one_line(evaluation.dataset_name)}"
    return _of(evaluation, f"returned {chunks_of_others(evaluation.foreign_chunks)} {about}: a leak.")


def failure_alarm(evaluation: Evaluation, max_error_share: float) -> Alarm | None:
    """That the system failed on more questions than allowed."""
    if not too_many_errors(evaluation.error_count, evaluation.item_count, max_error_share):
        return None
    asked = plural(evaluation.item_count, "question")
    dataset = one_line(evaluation.dataset_name)
    return _of(evaluation, f"failed on {evaluation.error_count:,} of {asked} of dataset {dataset}.")


def run_alarms(db: Database, evaluations: Sequence[Evaluation], max_error_share: float) -> list[Alarm]:
    """Of the evaluations of one run: the leaks, then the systems that failed."""
    found = [leak_alarm(db, each) for each in evaluations]
    found += [failure_alarm(each, max_error_share) for each in evaluations]
    return [each for each in found if each is not None]


def client_alarms(db: Database, client_id: str) -> list[Alarm]:
    """That a client's last run failed or died, or that its benchmark breaks its rules; with how old the numbers are."""
    at = last_evaluated(db, [client_id]).get(client_id)
    if at is None:
        age = "Nothing has been evaluated completely."
    else:
        age = f"The last complete evaluation is of {at.astimezone(UTC):%Y-%m-%d %H:%M} UTC: no number here is newer."
    again = f"rageval evaluate --client {shlex.quote(client_id)}"
    found = [
        Alarm(f"The last run failed {reason(each)}. {age}", again)
        for each in open_incidents(db, [client_id])
        if is_failed_run(each, at)
    ]
    for each in dataset_verdicts(db, [client_id]):
        if not each.valid:
            said = (
                f"The benchmark {one_line(each.name)} breaks its rules: {broken_rules(each.rule_failures, one_line)}."
            )
            found.append(Alarm(f"{said} {age}", f"rageval datasets show {each.dataset_id}"))
    return found


def is_failed_run(incident: Incident, evaluated_at: datetime | None) -> bool:
    """Whether it is of a run that failed, and no evaluation was completed since.

    A run that succeeds is seen a little later than what it evaluated.
    """
    if incident.kind != "failed_run":
        return False
    return evaluated_at is None or evaluated_at < datetime.fromisoformat(incident.details["ended_at"])


def _of(evaluation: Evaluation, what: str) -> Alarm:
    system = one_line(evaluation.system)
    return Alarm(f"System {system} {what}", f"rageval runs show {evaluation.id}", evaluation.id)
