"""How a run of the evaluation job is asked for: partition, tags and configuration."""

from typing import Any

import dagster as dg

TRIGGER_TAG = "rageval/trigger"


def run_config(trigger: str, **plan: Any) -> dict[str, Any]:
    """The run's configuration: only what differs from the settings."""
    chosen = {name: value for name, value in plan.items() if value}
    return {"resources": {"plan": {"config": {"trigger": trigger, **chosen}}}}


def run_request(client_id: str, trigger: str, run_key: str, **plan: Any) -> dg.RunRequest:
    """A request for one client; Dagster skips a run key that it has seen before."""
    return dg.RunRequest(
        run_key=run_key,
        partition_key=client_id,
        tags={TRIGGER_TAG: trigger},
        run_config=run_config(trigger, **plan),
    )
