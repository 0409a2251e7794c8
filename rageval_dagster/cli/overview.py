"""`rageval status` and `rageval doctor`: one line a client, and whether everything that is needed answers."""

from collections.abc import Callable
from typing import Annotated

import typer

from rageval_dagster.cli.console import open_all, plural, print_json, print_table
from rageval_dagster.errors import RagevalError

STATUS_COLUMNS = [
    *("client_id", "worst_delta", "worst_metric", "worst_mean", "dataset_name", "system_name"),
    *("items", "errors", "pending_changes", "evaluated_at"),
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def status(as_json: JsonOption = False) -> None:
    """One line a client, worst first."""
    from rageval_dagster.storage.views import read_view

    _, db = open_all()
    rows = read_view(db, "fleet_overview")
    if as_json:
        print_json(rows)
    else:
        print_table(rows, STATUS_COLUMNS, "no clients yet: rageval ingest PATH --client NAME")


def doctor(as_json: JsonOption = False) -> None:
    """Checks settings, schedule, database, document store and embedding model; says what to do where one fails."""
    from rageval_dagster.settings import load_settings

    settings = load_settings()

    def database() -> str:
        from rageval_dagster.storage.database import open_database

        settings.ensure_home()
        return repr(open_database(settings.database_url)).removeprefix("Database(").removesuffix(")")

    def schedule() -> str:
        from rageval_dagster.automation.schedules import checked_cron

        return f"{checked_cron(settings)} UTC"

    def store() -> str:
        from rageval_dagster.corpus.store import open_store

        opened = open_store(settings)
        clients = opened.clients()
        return f"{opened.location}: {plural(len(clients), 'client')}"

    def model() -> str:
        from rageval_dagster.embedding.models import load_embedder

        embedder = load_embedder(settings.embedding_model, settings)
        return f"{embedder.name}: {embedder.encode(['a short text']).shape[1]} dimensions"

    checks: dict[str, Callable[[], str]] = {
        "settings": lambda: str(settings.home),
        "schedule": schedule,
        "database": database,
        "document store": store,
        "embedding model": model,
    }
    rows = [_checked(name, check) for name, check in checks.items()]
    print_json(rows) if as_json else print_table(rows, ["check", "ok", "finding"], "")
    if not all(row["ok"] == "yes" for row in rows):
        raise typer.Exit(2)


def _checked(name: str, check: Callable[[], str]) -> dict[str, str]:
    try:
        return {"check": name, "ok": "yes", "finding": check()}
    except RagevalError as error:
        return {"check": name, "ok": "no", "finding": str(error)}
