"""`rageval status`: one line a client, worst first, and the incidents that are open."""

from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import cell, print_json, print_table, say
from rageval_dagster.settings import BUILT_IN_SYSTEMS

if TYPE_CHECKING:
    from rageval_dagster.telling.standing import Standing

OF_TROUBLE = ("newly failing", "errors", "leaks", "unknown", "note", "pending changes")
"""The columns that are shown where there is something to show."""

LESS = ("since", "questions", "system", "pending changes", "note", "evaluated", "now", "unknown", "dataset")
"""The columns that a narrow terminal goes without, the first one first."""


def status(
    client: Annotated[str | None, typer.Option(help="Only this client.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """One line per client, worst first: by how much it regressed against its baseline, and in which metric.

    If a client has several datasets, its line shows the worst; of equally bad ones, the one with most questions. If
    nothing regressed, the line shows the metric that dropped most since the run before, or else the MRR; `since` says
    whether the change is against the baseline or the run before. Newly failing questions were right in the baseline
    and are wrong now, also when asked again. They and the number of questions cover all datasets and systems, but not
    retired datasets and systems that the settings no longer name.

    Leaks are passages of other clients that the client's systems returned in the latest evaluations; unknown passages
    belong to nobody. A column that is empty for all clients is left out. Open incidents are listed below, with the
    reason.
    """
    from rageval_dagster.app.clients import require_client
    from rageval_dagster.app.report import note_left_behind
    from rageval_dagster.storage.corpus import document_names
    from rageval_dagster.storage.incidents import open_incidents
    from rageval_dagster.storage.standing import lately_failing
    from rageval_dagster.storage.views import read_view
    from rageval_dagster.telling.reasons import reason
    from rageval_dagster.telling.standing import client_standings, gone_of_clients

    settings, db = open_all()
    if client is not None:
        require_client(settings, client, say)
    note_left_behind(settings, db, say)
    incidents = open_incidents(db, None if client is None else [client])
    gone = gone_of_clients(db, settings, client)
    overview, lately = read_view(db, "fleet_overview", client_id=client), lately_failing(db, client)
    found = client_standings(overview, incidents, settings, gone, lately)
    if as_json:
        names = ("kind", "subject", "opened_at", "opening_told_at", "evaluation_id", "run_id", "details")
        told: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for each in incidents:
            told[each.client_id].append({name: getattr(each, name) for name in names} | {"reason": reason(each)})
        print_json(
            [
                {
                    **each.row,
                    "incidents": told[each.row["client_id"]],
                    "gone": None if each.gone is None else each.gone[1].detail,
                }
                for each in found
            ]
        )
        return
    shown = [_line(each) for each in found]
    columns = [
        name for name in (shown[0] if shown else {}) if name not in OF_TROUBLE or any(each[name] for each in shown)
    ]
    print_table(shown, columns, "no clients yet: rageval ingest PATH --client NAME", LESS)
    for client_id, (evaluation_id, change) in gone.items():
        names = document_names(db, client_id, change.documents).values()
        such = f", such as: {', '.join(names)}" if names else ""
        print(f"\n{cell(f'{client_id}: {change.detail}, run {evaluation_id}{such}')}")
    for each in incidents:
        run = "" if each.evaluation_id is None else f", run {each.evaluation_id}"
        heard = "no alert sent" if each.opening_told_at is None else f"told {cell(each.opening_told_at)}"
        about = f", {each.subject}" if each.subject else ""
        named = f"{each.client_id}: {each.kind.replace('_', ' ')}{about}{run}"
        print(f"\n{cell(named)}, open since {cell(each.opened_at)}, {heard}\n  {cell(reason(each))}")


def _line(found: "Standing") -> dict[str, Any]:
    from rageval_dagster.telling.words import metric_name

    row, (metric, now, change) = found.row, found.metric
    reference = " (reference)" if row["system_name"] in BUILT_IN_SYSTEMS else ""
    return {
        "client": row["client_id"] + (" (not in the store)" if row["vanished_at"] else ""),
        "dataset": row["dataset_name"],
        "system": f"{row['system_name']}{reference}" if row["system_name"] else None,
        "verdict": found.verdict,
        "metric": None if metric is None else metric_name(metric),
        "now": now,
        "change": None if change is None else f"{change:+z.3f}",
        "since": None if change is None else "baseline" if row["regressed_metric"] else "run before",
        "questions": row["items"] or None,
        "newly failing": row["newly_failing"],
        "errors": row["errors"],
        "leaks": row["foreign_chunks"],
        "unknown": row["unknown_chunks"],
        "note": "may have changed" if row["system_note"] not in (None, "system versioned") else None,
        "pending changes": row["pending_changes"],
        "evaluated": row["evaluated_at"],
    }
