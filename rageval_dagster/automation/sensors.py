"""The document store sensor: it only probes; the run that it asks for scans."""

import json
import time

import dagster as dg

from rageval_dagster.assets.partitions import clients_partitions
from rageval_dagster.automation.jobs import EVALUATION_JOB, evaluation_job
from rageval_dagster.automation.requests import run_request, run_tags
from rageval_dagster.automation.schedules import time_of
from rageval_dagster.corpus.names import partition_key
from rageval_dagster.resources import DocumentStore, HistoryDatabase
from rageval_dagster.resources.lease import end_dead_run
from rageval_dagster.resources.textless import without_texts
from rageval_dagster.settings import load_settings

MAX_ATTEMPTS = 3
INTERVAL_S = 30


def document_store_sensor() -> dg.SensorDefinition:
    """Finds new, changed and vanished clients, adds partitions, and asks for one run per observed change."""

    @dg.sensor(
        name="document_store_sensor",
        job=evaluation_job,
        minimum_interval_seconds=INTERVAL_S,
        default_status=(dg.DefaultSensorStatus.RUNNING if load_settings().enabled else dg.DefaultSensorStatus.STOPPED),
        description="Evaluates a client again when its documents changed.",
    )
    @without_texts
    def sensor(
        context: dg.SensorEvaluationContext, database: HistoryDatabase, store: DocumentStore
    ) -> dg.SensorResult | dg.SkipReason:
        from rageval_dagster.monitoring.watching import observe
        from rageval_dagster.storage.clients import list_clients

        settings = load_settings()
        if not settings.enabled:
            return dg.SkipReason("EVALUATION_ENABLED is false")
        pending = {client: (probe, since) for client, (probe, since) in json.loads(context.cursor or "{}").items()}
        documents = store.open()
        probes, refused = documents.probes(), len(documents.refused())
        db = database.open()
        for client in list_clients(db):
            end_dead_run(context.instance, client)
        seen = observe(db, probes, pending, settings.settle_s, time.time())
        known = set(context.instance.get_dynamic_partitions(clients_partitions.name or ""))
        to_add = [key for key in map(partition_key, seen.outstanding) if key not in known]
        requests = [
            request
            for client_id, change_seq in seen.outstanding.items()
            if time_of(settings, client_id) is not None
            and (request := _next_attempt(context.instance, client_id, change_seq)) is not None
        ]
        looked_at = f"{len(probes)} clients looked at, {len(seen.pending)} still moving"
        if refused:
            looked_at += f", {refused} refused for their names (rageval clients list)"
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else looked_at,
            dynamic_partitions_requests=[clients_partitions.build_add_request(to_add)] if to_add else [],
            cursor=json.dumps(seen.pending),
        )

    return sensor


def _next_attempt(instance: dg.DagsterInstance, client_id: str, change_seq: int) -> dg.RunRequest | None:
    """The request for a change that is not evaluated yet, under a new key after each failed run.

    Dagster skips a run key for ever, also when its run failed; a key that was asked for before is skipped by it, so
    that a request lost between our database and Dagster's is made up for.
    """
    trigger = f"change:{change_seq}"
    runs = instance.get_runs(
        dg.RunsFilter(job_name=EVALUATION_JOB, tags=run_tags(client_id, trigger)), limit=MAX_ATTEMPTS + 1
    )
    failed = sum(run.status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED) for run in runs)
    if failed < len(runs) or failed >= MAX_ATTEMPTS:
        return None
    return run_request(client_id, trigger, run_key=f"{client_id}:{change_seq}:{failed + 1}", only_if_changed=True)
