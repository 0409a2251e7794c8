"""The reports' files: made from the history, written whole or not at all, readable by their owner only, deleted.

Their folder may be one behind a URL, which several machines write and serve: paths in it are no `Path`, and have its
methods all the same. Who may read it is for its owner to say.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from rageval_dagster.errors import RagevalError, unwritable
from rageval_dagster.report.contents import client_contents
from rageval_dagster.report.page import client_page, fleet_page
from rageval_dagster.settings import Settings
from rageval_dagster.storage.clients import list_clients
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.incidents import open_incidents
from rageval_dagster.storage.standing import lately_failing, recent_means
from rageval_dagster.storage.views import read_view
from rageval_dagster.telling.links import FLEET_FILE, report_file, report_path
from rageval_dagster.telling.standing import client_standings, gone_of_clients

_OLD_S = 86_400
WHERE = "RAGEVAL_REPORT_DIR takes a folder that can"


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
    there = _names(folder)
    with_report = {row["client_id"] for row in overview if report_file(row["client_id"]) in there}
    path = folder / FLEET_FILE
    gone, lately = gone_of_clients(db, settings), lately_failing(db)
    clients = client_standings(overview, open_incidents(db), settings, gone, lately)
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
    with _readable(settings.report_dir):
        return [path for path in paths if path.exists()]


def _names(folder: Path) -> set[str]:
    """The files in the folder of reports: looked up at once, since there may be thousands."""
    try:
        with _readable(folder):
            return {path.name for path in folder.iterdir()}
    except OSError:  # who writes there is told what is wrong
        return set()


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Whatever a folder behind a URL raises in the block is one line: each file system has errors of its own."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        if isinstance(folder, Path):
            raise
        raise RagevalError(f"the reports in {folder} cannot be reached ({type(error).__name__}): {WHERE}") from None


def delete_reports(db: Database, settings: Settings, client_id: str) -> list[str]:
    """Deletes a client's reports, and makes the page of all clients, if there is one, without it.

    Returns:
        What could not be deleted, a sentence each, with what to do.
    """
    kept: list[str] = []
    for path in reports_of_client(settings, client_id):
        try:
            with _readable(settings.report_dir):
                path.unlink()
        except OSError as error:
            kept.append(f"{path} ({error.strerror}): delete it")
        except RagevalError as error:
            kept.append(f"{path} ({error}): delete it")
    if FLEET_FILE in _names(settings.report_dir):
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
    try:
        there = _names(settings.report_dir)
    except RagevalError as error:
        return [str(error)]
    for client in list_clients(db):
        path = report_path(settings.report_dir, client.client_id)
        if path.name not in there:
            continue
        try:
            with _readable(settings.report_dir):
                # 0 where a file system does not tell: then it is made anew each time.
                is_old = now.timestamp() - path.stat().st_mtime > _OLD_S
            if is_old:
                write_client_report(db, settings, client.client_id)
        except FileNotFoundError:
            continue  # its client was forgotten just now
        except RagevalError as error:
            failures.append(str(error))
    return failures


def read_report(path: Path) -> str:
    """A report's page.

    Raises:
        FileNotFoundError: there is none.
        OSError: a local file cannot be read.
        RagevalError: a folder behind a URL does not answer.
        UnicodeDecodeError: it is damaged.
    """
    with _readable(path):
        page = path.read_bytes()
    return page.decode("utf-8")


def try_folder(folder: Path) -> None:
    """Writes a file into the folder of reports, and deletes it.

    Raises:
        RagevalError: it cannot be written.
    """
    path = folder / ".rageval-doctor"
    write_whole(path, "")
    with _readable(folder):
        path.unlink(missing_ok=True)


def write_whole(path: Path, page: str) -> None:
    """In place of what was there, at once: nobody reads half of it."""
    if not isinstance(path, Path):
        with _readable(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(page.encode("utf-8"))  # stores of objects show one when all of it is there
        return
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
        raise RagevalError(unwritable(f"the report {path} cannot be written", error, WHERE)) from None
