"""`rageval evaluate`: one run of the evaluation job for each client named, and what it found."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import (
    DONE_IN_PART,
    GATE_FAILED,
    SCORE_COLUMNS,
    cell,
    dataset_number,
    print_json,
    print_json_lines,
    print_table,
    say,
    score_rows,
)
from rageval_dagster.cli.gate import gate_json, gate_lines, say_gate
from rageval_dagster.errors import RagevalError
from rageval_dagster.records import Summary
from rageval_dagster.settings import Settings
from rageval_dagster.text import named, plural

if TYPE_CHECKING:
    from rageval_dagster.app.evaluate import Found
    from rageval_dagster.evaluation.summary import EvaluationReport
    from rageval_dagster.recorded.fast import FastReport
    from rageval_dagster.storage.caches import Usage
    from rageval_dagster.storage.database import Database

FORECAST_TOTALS = ("tokens", "cost_usd", "seconds", "models")
"""What the second table of --dry-run shows by model."""


def evaluate(
    client: Annotated[str | None, typer.Option(help="The client to evaluate.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Evaluate every client in the store.")] = False,
    dataset: Annotated[
        list[int] | None,
        typer.Option(
            parser=dataset_number, metavar="NUMBER", help="Dataset by number; repeat for several; default: all."
        ),
    ] = None,
    system: Annotated[list[str] | None, typer.Option(help="dense, bm25, hybrid, or one of rageval.toml.")] = None,
    k: Annotated[int | None, typer.Option(min=1, max=1000, help="The metrics' cutoff.")] = None,
    sample_size: Annotated[int | None, typer.Option(min=1, help="Questions in a generated dataset.")] = None,
    strategy: Annotated[str | None, typer.Option(help="random, diverse or recent.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what a run would do, and do nothing.")] = False,
    gated: Annotated[
        bool,
        typer.Option("--gate", help="Exit with 1 where a metric of the gate regressed, with 3 where that is unclear."),
    ] = False,
    junit: Annotated[
        Path | None, typer.Option(help="With --gate: write what it found to this file, as JUnit XML.")
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="Score recorded answers anew, without contexts, model or history.")
    ] = False,
    resume: Annotated[
        int | None,
        typer.Option(
            metavar="RUN",
            help="Go on with an unfinished run by its number, with the settings that it was asked for with.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON an evaluation.")] = False,
) -> None:
    """Evaluates a client: scan, benchmark where due, retrieval, answers, scores, history."""
    from rageval_dagster.app import evaluate as app
    from rageval_dagster.telling.alarms import failed_metrics, failed_questions, leak, unknown_chunks

    if junit is not None and not (gated and junit.absolute().parent.is_dir()):
        raise RagevalError("--junit goes with --gate, and names a file in a folder that there is")
    if fast and (dry_run or gated or sample_size is not None or strategy is not None):
        raise RagevalError("--fast scores what is recorded: it goes with --dataset, --system and --k only")
    plan = app.Plan(dataset or [], system or [], k or 0, sample_size or 0, strategy or "")
    if resume is not None and (plan != app.Plan() or every or client is not None or dry_run or fast):
        raise RagevalError("--resume goes on with what was asked for: it goes with --gate, --junit and --json only")
    if resume is None and every == (client is not None):
        raise RagevalError("name a client with --client NAME, or take --all of them")
    settings, db = open_all()
    if fast:
        _print_rescored(*app.rescore(settings, db, client, plan, say), as_json)
        return
    if dry_run:
        rows, failed = app.forecasts(settings, db, client, plan, say)
        print_forecasts(rows, as_json)
        if failed:
            raise typer.Exit(DONE_IN_PART)
        return
    if resume is not None:
        run = app.unfinished(settings, db, resume)
        settings, done = run.settings, app.resume(db, run, say)
    else:
        done = app.evaluate(settings, db, client, plan, say)
    if as_json:
        print_json_lines(evaluation_json(settings, each) for each in done.found)
    else:
        print_evaluations(settings, db, done.found, done.spent)
    failing = [failed_questions(each.report.evaluation, each.failures) for each in done.found]
    erring = [failed_metrics(each.report, each.metric_failures, each.too_many) for each in done.found]
    leaking = [leak(each.report.evaluation, each.leaked) for each in done.found]
    unknown = [unknown_chunks(each.report.evaluation) for each in done.found]
    for line in filter(None, (*failing, *erring, *leaking, *unknown)):
        say(line)
    if sample_size is not None:
        for each in {each.report.evaluation.dataset_id: each for each in done.found if each.shortage}.values():
            say(f"{each.report.evaluation.client_id} / {each.report.evaluation.dataset_name}: {each.shortage}")
    if done.failed:
        say(f"{plural(done.failed, 'client')} of {done.chosen} failed")
    verdict = say_gate(settings, db, [each.judged for each in done.found], junit) if gated else 0
    if any(leaking) or verdict == GATE_FAILED:
        raise typer.Exit(GATE_FAILED)
    if done.failed == done.chosen or done.answered_nothing:
        raise typer.Exit(2)
    if done.failed or any(failing) or any(erring) or done.left_out:
        raise typer.Exit(DONE_IN_PART)
    if verdict:
        raise typer.Exit(verdict)


def print_forecasts(rows: list[dict[str, Any]], as_json: bool) -> None:
    """What a run would do for each client, and what its models would be asked."""
    from rageval_dagster.evaluation.forecast import GUESS

    say("at most; nothing was scanned or asked")
    if as_json:
        print_json(rows)
    else:
        print_table(rows, [name for name in rows[0] if name not in FORECAST_TOTALS], "nothing to evaluate")
        if any(row.get("asked again") for row in rows):
            print("\nAsked again: each question twice more that is new, or turned from right to wrong or back.")
        models = [_model_row(row["client"], each) for row in rows for each in row["models"]]
        print()
        print_table(models, list(models[0]) if models else [], "no language model would be asked")
        if models:
            print()
            if any(each["role"] != "judge" for each in models):
                print("Upper bounds: every draft of a question is rejected once, every answer improved.")
            print("Replies kept from earlier calls cost nothing; they were not looked up, and are counted here.")
        if any(each["tokens and time by"] == GUESS for each in models):
            print("A guess: 2 s a call, chunks of 800 characters; better numbers come with this client's first calls.")


def _model_row(client_id: str, work: dict[str, Any]) -> dict[str, Any]:
    cost = work["cost_usd"]
    return {
        "client": client_id,
        "role": work["role"],
        "model": work["model"],
        "calls": work["calls"],
        "if all goes well": work["calls_if_all_goes_well"],
        "tokens": work["tokens"],
        "USD": "no price" if cost is None else f"{cost:.4f}",
        "time": _duration(work["seconds"]),
        "tokens and time by": work["estimated_by"],
    }


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def _print_rescored(reports: "Sequence[FastReport]", failed: int, as_json: bool) -> None:
    if as_json:
        print_json_lines(
            {"client": each.client_id, "dataset_id": each.dataset_id, "system": each.system, **each.shape}
            for each in reports
        )
    for each in reports:
        name = f"{each.client_id} / {each.dataset_name} / {each.system}"
        if not as_json:
            print(f"{cell(name)}")
            print_table(score_rows(each.shape["scores"]), SCORE_COLUMNS, "no metric needs neither contexts nor a model")
            print()
        if each.not_recorded:
            say(f"{name}: {plural(each.not_recorded, 'question')} not recorded")
    say("fast mode: recorded answers, metrics without contexts and models; not written to the history")
    if not any(score["n_scored"] for each in reports for score in each.shape["scores"].values()):
        say("nothing could be scored")
        raise typer.Exit(2)
    if failed or any(each.not_recorded for each in reports):
        raise typer.Exit(DONE_IN_PART)


def print_evaluations(
    settings: Settings, db: "Database", found: "Sequence[Found]", spent: "Mapping[str, Usage]"
) -> None:
    """Headline metrics, what was not measured and what to set for it, and where to look next."""
    from rageval_dagster.evaluation.summary import RIGHTLY_ANSWERED
    from rageval_dagster.llm.endpoints import same_model_warning
    from rageval_dagster.telling.alarms import leak
    from rageval_dagster.telling.links import report_path
    from rageval_dagster.telling.verdicts import good_values_told

    reports = [each.report for each in found]
    rows = [headline_row(report) for report in reports]
    print_table(rows, list(rows[0]) if rows else [], "nothing was evaluated")
    for each in found:
        report, evaluation = each.report, each.report.evaluation
        own = settings.for_client(evaluation.client_id)
        print(f"\n{evaluation.client_id} / {evaluation.dataset_name} / {evaluation.system}, {report.level} level")
        if leaking := leak(evaluation, each.leaked):
            print(f"  {leaking}")
        shown = report.headline()
        if RIGHTLY_ANSWERED in report.summaries:
            shown["answered or declined rightly"] = report.summaries[RIGHTLY_ANSWERED]
        shown |= report.by_model()
        measured = {name: summary for name, summary in shown.items() if summary.mean is not None}
        for name, summary in measured.items():
            interval = "" if summary.ci_low is None else f" [{summary.ci_low:.3f}, {summary.ci_high:.3f}]"
            print(f"  {name:28} {summary.mean:.3f}{interval}  {plural(summary.n_scored, 'question')}")
        if measured:
            print(f"  {good_values_told(report, own.thresholds)}")
        elif not evaluation.answered_nothing:
            print("  no headline metric has a value: nobody said what is right; the others: rageval runs show")
        for line in gate_lines(own, db, each):
            print(f"  {line}")
        if each.lost:
            said = f"{plural(each.lost, 'question')} whose evidence the documents do not hold (any more)"
            more = each.flagged - each.lost
            others = f"; {more} more flagged for other reasons" if more else ""
            print(f"  {said}{others}: rageval datasets show {evaluation.dataset_id}")
        print(f"  the questions that went worst: rageval runs show {evaluation.id}")
    print("\nIn brackets: 95 % intervals.")
    if any(report.evaluation.system_reference for report in reports):
        print("These are numbers of built-in reference systems, not of your RAG system: name yours in rageval.toml.")
    answering = [report.evaluation for report in reports if not report.evaluation.answered_nothing]
    if any(evaluation.system_declared is None for evaluation in answering):
        print("A system that declares no version is asked everything again each time, and may have changed unnoticed.")
    everyone = {name: settings.for_client(name) for name in (report.evaluation.client_id for report in reports)}
    clients = {name: own for name, own in everyone.items() if own.llm != "forbidden"}
    if forbidden := [name for name in everyone if name not in clients]:
        print(f'Models are forbidden (llm = "forbidden") for {named(forbidden)}: questions and the answers of')
        print("reference systems are extracted from the documents, and judge.* and claims.* are not measured.")
    if any(own.generator_model is None for own in clients.values()):
        print("Generated questions are made without a model: good for one system over time, less so for comparing")
        print("lexical with dense retrieval. For natural ones set RAGEVAL_GENERATOR_MODEL.")
    referring = {report.evaluation.client_id for report in reports if report.evaluation.system_reference}
    if any(own.answer_model is None for name, own in clients.items() if name in referring):
        print("Answers are extracted from the contexts; for generated ones set RAGEVAL_ANSWER_MODEL.")
    for warning in _language_warnings(settings, reports):
        print(f"{warning}.")
    for warning in dict.fromkeys(filter(None, map(same_model_warning, clients.values()))):
        print(f"{warning}.")
    if any(own.judge_model is None for own in clients.values()):
        print("Not measured: judge.* and claims.*, which need a judge model: set RAGEVAL_JUDGE_MODEL.")
    for client_id, usage in spent.items():
        print(f"{client_id}: {usage.described()}")
    for name, own in everyone.items():
        path = report_path(own.report_dir, name)
        if path.exists():
            print(f"The report: {path}")
    print("In the Dagster UI: make ui")


def _language_warnings(settings: Settings, reports: "Sequence[EvaluationReport]") -> list[str]:
    """Each once, whatever the number of datasets and systems."""
    from rageval_dagster.languages import language_warnings

    found: list[str] = []
    for report in reports:
        own = settings.for_client(report.evaluation.client_id)
        retrieval = [own.embedding_model] if report.evaluation.system_reference else []
        found += language_warnings([*retrieval, own.metric_embedding_model], report.languages)
    return list(dict.fromkeys(found))


def headline_row(report: "EvaluationReport") -> dict[str, Any]:
    """One row of the table: metrics at the level that the dataset allows, with the number of questions scored."""
    headline, k = report.headline(), report.evaluation.k
    precision = headline.get(f"precision_at_{k}")
    others = {"R@k": f"recall_at_{k}", "hit rate": f"hit_rate_at_{k}", "MRR": "mrr", "nDCG@10": "ndcg_at_10"}
    return {
        "client": report.evaluation.client_id,
        "dataset": f"{report.evaluation.dataset_id} {report.evaluation.dataset_name}",
        "system": report.evaluation.system,
        "questions": report.evaluation.item_count,
        "scored": precision.n_scored if precision else 0,
        "k": k,
        "P@k": precision.mean if precision else None,
        "ceiling": precision.ceiling if precision else None,
        **{column: headline[name].mean if name in headline else None for column, name in others.items()},
    }


def evaluation_json(settings: Settings, found: "Found") -> dict[str, Any]:
    """The shape that `--json` prints for one evaluation."""
    from rageval_dagster.evaluation.verdict import completeness, error_share, thresholds

    report, evaluation = found.report, found.report.evaluation
    own = settings.for_client(evaluation.client_id)
    complete, good = completeness([report]), thresholds([report], own.thresholds)
    errors = error_share([report], own.max_error_share)
    return {
        "evaluation_id": evaluation.evaluation_id,
        "run_id": evaluation.id,
        "client": evaluation.client_id,
        "dataset_id": evaluation.dataset_id,
        "system": evaluation.system,
        "reference_system": evaluation.system_reference,
        "system_version_declared": evaluation.system_declared,
        "versions": asdict(evaluation.versions),
        "metrics": {metric_id: summary_json(summary) for metric_id, summary in sorted(report.summaries.items())},
        "gate": gate_json(found.judged),
        "checks": [
            {"name": "complete", "passed": complete.passed, **complete.metadata},
            {"name": "few_errors", "passed": errors.passed, **errors.metadata},
            {"name": "good_values", "passed": good.passed, **good.metadata},
            {
                "name": "no_foreign_chunks",
                "passed": not found.leaked,
                "chunk_ids": sorted({stray.chunk_id for stray in found.leaked}),
                "question_ids": sorted({stray.item_id for stray in found.leaked}),
            },
            {"name": "no_unknown_chunks", "passed": not evaluation.unknown_chunks, "chunks": evaluation.unknown_chunks},
        ],
    }


def summary_json(summary: Summary) -> dict[str, Any]:
    """Mean with interval and counts of a metric, as `--json` prints them."""
    names = ("mean", "ci_low", "ci_high", "n", "n_scored", "n_undefined", "n_error")
    return {name: getattr(summary, name) for name in names}
