"""`rageval evaluate`: one run of the evaluation job for each client named, and what it found."""

import difflib
import uuid
from collections import Counter
from collections.abc import Sequence
from itertools import repeat
from typing import Annotated, Any

import typer

from rageval_dagster.cli.console import (
    DONE_IN_PART,
    GATE_FAILED,
    SCORE_COLUMNS,
    cell,
    dataset_number,
    named,
    open_all,
    plural,
    print_json,
    print_json_lines,
    print_table,
    say,
    score_rows,
)
from rageval_dagster.cli.gate import gate_json, gate_lines, say_gate
from rageval_dagster.errors import RagevalError, SettingsError
from rageval_dagster.identity import digest_json
from rageval_dagster.settings import Settings

LEAK_CHECK = "no_foreign_chunks"
MAX_NAMES = 10
MOST_LEAKED = 5
MAX_REASONS = 3

FORECAST_TOTALS = ("tokens", "cost_usd", "seconds", "models")
"""What the second table of --dry-run shows by model."""

HEADLINE_COLUMNS = [
    *("client", "dataset", "system", "questions", "scored", "k"),
    *("P@k", "ceiling", "R@k", "hit rate", "MRR", "nDCG@10"),
]


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
        typer.Option(
            "--gate", help="Exit with 1 where a metric of the gate regressed, with 3 where too few questions tell."
        ),
    ] = False,
    fast: Annotated[
        bool, typer.Option("--fast", help="Score recorded answers anew, without contexts, model or history.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON an evaluation.")] = False,
) -> None:
    """Evaluates a client: scan, benchmark where due, retrieval, answers, scores, history."""
    if fast:
        if dry_run or gated or sample_size is not None or strategy is not None:
            raise RagevalError("--fast scores what is recorded: it goes with --dataset, --system and --k only")
        _evaluate_fast(client, every, dataset or [], system or [], k, as_json)
        return
    from rageval_dagster.automation.schedules import checked_cron
    from rageval_dagster.corpus.store import open_store

    settings, db = open_all()
    checked_cron(settings)
    plan = {
        "dataset_ids": dataset or [],
        "systems": system or [],
        "k": k or 0,
        "sample_size": sample_size or 0,
        "strategy": strategy or "",
    }
    if client is not None:  # before the document store is read, which may take long
        with_usable_settings(settings, [client], k, None if dry_run else system or [])
    client_ids = chosen_clients(settings, db, client, every)
    refused = open_store(settings).refused() if every else []
    for _, reason in refused:
        say(f"left out: {reason}")
    chosen = len(client_ids)
    if every:
        client_ids = with_usable_settings(settings, client_ids, k, None if dry_run else system or [])
    failures = chosen - len(client_ids)
    check_plan(settings, db, client_ids, plan)
    if dry_run:
        _print_forecast(settings, db, client_ids, plan, as_json)
        if failures:
            raise typer.Exit(DONE_IN_PART)
        return
    reports: list[Any] = []
    for client_id in client_ids:
        try:
            reports += run_evaluation(settings, db, client_id, plan)
        except RagevalError as error:
            if chosen == 1:
                raise
            failures += 1
            say(f"{client_id}: {error}")
    leaked = [leaks_of(db, report) for report in reports]
    if as_json:
        print_json_lines(map(evaluation_json, repeat(settings), repeat(db), reports, leaked))
    else:
        print_reports(settings, db, reports)
    failing = [line for report in reports if (line := failed_questions(db, report))]
    erring = [line for report in reports if (line := failed_metrics(settings, db, report))]
    leaking = [line for line in map(leak, reports, leaked) if line]
    for line in [*failing, *erring, *leaking, *filter(None, map(unknown_chunks, reports))]:
        say(line)
    if failures:
        say(f"{plural(failures, 'client')} of {chosen} failed")
    verdict = say_gate(settings, db, reports) if gated else 0
    if leaking or verdict == GATE_FAILED:
        raise typer.Exit(GATE_FAILED)
    if failures == chosen or (reports and all(report.evaluation.answered_nothing for report in reports)):
        raise typer.Exit(2)
    if failures or failing or erring or refused:
        raise typer.Exit(DONE_IN_PART)
    if verdict:
        raise typer.Exit(verdict)


