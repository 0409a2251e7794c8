"""History assets: one row per evaluation with its summaries, and the SQL views that people and charts read."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from rageval_dagster.assets.checks import CHECKS, evaluation_results
from rageval_dagster.assets.evaluation import metric_scores
from rageval_dagster.assets.evaluation_checks import Newest
from rageval_dagster.assets.partitions import OWNERS
from rageval_dagster.assets.step import SCHEMA, Metadata, Step, client_asset, view_schema
from rageval_dagster.resources import (
    DocumentStore,
    EvaluationPlan,
    HistoryDatabase,
    Judging,
    RagSystems,
    RunSettings,
)
from rageval_dagster.resources.textless import without_texts
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.database import Database

SCHEDULE_NAME_TAG, SENSOR_NAME_TAG = "dagster/schedule_name", "dagster/sensor_name"
VERDICT_TAG = "rageval/verdict"
"""What became of a run, in the list of runs and for its filter."""

VIEW_DESCRIPTIONS = {
    "metric_history": "Every metric of every finished evaluation, with interval and counts.",
    "metric_trend": "Each metric over a client's last runs, with moving average and change.",
    "latest_per_client": "The newest finished evaluation of each client, dataset and system.",
    "evaluation_history": "Every finished evaluation with its numbers in one row: retrieval and faithfulness.",
    "leaderboard": "The systems of each client's dataset side by side, by every metric, best first.",
    "run_against_baseline": "Each evaluation against its baseline: every metric on shared questions, and the verdict.",
    "run_against_previous": "Each evaluation beside the one before it: what changed, and by how much.",
    "hardest_questions": "The questions that score worst, by id.",
    "hard_for_every_system": "The questions that no system finds at once, by id, hardest first.",
    "category_breakdown": "The headline metrics of each category of questions, with their number.",
    "dataset_overview": "The datasets of each client, with size, validity and use.",
    "fleet_overview": "All clients in one table, worst first.",
}


# Without the table's columns: on the asset's page they would stand before the verdict.
@client_asset("history", None, deps=[metric_scores], pool="llm", check_specs=[each.spec for each in CHECKS])
def evaluation_runs(
    step: Step,
    store: DocumentStore,
    plan: EvaluationPlan,
    judging: Judging,
    systems: RagSystems,
    settings: RunSettings,
) -> Iterator[dg.MaterializeResult]:
    """Each client's verdict, with its numbers and its last runs as pictures. Choose a client under Partitions."""
    from rageval_dagster.evaluation.changes import note_evaluated
    from rageval_dagster.evaluation.request import undefined_systems
    from rageval_dagster.evaluation.stages import evaluations_of
    from rageval_dagster.evaluation.summary import finish
    from rageval_dagster.gate.asking_again import ask_again
    from rageval_dagster.gate.decision import GateContext, judge_all
    from rageval_dagster.gate.spec import GateSpec
    from rageval_dagster.labels.estimates import keep_estimates
    from rageval_dagster.storage.clients import set_systems
    from rageval_dagster.telling.links import ReportLinks
    from rageval_dagster.telling.run_page import run_metadata, verdict_tag
    from rageval_dagster.telling.verdicts import verdict_of

    db, client_id, run_id = step.db, step.client_id, step.run_id
    own = settings.read()
    reports = [
        finish(db, evaluation, judging.metrics(client_id, evaluation.k))
        for evaluation in evaluations_of(db, plan.request(client_id))
    ]
    # Before the verdicts: a run that was killed after them is not done again. One that was told to do without the
    # client's own system does not replace it.
    if not undefined_systems(db, own, client_id):
        set_systems(db, client_id, own.system)
    load = systems.loader(client_id, run_id, afresh=True)
    gate = GateContext(
        spec=GateSpec.from_settings(own),
        metrics_of=lambda evaluation: judging.metrics(client_id, evaluation.k),
        tools=lambda: judging.tools(client_id, run_id),
        ask_again=lambda evaluation, items, metric_ids: ask_again(
            db,
            store.open(),
            load(evaluation.system),
            evaluation,
            items,
            [metric for metric in judging.metrics(client_id, evaluation.k) if metric.id in metric_ids],
            judging.tools(client_id, run_id, afresh=True),
        ),
        recorded=own.for_client(client_id).recorded,
        tools_afresh=lambda: judging.tools(client_id, run_id, afresh=True),
        progress=step.progress,
        warn=step.context.log.warning,
    )
    verdicts = [verdict_of(db, each, gate.spec.max_error_share) for each in judge_all(db, reports, gate)]
    step.context.instance.add_run_tags(run_id, {VERDICT_TAG: verdict_tag(verdicts)})
    estimates = keep_estimates(db, [report.evaluation for report in reports])
    links = ReportLinks(own.report_base_url)
    metadata = run_metadata(db, reports, verdicts, links, gate.spec, own.thresholds, estimates)
    yield dg.MaterializeResult(
        metadata={label: _shown(value) for label, value in metadata.items()},
        check_results=evaluation_results(Newest(db, client_id, own.for_client(client_id))),
    )
    # Once the checks are stored: until then the change is asked for again.
    note_evaluated(db, client_id, own.system)


