"""`rageval evaluate`: one run of the evaluation job for each client named, and what it found."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rageval_dagster.app.opening import open_all
from rageval_dagster.cli.console import (
    DONE_IN_PART,
    GATE_FAILED,
    SCORE_COLUMNS,
    WIDTH,
    aligned,
    cell,
    dataset_number,
    fitting,
    print_json,
    print_json_lines,
    print_table,
    say,
    score_rows,
)
from rageval_dagster.cli.gate import say_gate
from rageval_dagster.errors import RagevalError
from rageval_dagster.settings import Settings
from rageval_dagster.text import named, plural

if TYPE_CHECKING:
    from rageval_dagster.app.evaluate import Found
    from rageval_dagster.evaluation.summary import EvaluationReport
    from rageval_dagster.recorded.fast import FastReport
    from rageval_dagster.storage.caches import Usage
    from rageval_dagster.storage.comparisons import Change, Judgement
    from rageval_dagster.storage.database import Database
    from rageval_dagster.storage.evaluations import Evaluation
    from rageval_dagster.telling.verdicts import Verdict

MOST_LINES = 12
"""What is said of an evaluation."""
MOST_CHANGES, MOST_FAILING, MOST_STEPS = 2, 3, 3
FEW = 10
"""So many evaluations are told with all their lines; of more, those that passed get one."""

FORECAST_TOTALS = ("tokens", "cost_usd", "seconds", "models")
"""What the second table of --dry-run shows by model."""


def evaluate(
    client: Annotated[list[str] | None, typer.Option(help="The client to evaluate; repeat for several.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Evaluate every client in the store.")] = False,
    dataset: Annotated[
        list[int] | None,
        typer.Option(
            parser=dataset_number, metavar="NUMBER", help="Dataset by number; repeat for several; default: all."
        ),
    ] = None,
    system: Annotated[list[str] | None, typer.Option(help="dense, bm25, hybrid, or a system of rageval.toml.")] = None,
    k: Annotated[int | None, typer.Option(min=1, max=1000, help="The metrics' cutoff.")] = None,
    sample_size: Annotated[int | None, typer.Option(min=1, help="Number of questions in a generated dataset.")] = None,
    strategy: Annotated[str | None, typer.Option(help="random, diverse or recent.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what a run would do, and do nothing.")] = False,
    gated: Annotated[
        bool,
        typer.Option("--gate", help="Exit with 1 if a metric of the gate regressed, with 3 if that is unclear."),
    ] = False,
    junit: Annotated[
        Path | None, typer.Option(help="With --gate: write the gate's findings to this file, as JUnit XML.")
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="Score recorded answers again, without contexts, model or history.")
    ] = False,
    resume: Annotated[
        int | None,
        typer.Option(
            metavar="RUN",
            help="Continue the unfinished run with this number, with the settings from when it was requested.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per evaluation.")] = False,
) -> None:
    """Evaluates a client: scan, benchmark if due, retrieval, answers, scores, history."""
    from rageval_dagster.app import evaluate as app
    from rageval_dagster.telling.alarms import failed_metrics, failed_questions, leak, unknown_chunks

    if junit is not None and not (gated and junit.absolute().parent.is_dir()):
        raise RagevalError("--junit goes with --gate, and names a file in a folder that there is")
    if fast and (dry_run or gated or sample_size is not None or strategy is not None):
        raise RagevalError("--fast scores what is recorded: it goes with --dataset, --system and --k only")
    plan = app.Plan(dataset or [], system or [], k or 0, sample_size or 0, strategy or "")
    if resume is not None and (plan != app.Plan() or every or client or dry_run or fast):
        raise RagevalError("--resume goes on with what was asked for: it goes with --gate, --junit and --json only")
    if resume is None and every == bool(client):
        raise RagevalError("name a client with --client NAME, or take --all of them")
    settings, db = open_all()
    clients = list(dict.fromkeys(client or ()))
    if fast:
        _print_rescored(*app.rescore(settings, db, clients, plan, say), as_json)
        return
    if dry_run:
        rows, failed = app.forecasts(settings, db, clients, plan, say)
        print_forecasts(rows, as_json)
        if failed:
            raise typer.Exit(DONE_IN_PART)
        return
    if resume is not None:
        run = app.unfinished(settings, db, resume)
        settings, done = run.settings, app.resume(db, run, say)
    else:
        done = app.evaluate_clients(settings, db, clients, plan, say)
    if as_json:
        print_json_lines(app.evaluation_json(settings, each) for each in done.found)
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
        say(f"{plural(len(done.failed), 'client')} of {done.chosen} failed")
    verdict = say_gate(settings, db, [each.judged for each in done.found], done.failed, junit) if gated else 0
    if any(leaking) or verdict == GATE_FAILED:
        raise typer.Exit(GATE_FAILED)
    if len(done.failed) == done.chosen or done.answered_nothing:
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
        if any(row["new dataset"] != "no" and not row["generator calls"] for row in rows if "new dataset" in row):
            print("\nWithout a model, the documents may give fewer questions.")
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
    """At most MOST_LINES of each evaluation: verdict, headline metrics, what changed, what to do, where the report is.

    Of many that passed a line each. Warnings, and what models were asked, go to standard error.
    """
    from rageval_dagster.llm.endpoints import same_model_warning
    from rageval_dagster.telling.links import report_path
    from rageval_dagster.telling.words import STAND_IN

    if not found:
        print("nothing was evaluated")
    clients = {
        each.report.evaluation.client_id: settings.for_client(each.report.evaluation.client_id) for each in found
    }
    for each in found:
        lines = evaluation_lines(clients[each.report.evaluation.client_id], db, each)
        if len(found) > FEW and each.judged.judgement.verdict == "passed" and not each.leaked:
            lines = [f"{lines[0]}: passed"]
        if each is not found[0] and len(lines) > 1:
            print()
        print("\n".join(lines))
    stands_in = [name for name, own in clients.items() if own.answer_model is None]
    if any(each.report.evaluation.system_reference and each.report.evaluation.client_id in stands_in for each in found):
        print(STAND_IN)
    for name, own in clients.items():
        if (path := report_path(own.report_dir, name)).exists():
            print(f"Report: {path}")
    warnings = _language_warnings(settings, [each.report for each in found])
    warnings += filter(None, map(same_model_warning, clients.values()))
    for warning in dict.fromkeys(warnings):
        say(f"warning: {warning}")
    for client_id, usage in spent.items():
        say(f"{client_id}: {usage.described()}")


def evaluation_lines(own: Settings, db: "Database", found: "Found", shown: bool = False) -> list[str]:
    """What came of an evaluation, one idea a line, with that of its report no more than MOST_LINES.

    Args:
        own: the client's settings.
        found: as `look_at` gives it of an evaluation that was just made.
        shown: whether `runs show` shows the rest, so that nobody needs to be sent there.
    """
    from rageval_dagster.gate.causes import UNRETURNED, documents_told
    from rageval_dagster.telling.alarms import leak_alarm
    from rageval_dagster.telling.verdicts import in_short, newly_turned, resolution, verdict_of

    report, evaluation, judged, judgement = found.report, found.report.evaluation, found.judged, found.judged.judgement
    verdict = verdict_of(db, judged, own.max_error_share)
    reference = " (built-in reference)" if evaluation.system_reference else ""
    name = f"{evaluation.client_id} / {evaluation.dataset_name} / {evaluation.system}{reference}"
    lines = [f"{name}, run {evaluation.id}, {plural(evaluation.item_count, 'question')}"]
    alarm = leak_alarm(db, evaluation)
    if alarm is not None:
        lines.append(alarm.sentence)
    is_compared = judgement.verdict != "first" and judgement.baseline_id is not None
    tells_changes = is_compared and not evaluation.answered_nothing
    lines.append(in_short(verdict, report.headline()))
    if found.recovered_from is not None and alarm is None:
        before = "was unclear" if found.recovered_from == "unclear" else found.recovered_from
        lines.append(f"Well again: the run before {before}.")
    names = documents_told(db, evaluation, judgement.changes) if tells_changes else {}
    if tells_changes:
        lines += _lost(verdict, judgement, names)
    lines += _figures(own, found)
    if tells_changes:
        lines += _changes(judgement)
    after_changes = len(lines)
    if found.reused:
        lines.append(_reused(found.reused, evaluation))
    failing = judgement.newly_failing if alarm is None else ()
    told_before = verdict.scores == "same" and (verdict.shows_large_drops_only or not verdict.can_prove)
    if verdict.scores in ("first", "same", "better") and not failing and not told_before:
        known = [row.smallest_drop for row in judged.gated]
        drops = [found.visible_drop] if verdict.scores == "first" else known
        seen = None if None in drops else max(filter(None, drops), default=None)
        lines.append(f"{resolution(seen, evaluation.item_count)}.")
    read = f"rageval runs show {evaluation.id}"
    steps = [f"Next: {step}" for step in _next_steps(own, found, verdict, read) if not (shown and read in step)]
    unreturned = [change for change in judgement.changes if change.what in UNRETURNED] if tells_changes else []
    # With the line of the report, and before it a failing question: that says more than names of documents.
    if len(lines) + len(steps) + (2 if failing else 0) + 2 <= MOST_LINES:
        lines[after_changes:after_changes] = _such_as(unreturned, names)
    if failing:
        told = newly_turned(judgement)
        examples = failing[: max(0, min(MOST_FAILING, MOST_LINES - 2 - len(lines) - len(steps)))]
        rest = f" (and {len(failing) - len(examples)} more)" if len(failing) > len(examples) else ""
        asked = [f"  {found.failing.get(each, each)}" for each in examples]
        asked[:-1] = [fitting(question) for question in asked[:-1]]
        asked[-1:] = [fitting(question, WIDTH - len(rest)) + rest for question in asked[-1:]]
        lines += [f"{told}{':' if examples else '.'}", *asked]
    return [cell(line) for line in [*lines, *steps]]


def _figures(own: Settings, found: "Found") -> Iterator[str]:
    """The headline metrics: the mean, then its change against the baseline, or where there is none its interval."""
    from rageval_dagster.evaluation.verdict import good_value, is_below
    from rageval_dagster.gate.spec import GateSpec
    from rageval_dagster.telling.verdicts import headline_metrics
    from rageval_dagster.telling.words import metric_name, number, signed

    report, judged, k = found.report, found.judged, found.report.evaluation.k
    compared = {row.metric_id: row for row in judged.comparisons}
    gated = GateSpec.from_settings(own).gated(report.summaries, k, report.level)
    lines = []
    for summary in headline_metrics(
        report.summaries, [*(row.metric_id for row in judged.regressed), *gated, *own.thresholds], k
    ):
        row, good, remark = compared.get(summary.metric_id), good_value(summary, own.thresholds), ""
        if row is None or row.difference is None:
            moved = f"(95 %: {number(summary.ci_low)} to {number(summary.ci_high)})"
        elif not round(row.difference, 6) or row.ci_low is None or row.ci_high is None:
            moved = "unchanged"
        else:
            moved = f"{signed(row.difference)} (95 %: {signed(row.ci_low)} to {signed(row.ci_high)})"
            remark = "better" if row.better else row.decision if row.decision != "passed" else ""
        scored = max(summary.n_scored, found.scored_before.get(summary.metric_id, 0))
        if row is not None and row.difference is not None and row.n_shared < scored:
            # The mean before it is of all questions.
            both = plural(row.n_shared, "question")
            if row.n_shared < summary.n_scored:
                both = f"{row.n_shared} of {plural(summary.n_scored, 'question')}"
            moved += f" on {both} (those scored both times)"
        if is_below(summary, good, summary.ci_high if summary.higher_is_better else summary.ci_low):
            remark = remark or f"good {'from' if summary.higher_is_better else 'up to'} {number(good)}"
        moved = moved.replace("−", "-")  # which every terminal has
        lines.append((f"  {metric_name(summary.metric_id)}", number(summary.mean), moved, remark))
    return aligned(lines, (False, True, False, False))


def _lost(verdict: "Verdict", judgement: "Judgement", names: Mapping[str, str]) -> list[str]:
    """That documents are gone, unless the verdict said so before, with some of their names."""
    from rageval_dagster.gate.causes import gone_in
    from rageval_dagster.telling.words import capitalised

    gone = gone_in(judgement.changes)
    if gone is None:
        return []
    lines = [] if verdict.begins_with_gone else [f"{capitalised(gone.detail)}."]
    return [*lines, *_such_as([gone], names)]


def _such_as(changes: Iterable["Change"], names: Mapping[str, str]) -> list[str]:
    """The names of the first documents that changes are about."""
    from rageval_dagster.gate.causes import MOST_DOCUMENTS
    from rageval_dagster.telling.words import one_line

    said = [one_line(names[document_id]) for change in changes for document_id in change.documents]
    return [f"Such as: {', '.join(said[:MOST_DOCUMENTS])}."] if said else []


def _changes(judgement: "Judgement") -> list[str]:
    """A line for each thing that changed; of many one line that names them."""
    from rageval_dagster.gate.causes import gone_in
    from rageval_dagster.telling.verdicts import told_as_changes, what_changed
    from rageval_dagster.telling.words import VERSIONS, capitalised

    changes = told_as_changes(judgement.changes)
    since = next((change.since for change in changes if change.since not in (None, judgement.baseline_id)), None)
    said = what_changed(changes, worse=True)
    if not changes and gone_in(judgement.changes) is None:
        said = ["nothing that has a version changed"]
    if len(said) > MOST_CHANGES:
        said = [f"changed: {named([VERSIONS.get(change.what, change.what) for change in changes])}"]
    said = said if since is None else [f"since run {since} {each}" for each in said]
    return [f"{capitalised(each)}." for each in said]


def _reused(count: int, evaluation: "Evaluation") -> str:
    """How many answers are of earlier runs: a system that changed without another version is not seen in them."""
    if evaluation.system_reference:
        why = "what they rest on is the same"
    elif evaluation.of_recorded_answers:
        why = "the recorded answers are the same"
    else:
        why = f"the system's version is the same, {fitting(evaluation.system_declared or '', 20)}"
    return f"{count} of {plural(evaluation.item_count, 'answer')} are of earlier runs, as {why}."


def _next_steps(own: Settings, found: "Found", verdict: "Verdict", read: str) -> list[str]:
    """What to do, most urgent first: one thing, of a first run up to MOST_STEPS; `read` is the command to read more."""
    from rageval_dagster.telling.verdicts import what_settles

    evaluation, judgement, run = found.report.evaluation, found.judged.judgement, found.report.evaluation.id
    worst = f"read the questions that went worst: {read}"
    if evaluation.foreign_chunks:
        return [f"see what was returned: {read}"]
    if verdict.failed:
        return [f"see why the system failed, and fix it: {read}"]
    if worse := verdict.worse_answers:
        compared = f"read the answers: rageval runs compare {judgement.baseline_id} {run} --all"
        return [compared, f"to let the answers decide, add {worse[0].metric_id} to the gate in rageval.toml"]
    match verdict.scores:
        case "worse":
            return [f"rageval runs compare {judgement.baseline_id} {run} (both answers), or rageval runs accept {run}"]
        case "unclear":
            return [what_settles(verdict)]
        case "better":
            return [f"hold later runs against this one: rageval runs accept {run}"]
        case "unmeasured":
            return [f"say what is right: give questions answers or evidence; the other metrics: {read} --all"]
        case _:
            steps: list[str] = []
    if found.lost:
        lost = plural(found.lost, "question")
        steps.append(f"{lost} whose evidence the documents do not hold: rageval datasets show {evaluation.dataset_id}")
    generate = f"rageval datasets generate --client {shlex.quote(evaluation.client_id)} --sample-size N"
    why_few = "more questions: add documents, use a model, or import questions; why there are few: "
    why_few += f"rageval datasets show {evaluation.dataset_id}"
    more = f"more questions, about other documents: {generate}"
    if found.shortage or found.exhausted:
        more = why_few
    elif found.imported:
        more = "import more questions, about other documents"
    if verdict.scores != "first":
        return steps or [worst if verdict.can_prove else more]
    if evaluation.system_reference:
        steps.append("name your own system in rageval.toml (docs/your-rag-system.md)")
    elif evaluation.system_declared is None:
        steps.append("declare the system's version, so that unchanged answers are reused")
    if found.visible_drop is None or found.visible_drop > own.gate_effect:
        steps.append(more)
    if own.judge_model is None and own.llm != "forbidden":
        steps.append("name a judge model (docs/your-language-model.md) to measure faithfulness")
    return [*steps[: MOST_STEPS - 1], worst]


def _language_warnings(settings: Settings, reports: "Sequence[EvaluationReport]") -> list[str]:
    """Each once, whatever the number of datasets and systems."""
    from rageval_dagster.languages import language_warnings

    found: list[str] = []
    for report in reports:
        own = settings.for_client(report.evaluation.client_id)
        retrieval = [own.embedding_model] if report.evaluation.system_reference else []
        found += language_warnings([*retrieval, own.metric_embedding_model], report.languages)
    return list(dict.fromkeys(found))