def _print_forecast(settings: Settings, db: Any, client_ids: list[str], plan: dict[str, Any], as_json: bool) -> None:
    """What a run would do for each client, and what its models would be asked."""
    from rageval_dagster.corpus.store import open_store
    from rageval_dagster.evaluation.forecast import GUESS, forecast

    store = open_store(settings)
    rows = [
        forecast(db, settings.for_client(client_id), client_id, store.probe(client_id), **plan)
        for client_id in client_ids
    ]
    say("at most; nothing was scanned or asked")
    if as_json:
        print_json(rows)
        return
    print_table(rows, [name for name in rows[0] if name not in FORECAST_TOTALS], "nothing to evaluate")
    models = [_model_row(row["client"], each) for row in rows for each in row["models"]]
    print()
    print_table(models, list(models[0]) if models else [], "no language model would be asked")
    if models:
        print(
            "\nUpper bounds: every draft of a question is rejected once, every answer improved. Replies that are kept"
        )
        print("from earlier calls cost nothing; they were not looked up, and are counted here.")
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


def _evaluate_fast(
    client: str | None, every: bool, datasets: list[int], systems: list[str], k: int | None, as_json: bool
) -> None:
    """Scores recorded answers of a client, or of all that the history knows."""
    from rageval_dagster.evaluation.fast import evaluate_fast
    from rageval_dagster.storage.clients import list_clients

    if every == (client is not None):
        raise RagevalError("name a client with --client NAME, or take --all of them")
    settings, db = open_all()
    client_ids = [client] if client is not None else [known.client_id for known in list_clients(db)]
    reports: list[Any] = []
    failures = 0
    for client_id in client_ids:
        try:
            reports += evaluate_fast(db, settings.for_client(client_id), client_id, datasets, systems, k)
        except RagevalError as error:
            if client is not None:
                raise
            failures += 1
            say(f"{client_id}: {error}")
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
    if failures or any(each.not_recorded for each in reports):
        raise typer.Exit(DONE_IN_PART)


def chosen_clients(settings: Settings, db: Any, client: str | None, every: bool) -> list[str]:
    """The clients named on the command line, each one known to the document store; a forgotten one only by its name.

    Tables of rageval.toml that may be meant for them, and are of nobody whom the store knows, are said.

    Raises:
        RagevalError: neither or both of --client and --all, an unknown client, a store without any.
    """
    from rageval_dagster.corpus.store import open_store
    from rageval_dagster.storage.forgetting import left_alone

    if every == (client is not None):
        raise RagevalError("name a client with --client NAME, or take --all of them")
    store = open_store(settings)
    if client is not None:
        store.probe(client)  # says so where the store does not know the client
    known = store.clients()
    for line in strange_tables(settings.source.client_names, known, client):
        say(line)
    if client is not None:
        return [client]
    forgotten = left_alone(db, known)
    clients = [name for name in known if name not in forgotten]
    if not clients:
        raise RagevalError(
            f"the document store has no clients yet{' but forgotten ones' if forgotten else ''}: load documents with "
            "rageval ingest PATH --client NAME"
        )
    return clients


def strange_tables(tables: Sequence[str], known: Sequence[str], client: str | None) -> list[str]:
    """A line on each client's table that is of no known client; of one client's, those that may be meant for it."""
    found: list[str] = []
    for name in (name for name in tables if name not in known):
        near = difflib.get_close_matches(name, [each for each in known if each not in tables], n=1)
        if client is None or near == [client]:
            meant = f"; {cell(near[0])} is meant?" if near else ""
            found.append(f"rageval.toml has a table for {cell(name)}, whom the document store does not know{meant}")
    return found


def with_usable_settings(
    settings: Settings, client_ids: list[str], k: int | None, systems: Sequence[str] | None
) -> list[str]:
    """The clients whose tables in rageval.toml can be used, at cutoff k; of the others it says why not.

    Args:
        systems: those that will be asked, none for those of each client's settings; None where nothing will be.

    Raises:
        SettingsError: none of them can.
    """
    from rageval_dagster.evaluation.request import check_metrics
    from rageval_dagster.rag.external import check_access

    usable: list[str] = []
    for number, client_id in enumerate(client_ids, start=1):
        try:
            own = settings.for_client(client_id)
            check_metrics(own, k or own.k)
            for name in () if systems is None else systems or own.system:
                check_access(name, own, client_id)
            usable.append(client_id)
        except SettingsError as error:
            if number == len(client_ids) and not usable:
                raise
            say(f"{client_id}: {error}")
    return usable


