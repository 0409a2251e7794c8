"""`rageval runs`: evaluations that were made, their questions, and their TREC files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rageval_dagster.cli.console import cell, open_all, plural, print_json, print_table

app = typer.Typer(help="Evaluations: list, show, export.", no_args_is_help=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_all(
    client: Annotated[str | None, typer.Option(help="Only this client's.")] = None,
    dataset: Annotated[int | None, typer.Option(help="Only of this dataset.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Lists the evaluations, newest first."""
    from rageval_dagster.storage.evaluations import list_evaluations

    _, db = open_all()
    rows = [_row(evaluation) for evaluation in list_evaluations(db, client_id=client, dataset_id=dataset, limit=limit)]
    if as_json:
        print_json(rows)
        return
    columns = ["run", "client", "dataset", "system", "k", "status", "questions", "MRR", "nDCG@10", "version", "started"]
    print_table(rows, columns, "no evaluations yet: rageval evaluate --client NAME")


@app.command("show")
def show(
    run_id: Annotated[int, typer.Argument(help="The evaluation's number.")],
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst questions to show.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Shows an evaluation: every metric with its interval and counts, and the questions that went worst."""
    from rageval_dagster.cli.evaluate import evaluation_json, failed_questions, leak, leaks_of
    from rageval_dagster.evaluation.summary import report_of, worst_questions
    from rageval_dagster.storage.evaluations import get_evaluation

    settings, db = open_all()
    report = report_of(db, get_evaluation(db, run_id))
    if as_json:
        print_json(evaluation_json(settings, report, leaks_of(db, report)))
        return
    row = _row(report.evaluation)
    print_table([row], list(row), "")
    print()
    columns = ["metric", "mean", "low", "high", "n", "scored", "undefined", "errors"]
    print_table([_metric_row(summary) for summary in report.summaries.values()], columns, "no metrics yet")
    for line in filter(None, (failed_questions(db, report), leak(report, leaks_of(db, report)))):
        print(f"\n{line}")
    questions = worst_questions(db, report, worst)
    if not report.by_badness and not report.is_judged:
        print("\nNo question has evidence, or a known answer, by which it could be told which went worst.")
    elif not report.by_badness:
        print("\nEvery question found its evidence first, and was answered or declined rightly.")
    elif not questions and worst:
        print("\nThe questions were deleted: their dataset was not used for longer than texts are kept.")
    for question in questions:
        item = question.item
        print(f"\n{item.item_id}  {cell(item.category)}  rank of the evidence: {question.rank or 'not found'}")
        print(f"  Q: {cell(item.question)}")
        print(f"  expected: {cell(' | '.join(item.answers)) or _nothing_expected(item)}")
        print(f"  answered: {cell(question.answer)}")
        for hit in question.hits:
            mark = "*" if {hit.chunk_id, hit.document_id} & question.relevant else " "
            print(f"  {hit.rank:>3}{mark} {cell(hit.document_id)}  {cell(hit.chunk_id)}")


@app.command("export")
def export(
    run_id: Annotated[int, typer.Argument(help="The evaluation's number.")],
    out: Annotated[Path, typer.Option(help="The folder for qrels and run file.")] = Path(),
    level: Annotated[str, typer.Option(help="chunk or document.")] = "chunk",
) -> None:
    """Writes an evaluation as TREC qrels and run files, as trec_eval reads them."""
    from rageval_dagster.benchmark.trec import write_trec
    from rageval_dagster.errors import RagevalError, TextsDeletedError
    from rageval_dagster.storage.evaluations import get_evaluation
    from rageval_dagster.storage.results import load_results

    if level not in ("chunk", "document"):
        raise RagevalError(f"--level takes chunk or document, not {level!r}")
    _, db = open_all()
    evaluation = get_evaluation(db, run_id)
    results = {item_id: result for item_id, (_, result) in load_results(db, run_id).items()}
    if evaluation.status == "complete" and len(results) < evaluation.item_count:
        raise TextsDeletedError(
            f"run {run_id} has lost its questions: their dataset was not used for longer than texts are kept"
        )
    qrels, run = write_trec(out, results, level, tag=evaluation.system, stem=f"run{run_id}.{level}")
    print(f"{qrels}\n{run}\n{plural(len(results), 'question')}")


def _nothing_expected(item: Any) -> str:
    return "(nobody said)" if item.answerable else "(no answer: unanswerable)"


def _row(evaluation: Any) -> dict[str, Any]:
    return {
        "run": evaluation.id,
        "client": evaluation.client_id,
        "dataset": f"{evaluation.dataset_id} {evaluation.dataset_name}",
        "system": evaluation.system + (" (reference)" if evaluation.system_reference else ""),
        "k": evaluation.k,
        "status": evaluation.status,
        "questions": evaluation.item_count,
        "MRR": evaluation.headline.get("mrr"),
        "nDCG@10": evaluation.headline.get("ndcg_at_10"),
        "version": evaluation.system_declared or "unversioned",
        "started": evaluation.started_at,
    }


def _metric_row(summary: Any) -> dict[str, Any]:
    return {
        "metric": summary.metric_id,
        "mean": summary.mean,
        "low": summary.ci_low,
        "high": summary.ci_high,
        "n": summary.n,
        "scored": summary.n_scored,
        "undefined": summary.n_undefined,
        "errors": summary.n_error,
    }
