"""`rageval report`: makes the HTML reports from the history, of one client or of all."""

from typing import Annotated

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import say


def report(
    client: Annotated[
        str | None, typer.Option(help="Only this client's report; default: all reports, and the page of all clients.")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    redact: Annotated[bool, typer.Option("--redact", help="Numbers and ids only: no texts of documents.")] = False,
    objective: Annotated[
        str | None,
        typer.Option(help="The metric by which several systems are ranked; default: the gate's first metric."),
    ] = None,
) -> None:
    """Writes the report of one client or of all clients, each as one self-contained HTML file. Prints the paths."""
    from rageval_dagster.app.report import write_reports

    settings, db = open_all()
    paths = write_reports(settings, db, client, redact, objective, say)
    for path in paths:
        print(path)
    if open_it:
        typer.launch(paths[0 if client else -1].as_uri())
