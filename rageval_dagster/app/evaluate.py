"""Evaluating clients: by a run of the evaluation job each, by recorded answers only, or a forecast of what it takes."""

import shlex
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from rageval_dagster.app.clients import chosen_clients
from rageval_dagster.app.opening import Tell, open_all, untold
from rageval_dagster.benchmark.coverage import LACKS
from rageval_dagster.benchmark.due import BenchmarkSpec, specs_of
from rageval_dagster.benchmark.renewal import shortage
from rageval_dagster.corpus.store import open_store
from rageval_dagster.errors import InterruptedRunError, RagevalError, SettingsError, StoreError
from rageval_dagster.evaluation.forecast import forecast
from rageval_dagster.evaluation.leaks import Stray, stray_chunks, words_of
from rageval_dagster.evaluation.request import check_metrics, check_systems
from rageval_dagster.evaluation.summary import EvaluationReport, failures, is_by_model, metric_failures, reports_of
from rageval_dagster.evaluation.verdict import completeness, error_share, thresholds, with_too_many_errors
from rageval_dagster.gate.baselines import accept
from rageval_dagster.gate.decision import Judged, judged_before, visible_drop
from rageval_dagster.gate.spec import GateSpec
from rageval_dagster.labels.estimates import Estimate, estimates_of
from rageval_dagster.rag.external import check_access
from rageval_dagster.rag.systems import check_system_name
from rageval_dagster.recorded.fast import FastReport, evaluate_fast
from rageval_dagster.records import Summary
from rageval_dagster.settings import Settings
from rageval_dagster.storage.benchmark import current_datasets, get_dataset, remaining_items
from rageval_dagster.storage.caches import Usage, model_usage
from rageval_dagster.storage.clients import list_clients
from rageval_dagster.storage.comparisons import Trouble, trouble_before
from rageval_dagster.storage.database import Database
from rageval_dagster.storage.evaluations import Evaluation, evaluations_of_trigger, get_evaluation
from rageval_dagster.storage.incidents import open_incidents
from rageval_dagster.storage.results import answers_before
from rageval_dagster.storage.run_requests import freeze, requested
from rageval_dagster.storage.scores import load_summaries
from rageval_dagster.telling.calibration import calibration_json

if TYPE_CHECKING:
    from rageval_dagster.automation.launch import Launched


@dataclass(frozen=True)
class Plan:
    """What a run is asked to do, as the resource `EvaluationPlan` takes it; what is empty is as the settings say."""

    dataset_ids: list[int] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)
    k: int = 0
    sample_size: int = 0
    strategy: str = ""
    styles: list[str] = field(default_factory=list)
    dataset_name: str = ""
    renew: bool = False


@dataclass(frozen=True)
class Unfinished:
    """A run to go on with: whose it is, what it was asked to do and by which trigger, and with which settings."""

    client_id: str
    trigger: str
    plan: Plan
    settings: Settings


@dataclass(frozen=True)
class Found:
    """An evaluation with all that people are told of it.

    `estimates` are what labels make of its metrics, by metric id. `failing` are the questions that newly fail by their
    ids, as far as their texts are kept. `visible_drop` is what `gate.judging.visible_drop` gives of a first run that
    was just made. `failures` counts the questions that the system failed on by reason, `metric_failures` those that
    only a metric failed on; `too_many` names the metrics among these with more errors than the client allows. `flagged`
    are the dataset's questions that break a rule or lack evidence, of which `lost` have evidence that stands nowhere in
    the documents. `shortage` is why a generated dataset has fewer questions than it was to have; others are `imported`.
    `exhausted` is whether every passage was tried.
    `scored_before` is how many questions the baseline scored, by metric id. `reused` is how many answers are of earlier
    runs; None where that is not asked. `recovered_from` is what was wrong with the run before, where this one passes.
    """

    report: EvaluationReport
    judged: Judged
    estimates: Mapping[str, Estimate]
    failing: Mapping[str, str]
    visible_drop: float | None
    failures: Counter[str]
    metric_failures: Mapping[str, Counter[str]]
    too_many: Sequence[str]
    leaked: Sequence[Stray]
    lost: int
    flagged: int
    shortage: str | None
    exhausted: bool
    imported: bool
    scored_before: Mapping[str, int]
    reused: int | None
    recovered_from: Trouble | None


