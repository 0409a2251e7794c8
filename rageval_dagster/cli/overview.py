"""`rageval status`: one line a client, worst first, and the incidents that are open."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rageval_dagster.cli.console import open_all, print_json, print_table, require_client
from rageval_dagster.settings import BUILT_IN_SYSTEMS, Settings

if TYPE_CHECKING:
    from rageval_dagster.storage.incidents import Incident


def status(
    client: Annotated[str | None, typer.Option(help="Only this client.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """One line a client, worst first: by how much it regressed against its baseline, and in which metric.

    Of others the metric is shown that fell most since the evaluation before, or else stands lowest. Retired
    datasets, and systems that the settings no longer name, do not count.

    Leaks are chunks of other clients, unknown ones of nobody, that its systems returned in the latest evaluations. What
    people are told of and is not over yet stands below.
    """
    from rageval_dagster.storage.incidents import open_incidents
    from rageval_dagster.storage.views import read_view

    settings, db = open_all()
    if client is not None:
        require_client(settings, client)
    rows = read_view(db, "fleet_overview", client_id=client)
    incidents = open_incidents(db, None if client is None else [client])
    if as_json:
        print_json([{**row, "incidents": [_json(each) for each in incidents if _is_of(each, row)]} for row in rows])
        return
    shown = [_row(row, settings) for row in rows]
    print_table(shown, list(shown[0]) if shown else [], "no clients yet: rageval ingest PATH --client NAME")
    if incidents:
        print()
        lines = [_line(each) for each in incidents]
        print_table(lines, list(lines[0]), "")


LEAK, SYSTEM_FAILED = "leak", "system failed"
_TONES = {"failed": SYSTEM_FAILED, "first": "first"}
"""What is said in the place of the gate's verdict."""


def _is_of(incident: "Incident", row: dict[str, Any]) -> bool:
    return incident.client_id == row["client_id"]


def _json(incident: "Incident") -> dict[str, Any]:
    names = ("kind", "subject", "opened_at", "opening_told_at", "evaluation_id", "run_id", "details")
    return {name: getattr(incident, name) for name in names}


def _line(incident: "Incident") -> dict[str, Any]:
    return {
        "open incident": incident.kind.replace("_", " "),
        "client": incident.client_id,
        "about": incident.subject or None,
        "evaluation": incident.evaluation_id,
        "since": incident.opened_at,
        "told": incident.opening_told_at or "no",
    }


def _row(row: dict[str, Any], settings: Settings) -> dict[str, Any]:
    from rageval_dagster.report.verdict import tone_of_client

    tone = tone_of_client(row, settings.for_client_or_default(row["client_id"]).max_error_share)
    reference = " (reference)" if row["system_name"] in BUILT_IN_SYSTEMS else ""
    return {
        "client": row["client_id"] + (" (not in the store)" if row["vanished_at"] else ""),
        "dataset": row["dataset_name"],
        "system": f"{row['system_name']}{reference}" if row["system_name"] else None,
        "verdict": LEAK
        if row["foreign_chunks"]
        else _TONES.get(tone or "", (row["verdict"] or "").replace("_", " ") or None),
        "metric": row["regressed_metric"] or row["worst_metric"],
        "now": row["regressed_mean"] if row["regressed_metric"] else row["worst_mean"],
        "change": -row["regressed_by"] if row["regressed_metric"] else row["worst_delta"],
        "questions": row["items"],
        "errors": row["errors"],
        "leaks": row["foreign_chunks"],
        "unknown": row["unknown_chunks"],
        "note": "may have changed" if row["system_note"] not in (None, "system versioned") else None,
        "pending changes": row["pending_changes"],
        "evaluated": row["evaluated_at"],
    }
