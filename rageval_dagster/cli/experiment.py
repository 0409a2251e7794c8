"""`rageval experiment`: which configuration of a client's system is best."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import cell, fitting, print_json, print_table, progress_bar, say
from rageval_dagster.text import plural

app = typer.Typer(no_args_is_help=True, help="Search for the best configuration of a client's system.")

Number = Annotated[int, typer.Argument(help="The experiment's number; `rageval experiment list` shows it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

SHOWN = 20
VALUE = 24
"""Characters of a parameter's value."""
STOPPED = 4
"""Exit code: the experiment ended before its end, such as at a budget."""


@app.command("run")
def run(
    file: Annotated[Path, typer.Argument(help="The definition: TOML with [experiment] and [parameters].")],
    documents: Annotated[
        Path | None, typer.Option(help="The files to cut other chunkings from, instead of those in the definition.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what the experiment takes at most, and do nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Runs an experiment, or continues it where it stopped. Exits with 4 if something stops it before its end."""
    from rageval_dagster.app import experiment as use_case

    settings, db = open_all()
    asked = use_case.check(settings, db, file, documents)
    if asked.left_out:
        say(f"{plural(asked.left_out, 'question')} left out: {asked.objective_id} cannot score them")
    if dry_run:
        forecast = use_case.forecast(db, asked)
        if as_json:
            print_json(forecast)
        else:
            rows = [{"what": name.replace("_", " "), "": value} for name, value in forecast.items()]
            print_table(rows, ["what", ""], "nothing")
        return
    with progress_bar("answers") as progress:
        summary = use_case.run(settings, db, asked, progress, say)
    _print(summary, as_json)
    if summary["status"] == "stopped":
        raise typer.Exit(STOPPED)


@app.command("list")
def list_all(
    client: Annotated[str | None, typer.Option(help="Only this client's experiments.")] = None, as_json: Json = False
) -> None:
    """Lists experiments, newest first."""
    from rageval_dagster.app import experiment as use_case

    _, db = open_all()
    rows = [
        {
            "experiment": each.number,
            "client": each.client_id,
            "status": each.status,
            "objective": each.objective,
            "questions": len(each.questions),
            "opened": each.opened_at,
            "ended": each.ended_at,
            "why": each.ended_why,
        }
        for each in use_case.listed(db, client)
    ]
    if as_json:
        print_json(rows)
    else:
        columns = ["experiment", "client", "status", "objective", "questions", "opened", "ended"]
        print_table(rows, columns, "no experiments yet: rageval experiment run FILE")


@app.command("show")
def show(number: Number, as_json: Json = False) -> None:
    """Shows the results of an experiment so far."""
    from rageval_dagster.app import experiment as use_case

    _, db = open_all()
    _print(use_case.summary(db, number), as_json)


@app.command("apply")
def apply(
    number: Number,
    configuration: Annotated[
        int | None, typer.Option(help="The number of a configuration other than the recommended one.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write the settings into rageval.toml.")] = False,
) -> None:
    """Prints the settings that give the client the recommended configuration, or writes them into rageval.toml."""
    from rageval_dagster.app import experiment as use_case
    from rageval_dagster.experiments.applying import lines_of

    settings, db = open_all()
    tables, command = use_case.application(settings, db, number, configuration)
    if tables and write:
        say(f"written: {use_case.write(settings, tables)}")
    if tables:
        print(lines_of(tables))
    if command is not None:
        print(f"# then: {command}" if tables else f"# {command}")


def _print(summary: dict[str, Any], as_json: bool) -> None:
    from rageval_dagster.experiments.results import verdict

    if as_json:
        print_json(summary)
        return
    budget = summary["budget"]["answers"]
    print(
        f"experiment {summary['experiment']} of client {cell(summary['client'])}: {summary['status']}, "
        f"{summary['evaluations']} of {budget} answers, {plural(summary['questions'], 'question')}, "
        f"{cell(summary['objective'])}"
    )
    if summary["ended_why"]:
        print(f"It ended early: {cell(summary['ended_why'])}.")
    names = dict.fromkeys(name for row in summary["configurations"] for name in row["configuration"])
    rows = [
        {
            "number": row["number"],
            **{name: _value(row["configuration"].get(name)) for name in names},
            "mean": row["mean"],
            "asked": row["questions"],
            "held out": None if row["held_out"] is None else _told(row["held_out"]),
            "USD": row["cost_usd"],
            "seconds": row["latency_s"],
            "": _standing(row),
        }
        for row in summary["configurations"]
    ]
    print_table(rows[:SHOWN], list(rows[0]) if rows else [], "nothing was asked yet")
    if len(rows) > SHOWN:
        print(f"and {len(rows) - SHOWN} more: --json shows them all")
    effects = [
        {"parameter": each["parameter"], "value": str(row["value"]), **{n: row[n] for n in ("mean", "low", "high")}}
        for each in summary["effects"]
        for row in each["values"]
    ]
    if effects:
        print()
        print_table(effects, ["parameter", "value", "mean", "low", "high"], "")
        print()
    print(cell(verdict(summary)))
    if summary["estimate"] is not None:
        print(f"On the held-out questions, which only finalists were asked, the best has {_told(summary['estimate'])}.")
    if summary["recommended"] is not None:
        print(f"To use it: rageval experiment apply {summary['experiment']}")


def _value(value: Any) -> str:
    """A parameter's value; of a long one, such as a path, its end."""
    text = "" if value is None else str(value)
    return text if len(text) <= VALUE else f"...{text[3 - VALUE :]}"


def _told(interval: dict[str, float]) -> str:
    return f"{interval['mean']:.3f} ({interval['low']:.3f} to {interval['high']:.3f})"


def _standing(row: dict[str, Any]) -> str:
    if row["recommended"]:
        return "recommended"
    if row["as_good"]:
        return "as good"
    return fitting(row["left_because"] or "", 60)