@dataclass(frozen=True)
class Evaluated:
    """What came of evaluating some clients.

    `failed` are those of the `chosen` clients that could not be evaluated. `left_out` is whether the store has what is
    no client. `spent` is what each client's models took, where any was asked.
    """

    found: Sequence[Found]
    chosen: int
    failed: Sequence[str]
    left_out: bool
    spent: Mapping[str, Usage]

    @property
    def answered_nothing(self) -> bool:
        """Whether the systems failed on every question of every evaluation."""
        return bool(self.found) and all(each.report.evaluation.answered_nothing for each in self.found)


def evaluate_clients(
    settings: Settings, db: Database, clients: Sequence[str], plan: Plan, tell: Tell = untold
) -> Evaluated:
    """Evaluates clients, or (without any) all in the store: a run of the evaluation job each, which shows up in the UI.

    Each call asks for new runs, with the settings given, whatever becomes of rageval.toml while they wait or work. Of
    several clients one that fails is told, and the others go on.

    Raises:
        RagevalError: the plan or the settings cannot be used, or the only client's run failed: at which step and why,
            and how to go on with it.
    """
    chosen, usable, left_out = _choose(settings, db, clients, plan, True, tell)
    trigger = f"command:{uuid.uuid4()}"
    freeze(db, settings, dict.fromkeys(usable, trigger), asdict(plan))
    reports: list[EvaluationReport] = []
    failed = [client_id for client_id in chosen if client_id not in usable]
    for client_id in usable:
        try:
            reports += _run(settings, db, client_id, trigger, plan, tell)
        except InterruptedRunError:
            raise
        except RagevalError as error:
            if len(chosen) == 1:
                raise
            failed.append(client_id)
            tell(f"{client_id}: {str(error).removeprefix(f'{client_id}: ')}")
    found = [look_at(settings, db, report, just_made=True) for report in reports]
    return Evaluated(found, len(chosen), failed, left_out, _spent(db, reports))


def evaluate(
    client: str,
    *,
    datasets: Sequence[int] = (),
    systems: Sequence[str] = (),
    k: int | None = None,
    sample_size: int | None = None,
    strategy: str | None = None,
) -> list[dict[str, Any]]:
    """Evaluates a client as `rageval evaluate --client` does, by the same settings, and gives what `--json` prints.

    Args:
        datasets: by number; none: all of the client.
        systems: by name; none: those of the settings.
        k: the metrics' cutoff, from 1.
        sample_size: questions in a generated dataset, from 1.
        strategy: random, diverse or recent.

    Raises:
        RagevalError: the settings or what is asked for cannot be used, or the run failed: at which step and why.
    """
    settings, db = open_all()
    plan = Plan(list(datasets), list(systems), k or 0, sample_size or 0, strategy or "")
    return [evaluation_json(settings, each) for each in evaluate_clients(settings, db, [client], plan).found]


def unfinished(settings: Settings, db: Database, run_id: int) -> Unfinished:
    """The run to which an unfinished evaluation belongs, by the evaluation's number.

    Raises:
        RagevalError: it cannot be gone on with: why, and what to do.
    """
    evaluation = get_evaluation(db, run_id)
    client_id, trigger = evaluation.client_id, evaluation.trigger
    anew = f"start again: rageval evaluate --client {shlex.quote(client_id)}"
    if not evaluation.unfinished and evaluation.status == "complete":
        raise RagevalError(f"run {run_id} is complete: rageval runs show {run_id}")
    if evaluation.status == "failed":
        why = "a later one is complete, or its questions were renewed"
        raise RagevalError(f"run {run_id} was abandoned: {why}; {anew}")
    kept = requested(db, settings, client_id, trigger)
    if kept is None:
        raise RagevalError(f"what run {run_id} was asked for is no longer kept; {anew}")
    own, plan = kept
    # Of each name the newest: a run may have renewed its questions on the way.
    asked = {each.dataset_name: each.dataset_id for each in evaluations_of_trigger(db, client_id, trigger)}
    renewed = set(asked.values()) - {each.id for each in current_datasets(db, client_id)}
    if renewed and not plan.get("dataset_ids"):
        raise RagevalError(f"the questions of run {run_id} have since been renewed; {anew}")
    known = {each.name for each in fields(Plan)}
    return Unfinished(client_id, trigger, Plan(**{name: each for name, each in plan.items() if name in known}), own)


