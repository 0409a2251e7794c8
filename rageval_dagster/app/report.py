"""The HTML reports, made anew from the history."""

from pathlib import Path

from rageval_dagster.app.clients import require_client
from rageval_dagster.app.opening import Tell, untold
from rageval_dagster.errors import RagevalError
from rageval_dagster.metrics.registry import SHORT_NAMES, declared_metrics, generic_id, nearest_id, options_of
from rageval_dagster.report.files import write_client_report, write_fleet_report
from rageval_dagster.settings import Settings
from rageval_dagster.storage.clients import list_clients
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.standing import runs_left_behind


def note_left_behind(settings: Settings, db: Database, tell: Tell = untold) -> None:
    """Notes the runs that died, or failed where no daemon looks: reports, page of all clients and incidents say so."""
    if runs_left_behind(db):
        from rageval_dagster.automation.alerts import note_left_behind as note

        if trouble := note(db, settings):
            tell(trouble)


def write_reports(
    settings: Settings,
    db: Database,
    client: str | None = None,
    redact: bool = False,
    objective: str | None = None,
    tell: Tell = untold,
) -> list[Path]:
    """Writes the report of a client, or (None) of all, and last the page of all; gives their paths.

    Args:
        redact: numbers and ids only: no texts of documents.
        objective: the metric by which several systems are ranked, `k` in its id standing for the settings' cutoff;
            also by one of seed 001's plain names. None: the first of the gate's that they have.

    Raises:
        RagevalError: there is no such client or metric, or the folder of reports cannot be written.
    """
    if client is not None:
        require_client(settings, client, tell)
    note_left_behind(settings, db, tell)
    metric_id = None
    if objective is not None:
        metrics = declared_metrics(settings, options_of(settings, settings.k))
        meant = SHORT_NAMES.get(objective, objective)
        named = [each.id for each in metrics if meant in (each.id, generic_id(each.id, settings.k))]
        if not named:
            near = nearest_id(objective, metrics, settings.k)
            raise RagevalError(f"--objective: there is no metric {objective!r}{near}")
        metric_id = named[0]
    clients = [each.client_id for each in list_clients(db)] if client is None else [client]
    paths = [write_client_report(db, settings, each, redact, metric_id) for each in clients]
    return [*paths, write_fleet_report(db, settings)]
