"""`rageval status`: one line a client, worst first, and the incidents that are open."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import print_json, print_table, say
from rageval_dagster.settings import BUILT_IN_SYSTEMS, Settings

if TYPE_CHECKING:
    from rageval_dagster.report.verdict import Trouble
    from rageval_dagster.storage.incidents import Incident


def status(
    client: Annotated[str | None, typer.Option(help="Only this client.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """One line a client, worst first: by how much it regressed against its baseline, and in which metric.

    Of others the metric is shown that fell most since the evaluation before, or else the MRR. Newly failing are
    questions that were right in the baseline and are wrong now, also when asked again. Retired datasets, and systems
    that the settings no longer name, do not count.

    Leaks are chunks of other clients, unknown ones of nobody, that its systems returned in the latest evaluations. What
    people are told of and is not over yet stands below, with the reason.
    """
    from rageval_dagster.app.clients import require_client
    from rageval_dagster.app.report import note_left_behind
    from rageval_dagster.report.verdict import gravity, troubles_of_client
    from rageval_dagster.storage.incidents import open_incidents
    from rageval_dagster.storage.views import read_view

    settings, db = open_all()
    if client is not None:
        require_client(settings, client, say)
    note_left_behind(settings, db, say)
    incidents = open_incidents(db, None if client is None else [client])
    of_client: dict[str, list[Incident]] = defaultdict(list)
    for incident in incidents:
        of_client[incident.client_id].append(incident)
    troubles: dict[str, list[Trouble]] = {}
    rows = read_view(db, "fleet_overview", client_id=client)
    for row in rows:
        opened = of_client[row["client_id"]]
        allowed = settings.for_client_or_default(row["client_id"]).max_error_share
        troubles[row["client_id"]] = troubles_of_client(row, {each.kind for each in opened}, allowed)
    rows.sort(key=lambda row: gravity(troubles[row["client_id"]]))
    if as_json:
        print_json([{**row, "incidents": list(map(_json, of_client[row["client_id"]]))} for row in rows])
        return
    shown = [_row(row, settings, troubles[row["client_id"]]) for row in rows]
    print_table(shown, list(shown[0]) if shown else [], "no clients yet: rageval ingest PATH --client NAME")
    if incidents:
        print()
        lines = [_line(each) for each in incidents]
        print_table(lines, list(lines[0]), "")


def _json(incident: "Incident") -> dict[str, Any]:
    from rageval_dagster.telling.reasons import reason

    names = ("kind", "subject", "opened_at", "opening_told_at", "evaluation_id", "run_id", "details")
    return {**{name: getattr(incident, name) for name in names}, "reason": reason(incident)}


def _line(incident: "Incident") -> dict[str, Any]:
    from rageval_dagster.telling.reasons import reason

    return {
        "open incident": incident.kind.replace("_", " "),
        "client": incident.client_id,
        "about": incident.subject or None,
        "evaluation": incident.evaluation_id,
        "since": incident.opened_at,
        "told": incident.opening_told_at or "no",
        "reason": reason(incident),
    }


def _row(row: dict[str, Any], settings: Settings, troubles: Sequence["Trouble"]) -> dict[str, Any]:
    reference = " (reference)" if row["system_name"] in BUILT_IN_SYSTEMS else ""
    return {
        "client": row["client_id"] + (" (not in the store)" if row["vanished_at"] else ""),
        "dataset": row["dataset_name"],
        "system": f"{row['system_name']}{reference}" if row["system_name"] else None,
        "verdict": _verdict(row, settings, troubles),
        "metric": row["regressed_metric"] or row["worst_metric"],
        "now": row["regressed_mean"] if row["regressed_metric"] else row["worst_mean"],
        "change": -row["regressed_by"] if row["regressed_metric"] else row["worst_delta"],
        "questions": row["items"],
        "newly failing": row["newly_failing"],
        "errors": row["errors"],
        "leaks": row["foreign_chunks"],
        "unknown": row["unknown_chunks"],
        "note": "may have changed" if row["system_note"] not in (None, "system versioned") else None,
        "pending changes": row["pending_changes"],
        "evaluated": row["evaluated_at"],
    }


def _verdict(row: dict[str, Any], settings: Settings, troubles: Sequence["Trouble"]) -> str | None:
    """What is gravest; else the gate's word."""
    from rageval_dagster.report.verdict import TROUBLES, tone_of_client

    if troubles:
        return "regressed" if troubles[0] == "regression" else TROUBLES[troubles[0]]
    tone = tone_of_client(row, settings.for_client_or_default(row["client_id"]).max_error_share)
    return "first" if tone == "first" else (row["verdict"] or "").replace("_", " ") or None
