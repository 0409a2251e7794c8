"""One look of a sensor, and one slot of the nightly schedule, as the daemon would make them."""

from datetime import UTC, datetime
from typing import Any

import dagster as dg

from rageval_dagster.definitions import defs
from rageval_dagster.resources import DocumentStore, HistoryDatabase, RunSettings

RESOURCES = {
    "rageval_database": HistoryDatabase(),
    "rageval_store": DocumentStore(settings=RunSettings(database=HistoryDatabase())),
}


def look(name: str, instance: dg.DagsterInstance, cursor: str | None = None) -> Any:
    """What a sensor gives."""
    sensor = defs.resolve_sensor_def(name)
    wanted = {key: RESOURCES[key] for key in sensor.required_resource_keys}
    with dg.build_sensor_context(instance=instance, cursor=cursor, resources=wanted) as context:
        return sensor(context)


def tick(instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorResult:
    result = look("rageval_document_store_sensor", instance, cursor)
    assert isinstance(result, dg.SensorResult)
    return result


def nightly_requests(instance: dg.DagsterInstance) -> list[dg.RunRequest]:
    """Of the slot of 3 May 2026, 02:00 UTC."""
    schedule = defs.resolve_schedule_def("rageval_nightly_evaluation")
    context = dg.build_schedule_context(
        instance=instance,
        repository_def=defs.get_repository_def(),
        scheduled_execution_time=datetime(2026, 5, 3, 2, tzinfo=UTC),
        resources={"rageval_database": RESOURCES["rageval_database"]},
    )
    return list(schedule.evaluate_tick(context).run_requests or [])
