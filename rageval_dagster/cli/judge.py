"""`rageval judge`: a file of recorded answers, judged by a language model and written as seed 002's output."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import (
    DONE_IN_PART,
    MAX_LISTED,
    SCORE_COLUMNS,
    cell,
    dumped,
    print_table,
    progress_bar,
    say,
    say_refused,
    say_usage,
    score_rows,
)
from rageval_dagster.cli.evaluate import print_forecasts
from rageval_dagster.cli.score import AnswersOption, ColumnsOption, QueriesOption, read_file
from rageval_dagster.errors import RagevalError
from rageval_dagster.text import plural

if TYPE_CHECKING:
    from rageval_dagster.recorded.judging import Judgement


def judge(
    file: Annotated[
        Path | None, typer.Argument(help="A system's recorded outputs: questions with answers, contexts, references.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="The file for the result; an earlier result is replaced.")] = None,
    test_results: Annotated[
        Path | None, typer.Option("--test-results", "--test_results", help="Another name for FILE.")
    ] = None,
    ground_truth: Annotated[
        Path | None,
        typer.Option("--ground-truth", "--ground_truth", help="The references by query id (test-results)."),
    ] = None,
    queries: QueriesOption = None,
    answers: AnswersOption = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Judge only the first answers, at most this many.")] = None,
    model: Annotated[str | None, typer.Option(help="The judge model, instead of RAGEVAL_JUDGE_MODEL.")] = None,
    client: Annotated[str | None, typer.Option(help="Judge with this client's settings, cache and budget.")] = None,
    format_name: Annotated[
        str | None,
        typer.Option("--format", help="As for `rageval score`; default: recognised by the fields of the rows."),
    ] = None,
    columns: ColumnsOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be asked and what it costs, and ask nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: print JSON.")] = False,
) -> None:
    """Judges recorded answers with a language model: five dimensions with reasons, and their weighted mean.

    The model's responses are kept: if you run the same command again, it asks only for what is missing. Exits with 4
    if rows were refused or verdicts are missing.
    """
    from rageval_dagster.benchmark.exporting import written_whole
    from rageval_dagster.llm.client import ChatClient
    from rageval_dagster.recorded.judging import (
        file_shape,
        judge_forecast,
        judge_outputs,
        judge_settings,
        may_be_replaced,
    )
    from rageval_dagster.recorded.scoring import FILES_CLIENT, new_run_id, redacted_outputs
    from rageval_dagster.settings import load_settings

    if file is not None and test_results is not None:
        raise RagevalError("FILE is given twice: by itself, and as --test-results")
    file = file or test_results
    if file is None:
        raise RagevalError("which file? rageval judge FILE --output OUT")
    if as_json and not dry_run:
        raise RagevalError("--json goes with --dry-run: what was judged stands in --output as JSON")
    if output is None and not dry_run:
        raise RagevalError("where to? rageval judge FILE --output OUT")
    if output is not None and not may_be_replaced(output):
        raise RagevalError(f"--output {output} is there already, and no result of `rageval judge`: write elsewhere")
    settings = load_settings()
    settings = judge_settings(settings if client is None else settings.for_client(client), model)
    report, _ = read_file(file, format_name, settings, settings.k, columns, queries, ground_truth, answers)
    say_refused(report.refused)
    if not report.rows:
        raise RagevalError(f"{file} has no row that can be judged")
    outputs = redacted_outputs(report.rows[:limit], settings)
    if output is None or dry_run:
        _, db = open_all()
        print_forecasts([judge_forecast(db, settings, client or FILES_CLIENT, outputs)], as_json)
        return
    _make_folder(output.parent)
    _, db = open_all()
    chat = ChatClient(settings, "judge", db, client or FILES_CLIENT, new_run_id())
    with written_whole(output, force=True) as draft:
        try:
            with progress_bar("judging") as progress:
                judgement = judge_outputs(outputs, chat, progress)
        finally:
            say_usage(chat)
        draft.write_text(dumped(file_shape(judgement, file, chat), indent=2) + "\n", encoding="utf-8")
    print_table(score_rows(judgement.summaries), SCORE_COLUMNS, "nothing was judged")
    _say_missing(judgement)
    left = len(report.rows) - len(outputs)
    rest = f", {left} left for another time (--limit)" if left else ""
    say(f"{plural(len(outputs), 'row')} judged, {plural(len(report.refused), 'row')} refused{rest}; see {output}")
    if not judgement.any_of("n_scored"):
        say("nothing could be judged")
        raise typer.Exit(2)
    if report.refused or judgement.any_of("n_error"):
        raise typer.Exit(DONE_IN_PART)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RagevalError(f"--output: the folder {folder} cannot be made ({error.strerror}); name another") from None


def _say_missing(judgement: "Judgement") -> None:
    """Why values are missing, and how many: first of all what went wrong."""
    reasons = Counter(
        (outcome.status, metric_id, outcome.reason)
        for metric_id, column in judgement.outcomes.items()
        for outcome in column.values()
        if outcome.value is None
    )
    for (status, metric_id, reason), count in sorted(reasons.items(), key=str)[:MAX_LISTED]:
        say(f"{metric_id}: {count} {status}, {cell(reason)}")