def resume(db: Database, run: Unfinished, tell: Tell = untold) -> Evaluated:
    """Goes on with a run, as `evaluate_clients` began it.

    Raises:
        RagevalError: as `evaluate_clients`.
    """
    _choose(run.settings, db, [run.client_id], run.plan, True, tell)
    reports = _run(run.settings, db, run.client_id, run.trigger, run.plan, tell)
    found = [look_at(run.settings, db, report, just_made=True) for report in reports]
    return Evaluated(found, 1, [], False, _spent(db, reports))


def forecasts(
    settings: Settings, db: Database, clients: Sequence[str], plan: Plan, tell: Tell = untold
) -> tuple[list[dict[str, Any]], int]:
    """What a run would do at the most, a row a client, and how many clients have settings that cannot be used.

    Nothing is scanned or asked.

    Raises:
        RagevalError: the plan or the settings cannot be used.
    """
    chosen, usable, _ = _choose(settings, db, clients, plan, False, tell)
    store = open_store(settings)
    asked = plan.dataset_ids, plan.systems, plan.k, plan.sample_size, plan.strategy
    rows = [forecast(db, settings.for_client(each), each, store.probe(each), *asked) for each in usable]
    return rows, len(chosen) - len(usable)


def rescore(
    settings: Settings, db: Database, clients: Sequence[str], plan: Plan, tell: Tell = untold
) -> tuple[list[FastReport], int]:
    """Scores recorded answers of clients, or (without any) of all that the history knows; and how many clients failed.

    Nothing is written.

    Raises:
        RagevalError: of the only client nothing is recorded, or the plan or its settings cannot be used.
    """
    reports: list[FastReport] = []
    failed = 0
    for client_id in clients or [known.client_id for known in list_clients(db)]:
        try:
            own = settings.for_client(client_id)
            reports += evaluate_fast(db, own, client_id, plan.dataset_ids, plan.systems, plan.k or None)
        except RagevalError as error:
            if len(clients) == 1:
                raise
            failed += 1
            tell(f"{client_id}: {error}")
    return reports, failed


def accept_run(settings: Settings, db: Database, run_id: int, by: str, tell: Tell = untold) -> Evaluation:
    """Makes a run the baseline, see `gate.baselines.accept`, and ends the alerts that it ends; gives the evaluation."""
    evaluation = get_evaluation(db, run_id)
    accept(db, evaluation, by)
    if open_incidents(db, [evaluation.client_id]):
        from rageval_dagster.automation.alerts import after_acceptance

        if trouble := after_acceptance(db, settings, evaluation.client_id):
            tell(trouble)
    return evaluation


