"""The reports' files: made from the history, written whole or not at all, readable by their owner only, deleted."""

import os
import tempfile
from datetime import datetime
from pathlib import Path

from rageval_dagster.errors import RagevalError, unwritable
from rageval_dagster.report.contents import client_contents
from rageval_dagster.report.page import client_page, fleet_page
from rageval_dagster.settings import Settings
from rageval_dagster.storage.clients import list_clients
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.incidents import open_incidents
from rageval_dagster.storage.standing import recent_means
from rageval_dagster.storage.views import read_view
from rageval_dagster.telling.links import FLEET_FILE, report_path
from rageval_dagster.telling.standing import client_standings

_OLD_S = 86_400


def write_client_report(
    db: Database, settings: Settings, client_id: str, redact: bool = False, objective: str | None = None
) -> Path:
    """Makes a client's report anew from the history. With `redact` it holds ids and numbers only.

    By `objective`, a metric's id, systems on the same questions are ranked; None: by the gate's.

    Raises:
        RagevalError: the folder of reports cannot be written.
    """
    # One whose own settings are wrong has a report all the more: it says that its runs fail.
    contents = client_contents(db, settings.for_client_or_default(client_id), client_id, redact, objective)
    path = report_path(settings.report_dir, client_id, redact)
    write_whole(path, client_page(contents, redact, FLEET_FILE))
    return path


def write_fleet_report(db: Database, settings: Settings) -> Path:
    """Makes the page of all clients anew; those that have a report are links.

    Raises:
        RagevalError: the folder of reports cannot be written.
    """
    folder = settings.report_dir
    overview = read_view(db, "fleet_overview")
    with_report = {row["client_id"] for row in overview if report_path(folder, row["client_id"]).exists()}
    path = folder / FLEET_FILE
    clients = client_standings(overview, open_incidents(db), settings)
    shown = {each.row["client_id"]: each.metric for each in clients}
    recent = recent_means(db, {client: metric for client, (metric, _, _) in shown.items() if metric is not None})
    # Of several datasets and systems the one whose number stands in the row.
    trends = {
        client: min(series, key=lambda points: abs((points[-1][1] or 0.0) - (shown[client][1] or 0.0)))
        for client, series in recent.items()
    }
    write_whole(path, fleet_page(clients, with_report, trends))
    return path


def reports_of_client(settings: Settings, client_id: str) -> list[Path]:
    """The client's files in the folder of reports: with texts, and without."""
    paths = (report_path(settings.report_dir, client_id, redacted) for redacted in (False, True))
    return [path for path in paths if path.exists()]


def delete_reports(db: Database, settings: Settings, client_id: str) -> list[str]:
    """Deletes a client's reports, and makes the page of all clients, if there is one, without it.

    Returns:
        What could not be deleted, a sentence each, with what to do.
    """
    kept: list[str] = []
    for path in reports_of_client(settings, client_id):
        try:
            path.unlink()
        except OSError as error:
            kept.append(f"{path} ({error.strerror}): delete it")
    if (settings.report_dir / FLEET_FILE).exists():
        try:
            write_fleet_report(db, settings)
        except RagevalError as error:
            kept.append(f"{error}; until then {FLEET_FILE} names the client")
    return kept


def renew_old_reports(db: Database, settings: Settings, now: datetime) -> list[str]:
    """Makes reports that are older than a day anew from what the history still has: no text outlives its retention.

    Returns:
        What went wrong, a sentence each.
    """
    failures: list[str] = []
    for client in list_clients(db):
        path = report_path(settings.report_dir, client.client_id)
        if path.exists() and now.timestamp() - path.stat().st_mtime > _OLD_S:
            try:
                write_client_report(db, settings, client.client_id)
            except RagevalError as error:
                failures.append(str(error))
    return failures


def write_whole(path: Path, page: str) -> None:
    """In place of what was there, at once: nobody reads half of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".report-")  # 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(page)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        where = "RAGEVAL_REPORT_DIR takes a folder that can"
        raise RagevalError(unwritable(f"the report {path} cannot be written", error, where)) from None
