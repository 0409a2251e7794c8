"""`rageval runs`: evaluations that were made, their questions, and their files for other tools."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli import gate
from rageval_dagster.cli.console import (
    SCORE_COLUMNS,
    cell,
    dataset_number,
    fitting,
    print_json,
    print_table,
    say,
    score_rows,
)
from rageval_dagster.errors import RagevalError
from rageval_dagster.records import Outcome, Summary
from rageval_dagster.text import plural

if TYPE_CHECKING:
    from rageval_dagster.evaluation.breakdown import Breakdown
    from rageval_dagster.evaluation.summary import EvaluationReport, Question
    from rageval_dagster.storage.database import Database
    from rageval_dagster.storage.evaluations import Evaluation

app = typer.Typer(help="Evaluations: list, show, compare, accept, export.", no_args_is_help=True)

MOST_PLACES = 230
"""Of an answer, beside which nothing else is shown: three lines of a terminal."""

app.command("compare")(gate.compare)
app.command("accept")(gate.accept)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_all(
    client: Annotated[str | None, typer.Option(help="Only this client's evaluations.")] = None,
    dataset: Annotated[
        int | None, typer.Option(parser=dataset_number, metavar="NUMBER", help="Only evaluations of this dataset.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="List at most this many.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Lists the evaluations, newest first."""
    from rageval_dagster.app.clients import require_client
    from rageval_dagster.storage.comparisons import current_baselines, load_judgements
    from rageval_dagster.storage.evaluations import list_evaluations
    from rageval_dagster.storage.leases import held_leases

    settings, db = open_all()
    if client is not None:
        require_client(settings, client, say)
    evaluations = list_evaluations(db, client_id=client, dataset_id=dataset, limit=limit)
    judgements = load_judgements(db, [evaluation.id for evaluation in evaluations])
    at_work = {lease.holder.rpartition(":run ")[2] for lease in held_leases(db) if not lease.is_dead}
    held_against = current_baselines(db, client)
    rows = [
        _row(evaluation)
        | {"verdict": judgements[evaluation.id].verdict, "baseline": evaluation.id in held_against}
        | (
            {"status": "interrupted"}
            if evaluation.status == "running" and evaluation.dagster_run_id not in at_work
            else {}
        )
        for evaluation in evaluations
    ]
    if as_json:
        print_json(rows)
        return
    columns = ["run", "client", "dataset", "system", "k", "status", "questions", "errors", "MRR", "nDCG@10"]
    columns += ["verdict", "baseline", "version", "started"]
    rows = [
        row
        | {"baseline": "yes" if row["baseline"] else None}
        | ({"verdict": "leak"} if evaluation.foreign_chunks else {})
        | _in_words(evaluation)
        for row, evaluation in zip(rows, evaluations, strict=True)
    ]
    print_table(rows, columns, "no evaluations yet: rageval evaluate --client NAME")