def look_at(settings: Settings, db: Database, report: EvaluationReport, just_made: bool = False) -> Found:
    """What there is to tell of an evaluation; of one `just_made` also what later ones could show beside it."""
    evaluation = report.evaluation
    own = settings.for_client_or_default(evaluation.client_id)
    judged = judged_before(db, evaluation)
    baseline_id = judged.judgement.baseline_id
    before = [] if baseline_id is None else load_summaries(db, baseline_id)
    first = just_made and judged.judgement.verdict == "first"
    by_metric = metric_failures(db, report)
    too_many = with_too_many_errors(report, own.max_error_share)
    dataset = get_dataset(db, evaluation.dataset_id)
    flagged = dataset.flagged
    recovered = trouble_before(db, evaluation) if judged.judgement.verdict == "passed" else None
    failing = set(judged.judgement.newly_failing)
    items = remaining_items(db, evaluation.dataset_id) if failing else []
    return Found(
        report=report,
        judged=judged,
        estimates=estimates_of(db, [evaluation])[evaluation.id],
        failing={item.item_id: item.question for item in items if item.item_id in failing},
        visible_drop=visible_drop(db, evaluation, GateSpec.from_settings(own)) if first else None,
        failures=failures(db, evaluation),
        metric_failures=by_metric,
        too_many=[name for name in by_metric if name in too_many],
        leaked=stray_chunks(db, [evaluation], "foreign", lambda: _clients_of_store(settings)),
        scored_before={each.metric_id: each.n_scored for each in before},
        lost=sum(not LACKS.isdisjoint(reasons) for reasons in flagged.values()),
        flagged=len(flagged),
        shortage=shortage(db, dataset),
        exhausted=dataset.stats.get("passages_left") == 0,
        imported=dataset.kind == "imported",
        reused=answers_before(db, evaluation) if just_made else None,
        recovered_from=recovered,
    )


def _clients_of_store(settings: Settings) -> set[str]:
    """Those that the document store knows; none where it cannot be read."""
    with suppress(StoreError, SettingsError):
        return set(open_store(settings).clients())
    return set()


def evaluation_json(settings: Settings, found: Found) -> dict[str, Any]:
    """The shape that `--json` prints for one evaluation."""
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
        "metrics": {
            metric_id: summary_json(summary) | _corrected_json(metric_id, found.estimates)
            for metric_id, summary in sorted(report.summaries.items())
        },
        "gate": _gate_json(found.judged),
        "checks": [
            {"name": "complete", "passed": complete.passed, **complete.metadata},
            {"name": "few_errors", "passed": errors.passed, **errors.metadata},
            {"name": "good_values", "passed": good.passed, **good.metadata},
            {
                "name": "no_foreign_chunks",
                "passed": not found.leaked,
                "chunk_ids": sorted({stray.chunk_id for stray in found.leaked}),
                "question_ids": sorted({stray.item_id for stray in found.leaked}),
                "words_of": words_of(found.leaked),
            },
            {"name": "no_unknown_chunks", "passed": not evaluation.unknown_chunks, "chunks": evaluation.unknown_chunks},
        ],
    }


def summary_json(summary: Summary) -> dict[str, Any]:
    """Mean with interval and counts of a metric, as `--json` prints them."""
    names = ("mean", "ci_low", "ci_high", "n", "n_scored", "n_undefined", "n_error")
    return {name: getattr(summary, name) for name in names}