def check_plan(settings: Settings, db: Any, client_ids: list[str], plan: dict[str, Any]) -> None:
    """Refuses a wrong dataset, system or strategy before anything runs."""
    from rageval_dagster.benchmark.due import BenchmarkSpec
    from rageval_dagster.rag.systems import check_system_name
    from rageval_dagster.storage.benchmark import get_dataset

    BenchmarkSpec.from_settings(settings, size=plan["sample_size"], strategy=plan["strategy"])
    for name in plan["systems"]:
        for client_id in client_ids:
            check_system_name(name, settings.for_client(client_id))
    for dataset_id in plan["dataset_ids"]:
        owner = get_dataset(db, dataset_id).client_id
        if client_ids != [owner]:
            raise RagevalError(f"dataset {dataset_id} belongs to client {owner!r}: name it with --client")


def run_evaluation(settings: Settings, db: Any, client_id: str, plan: dict[str, Any]) -> list[Any]:
    """Runs the job for one client and gives its reports.

    What an earlier command with the same choices left unfinished is resumed.

    Raises:
        RagevalError: the run failed; the message says at which step and why.
    """
    from rageval_dagster.automation.launch import launch
    from rageval_dagster.definitions import defs
    from rageval_dagster.evaluation.summary import reports_of
    from rageval_dagster.storage.evaluations import unfinished_trigger

    own = settings.for_client(client_id)
    choices = digest_json({**plan, "k": plan.get("k") or own.k, "systems": plan.get("systems") or own.system})[:12]
    trigger = unfinished_trigger(db, client_id, f"command:{choices}:") or f"command:{choices}:{uuid.uuid4()}"
    say(f"{client_id}: evaluating")
    launched = launch(defs, settings, client_id, trigger, plan, lambda step: say(f"  {step}"))
    if launched.untold is not None:
        say(f"{client_id}: {launched.untold}")
    # What a leak stops comes after the evaluation itself, which is complete.
    if launched.failure is not None and launched.blocked_by != LEAK_CHECK:
        raise RagevalError(f"{client_id}: {launched.failure}")
    return reports_of(db, client_id, trigger)


def failed_questions(db: Any, report: Any) -> str | None:
    """One line on the questions that the system failed on, with the reasons, None if there are none."""
    from rageval_dagster.evaluation.summary import failures
    from rageval_dagster.rag.failures import remedy

    evaluation = report.evaluation
    reasons = failures(db, evaluation)
    if not reasons:
        return None
    named = "; ".join(f"{cell(reason)} ({count})" for reason, count in reasons.most_common(MAX_NAMES))
    [(commonest, _)] = reasons.most_common(1)
    todo = remedy(commonest, cell(evaluation.system))
    return (
        f"{evaluation.client_id} / {evaluation.dataset_name}: {evaluation.system} failed on {reasons.total()} of "
        f"{plural(evaluation.item_count, 'question')}: {named}" + (f": {todo}" if todo else "")
    )


def failed_metrics(settings: Settings, db: Any, report: Any) -> str | None:
    """One line on the metrics with more errors than allowed, beside those of the system; None if there are none."""
    from rageval_dagster.evaluation.summary import metric_failures
    from rageval_dagster.evaluation.verdict import with_too_many_errors

    evaluation = report.evaluation
    too_many = with_too_many_errors(report, settings.for_client(evaluation.client_id).max_error_share)
    reasons = {name: found for name, found in metric_failures(db, report).items() if name in too_many}
    if not reasons:
        return None
    named: list[str] = []
    for name, found in list(reasons.items())[:MAX_NAMES]:
        [(reason, count)] = found.most_common(1)
        named.append(f"{name} {found.total()} of {report.summaries[name].n} ({cell(reason)}: {count})")
    return (
        f"{evaluation.client_id} / {evaluation.dataset_name}: more errors than RAGEVAL_MAX_ERROR_SHARE allows: "
        + "; ".join(named)
        + (f"; and {len(reasons) - MAX_NAMES} more metrics" if len(reasons) > MAX_NAMES else "")
    )


def metric_errors(db: Any, report: Any) -> str | None:
    """One line with the commonest reasons of metrics' errors, beside those of the system; None if there are none."""
    from rageval_dagster.evaluation.summary import metric_failures

    reasons = Counter(
        {
            (name, reason): count
            for name, found in metric_failures(db, report).items()
            for reason, count in found.items()
        }
    )
    if not reasons:
        return None
    commonest = reasons.most_common(MAX_REASONS)
    named = "; ".join(f"{name}: {cell(reason)} ({count})" for (name, reason), count in commonest)
    more = len(reasons) - len(commonest)
    return f"metrics failed: {named}" + (f"; and {plural(more, 'reason')} more" if more else "")


