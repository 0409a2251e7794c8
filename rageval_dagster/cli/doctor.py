"""`rageval doctor`: whether everything that is needed is set, fits, and answers; what to do where it does not."""

from typing import Annotated

import typer

from rageval_dagster.cli.console import print_json, print_table


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    ask: Annotated[bool, typer.Option("--ask", help="Ask each of your own systems one question.")] = False,
    client: Annotated[str | None, typer.Option(help="Check only this client's systems.")] = None,
    test_webhook: Annotated[bool, typer.Option("--test-webhook", help="Send a test message to each webhook.")] = False,
) -> None:
    """Checks settings, Dagster, database, document store, models and systems; says what to do if a check fails.

    Each chat model is asked one small question, which contains nothing from a document. Your own systems are asked
    only with --ask: one question from a client's current dataset, if there is one.
    """
    from rageval_dagster.app.doctor import findings

    rows = list(findings(test_webhook, ask, client))
    print_json(rows) if as_json else print_table(rows, ["check", "ok", "finding"], "")
    if any(row["ok"] == "no" for row in rows):
        raise typer.Exit(2)