def _corrected_json(metric_id: str, estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    """What labels make of a metric: of one that needs no judge nothing, unless it has labels; null: not calibrated."""
    if metric_id in estimates:
        return {"corrected": calibration_json(estimates[metric_id])}
    return {"corrected": None} if is_by_model(metric_id) else {}


def _gate_json(judged: Judged) -> dict[str, Any]:
    """What `--json` prints of the gate."""
    return {
        "verdict": judged.judgement.verdict,
        "baseline_run": judged.judgement.baseline_id,
        "changes": [asdict(change) for change in judged.judgement.changes],
        "newly_failing": list(judged.judgement.newly_failing),
        "newly_passing": list(judged.judgement.newly_passing),
        "asked_again": judged.judgement.asked_again,
        "metrics": [asdict(row) for row in judged.gated],
    }


def run_job(settings: Settings, client_id: str, trigger: str, plan: Plan, tell: Tell, job: str) -> "Launched":
    """Runs a Dagster job for a client, telling its steps, and why people could not be told of what came of it."""
    from rageval_dagster.automation.launch import launch
    from rageval_dagster.definitions import defs

    launched = launch(defs, settings, client_id, trigger, asdict(plan), lambda step: tell(f"  {step}"), job)
    if launched.untold is not None:
        tell(f"{client_id}: {launched.untold}")
    return launched


def _choose(
    settings: Settings, db: Database, named: Sequence[str], plan: Plan, asking: bool, tell: Tell
) -> tuple[list[str], list[str], bool]:
    """The clients that were chosen, those whose settings can be used, and whether the store has what is no client.

    Args:
        asking: whether the systems will be asked, so that what guards them must be at hand.
    """
    from rageval_dagster.automation.schedules import checked_cron

    checked_cron(settings)
    if len(named) == 1:  # before the document store is read, which may take long
        _check_settings(settings, db, named[0], plan, asking)
    chosen = chosen_clients(settings, db, named, tell)
    refused = [] if named else open_store(settings).refused()
    for _, reason in refused:
        tell(f"left out: {reason}")
    usable: list[str] = []
    for client_id in chosen:
        try:
            if len(named) != 1:
                _check_settings(settings, db, client_id, plan, asking)
            usable.append(client_id)
        except SettingsError as error:
            if client_id == chosen[-1] and not usable:
                raise
            tell(f"{client_id}: {error}")
    _check_plan(settings, db, usable, plan)
    return list(chosen), usable, bool(refused)


def _check_settings(settings: Settings, db: Database, client_id: str, plan: Plan, asking: bool) -> None:
    """Refuses a client whose metrics, or whose systems where they are asked, cannot be used."""
    own = settings.for_client(client_id)
    check_systems(db, own, client_id, plan.systems)
    check_metrics(own, plan.k or own.k)
    for name in (plan.systems or own.system) if asking else ():
        check_access(name, own, client_id)


def _check_plan(settings: Settings, db: Database, client_ids: Sequence[str], plan: Plan) -> None:
    """Refuses a wrong dataset, system, size or strategy before anything runs."""
    spec = BenchmarkSpec.from_settings(settings, size=plan.sample_size, strategy=plan.strategy)
    if plan.dataset_ids and (plan.sample_size or plan.strategy):
        raise RagevalError("--dataset evaluates a dataset as it is: it takes no --sample-size or --strategy")
    for client_id in client_ids:
        specs_of(db, client_id, spec)
    for name in plan.systems:
        for client_id in client_ids:
            check_system_name(name, settings.for_client(client_id))
    for dataset_id in plan.dataset_ids:
        owner = get_dataset(db, dataset_id).client_id
        if client_ids != [owner]:
            raise RagevalError(f"dataset {dataset_id} belongs to client {owner!r}: name it with --client")


def _run(
    settings: Settings, db: Database, client_id: str, trigger: str, plan: Plan, tell: Tell
) -> list[EvaluationReport]:
    """Runs the job for one client and gives its reports; where it fails, it says how to go on with it."""
    from rageval_dagster.automation.jobs import EVALUATION_JOB

    tell(f"{client_id}: evaluating")
    launched = run_job(settings, client_id, trigger, plan, tell, EVALUATION_JOB)
    if launched.failure is not None:
        opened = [each for each in evaluations_of_trigger(db, client_id, trigger) if each.unfinished]
        how = f"; once that is mended, continue it: rageval evaluate --resume {opened[-1].id}" if opened else ""
        kind = InterruptedRunError if launched.interrupted else RagevalError
        raise kind(f"{client_id}: {launched.failure}{how}")
    return reports_of(db, client_id, trigger)


def _spent(db: Database, reports: Sequence[EvaluationReport]) -> dict[str, Usage]:
    """What each client's model calls took in the runs of these reports, without clients that asked no model."""
    runs = {(report.evaluation.client_id, report.evaluation.dagster_run_id) for report in reports}
    spent = {
        client_id: sum((model_usage(db, *run) for run in runs if run[0] == client_id and run[1]), Usage())
        for client_id in sorted({client_id for client_id, _ in runs})
    }
    return {client_id: usage for client_id, usage in spent.items() if usage.requests}
