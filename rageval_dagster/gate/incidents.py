"""Which incidents there are: read from the state of the database, opened while a condition holds, closed after it."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from rageval_dagster.errors import SettingsError
from rageval_dagster.evaluation.summary import failures
from rageval_dagster.evaluation.verdict import too_many_errors
from rageval_dagster.gate.causes import CHANGED_ANSWERS, LOST_EVIDENCE, detail_of
from rageval_dagster.gate.drift import JUDGE_DRIFT
from rageval_dagster.rag.failures import kind_of
from rageval_dagster.settings import Settings
from rageval_dagster.storage import incidents as incident_storage
from rageval_dagster.storage.clients import list_clients
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import get_evaluation
from rageval_dagster.storage.incidents import Finding, Incident
from rageval_dagster.storage.standing import (
    DatasetVerdict,
    Standing,
    dataset_verdicts,
    evaluated_since,
    last_evaluated,
    standings,
)

_OF_EVALUATIONS = ("regression", "leak", "errors", "benchmark", "lost_evidence", "judge_drift", "changed_answers")
OPENED_BY = "opened_by"
"""Where the details of an open incident say which evaluation it was opened for, if they are of a newer one."""
_BY_BASELINE = ("regression", "lost_evidence", "judge_drift", "changed_answers")
"""What is so only against a baseline."""
_COMPARED = ("baseline_id", "baseline_mean", "mean", "difference", "ci_low", "ci_high", "n_shared")

Reason = Literal["recovered", "accepted", "not_watched"]
"""Why an incident is over: it is well again, somebody accepted it, or nobody measures it any more."""


@dataclass(frozen=True)
class EndedRun:
    """A run of a client that ended; where it failed, at which step, by which class of error, or by which check.

    `died` is whether its process did, in the middle of the step.
    """

    run_id: str
    failed: bool
    step: str | None = None
    error: str | None = None
    check: str | None = None
    died: bool = False
    ended_at: datetime | None = None


@dataclass(frozen=True)
class Freshness:
    """Whether a client has a complete evaluation that is not older than its settings say, and when the last one was."""

    client_id: str
    fresh: bool
    fresh_hours: float
    evaluated_at: datetime | None

    def metadata(self) -> dict[str, Any]:
        at = None if self.evaluated_at is None else self.evaluated_at.isoformat(timespec="seconds")
        return {"last_evaluated": at or "never", "fresh_hours": self.fresh_hours}

    @property
    def said(self) -> str:
        at = "never" if self.evaluated_at is None else f"{self.evaluated_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        return f"Last complete evaluation: {at}. At most {self.fresh_hours:g} hours ago is allowed."


def review(db: Database, settings: Settings, client_ids: Collection[str], now: datetime) -> None:
    """Opens and closes what these clients' newest complete evaluations and current datasets say: regressions, leaks,
    too many errors, and benchmarks that fail their rules.

    It counts what the client's own settings evaluate. A client that somebody works on, that vanished from the store, or
    whose settings are wrong stays as it is. Doing it again changes nothing.
    """
    looked_at: dict[str, Settings] = {}
    for client in list_clients(db):
        if client.client_id in client_ids and client.vanished_at is None and not client.is_busy:
            with suppress(SettingsError):
                looked_at[client.client_id] = settings.for_client(client.client_id)
    current = {
        (found.client_id, found.dataset_name, found.system): found
        for found in standings(db, looked_at)
        if found.system in looked_at[found.client_id].system
    }
    datasets = {(found.client_id, found.name): found for found in dataset_verdicts(db, looked_at)}
    findings = [
        *(finding for found in current.values() for finding in _of_evaluation(found, looked_at[found.client_id])),
        *(
            Finding(
                found.client_id,
                "benchmark",
                found.name,
                details={"dataset": found.name, "dataset_id": found.dataset_id, "rules": dict(found.rule_failures)},
            )
            for found in datasets.values()
            if not found.valid
        ),
    ]
    known = [found for found in incident_storage.open_incidents(db, looked_at) if found.kind in _OF_EVALUATIONS]
    holding = {finding.key for finding in findings}
    ended = [
        (incident, over)
        for incident in known
        if (over := _over(incident, incident.open_key in holding, current, datasets)) is not None
    ]
    incident_storage.close_all(db, ended, now)
    over_ids = {incident.id for incident, _ in ended}
    known = [incident for incident in known if incident.id not in over_ids]
    _update(db, findings, known)
    _open_new(db, findings, known, now)


def review_freshness(db: Database, settings: Settings, now: datetime) -> list[Freshness]:
    """Opens an incident for each client that the store has, that is evaluated by schedule, and that has had no complete
    evaluation for as long as its settings allow; closes those that have one again, or are not watched any more.

    A new client has that time to get its first one.

    Returns:
        The clients of which that changed.
    """
    watched: dict[str, tuple[datetime, float]] = {}
    for client in list_clients(db):
        # One whose own settings are wrong is watched all the more: its runs fail.
        own = settings.for_client_or_default(client.client_id)
        if client.vanished_at is None and own.enabled:
            watched[client.client_id] = client.created_at, own.fresh_hours
    longest = max((hours for _, hours in watched.values()), default=0)
    evaluated = evaluated_since(db, now - timedelta(hours=longest))
    stale = {
        client_id
        for client_id, (created_at, hours) in watched.items()
        if now - max(created_at, evaluated.get(client_id, created_at)) > timedelta(hours=hours)
    }
    known = {found.client_id: found for found in incident_storage.open_incidents(db) if found.kind == "stale"}
    new = sorted(stale - set(known))
    last = last_evaluated(db, new)
    opened = [Freshness(client_id, False, watched[client_id][1], last.get(client_id)) for client_id in new]
    findings = [Finding(each.client_id, "stale", details=each.metadata()) for each in opened]
    incident_storage.open_all(db, findings, now)
    again = [
        Freshness(client_id, True, watched[client_id][1], evaluated.get(client_id))
        for client_id in sorted((set(known) & set(watched)) - stale)
    ]
    recovered = {each.client_id: _because("recovered", **each.metadata()) for each in again}
    ended = [
        (found, recovered.get(client_id) or _because("not_watched"))
        for client_id, found in known.items()
        if client_id not in stale
    ]
    incident_storage.close_all(db, ended, now)
    return [*opened, *again]


def freshness(db: Database, settings: Settings, client_id: str, now: datetime) -> Freshness:
    """Whether one client has a complete evaluation that is new enough."""
    hours = settings.for_client(client_id).fresh_hours
    at = last_evaluated(db, [client_id]).get(client_id)
    return Freshness(client_id, at is not None and now - at <= timedelta(hours=hours), hours, at)


def note_run(db: Database, client_id: str, run: EndedRun, now: datetime) -> bool:
    """Opens an incident where a client's newest run failed; closes it where the run succeeded.

    One that is open names the newest failed run from now on; people are told once. A benchmark whose check ended the
    run has an incident of its own, which `review` opened before: that is enough.

    Returns:
        Whether it failed and was not noted before.
    """
    known = incident_storage.open_incidents(db, [client_id])
    failing = [found for found in known if found.kind == "failed_run"]
    if not run.failed:
        over = _because("recovered", run_id=run.run_id)
        incident_storage.close_all(db, [(found, over) for found in failing], now)
        return False
    if run.check is not None and any(found.kind == "benchmark" for found in known):
        return False
    details = {
        name: value for name, value in asdict(run).items() if name in ("step", "error", "check", "died") and value
    }
    details["ended_at"] = (run.ended_at or now).isoformat()
    if run.run_id in [found.run_id for found in failing]:
        return False
    for found in failing:
        incident_storage.update_open(db, found, Finding(client_id, "failed_run", run_id=run.run_id, details=details))
    _open_new(db, [Finding(client_id, "failed_run", run_id=run.run_id, details=details)], known, now)
    return True


def _of_evaluation(found: Standing, own: Settings) -> Iterator[Finding]:
    place = f"{found.dataset_name}/{found.system}"
    names = {"dataset": found.dataset_name, "system": found.system}
    where = {"evaluation_id": found.id, "run_id": found.dagster_run_id}
    if found.foreign_chunks:
        yield Finding(found.client_id, "leak", place, **where, details={**names, "chunks": found.foreign_chunks})
    allowed = own.max_error_share
    failed = too_many_errors(found.error_count, found.item_count, allowed)
    erring = [name for name, (errors, of) in found.erring.items() if too_many_errors(errors, of, allowed)]
    if failed or erring:
        # Where the system itself failed, so did every metric.
        metrics = {} if failed else {name: found.erring[name][0] for name in erring}
        details = {**names, "questions": found.item_count, "failed": found.error_count, "metrics": metrics}
        yield Finding(found.client_id, "errors", place, **where, details=details)
    lost = detail_of(found.changes, LOST_EVIDENCE)
    if lost is not None and found.verdict in ("unclear", "regressed"):
        yield Finding(found.client_id, "lost_evidence", place, **where, details={**names, "lost": lost})
    if answers := detail_of(found.changes, CHANGED_ANSWERS):
        yield Finding(found.client_id, "changed_answers", place, **where, details={**names, "answers": answers})
    drift = detail_of(found.changes, JUDGE_DRIFT)
    if drift is not None and found.verdict in ("passed", "unclear", "regressed"):
        yield Finding(found.client_id, "judge_drift", place, **where, details={**names, "drift": drift})
    fallen = [row for row in found.gated if row.decision == "regressed"] if found.verdict == "regressed" else []
    if fallen:
        deepest = max(fallen, key=lambda row: (row.fall or 0.0, row.metric_id))
        details = {
            **names,
            "metric": deepest.metric_id,
            **{name: getattr(deepest, name) for name in _COMPARED},
            "other_metrics": [row.metric_id for row in fallen if row is not deepest],
            "changes": [asdict(change) for change in found.changes],
            "newly_failing": found.newly_failing,
            "asked_again": found.asked_again,
        }
        yield Finding(found.client_id, "regression", place, **where, details=details)


def _over(
    incident: Incident,
    holds: bool,
    current: Mapping[tuple[str, str, str], Standing],
    datasets: Mapping[tuple[str, str], DatasetVerdict],
) -> dict[str, Any] | None:
    """What ended an incident; None where nothing did, or where it was not looked at this time.

    One whose condition `holds` ended where its evaluation was accepted since: what is so now is news.
    """
    details = incident.details
    if holds:
        found = current.get((incident.client_id, details.get("dataset", ""), details.get("system", "")))
        if incident.kind not in _BY_BASELINE or found is None or not _is_accepted(incident, found):
            return None
        return _because("accepted", evaluation_id=found.baseline_id)
    if incident.kind == "benchmark":
        dataset = datasets.get((incident.client_id, details["dataset"]))
        return _because("recovered", dataset_id=dataset.dataset_id) if dataset else _because("not_watched")
    found = current.get((incident.client_id, details["dataset"], details["system"]))
    if found is None:
        return _because("not_watched")
    if incident.kind == "leak" and found.foreign_chunks is None:
        return None
    if incident.kind in ("leak", "errors"):
        return _because("recovered", evaluation_id=found.id)
    if found.verdict not in ("first", "passed"):
        return None  # what is unclear is no recovery
    if found.verdict == "first" or _is_accepted(incident, found):
        return _because("accepted", evaluation_id=found.id)
    if incident.kind != "regression":
        return _because("recovered", evaluation_id=found.id)
    row = next((row for row in found.gated if row.metric_id == details["metric"]), None)
    if row is None:
        return _because("not_watched")
    return _because(
        "recovered", evaluation_id=found.id, verdict=found.verdict, baseline_mean=row.baseline_mean, mean=row.mean
    )


def _is_accepted(incident: Incident, found: Standing) -> bool:
    """Whether the baseline is the evaluation that an incident was opened for, or a later one."""
    opened_by = _opened_by(incident)
    return opened_by is not None and found.id > opened_by and (found.baseline_id or 0) >= opened_by


def _opened_by(incident: Incident) -> int | None:
    """The evaluation that an incident was opened for; it names the newest one that was found to be so."""
    return incident.details.get(OPENED_BY, incident.evaluation_id)


def _because(reason: Reason, **more: Any) -> dict[str, Any]:
    return {"reason": reason, **more}


def _update(db: Database, findings: Iterable[Finding], known: Iterable[Incident]) -> None:
    """Lets open incidents tell of the newest evaluation, or dataset, that was found to be so: its numbers and cause."""
    newest = {finding.key: finding for finding in findings}
    for incident in known:
        finding = newest.get(incident.open_key or "")
        if finding is None:
            continue
        same = finding.evaluation_id == incident.evaluation_id
        if same and (finding.evaluation_id is not None or finding.details == incident.details):
            continue  # a quiet look shall not write
        opened_by = {} if finding.evaluation_id is None else {OPENED_BY: _opened_by(incident)}
        details = {**_with_reason(db, finding).details, **opened_by}
        incident_storage.update_open(db, incident, replace(finding, details=details))


def _open_new(db: Database, findings: Iterable[Finding], known: Iterable[Incident], now: datetime) -> None:
    # The database opens each once in any case; a quiet look shall not write.
    keys = {incident.open_key for incident in known}
    new = [_with_reason(db, finding) for finding in findings if finding.key not in keys]
    incident_storage.open_all(db, new, now)


def _with_reason(db: Database, finding: Finding) -> Finding:
    """Where a system failed, with why it mostly did; not looked up before it is told, since it reads the results."""
    if finding.kind != "errors" or finding.details["metrics"] or finding.evaluation_id is None:
        return finding
    [(reason, _)] = failures(db, get_evaluation(db, finding.evaluation_id)).most_common(1) or [("", 0)]
    return replace(finding, details={**finding.details, "reason": kind_of(reason)})
