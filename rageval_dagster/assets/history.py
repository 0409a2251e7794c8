"""History assets: one row per evaluation with its summaries, and the SQL views that people and charts read."""

from collections.abc import Iterator

import dagster as dg

from rageval_dagster.assets.evaluation import metric_scores
from rageval_dagster.assets.partitions import OWNERS, clients_partitions
from rageval_dagster.resources import ClientLease, EvaluationPlan, HistoryDatabase, Judging
from rageval_dagster.resources.textless import without_texts

VIEW_DESCRIPTIONS = {
    "metric_history": "Every metric of every finished evaluation, with interval and counts.",
    "metric_trend": "Each metric over a client's last runs, with moving average and change.",
    "latest_per_client": "The newest finished evaluation of each client, dataset and system.",
    "run_against_previous": "Each evaluation beside the one before it: what changed, and by how much.",
    "hardest_questions": "The questions that score worst, by id.",
    "category_breakdown": "The headline metrics of each category of questions, with their number.",
    "dataset_overview": "The datasets of each client, with size, validity and use.",
    "fleet_overview": "All clients in one table, worst first.",
}


@dg.asset(
    group_name="history",
    kinds={"python", "sql"},
    owners=OWNERS,
    deps=[metric_scores],
    partitions_def=clients_partitions,
)
@without_texts
def evaluation_runs(
    context: dg.AssetExecutionContext,
    database: HistoryDatabase,
    lease: ClientLease,
    plan: EvaluationPlan,
    judging: Judging,
) -> dg.MaterializeResult:
    """One row of history per evaluation: versions, counts, headline metrics with intervals, verdict."""
    from rageval_dagster.evaluation.stages import evaluations_of
    from rageval_dagster.evaluation.summary import finish_all
    from rageval_dagster.evaluation.verdict import run_metadata

    db, client_id = database.open(), database.client_of(context.partition_key)
    reports = finish_all(
        db,
        client_id,
        plan.default_systems(client_id),
        evaluations_of(db, plan.request(client_id)),
        lambda evaluation: judging.metrics(client_id, evaluation.k),
    )
    return dg.MaterializeResult(metadata=run_metadata(reports, plan.thresholds(client_id)))


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            name,
            group_name="history",
            kinds={"sql", "view"},
            owners=OWNERS,
            deps=[evaluation_runs],
            description=description,
        )
        for name, description in VIEW_DESCRIPTIONS.items()
    ],
    can_subset=True,
)
@without_texts
def history_views(context: dg.AssetExecutionContext, database: HistoryDatabase) -> Iterator[dg.MaterializeResult]:
    """The history as SQL views; each is always up to date, materializing it counts its rows."""
    from rageval_dagster.storage.views import view_preview

    db = database.open()
    # What a client's run tells is of this client alone: whoever is forgotten stands in no other's run.
    key = context.run.tags.get("dagster/partition")
    client_id = None if key is None else database.client_of(key)
    for key in sorted(context.selected_asset_keys):
        preview = view_preview(db, key.to_user_string(), client_id=client_id)
        yield dg.MaterializeResult(
            asset_key=key,
            metadata={
                "dagster/row_count": preview.row_count,
                "first_rows": dg.MetadataValue.md(preview.markdown),
            },
        )