def nowhere_defined(db: Any, report: Any) -> str | None:
    """One line on the metrics that are undefined for every question, by their commonest reasons; None without any."""
    from rageval_dagster.evaluation.summary import is_by_model, undefined_everywhere

    by_reason: dict[str, list[str]] = {}
    for name, reason in undefined_everywhere(db, report).items():
        by_reason.setdefault(reason, []).append(name)
    if not by_reason:
        return None
    # What a judge model was wanted for comes first.
    commonest = sorted(by_reason.items(), key=lambda entry: (not any(map(is_by_model, entry[1])), -len(entry[1])))
    named = "; ".join(f"{cell(reason)} ({_some(names, MAX_REASONS)})" for reason, names in commonest[:MAX_REASONS])
    more = len(commonest) - MAX_REASONS
    return f"undefined for every question: {named}" + (f"; and {plural(more, 'reason')} more" if more > 0 else "")


def leaks_of(db: Any, report: Any) -> list[Any]:
    """The chunks of other clients that an evaluation's system returned."""
    from rageval_dagster.evaluation.leaks import stray_chunks

    return stray_chunks(db, [report.evaluation], "foreign")


def leak(report: Any, leaked: list[Any]) -> str | None:
    """One line on the chunks of other clients that an evaluation's system returned, None if there are none."""
    if not leaked:
        return None
    chunks, questions = sorted({stray.chunk_id for stray in leaked}), sorted({stray.item_id for stray in leaked})
    return (
        f"{report.evaluation.client_id}: LEAK: {report.evaluation.system} returned {plural(len(chunks), 'chunk')} of "
        f"other clients for {plural(len(questions), 'question')}: chunks {named(chunks, MOST_LEAKED)}; "
        f"questions {named(questions, MOST_LEAKED)}"
    )


def unknown_chunks(report: Any) -> str | None:
    """One line on the chunks that an evaluation's system returned and the document store does not have."""
    evaluation = report.evaluation
    if not evaluation.unknown_chunks:
        return None
    return (
        f"{evaluation.client_id} / {evaluation.dataset_name}: {evaluation.system} returned "
        f"{plural(evaluation.unknown_chunks, 'chunk')} that the document store does not have: stale, or made up"
    )


def _some(names: list[str], most: int = MAX_NAMES) -> str:
    return ", ".join(cell(name) for name in names[:most]) + (", ..." if len(names) > most else "")


def print_reports(settings: Settings, db: Any, reports: list[Any]) -> None:
    """Headline metrics, what was not measured and what to set for it, and where to look next."""
    from rageval_dagster.evaluation.summary import RIGHTLY_ANSWERED
    from rageval_dagster.evaluation.verdict import verdict
    from rageval_dagster.llm.endpoints import same_model_warning
    from rageval_dagster.report.links import report_path

    print_table([headline_row(report) for report in reports], HEADLINE_COLUMNS, "nothing was evaluated")
    for report in reports:
        evaluation = report.evaluation
        own = settings.for_client(evaluation.client_id)
        print(f"\n{evaluation.client_id} / {evaluation.dataset_name} / {evaluation.system}, {report.level} level")
        shown = report.headline()
        if RIGHTLY_ANSWERED in report.summaries:
            shown["answered or declined rightly"] = report.summaries[RIGHTLY_ANSWERED]
        shown |= report.by_model()
        measured = {name: summary for name, summary in shown.items() if summary.mean is not None}
        for name, summary in measured.items():
            interval = "" if summary.ci_low is None else f" [{summary.ci_low:.3f}, {summary.ci_high:.3f}]"
            print(f"  {name:28} {summary.mean:.3f}{interval}  {plural(summary.n_scored, 'question')}")
        if measured:
            print(f"  {verdict(report, own.thresholds)}")
        elif evaluation.answered_nothing:
            print(f"  no headline metric has a value: {evaluation.system} failed on every question")
        else:
            print("  no headline metric has a value: nobody said what is right; the others: rageval runs show")
        for line in gate_lines(db, own, evaluation):
            print(f"  {line}")
        lost, flagged = flagged_questions(db, evaluation.dataset_id)
        if lost:
            said = f"{plural(lost, 'question')} whose evidence the documents do not hold (any more)"
            others = f"; {flagged - lost} more flagged for other reasons" if flagged > lost else ""
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
        print(f'Models are forbidden (llm = "forbidden") for {_some(forbidden)}: questions and the answers of')
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
    for spent in model_spending(db, reports):
        print(spent)
    for name, own in everyone.items():
        path = report_path(own.report_dir, name)
        if path.exists():
            print(f"The report: {path}")
    print("In the Dagster UI: make ui")


