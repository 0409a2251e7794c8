"""The asset check of freshness: made by each run; where no run comes, the alert sensor reports it."""

import dagster as dg

from rageval_dagster.assets.partitions import clients_partitions
from rageval_dagster.resources import HistoryDatabase
from rageval_dagster.resources.textless import without_texts

FRESH = "fresh"


@dg.asset_check(asset="evaluation_runs", name=FRESH, partitions_def=clients_partitions)
@without_texts
def fresh(context: dg.AssetCheckExecutionContext, database: HistoryDatabase) -> dg.AssetCheckResult:
    """The newest complete evaluation is not older than RAGEVAL_FRESH_HOURS."""
    from rageval_dagster.gate.incidents import freshness
    from rageval_dagster.settings import load_settings
    from rageval_dagster.storage.types import utc_now

    client_id = database.client_of(context.partition_key)
    found = freshness(database.open(), load_settings(), client_id, utc_now())
    return dg.AssetCheckResult(passed=found.fresh, metadata=found.metadata())
