"""How a run of the evaluation job is asked for: partition, tags and configuration."""

from typing import Any

import dagster as dg

from rageval_dagster.assets.partitions import CLIENTS_PARTITIONS
from rageval_dagster.corpus.names import partition_key

TRIGGER_TAG = "rageval/trigger"


def run_config(trigger: str, **plan: Any) -> dict[str, Any]:
    """The run's configuration: only what differs from the settings."""
    chosen = {name: value for name, value in plan.items() if value}
    return {"resources": {"plan": {"config": {"trigger": trigger, **chosen}}}}


def run_request(client_id: str, trigger: str, run_key: str, **plan: Any) -> dg.RunRequest:
    """A request for one client; Dagster skips a run key that it has seen before."""
    return dg.RunRequest(
        run_key=run_key,
        partition_key=partition_key(client_id),
        tags={TRIGGER_TAG: trigger},
        run_config=run_config(trigger, **plan),
    )


def run_tags(client_id: str, trigger: str) -> dict[str, str]:
    """The tags by which a client's run for a trigger is found."""
    return {"dagster/partition": partition_key(client_id), TRIGGER_TAG: trigger}


def ensure_partition(instance: dg.DagsterInstance, client_id: str) -> None:
    """Adds a client's partition where Dagster does not know it yet."""
    key = partition_key(client_id)
    if not instance.has_dynamic_partition(CLIENTS_PARTITIONS, key):
        instance.add_dynamic_partitions(CLIENTS_PARTITIONS, [key])
