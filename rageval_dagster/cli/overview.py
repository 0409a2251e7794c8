"""`rageval status`: one line a client, worst first."""

from typing import Annotated, Any

import typer

from rageval_dagster.cli.console import open_all, print_json, print_table
from rageval_dagster.settings import BUILT_IN_SYSTEMS


def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """One line a client, worst first: the metric that fell most since the evaluation before, or else stands lowest.

    Leaks are chunks of other clients, unknown ones of nobody, that its systems returned in the latest evaluations.
    """
    from rageval_dagster.storage.views import read_view

    _, db = open_all()
    rows = read_view(db, "fleet_overview")
    if as_json:
        print_json(rows)
        return
    shown = [_row(row) for row in rows]
    print_table(shown, list(shown[0]) if shown else [], "no clients yet: rageval ingest PATH --client NAME")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    reference = " (reference)" if row["system_name"] in BUILT_IN_SYSTEMS else ""
    return {
        "client": row["client_id"] + (" (not in the store)" if row["vanished_at"] else ""),
        "dataset": row["dataset_name"],
        "system": f"{row['system_name']}{reference}" if row["system_name"] else None,
        "metric": row["worst_metric"],
        "now": row["worst_mean"],
        "change": row["worst_delta"],
        "questions": row["items"],
        "errors": row["errors"],
        "leaks": row["foreign_chunks"],
        "unknown": row["unknown_chunks"],
        "note": "may have changed" if row["system_note"] not in (None, "system versioned") else None,
        "pending changes": row["pending_changes"],
        "evaluated": row["evaluated_at"],
    }