def _shown(value: Any) -> Any:
    from rageval_dagster.telling.run_page import Address, Markdown

    if isinstance(value, Markdown):
        return dg.MetadataValue.md(str(value))
    return dg.MetadataValue.url(str(value)) if isinstance(value, Address) else value


@client_asset("history", None, deps=[evaluation_runs], kinds={"html"}, leased=False)
def evaluation_report(step: Step, settings: RunSettings) -> Metadata:
    """A client's report as one HTML file, which only its owner may read."""
    # A run's page in Dagster opens at its end: this step, the last one, says there each verdict and what went wrong.
    # The page of all clients is made after the run, once for all runs that ended meanwhile (`automation/alerts.py`).
    from rageval_dagster.report.files import write_client_report
    from rageval_dagster.telling.links import ReportLinks

    present = load_settings()
    path = write_client_report(step.db, present, step.client_id)
    metadata: dict[str, dg.MetadataValue] = {
        "path": dg.MetadataValue.path(str(path)),
        "bytes": dg.MetadataValue.int(path.stat().st_size),
    }
    if url := ReportLinks(present.report_base_url).client(step.client_id):
        metadata["report"] = dg.MetadataValue.url(url)
    for line in _last_lines(step.db, step.client_id, settings.read().for_client(step.client_id)):
        step.context.instance.report_engine_event(f"{step.client_id}: {line}", step.context.run)
    return metadata


def _last_lines(db: Database, client_id: str, own: Settings) -> list[str]:
    from rageval_dagster.evaluation.summary import reports_of
    from rageval_dagster.gate.decision import judged_newest
    from rageval_dagster.telling.alarms import run_alarms
    from rageval_dagster.telling.links import ReportLinks
    from rageval_dagster.telling.run_page import verdict_lines
    from rageval_dagster.telling.verdicts import verdict_of

    verdicts = [verdict_of(db, each, own.max_error_share) for each in judged_newest(db, client_id)]
    lines = verdict_lines(reports_of(db, client_id), verdicts, ReportLinks(own.report_base_url))
    ran = [each.judged.evaluation for each in verdicts]
    return [*lines, *(f"{alarm.sentence} {alarm.command}" for alarm in run_alarms(db, ran, own.max_error_share))]


# No part of a run: a view is always up to date. Observed, it is never taken for older than what it is made from.
@dg.multi_observable_source_asset(
    specs=[
        dg.AssetSpec(
            name,
            group_name="history",
            kinds={"sql", "view"},
            owners=OWNERS,
            deps=[evaluation_runs],
            description=f"{description} It is always up to date; to see its first rows here, observe it.",
        )
        for name, description in VIEW_DESCRIPTIONS.items()
    ],
    can_subset=True,
)
@without_texts
def history_views(context: dg.AssetExecutionContext, rageval_database: HistoryDatabase) -> Iterator[dg.ObserveResult]:
    """The history as SQL views; observing one counts its rows."""
    from rageval_dagster.storage.views import view_preview

    db = rageval_database.open()
    for key in sorted(context.selected_asset_keys):
        preview = view_preview(db, key.to_user_string())
        yield dg.ObserveResult(
            asset_key=key,
            metadata={
                "dagster/row_count": preview.row_count,
                SCHEMA: view_schema(db, key.to_user_string()),
                "first_rows": dg.MetadataValue.md(preview.markdown),
            },
        )
