"""`rageval metrics`: which metrics there are, what each one means, and how they agree with human labels."""

import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rageval_dagster.cli.console import (
    DONE_IN_PART,
    MAX_LISTED,
    cell,
    listed_patterns,
    print_json,
    print_table,
    progress_bar,
    say,
    say_refused,
    say_usage,
)
from rageval_dagster.cli.score import ColumnsOption, read_file
from rageval_dagster.errors import RagevalError
from rageval_dagster.text import plural

if TYPE_CHECKING:
    from rageval_dagster.metrics.interface import Metric
    from rageval_dagster.recorded.agreement import Agreement
    from rageval_dagster.settings import Settings

app = typer.Typer(help="Metrics: list, show, and agreement with human labels.", no_args_is_help=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ClientOption = Annotated[str | None, typer.Option(help="Use this client's settings and its own metrics.")]


@app.command("list")
def list_all(client: ClientOption = None, as_json: JsonOption = False) -> None:
    """Lists the metrics, including your own, and which of them an evaluation runs."""
    from rageval_dagster.metrics.registry import chosen_metrics, declared_metrics, options_of

    settings = _settings(client)
    options = options_of(settings, settings.k)
    chosen = {
        metric.id
        for metric in chosen_metrics(settings, options)
        if options.judge_version is not None or "judge" not in metric.needs
    }
    rows = [{**_row(metric), "runs": metric.id in chosen} for metric in declared_metrics(settings, options)]
    if as_json:
        print_json(rows)
        return
    shown = [
        {
            **row,
            "good": row["good_value"],
            "runs": "yes" if row["runs"] else "no",
            "needs": ", ".join(row["needs"]),
        }
        for row in rows
    ]
    print_table(shown, ["metric", "better", "good", "runs", "needs"], "there are no metrics")


@app.command("show")
def show(
    metric_id: Annotated[
        str, typer.Argument(metavar="ID", help="The metric's id, such as retrieval.precision_at_k, or _at_5.")
    ],
    client: ClientOption = None,
    as_json: JsonOption = False,
) -> None:
    """Shows what a metric means: its definition, edge cases, needs, good value, source and version."""
    from rageval_dagster.embedding.models import load_embedder
    from rageval_dagster.metrics.registry import declared_metrics, generic_id, nearest_id, options_of

    settings = _settings(client)
    cutoff = re.search(r"_at_(\d{1,4})\Z", metric_id)
    k = int(cutoff[1]) if cutoff and 1 <= int(cutoff[1]) <= 1000 else settings.k
    metrics = declared_metrics(settings, options_of(settings, k))
    found = next((metric for metric in metrics if metric_id in (metric.id, generic_id(metric.id, k))), None)
    if found is None:
        raise RagevalError(f"there is no metric {metric_id!r}{nearest_id(metric_id, metrics, k)}")
    if "embedder" in found.needs:
        # Its version holds the model's.
        embedder = load_embedder(settings.metric_embedding_model, settings)
        known = {metric.id: metric for metric in declared_metrics(settings, options_of(settings, k, embedder))}
        found = known[found.id]
    row = {**_row(found), "version": found.version}
    if as_json:
        print_json(row)
        return
    print(found.id)
    print(f"  {cell(found.description)}")
    if found.edge_cases:
        print(f"  {cell(found.edge_cases)}")
    print(f"  range: 0 to 1, {row['better']} is better")
    print(f"  good value: {cell(found.good_value)}{' x the ceiling' if found.ceiling is not None else ''}")
    print(f"  needs: {', '.join(row['needs']) or 'nothing'}")
    print(f"  unanswerable questions: {_UNANSWERABLE[found.unanswerable]}")
    print(f"  source: {cell(found.source)}")
    print(f"  version: {cell(found.version)}")


@app.command("agreement")
def agreement(
    file: Annotated[Path, typer.Argument(help="A file of answers that people labelled.")],
    format_name: Annotated[str, typer.Option("--format", help="A format whose rows have a label.")] = "judged",
    positive: Annotated[
        str | None, typer.Option(help="The label that means good. Needed unless labels are numbers.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Metric ids or patterns, separated by commas; default: all that judge an answer.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="An answer with at least this value counts as good.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The metrics' embedding model.")] = None,
    columns: ColumnsOption = None,
    client: ClientOption = None,
    as_json: JsonOption = False,
) -> None:
    """Shows how well each metric, and each other judge in the file, agrees with human labels.

    Without --threshold, metrics whose values are only 0 or 1 are split at 0.5. All other metrics are split where it
    works best on other questions: each of five folds is judged by the threshold that the other four folds give.
    """
    from rageval_dagster.recorded.agreement import baselines, judge_agreements, labelled, metric_agreement
    from rageval_dagster.recorded.scoring import metrics_and_tools, redacted_outputs, score_outputs

    settings = _settings(client)
    patterns = listed_patterns(metrics)
    chosen, tools = metrics_and_tools(settings, patterns, settings.k, model, client)
    if patterns is None:
        chosen = [metric for metric in chosen if "answer" in metric.needs]
    report, _ = read_file(file, format_name, settings, settings.k, columns)
    say_refused(report.refused)
    outputs = redacted_outputs(report.rows, settings)
    known, unlabelled = labelled(outputs, positive)
    try:
        with progress_bar("scoring") as progress:
            scores = score_outputs(known.outputs, chosen, tools, progress)
    finally:
        say_usage(tools.judge)
    rows = [metric_agreement(metric, scores[metric.id], known, threshold) for metric in chosen]
    if positive is not None:
        rows += [*judge_agreements(known, positive), *baselines(known)]
    if as_json:
        print_json(
            {
                "answers": len(known.outputs),
                "questions": len(set(known.clusters)),
                "labels": known.label_counts,
                "positive": positive,
                "unlabelled": unlabelled,
                "agreements": [asdict(row) for row in rows],
                "refused": [refusal.to_dict() for refusal in report.refused],
            }
        )
    else:
        _print(rows, positive is not None, known.grades is not None)
    spoken = ", ".join(f"{cell(label)} {count}" for label, count in list(known.label_counts.items())[:MAX_LISTED])
    say(f"{plural(len(known.outputs), 'answer')} to {plural(len(set(known.clusters)), 'question')}: {spoken}")
    if unlabelled:
        say(f"{plural(unlabelled, 'answer')} without a label left out")
    unscored = [row.name for row in rows if not row.n_scored]
    if unscored:
        say(f"nothing scored, so nothing to agree: {', '.join(unscored)}")
    if report.refused:
        raise typer.Exit(DONE_IN_PART)


_UNANSWERABLE = {
    "undefined": "no value",
    "if_answered": "a value only if the system answered all the same",
    "scored": "a value",
}


def _settings(client: str | None) -> "Settings":
    from rageval_dagster.app.clients import require_client
    from rageval_dagster.settings import load_settings

    settings = load_settings()
    if client is None:
        return settings
    require_client(settings, client, say)
    return settings.for_client(client)


def _row(metric: "Metric") -> dict[str, Any]:
    return {
        "metric": metric.id,
        "family": metric.family,
        "better": "higher" if metric.higher_is_better else "lower",
        "good_value": metric.good_value,
        "needs": sorted(metric.needs),
        "unanswerable": metric.unanswerable,
        "description": metric.description,
        "edge_cases": metric.edge_cases,
        "source": metric.source,
    }


def _print(rows: "Iterable[Agreement]", has_good: bool, has_grades: bool) -> None:
    """The best first, by accuracy or, without a good label, by rank."""
    columns = ["by"]
    columns += ["accuracy", "low", "high", "threshold", "chosen", "kappa"] * has_good
    columns += ["AUROC", "AUROC low", "AUROC high"] * has_good
    columns += ["Spearman", "Kendall"] * has_grades
    shown = [
        {
            "by": row.name if row.kind != "judge" else f"judge {row.name}",
            "accuracy": row.accuracy and row.accuracy.mean,
            "low": row.accuracy and row.accuracy.low,
            "high": row.accuracy and row.accuracy.high,
            "threshold": _threshold(row),
            "chosen": row.chosen,
            "kappa": row.kappa,
            "AUROC": row.auroc and row.auroc.mean,
            "AUROC low": row.auroc and row.auroc.low,
            "AUROC high": row.auroc and row.auroc.high,
            "Spearman": row.spearman,
            "Kendall": row.kendall,
            "scored": row.n_scored,
            "undefined": row.n_undefined,
            "errors": row.n_error,
        }
        for row in sorted(rows, key=_badness)
        if row.n_scored
    ]
    print_table(shown, [*columns, "scored", "undefined", "errors"], "nothing could be scored")


def _threshold(row: "Agreement") -> str | None:
    if row.threshold is None:
        return None
    return f"{'>=' if row.higher_is_better else '<='} {row.threshold:.3f}"


def _badness(row: "Agreement") -> float:
    if row.accuracy is not None:
        return -row.accuracy.mean
    return 1.0 if row.spearman is None else -abs(row.spearman)
