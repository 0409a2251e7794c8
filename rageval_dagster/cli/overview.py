"""`rageval status`: one line a client, worst first, and the incidents that are open."""

from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import print_json, print_table, say
from rageval_dagster.settings import BUILT_IN_SYSTEMS

if TYPE_CHECKING:
    from rageval_dagster.telling.standing import Standing


def status(
    client: Annotated[str | None, typer.Option(help="Only this client.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """One line a client, worst first: by how much it regressed against its baseline, and in which metric.

    Of others the metric is shown that fell most since the evaluation before, or else the MRR. Newly failing are
    questions that were right in the baseline and are wrong now, also when asked again. Retired datasets, and systems
    that the settings no longer name, do not count.

    Leaks are passages of other clients, unknown ones of nobody, that its systems returned in the latest evaluations.
    What people are told of and is not over yet stands below, with the reason.
    """
    from rageval_dagster.app.clients import require_client
    from rageval_dagster.app.report import note_left_behind
    from rageval_dagster.storage.incidents import open_incidents
    from rageval_dagster.storage.views import read_view
    from rageval_dagster.telling.reasons import reason
    from rageval_dagster.telling.standing import client_standings

    settings, db = open_all()
    if client is not None:
        require_client(settings, client, say)
    note_left_behind(settings, db, say)
    incidents = open_incidents(db, None if client is None else [client])
    found = client_standings(read_view(db, "fleet_overview", client_id=client), incidents, settings)
    if as_json:
        names = ("kind", "subject", "opened_at", "opening_told_at", "evaluation_id", "run_id", "details")
        told: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for each in incidents:
            told[each.client_id].append({name: getattr(each, name) for name in names} | {"reason": reason(each)})
        print_json([{**each.row, "incidents": told[each.row["client_id"]]} for each in found])
        return
    shown = [_line(each) for each in found]
    print_table(shown, list(shown[0]) if shown else [], "no clients yet: rageval ingest PATH --client NAME")
    if incidents:
        print()
        lines = [
            {
                "open incident": each.kind.replace("_", " "),
                "client": each.client_id,
                "about": each.subject or None,
                "evaluation": each.evaluation_id,
                "since": each.opened_at,
                "told": each.opening_told_at or "no",
                "reason": reason(each),
            }
            for each in incidents
        ]
        print_table(lines, list(lines[0]), "")


def _line(found: "Standing") -> dict[str, Any]:
    row, (metric, now, change) = found.row, found.metric
    reference = " (reference)" if row["system_name"] in BUILT_IN_SYSTEMS else ""
    return {
        "client": row["client_id"] + (" (not in the store)" if row["vanished_at"] else ""),
        "dataset": row["dataset_name"],
        "system": f"{row['system_name']}{reference}" if row["system_name"] else None,
        "verdict": found.verdict,
        "metric": metric,
        "now": now,
        "change": change,
        "questions": row["items"],
        "newly failing": row["newly_failing"],
        "errors": row["errors"],
        "leaks": row["foreign_chunks"],
        "unknown": row["unknown_chunks"],
        "note": "may have changed" if row["system_note"] not in (None, "system versioned") else None,
        "pending changes": row["pending_changes"],
        "evaluated": row["evaluated_at"],
    }
