"""The document store sensor: it only probes; the run that it asks for scans."""

import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import dagster as dg

from rageval_dagster.assets.partitions import clients_partitions
from rageval_dagster.automation.jobs import evaluation_job
from rageval_dagster.automation.requests import TRIGGER_TAG, AskedFor, missing_partitions
from rageval_dagster.automation.schedules import time_of
from rageval_dagster.automation.selection import without_benchmark
from rageval_dagster.errors import StoreError
from rageval_dagster.resources import DocumentStore, HistoryDatabase
from rageval_dagster.resources.textless import without_texts
from rageval_dagster.settings import Settings, load_settings
from rageval_dagster.storage.database import Database

if TYPE_CHECKING:
    from rageval_dagster.corpus.watching import Look

MAX_ATTEMPTS = 3
INTERVAL_S = 30

REQUESTS = 100
"""Runs asked for in one tick: Dagster takes some 0.1 s for each, and what is left comes with the next."""

RESCANS = 10
"""Of these, scans of clients that nothing is known to have changed of: they are spread."""


def document_store_sensor() -> dg.SensorDefinition:
    """Finds new, changed and vanished clients, adds partitions, and asks for one run per observed change.

    A client whose last scan is older than its settings allow gets a run, too, which ends early if nothing changed.
    """

    @dg.sensor(
        name="rageval_document_store_sensor",
        job=evaluation_job,
        minimum_interval_seconds=INTERVAL_S,
        default_status=(dg.DefaultSensorStatus.RUNNING if load_settings().enabled else dg.DefaultSensorStatus.STOPPED),
        description="Evaluates a client again when its documents change.",
    )
    @without_texts
    def sensor(
        context: dg.SensorEvaluationContext, rageval_database: HistoryDatabase, rageval_store: DocumentStore
    ) -> dg.SensorResult | dg.SkipReason:
        from rageval_dagster.corpus.watching import BUDGET_S, Cursor, probe_clients
        from rageval_dagster.storage.run_requests import freeze

        settings = load_settings()
        if not settings.enabled:
            return dg.SkipReason("EVALUATION_ENABLED is false")
        db = rageval_database.open()
        try:
            documents = rageval_store.open(patience_s=BUDGET_S)
            seen = probe_clients(db, documents, Cursor.read(context.cursor), settings, time.time())
        except StoreError as error:
            return dg.SkipReason(str(error))
        to_add = missing_partitions(context.instance, [*seen.outstanding, *seen.stale])
        asked = dict(islice(_requests(context.instance, db, settings, seen), REQUESTS))
        requests = list(asked.values())
        triggers = {client_id: request.tags[TRIGGER_TAG] for client_id, request in asked.items()}
        freeze(db, settings, triggers, {"only_if_changed": True})
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else _described(seen, len(documents.refused())),
            dynamic_partitions_requests=[clients_partitions.build_add_request(to_add)] if to_add else [],
            cursor=seen.cursor.text(),
        )

    return sensor


def _requests(
    instance: dg.DagsterInstance, db: Database, settings: Settings, seen: "Look"
) -> Iterator[tuple[str, dg.RunRequest]]:
    """With its client, for each change that is not evaluated yet, then for some of the scans that are due."""
    changes = {client_id: f"change:{change_seq}" for client_id, change_seq in seen.outstanding.items()}
    scans = {client_id: f"rescan:{due.since:%Y-%m-%dT%H:%M:%S}:{due.round}" for client_id, due in seen.stale.items()}
    asked = AskedFor(instance, {*changes.values(), *scans.values()})
    requested: set[str] = set()
    for client_id, trigger in changes.items():
        if time_of(settings, client_id) is not None:
            run_key = f"{client_id}:{seen.outstanding[client_id]}"
            request = asked.next_attempt(client_id, trigger, run_key, MAX_ATTEMPTS)
            if request is not None:
                requested.add(client_id)
                yield client_id, request
    rescans = 0
    fresh = without_benchmark(db, settings, scans)
    for client_id, trigger in scans.items():
        if client_id in requested or asked.has_run(client_id) or time_of(settings, client_id) is None:
            continue
        # A scan that keeps failing is tried once more each time that the same age has gone by again.
        attempts = MAX_ATTEMPTS if seen.stale[client_id].round == 1 else 1
        key = f"{client_id}:{trigger}"
        request = asked.next_attempt(client_id, trigger, key, attempts, without_benchmark=client_id in fresh)
        if request is not None and rescans < RESCANS:
            rescans += 1
            yield client_id, request


def _described(seen: "Look", refused: int) -> str:
    described = f"{seen.probed} of {seen.present} clients looked at, {len(seen.cursor.pending)} still moving"
    return f"{described}, {refused} refused for their names (rageval clients list)" if refused else described