def flagged_questions(db: Any, dataset_id: int) -> tuple[int, int]:
    """How many of a dataset's questions have evidence that stands nowhere in the documents, and how many are flagged
    for that or for a rule that they break."""
    from rageval_dagster.benchmark.coverage import LACKS
    from rageval_dagster.storage.benchmark import get_dataset

    flagged = get_dataset(db, dataset_id).flagged
    return sum(not LACKS.isdisjoint(reasons) for reasons in flagged.values()), len(flagged)


def model_spending(db: Any, reports: list[Any]) -> list[str]:
    """What each client's model calls took in the runs of these reports; clients that asked no model are left out."""
    from rageval_dagster.storage.caches import Usage, model_usage

    runs = {(report.evaluation.client_id, report.evaluation.dagster_run_id) for report in reports}
    found: list[str] = []
    for client_id in sorted({client_id for client_id, _ in runs}):
        usage = sum((model_usage(db, *run) for run in runs if run[0] == client_id and run[1]), Usage())
        if usage.requests:
            found.append(f"{client_id}: {usage.described()}")
    return found


def _language_warnings(settings: Settings, reports: list[Any]) -> list[str]:
    """Each once, whatever the number of datasets and systems."""
    from rageval_dagster.languages import language_warnings

    found: list[str] = []
    for report in reports:
        own = settings.for_client(report.evaluation.client_id)
        retrieval = [own.embedding_model] if report.evaluation.system_reference else []
        found += language_warnings([*retrieval, own.metric_embedding_model], report.languages)
    return list(dict.fromkeys(found))


def headline_row(report: Any) -> dict[str, Any]:
    """One row of the table: metrics at the level that the dataset allows, with the number of questions scored."""
    headline = report.headline()
    k = report.evaluation.k

    def mean(name: str) -> float | None:
        return headline[name].mean if name in headline else None

    precision = headline.get(f"precision_at_{k}")
    return {
        "client": report.evaluation.client_id,
        "dataset": f"{report.evaluation.dataset_id} {report.evaluation.dataset_name}",
        "system": report.evaluation.system,
        "questions": report.evaluation.item_count,
        "scored": precision.n_scored if precision else 0,
        "k": k,
        "P@k": precision.mean if precision else None,
        "ceiling": precision.ceiling if precision else None,
        "R@k": mean(f"recall_at_{k}"),
        "hit rate": mean(f"hit_rate_at_{k}"),
        "MRR": mean("mrr"),
        "nDCG@10": mean("ndcg_at_10"),
    }


def evaluation_json(settings: Settings, db: Any, report: Any, leaked: list[Any]) -> dict[str, Any]:
    """The shape that `--json` prints for one evaluation."""
    from rageval_dagster.evaluation.verdict import completeness, error_share, thresholds

    evaluation = report.evaluation
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
        "versions": {
            "corpus": evaluation.versions.corpus,
            "index": evaluation.versions.index,
            "dataset": evaluation.versions.dataset,
            "system": evaluation.versions.system,
            "judge": evaluation.versions.judge,
        },
        "metrics": {metric_id: summary_json(summary) for metric_id, summary in sorted(report.summaries.items())},
        "gate": gate_json(db, evaluation),
        "checks": [
            {"name": "complete", "passed": complete.passed, **complete.metadata},
            {"name": "few_errors", "passed": errors.passed, **errors.metadata},
            {"name": "good_values", "passed": good.passed, **good.metadata},
            {
                "name": LEAK_CHECK,
                "passed": not leaked,
                "chunk_ids": sorted({stray.chunk_id for stray in leaked}),
                "question_ids": sorted({stray.item_id for stray in leaked}),
            },
            {"name": "no_unknown_chunks", "passed": not evaluation.unknown_chunks, "chunks": evaluation.unknown_chunks},
        ],
    }


def summary_json(summary: Any) -> dict[str, Any]:
    """Mean with interval and counts of a metric, as `--json` prints them."""
    names = ("mean", "ci_low", "ci_high", "n", "n_scored", "n_undefined", "n_error")
    return {name: getattr(summary, name) for name in names}
