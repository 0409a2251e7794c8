"""The report of an experiment: one HTML file beside its results; and what is left to do once one has ended."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from markupsafe import Markup

from rageval_dagster.experiments.applying import command_for, lines_of, settings_for
from rageval_dagster.experiments.copies import delete_copies, folder_of, writing_files
from rageval_dagster.experiments.definition import settings_of
from rageval_dagster.experiments.results import NO_WINNER, summary_of, verdict, write_results
from rageval_dagster.experiments.spaces import named, with_short_values
from rageval_dagster.experiments.standing import Standing, standing
from rageval_dagster.markdown import escaped, table
from rageval_dagster.report.charts import Bar, Dot, address, bars, scatter
from rageval_dagster.report.files import write_whole
from rageval_dagster.report.page import experiment_page
from rageval_dagster.settings import Settings
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.experiments import Experiment, get_experiment
from rageval_dagster.telling.words import capitalised, metric_name, number

SHOWN_IN_DAGSTER = 5
"""Configurations."""


def finish(db: Database, settings: Settings, experiment_number: int) -> Path:
    """Writes the results and the report of an experiment that has ended, and deletes its copies; gives the report."""
    experiment = get_experiment(db, experiment_number)
    now = standing(db, experiment)
    path = _path(settings, experiment)
    with writing_files(settings, db, experiment):
        write_results(settings, db, now)
        write_whole(path, experiment_page(contents_of(db, settings, now)))
        delete_copies(settings, experiment)
    return path


def is_finished(settings: Settings, experiment: Experiment) -> bool:
    """Whether what is left to do was done since the experiment ended: whoever ended it may have been killed before."""
    path = _path(settings, experiment)
    ended = experiment.ended_at
    return ended is not None and path.exists() and path.stat().st_mtime >= ended.timestamp()


def report_of(db: Database, settings: Settings, experiment: Experiment) -> str:
    """The report's page; of an experiment that goes on, or whose report cannot be read, made just now."""
    with suppress(OSError, UnicodeDecodeError):
        if is_finished(settings, experiment):
            return _path(settings, experiment).read_text(encoding="utf-8")
    return experiment_page(contents_of(db, settings, standing(db, experiment)))


def _path(settings: Settings, experiment: Experiment) -> Path:
    return folder_of(settings, experiment.client_id, experiment.number) / "report.html"


def contents_of(db: Database, settings: Settings, now: Standing) -> dict[str, Any]:
    """What the report shows: the summary, and pictures of it."""
    summary = summary_of(db, now)
    rows: Sequence[Mapping[str, Any]] = summary["configurations"]
    tried = [row for row in rows if row["left_because"] is None or row["scores"]]
    recommended = summary["recommended"]
    own = settings_of(db, settings, now.experiment)
    return {
        **summary,
        "verdict": capitalised(verdict(summary).removeprefix(f"{NO_WINNER}: ")),
        "metric": metric_name(summary["objective"]),
        "rows": [{**row, "name": named(row["configuration"])} for row in rows],
        "pictures": [
            picture
            for measure, unit in (("cost_usd", "US dollars per answer"), ("latency_s", "seconds per answer"))
            if (picture := _front(tried, measure, unit, summary["higher_is_better"])) is not None
        ],
        "effects": [{**each, "picture": _effect(each)} for each in summary["effects"]],
        "apply": None if recommended is None else lines_of(settings_for(now.definition, own, recommended)),
        "command": None if recommended is None else command_for(now.definition, recommended),
    }


def _front(rows: Sequence[Mapping[str, Any]], measure: str, unit: str, higher_is_better: bool) -> dict[str, Any] | None:
    """Quality against a measure, and what nothing beats in both; None where the measure is not known."""
    known = [row for row in rows if row[measure] is not None]
    if len({row[measure] for row in known}) < 2:
        return None
    sign = 1 if higher_is_better else -1

    def is_beaten(row: Mapping[str, Any]) -> bool:
        return any(
            other[measure] <= row[measure]
            and sign * other["mean"] >= sign * row["mean"]
            and (other[measure], other["mean"]) != (row[measure], row["mean"])
            for other in known
        )

    dots = [
        Dot(row[measure], row["mean"], f"{row['number']}: {named(row['configuration'])}", not is_beaten(row))
        for row in known
    ]
    front = sorted((row for row, dot in zip(known, dots, strict=True) if dot.marked), key=lambda row: row[measure])
    return {
        "unit": unit,
        "svg": scatter(dots, f"quality against {unit}"),
        "front": [{**row, "measure": number(row[measure])} for row in front],
    }


def _effect(effect: Mapping[str, Any]) -> Markup:
    labels = [str(with_short_values({"": row["value"]})[""]) or '""' for row in effect["values"]]
    rows = zip(labels, effect["values"], strict=True)
    return bars([Bar(label, row["mean"], row["low"], row["high"]) for label, row in rows])


def so_far(db: Database, experiment_number: int) -> dict[str, str]:
    """Where an experiment stands, as Markdown for Dagster: the best so far, and a picture of each parameter.

    Long values are cut: Dagster's event log is no place for a prompt.
    """
    summary = summary_of(db, standing(db, get_experiment(db, experiment_number)))
    rows = [
        [
            str(row["number"]),
            escaped(named(with_short_values(row["configuration"]))),
            number(row["mean"]),
            str(row["questions"]),
        ]
        for row in summary["configurations"][:SHOWN_IN_DAGSTER]
    ]
    if summary["recommended"] is not None:
        summary["recommended"] = with_short_values(summary["recommended"])
    header = ["no.", "configuration", escaped(metric_name(summary["objective"])), "questions"]
    pictures = {each["parameter"]: f"![{each['parameter']}]({address(_effect(each))})" for each in summary["effects"]}
    return {"so far": f"{escaped(verdict(summary), 1_000)}\n\n{table(header, rows)}", **pictures}
