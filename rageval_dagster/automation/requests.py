"""How a run of the evaluation job is asked for: partition, tags and configuration."""

from collections.abc import Collection, Iterable
from typing import Any

import dagster as dg

from rageval_dagster.assets.partitions import CLIENTS_PARTITIONS
from rageval_dagster.automation.dagster_internals import partitions_at_work, statuses_by_tag
from rageval_dagster.automation.jobs import EVALUATION_JOB, UNDUE_KEYS
from rageval_dagster.corpus.names import partition_key
from rageval_dagster.resources.settings import PLAN

TRIGGER_TAG = "rageval/trigger"
CLIENT_TAG = "rageval/client"
"""For limits in dagster.yaml: those on Dagster's own tag of the partition hold for every other job, too."""


def run_config(trigger: str, **plan: Any) -> dict[str, Any]:
    """The run's configuration: only what differs from the settings."""
    chosen = {name: value for name, value in plan.items() if value}
    return {"resources": {PLAN: {"config": {"trigger": trigger, **chosen}}}}


def run_request(
    client_id: str, trigger: str, run_key: str, without_benchmark: bool = False, **plan: Any
) -> dg.RunRequest:
    """A request for one client, for all assets or only those `UNDUE_KEYS`; Dagster skips a run key that it has seen.

    With the partition's tag it is complete: Dagster would look up the partition of each, which for 1,000 takes seconds.
    """
    return dg.RunRequest(
        run_key=run_key,
        partition_key=partition_key(client_id),
        tags=run_tags(client_id, trigger),
        run_config=run_config(trigger, renewal_left_out=without_benchmark, **plan),
        asset_selection=UNDUE_KEYS if without_benchmark else None,
    )


def run_tags(client_id: str, trigger: str) -> dict[str, str]:
    """The tags by which a client's run for a trigger is found."""
    return {"dagster/partition": (key := partition_key(client_id)), CLIENT_TAG: key, TRIGGER_TAG: trigger}


def ensure_partitions(instance: dg.DagsterInstance, client_ids: Iterable[str]) -> None:
    """Adds the partitions of those clients that Dagster does not know yet."""
    missing = missing_partitions(instance, client_ids)
    if missing:
        instance.add_dynamic_partitions(CLIENTS_PARTITIONS, missing)


def missing_partitions(instance: dg.DagsterInstance, client_ids: Iterable[str]) -> list[str]:
    """The partition keys of those clients that Dagster does not know yet."""
    known = set(instance.get_dynamic_partitions(CLIENTS_PARTITIONS))
    return [key for key in map(partition_key, client_ids) if key not in known]


class AskedFor:
    """The runs of the evaluation job there are for some triggers, from two queries however many clients there are."""

    def __init__(self, instance: dg.DagsterInstance, triggers: Collection[str]) -> None:
        from rageval_dagster.storage.database import in_batches

        self._statuses: dict[tuple[str | None, str], list[dg.DagsterRunStatus]] = {}
        for batch in in_batches(triggers):
            for partition, trigger, status in statuses_by_tag(instance, EVALUATION_JOB, TRIGGER_TAG, batch):
                self._statuses.setdefault((partition, trigger), []).append(status)
        self._going_on = partitions_at_work(instance, EVALUATION_JOB)

    def has_run(self, client_id: str) -> bool:
        """Whether a run of the client waits or goes on, whatever its trigger."""
        return partition_key(client_id) in self._going_on

    def next_attempt(
        self, client_id: str, trigger: str, run_key: str, attempts: int, without_benchmark: bool = False
    ) -> dg.RunRequest | None:
        """The request for a trigger for which there is no run but failed ones, fewer than `attempts`.

        Its key is new after each failed run: Dagster skips a key for ever, also when its run failed. A key that was
        asked for before is skipped by it, so that a request lost between our database and Dagster's is made up for.
        """
        statuses = self._statuses.get((partition_key(client_id), trigger), [])
        failed = sum(status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED) for status in statuses)
        if failed < len(statuses) or failed >= attempts:
            return None
        return run_request(client_id, trigger, f"{run_key}:{failed + 1}", without_benchmark, only_if_changed=True)