@app.command("show")
def show(
    run_id: Annotated[int, typer.Argument(help="The evaluation's number.")],
    worst: Annotated[int, typer.Option(min=0, help="Show this many of the worst questions.")] = 5,
    question_ids: Annotated[
        list[str] | None,
        typer.Option(
            "--question", help="Show the questions with these ids instead of the worst, with the texts of all passages."
        ),
    ] = None,
    by: Annotated[str | None, typer.Option(help="Show each category or document instead, worst first.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="With --by: show these metrics or patterns.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also show every metric with its interval and counts, and what was retrieved.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Shows an evaluation: its verdict, the headline metrics, and the worst questions.

    If several systems were evaluated on the same questions, also shows the questions that are hard for all systems.
    """
    from rageval_dagster.app.evaluate import evaluation_json, look_at
    from rageval_dagster.cli.evaluate import evaluation_lines
    from rageval_dagster.evaluation.breakdown import breakdown_of
    from rageval_dagster.evaluation.summary import contradictions, read_questions, report_of, undefined_everywhere
    from rageval_dagster.storage.corpus import document_names
    from rageval_dagster.storage.evaluations import get_evaluation
    from rageval_dagster.storage.views import hard_for_every_system
    from rageval_dagster.telling.alarms import (
        failed_questions,
        leak,
        metric_errors,
        nowhere_defined,
        unknown_chunks,
    )
    from rageval_dagster.telling.calibration import calibration_lines, self_agreement
    from rageval_dagster.telling.verdicts import good_values_told
    from rageval_dagster.telling.words import capitalised, metric_name

    if metric and by is None:
        raise RagevalError("--metric goes with --by category or --by document")
    settings, db = open_all()
    report = report_of(db, get_evaluation(db, run_id))
    broken_down = None if by is None else breakdown_of(db, report, by, metric or ())
    hard = hard_for_every_system(db, report.evaluation.client_id, report.evaluation.dataset_id)
    if as_json:
        shown = evaluation_json(settings, look_at(settings, db, report))
        columns = ("item_id", "systems", "errors", "best_reciprocal_rank")
        shown["hard_for_every_system"] = [{name: row[name] for name in columns} for row in hard]
        print_json(shown if broken_down is None else {**shown, "breakdown": _breakdown_json(broken_down)})
        return
    if question_ids and broken_down is None:
        _print_questions(db, report, _asked_for(db, report, question_ids), passages=True, texts=True)
        return
    if broken_down is not None:
        names = document_names(db, report.evaluation.client_id, broken_down.groups if by == "document" else ())
        _print_breakdown(broken_down, names)
        return
    found = look_at(settings, db, report, just_made=True)
    own = settings.for_client_or_default(report.evaluation.client_id)
    print("\n".join(evaluation_lines(own, db, found, shown=True)))
    scored = [name for name, each in report.summaries.items() if each.n_scored]
    for line in calibration_lines(scored, found.estimates):
        print(cell(capitalised(line)))
    for name, each in contradictions(db, report).items():
        print(cell(f"{capitalised(metric_name(name))}: {self_agreement(each)}"))
    if every:
        row = _row(report.evaluation) | _in_words(report.evaluation)
        print(f"\n{cell(good_values_told(report, own.thresholds))}\n")
        print_table([row], list(row), "")
        print()
        told = {name: each for name, each in report.summaries.items() if each.n_scored}
        print_table(_metric_rows(told), SCORE_COLUMNS, "no metric has a value")
        if silent := len(report.summaries) - len(told):
            print(f"\n{plural(silent, 'metric')} without any value not shown: --json has them")
    lines = (
        failed_questions(report.evaluation, found.failures),
        metric_errors(found.metric_failures),
        nowhere_defined(undefined_everywhere(db, report)) if every else None,
        leak(report.evaluation, found.leaked),
        unknown_chunks(report.evaluation),
    )
    for line in filter(None, lines):
        print(f"\n{line}")
    leaking = dict.fromkeys(stray.item_id for stray in found.leaked)
    questions = read_questions(db, report, list(dict.fromkeys([*leaking, *report.by_badness]))[:worst])
    if not report.by_badness and not report.is_judged:
        print("\nNo question has evidence, or a known answer, by which it could be told which went worst.")
    elif not report.by_badness and not found.judged.changed_answers:
        print("\nEvery question that has evidence found it first, and no answer was found to be wrong.")
    elif not questions and worst:
        print("\nThe questions were deleted: their dataset was not used for longer than texts are kept.")
    _print_questions(db, report, questions, passages=every)
    if hardest := [row["item_id"] for row in hard[:worst]]:
        print(
            "\nNo system has the evidence of these questions in the first place, hardest first: " + ", ".join(hardest)
        )
    if not every:
        print(f"\nAll metrics, and the passages of these questions: rageval runs show {run_id} --all")
        if questions:
            print(f"One question: rageval runs show {run_id} --question {questions[0].item.item_id}")


def _asked_for(db: "Database", report: "EvaluationReport", question_ids: list[str]) -> "list[Question]":
    """The questions with these ids.

    Raises:
        RagevalError: the run has no such question.
    """
    from rageval_dagster.evaluation.summary import read_questions

    questions = read_questions(db, report, question_ids)
    missing = sorted(set(question_ids) - {each.item.item_id for each in questions})
    if missing:
        raise RagevalError(
            f"run {report.evaluation.id} has no question {missing[0]!r}, or its texts were deleted; without --question "
            "the worst are listed"
        )
    return questions


def _print_questions(
    db: "Database", report: "EvaluationReport", questions: "Sequence[Question]", passages: bool, texts: bool = False
) -> None:
    """Each question with its answer; with the `passages` that were retrieved, and their `texts`."""
    from rageval_dagster.storage.corpus import document_names

    hits = [hit for question in questions for hit in question.hits] if passages else []
    names = document_names(db, report.evaluation.client_id, (hit.document_id for hit in hits))
    if hits:
        print("\nA passage with * holds the evidence, or is of its document where only that is known.")
    for question in questions:
        item = question.item
        print(f"\n{item.item_id}  {cell(item.category)}  rank of the evidence: {_rank(question)}")
        print(f"  Q: {cell(item.question)}")
        nothing = "(no answer known)" if item.answerable else "(no answer: unanswerable)"
        verb = "declined" if question.declined else "answered"
        expected, answered = f"expected: {cell(' | '.join(item.answers)) or nothing}", f"{verb}: {question.answer}"
        for said in (expected, answered):
            print(f"  {cell(said) if passages else fitting(said, MOST_PLACES)}")
        for hit in question.hits if passages else ():
            mark = "*" if hit.rank in question.relevant else " "
            print(f"  {hit.rank:>3}{mark} {cell(names[hit.document_id])}  {cell(hit.chunk_id)}")
            if texts:
                print(f"       {cell(hit.text) or '(its text is not kept)'}")
        for metric_id, outcome in question.verdicts.items():
            for verdict_line in _verdict_lines(metric_id, outcome):
                print(f"  {verdict_line}")


@app.command("export")
def export(
    run_id: Annotated[int, typer.Argument(help="The evaluation's number.")],
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            help="trec: qrels and run file; recorded, ragas, ai4rag, test-results, native: questions with answers, "
            "contexts and references; results: the scores, as ai4rag's results.",
        ),
    ] = "trec",
    out: Annotated[
        Path | None, typer.Option(help="The file to write; for trec and test-results, a folder; default: here.")
    ] = None,
    level: Annotated[str, typer.Option(help="For trec: chunk or document.")] = "chunk",
    force: Annotated[bool, typer.Option("--force", help="Replace what is there (trec always does).")] = False,
) -> None:
    """Writes an evaluation for other tools. Answers and contexts are people's texts: only you can read the file."""
    from rageval_dagster.benchmark.trec_files import LEVELS, write_trec
    from rageval_dagster.evaluation.breakdown import results_of
    from rageval_dagster.recorded.writing import OUTPUT_WRITERS, export_evaluation
    from rageval_dagster.storage.evaluations import get_evaluation

    if level not in LEVELS:
        raise RagevalError(f"--level takes chunk or document, not {level!r}")
    _, db = open_all()
    if format_name == "trec":
        evaluation = get_evaluation(db, run_id)
        results = results_of(db, evaluation)
        qrels, run = write_trec(out or Path(), results, level, tag=evaluation.system, stem=f"run{run_id}.{level}")
        print(f"{qrels}\n{run}\n{plural(len(results), 'question')}")
        return
    path, count = export_evaluation(db, run_id, format_name, out, force)
    carries = OUTPUT_WRITERS[format_name].carries if format_name in OUTPUT_WRITERS else "every metric's value"
    print(f"{plural(count, 'question')} written to {path} (of each: {carries})")


def _verdict_lines(metric_id: str, outcome: Outcome) -> list[str]:
    """What a judge model found of one answer: the value, its reasoning, and what it objects to."""
    detail = outcome.detail or {}
    said = f"{outcome.value:.3f}" if outcome.value is not None else f"{outcome.status}: {cell(outcome.reason)}"
    reasoning = f"  {cell(detail['reasoning'])}" if detail.get("reasoning") else ""
    lines = [f"{metric_id} {said}{reasoning}"]
    for entry in (entry for value in detail.values() if isinstance(value, list) for entry in value):
        if isinstance(entry, str):
            lines.append(f"  - {cell(entry)}")
        elif objection := _objection(entry):
            reason = f" ({cell(entry['reason'])})" if entry.get("reason") else ""
            lines.append(f"  - {objection}{reason}")
    return lines


def _objection(entry: Mapping[str, Any]) -> str | None:
    """What does not hold of a claim, a context (supported, useful) or a citation; None where nothing is amiss."""
    if "verdict" in entry:
        by = "the whole answer" if entry["sentence"] is None else f"sentence {entry['sentence']}"
        named = f", citing {', '.join(map(str, entry['contexts']))}" if entry["contexts"] else ""
        return None if entry["verdict"] == "correct" else f"{entry['verdict'].replace('_', ' ')}: {by}{named}"
    name = next((name for name, value in entry.items() if value is False), None)
    what = next((value for key, value in entry.items() if key not in (name, "reason")), "")
    return None if name is None else f"not {name}: {cell(str(what))}"


def _rank(question: "Question") -> str:
    """Where the evidence stands among the passages; a question that names none has no rank to be missed."""
    if question.rank is not None:
        return str(question.rank)
    if question.item.evidence:
        return "not found"
    return "none is named" if question.item.answerable else "it has none: unanswerable"


def _row(evaluation: "Evaluation") -> dict[str, Any]:
    return {
        "run": evaluation.id,
        "client": evaluation.client_id,
        "dataset": f"{evaluation.dataset_id} {evaluation.dataset_name}",
        "system": evaluation.system + (" (reference)" if evaluation.system_reference else ""),
        "k": evaluation.k,
        "status": evaluation.status,
        "questions": evaluation.item_count,
        "errors": evaluation.error_count,
        "MRR": evaluation.headline.get("mrr"),
        "nDCG@10": evaluation.headline.get("ndcg_at_10"),
        "version": evaluation.system_declared or ("unknown" if evaluation.answered_nothing else "unversioned"),
        "started": evaluation.started_at,
    }


def _in_words(evaluation: "Evaluation") -> dict[str, str]:
    """What a table for people says in place of a hash."""
    return {"version": "recorded answers"} if evaluation.of_recorded_answers else {}


def _metric_rows(summaries: Mapping[str, Summary]) -> list[dict[str, Any]]:
    return score_rows({metric_id: vars(summary) for metric_id, summary in summaries.items()})


def _print_breakdown(broken_down: "Breakdown", names: Mapping[str, str]) -> None:
    """A line for each group and metric; `names` is what documents are called, by id."""
    rows = [
        {broken_down.by: names.get(group, group), **row}
        for group, summaries in broken_down.groups.items()
        for row in _metric_rows(summaries)
    ]
    print_table(rows, [broken_down.by, *SCORE_COLUMNS], f"no question has a {broken_down.by}")
    print("\nThe 95 % intervals hold for each line alone: of many, some lie below their true value by chance.")
    if broken_down.ungrouped:
        print(f"{plural(broken_down.ungrouped, 'question')} without a {broken_down.by} not shown")


def _breakdown_json(broken_down: "Breakdown") -> dict[str, Any]:
    from rageval_dagster.app.evaluate import summary_json

    return {
        "by": broken_down.by,
        "ungrouped": broken_down.ungrouped,
        "groups": [
            {"group": group, "metrics": {name: summary_json(summary) for name, summary in summaries.items()}}
            for group, summaries in broken_down.groups.items()
        ],
    }
