"""`rageval report`: makes the HTML reports from the history, of one client or of all."""

from typing import Annotated

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import say
from rageval_dagster.errors import RagevalError
from rageval_dagster.settings import Settings


def report(
    client: Annotated[str | None, typer.Option(help="Only this client's; default: all, and the page of all.")] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    redact: Annotated[bool, typer.Option("--redact", help="Numbers and ids only: no texts of documents.")] = False,
    objective: Annotated[
        str | None, typer.Option(help="The metric by which several systems are ranked; default: overlap.faithfulness.")
    ] = None,
) -> None:
    """Writes the report of a client, or of all: each one HTML file that needs nothing else. Prints their paths."""
    from rageval_dagster.app.clients import require_client
    from rageval_dagster.report.files import write_client_report, write_fleet_report
    from rageval_dagster.report.leaderboard import OBJECTIVE
    from rageval_dagster.storage.clients import list_clients

    settings, db = open_all()
    known = [each.client_id for each in list_clients(db)]
    if client is not None:
        require_client(settings, client, say)
    objective = OBJECTIVE if objective is None else _metric_id(settings, objective)
    paths = [write_client_report(db, settings, each, redact, objective) for each in ([client] if client else known)]
    paths.append(write_fleet_report(db, settings))
    for path in paths:
        print(path)
    if open_it:
        typer.launch(paths[0 if client else -1].as_uri())


def _metric_id(settings: Settings, objective: str) -> str:
    """The id of the metric that is meant, with the cutoff of the settings where it was named with `k`."""
    from rageval_dagster.metrics.registry import declared_metrics, generic_id, nearest_id, options_of

    metrics = declared_metrics(settings, options_of(settings, settings.k))
    found = next((each.id for each in metrics if objective in (each.id, generic_id(each.id, settings.k))), None)
    if found is None:
        raise RagevalError(f"--objective: there is no metric {objective!r}{nearest_id(objective, metrics, settings.k)}")
    return found
