"""`rageval score`: recorded outputs of any system, from a file, scored without a document store or history."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rageval_dagster.cli.console import (
    DONE_IN_PART,
    SCORE_COLUMNS,
    cell,
    dumped,
    listed_patterns,
    mapped_columns,
    print_json,
    print_table,
    progress_bar,
    say,
    say_refused,
    say_usage,
    score_rows,
)
from rageval_dagster.errors import RagevalError
from rageval_dagster.records import Outcome
from rageval_dagster.text import plural

if TYPE_CHECKING:
    from rageval_dagster.metrics.interface import Metric
    from rageval_dagster.recorded.formats import Output, OutputsReport
    from rageval_dagster.settings import Settings

LANGUAGE_SAMPLE = 500
"""Texts whose language is detected, at most."""

ColumnsOption = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="FIELD=COLUMN", help="The file's name for a field; repeat for several."),
]
QueriesOption = Annotated[
    Path | None, typer.Option(help="The questions' texts by id (test-results, expected-outputs).")
]
AnswersOption = Annotated[Path | None, typer.Option(help="The answers by question id (expected-outputs).")]


def score(
    file: Annotated[
        Path, typer.Argument(help="A system's recorded outputs: questions with answers, contexts, references.")
    ],
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="recorded, ai4rag, ragas, judged, test-results, expected-outputs, native, csv, langfuse or phoenix; "
            "default: recognised by the fields of the rows.",
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(help="Metric ids or patterns, separated by commas or repeated: overlap.faithfulness,lexical.*"),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The metrics' embedding model.")] = None,
    k: Annotated[int, typer.Option(min=1, max=1000, help="The cutoff of the retrieval metrics.")] = 5,
    columns: ColumnsOption = None,
    queries: QueriesOption = None,
    ground_truth: Annotated[Path | None, typer.Option(help="The references by query id (test-results).")] = None,
    answers: AnswersOption = None,
    client: Annotated[str | None, typer.Option(help="Score with this client's settings and its own metrics.")] = None,
    by: Annotated[str | None, typer.Option(help="Also score each category or document.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the JSON to this file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="With --out: replace the file.")] = False,
) -> None:
    """Scores a system's recorded outputs. A bad row is refused, with its row and field; the rest is scored.

    A judge model is asked if you name its metrics (--metrics "claims.*"). Its responses are kept in RAGEVAL_HOME.

    Exits with 4 if rows were refused or metrics have errors.
    """
    from rageval_dagster.benchmark.exporting import written_whole
    from rageval_dagster.evaluation.breakdown import GROUPINGS
    from rageval_dagster.recorded.scoring import (
        broken_down,
        metrics_and_tools,
        redacted_outputs,
        score_outputs,
        shape_of,
    )
    from rageval_dagster.settings import load_settings

    if by is not None and by not in GROUPINGS:
        raise RagevalError(f"--by takes {' or '.join(GROUPINGS)}, not {by!r}")
    if out is not None and out.exists() and file.exists() and out.samefile(file):
        raise RagevalError(f"--out {out} is the file that is scored: write elsewhere")
    settings = load_settings()
    if client is not None:
        settings = settings.for_client(client)
    patterns = listed_patterns(",".join(metrics) if metrics else None)
    chosen, tools = metrics_and_tools(settings, patterns, k, model, client, make_home=True)
    report, format_name = read_file(file, format_name, settings, k, columns, queries, ground_truth, answers)
    outputs = redacted_outputs(report.rows, settings)
    warnings = _language_warnings(outputs, chosen, model or settings.metric_embedding_model)
    try:
        with progress_bar("scoring") as progress:
            found = score_outputs(outputs, chosen, tools, progress)
    finally:
        say_usage(tools.judge)
    shape = {
        **shape_of(outputs, chosen, found),
        "format": format_name,
        "k": k,
        "versions": {metric.id: metric.version for metric in chosen},
        "warnings": warnings,
        "refused": [refusal.to_dict() for refusal in report.refused],
        "unused_columns": list(report.unused),
    }
    groups = {
        group: {metric_id: asdict(summary) for metric_id, summary in summaries.items()}
        for group, summaries in (broken_down(outputs, found, by) if by is not None else {}).items()
    }
    if by is not None:
        shape["breakdown"] = {"by": by, "groups": groups}
    if out is not None:
        with written_whole(out, force) as draft:
            draft.write_text(dumped(shape, indent=2) + "\n", encoding="utf-8")
        say(f"written to {out}")
    if as_json:
        print_json(shape)
    else:
        print_table(score_rows(shape["scores"]), SCORE_COLUMNS, "no metrics were chosen")
        if by is not None:
            print()
            rows = [{by: group, **row} for group, scores in groups.items() for row in score_rows(scores)]
            print_table(rows, [by, *SCORE_COLUMNS], f"no question has a {by}")
    for warning in warnings:
        say(f"warning: {warning}")
    if settings.judge_model is not None and tools.judge is None:
        say('the judge model was not asked: name what it should judge (--metrics "claims.*,lexical.*")')
    _say_unmeasured(found)
    say_refused(report.refused)
    if report.unused:
        say(f"columns not read: {', '.join(map(repr, report.unused))}; --map FIELD=COLUMN says what one is")
    unanswered = sum(output.result.answer is None for output in outputs)
    without = f" ({unanswered} without an answer)" if unanswered else ""
    say(f"{plural(len(outputs), 'row')} scored{without}, {plural(len(report.refused), 'row')} refused")
    if not any(score["n_scored"] for score in shape["scores"].values()):
        say("nothing could be scored")
        raise typer.Exit(2)
    if report.refused or any(score["n_error"] for score in shape["scores"].values()):
        raise typer.Exit(DONE_IN_PART)


def read_file(
    file: Path,
    format_name: str | None,
    settings: "Settings",
    k: int,
    columns: Sequence[str] | None,
    queries: Path | None = None,
    ground_truth: Path | None = None,
    answers: Path | None = None,
) -> "tuple[OutputsReport, str]":
    """What was read of a file of outputs, and its format: where none is named, the one that its rows' fields say."""
    from rageval_dagster.recorded.formats import OutputOptions, detect_format, read_outputs

    named = mapped_columns(columns or ())
    if format_name is None:
        format_name = detect_format(file, named)
        say(f"{file.name}: read as {format_name} (--format says otherwise)")
    options = OutputOptions(named, queries, ground_truth, answers, k, settings.decline_phrases)
    return read_outputs(file, format_name, options), format_name


def _language_warnings(outputs: "Sequence[Output]", metrics: "Sequence[Metric]", model: str) -> list[str]:
    """What is to be said of the metrics' embedding model, if one is used, and the languages of questions and answers.

    Of long files every n-th row is looked at.
    """
    from rageval_dagster.languages import language_shares, language_warnings

    if not any("embedder" in metric.needs for metric in metrics):
        return []
    results = [output.result for output in outputs[:: 2 * len(outputs) // LANGUAGE_SAMPLE + 1]]
    texts = [text for each in results for text in (each.item.question, each.answer.text if each.answer else "") if text]
    return language_warnings([model], language_shares(texts))


def _say_unmeasured(found: Mapping[str, Mapping[str, Outcome]]) -> None:
    """The metrics without any value, together where they have it for the same reason."""
    reasons: dict[str, list[str]] = {}
    for metric_id, column in found.items():
        if column and not any(outcome.status == "scored" for outcome in column.values()):
            [(reason, _)] = Counter(outcome.reason for outcome in column.values()).most_common(1)
            reasons.setdefault(str(reason), []).append(metric_id)
    for reason, metric_ids in reasons.items():
        say(f"not measured, {cell(reason)}: {', '.join(metric_ids)}")
